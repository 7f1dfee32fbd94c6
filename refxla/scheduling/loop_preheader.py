"""The steps before a loop, to which what is the same in every iteration is moved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ..ir import plan as p
from .plan_builder import MemoryBlock, Steps


@dataclass
class Preheader:
    """What is around the body of a loop: the steps before it, which may become more, and the blocks that are the same
    in every iteration; the same of the loop around that, if there is one, and the steps that went there from here."""

    steps: Steps
    invariant: set[MemoryBlock]
    outer: Preheader | None = None
    passed: Steps = field(default_factory=list)

    def is_invariant(self, block: MemoryBlock) -> bool:
        """Whether a block is the same in every iteration."""
        return block in self.invariant or block.space == p.CONSTANT

    def hoist(self, step: p.Launch, reads: Sequence[MemoryBlock]) -> None:
        """Adds a step that reads these blocks before the outermost loop in which they are the same."""
        if self.outer is not None and all(map(self.outer.is_invariant, reads)):
            self.passed.append(step)
            self.outer.hoist(step, reads)
        else:
            self.steps.append(step)

    def launches(self) -> list[p.Launch]:
        """The launches among the steps."""
        return [step for step in self.steps if isinstance(step, p.Launch)]
