"""Products, selections and sorting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, Literal

import numpy as np
from refxla_spec.errors import UnsupportedError
from refxla_spec.types import S64

from ...ir.builder import Build
from .advice import unsupported
from .array import Traced
from .dispatch import FUNCTIONS, casting_error, implements, xp
from .extremes import CLIP
from .indexing import places_of
from .number import Number, applied
from .shape_functions import broadcast_to
from .values import (
    I,
    array_of,
    array_wrap,
    as_array,
    builder_of,
    element_type_of,
    is_nan,
    known_array,
    known_value,
    lift,
    normal_axes,
    normal_axis,
    own_axis,
    promoted,
    spread,
    truth,
    type_alone,
    weak,
    wrap,
)

Casting = Literal["no", "equiv", "safe", "same_kind", "unsafe"]


# -- products


def dot_general(b: Build, x: I, y: I, batch: Sequence[tuple[int, int]], contract: Sequence[tuple[int, int]]) -> I:
    """The products of x and y summed over pairs of dimensions; those of `batch` are paired, and come first."""
    kinds: dict[str, Any] = {}
    if batch:
        kinds = {"lhs_batch_dims": tuple(d for d, _ in batch), "rhs_batch_dims": tuple(d for _, d in batch)}
    return b.make("dot", x, y, lhs_contracting_dims=tuple(d for d, _ in contract),
                  rhs_contracting_dims=tuple(d for _, d in contract), **kinds)  # fmt: skip


@implements(np.matmul, np.linalg.matmul)
def matmul(a: Any, c: Any) -> Traced:
    b = builder_of(a, c)
    dtype = promoted(a, c)
    if dtype.kind == "b":
        return matmul(array_of(b, a, np.int32), c) != 0
    x, y = lift(b, a, dtype), lift(b, c, dtype)
    if not x.shape.rank or not y.shape.rank:
        raise ValueError("matmul: the operands must have at least one dimension")
    drop_x, drop_y = x.shape.rank == 1, y.shape.rank == 1
    x = b.reshape(x, (1, x.shape.dimensions[0])) if drop_x else x
    y = b.reshape(y, (y.shape.dimensions[0], 1)) if drop_y else y
    (m, k), (k2, n) = x.shape.dimensions[-2:], y.shape.dimensions[-2:]
    if k != k2:
        raise ValueError(
            f"matmul: Input operand 1 has a mismatch in its core dimension 0 (size {k2} is different from {k})"
        )
    batch = np.broadcast_shapes(x.shape.dimensions[:-2], y.shape.dimensions[:-2])
    if y.shape.rank == 2 and batch:  # one product of tall matrices
        flat = b.reshape(x, (prod(batch) * m, k))
        value = b.reshape(dot_general(b, flat, y, (), ((1, 0),)), (*batch, m, n))
    else:
        x, y = spread(b, x, (*batch, m, k)), spread(b, y, (*batch, k, n))
        dims = len(batch)
        value = dot_general(b, x, y, [(d, d) for d in range(dims)], ((dims + 1, dims),))
    shape = (*batch, *(() if drop_x else (m,)), *(() if drop_y else (n,)))
    return wrap(b, b.reshape(value, shape))


@implements(np.matvec)
def matvec(x1: Any, x2: Any, /) -> Traced:
    return np.matmul(x1, x2[..., None])[..., 0]


@implements(np.vecmat)
def vecmat(x1: Any, x2: Any, /) -> Traced:
    return np.matmul(np.conjugate(x1)[..., None, :], x2)[..., 0, :]


@implements(np.vecdot, np.linalg.vecdot)
def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Traced:
    if not (np.ndim(x1) and np.ndim(x2)):
        raise ValueError("vecdot: an input operand does not have enough dimensions")
    sizes = np.shape(x1)[axis], np.shape(x2)[axis]
    if sizes[0] != sizes[1]:
        raise ValueError(
            f"vecdot: the operands have a mismatch in their core dimension, of sizes {sizes[0]} and {sizes[1]}"
        )
    return xp.sum(xp.conjugate(xp.moveaxis(x1, axis, -1)) * xp.moveaxis(x2, axis, -1), axis=-1, dtype=promoted(x1, x2))


@implements(np.dot, "dot")
def dot(a: Any, b: Any, out: Any = None) -> Traced:
    if np.ndim(a) == 0 or np.ndim(b) == 0:
        build = builder_of(a, b)
        return xp.multiply(array_of(build, a), array_of(build, b))
    if np.ndim(b) > 2:
        return tensordot(a, b, ((np.ndim(a) - 1,), (np.ndim(b) - 2,)))
    return matmul(a, b)


@implements(np.tensordot, np.linalg.tensordot)
def tensordot(a: Any, b: Any, axes: Any = 2) -> Traced:
    build = builder_of(a, b)
    result = _contraction(as_array(a, build), as_array(b, build), axes)
    result.is_scalar = False  # NumPy reshapes a product: without dimensions, too, it is an array
    return result


def _contraction(a: Any, b: Any, axes: Any) -> Traced:
    """The sum of products over axes, as numpy.tensordot has them; without dimensions, it is a scalar."""
    build = builder_of(a, b)
    dtype = promoted(a, b)
    if dtype.kind == "b":
        return _contraction(array_of(build, a).astype(np.int32), array_of(build, b).astype(np.int32), axes) != 0
    x, y = lift(build, a, dtype), lift(build, b, dtype)
    if isinstance(axes, (int, np.integer)):
        left, right = tuple(range(x.shape.rank - axes, x.shape.rank)), tuple(range(axes))
    else:
        left, right = normal_axes(axes[0], x.shape.rank), normal_axes(axes[1], y.shape.rank)
    if len(left) != len(right) or any(
        x.shape.dimensions[d] != y.shape.dimensions[e] for d, e in zip(left, right, strict=True)
    ):
        raise ValueError("shape-mismatch for sum")
    return wrap(build, dot_general(build, x, y, (), tuple(zip(left, right, strict=True))))


@implements(np.inner)
def inner(a: Any, b: Any) -> Traced:
    if np.ndim(a) == 0 or np.ndim(b) == 0:
        build = builder_of(a, b)
        return np.multiply(as_array(a, build), as_array(b, build))
    return _contraction(a, b, ((np.ndim(a) - 1,), (np.ndim(b) - 1,)))


@implements(np.vdot)
def vdot(a: Any, b: Any) -> Traced:
    build = builder_of(a, b)
    a, b = (np.ravel(as_array(x, build)) for x in (a, b))
    return np.dot(np.conjugate(a) if a.dtype.kind == "c" else a, b)


@implements(np.outer, np.linalg.outer)
def outer(a: Any, b: Any, out: Any = None) -> Traced:
    build = builder_of(a, b)
    return xp.reshape(as_array(a, build), (-1, 1)) * xp.reshape(as_array(b, build), (1, -1))


@implements(np.kron)
def kron(a: Any, b: Any) -> Traced:
    build = builder_of(a, b)
    a, b = as_array(a, build), as_array(b, build)
    rank = max(np.ndim(a), np.ndim(b))
    left, right = (1,) * (rank - np.ndim(a)) + np.shape(a), (1,) * (rank - np.ndim(b)) + np.shape(b)
    x = xp.reshape(a, tuple(n for m in left for n in (m, 1)))
    y = xp.reshape(b, tuple(n for m in right for n in (1, m)))
    return (x * y).reshape(tuple(m * n for m, n in zip(left, right, strict=True)))


@implements(np.cross)
def cross(a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None) -> Traced:
    if axis is not None:
        axisa = axisb = axisc = axis
    build = builder_of(a, b)
    x, y = xp.moveaxis(array_of(build, a), axisa, -1), xp.moveaxis(array_of(build, b), axisb, -1)
    if x.shape[-1] != 3 or y.shape[-1] != 3:
        raise ValueError(f"Both input arrays must be (arrays of) 3-dimensional vectors, but they are {x.shape[-1]} and "
                         f"{y.shape[-1]} dimensional instead.")  # fmt: skip
    (x0, x1, x2), (y0, y1, y2) = ([v[..., n] for n in range(3)] for v in (x, y))
    return xp.moveaxis(xp.stack([x1 * y2 - x2 * y1, x2 * y0 - x0 * y2, x0 * y1 - x1 * y0], axis=-1), -1, axisc)


FUNCTIONS[np.linalg.cross] = lambda x1, x2, /, *, axis=-1: cross(x1, x2, axis=axis)

# -- choices


@implements(np.where)
def where(condition: Any, x: Any = None, y: Any = None, /) -> Traced:
    if x is None or y is None:
        raise unsupported(np.nonzero)
    b = builder_of(condition, x, y)
    dtype = promoted(x, y)
    parts = [truth(b, lift(b, condition)), lift(b, x, dtype), lift(b, y, dtype)]
    dimensions = np.broadcast_shapes(*(p.shape.dimensions for p in parts))
    return array_wrap(b, b.select(*(spread(b, p, dimensions) for p in parts)))


@implements(np.choose)
def choose(a: Any, choices: Any, out: Any = None, mode: str = "raise") -> Traced:
    b = builder_of(a, choices)
    choices = list(choices)
    n = len(choices)
    if not np.can_cast(type_alone(a), np.int64):
        raise TypeError(f"Cannot cast array data from {a.dtype!r} to dtype('int64') according to the rule 'safe'")
    places = wrap(b, places_of(b, lift(b, a), n, 0, mode, ValueError("invalid entry in choice array")))
    b.ranges[places.instruction] = n
    shape, kind = np.broadcast_shapes(np.shape(a), *(np.shape(c) for c in choices)), promoted(*choices)
    own = (array_of(b, c, np.int64) if weak(c) is int else array_of(b, c) for c in choices)
    stacked = np.stack([broadcast_to(c.astype(kind), shape) for c in own])
    return np.take_along_axis(stacked, np.broadcast_to(places, shape)[None], axis=0)[0]


@implements(np.select)
def select(condlist: Any, choicelist: Any, default: Any = 0) -> Traced:
    if len(condlist) != len(choicelist):
        raise ValueError("list of cases must be same length as list of conditions")
    b = builder_of(condlist, choicelist, default)
    dtype = promoted(*choicelist, default)
    value = array_of(b, default, type_alone(default)).astype(dtype)  # the dtype may not hold it
    for condition, choice in zip(reversed(list(condlist)), reversed(list(choicelist)), strict=True):
        value = xp.where(condition, array_of(b, choice, dtype), value)
    return value


@implements(np.clip, "clip")
def clip(
    a: Any, a_min: Any = None, a_max: Any = None, out: Any = None, *, min: Any = None, max: Any = None, **options: Any
) -> Traced:
    low: Any = a_min if a_min is not None and a_min is not np._NoValue else min
    high: Any = a_max if a_max is not None and a_max is not np._NoValue else max
    low, high = (None if v is np._NoValue else v for v in (low, high))
    if a.dtype.kind in "iu":  # as in NumPy: a Python number outside the range of the type is no bound
        least, most = np.iinfo(a.dtype).min, np.iinfo(a.dtype).max
        if isinstance(low, Number) and low.kind is int:
            low = applied("max", low, least)
        if isinstance(high, Number) and high.kind is int:
            high = applied("min", high, most)
        low = None if type(low) is int and low <= least else low
        high = None if type(high) is int and high >= most else high
    options = {k: v for k, v in options.items() if v is not None and v is not np._NoValue}
    if low is None and high is None:
        return np.positive(a, **options)
    if low is None:
        return np.minimum(a, high, **options)
    return np.maximum(a, low, **options) if high is None else CLIP(a, low, high, **options)


# -- order


def sorted_by(a: Traced, axis: int, *others: I) -> tuple[I, ...]:
    """The elements of an array, with corresponding elements of others, in NumPy's order: numbers ascending, NaNs at the
    end; stable. Complex numbers are ordered by their real parts, then by their imaginary ones."""
    b, operands = a.build, [a.instruction, *others]
    types = [o.shape.element_type for o in operands for _ in range(2)]

    def before(inner: Build, x: I, y: I) -> I:
        less = inner.compare(x, y, direction="LT")
        if not x.shape.element_type.is_float:
            return less
        return inner.or_(less, inner.and_(inner.not_(is_nan(inner, x)), is_nan(inner, y)))

    def comes_first(inner: Build, x: I, y: I, *_: I) -> I:
        if not x.shape.element_type.is_complex:
            return before(inner, x, y)
        (re, other_re), (im, other_im) = ([getattr(inner, part)(v) for v in (x, y)] for part in ("real", "imag"))
        nan, other_nan = is_nan(inner, x), is_nan(inner, y)
        tied = inner.and_(inner.not_(before(inner, re, other_re)), inner.not_(before(inner, other_re, re)))
        inside = inner.or_(before(inner, re, other_re), inner.and_(tied, before(inner, im, other_im)))
        differ = inner.xor(nan, other_nan)
        return inner.select(differ, other_nan, inside)

    computation = b.shared_computation("before", types, comes_first)
    result = b.make("sort", *operands, dimensions=(axis,), is_stable=True, to_apply=computation)
    if len(operands) == 1:
        return (result,)
    return tuple(b.make("get-tuple-element", result, index=n) for n in range(len(operands)))


def _flat(a: Traced, axis: int | None) -> tuple[Traced, int]:
    """An array and the number of its dimension; flattened if none is named."""
    return (xp.ravel(a), 0) if axis is None else (a, normal_axis(axis, a.ndim))


@implements(np.sort)
def sort(a: Traced, axis: int | None = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Traced:
    a, axis = _flat(a, axis)
    return wrap(a.build, sorted_by(a, axis)[0])


@implements("sort", aliasing=True)
def sort_in_place(a: Traced, axis: int = -1, **options: Any) -> None:
    a[...] = np.sort(a, axis=axis)


@implements(np.argsort, "argsort")
def argsort(a: Traced, axis: int | None = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Traced:
    a, axis = _flat(a, own_axis(axis, a.ndim))
    b = a.build
    places = sorted_by(a, axis, b.iota(S64, a.shape, axis))[1]
    b.ranges[places] = a.shape[axis]
    return wrap(b, places)


def _require_places(a: Traced, kth: Any, axis: int | None) -> None:
    """Raises NumPy's error for places of a partition that the array does not have."""
    size = a.size if axis is None else a.shape[normal_axis(axis, a.ndim)]
    places = known_value(kth)
    if places is None:
        return  # np.sort is right for all of them
    if places.dtype.kind == "b":
        raise ValueError("Booleans unacceptable as partition index")
    if places.dtype.kind not in "iu":
        raise TypeError("Partition index must be integer")
    for place in places.ravel().tolist() if a.size else ():
        if not -size <= place < size:
            raise ValueError(f"kth(={place}) out of bounds ({size})")


