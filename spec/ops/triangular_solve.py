"""The solution x of op(a) * x = b, or of x * op(a) = b, for triangular matrices a.

The matrices are the last two dimensions. op(a) is a, its transpose or its adjoint, as transpose_a says; the product is
op(a) * x if left_side. Only the triangle that lower names is read, and with unit_diagonal the diagonal is not
read either but taken as ones. Solved by substitution, in a wider type and rounded once. A zero on the diagonal gives
infinities or NaN.
"""

from __future__ import annotations

import numpy as np

from ..accumulate import narrow, wide_type, widen
from ..attributes import BOOL, ENUM, Attribute
from ..module import Instruction
from ..numerics import type_of
from ..operation import Example, require
from ..types import Array, Shape

INPUTS = {"a": "triangular matrices", "b": "right-hand sides"}
ATTRIBUTES = {
    "left_side": Attribute(BOOL, False, "whether a stands left of x"),
    "lower": Attribute(BOOL, False, "whether a is lower triangular, else upper"),
    "unit_diagonal": Attribute(BOOL, False, "whether the diagonal counts as ones"),
    "transpose_a": Attribute(ENUM, "NO_TRANSPOSE", "NO_TRANSPOSE, TRANSPOSE or ADJOINT"),
}
CONSTRAINTS = {
    "C1": "a and b are of one floating-point or complex type and of one rank, at least 2",
    "C2": "the last two dimensions of a are equal, and equal to b's last but one (left_side) or last",
    "C3": "the other dimensions of a and b are equal",
    "C4": "transpose_a is NO_TRANSPOSE, TRANSPOSE or ADJOINT",
    "C5": "the result has the shape of b",
}


def infer(instruction: Instruction, a: Shape, b: Shape) -> Shape:
    fits = a.element_type is b.element_type and (a.element_type.is_float or a.element_type.is_complex)
    require(fits and a.rank == b.rank >= 2, "C1", f"a is {a}, b is {b}")
    n = b.dimensions[-2 if instruction.left_side else -1]
    require(a.dimensions[-2:] == (n, n), "C2", f"a is {a}, b is {b}, left_side is {instruction.left_side}")
    require(a.dimensions[:-2] == b.dimensions[:-2], "C3", f"a is {a}, b is {b}")
    known = instruction.transpose_a in ("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT")
    require(known, "C4", f"transpose_a is {instruction.transpose_a}")
    return b.without_layout()


def evaluate(instruction: Instruction, a: Array, b: Array) -> Array:
    element_type, lower = type_of(a), instruction.lower
    wide = wide_type(element_type)
    a, x = widen(a, wide), widen(b, wide).copy()
    if instruction.transpose_a != "NO_TRANSPOSE":
        a, lower = a.swapaxes(-1, -2), not lower
    if instruction.transpose_a == "ADJOINT":
        a = a.conj()
    if not instruction.left_side:  # x a = b is transpose(a) transpose(x) = transpose(b)
        a, x, lower = a.swapaxes(-1, -2), x.swapaxes(-1, -2), not lower
    n = a.shape[-1]
    with np.errstate(all="ignore"):
        for i in range(n) if lower else reversed(range(n)):
            rows = slice(0, i) if lower else slice(i + 1, n)
            sums = (a[..., i, rows, None] * x[..., rows, :]).sum(-2)
            x[..., i, :] -= sums
            if not instruction.unit_diagonal:
                x[..., i, :] /= a[..., i, i, None]
        return narrow(x if instruction.left_side else x.swapaxes(-1, -2), element_type)


EXAMPLES = (
    Example(
        """a = f32[2,2] parameter(0)
           b = f32[2,1] parameter(1)
           ROOT x = f32[2,1] triangular-solve(a, b), left_side=true, lower=true, transpose_a=NO_TRANSPOSE""",
        ("f32[2,2] {{2,77},{3,4}}", "f32[2,1] {{4},{14}}"),
        ("f32[2,1] {{2},{2}}",),
        "what is above the diagonal is not read",
    ),
    Example(
        """a = f32[2,2] parameter(0)
           b = f32[1,2] parameter(1)
           ROOT x = f32[1,2] triangular-solve(a, b), lower=true, unit_diagonal=true, transpose_a=TRANSPOSE""",
        ("f32[2,2] {{9,9},{3,9}}", "f32[1,2] {{1,5}}"),
        ("f32[1,2] {{1,2}}",),
        "x * transpose(a) = b",
    ),
)

COUNTEREXAMPLES = {
    "C1": """a = f32[2,2] parameter(0)
             b = f64[2,3] parameter(1)
             ROOT r = f32[2,3] triangular-solve(a, b), left_side=true, lower=true, transpose_a=NO_TRANSPOSE""",
    "C2": """a = f32[2,3] parameter(0)
             b = f32[2,3] parameter(1)
             ROOT r = f32[2,3] triangular-solve(a, b), left_side=true, lower=true, transpose_a=NO_TRANSPOSE""",
    "C3": """a = f32[4,2,2] parameter(0)
             b = f32[5,2,3] parameter(1)
             ROOT r = f32[5,2,3] triangular-solve(a, b), left_side=true, lower=true, transpose_a=NO_TRANSPOSE""",
    "C4": """a = f32[2,2] parameter(0)
             b = f32[2,3] parameter(1)
             ROOT r = f32[2,3] triangular-solve(a, b), left_side=true, lower=true, transpose_a=MAYBE""",
    "C5": """a = f32[2,2] parameter(0)
             b = f32[2,3] parameter(1)
             ROOT r = f32[3,2] triangular-solve(a, b), left_side=true, lower=true, transpose_a=NO_TRANSPOSE""",
}
