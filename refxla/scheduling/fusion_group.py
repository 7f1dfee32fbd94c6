"""What instruction fusion returns: groups of nodes that become kernels, and the edges that it did not fuse."""

from __future__ import annotations

from dataclasses import dataclass

from refxla_spec.module import Instruction


@dataclass(frozen=True)
class FusionGroup:
    """Nodes of a Graph, by number, that become one kernel.

    `kind` names the emitter (see plan.Fusion), or is "control" for a node that runs other computations, or "tile" for
    groups that are fused tile by tile (tiled_fusion.py). `members` are in order; `heroes` and `outputs` are those that
    need an emitter of their own and those that are written to memory. `pointwise_inputs` are the nodes that a loop, or
    the epilogue of a product, reads from memory at the index that it writes and at no other: their memory may become
    the result's.
    """

    kind: str
    heroes: tuple[int, ...]
    members: tuple[int, ...]
    outputs: tuple[int, ...]
    pointwise_inputs: frozenset[int] = frozenset()


@dataclass(frozen=True)
class UnfusedEdge:
    """Node `producer` is not fused into group number `user`, and the reason. If the cost model decided: the nanoseconds
    of the two as separate kernels (`unfused`) and as one (`fused`); otherwise 0. InstructionFusion._refuse of
    _core/fusion.pyx records them; GroupedComputation makes Refusals of them."""

    producer: int
    user: int
    reason: str
    unfused: float
    fused: float


@dataclass(frozen=True)
class Refusal:
    """An edge that was not fused: the producer, the kernel that reads its value, the reason, and the cost model's times
    (ns). compiler/explanation.py prints it."""

    producer: Instruction
    user: str
    reason: str
    unfused: float
    fused: float

    @property
    def costs(self) -> str:
        """The times that decided, in parentheses; empty if cost did not decide."""
        return f" ({self.unfused / 1e3:.1f} us unfused, {self.fused / 1e3:.1f} us fused)" if self.fused else ""

    def __str__(self) -> str:
        return f"{self.producer.opcode} {self.producer.name}: {self.reason}{self.costs}"