@implements(np.partition)
def partition(a: Traced, kth: Any, axis: int | None = -1, kind: Any = None, order: Any = None) -> Traced:
    _require_places(a, kth, axis)
    return xp.sort(a, axis=axis)


@implements("partition", aliasing=True)
def partition_in_place(a: Traced, kth: Any, axis: int = -1, **options: Any) -> None:
    _require_places(a, kth, axis)
    a[...] = np.sort(a, axis=axis)


@implements(np.argpartition, "argpartition")
def argpartition(a: Traced, kth: Any, axis: int | None = -1, kind: Any = None, order: Any = None) -> Traced:
    _require_places(a, kth, axis)
    return xp.argsort(a, axis=axis)


@implements(np.sort_complex)
def sort_complex(a: Traced) -> Traced:
    result = xp.sort(a)
    if result.dtype.kind == "c":
        return result
    return result.astype(np.complex64 if result.dtype.kind in "iu" and result.dtype.itemsize < 4 else np.complex128)


@implements(np.lexsort)
def lexsort(keys: Any, axis: int = -1) -> Traced:
    b = builder_of(keys)
    arrays = [array_of(b, k) for k in keys]
    order = None
    for key in arrays:  # the last key is the most significant
        if order is None:
            order = xp.argsort(key, axis=axis, kind="stable")
        else:
            again = xp.argsort(xp.take_along_axis(key, order, axis=axis), axis=axis, kind="stable")
            order = xp.take_along_axis(order, again, axis=axis)
    assert order is not None
    return order


