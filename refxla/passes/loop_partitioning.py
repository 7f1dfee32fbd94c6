"""Partitions a loop along a batch dimension: a loop over parts of the batch, each of which runs the loop for its part.

    state = while(state) { ... }                   f32[100,3], say
becomes
    for each part in 0..n:                         a loop whose iterations do not need each other
        own = dynamic-slice(state, part)           f32[100/n,3]
        own = while(own) { ... }                   the same loop, of the part's shapes
        result = dynamic-update-slice(result, own, part)

Values that have no batch dimension are computed for each part; they are the same for all. What differs along the batch
and is no operand of the loop, an iota or a constant, is that of the part (`start` is the number of its first element).
analysis/batch_dimensions.py says along which dimensions this is possible. No operation is added to the elements'
computation, and none has another order.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
from refxla_spec.module import Computation, Instruction, SliceDimension, post_order
from refxla_spec.types import PRED, S32, Shape

from .._core.shapes import make
from ..analysis.batch_dimensions import BatchDimensions
from ..analysis.conditional_analysis import branch_computations, root_leaves
from ..analysis.dimension_classes import Dimension, Value
from ..analysis.while_loop_analysis import loop_invariant_elements
from ..ir.builder import Build


def partitioned(
    loop: Instruction,
    dimensions: BatchDimensions,
    batch: Dimension,
    count: int,
    unread: Collection[int],
    results: Sequence[int],
) -> Computation:
    """A computation of what `loop` computes, by a loop over `count` equal parts of the batch: its parameters are the
    elements of the loop's initial state, of which it does not read those of the numbers `unread`, and its results those
    of the state after it of the numbers `results`."""
    return _Partitioning(loop, dimensions, batch, count, unread).computation(results)


def parallel_loop_of(computation: Computation) -> Instruction:
    """The loop over the parts in a computation that `partitioned` gave."""
    return next(i for i in computation.instructions if i.opcode == "while")


class _Partitioning:
    """The rewrite of one loop."""

    def __init__(
        self, loop: Instruction, dimensions: BatchDimensions, batch: Dimension, count: int, unread: Collection[int]
    ) -> None:
        self.loop, self.dimensions, self.batch, self.count = loop, dimensions, batch, count
        self.unread = unread
        self.block = dimensions.size(batch) // count

    def computation(self, wanted: Sequence[int]) -> Computation:
        """See `partitioned`."""
        loop, initial = self.loop, self.loop.operands[0].operands
        b = Build(f"{loop.name}.parts")
        invariant = loop_invariant_elements(loop)
        varying = [k for k in wanted if k not in invariant]
        parameters = [
            Instruction(f"{loop.name}.parameter.{k}", "parameter", o.shape, [], {"number": k})
            for k, o in enumerate(initial)
        ]
        # Constants stay known in the inner loop: they say how often it runs.
        passed = [k for k, o in enumerate(initial) if not _is_number(o) and k not in self.unread]
        results = {k: b.full(0, self._whole(initial[k].shape, k)) for k in varying}
        state = [b.scalar(0, S32), *(parameters[k] for k in passed), *results.values()]
        init = b.make("tuple", *state)
        outer = make(
            "while", init, name=f"{loop.name}.parts", shape=init.shape,
            condition=self._condition(init.shape), body=self._body(init.shape, passed, varying),
        )  # fmt: skip
        after: dict[int, Instruction] = {}
        for n, k in enumerate(varying):
            value = b.make("get-tuple-element", outer, index=1 + len(passed) + n)
            after[k] = value if self._dimension_of(k) is not None else self._first(b, value)
        root = b.make("tuple", *(after.get(k, parameters[k]) for k in wanted))
        return _computation(f"{loop.name}.partitioned", root, parameters)

    def _dimension_of(self, k: int) -> int | None:
        """The batch dimension of element k of the loop's state."""
        return self.dimensions.dimension((self.loop, k), self.loop.shape.elements[k].rank, self.batch)

    def _whole(self, shape: Shape, k: int) -> Shape:
        """The shape of the results of all parts for an element of the state of this shape."""
        own = shape.without_layout()
        return own if self._dimension_of(k) is not None else own.with_dimensions((self.count, *own.dimensions))

    @staticmethod
    def _first(b: Build, values: Instruction) -> Instruction:
        """The first of several equal values."""
        sizes = values.shape.dimensions
        one = b.slice(values, (0,) * len(sizes), (1, *sizes[1:]))
        return b.reshape(one, sizes[1:])

    def _condition(self, shape: Shape) -> Computation:
        b = Build(f"{self.loop.name}.more_parts")
        parameter = Instruction(f"{b.name}.state", "parameter", shape, [], {"number": 0})
        part = b.make("get-tuple-element", parameter, index=0)
        test = b.make("compare", part, b.scalar(self.count, S32), shape=Shape(PRED), direction="LT")
        return _computation(b.name, test, [parameter])

    def _body(self, state: Shape, passed: list[int], varying: list[int]) -> Computation:
        """An iteration: one part."""
        loop, initial = self.loop, self.loop.operands[0].operands
        b = Build(f"{loop.name}.part")
        parameter = Instruction(f"{b.name}.state", "parameter", state, [], {"number": 0})
        elements = [b.make("get-tuple-element", parameter, index=n) for n in range(len(state.elements))]
        part = elements[0]
        zero = b.scalar(0, S32)
        start = b.make("multiply", part, b.scalar(self.block, S32))

        def starts(rank: int, d: int, first: Instruction) -> list[Instruction]:
            return [first if e == d else zero for e in range(rank)]

        own: list[Instruction] = []
        for k, value in enumerate(initial):
            d, shape = self._dimension_of(k), self._part((loop, k), value.shape)
            if k in self.unread:
                own.append(b.full(0, shape))
            elif k not in passed:
                own.append(b.make("constant", shape=shape, literal=value.literal))
            elif d is None:
                own.append(elements[1 + passed.index(k)])
            else:
                at, sizes = starts(shape.rank, d, start), shape.dimensions
                own.append(b.make("dynamic-slice", elements[1 + passed.index(k)], *at, dynamic_slice_sizes=sizes))
        inner = self._loop(loop, own, start)
        written = []
        for n, k in enumerate(varying):
            value = b.make("get-tuple-element", inner, index=k)
            whole, d = elements[1 + len(passed) + n], self._dimension_of(k)
            first = start
            if d is None:
                value, d, first = b.reshape(value, (1, *value.shape.dimensions)), 0, part
            written.append(b.make("dynamic-update-slice", whole, value, *starts(whole.shape.rank, d, first)))
        following = b.make("add", part, b.scalar(1, S32))
        root = b.make("tuple", following, *elements[1 : 1 + len(passed)], *written)
        return _computation(b.name, root, [parameter])

    # -- the loop of a part --------------------------------------------------------------------------------------------

    def _part_dimensions(self, value: Value, shape: Shape) -> tuple[int, ...]:
        """The dimensions of a value in a part."""
        d = self.dimensions.dimension(value, shape.rank, self.batch)
        return tuple(self.block if e == d else n for e, n in enumerate(shape.dimensions))

    def _part(self, value: Value, shape: Shape) -> Shape:
        """The shape of an array in a part."""
        return shape.without_layout().with_dimensions(self._part_dimensions(value, shape))

    def _needs_start(self, *computations: Computation) -> bool:
        """Whether computations have an iota or a constant that differs along the batch."""
        for computation in computations:
            for i in computation.instructions:
                called = [i.body, i.condition] if i.opcode == "while" else []
                called = list(branch_computations(i)) if i.opcode == "conditional" else called
                if self._differs(i) or self._needs_start(*called):
                    return True
        return False

    def _differs(self, i: Instruction) -> bool:
        """Whether an instruction without operands has other elements in each part."""
        if i.opcode not in ("iota", "constant"):
            return False
        d = self.dimensions.dimension(i, i.shape.rank, self.batch)
        if d is None:
            return False
        if i.opcode == "iota":
            return bool(i.iota_dimension == d)
        first = np.take(i.literal, [0], d)
        return not np.array_equal(_bits(i.literal), _bits(np.broadcast_to(first, i.literal.shape)))

    def _loop(self, loop: Instruction, initial: list[Instruction], start: Instruction | None) -> Instruction:
        """A loop of a part's shapes; `initial` are the values of its state before it."""
        extended = start is not None and self._needs_start(loop.body, loop.condition)
        state = [*initial, start] if extended and start is not None else initial
        init = make("tuple", *state, name=f"{loop.name}.part.init")
        body, condition = (
            self._called(c, init.shape, extended, is_body)
            for c, is_body in ((loop.body, True), (loop.condition, False))
        )
        return make("while", init, name=f"{loop.name}.part", shape=init.shape, condition=condition, body=body)

    def _called(self, computation: Computation, shape: Shape, extended: bool, is_body: bool) -> Computation:
        """A computation with a tuple parameter of this shape, whose last element is the part's start if it is
        `extended`; a body returns that unchanged."""
        old = computation.parameters[0]
        parameter = Instruction(f"{old.name}.part", "parameter", shape, [], {"number": 0})
        start = None
        if extended:
            start = make("get-tuple-element", parameter, name=f"{old.name}.start", index=len(shape.elements) - 1)
        new: dict[Instruction, Instruction] = {old: parameter}
        for i in computation.instructions:
            if i is not old and i is not computation.root:
                new[i] = self._cut(i, new, start)
        root = computation.root
        if is_body and extended and start is not None:
            new[root] = make("tuple", *(new[o] for o in root_leaves(computation)), start, name=f"{root.name}.part")
        elif root not in new:
            new[root] = self._cut(root, new, start)
        return _computation(f"{computation.name}.part", new[root], [parameter])

    def _cut(self, i: Instruction, new: dict[Instruction, Instruction], start: Instruction | None) -> Instruction:
        """An instruction of a part's shape; `new` has its operands."""
        operands = [new[o] for o in i.operands]
        name = f"{i.name}.part"
        if i.opcode == "while":
            return self._loop(i, list(operands[0].operands), start)
        if i.opcode == "conditional":
            return self._conditional(i, operands, start)
        if i.opcode == "tuple":
            return make("tuple", *operands, name=name)
        if i.shape.is_tuple:
            elements = [self._part((i, k), s) for k, s in enumerate(i.shape.elements)]
            shape = Shape.tuple_of(*elements)
        else:
            shape = self._part(i, i.shape)
        copy = Instruction(name, i.opcode, shape, operands, dict(i.attributes), i.metadata)
        if shape.is_tuple or shape.dimensions == i.shape.dimensions and i.opcode != "gather":
            return copy
        if self._differs(i):
            assert start is not None
            return self._own(i, shape, start)
        if i.opcode == "constant":
            copy.attributes["literal"] = np.ascontiguousarray(i.literal[tuple(slice(n) for n in shape.dimensions)])
        elif i.opcode == "slice":
            sizes = zip(i.attributes["slice"], i.shape.dimensions, shape.dimensions, strict=True)
            copy.attributes["slice"] = tuple(s if n == m else SliceDimension(0, m) for s, n, m in sizes)
        elif i.opcode == "dynamic-slice":
            copy.attributes["dynamic_slice_sizes"] = shape.dimensions
        elif i.opcode == "gather":
            old, source = i.operands[0].shape.dimensions, operands[0].shape.dimensions
            sizes = zip(i.slice_sizes, old, source, strict=True)
            copy.attributes["slice_sizes"] = tuple(m if s == n else s for s, n, m in sizes)
        return copy

    def _own(self, i: Instruction, shape: Shape, start: Instruction) -> Instruction:
        """What a part has of an iota or a constant."""
        b = Build(f"{i.name}.part")
        d = self.dimensions.dimension(i, i.shape.rank, self.batch)
        if i.opcode == "constant":
            zero = b.scalar(0, S32)
            starts = [start if e == d else zero for e in range(i.shape.rank)]
            whole = b.make("constant", shape=i.shape, literal=i.literal)
            return b.make("dynamic-slice", whole, *starts, dynamic_slice_sizes=shape.dimensions)
        return b.part_of_iota(shape, i.iota_dimension, start)

    def _conditional(self, i: Instruction, operands: list[Instruction], start: Instruction | None) -> Instruction:
        """A conditional of a part's shapes."""
        branches, arguments = [], []
        for called, operand in zip(branch_computations(i), operands[1:], strict=True):
            extended = start is not None and self._needs_start(called)
            argument = operand
            if extended and start is not None:
                argument = make("tuple", *operand.operands, start, name=f"{operand.name}.start")
            arguments.append(argument)
            branches.append(self._called(called, argument.shape, extended, False))
        attributes = dict(i.attributes)
        if "true_computation" in attributes:
            attributes["true_computation"], attributes["false_computation"] = branches
        else:
            attributes["branch_computations"] = tuple(branches)
        shape = Shape.tuple_of(*(self._part((i, k), s) for k, s in enumerate(i.shape.elements)))
        return Instruction(f"{i.name}.part", "conditional", shape, [operands[0], *arguments], attributes, i.metadata)


def _bits(array: np.ndarray) -> np.ndarray:
    """The bytes of an array's elements."""
    return np.ascontiguousarray(array).view(np.uint8)


def _is_number(i: Instruction) -> bool:
    return i.opcode == "constant" and i.shape.rank == 0


def _computation(name: str, root: Instruction, parameters: list[Instruction]) -> Computation:
    """The computation of what `root` depends on."""
    return Computation(name, post_order(root, parameters), root)
