"""Arrays from sizes, numbers and other arrays, and their types."""

from __future__ import annotations

import builtins
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy

from ...._core.array import Array, put
from ..untyped import np
from .eager import DeviceLike, chosen, run

if TYPE_CHECKING:
    from ....typing import ArrayLike, DTypeLike

__all__ = [
    "arange", "asarray", "astype", "can_cast", "empty", "empty_like", "eye", "finfo", "from_dlpack", "full",
    "full_like", "iinfo", "isdtype", "linspace", "meshgrid", "ones", "ones_like", "result_type", "tril", "triu",
    "zeros", "zeros_like",
]  # fmt: skip


def asarray(
    obj: ArrayLike, /, *, dtype: DTypeLike | None = None, device: DeviceLike = None, copy: bool | None = None
) -> Array:
    """An Array from anything that `numpy.asarray` accepts. An Array of this type and on this device is returned
    unchanged, unless `copy` is True; ValueError if `copy` is False and a copy is needed."""
    if isinstance(obj, Array):
        here = obj.device if device is None else chosen(device)
        if (dtype is None or obj.dtype == dtype) and here == obj.device:
            return obj.shaped_as(obj.shape) if copy else obj
        if copy is False:
            raise ValueError("an Array of another type or device is a copy: leave out copy=False")
        return put(np.asarray(obj, dtype), here)
    if copy is False:
        raise ValueError("the values are copied to the device: leave out copy=False")
    return put(np.asarray(obj, dtype), chosen(device))


def from_dlpack(x: object, /, *, device: DeviceLike = None, copy: bool | None = None) -> Array:
    """An Array from an array of any library, by DLPack; the values are copied, except those of an Array."""
    return asarray(x if isinstance(x, Array) else np.from_dlpack(x), device=device, copy=copy)


def astype(x: Array, dtype: DTypeLike, /, *, copy: bool = True, device: DeviceLike = None) -> Array:
    """The values in another type. Raises TypeError for complex numbers that would become real ones."""
    if device is not None and chosen(device) != x.device:
        x = x.to_device(device)
    wanted: numpy.dtype = np.dtype(dtype)
    if wanted == x.dtype:
        return x.shaped_as(x.shape) if copy else x
    if x.dtype.kind == "c" and wanted.kind not in "cb":
        raise TypeError(f"astype from {x.dtype} to {wanted} would lose the imaginary parts: take real(x)")
    return run(_astype, x, dtype=wanted)


def _astype(x: Any, dtype: Any) -> Any:
    return x.astype(dtype)


def arange(
    start: float,
    /,
    stop: float | None = None,
    step: float = 1,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike = None,
) -> Array:
    """Evenly spaced numbers, as from `numpy.arange`."""
    if stop is None:
        start, stop = 0, start
    return put(np.arange(start, stop, step, dtype), chosen(device))


def linspace(
    start: complex,
    stop: complex,
    /,
    num: int,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike = None,
    endpoint: bool = True,
) -> Array:
    """`num` evenly spaced numbers from `start` to `stop`."""
    return put(np.linspace(start, stop, num, dtype=dtype, endpoint=endpoint), chosen(device))


def empty(shape: int | tuple[int, ...], *, dtype: DTypeLike | None = None, device: DeviceLike = None) -> Array:
    """An Array of zeros: uninitialized memory is never exposed."""
    return zeros(shape, dtype=dtype, device=device)


def zeros(shape: int | tuple[int, ...], *, dtype: DTypeLike | None = None, device: DeviceLike = None) -> Array:
    """An Array of zeros, of float64 if no type is given."""
    return put(np.zeros(shape, dtype), chosen(device))


def ones(shape: int | tuple[int, ...], *, dtype: DTypeLike | None = None, device: DeviceLike = None) -> Array:
    """An Array of ones, of float64 if no type is given."""
    return put(np.ones(shape, dtype), chosen(device))


