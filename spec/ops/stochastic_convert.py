"""Floating-point numbers in an integer type, rounded at random to one of the two integers next to each.

    f = |x| - floor(|x|)
    result = sign(x) * (floor(|x|) + 1  if random < f * 2^w  else  floor(|x|))

with w bits in each random number: uniformly distributed ones round up with the probability f. The product f * 2^w is
truncated to an integer and saturates. What is out of the range of the type becomes its least or greatest number, and
NaN becomes 0 or 1.

XLA's verifier accepts results of any type, and XLA implements signed integers alone; for others there is no meaning to
state, and they are not evaluated here either.
"""

from __future__ import annotations

import numpy as np

from ..errors import UnsupportedError
from ..module import Instruction
from ..numerics import type_of, wrap
from ..operation import Example, require
from ..types import Array, Shape

INPUTS = {"operand": "floating-point numbers", "random": "as many unsigned integers, of as many bits as those"}
CONSTRAINTS = {
    "C1": "operand is of floating-point type",
    "C2": "random is of unsigned integer type",
    "C3": "operand and random have the same dimensions",
    "C4": "an element of random has as many bits as one of operand",
    "C5": "the result has the dimensions of operand",
}


def infer(instruction: Instruction, operand: Shape, random: Shape) -> Shape:
    require(operand.element_type.is_float, "C1", f"operand is {operand}")
    require(random.element_type.kind == "unsigned", "C2", f"random is {random}")
    require(operand.dimensions == random.dimensions, "C3", f"operand is {operand}, random is {random}")
    equal = operand.element_type.bits == random.element_type.bits
    require(equal, "C4", f"operand is {operand}, random is {random}")
    result = instruction.shape.element_type
    return operand.without_layout().with_element_type(result if result.is_array else operand.element_type)


def evaluate(instruction: Instruction, operand: Array, random: Array) -> Array:
    result, bits = instruction.shape.element_type, type_of(operand).bits
    if result.kind != "signed":
        raise UnsupportedError(
            f"{instruction.name}: stochastic-convert to {result}: only signed integers have a meaning; "
            "convert to one of them, and then to the type"
        )
    with np.errstate(all="ignore"):
        x = operand.astype(np.float64)
        size = np.abs(x)
        floor = np.floor(size)
        limit = 2.0 ** (result.bits - 1)
        scaled = np.where(np.isfinite(size), size - floor, 0) * 2.0**bits  # below 2^bits, and exact
        up = random.astype(np.uint64) < scaled.astype(np.uint64)
        small = np.where(size < limit, floor, 0).astype(np.int64) + up
        signed = np.where(x < 0, -small, small)
        least, most = -(2 ** (result.bits - 1)), 2 ** (result.bits - 1) - 1
        signed = np.where(x <= float(least), least, np.where(x >= float(most), most, signed))
        return wrap(signed, result)


EXAMPLES = (
    Example(
        """x = f32[4] parameter(0)
           random = u32[4] parameter(1)
           ROOT y = s8[4] stochastic-convert(x, random)""",
        ("f32[4] {1.25, 1.25, -2.75, -2.75}", "u32[4] {1073741823, 1073741824, 0, 3221225472}"),
        ("s8[4] {2, 1, -3, -2}",),
        "1.25 is rounded up by a quarter of all random numbers",
    ),
    Example(
        """x = f32[4] parameter(0)
           random = u32[4] parameter(1)
           ROOT y = s8[4] stochastic-convert(x, random)""",
        ("f32[4] {300, -inf, 126.75, 127.25}", "u32[4] {0, 0, 0, 0}"),
        ("s8[4] {127, -128, 127, 127}",),
        "what is out of range",
    ),
    Example(
        """x = bf16[4] parameter(0)
           random = u16[4] parameter(1)
           ROOT y = s32[4] stochastic-convert(x, random)""",
        ("bf16[4] {1.25, 1.25, -2.75, nan}", "u16[4] {16383, 16384, 49152, 0}"),
        ("s32[4] {2, 1, -2, 0}",),
        "as many random bits as the operand has",
    ),
)
COUNTEREXAMPLES = {
    "C1": "x = s32[2] parameter(0)\nr = u32[2] parameter(1)\nROOT y = s8[2] stochastic-convert(x, r)",
    "C2": "x = f32[2] parameter(0)\nr = s32[2] parameter(1)\nROOT y = s8[2] stochastic-convert(x, r)",
    "C3": "x = f32[2] parameter(0)\nr = u32[3] parameter(1)\nROOT y = s8[2] stochastic-convert(x, r)",
    "C4": "x = f32[2] parameter(0)\nr = u16[2] parameter(1)\nROOT y = s8[2] stochastic-convert(x, r)",
    "C5": "x = f32[2] parameter(0)\nr = u32[2] parameter(1)\nROOT y = s8[3] stochastic-convert(x, r)",
}
