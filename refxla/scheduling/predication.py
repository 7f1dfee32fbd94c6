"""Predication: a GPU finds out by itself which launches of a loop or conditional have something to do.

Otherwise the host reads a predicate before it goes on: some 20 microseconds, in which the device is idle.

    loops           In a loop that ends by a predicate, the kernels of the body do nothing once the predicate is false.
                    So the host launches several iterations before it reads it again (_core/executor.pyx: `poll`). Those
                    after the last one change nothing: the condition, which is computed again, has the same value, since
                    it depends on the state alone.
    conditionals    The kernels of all branches are launched, and those of one have something to do, if the others are
                    few.

The predicates are further arguments of a kernel (Kernel.predicates). Copies become kernels. The host still reads the
predicate of each iteration of a loop in which it has something to do: it calls a function, or has to know how an inner
loop goes on. (Two such loops could be one with a state, whose kernels all have predicates. But then each iteration of
the inner loop launches all kernels around it for nothing, which takes longer than a read if they are more than
READ_LAUNCHES.) Likewise where the only step is a kernel that runs many iterations itself (serial_control_flow.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ..ir import plan as p
from .merged_kernel import copy_kernel, uses
from .plan_builder import PlanBuilder

COPY_GROUPS = 1 << 12  # of a kernel that copies: enough to keep any device busy
MOST_ARGUMENTS = 60  # of a kernel on a GPU, where each is a pointer and an offset


@dataclass(frozen=True)
class _Choice:
    """A predicate of steps: what the value in a buffer has to be, as in plan.Predicate."""

    buffer: int
    of_pred: bool
    branch: int
    branches: int


class Predication:
    """The predication of a plan whose blocks and kernels `builder` has; `group` is the number of items of a
    work-group."""

    def __init__(self, builder: PlanBuilder, group: int) -> None:
        self.builder, self.group = builder, group
        self.numbers: dict[tuple[int, tuple[p.Predicate, ...]], int] = {}  # of kernels with predicates
        self.copies: dict[int, int] = {}  # of the kernels that copy, by the bytes

    def steps(self, steps: Iterable[p.Step]) -> list[p.Step]:
        """The steps, with predication where that is possible."""
        result: list[p.Step] = []
        for step in steps:
            match step:
                case p.Loop(condition, predicate, body) if body and self._can_have_predicates(body):
                    result.append(self._predicated_loop(self.steps(condition), predicate, body))
                case p.Loop(condition, predicate, body):
                    result.append(p.Loop(tuple(self.steps(condition)), predicate, tuple(self.steps(body))))
                case p.Repeat(_, body):
                    result.append(replace(step, body=tuple(self.steps(body))))
                case p.Branch() if self._can_have_predicates([step]):
                    result += self._predicated([step], ())
                case p.Branch(_, branches):
                    result.append(replace(step, branches=tuple(tuple(self.steps(b)) for b in branches)))
                case _:
                    result.append(step)
        return result

    def _can_have_predicates(self, steps: Iterable[p.Step]) -> bool:
        """Whether all that steps do is launched, and the launches of branches that are not taken are few."""
        for step in steps:
            match step:
                case p.Launch(_, buffers):
                    if len(buffers) >= MOST_ARGUMENTS:
                        return False
                case p.Repeat(_, body):
                    if not self._can_have_predicates(body):
                        return False
                case p.Branch(_, branches):
                    counts = list(map(p.launch_count, branches))
                    if sum(counts) - min(counts) > p.READ_LAUNCHES:
                        return False
                    if not all(map(self._can_have_predicates, branches)):
                        return False
                case p.Copy():
                    pass
                case _:
                    return False
        return True

    def _predicated_loop(self, condition: Sequence[p.Step], predicate: int, body: Sequence[p.Step]) -> p.Loop:
        """A loop that runs ahead of the host."""
        builder = self.builder
        if any(predicate in uses(step, builder.kernels)[1] for step in body):  # while others read it
            between = builder.memory.scratch("predicate", "pred", 1)
            condition, predicate = (*condition, p.Copy(predicate, between)), between
        parts = self._predicated(body, (_Choice(predicate, True, 0, 2),))
        return p.Loop(tuple(condition), predicate, parts, is_predicated=True)

    def _predicated(self, steps: Iterable[p.Step], choices: tuple[_Choice, ...]) -> tuple[p.Step, ...]:
        """Steps that do nothing unless the choices hold; only the counter of an inner loop is set nevertheless, which
        nothing else reads."""
        result: list[p.Step] = []
        for step in steps:
            match step:
                case p.Launch(kernel, buffers):
                    result.append(self._launch(kernel, buffers, choices))
                case p.Copy(source, target):
                    kernel = self._copy(self.builder.memory.blocks[source].bytes)
                    result.append(self._launch(kernel, (source, target), choices))
                case p.Repeat(_, body):
                    result.append(replace(step, body=self._predicated(body, choices)))
                case p.Branch(index, branches):
                    of_pred = self.builder.memory.blocks[index].shape.element_type.kind == "pred"
                    for n, branch in enumerate(branches):
                        chosen = _Choice(index, of_pred, n, len(branches))
                        result += self._predicated(branch, (*choices, chosen))
        return tuple(result)

    def _launch(self, number: int, buffers: tuple[int, ...], choices: Sequence[_Choice]) -> p.Launch:
        """The launch of a kernel, which does nothing unless the choices hold."""
        kernels, first = self.builder.kernels, len(buffers)
        predicates = tuple(p.Predicate(first + n, c.of_pred, c.branch, c.branches) for n, c in enumerate(choices))
        key = number, predicates
        if key not in self.numbers:
            self.numbers[key] = len(kernels)
            more = [p.Argument("input", *(("uchar", None, 1) if c.of_pred else ("int", None, 4))) for c in choices]
            arguments = (*kernels[number].arguments, *more)
            kernels.append(replace(kernels[number], arguments=arguments, predicates=predicates))
        return p.Launch(self.numbers[key], (*buffers, *(c.buffer for c in choices)))

    def _copy(self, size: int) -> int:
        """The number of the kernel that copies so many bytes."""
        if size not in self.copies:
            self.copies[size] = len(self.builder.kernels)
            self.builder.kernels.append(copy_kernel(size, self.group, COPY_GROUPS))
        return self.copies[size]