def full(
    shape: int | tuple[int, ...], fill_value: complex, *, dtype: DTypeLike | None = None, device: DeviceLike = None
) -> Array:
    """An Array of equal elements, whose type is that of the number if none is given."""
    return put(np.full(shape, fill_value, dtype), chosen(device))


def eye(
    n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: DTypeLike | None = None, device: DeviceLike = None
) -> Array:
    """A matrix with ones on its diagonal, or on the one `k` above it."""
    return put(np.eye(n_rows, n_cols, k, np.float64 if dtype is None else dtype), chosen(device))


def empty_like(x: Array, /, *, dtype: DTypeLike | None = None, device: DeviceLike = None) -> Array:
    """As `empty`, with the shape of `x`."""
    return full_like(x, 0, dtype=dtype, device=device)


def zeros_like(x: Array, /, *, dtype: DTypeLike | None = None, device: DeviceLike = None) -> Array:
    """As `zeros`, with the shape of `x`, and its type and device unless others are given."""
    return full_like(x, 0, dtype=dtype, device=device)


def ones_like(x: Array, /, *, dtype: DTypeLike | None = None, device: DeviceLike = None) -> Array:
    """As `ones`, with the shape of `x`, and its type and device unless others are given."""
    return full_like(x, 1, dtype=dtype, device=device)


def full_like(x: Array, /, fill_value: complex, *, dtype: DTypeLike | None = None, device: DeviceLike = None) -> Array:
    """As `full`, with the shape of `x`, and its type and device unless others are given."""
    return full(x.shape, fill_value, dtype=x.dtype if dtype is None else dtype, device=device or x.device)


def meshgrid(*arrays: Array, indexing: str = "xy") -> list[Array]:
    """Coordinate grids of one-dimensional Arrays."""
    return list(run(_meshgrid, *arrays, indexing=indexing)) if arrays else []


def _meshgrid(*arrays: Any, indexing: str) -> tuple[Any, ...]:
    return tuple(np.meshgrid(*arrays, indexing=indexing))


def tril(x: Array, /, *, k: int = 0) -> Array:
    """Zeros above the diagonal `k`."""
    return run(np.tril, x, k=k)


def triu(x: Array, /, *, k: int = 0) -> Array:
    """Zeros below the diagonal `k`."""
    return run(np.triu, x, k=k)


# -- types


def result_type(*arrays_and_dtypes: ArrayLike | DTypeLike) -> numpy.dtype:
    """The type of an operation on these, by NumPy's rules of promotion."""
    return np.result_type(*(_type_of(a) for a in arrays_and_dtypes))


def can_cast(from_: DTypeLike | Array, to: DTypeLike, /) -> bool:
    """Whether the rules of promotion convert a type, or an Array's, to another one."""
    return np.can_cast(_type_of(from_), to)


def isdtype(dtype: DTypeLike, kind: DTypeLike | tuple[DTypeLike, ...]) -> builtins.bool:
    """Whether a type is of a kind, such as "real floating" (see `numpy.isdtype`), or one of several."""
    return np.isdtype(dtype, kind)


@dataclass(frozen=True)
class FloatInfo:
    """The limits of a type of real or complex floating-point numbers."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: numpy.dtype


@dataclass(frozen=True)
class IntegerInfo:
    """The limits of a type of integers."""

    bits: int
    max: int
    min: int
    dtype: numpy.dtype


def finfo(type: DTypeLike | Array, /) -> FloatInfo:
    """The limits of a type of floating-point numbers, or of an Array's."""
    limits = np.finfo(_type_of(type))
    eps, high, low, normal = map(float, (limits.eps, limits.max, limits.min, limits.smallest_normal))
    return FloatInfo(int(limits.bits), eps, high, low, normal, np.dtype(limits.dtype))


def iinfo(type: DTypeLike | Array, /) -> IntegerInfo:
    """The limits of a type of integers, or of an Array's."""
    limits = np.iinfo(_type_of(type))
    return IntegerInfo(int(limits.bits), int(limits.max), int(limits.min), np.dtype(limits.dtype))


def _type_of(value: Any) -> Any:
    return value.dtype if isinstance(value, Array) else value