# -- arrays like others


def _like(value: int) -> Callable[..., Any]:
    def apply(a: Any, dtype: Any = None, order: Any = "K", subok: bool = True, shape: Any = None, **_: Any) -> Traced:
        array = np.full(a.shape if shape is None else shape, value, a.dtype if dtype is None else dtype)
        return known_array(array, a.build)

    return apply


implements(np.zeros_like, np.empty_like)(_like(0))
implements(np.ones_like)(_like(1))


@implements(np.full_like)
def full_like(
    a: Any, fill_value: Any, dtype: Any = None, order: Any = "K", subok: bool = True, shape: Any = None, **_: Any
) -> Any:
    dtype = a.dtype if dtype is None else dtype
    return filled(a.shape if shape is None else shape, fill_value, dtype, builder_of(a, fill_value))


def filled(shape: Any, fill_value: Any, dtype: Any, b: Any) -> Traced:
    """np.full with a value that may be a symbol."""
    shape = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
    if isinstance(fill_value, Number):
        kind = np.asarray(fill_value.kind()).dtype if dtype is None else np.dtype(dtype)
        value = b.number(fill_value, kind, filled=True)
    elif builder_of(fill_value) is not None:
        value = lift(b, fill_value, dtype)
    else:
        return known_array(np.full(shape, fill_value, dtype), b)
    return Traced(spread(b, value, shape), b, is_scalar=False)


