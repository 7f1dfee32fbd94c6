"""A reduction over each placing of a window that slides over arrays: pooling, cumulative sums.

For a placing o and an element k of the window, for each dimension d,

    position[d] = o[d] * stride + k[d] * rhs_dilate - pad_low        in the array dilated by lhs_dilate
    results[o..] = init_values combined by to_apply with operands[position.. / lhs_dilate] for all k..

over those k for which each position is a multiple of lhs_dilate and lies inside the operands: padding and the gaps of
dilation take no part. The initial values enter each result exactly once, and to_apply is associative and commutative,
as in reduce. Here it is applied in row-major order of k. Floating-point sums and products are computed in a wider type
and rounded once, as there.
"""

from __future__ import annotations

import numpy as np

from ..accumulate import narrow, wide_type, widen
from ..attributes import COMPUTATION, REQUIRED, WINDOW, Attribute
from ..dynamic import meet
from ..indexing import window_count, window_slices
from ..module import Instruction, window_text
from ..numerics import type_of
from ..operation import Example, require
from ..types import Array, Shape, Value
from ..vectorize import Run, binary_opcode
from .reduce import WIDE, apply, by_component, check_reducer, reduced_shape

INPUTS = {"*operands": "N arrays of equal dimensions", "*init_values": "N scalars of their element types"}
ATTRIBUTES = {
    "window": Attribute(WINDOW, (), "one window dimension for each dimension of the operands"),
    "to_apply": Attribute(COMPUTATION, REQUIRED, "combines N accumulated values with N elements"),
}
CONSTRAINTS = {
    "C1": "there is one initial value for each operand, a scalar",
    "C2": "all operands have the same dimensions",
    "C3": "the window has one dimension for each of the operands'; sizes, strides and dilations are at least 1",
    "C4": "to_apply takes 2 N scalars of the types of the initial values and then of the operands and gives N scalars",
    "C5": "the result has in each dimension the number of placings of the window, and the element types of to_apply",
}


