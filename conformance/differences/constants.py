"""How XLA's parser (jaxlib 0.10 to 0.12), through which programs reach both oracles, reads the text of constants."""

from __future__ import annotations

import numpy as np
from refxla_spec.numerics import type_of

from ..cases import Case
from .difference import Difference

TARGETS = ("xla-cpu", "stablehlo")


def _constants(case: Case) -> bool:
    return case.opcode == "constant"


def _with_nan_for_both(case: Case, leaf: int, actual: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Complex numbers whose real part is NaN, with an imaginary part that is also NaN."""
    if not type_of(expected).is_complex:
        return np.zeros(actual.shape, bool)
    return np.asarray(np.isnan(expected.real) & np.isnan(actual.real) & np.isnan(actual.imag))


def _smallest_doubled(case: Case, leaf: int, actual: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """2^-126 for 2^-127."""
    if type_of(expected).name != "f8e8m0fnu":
        return np.zeros(actual.shape, bool)
    return np.asarray((expected.astype(np.float64) == 2.0**-127) & (actual.astype(np.float64) == 2.0**-126))


DIFFERENCES = tuple(
    difference
    for target in TARGETS
    for difference in (
        Difference(
            "the imaginary part beside NaN, as text",
            target,
            "reference",
            "IEEE 754-2019, 3.4: a complex number is two numbers, and XLA prints both. Its parser makes the value by "
            "adding the imaginary part to the real one.",
            _constants,
            _with_nan_for_both,
            "reads (nan, 0) as (nan, nan)",
        ),
        Difference(
            "the largest complex numbers as text",
            target,
            "reference",
            "xla_data.proto: c64 is a pair of f32. The parser compares a part, as f64, with the largest f32, and "
            "refuses the digits that tell this number from all others in f32, where that of f32 itself takes them.",
            _constants,
            None,
            "refuses the largest number as a part of a c64 that is written with the digits of an f32",
            fails=True,
            says=r"(real|imaginary) part -?3\.40282e\+38 is out of range for literal's primitive type C64",
        ),
        Difference(
            "2^-127 as text",
            target,
            "reference",
            "OCP microscaling formats, 5.4: E8M0 holds 2^-127. The parser's conversion to the type rounds it up.",
            _constants,
            _smallest_doubled,
            "reads 2^-127 of f8e8m0fnu as 2^-126",
        ),
    )
) + (
    Difference(
        "constants of f6 types",
        "stablehlo",
        "reference",
        "xla_data.proto has F6E2M3FN and F6E3M2FN, and the parser reads them; the conversion to StableHLO has no "
        "literals of them.",
        lambda case: _constants(case) and case.element_type.startswith("f6"),
        None,
        "ends its process",
        fails=True,
        says="Unhandled primitive type F6E[23]M[23]FN",
    ),
)
