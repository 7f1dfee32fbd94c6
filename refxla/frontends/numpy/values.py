"""Conversions between values in a NumPy function and instructions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from refxla_spec.errors import InputError, a_type
from refxla_spec.module import Instruction
from refxla_spec.types import BY_DTYPE, ElementType, Shape

from ...ir.builder import Build
from .array import Traced, constant
from .dispatch import ARRAYS, adopted, require_cast, symbols
from .number import Number
from .subclasses import require_plain
from .tracing import Tracing

I = Instruction  # noqa: E741 - the type of every value below


def builder_of(*values: Any) -> Any:
    """The Tracing to which a value belongs; None if there is none."""
    return next((s.build for s in symbols(values)), None)


def lift(b: Tracing, x: Any, dtype: Any = None) -> I:
    """The instruction of a value, which may be a constant, converted to a type."""
    kind = None if dtype is None else element_type_of(dtype)
    if isinstance(x, Traced):
        value = x.instruction
    elif isinstance(x, Number):
        return b.number(x, np.asarray(x.kind()).dtype if dtype is None else np.dtype(dtype))
    elif isinstance(x, (list, tuple)) and builder_of(x) is not None:
        stacked: Any = np.stack([wrap(b, lift(b, e)) for e in x])  # NumPy passes this to this package
        value = stacked.instruction
    else:
        require_plain(x, "an operand")
        array = np.asarray(x, dtype)
        element_type_of(array.dtype, a_type(x))
        value = constant(b, array)
    if kind is None:
        return value
    if value.shape.element_type.is_complex and not kind.is_complex and kind.kind != "pred":
        value = b.real(value)
    return truth(b, value) if kind.kind == "pred" else b.convert(value, kind)


def element_type_of(dtype: Any, what: str = "a value") -> ElementType:
    """HLO's type for one of NumPy's; an InputError if HLO has none."""
    dtype = np.dtype(dtype)
    if dtype not in BY_DTYPE:
        raise InputError(
            f"{what} takes part, of the type {dtype}, which HLO does not have: there are bool, int8 to int64, uint8 to "
            "uint64, float16 to float64, complex64, complex128 and the types of ml_dtypes"
        )
    return BY_DTYPE[dtype]


def wrap(b: Tracing, value: I) -> Traced:
    """An array with its own storage, from an instruction."""
    return Traced(value, b)


def array_wrap(b: Tracing, value: I) -> Traced:
    """An array with its own storage, from an instruction: not a NumPy scalar, even if it has no dimensions."""
    return Traced(value, b, is_scalar=False)


def scalar_or_array(x: Traced) -> Traced:
    """An array; a NumPy scalar, if it has no dimensions."""
    return x if x.ndim else x[()]


def array_of(b: Tracing, x: Any, dtype: Any = None) -> Traced:
    """A value as an array; unchanged, if it is one of that type."""
    if isinstance(x, Traced) and (dtype is None or x.dtype == dtype):
        return x
    return wrap(b, lift(b, x, dtype))


def as_array(x: Any, b: Tracing) -> Any:
    """A value as `np.asarray` makes an array of it: a Python number has a type of its own, which is not weak."""
    return array_of(b, x) if isinstance(x, (int, float, complex)) else x


def doubles(b: Tracing, function: Any, x: Any) -> Traced:
    """A value as an array of f64, as functions of NumPy that compute in it convert their operands: a complex number is
    NumPy's TypeError, and does not lose its imaginary part."""
    require_cast(function, promoted(x), np.dtype(np.float64), "safe")
    return array_of(b, x, np.float64)


def arrays(*values: Any) -> list[Traced]:
    """Operands of a function, some of them symbols, as arrays of one trace."""
    b = builder_of(*values)
    assert b is not None
    return [array_of(b, x) for x in values]