def infer(instruction: Instruction, *shapes: Shape) -> Shape:
    operands, inits = shapes[: len(shapes) // 2], shapes[len(shapes) // 2 :]
    check_reducer(instruction.to_apply, operands, inits)
    window = instruction.window
    fits = len(window) == operands[0].rank
    fits = fits and all(min(w.size, w.stride, w.base_dilation, w.window_dilation) >= 1 for w in window)
    require(fits, "C3", f"the window is {window_text(window)}, the operands have dimensions {operands[0].dimensions}")
    counts = tuple(window_count(s, w) for s, w in zip(operands[0].dimensions, window, strict=True))
    return reduced_shape(instruction.to_apply, counts, operands[0].marks)


def evaluate(instruction: Instruction, *values: Array, run: Run) -> Value:
    operands, inits = meet(values[: len(values) // 2]), list(values[len(values) // 2 :])
    if (apart := by_component(instruction)) is not None:
        return tuple(evaluate(one, o, init, run=run) for one, o, init in zip(apart, operands, inits, strict=True))
    reducer, window, sizes = instruction.to_apply, instruction.window, operands[0].shape
    counts = tuple(window_count(s, w) for s, w in zip(sizes, window, strict=True))

    total = WIDE.get(binary_opcode(reducer) or "")
    if total is not None and operands[0].dtype != np.bool_:
        wide = wide_type(type_of(operands[0]))
        operands, inits = ([widen(v, wide) for v in side] for side in (operands, inits))
    results = [np.full(counts, i) for i in inits]
    with np.errstate(all="ignore"):
        for k in np.ndindex(tuple(w.size for w in window)):
            placings, elements = window_slices(window, k, sizes, counts)
            so_far = tuple(r[placings] for r in results)
            parts = tuple(o[elements] for o in operands)
            if not so_far[0].size:
                continue
            combined: tuple[Array, ...]
            if total is not None and parts[0].dtype != np.bool_:
                combined = (total(*so_far, *parts),)
            else:
                combined = apply(reducer, so_far, parts, run)
            for r, c in zip(results, combined, strict=True):
                r[placings] = c
    if total is not None and results[0].dtype != np.bool_:
        results = [narrow(results[0], reducer.root.shape.element_type)]
    return tuple(results) if reducer.root.shape.is_tuple else results[0]


EXAMPLES = (
    Example(
        """HloModule max_pool
        max { a = f32[] parameter(0)
              b = f32[] parameter(1)
              ROOT c = f32[] maximum(a, b) }
        ENTRY main { x = f32[5] parameter(0)
                     low = f32[] constant(-inf)
                     ROOT r = f32[3] reduce-window(x, low), window={size=2 stride=2 pad=0_1}, to_apply=max }""",
        ("f32[5] {1,3,2,5,4}",),
        ("f32[3] {3,5,4}",),
        "padding takes no part",
    ),
    Example(
        """HloModule cumulative_sum
        add { a = s32[] parameter(0)
              b = s32[] parameter(1)
              ROOT c = s32[] add(a, b) }
        ENTRY main { x = s32[4] parameter(0)
                     zero = s32[] constant(0)
                     ROOT r = s32[4] reduce-window(x, zero), window={size=4 pad=3_0}, to_apply=add }""",
        ("s32[4] {1,2,3,4}",),
        ("s32[4] {1,3,6,10}",),
    ),
    Example(
        """HloModule rounded_once
        both { a = f16[] parameter(0)
               b = f16[] parameter(1)
               c = f16[] parameter(2)
               d = f16[] parameter(3)
               e = f16[] add(a, c)
               f = f16[] maximum(b, d)
               ROOT r = (f16[], f16[]) tuple(e, f) }
        ENTRY main { x = f16[6] parameter(0)
                     z = f16[] constant(0)
                     ROOT r = (f16[2], f16[2]) reduce-window(x, x, z, z), window={size=5}, to_apply=both }""",
        ("f16[6] {2048,1,1,1,1,2}",),
        ("f16[2] {2052,6}", "f16[2] {2048,2}"),
        "2049 is no number of f16; several operands at once",
    ),
    Example(
        """HloModule dilated_and_cropped
        add { a = s32[] parameter(0)
              b = s32[] parameter(1)
              ROOT c = s32[] add(a, b) }
        ENTRY main { x = s32[4] parameter(0)
                     ten = s32[] constant(10)
                     ROOT r = s32[4] reduce-window(x, ten), to_apply=add,
                       window={size=2 pad=-1_0 lhs_dilate=2 rhs_dilate=2} }""",
        ("s32[4] {1,2,3,4}",),
        ("s32[4] {10,15,10,17}",),
        "the dilated array is 1_2_3_4, cropped _2_3_4; gaps take no part, so some windows hold the initial value alone",
    ),
    Example(
        """HloModule dynamic
        add { a = f32[] parameter(0)
              b = f32[] parameter(1)
              ROOT c = f32[] add(a, b) }
        ENTRY main { x = f32[<=5] parameter(0)
                     z = f32[] constant(0)
                     ROOT r = f32[<=4] reduce-window(x, z), window={size=2}, to_apply=add }""",
        ("f32[3] {1,2,3}",),
        ("f32[2] {3,5}",),
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
    + """ENTRY main { x = f32[4] parameter(0)
                      v = f32[2] parameter(1)
                      ROOT r = f32[3] reduce-window(x, v), window={size=2}, to_apply=add }""",
    "C2": _COMPUTATIONS
    + """ENTRY main { x = f32[4] parameter(0)
                      y = f32[3] parameter(1)
                      v = f32[] parameter(2)
                      ROOT r = (f32[3], f32[3]) reduce-window(x, y, v, v), window={size=2}, to_apply=pair }""",
    "C3": _COMPUTATIONS
    + """ENTRY main { x = f32[4,4] parameter(0)
                      v = f32[] parameter(1)
                      ROOT r = f32[3] reduce-window(x, v), window={size=2}, to_apply=add }""",
    "C4": _COMPUTATIONS
    + """ENTRY main { x = s32[4] parameter(0)
                      v = s32[] parameter(1)
                      ROOT r = s32[3] reduce-window(x, v), window={size=2}, to_apply=add }""",
    "C5": _COMPUTATIONS
    + """ENTRY main { x = f32[4] parameter(0)
                      v = f32[] parameter(1)
                      ROOT r = f32[4] reduce-window(x, v), window={size=2}, to_apply=add }""",
}
