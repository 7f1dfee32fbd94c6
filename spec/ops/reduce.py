"""Dimensions combined away by a computation: sums, products, maxima, any of them on several arrays at once.

    results[k..] = init_values combined by to_apply with operands[k.., r..] for all r.., the dimensions reduced

to_apply takes N accumulated values and N elements and gives N accumulated values. The initial values enter each result
exactly once, so they need not be its neutral element: the sum of 2 and 3 that starts with 1 is 6. The elements are
combined in row-major order, the initial values first; how they are grouped is not part of the meaning: to_apply must be
associative. (It need not commute: StableHLO keeps the order, and XLA does so on CPUs.) Here elements are combined in
pairs of neighbours, and those in pairs again. (Where an accumulated value has another type than the element, it is one
element after the other.) Floating-point sums and products are computed in a wider type and rounded once, also where
to_apply combines several arrays, each by one operation of its own. The reduction of no elements is the initial values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod

import numpy as np

from ..accumulate import narrow, wide_type, widen
from ..attributes import COMPUTATION, INTS, REQUIRED, Attribute
from ..dynamic import marked, meet
from ..module import Computation, Instruction
from ..numerics import type_of
from ..operation import Example, operation, require
from ..types import Array, Shape, Value
from ..vectorize import Run, binary_opcode, components, run_vectorized, widening

INPUTS = {"*operands": "N arrays of equal dimensions", "*init_values": "N scalars of their element types"}
ATTRIBUTES = {
    "dimensions": Attribute(INTS, REQUIRED, "the dimensions that are reduced"),
    "to_apply": Attribute(COMPUTATION, REQUIRED, "combines N accumulated values with N elements"),
}
CONSTRAINTS = {
    "C1": "there is one initial value for each operand, a scalar",
    "C2": "all operands have the same dimensions",
    "C3": "dimensions are dimensions of the operands, none twice",
    "C4": "to_apply takes 2 N scalars of the types of the initial values and then of the operands and gives N scalars",
    "C5": "the result has the dimensions that are left, and the element types of to_apply: a tuple if it gives one",
}


def infer(instruction: Instruction, *shapes: Shape) -> Shape:
    operands, inits = shapes[: len(shapes) // 2], shapes[len(shapes) // 2 :]
    check_reducer(instruction.to_apply, operands, inits)
    dimensions, rank = instruction.dimensions, operands[0].rank
    inside = all(0 <= d < rank for d in dimensions) and len(set(dimensions)) == len(dimensions)
    require(inside, "C3", f"dimensions is {dimensions}, the operands have rank {rank}")
    others = [d for d in range(rank) if d not in dimensions]
    sizes, marks = tuple(operands[0].dimensions[d] for d in others), tuple(operands[0].marks[d] for d in others)
    return reduced_shape(instruction.to_apply, sizes, marks)


def check_reducer(reducer: Computation, operands: tuple[Shape, ...], inits: tuple[Shape, ...]) -> None:
    """C1, C2 and C4, which reduce-window shares."""
    text = ", ".join(map(str, operands + inits))
    fits = len(operands) > 0 and len(operands) == len(inits) and all(i.is_scalar for i in inits)
    require(fits, "C1", f"the operands are ({text})")
    require(len({o.dimensions for o in operands}) == 1, "C2", f"the operands are ({text})")
    parameters = [p.shape for p in reducer.parameters]
    # XLA lets an accumulated value be wider than the element it takes in.
    fits = len(parameters) == 2 * len(inits) and all(t.is_scalar for t in parameters)
    require(fits, "C4", f"{reducer.name} takes ({', '.join(map(str, parameters))}); {len(operands)} arrays are reduced")
    results = reducer.root.shape.elements or (reducer.root.shape,)
    fits = len(results) == len(inits) and all(
        r.is_scalar and r.element_type is t.element_type is i.element_type
        for r, t, i in zip(results, parameters, inits, strict=False)
    )
    require(
        fits, "C4", f"{reducer.name} gives {reducer.root.shape}; the initial values are {', '.join(map(str, inits))}"
    )


def reduced_shape(reducer: Computation, dimensions: tuple[int, ...], marks: tuple[bool, ...]) -> Shape:
    """The reducer's result, with each scalar an array of these dimensions."""
    root = reducer.root.shape
    shapes = tuple(marked(e.element_type, dimensions, marks) for e in (root.elements if root.is_tuple else (root,)))
    return Shape.tuple_of(*shapes) if root.is_tuple else shapes[0]


