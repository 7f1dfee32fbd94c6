"""The discrete Fourier transform over the last one to three dimensions, and its inverse.

With n the product of fft_length, j and k running over it, and t = sum over d of j[d] * k[d] / fft_length[d]:

    FFT    result[k] = sum over j of operand[j] * exp(-2 pi i t)
    IFFT   result[j] = sum over k of operand[k] * exp(+2 pi i t) / n
    RFFT   the FFT of a real operand, of which the last dimension keeps its first half, fft_length / 2 + 1 elements
    IRFFT  the real result whose RFFT is the operand; the last dimension has fft_length / 2 + 1 elements

Computed in a wider type and rounded once.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..accumulate import narrow, wide_type, widen
from ..attributes import ENUM, INTS, REQUIRED, Attribute
from ..dynamic import marked
from ..errors import EvaluationError
from ..module import Instruction
from ..numerics import type_of
from ..operation import Example, require
from ..types import C64, C128, F32, F64, Array, Shape

INPUTS = {"operand": "complex for FFT, IFFT and IRFFT; f32 or f64 for RFFT"}
ATTRIBUTES = {
    "fft_type": Attribute(ENUM, REQUIRED, "FFT, IFFT, RFFT or IRFFT"),
    "fft_length": Attribute(INTS, REQUIRED, "the sizes of the transformed dimensions, on the real side"),
}
CONSTRAINTS = {
    "C1": "fft_type is FFT, IFFT, RFFT or IRFFT",
    "C2": "fft_length has one to three sizes, and operand at least as many dimensions",
    "C3": "operand is complex, or for RFFT of type f32 or f64",
    "C4": "the last dimensions of operand are fft_length; for IRFFT the last one is fft_length / 2 + 1, or 0 for 0",
    "C5": "the result has the shape of operand; for RFFT it is complex, with a last dimension of fft_length / 2 + 1, "
    "or 0 for 0; for IRFFT it is real, with a last dimension of fft_length",
}


def infer(instruction: Instruction, operand: Shape) -> Shape:
    kind, length = instruction.fft_type, instruction.fft_length
    require(kind in ("FFT", "IFFT", "RFFT", "IRFFT"), "C1", f"fft_type is {kind}")
    require(1 <= len(length) <= 3 and operand.rank >= len(length), "C2", f"fft_length is {length}, operand {operand}")
    fits = operand.element_type in ((F32, F64) if kind == "RFFT" else (C64, C128))
    require(fits, "C3", f"operand is {operand}, fft_type is {kind}")
    half = length[-1] // 2 + 1 if length[-1] else 0
    last = (*length[:-1], half if kind == "IRFFT" else length[-1])
    require(operand.dimensions[-len(length) :] == last, "C4", f"operand is {operand}, fft_length is {length}")
    batch = operand.dimensions[: -len(length)]
    if kind == "RFFT":
        result = C64 if operand.element_type is F32 else C128
        return marked(result, (*batch, *length[:-1], half), operand.marks)
    if kind == "IRFFT":
        return marked(F32 if operand.element_type is C64 else F64, (*batch, *length), operand.marks)
    return operand.without_layout()


def evaluate(instruction: Instruction, operand: Array) -> Array:
    length = instruction.fft_length
    stated, rank = instruction.operands[0].shape.dimensions[-len(length) :], len(length)
    if operand.shape[-rank:] != stated:
        message = f"the dimensions transformed have sizes {list(operand.shape[-rank:])}, fft_length is {list(length)}"
        raise EvaluationError(f"{instruction.name}: {message}")
    if 0 in operand.shape:
        sizes = operand.shape[:-rank] + instruction.shape.dimensions[-rank:]
        return np.zeros(sizes, instruction.shape.element_type.dtype)
    wide = widen(operand, wide_type(type_of(operand)))
    axes = tuple(range(-len(length), 0))
    with np.errstate(all="ignore"):
        return narrow(_TRANSFORMS[instruction.fft_type](wide, s=length, axes=axes), instruction.shape.element_type)


_TRANSFORMS: dict[str, Callable[..., Array]] = {
    "FFT": np.fft.fftn,
    "IFFT": np.fft.ifftn,
    "RFFT": np.fft.rfftn,
    "IRFFT": np.fft.irfftn,
}


EXAMPLES = (
    Example(
        """x = c64[4] parameter(0)
           ROOT r = c64[4] fft(x), fft_type=FFT, fft_length={4}""",
        ("c64[4] {(1,0),(0,0),(0,0),(0,0)}",),
        ("c64[4] {(1,0),(1,0),(1,0),(1,0)}",),
    ),
    Example(
        """x = f32[4] parameter(0)
           ROOT r = c64[3] fft(x), fft_type=RFFT, fft_length={4}""",
        ("f32[4] {1,2,3,4}",),
        ("c64[3] {(10,0),(-2,2),(-2,0)}",),
    ),
    Example(
        """x = c64[<=2,2] parameter(0)
           ROOT r = c64[<=2,2] fft(x), fft_type=FFT, fft_length={2}""",
        ("c64[1,2] {{(1,0),(2,0)}}",),
        ("c64[1,2] {{(3,0),(-1,0)}}",),
    ),
)

COUNTEREXAMPLES = {
    "C1": "x = c64[4] parameter(0)\nROOT r = c64[4] fft(x), fft_type=DFT, fft_length={4}",
    "C2": "x = c64[4] parameter(0)\nROOT r = c64[4] fft(x), fft_type=FFT, fft_length={2,2}",
    "C3": "x = f32[4] parameter(0)\nROOT r = f32[4] fft(x), fft_type=FFT, fft_length={4}",
    "C4": "x = c64[4] parameter(0)\nROOT r = c64[4] fft(x), fft_type=FFT, fft_length={5}",
    "C5": "x = f32[4] parameter(0)\nROOT r = c64[4] fft(x), fft_type=RFFT, fft_length={4}",
}
