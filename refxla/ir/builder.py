"""A builder of HLO instructions, with which an expansion reads like the formula that it implements."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
from refxla_spec.module import Computation, Instruction, PaddingDimension, SliceDimension, post_order
from refxla_spec.types import ELEMENT_TYPES, S32, ElementType, Shape

from .._core.shapes import make


class Build:
    """Makes instructions named after the one that is expanded, or after a function that is traced.

    Elementwise operations are methods by their opcodes with `_` for `-` (`b.shift_left(x, 3)`); a Python number among
    the operands is broadcast to the shape of the others.
    """

    def __init__(self, name: str) -> None:
        self.name, self.count = name, 0
        self._shared: dict[Hashable, Computation] = {}

    def make(self, opcode: str, *operands: Instruction, shape: Shape | None = None, **attributes: Any) -> Instruction:
        self.count += 1
        return make(opcode, *operands, name=f"{self.name}.{self.count}", shape=shape, **attributes)

    def __getattr__(self, opcode: str) -> Callable[..., Instruction]:
        if opcode.startswith("__"):
            raise AttributeError(opcode)

        def apply(*operands: Any, **attributes: Any) -> Instruction:
            like = next(o for o in operands if isinstance(o, Instruction))
            spread = [o if isinstance(o, Instruction) else self.full(o, like.shape) for o in operands]
            return self.make(opcode.rstrip("_").replace("_", "-"), *spread, **attributes)

        return apply

    def scalar(self, value: float | int, element_type: ElementType) -> Instruction:
        literal = np.asarray(value).astype(element_type.dtype)
        return self.make("constant", shape=Shape(element_type), literal=literal)

    def full(self, value: float | int, shape: Shape) -> Instruction:
        """An array that holds one number."""
        scalar = self.scalar(value, shape.element_type)
        return self.spread(scalar, shape.with_dimensions(shape.dimensions), ()) if shape.rank else scalar

    def select(self, condition: Any, x: Any, y: Any) -> Instruction:
        """x where the condition holds, y elsewhere; one of them may be a number."""
        like = x if isinstance(x, Instruction) else y
        x, y = (v if isinstance(v, Instruction) else self.full(v, like.shape) for v in (x, y))
        return self.make("select", condition, x, y)

    def spread(self, x: Instruction, shape: Shape, dimensions: tuple[int, ...]) -> Instruction:
        """A broadcast of x to the dimensions of `shape`; `dimensions` says which of them are x's own."""
        wide = Shape(x.shape.element_type, shape.dimensions)
        return self.make("broadcast", x, shape=wide, dimensions=dimensions)

    def convert(self, x: Instruction, element_type: ElementType | str) -> Instruction:
        if isinstance(element_type, str):
            element_type = ELEMENT_TYPES[element_type]
        if x.shape.element_type is element_type:
            return x
        return self.make("convert", x, shape=x.shape.with_element_type(element_type))

    def reshape(self, x: Instruction, dimensions: tuple[int, ...]) -> Instruction:
        return self.make("reshape", x, shape=x.shape.with_dimensions(dimensions))

    def transposed(self, x: Instruction, order: tuple[int, ...]) -> Instruction:
        """x with its dimensions in another order; x itself if the order does not change."""
        return x if order == tuple(range(x.shape.rank)) else self.make("transpose", x, dimensions=order)

    def slice(self, x: Instruction, start: tuple[int, ...], limit: tuple[int, ...]) -> Instruction:
        return self.make("slice", x, slice=tuple(SliceDimension(s, e, 1) for s, e in zip(start, limit, strict=True)))

    def iota(self, element_type: ElementType | str, dimensions: tuple[int, ...], dimension: int) -> Instruction:
        return self.make("iota", shape=Shape.array(element_type, dimensions), iota_dimension=dimension)

    def part_of_iota(self, part: Shape, dimension: int, start: Instruction) -> Instruction:
        """The part of an iota that begins at `start` (s32[]) along the iota's dimension; `part` is its shape. The
        sum is of s32: in a narrow type of floats its operands would be rounded."""
        numbers = self.iota(S32, part.dimensions, dimension)
        return self.convert(self.add(numbers, self.spread(start, numbers.shape, ())), part.element_type)

    def sum(self, x: Instruction, dimensions: tuple[int, ...]) -> Instruction:
        return self.reduce(x, 0, dimensions, adder(x.shape.element_type))

    def reduce(self, x: Instruction, start: float, dimensions: tuple[int, ...], reducer: Computation) -> Instruction:
        init = self.scalar(start, x.shape.element_type)
        return self.make("reduce", x, init, dimensions=dimensions, to_apply=reducer)

    def conjugate(self, x: Instruction) -> Instruction:
        """The complex conjugate; a real array unchanged."""
        return self.complex(self.real(x), self.negate(self.imag(x))) if x.shape.element_type.is_complex else x

    def transpose(self, x: Instruction) -> Instruction:
        """The last two dimensions swapped."""
        rank = x.shape.rank
        return self.make("transpose", x, dimensions=(*range(rank - 2), rank - 1, rank - 2))

    def pad(self, x: Instruction, *more: int) -> Instruction:
        """x padded with so many zeros at the end of each dimension."""
        zero = self.scalar(0, x.shape.element_type)
        return self.make("pad", x, zero, padding=tuple(PaddingDimension(0, n) for n in more)) if any(more) else x

    def part(self, x: Instruction, dimension: int, start: Instruction, size: int) -> Instruction:
        """`size` elements along one dimension, starting at `start` (s32[])."""
        starts = [start if d == dimension else self.scalar(0, S32) for d in range(x.shape.rank)]
        sizes = tuple(size if d == dimension else n for d, n in enumerate(x.shape.dimensions))
        return self.make("dynamic-slice", x, *starts, dynamic_slice_sizes=sizes)

    def put(self, x: Instruction, update: Instruction, dimension: int, start: Instruction) -> Instruction:
        """x with `update` at the place that `part` reads."""
        starts = [start if d == dimension else self.scalar(0, S32) for d in range(x.shape.rank)]
        return self.make("dynamic-update-slice", x, update, *starts)

    def product(self, x: Instruction, y: Instruction, along: tuple[int, int] = (-1, -2)) -> Instruction:
        """Matrix products over the last two dimensions of x and y, summed along x's dimension along[0] and y's
        along[1]."""
        rank = x.shape.rank
        batch = tuple(range(rank - 2))
        return self.make(
            "dot",
            x,
            y,
            shape=Shape(
                x.shape.element_type,
                (
                    *x.shape.dimensions[:-2],
                    x.shape.dimensions[-3 - along[0]],
                    y.shape.dimensions[-3 - along[1]],
                ),
            ),
            lhs_batch_dims=batch,
            rhs_batch_dims=batch,
            lhs_contracting_dims=(rank + along[0],),
            rhs_contracting_dims=(rank + along[1],),
        )

    def repeat(
        self,
        count: int,
        iteration: Callable[..., Sequence[Instruction]],
        state: Sequence[Instruction],
        invariants: Sequence[Instruction] = (),
        more: Callable[..., Instruction] | None = None,
    ) -> list[Instruction]:
        """The last state of a loop: state = iteration(k, *state, *invariants) for k = 0, 1, ... count - 1 (an s32[]).

        With `more`, it ends as soon as more(k, *state, *invariants), a pred[], is false. Neither function may use
        instructions other than its arguments and those it makes.
        """
        first = self.make("tuple", self.scalar(0, S32), *state, *invariants)
        places = range(len(first.operands))

        def parameter() -> tuple[Instruction, list[Instruction]]:
            self.count += 1
            p = Instruction(f"{self.name}.{self.count}", "parameter", first.shape, [], {"number": 0})
            return p, [self.make("get-tuple-element", p, index=n) for n in places]

        p, values = parameter()
        goes_on = self.compare(values[0], count, direction="LT")
        goes_on = goes_on if more is None else self.and_(goes_on, more(*values))
        condition = self._computation("condition", p, goes_on)
        p, values = parameter()
        after = iteration(*values)
        new = self.make("tuple", self.add(values[0], 1), *after, *values[1 + len(state) :])
        loop = self.make("while", first, condition=condition, body=self._computation("body", p, new))
        return [self.make("get-tuple-element", loop, index=1 + n) for n in range(len(state))]

    def _computation(self, kind: str, parameter: Instruction, root: Instruction) -> Computation:
        self.count += 1
        instructions = [parameter, *(i for i in post_order(root) if i is not parameter)]
        return Computation(f"{self.name}.{kind}.{self.count}", instructions, root)

    def shared_computation(
        self, name: str, types: Sequence[ElementType], result: Callable[..., Instruction]
    ) -> Computation:
        """A computation of scalars of these types, such as a reducer or the comparison of a sort; `result` makes its
        root with a builder, from the parameters. There is one for each name and types, however many instructions call
        it."""
        key = (name, *types)
        if key not in self._shared:
            self.count += 1
            inner = Build(f"{self.name}.{name}.{self.count}")
            p = [
                Instruction(f"{inner.name}.p{n}", "parameter", Shape(t), [], {"number": n}) for n, t in enumerate(types)
            ]
            root = result(inner, *p)
            own = [i for i in post_order(root) if i.opcode != "parameter"]
            self._shared[key] = Computation(inner.name, [*p, *own], root)
        return self._shared[key]

    def tuple(self, *elements: Instruction) -> Instruction:
        instruction: Instruction = make("tuple", *elements, name=self.name)
        return instruction


def copied(i: Instruction, name: str, operands: Sequence[Instruction]) -> Instruction:
    """The same operation on other operands, with what is noted at it. Control predecessors stay behind."""
    return Instruction(
        name,
        i.opcode,
        i.shape,
        list(operands),
        dict(i.attributes),
        i.metadata,
        i.sharding,
        i.frontend_attributes,
        i.backend_config,
    )


def adder(element_type: ElementType) -> Computation:
    """The reducer of a sum."""
    return reducer("add", element_type)


def bigger(element_type: ElementType) -> Computation:
    """The reducer of a maximum."""
    return reducer("maximum", element_type)


def reducer(opcode: str, element_type: ElementType) -> Computation:
    """A computation that combines two scalars by a binary operation."""
    a, b = (Instruction(n, "parameter", Shape(element_type), [], {"number": k}) for k, n in enumerate("ab"))
    root = make(opcode, a, b, name=opcode)
    return Computation(f"{opcode}.{element_type}", [a, b, root], root)
