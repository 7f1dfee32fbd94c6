"""How XLA:CPU has differed from the specification since jaxlib 0.12, unlike in 0.10."""

from __future__ import annotations

import ml_dtypes
import numpy as np
from refxla_spec.compare import same_bits

from ..cases import Case
from .difference import Difference
from .predicates import of, operands, site, vanishes, where_given, with_types
from .xla_relations import SUBNORMAL

XLA = "xla-cpu"
F6 = ("f6e2m3fn", "f6e3m2fn")


def _overflowed(actual: np.ndarray, expected: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Where a number beyond the largest of the type, or NaN, becomes zero."""
    if expected.dtype not in (ml_dtypes.float6_e2m3fn, ml_dtypes.float6_e3m2fn):
        return np.zeros(actual.shape, bool)
    wide, largest = x.astype(np.float64), float(ml_dtypes.finfo(expected.dtype).max)
    return np.asarray((actual.astype(np.float64) == 0) & ~(np.abs(wide) <= largest))


def _by_codes(case: Case, leaf: int, actual: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """All elements, if they are the operand's, or their positions, in the order of their bits as unsigned numbers."""
    i, (x, *_) = site(case, leaf), operands(case, leaf)
    codes = np.ascontiguousarray(x).view(np.uint8).astype(np.int16)
    if i.opcode == "topk":
        order = np.argsort(-codes if i.largest else codes, axis=-1, kind="stable")[..., : i.k]
        values = order if actual.dtype == np.int32 else np.take_along_axis(x, order, axis=-1)
    else:
        falling = i.to_apply.root.direction == "GT"
        d = i.dimensions[0]
        values = np.take_along_axis(x, np.argsort(-codes if falling else codes, axis=d, kind="stable"), axis=d)
    return np.full(actual.shape, bool(same_bits(actual, values.astype(actual.dtype)).all()))


def _either_of_zeros(actual: np.ndarray, expected: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Where both operands are zero if subnormal numbers are, and the result is one of them, or zero for it."""
    return np.asarray(vanishes(a) & vanishes(b) & (same_bits(actual, a) | same_bits(actual, b) | (actual == 0)))


DIFFERENCES = (
    Difference(
        "f6 numbers that overflow",
        XLA,
        "reference",
        "the element types of StableHLO, f6E2M3FN and f6E3M2FN: they have neither infinities nor NaN, and a number "
        "beyond the largest one becomes the largest one, as it does in f4E2M1FN.",
        with_types(("convert",), *F6),
        where_given(_overflowed),
        "gives zero for a number beyond the largest one, and of NaN another zero",
    ),
    Difference(
        "the order of f6 numbers",
        XLA,
        "reference",
        "IEEE 754-2019, 5.10: in the total order negative numbers are below positive ones.",
        with_types(("sort", "topk"), *F6),
        _by_codes,
        "sorts by the six bits without a sign: all negative numbers are above the positive ones, and fall",
    ),
    Difference(
        "subnormal bf16 numbers in maximum and minimum",
        XLA,
        "reference",
        SUBNORMAL,
        with_types(("maximum", "minimum"), "bf16"),
        where_given(_either_of_zeros),
        "compares subnormal numbers as zeros, and gives one of the two",
    ),
    Difference(
        "the older type of a comparison",
        XLA,
        "open",
        "HloParserImpl, kCompare: type is read, what it says of floats becomes the order, and the rest is dropped "
        "unseen. Up to JAX 0.11 the verifier held it to the operands' type.",
        lambda case: case.name == "counterexample/compare/c4",
        None,
        "accepts a type that does not go with the operands",
        fails=True,
        refusal=True,
        says="^accepts a program that breaks ",
    ),
    Difference(
        "asynchronous operations whose operand is none",
        XLA,
        "reference",
        "the constraint of that label in the operation's file. An error is to be told; XLA does not take the program "
        "either.",
        lambda case: case.is_negative and of("async-update", "async-done")(case),
        None,
        "ends its process by SIGSEGV",
        fails=True,
        refusal=True,
        says="SIGSEGV",
    ),
)