@implements("astype", aliasing=True)
def astype_method(
    a: Traced, dtype: Any, order: str = "K", casting: Casting = "unsafe", subok: bool = True, copy: bool = True
) -> Traced:
    if not np.can_cast(a.dtype, dtype, casting):
        raise TypeError(
            f"Cannot cast array data from {a.dtype!r} to {np.dtype(dtype)!r} according to the rule {casting!r}"
        )
    if not copy and a.dtype == dtype:
        return a
    if a.known_value is not None:
        known = known_array(a.known_value.astype(dtype), a.build)
        known.is_scalar = a.is_scalar
        return known
    i, b = a.instruction, a.build
    if np.dtype(dtype) == bool:
        return Traced(truth(b, i), b, is_scalar=a.is_scalar)
    if a.dtype.kind == "c" and np.dtype(dtype).kind != "c":
        i = b.real(i)
    return Traced(b.convert(i, element_type_of(dtype)), b, is_scalar=a.is_scalar)


@implements(np.astype, aliasing=True)
def astype(x: Traced, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Traced:
    return astype_method(x, dtype, copy=copy)


@implements(np.round, np.around, "round")
def round_(a: Traced, decimals: int = 0, out: Any = None) -> Traced:
    if a.dtype.kind in "iub":
        if a.dtype == bool and decimals:
            raise casting_error(np.multiply if decimals > 0 else np.divide, np.dtype(np.float64), a.dtype)
        if decimals >= 0:
            return a.copy() if a.dtype != bool else a.astype(np.float16)
        power = 10**-decimals
        if power > np.iinfo(a.dtype).max:
            return xp.zeros_like(a)
        return (np.rint(a / power) * power).astype(a.dtype)
    if not decimals:
        return xp.rint(a)
    power = a.dtype.type(10.0 ** abs(decimals))
    return np.rint(a * power) / power if decimals > 0 else np.rint(a / power) * power


@implements(np.fix)
def fix(x: Traced, out: Any = None) -> Traced:
    return xp.trunc(x)


@implements("conj", "conjugate", aliasing=True)
def conjugate(a: Traced) -> Traced:
    return xp.conjugate(a) if a.dtype.kind == "c" else a


@implements(np.angle)
def angle(z: Traced, deg: bool = False) -> Traced:
    result = xp.arctan2(xp.imag(z), xp.real(z)) if z.dtype.kind == "c" else xp.arctan2(0, z)
    return result * (180 / np.pi) if deg else result


@implements(np.ndim)
def ndim(a: Any) -> int:
    return getattr(a, "ndim", 0)


@implements(np.shape)
def shape(a: Any) -> tuple[int, ...]:
    return getattr(a, "shape", ())


@implements(np.size)
def size(a: Any, axis: Any = None) -> int:
    return a.size if axis is None else prod(a.shape[d] for d in normal_axes(axis, a.ndim))


@implements(np.result_type)
def result_type(*arrays_and_dtypes: Any) -> np.dtype:
    """The common type of arrays, of Python numbers, which are weak, and of types."""
    of_types = (isinstance(x, (type, str, np.dtype)) for x in arrays_and_dtypes)
    return promoted(*(np.empty(0, x) if named else x for x, named in zip(arrays_and_dtypes, of_types, strict=True)))


@implements(np.can_cast)
def can_cast(from_: Any, to: Any, casting: Casting = "safe") -> bool:
    return np.can_cast(from_.dtype if isinstance(from_, Traced) else from_, to, casting)


@implements(np.common_type)
def common_type(*arrays: Any) -> Any:
    return np.common_type(*(np.zeros((), a.dtype) for a in arrays))


@implements(np.min_scalar_type)
def min_scalar_type(a: Any) -> np.dtype:
    if not np.ndim(a):
        raise UnsupportedError("np.min_scalar_type of a number has no compiled form, since its value decides: x.dtype")
    return a.dtype


@implements(np.iscomplexobj)
def iscomplexobj(x: Any) -> bool:
    return x.dtype.kind == "c"


@implements(np.isrealobj)
def isrealobj(x: Any) -> bool:
    return x.dtype.kind != "c"


@implements(np.isreal)
def isreal(x: Any) -> Traced:
    return np.imag(x) == 0


@implements(np.iscomplex)
def iscomplex(x: Any) -> Traced:
    return np.imag(x) != 0


@implements(np.isclose)
def isclose(a: Any, b: Any, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: bool = False) -> Traced:
    build = builder_of(a, b)
    x, y = (v if isinstance(v, (int, float, complex)) else array_of(build, v) for v in (a, b))  # such numbers are weak
    if isinstance(y, int):
        y = y * 1.0
    elif isinstance(y, Traced) and y.dtype.kind in "biu":
        y = y.astype(np.float64)
    near = (abs(x - y) <= atol + rtol * abs(y)) & np.isfinite(y) | (x == y)
    return near | (np.isnan(x) & np.isnan(y)) if equal_nan else near


@implements(np.allclose)
def allclose(a: Any, b: Any, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: bool = False) -> Traced:
    return xp.all(isclose(a, b, rtol, atol, equal_nan))


@implements(np.array_equal)
def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> Any:
    build = builder_of(a1, a2)
    a1, a2 = as_array(a1, build), as_array(a2, build)
    if np.shape(a1) != np.shape(a2):
        return False
    same = a1 == a2
    return np.all(same | (np.isnan(a1) & np.isnan(a2)) if equal_nan else same)


@implements(np.array_equiv)
def array_equiv(a1: Any, a2: Any) -> Any:
    try:
        np.broadcast_shapes(np.shape(a1), np.shape(a2))
    except ValueError:
        return False
    build = builder_of(a1, a2)
    return np.all(as_array(a1, build) == as_array(a2, build))
