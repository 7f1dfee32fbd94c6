"""What NumPy's ufuncs become: a table, and how their types and shapes are resolved.

Types follow NumPy: `ufunc.resolve_dtypes` says which types an operation works on (a Python number is weak);
broadcasting aligns the last dimensions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from refxla_spec.errors import UnsupportedError

from ...ir.builder import Build
from . import dispatch
from .array import Traced
from .reduction_functions import REDUCERS, accumulate_by, reduce_by
from .values import I, is_nan, lift, spread, truth, weak, wrap


def _compare(direction: str) -> Callable:
    return lambda b, x, y: b.compare(x, y, direction=direction)


def _floor_divide(b: Build, x: I, y: I) -> I:
    if x.shape.element_type.is_float:
        return b.floor(b.divide(x, y))
    quotient = b.divide(x, y)
    if x.shape.element_type.kind == "unsigned":
        return quotient
    rest = b.remainder(x, y)
    crossing = b.and_(b.compare(rest, 0, direction="NE"), b.compare(b.xor(rest, y), 0, direction="LT"))
    return b.select(crossing, b.subtract(quotient, 1), quotient)


def _modulo(b: Build, x: I, y: I) -> I:
    """Python's remainder: it has the sign of the divisor."""
    rest = b.remainder(x, y)
    if x.shape.element_type.kind == "unsigned":
        return rest
    wrong = b.compare(b.compare(rest, 0, direction="LT"), b.compare(y, 0, direction="LT"), direction="NE")
    return b.select(b.and_(wrong, b.compare(rest, 0, direction="NE")), b.add(rest, y), rest)


def _trunc(b: Build, x: I) -> I:
    return b.select(b.compare(x, 0, direction="LT"), b.ceil(x), b.floor(x))


def _ignoring_nan(opcode: str) -> Callable:
    def apply(b: Build, x: I, y: I) -> I:
        if not x.shape.element_type.is_float:
            return getattr(b, opcode)(x, y)
        return b.select(is_nan(b, x), y, b.select(is_nan(b, y), x, getattr(b, opcode)(x, y)))

    return apply


def _log_of(base: float) -> Callable:
    return lambda b, x: b.multiply(b.log(x), 1 / np.log(base))


def _logaddexp(b: Build, x: I, y: I) -> I:
    high, low = b.maximum(x, y), b.minimum(x, y)
    return b.select(b.compare(x, y, direction="EQ"), b.add(x, float(np.log(2))),
                    b.add(high, b.log_plus_one(b.exponential(b.subtract(low, high)))))  # fmt: skip


def _abs(b: Build, x: I) -> I:
    kind = x.shape.element_type.kind
    return x if kind in ("pred", "unsigned") else b.abs(x)


# Where the operation is HLO's of another name, the name; else a function of the builder and the operands.
UFUNCS: dict[np.ufunc, str | Callable] = {
    np.add: "add", np.subtract: "subtract", np.multiply: "multiply", np.true_divide: "divide",
    np.floor_divide: _floor_divide, np.remainder: _modulo, np.fmod: "remainder", np.power: "power",
    np.float_power: "power", np.negative: "negate", np.positive: lambda b, x: x, np.absolute: _abs, np.fabs: "abs",
    np.sign: "sign", np.exp: "exponential", np.expm1: "exponential_minus_one", np.log: "log",
    np.log1p: "log_plus_one", np.log2: _log_of(2), np.log10: _log_of(10),
    np.exp2: lambda b, x: b.power(b.full(2, x.shape), x),
    np.sqrt: "sqrt", np.cbrt: "cbrt", np.square: lambda b, x: b.multiply(x, x),
    np.reciprocal: lambda b, x: b.divide(b.full(1, x.shape), x),
    np.sin: "sine", np.cos: "cosine", np.tan: "tan", np.arcsin: "asin", np.arccos: "acos",
    np.arctan: lambda b, x: b.atan2(x, 1), np.arctan2: "atan2", np.sinh: "sinh", np.cosh: "cosh", np.tanh: "tanh",
    np.arcsinh: "asinh", np.arccosh: "acosh", np.arctanh: "atanh",
    np.hypot: lambda b, x, y: b.sqrt(b.add(b.multiply(x, x), b.multiply(y, y))),
    np.logaddexp: _logaddexp, np.maximum: "maximum", np.minimum: "minimum",
    np.fmax: _ignoring_nan("maximum"), np.fmin: _ignoring_nan("minimum"),
    np.floor: "floor", np.ceil: "ceil", np.trunc: _trunc, np.rint: "round_nearest_even",
    np.isnan: is_nan, np.isfinite: "is_finite",
    np.isinf: lambda b, x: b.compare(b.abs(x), np.inf, direction="EQ"),
    np.signbit: lambda b, x: b.compare(x, 0, direction="LT", order="TOTAL"),
    np.equal: _compare("EQ"), np.not_equal: _compare("NE"), np.less: _compare("LT"),
    np.less_equal: _compare("LE"), np.greater: _compare("GT"), np.greater_equal: _compare("GE"),
    np.logical_and: lambda b, x, y: b.and_(truth(b, x), truth(b, y)),
    np.logical_or: lambda b, x, y: b.or_(truth(b, x), truth(b, y)),
    np.logical_xor: lambda b, x, y: b.xor(truth(b, x), truth(b, y)),
    np.logical_not: lambda b, x: b.not_(truth(b, x)),
    np.bitwise_and: "and", np.bitwise_or: "or", np.bitwise_xor: "xor", np.invert: "not",
    np.left_shift: "shift_left",
    np.right_shift: lambda b, x, y: (b.shift_right_logical if x.shape.element_type.kind == "unsigned"
                                     else b.shift_right_arithmetic)(x, y),
    np.conjugate: lambda b, x: b.complex(b.real(x), b.negate(b.imag(x))) if x.shape.element_type.is_complex else x,
}  # fmt: skip


def apply_ufunc(b: Build, ufunc: np.ufunc, method: str, inputs: Sequence[Any], options: dict[str, Any]) -> Traced:
    """A ufunc called, reduced or accumulated."""
    dtype = options.pop("dtype", None)
    if method == "reduce" and ufunc in REDUCERS:
        return reduce_by(ufunc, inputs[0], dtype=dtype, **options)
    if method == "accumulate" and ufunc in REDUCERS:
        return accumulate_by(ufunc, inputs[0], dtype=dtype, **options)
    where = options.pop("where", True)
    if method != "__call__" or where is not True or any(k not in ("casting", "order", "subok") for k in options):
        raise UnsupportedError(
            f"np.{ufunc.__name__}: {method} with {', '.join(options) or 'where'} has no compiled form"
        )
    if ufunc in dispatch.FUNCTIONS:
        return dispatch.FUNCTIONS[ufunc](*inputs)
    implementation = UFUNCS.get(ufunc)
    if implementation is None:
        raise UnsupportedError(f"np.{ufunc.__name__} has no compiled form")
    wanted = (*(weak(x) for x in inputs), *(dtype and np.dtype(dtype) for _ in range(ufunc.nout)))
    types = ufunc.resolve_dtypes(wanted)
    operands = [lift(b, x, t) for x, t in zip(inputs, types, strict=False)]
    dimensions = np.broadcast_shapes(*(o.shape.dimensions for o in operands))
    operands = [spread(b, o, dimensions) for o in operands]
    apply = getattr(b, implementation) if isinstance(implementation, str) else lambda *o: implementation(b, *o)
    return wrap(b, apply(*operands))


dispatch.UFUNCS["apply"] = apply_ufunc
