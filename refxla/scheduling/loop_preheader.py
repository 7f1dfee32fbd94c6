"""The steps before a loop, to which loop-invariant steps are hoisted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ..ir import plan as p
from .memory_blocks import MemoryBlock
from .plan_builder import Steps


@dataclass
class Preheader:
    """The preheader of a loop: the steps before it, to which hoisted ones are added, and the loop-invariant blocks; the
    preheader of the enclosing loop, if there is one, and the steps that were passed on to it."""

    steps: Steps
    invariant: set[MemoryBlock]
    outer: Preheader | None = None
    passed: Steps = field(default_factory=list)

    def inner(self) -> Preheader:
        """The preheader of the branches of a conditional in the loop, to which what they hoist is passed on. It is done
        whether or not a branch is taken."""
        return Preheader([], self.invariant, self)

    def is_invariant(self, block: MemoryBlock) -> bool:
        """Whether a block is loop-invariant."""
        return block in self.invariant or block.space == p.CONSTANT

    def hoist(self, step: p.Launch, reads: Sequence[MemoryBlock]) -> None:
        """Adds a step that reads these blocks before the outermost loop in which they are invariant."""
        if self.outer is not None and all(map(self.outer.is_invariant, reads)):
            self.passed.append(step)
            self.outer.hoist(step, reads)
        else:
            self.steps.append(step)

    def launches(self) -> list[p.Launch]:
        """The launches among the steps."""
        return [step for step in self.steps if isinstance(step, p.Launch)]
