"""How much memory a program needs, and the memory that arrays of results lie in."""

from __future__ import annotations

from dataclasses import dataclass

from .._core.buffer_pool import set_limit, trim, usage
from ..ir.plan import Plan

__all__ = ["Memory", "set_limit", "trim", "usage"]


@dataclass(frozen=True)
class Memory:
    """Bytes a program needs: `constants`, `arena` and `workspace` as long as it lives, the rest for each call. Of the
    results, `aliases` lie in the memory of donated parameters.

    On a CPU device the parameters are the caller's own arrays, and the results are arrays whose memory comes from a
    pool (`usage`, `trim`, `set_limit`); on other devices both have memory there too, as long as the program lives.
    """

    parameters: int
    results: int
    constants: int
    arena: int
    workspace: int
    aliases: int = 0

    @classmethod
    def of(cls, plan: Plan) -> Memory:
        """What a plan needs."""
        return cls(
            parameters=sum(s.bytes for s in plan.parameters),
            results=sum(s.bytes for s in plan.results),
            constants=plan.constant_bytes,
            arena=plan.arena_bytes,
            workspace=plan.workspace_bytes,
            aliases=sum(plan.results[result].bytes for result, _ in plan.aliases),
        )

    def __str__(self) -> str:
        return ", ".join(f"{name} {getattr(self, name):,} bytes" for name in self.__dataclass_fields__)
