"""Loops and conditionals of a program for several devices, which may differ in them or exchange values."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from refxla_spec.errors import UnsupportedError
from refxla_spec.module import Computation, Instruction
from refxla_spec.types import PRED, Shape

from ..._core.shapes import make
from ...ir.builder import Build
from ..dce import called_first
from ..value_numbering import ValueNumbers
from .collectives import combined_in_order
from .one_device_builder import OneDeviceBuilder, PerDevice, Value


class ControlFlow:
    """Writes loops and conditionals with a builder. `walk(computation, arguments)` adds what a computation of the old
    program computes, and gives its value. Devices exchange values in the computations `meetings`."""

    def __init__(
        self,
        builder: OneDeviceBuilder,
        walk: Callable[[Computation, Sequence[Value]], Value],
        meetings: Collection[Computation],
    ) -> None:
        self.builder, self.walk, self.meetings = builder, walk, meetings
        self.numbers = ValueNumbers()

    def write(self, i: Instruction, operands: list[Value]) -> Value:
        """Adds a while loop or a conditional in which devices meet or differ, and gives its value."""
        return self._loop(i, operands[0]) if i.opcode == "while" else self._branch(i, operands)

    def _loop(self, i: Instruction, state: Value, until_all_are_done: bool = False) -> Value:
        """A loop in which devices meet or differ.

        All devices iterate together if their conditions are provably equal: computed in the same way from parts of the
        state that start equal and change equally. Otherwise each device has a loop of its own, unless devices meet in
        it. If they do, they iterate until all are done, and a device that is done keeps its state.
        """
        parts, per_device = self.builder.parts(state)
        shape = Shape.tuple_of(*(p.shape for p in parts))
        predicates: list[Instruction] = []

        def inside(whole: Instruction) -> Value:
            self.numbers.set(whole, self._state(whole, parts, alike))
            return self.builder.value_of(self.builder.elements(whole), per_device)

        def condition(whole: Instruction) -> Instruction:
            result = self.walk(i.condition, [inside(whole)])
            if isinstance(result, PerDevice) and not per_device:
                raise _Differs
            predicates[:], _ = self.builder.parts(result)
            if not until_all_are_done:
                return predicates[0]
            return self.builder.add(combined_in_order(Build(i.name), "or", predicates))

        def body(whole: Instruction) -> Instruction:
            before = inside(whole)
            results, became = self.builder.parts(self.walk(i.body, [before]), per_device)
            if became != per_device:
                raise _Differs
            if until_all_are_done:
                goes_on, _ = self.builder.parts(self.walk(i.condition, [before]), True)
                olds, _ = self.builder.parts(before)
                results = [self._chosen(*x) for x in zip(goes_on, results, olds, strict=True)]
            return self.builder.add(make("tuple", *results))

        alike = self._alike(parts)
        while True:
            try:
                called: dict[str, Any] = {
                    "condition": self.builder.computation(i.condition.name, shape, condition),
                    "body": self.builder.computation(i.body.name, shape, body),
                }
            except _Differs:  # what was global before an iteration differs between devices after it
                return self._loop(i, self.builder.each(lambda d: self.builder.part(state, d)))
            remains = alike & self._alike(called["body"].root.operands)
            if remains == alike:
                break
            alike = remains
        shared = len({self.numbers.of(t) for t in predicates}) == 1
        if not shared and not until_all_are_done:
            if any(c in self.meetings for c in i.called):
                _check_repeatable(i)
                return self._loop(i, state, until_all_are_done=True)
            return self._alone(i, [state])
        loop = self.builder.add(make("while", self.builder.add(make("tuple", *parts)), name=i.name, **called))
        self.numbers.set(loop, self._state(loop, parts, alike))
        return self.builder.value_of(self.builder.elements(loop), per_device)

    def _alike(self, parts: Sequence[Instruction]) -> set[int]:
        """Which elements of the state, given as a tuple for each device, are equal on all devices."""
        numbers = [self.numbers.elements(p) if p.shape.is_tuple else (self.numbers.of(p),) for p in parts]
        return {k for k, of_devices in enumerate(zip(*numbers, strict=True)) if len(set(of_devices)) == 1}

    def _state(self, whole: Instruction, parts: Sequence[Instruction], alike: set[int]) -> int:
        """The value number of all devices' states, where the elements `alike` are equal on all devices."""

        def element(device: int, k: int) -> int:
            return self.numbers.key(("state", whole, k, None if k in alike else device))

        return self.numbers.tuple_of(
            [
                self.numbers.tuple_of([element(d, k) for k in range(len(p.shape.elements))])
                if p.shape.is_tuple
                else element(d, 0)
                for d, p in enumerate(parts)
            ]
        )

    def _chosen(self, choice: Instruction, new: Instruction, old: Instruction) -> Instruction:
        """The new value where the choice is true, otherwise the old one; both may be tuples."""
        b = Build(new.name)
        if new.shape.is_tuple:
            pairs = zip(self.builder.elements(new), self.builder.elements(old), strict=True)
            return self.builder.add(b.make("tuple", *(self._chosen(choice, *pair) for pair in pairs)))
        if new.shape.element_type.kind == "token":
            return new
        wide = b.spread(choice, Shape(PRED, new.shape.dimensions), ()) if new.shape.rank else choice
        return self.builder.add(b.make("select", wide, new, old))

    def _branch(self, i: Instruction, operands: list[Value]) -> Value:
        """A conditional in whose branches devices meet or differ.

        All devices take the same branch if the choice is provably equal. Otherwise each device has a conditional of its
        own, unless devices meet in it. If they do, all branches are executed for all devices, and each device selects
        the results of its own.
        """
        index, *arguments = operands
        shared = len({self.numbers.of(x) for x in self.builder.parts(index)[0]}) == 1
        flat = [self.builder.parts(o) for o in arguments]
        binary = "true_computation" in i.attributes
        branches = (i.true_computation, i.false_computation) if binary else i.branch_computations
        if not shared and not any(c in self.meetings for c in branches):
            return self._alone(i, operands)
        if not shared:
            _check_repeatable(i)
            results = [self.builder.parts(self.walk(c, [o]), True)[0] for c, o in zip(branches, arguments, strict=True)]
            return self.builder.each(lambda d: self._choice(i, self.builder.part(index, d), [r[d] for r in results]))

        def computation(source: Computation, n: int) -> Computation:
            parts, per_device = flat[n]

            def body(whole: Instruction) -> Instruction:
                result = self.walk(source, [self.builder.value_of(self.builder.elements(whole), per_device)])
                results, _ = self.builder.parts(result, True)
                return self.builder.add(make("tuple", *results))

            return self.builder.computation(source.name, Shape.tuple_of(*(p.shape for p in parts)), body)

        computations = [computation(c, n) for n, c in enumerate(branches)]
        called: dict[str, Any]
        if binary:
            called = dict(zip(("true_computation", "false_computation"), computations, strict=True))
        else:
            called = {"branch_computations": tuple(computations)}
        packed = [self.builder.add(make("tuple", *parts)) for parts, _ in flat]
        conditional = self.builder.add(make("conditional", self.builder.part(index, 0), *packed, name=i.name, **called))
        return self.builder.each(lambda d: make("get-tuple-element", conditional, index=d))

    def _choice(self, i: Instruction, index: Instruction, results: Sequence[Instruction]) -> Instruction:
        """The result of the branch number `index`, from the results of all branches."""
        b = Build(i.name)
        if index.shape.element_type.kind == "pred":
            return self._chosen(index, *results)
        *others, chosen = results  # the last one also for an index out of range
        for n, result in enumerate(others):
            here = self.builder.add(b.make("compare", index, b.scalar(n, index.shape.element_type), direction="EQ"))
            chosen = self._chosen(here, result, chosen)
        return chosen

    def _alone(self, i: Instruction, operands: Sequence[Value]) -> Value:
        """A loop or a conditional in which devices differ but do not meet: each has one of its own."""

        def own(value: Any) -> Any:
            if isinstance(value, tuple):
                return tuple(map(own, value))
            if not isinstance(value, Computation):
                return value
            (parameter,) = value.parameters
            return self.builder.computation(
                value.name, parameter.shape, lambda whole: self.builder.part(self.walk(value, [whole]), 0)
            )

        def of_device(d: int) -> Instruction:
            with self.builder.only(d):
                attributes = {k: own(v) for k, v in i.attributes.items()}
            return Instruction(
                i.name, i.opcode, i.shape, [self.builder.part(o, d) for o in operands], attributes, i.metadata
            )

        return self.builder.each(of_device)


class _Differs(Exception):
    """A loop's state is global before an iteration, but differs between devices after it."""


def _check_repeatable(i: Instruction) -> None:
    """Raises UnsupportedError where devices that meet in a loop or conditional may take different paths through it, and
    there are side effects in it."""
    for c in (c for outer in i.called for c in called_first(outer)):
        for inner in c.instructions:
            if inner.opcode in ("infeed", "outfeed", "send", "recv") or inner.attributes.get(
                "custom_call_has_side_effect"
            ):
                raise UnsupportedError(
                    f"{inner.name}: {inner.opcode} has no equivalent on one device that stands for several, in "
                    f"{i.name}, through which they go on different ways though they meet there"
                )
