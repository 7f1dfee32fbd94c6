"""How accurate each elementwise operation is: the contract that the reference, the compiler and conformance share.

One ULP is the distance between the two neighbours of the exact result in the result's type. An error is measured from
the exact result, so a correctly rounded operation is within 0.5. `max_ulp` is 0 for operations that are exact by IEEE
754 (rounded once, bit for bit): those are compared as bits, save that one NaN is as good as another.

f16, bf16 and the types of 8 bits and fewer are computed in f32, within its bound, and rounded once: an f32 error of a
few ULP can only move a result that is almost halfway between two of their values, to the other one. So the bound is 1,
and of operands that are known exactly bounds.py tells which results lie so; all others are exact. Special values
(zeros with their sign, infinities, NaN) and results that are exactly representable limits are part of the contract: an
exact result that is zero, infinite or NaN is met exactly.

What takes several steps, above all sums (reduce, reduce-window, dot, convolution, scatter, batch-norm, cholesky ...),
is computed in f32 at least, in f64 for f64, and rounded to the type of its result once. That holds of a sum however it
is written: a reducer is an `add` of bf16, and yet the sum of a thousand is rounded once, not at each of them. (Of a
`while` loop that adds, each addition is an operation of its own; so it is where a reducer is more than one operation.)
A sum of n terms may be off by n u sum |terms|, u = 2^-24 for all types up to f32, and one rounding of the result.

The value of a complex operation is compared by its distance from the exact one: ULPs of its modulus, not of each part.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from .types import C64, C128, ELEMENT_TYPES, F32, F64, ElementType

# Bounds for f32 and f64 alike. Next to each: the largest error found in refxla's own functions, in f32 with a star over
# all 2^32 operands (`refxla-conformance sweep`), then in f64, over samples of about a million.
_REAL = {
    "exponential": 1.0,  # 0.98* 0.98
    "exponential-minus-one": 1.0,  # 0.87* 0.81
    "exp2": 1.0,  # 0.75 0.74
    "log": 1.0,  # 0.83* 0.78
    "log2": 2.0,  # 1.06 1.11
    "log-plus-one": 1.0,  # 0.93* 0.81
    "logistic": 1.0,  # 0.76* 0.74
    "tanh": 1.0,  # 0.95* 0.93
    "cbrt": 1.0,  # 0.75* 0.70
    "power": 1.0,  # 0.75 0.72
    "sine": 1.0,  # 0.78* 0.77
    "cosine": 1.0,  # 0.78* 0.77
    "rsqrt": 2.0,  # 1.49* 1.48
    "atan2": 2.0,  # 1.47 1.50
    "atan": 2.0,  # 1.24 1.50
    "acos": 2.0,  # 1.12* 1.11
    "acosh": 3.0,  # 2.41* 1.82
    "asinh": 2.0,  # 1.74* 1.49
    "atanh": 3.0,  # 2.08* 1.46
    "cosh": 2.0,  # 1.08* 1.06
    "sinh": 2.0,  # 1.87* 1.83
    "erf": 3.0,  # 1.51* 1.81
    "asin": 3.0,  # 2.35* 2.06
    "tan": 3.0,  # 2.29* 2.04
}

# Complex operations, in ULPs of the modulus of the exact result: distances in the plane, so that the smaller of two
# parts may be off by more of its own ULPs. Next to each: the largest error found so far, over c64 and c128.
# A product whose partial products overflow, a power with |y log x| beyond 100, and an exp2 with an angle beyond 100
# are outside the contract: the exact formula cancels there what the rounded one has lost.
_COMPLEX = {
    "multiply": 2.0,  # 1.5
    "abs": 2.0,  # 1.2
    "sign": 3.0,  # 2.1
    "exponential": 3.0,  # 1.8
    "exp2": 4.0,  # 2.1
    "log": 3.0,  # 1.8
    "log2": 5.0,  # 2.6
    "sqrt": 3.0,  # 1.7
    "exponential-minus-one": 4.0,  # 2.5
    "log-plus-one": 4.0,  # 2.3
    "sine": 4.0,  # 2.4
    "cosine": 4.0,  # 2.5
    "divide": 4.0,  # 3.1
    "rsqrt": 4.0,  # 3.0
    "logistic": 6.0,  # 3.8
    "tan": 6.0,  # 3.8
    "tanh": 6.0,  # 4.3
    "cosh": 4.0,  # 2.3
    "sinh": 4.0,  # 2.1
    "acos": 6.0,  # 2.9
    "acosh": 6.0,  # 2.9
    "asin": 6.0,  # 2.2
    "asinh": 6.0,  # 2.3
    "atanh": 6.0,  # 2.1
    "atan2": 6.0,  # 2.9
    "power": 1024.0,  # 300: two ULP for each unit of |y log x|, and more
}

#: (opcode, element type) -> largest error in ULP. An elementwise operation of a type that it takes is exact if it is
#: not here, and so is data movement. What adds up terms or takes several steps (reduce, dot, convolution, fft,
#: cholesky, batch-norm-training, ...) is not here and not exact: its bounds are derived for each element, in bounds.py.
ULP: dict[tuple[str, str], float] = {
    **{(opcode, type_): bound for opcode, bound in _REAL.items() for type_ in ("f32", "f64")},
    **{(opcode, t.name): 1.0 for opcode in _REAL for t in ELEMENT_TYPES.values() if t.is_float and t.bits < 32},
    **{(opcode, type_): bound for opcode, bound in _COMPLEX.items() for type_ in ("c64", "c128")},
}


_each_step_rounds = ContextVar("each_step_rounds", default=False)


@contextmanager
def rounding_each_step() -> Iterator[None]:
    """Inside, the contract is a weaker one, by which others are judged that break ours: `computed_in` gives each type
    itself, as if sums of narrow types were rounded at each addition."""
    token = _each_step_rounds.set(True)
    try:
        yield
    finally:
        _each_step_rounds.reset(token)


def computed_in(element_type: ElementType) -> ElementType:
    """The type in which sums, and other operations of several steps, of a floating-point or complex type are computed
    at least."""
    if _each_step_rounds.get():
        return element_type
    return {F64: F64, C128: F64, C64: F32}.get(element_type, F32)


def max_ulp(opcode: str, element_type: str) -> float:
    """The largest error of an elementwise `opcode` on operands of `element_type` (HLO names), in ULP of the result.

    0 means exact; it is also what an operation that is not elementwise gives, whose errors are those of bounds.py.
    """
    return ULP.get((opcode, element_type), 0.0)