def evaluate(instruction: Instruction, *values: Array, run: Run) -> Value:
    operands, inits = meet(values[: len(values) // 2]), values[len(values) // 2 :]
    if (apart := by_component(instruction)) is not None:
        return tuple(evaluate(one, o, init, run=run) for one, o, init in zip(apart, operands, inits, strict=True))
    reducer, dimensions = instruction.to_apply, tuple(sorted(instruction.dimensions))
    others = tuple(d for d in range(operands[0].ndim) if d not in dimensions)
    sizes = tuple(operands[0].shape[d] for d in others)
    count = prod(operands[0].shape[d] for d in dimensions)

    wider = widening(reducer)
    total = WIDE.get(wider[0] if wider else binary_opcode(reducer) or "")
    if total is not None and wider:
        operands = [operation("convert").evaluate(wider[1], operands[0])]
    if total is not None and operands[0].dtype != np.bool_:
        wide = wide_type(type_of(operands[0]))
        with np.errstate(all="ignore"):
            result = total.reduce(widen(operands[0], wide), axis=dimensions, initial=NEUTRAL[total](wide))
            return narrow(total(result, widen(inits[0], wide)), reducer.root.shape.element_type)

    rows = [o.transpose(dimensions + others).reshape(count, *sizes) for o in operands]
    results = tuple(np.broadcast_to(i, sizes) for i in inits)
    if any(o.dtype != i.dtype for o, i in zip(operands, inits, strict=True)):  # two elements are no pair for to_apply
        for r in range(count):
            results = apply(reducer, results, tuple(row[r] for row in rows), run)
    elif count:
        results = apply(reducer, results, _combine_pairs(reducer, rows, run), run)
    return results if reducer.root.shape.is_tuple else results[0]


def by_component(instruction: Instruction) -> list[Instruction] | None:
    """A reduction of N arrays as N of one array, if `to_apply` combines each by an operation of its own, else None."""
    parts, operands = components(instruction.to_apply), instruction.operands
    if parts is None:
        return None
    return [
        replace(
            instruction,
            shape=shape,
            operands=[operands[k], operands[len(parts) + k]],
            attributes={**instruction.attributes, "to_apply": part},
        )
        for k, (shape, part) in enumerate(zip(instruction.shape.elements, parts, strict=True))
    ]


# Reducers whose results overflow or round: computed in a wider type. All others give one of their operands, or bits.
WIDE: dict[str, np.ufunc] = {"add": np.add, "multiply": np.multiply}
# What changes no bit of any sum or product: 0 would, of -0.
NEUTRAL: dict[np.ufunc, Callable[[np.dtype], np.generic]] = {
    np.add: lambda wide: -wide.type(0),
    np.multiply: lambda wide: wide.type(1),
}


def apply(
    reducer: Computation, accumulated: tuple[Array, ...], elements: tuple[Array, ...], run: Run
) -> tuple[Array, ...]:
    """The reducer at each position of N arrays of accumulated values and N arrays of elements."""
    result = run_vectorized(reducer, *accumulated, *elements, run=run)
    return result if isinstance(result, tuple) else (result,)


def _combine_pairs(reducer: Computation, rows: list[Array], run: Run) -> tuple[Array, ...]:
    """The rows of each array combined into one, neighbours first; an odd one at the end waits for the next round."""
    current = tuple(rows)
    while (count := len(current[0])) > 1:
        even = count // 2 * 2
        pairs = apply(reducer, tuple(r[0:even:2] for r in current), tuple(r[1:even:2] for r in current), run)
        current = tuple(np.concatenate([p, r[even:].astype(p.dtype)]) for p, r in zip(pairs, current, strict=True))
    return tuple(r[0] for r in current)


EXAMPLES = (
    Example(
        """HloModule row_sums
        add { a = f32[] parameter(0)
              b = f32[] parameter(1)
              ROOT c = f32[] add(a, b) }
        ENTRY main { x = f32[2,3] parameter(0)
                     zero = f32[] constant(0)
                     ROOT r = f32[2] reduce(x, zero), dimensions={1}, to_apply=add }""",
        ("f32[2,3] {{1,2,3},{4,5,6}}",),
        ("f32[2] {6,15}",),
    ),
    Example(
        """HloModule sum_of_nothing
        add { a = s8[] parameter(0)
              b = s8[] parameter(1)
              ROOT c = s8[] add(a, b) }
        ENTRY main { x = s8[0,2] parameter(0)
                     init = s8[] constant(5)
                     ROOT r = s8[2] reduce(x, init), dimensions={0}, to_apply=add }""",
        ("s8[0,2] {}",),
        ("s8[2] {5,5}",),
        "no elements: the initial value",
    ),
    Example(
        """HloModule sum_that_starts_with_one
        add { a = s32[] parameter(0)
              b = s32[] parameter(1)
              c = s32[] parameter(2)
              d = s32[] parameter(3)
              e = s32[] add(a, c)
              f = s32[] add(b, d)
              ROOT r = (s32[], s32[]) tuple(e, f) }
        ENTRY main { x = s32[2,2] parameter(0)
                     y = s32[2,2] parameter(1)
                     one = s32[] constant(1)
                     ten = s32[] constant(10)
                     ROOT r = (s32[2], s32[2]) reduce(x, y, one, ten), dimensions={1}, to_apply=add }""",
        ("s32[2,2] {{2,3},{4,5}}", "s32[2,2] {{1,1},{1,1}}"),
        ("s32[2] {6,10}", "s32[2] {12,12}"),
        "the initial values enter each result once",
    ),
    Example(
        """HloModule rounded_once
        sum_and_largest { a = f16[] parameter(0)
                          b = f16[] parameter(1)
                          c = f16[] parameter(2)
                          d = f16[] parameter(3)
                          e = f16[] add(a, c)
                          f = f16[] maximum(b, d)
                          ROOT r = (f16[], f16[]) tuple(e, f) }
        ENTRY main { x = f16[5] parameter(0)
                     z = f16[] constant(0)
                     ROOT r = (f16[], f16[]) reduce(x, x, z, z), dimensions={0}, to_apply=sum_and_largest }""",
        ("f16[5] {2048,1,1,1,1}",),
        ("f16[] 2052", "f16[] 2048"),
        "2049 is no number of f16: in steps of its own, the sum would depend on their order",
    ),
    Example(
        """HloModule smallest_and_where
        smaller { a = f32[] parameter(0)
                  i = s32[] parameter(1)
                  b = f32[] parameter(2)
                  j = s32[] parameter(3)
                  first = pred[] compare(a, b), direction=LE
                  value = f32[] select(first, a, b)
                  where = s32[] select(first, i, j)
                  ROOT r = (f32[], s32[]) tuple(value, where) }
        ENTRY main { x = f32[4] parameter(0)
                     at = s32[4] iota(), iota_dimension=0
                     top = f32[] constant(inf)
                     zero = s32[] constant(0)
                     ROOT r = (f32[], s32[]) reduce(x, at, top, zero), dimensions={0}, to_apply=smaller }""",
        ("f32[4] {3,1,2,1}",),
        ("f32[] 1", "s32[] 1"),
        "two operands at once",
    ),
    Example(
        """HloModule dynamic
        add { a = f32[] parameter(0)
              b = f32[] parameter(1)
              ROOT c = f32[] add(a, b) }
        ENTRY main { x = f32[<=3,2] parameter(0)
                     z = f32[] constant(0)
                     ROOT r = f32[2] reduce(x, z), dimensions={0}, to_apply=add }""",
        ("f32[2,2] {{1,2},{3,4}}",),
        ("f32[2] {4,6}",),
    ),
)

_COMPUTATIONS = """HloModule counterexample
    add { a = f32[] parameter(0)
          b = f32[] parameter(1)
          ROOT c = f32[] add(a, b) }
    pair { a = f32[] parameter(0)
           b = f32[] parameter(1)
           c = f32[] parameter(2)
           d = f32[] parameter(3)
           ROOT r = (f32[], f32[]) tuple(a, b) }
"""

COUNTEREXAMPLES = {
    "C1": _COMPUTATIONS
    + """ENTRY main { x = f32[2,3] parameter(0)
                      v = f32[2] parameter(1)
                      ROOT r = f32[2] reduce(x, v), dimensions={1}, to_apply=add }""",
    "C2": _COMPUTATIONS
    + """ENTRY main { x = f32[2] parameter(0)
                      y = f32[3] parameter(1)
                      v = f32[] parameter(2)
                      ROOT r = (f32[], f32[]) reduce(x, y, v, v), dimensions={0}, to_apply=pair }""",
    "C3": _COMPUTATIONS
    + """ENTRY main { x = f32[2,3] parameter(0)
                      v = f32[] parameter(1)
                      ROOT r = f32[2] reduce(x, v), dimensions={2}, to_apply=add }""",
    "C4": _COMPUTATIONS
    + """ENTRY main { x = s32[2,3] parameter(0)
                      v = s32[] parameter(1)
                      ROOT r = s32[2] reduce(x, v), dimensions={1}, to_apply=add }""",
    "C5": _COMPUTATIONS
    + """ENTRY main { x = f32[2,3] parameter(0)
                      v = f32[] parameter(1)
                      ROOT r = f32[3] reduce(x, v), dimensions={1}, to_apply=add }""",
}