def known_array(array: np.ndarray, b: Tracing) -> Traced:
    """An array whose value is known, and to which the function may assign."""
    element_type_of(array.dtype)
    if array.base is not None or not array.flags.owndata or not array.flags.writeable:
        array = array.copy()  # so that arrays that share its memory are views of it
    return Traced(array, b, is_scalar=False)


ARRAYS["of"] = known_array


def known_value(x: Any) -> np.ndarray | None:
    """The value of an operand that is known when the function is traced; None if it is not."""
    if isinstance(x, Traced):
        return x.known_value
    if isinstance(x, Number) or builder_of(x) is not None:
        return None
    return np.asarray(x)


def spread(b: Build, x: I, dimensions: Sequence[int]) -> I:
    """NumPy's broadcasting: the last dimensions are aligned, those of size 1 repeat."""
    own, dimensions = x.shape.dimensions, tuple(dimensions)
    if own == dimensions:
        return x
    lead = len(dimensions) - len(own)
    dims = [d for d, n in enumerate(own) if n == dimensions[lead + d]]
    if len(dims) < len(own):
        x = b.reshape(x, tuple(own[d] for d in dims))
    return b.spread(x, Shape(x.shape.element_type, dimensions), tuple(lead + d for d in dims))


def weak(x: Any) -> Any:
    """The argument of `resolve_dtypes`: a Python number's type, otherwise the dtype."""
    if isinstance(x, Traced):
        return x.python or x.dtype
    kind = x.kind if isinstance(x, Number) else type(x)
    if kind in (int, float, complex):
        return kind
    if isinstance(x, Number):
        return np.dtype(kind)
    if hasattr(x, "dtype"):
        return x.dtype
    build = builder_of(x)
    return np.asarray(x).dtype if build is None else lift(build, x).shape.element_type.dtype


def type_alone(x: Any) -> np.dtype:
    """The type that NumPy gives a value by itself: a Python number's is not weak then."""
    if isinstance(x, Number):
        return np.asarray(x.kind()).dtype
    kind = weak(x)
    return np.asarray(x).dtype if isinstance(kind, type) and not isinstance(x, Traced) else np.dtype(kind)


def promoted(*values: Any) -> np.dtype:
    """The common type of values; Python numbers are weak."""
    kinds = (weak(x) for x in values)
    return np.result_type(*(k() if isinstance(k, type) and issubclass(k, (int, float, complex)) else k for k in kinds))


def inexact(*values: Any) -> np.dtype:
    """The common type of values as floating-point or complex numbers: f64 for integers and booleans."""
    dtype = promoted(*values)
    return np.dtype(np.float64) if dtype.kind in "biu" else dtype


def truth(b: Build, x: I) -> I:
    return x if x.shape.element_type.kind == "pred" else b.compare(x, 0, direction="NE")


def is_nan(b: Build, x: I) -> I:
    if x.shape.element_type.is_complex:
        re, im = b.real(x), b.imag(x)
        return b.or_(b.compare(re, re, direction="NE"), b.compare(im, im, direction="NE"))
    return b.compare(x, x, direction="NE")


def normal_axes(axis: Any, rank: int) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(rank))
    return tuple(np.lib.array_utils.normalize_axis_tuple(axis, rank))


def own_axis(axis: Any, rank: int) -> Any:
    """An axis; None, which means all of them, for the 0 or -1 that reductions accept for an array without
    dimensions."""
    return None if rank == 0 and isinstance(axis, (int, np.integer)) and axis in (0, -1) else axis


def normal_axis(axis: Any, rank: int) -> int:
    return int(np.lib.array_utils.normalize_axis_index(axis, rank))


__all__ = [
    "I", "adopted", "array_of", "arrays", "as_array", "builder_of", "doubles", "element_type_of", "inexact", "is_nan",
    "known_array", "known_value", "lift", "normal_axes", "normal_axis", "own_axis", "promoted", "spread", "truth",
    "type_alone", "weak", "wrap",
]  # fmt: skip
