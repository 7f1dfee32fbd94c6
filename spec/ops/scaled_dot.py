"""A dot of numbers whose scales stand apart, as those of few bits do: each element is multiplied by its scale first.

    result = dot(lhs * scale of lhs, rhs * scale of rhs)

An array of scales has the rank of its operand, and each of its dimensions divides the operand's: element i along a
dimension has the scale i / (size of the operand / size of the scales), rounded down. So an f8e8m0fnu scale for every 32
elements of f8 or f4 along the contracted dimension is the usual microscaling. A scalar scale is that of every element.
The scaled operands are f32 (f64, where operand or scale is), rounded once; the dot is as on its own page.

XLA has an implementation for GPUs alone. Where neither operand nor scale has 16 bits, that rounds to bf16 what is f32
here (exact for up to 8 bits of mantissa), and it takes scalar scales for 1 without reading them.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..module import Instruction
from ..numerics import round_to, type_of
from ..operation import Example, require
from ..types import F32, F64, Array, ElementType, Shape
from . import dot

INPUTS = {
    "lhs": "floating-point numbers",
    "rhs": "floating-point numbers",
    "lhs_scale": "their scales: a scalar, or an array whose dimensions divide those of lhs",
    "rhs_scale": "the same for rhs",
}
ATTRIBUTES = dict(dot.ATTRIBUTES)
CONSTRAINTS = {
    **dot.CONSTRAINTS,
    "C6": "operands and scales are of floating-point type",
    "C7": "a scale is a scalar, or has the rank of its operand and dimensions that divide the operand's",
}


def infer(instruction: Instruction, lhs: Shape, rhs: Shape, lhs_scale: Shape, rhs_scale: Shape) -> Shape:
    result = dot.infer(instruction, lhs, rhs)
    for operand, scale in ((lhs, lhs_scale), (rhs, rhs_scale)):
        fits = operand.element_type.is_float and scale.element_type.is_float
        require(fits, "C6", f"the operand is {operand}, its scale {scale}")
        divides = scale.is_scalar or scale.rank == operand.rank
        divides = divides and all(
            n == s == 0 or (s > 0 and n % s == 0) for n, s in zip(operand.dimensions, scale.dimensions, strict=False)
        )
        require(divides, "C7", f"the operand is {operand}, its scale {scale}")
    return result


def scaled_type(operand: ElementType, scale: ElementType) -> ElementType:
    """The type of a scaled operand."""
    return F64 if F64 in (operand, scale) else F32


def evaluate(instruction: Instruction, lhs: Array, rhs: Array, *scales: Array) -> Array:
    left, right = (_scaled(x, s) for x, s in zip((lhs, rhs), scales, strict=True))
    parameters = [replace(o, shape=Shape.of(x)) for o, x in zip(instruction.operands[:2], (left, right), strict=True)]
    return dot.evaluate(replace(instruction, operands=parameters), left, right)


def _scaled(x: Array, scale: Array) -> Array:
    element_type = scaled_type(type_of(x), type_of(scale))
    wide = scale.astype(element_type.dtype)
    for d in range(scale.ndim):
        wide = wide.repeat(x.shape[d] // max(1, scale.shape[d]), axis=d)
    with np.errstate(all="ignore"):
        return round_to(x.astype(element_type.dtype) * wide, element_type)


EXAMPLES = (
    Example(
        """x = f8e4m3fn[1,4] parameter(0)
           y = f8e4m3fn[4,1] parameter(1)
           sx = f8e8m0fnu[1,2] parameter(2)
           sy = f8e8m0fnu[] parameter(3)
           ROOT r = f32[1,1] scaled-dot(x, y, sx, sy), lhs_contracting_dims={1}, rhs_contracting_dims={0}""",
        ("f8e4m3fn[1,4] {{1,2,3,4}}", "f8e4m3fn[4,1] {{1},{1},{1},{1}}", "f8e8m0fnu[1,2] {{1,4}}", "f8e8m0fnu[] 0.5"),
        ("f32[1,1] {{15.5}}",),
        "a scale for two elements: (1 (1 + 2) + 4 (3 + 4)) / 2",
    ),
    Example(
        """x = f4e2m1fn[2,2] parameter(0)
           y = bf16[2,2] parameter(1)
           sx = f32[2,1] parameter(2)
           sy = bf16[] parameter(3)
           ROOT r = bf16[2,2] scaled-dot(x, y, sx, sy), lhs_contracting_dims={1}, rhs_contracting_dims={0}""",
        ("f4e2m1fn[2,2] {{0.5,6},{-1,3}}", "bf16[2,2] {{1,0},{0,1}}", "f32[2,1] {{2},{10}}", "bf16[] 1"),
        ("bf16[2,2] {{1,12},{-10,30}}",),
        "a scale for each row",
    ),
)


def _broken(attributes: str, x: str = "f32[2,4]", sx: str = "f32[]", result: str = "f32[2,3]") -> str:
    return f"""x = {x} parameter(0)
               y = f32[4,3] parameter(1)
               sx = {sx} parameter(2)
               sy = f32[] parameter(3)
               ROOT r = {result} scaled-dot(x, y, sx, sy), {attributes}"""


_DIMS = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
COUNTEREXAMPLES = {
    "C1": _broken("lhs_contracting_dims={5}, rhs_contracting_dims={0}"),
    "C2": _broken("lhs_contracting_dims={1}"),
    "C3": _broken("lhs_contracting_dims={0}, rhs_contracting_dims={0}"),
    "C4": _broken(_DIMS, x="token[]"),
    "C5": _broken(_DIMS, result="s32[2,3]"),
    "C6": _broken(_DIMS, sx="s32[]"),
    "C7": _broken(_DIMS, sx="f32[2,3]"),
}
