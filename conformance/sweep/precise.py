"""Checks the f64 values of a sweep against something more exact: the specification on a sample, mpmath at the worst.

A sweep treats the implementation's f64 results as exact. That is valid if their errors are smaller than the sweep can
resolve. `suspect` searches for an operand where they are not, and `error_at` computes the error at one operand from an
exact value of 200 bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
from refxla_spec.compare import precision, same_bits, ulp
from refxla_spec.errors import InputError
from refxla_spec.module import Instruction
from refxla_spec.operation import operation
from refxla_spec.types import F64, Shape

from .functions import Function
from .measure import Load, values_of
from .program import UNIT, values

SAMPLE = 1 << 17
BITS = 200


def error_at(function: Function, bits: int, load: Load) -> float | None:
    """The error in ULP at the operands with these bits, by mpmath; None if the result is not finite or is 0."""
    mpmath, exact = _exact(function.opcode)
    actual, _ = load(values(function, 1))([np.array([bits], np.uint32)])
    operands = [float(x) for x in values_of(function, bits)]
    if exact is None or not np.isfinite([*operands, actual[0]]).all():
        return None
    digits, least = precision(function.result)
    with mpmath.workprec(BITS):
        value = exact(*map(mpmath.mpf, operands))
        if not mpmath.isfinite(value) or value == 0:
            return None
        step = max(int(mpmath.floor(mpmath.log(abs(value), 2))) + 1 - digits, least)
        return float(abs(mpmath.mpf(float(actual[0])) - value) / mpmath.mpf(2) ** step)


def checker() -> Any:
    """mpmath. Raises InputError if it is not installed."""
    try:
        import mpmath
    except ImportError:
        raise InputError("the worst operands are checked with mpmath: pip install mpmath") from None
    return mpmath


def _exact(opcode: str) -> tuple[Any, Callable[..., Any] | None]:
    """mpmath, and its function for an operation, None if there is none. InputError if it is not installed."""
    mpmath = checker()
    other_names = {
        "add": lambda x, y: x + y,
        "cbrt": lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)),
        "cosine": mpmath.cos,
        "divide": lambda x, y: x / y,
        "exp2": lambda x: mpmath.power(2, x),
        "exponential": mpmath.exp,
        "exponential-minus-one": mpmath.expm1,
        "log-plus-one": mpmath.log1p,
        "log2": lambda x: mpmath.log(x, 2),
        "logistic": lambda x: 1 / (1 + mpmath.exp(-x)),
        "multiply": lambda x, y: x * y,
        "rsqrt": lambda x: 1 / mpmath.sqrt(x),
        "sine": mpmath.sin,
        "subtract": lambda x, y: x - y,
    }
    return mpmath, other_names.get(opcode) or getattr(mpmath, opcode, None)


def suspect(function: Function, load: Load, normal: bool = False) -> str:
    """An operand whose f64 result is too far from the reference's to measure errors by; "" if there is none.

    The sample has the special values of the type and operands spread evenly over all its bits. With `normal`, subnormal
    operands and results are left out, as in the sweep.
    """
    bits = _sample(function)
    _, actual = load(values(function, bits.size))([bits])
    with np.errstate(all="ignore"):
        operands = [values.astype(np.float64) for values in values_of(function, bits)]
        shape = Shape.array(function.result if function.opcode == "convert" else F64, (bits.size,))
        call = Instruction(function.opcode, function.opcode, shape, [], dict(function.attributes))
        expected = np.asarray(operation(function.opcode).evaluate(call, *operands)).astype(np.float64)
        allowed = ulp(expected, function.result) / UNIT if function.bound else 0
        wrong = ~(same_bits(actual, expected) | (np.isfinite(expected) & (np.abs(actual - expected) <= allowed)))
        if normal:
            tiny = float(ml_dtypes.finfo(function.operand.dtype).smallest_normal)
            for value in (*operands, expected):
                wrong &= ~((np.abs(value) < tiny) & (value != 0))
    if not wrong.any():
        return ""
    k = int(np.argmax(wrong))
    arguments = ", ".join(repr(float(o[k])) for o in operands)
    return f"{function.opcode}({arguments}) in f64 is {float(actual[k])!r} instead of {float(expected[k])!r}"


def _sample(function: Function) -> np.ndarray:
    if function.operands <= SAMPLE:
        return np.arange(function.operands, dtype=np.uint32)
    step = function.operands // SAMPLE
    spread = np.arange(SAMPLE, dtype=np.uint64) * step + np.arange(SAMPLE, dtype=np.uint64) % step
    if function.arity == 2:  # all pairs of special values, some 2^16, which a stride misses
        edges = _edges(function)
        spread[: edges.size**2] = (edges[:, None] << np.uint64(function.operand.bits) | edges).ravel()
    else:
        edges = _edges(function)
        spread[: edges.size] = edges
    return spread.astype(np.uint32)


def _edges(function: Function) -> np.ndarray:
    """The bits of zeros, subnormals, ones, the largest numbers, infinities and NaN, of both signs."""
    dtype = function.operand.array_dtype
    info = ml_dtypes.finfo(dtype)
    numbers = [0, 0.5, 1, 1.5, 2, 3, float(info.smallest_subnormal), float(info.tiny), float(info.max), np.inf, np.nan]
    with np.errstate(all="ignore"):
        both = np.array([*numbers, *(-n for n in numbers)]).astype(dtype)
    return both.view(f"u{dtype.itemsize}").astype(np.uint64)
