"""Functions that move elements: shapes, views, joining, repeating."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
from refxla_spec.errors import UnsupportedError, indefinite
from refxla_spec.module import SliceDimension
from refxla_spec.types import BY_DTYPE, S64, Shape

from ...ir.builder import Build
from .array import Traced
from .dispatch import FUNCTIONS, implements, xp
from .number import Number
from .values import (
    I,
    array_of,
    array_wrap,
    as_array,
    builder_of,
    known_value,
    lift,
    normal_axes,
    normal_axis,
    own_axis,
    promoted,
    spread,
    wrap,
)

# -- views


def _moved(
    a: Any, of_array: Callable[..., Any], of_instruction: Callable[[I], I], back: Callable[[I], I] | None
) -> Traced:
    """A view of all elements of an array; `back` computes the array from the view's elements (None: it is
    read-only)."""
    return a.viewed(of_array, of_instruction, None if back is None else lambda _, part: back(part))


def _is_view(a: Traced, shape: tuple[int, ...]) -> bool:
    """Whether NumPy reshapes an array, created in row-major order and then viewed, without a copy."""
    model = model_of(a)
    try:
        np.reshape(model, shape, copy=False)
    except ValueError:
        return False
    return True


def model_of(a: Traced) -> np.ndarray:
    """A NumPy array with the strides of this one; its memory is not accessed."""
    if a.alias is not None:
        return np.asarray(a.alias.of_array(model_of(a.alias.of)))
    strides = [a.dtype.itemsize * prod(a.shape[d + 1 :]) for d in range(a.ndim)]
    return np.lib.stride_tricks.as_strided(np.empty(1, a.dtype), a.shape, strides)


def reshape(a: Traced, /, *shape: Any, order: str = "C", copy: bool | None = None, **_: Any) -> Traced:
    sizes = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list, np.ndarray)) else shape
    sizes = [operator.index(n) for n in sizes]
    if sizes.count(-1) > 1:
        raise ValueError("can only specify one unknown dimension")
    if -1 in sizes:
        rest = -prod(sizes)
        if rest == 0 or a.size % rest:
            raise ValueError(f"cannot reshape array of size {a.size} into shape {tuple(shape)}")
        sizes[sizes.index(-1)] = a.size // rest
    if prod(sizes) != a.size:
        raise ValueError(f"cannot reshape array of size {a.size} into shape {tuple(sizes)}")
    own, new, b = a.shape, tuple(sizes), a.build
    if order == "F":
        return transpose(reshape(transpose(a), *new[::-1]))
    if copy or (a.alias is not None and not a.is_scalar and not _is_view(a, new)):
        return copied(reshape_value(a, new))
    result = _moved(a, lambda x: x.reshape(new), lambda i: b.reshape(i, new), lambda part: b.reshape(part, own))
    return result


def reshape_value(a: Traced, shape: tuple[int, ...]) -> Traced:
    """The elements in another shape, in separate memory."""
    value = a.known_value
    if value is not None:
        return Traced(value.reshape(shape).copy(), a.build, is_scalar=False)
    return Traced(a.build.reshape(a.instruction, shape), a.build, is_scalar=False)


@implements("copy", "__copy__")
def copied(a: Traced, order: str = "K") -> Traced:
    value = a.known_value
    return Traced(a.instruction if value is None else value.copy(), a.build, is_scalar=a.is_scalar)


@implements(np.copy)
def copy(a: Traced, order: str = "K", subok: bool = False) -> Traced:
    result = copied(a)
    result.is_scalar = False
    return result


implements("reshape", aliasing=True)(reshape)


@implements(np.reshape, aliasing=True)
def reshape_to(a: Traced, /, shape: Any = None, order: str = "C", *, newshape: Any = None, copy: Any = None) -> Traced:
    shape = newshape if shape is None else shape
    sizes = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
    return reshape(a, *sizes, order=order, copy=copy)


@implements(np.ravel, "ravel", aliasing=True)
def ravel(a: Traced, order: str = "C") -> Traced:
    return reshape(a, -1, order="F" if order == "F" else "C") if a.size else reshape(a, 0)


@implements("flatten")
def flatten(a: Traced, order: str = "C") -> Traced:
    return copied(ravel(a, order))


@implements(np.transpose, np.permute_dims, aliasing=True)
def transpose_function(a: Traced, axes: Any = None) -> Traced:
    return transpose(a, axes)


@implements("transpose", aliasing=True)
def transpose(a: Traced, *axes: Any) -> Traced:
    order = axes[0] if len(axes) == 1 and (axes[0] is None or isinstance(axes[0], (tuple, list))) else axes or None
    dims = tuple(reversed(range(a.ndim))) if order is None else normal_axes(tuple(order), a.ndim)
    if len(dims) != a.ndim:
        raise ValueError("axes don't match array")
    back = tuple(dims.index(d) for d in range(a.ndim))
    b = a.build
    return _moved(
        a, lambda x: x.transpose(dims), lambda i: b.make("transpose", i, dimensions=dims),
        lambda part: b.make("transpose", part, dimensions=back),
    )  # fmt: skip


@implements(np.matrix_transpose, np.linalg.matrix_transpose, aliasing=True)
def matrix_transpose(x: Traced) -> Traced:
    return swapaxes(x, -1, -2)


@implements(np.swapaxes, "swapaxes", aliasing=True)
def swapaxes(a: Traced, axis1: int, axis2: int) -> Traced:
    order = list(range(a.ndim))
    first, second = normal_axis(axis1, a.ndim), normal_axis(axis2, a.ndim)
    order[first], order[second] = order[second], order[first]
    return transpose(a, order)


@implements(np.moveaxis, aliasing=True)
def moveaxis(a: Traced, source: Any, destination: Any) -> Traced:
    source, destination = normal_axes(source, a.ndim), normal_axes(destination, a.ndim)
    if len(source) != len(destination):
        raise ValueError("`source` and `destination` arguments must have the same number of elements")
    order = [d for d in range(a.ndim) if d not in source]
    for to, come in sorted(zip(destination, source, strict=True)):
        order.insert(to, come)
    return transpose(a, order)


@implements(np.rollaxis, aliasing=True)
def rollaxis(a: Traced, axis: int, start: int = 0) -> Traced:
    axis = normal_axis(axis, a.ndim)
    start += a.ndim if start < 0 else 0
    start -= 1 if axis < start else 0
    order = [d for d in range(a.ndim) if d != axis]
    order.insert(start, axis)
    return transpose(a, order)


@implements(np.expand_dims, aliasing=True)
def expand_dims(a: Traced, axis: Any) -> Traced:
    axes = (axis,) if isinstance(axis, (int, np.integer)) else tuple(axis)
    places = normal_axes(axes, a.ndim + len(axes))
    sizes = iter(a.shape)
    return reshape(a, *(1 if d in places else next(sizes) for d in range(a.ndim + len(axes))))


@implements(np.squeeze, "squeeze", aliasing=True)
def squeeze(a: Traced, axis: Any = None) -> Traced:
    axis = own_axis(axis, a.ndim)
    axes = tuple(d for d, n in enumerate(a.shape) if n == 1) if axis is None else normal_axes(axis, a.ndim)
    if any(a.shape[d] != 1 for d in axes):
        raise ValueError("cannot select an axis to squeeze out which has size not equal to one")
    return reshape(a, *(n for d, n in enumerate(a.shape) if d not in axes))


@implements(np.flip, aliasing=True)
def flip(m: Traced, axis: Any = None) -> Traced:
    axes = normal_axes(axis, m.ndim)
    return m[tuple(slice(None, None, -1) if d in axes else slice(None) for d in range(m.ndim))]


@implements(np.flipud, aliasing=True)
def flipud(m: Traced) -> Traced:
    return flip(m, 0)


@implements(np.fliplr, aliasing=True)
def fliplr(m: Traced) -> Traced:
    return flip(m, 1)


@implements(np.rot90, aliasing=True)
def rot90(m: Traced, k: int = 1, axes: Any = (0, 1)) -> Traced:
    first, second = normal_axes(tuple(axes), m.ndim)
    turns = k % 4
    if turns == 0:
        return m[:]
    if turns == 2:
        return flip(m, (first, second))
    return swapaxes(flip(m, second), first, second) if turns == 1 else flip(swapaxes(m, first, second), second)


@implements(np.broadcast_to, aliasing=True)
def broadcast_to(array: Any, shape: Any, subok: bool = False) -> Traced:
    shape = tuple(int(n) for n in np.atleast_1d(shape)) if np.size(shape) else ()
    if np.broadcast_shapes(array.shape, shape) != shape:
        raise ValueError(f"operands could not be broadcast together with remapped shapes: {array.shape} and {shape}")
    b = array.build
    return _moved(array, lambda x: np.broadcast_to(x, shape), lambda i: spread(b, i, shape), None)


@implements(np.broadcast_arrays, aliasing=True)
def broadcast_arrays(*args: Any, subok: bool = False) -> tuple[Any, ...]:
    b = builder_of(args)
    arrays = [array_of(b, x) for x in args]
    shape = np.broadcast_shapes(*(x.shape for x in arrays))
    return tuple(broadcast_to(x, shape) for x in arrays)


def _part(opcode: str) -> Callable[..., Any]:
    def apply(val: Traced) -> Any:
        if val.dtype.kind != "c":
            return val if opcode == "real" else np.zeros_like(val)
        b, of_array = val.build, operator.attrgetter(opcode)
        if val.is_scalar:
            return wrap(b, getattr(b, opcode)(val.instruction))

        def put(whole: I, part: I) -> I:
            return b.complex(part, b.imag(whole)) if opcode == "real" else b.complex(b.real(whole), part)

        return val.viewed(of_array, getattr(b, opcode), put)

    return apply


implements(np.real, aliasing=True)(_part("real"))
implements(np.imag, aliasing=True)(_part("imag"))


@implements(np.diagonal, np.linalg.diagonal, "diagonal", aliasing=True)
def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Traced:
    """A view that is read-only, as in NumPy."""
    b = a.build
    return a.viewed(
        lambda x: np.diagonal(x, offset, axis1, axis2),
        lambda whole: _diagonal_value(wrap(b, whole), offset, axis1, axis2).instruction, None,
    )  # fmt: skip


def writable_diagonal(a: Traced, axis1: int, axis2: int) -> Traced:
    """The view of a diagonal, along the last dimension, that np.einsum gives."""
    b, n = a.build, a.shape[axis1]
    labels = [chr(ord("a") + d) for d in range(a.ndim)]
    labels[axis2] = labels[axis1]
    rest = [c for d, c in enumerate(labels) if d not in (axis1, axis2)]
    terms = f"{''.join(labels)}->{''.join(rest)}{labels[axis1]}"
    others = tuple(d for d in range(a.ndim) if d not in (axis1, axis2))

    def put(whole: I, part: I) -> I:
        row, column = (b.iota(S64, whole.shape.dimensions, d) for d in (axis1, axis2))
        on_it = b.compare(row, column, direction="EQ")
        return b.select(on_it, b.spread(part, whole.shape, (*others, axis1)), whole)

    return a.viewed(
        lambda x: np.einsum(terms, x), lambda whole: _diagonal_value(wrap(b, whole), 0, axis1, axis2).instruction,
        put if n else None,
    )  # fmt: skip


def _diagonal_value(a: Traced, offset: int, axis1: int, axis2: int) -> Traced:
    first, second = normal_axis(axis1, a.ndim), normal_axis(axis2, a.ndim)
    if first == second:
        raise ValueError("axis1 and axis2 cannot be the same")
    a = moveaxis(a, (first, second), (-2, -1))
    m, n = a.shape[-2:]
    count = max(0, min(m + min(offset, 0), n - max(offset, 0)))
    start = max(0, -offset) * n + max(0, offset)
    flat = reshape_value(a, (*a.shape[:-2], m * n))
    return flat[..., start : start + (n + 1) * count : n + 1][..., :count] if count else flat[..., :0]


FUNCTIONS[np.linalg.diagonal] = lambda x, offset=0: diagonal(x, offset, -2, -1)


@implements(np.trace, "trace")
def trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None) -> Traced:
    return xp.sum(diagonal(a, offset, axis1, axis2), axis=-1, dtype=dtype)


FUNCTIONS[np.linalg.trace] = lambda x, offset=0, dtype=None: trace(x, offset, -2, -1, dtype)


@implements("view", aliasing=True)
def view_as(a: Traced, dtype: Any = None, type: Any = None) -> Traced:
    """The same bytes as elements of another type."""
    if inspect.isclass(dtype) and issubclass(dtype, np.ndarray):
        dtype, type = None, dtype
    if type is not None and not issubclass(np.ndarray, type):
        raise UnsupportedError(
            f"an array becomes {indefinite(type.__name__)}, which a compiled function does not compute with"
        )
    if dtype is None:
        return a[...]
    b, old, new = a.build, np.dtype(a.dtype), np.dtype(dtype)
    if new == old:
        return a[...]
    if new not in BY_DTYPE or new.kind == "b":
        raise UnsupportedError(f"x.view({new}) of {old} has no compiled form: take a number type, or x.astype")
    shape = model_of(a).view(new).shape  # NumPy's error, if there is none
    return _moved(
        a, lambda x: x.view(new), lambda i: _viewed(b, i, new, shape), lambda part: _viewed(b, part, old, a.shape)
    )


def _viewed(b: Build, x: I, dtype: np.dtype, shape: tuple[int, ...]) -> I:
    """The bytes of the rows of an array as elements of another type; shape is the result's."""
    own = x.shape.element_type
    if own.is_complex:
        parts = [b.reshape(part, (*x.shape.dimensions, 1)) for part in (b.real(x), b.imag(x))]
        x = b.make("concatenate", *parts, dimensions=(x.shape.rank,))
        x = _with_last_merged(b, x)
    elif own.kind == "pred":
        x = b.convert(x, "u8")
    own = x.shape.element_type
    if dtype.kind == "c":
        return _complex_of(b, _viewed(b, x, np.zeros((), dtype).real.dtype, (*shape[:-1], 2 * shape[-1])), shape)
    if dtype.kind == "b":
        return b.compare(_viewed(b, x, np.dtype(np.uint8), shape), 0, direction="NE")
    new = BY_DTYPE[dtype]
    if new.bits == own.bits:
        result = Shape(new, x.shape.dimensions)
    elif new.bits < own.bits:
        result = Shape(new, (*x.shape.dimensions, own.bits // new.bits))
    else:
        result = Shape(new, shape)
        x = b.reshape(x, (*shape, new.bits // own.bits))
    return b.reshape(b.make("bitcast-convert", x, shape=result) if new is not own else x, shape)


def _with_last_merged(b: Build, x: I) -> I:
    """The last two dimensions as one."""
    *rest, n, parts = x.shape.dimensions
    return b.reshape(x, (*rest, n * parts))


def _complex_of(b: Build, x: I, shape: tuple[int, ...]) -> I:
    """Complex numbers of pairs of neighbours."""
    pairs = b.reshape(x, (*shape, 2))
    parts = []
    for n in range(2):
        dimensions = [SliceDimension(0, size, 1) for size in shape]
        part = b.make("slice", pairs, slice=(*dimensions, SliceDimension(n, n + 1, 1)))
        parts.append(b.reshape(part, shape))
    return b.complex(*parts)


# -- joining


@implements(np.concatenate, np.concat)
def concatenate(
    arrays: Sequence[Any], axis: int | None = 0, out: Any = None, dtype: Any = None, casting: Any = "same_kind"
) -> Traced:
    b = builder_of(arrays)
    arrays = list(arrays)
    own = promoted(*arrays) if dtype is None else np.dtype(dtype)
    for x in arrays if dtype is not None else ():
        if not np.can_cast(promoted(x), own, casting):
            raise TypeError(f"Cannot cast array data from {promoted(x)!r} to {own!r} according to the rule {casting!r}")
    parts = [lift(b, x, own) for x in arrays]
    if axis is None:
        parts, axis = [b.reshape(p, (p.shape.size,)) for p in parts], 0
    if any(not p.shape.rank for p in parts):
        raise ValueError("zero-dimensional arrays cannot be concatenated")
    axis = normal_axis(axis, parts[0].shape.rank)
    _require_joinable([p.shape.dimensions for p in parts], axis)
    return wrap(b, parts[0] if len(parts) == 1 else b.make("concatenate", *parts, dimensions=(axis,)))


def _require_joinable(shapes: Sequence[tuple[int, ...]], axis: int) -> None:
    """Raises NumPy's ValueError for arrays that differ in a dimension other than the one along which they are
    joined."""
    first = shapes[0]
    for n, shape in enumerate(shapes):
        if len(shape) != len(first):
            raise ValueError(
                "all the input arrays must have same number of dimensions, but the array at index 0 has "
                f"{len(first)} dimension(s) and the array at index {n} has {len(shape)} dimension(s)"
            )
        for d, (size, other) in enumerate(zip(first, shape, strict=True)):
            if size != other and d != axis:
                raise ValueError(
                    "all the input array dimensions except for the concatenation axis must match exactly, but along "
                    f"dimension {d}, the array at index 0 has size {size} and the array at index {n} has size {other}"
                )


@implements(np.stack)
def stack(
    arrays: Sequence[Any], axis: int = 0, out: Any = None, dtype: Any = None, casting: Any = "same_kind"
) -> Traced:
    b = builder_of(arrays)
    wrapped = [array_of(b, x) for x in arrays]
    if len({x.shape for x in wrapped}) > 1:
        raise ValueError("all input arrays must have the same shape")
    return concatenate([expand_dims(x, axis) for x in wrapped], axis, dtype=dtype, casting=casting)


def _at_least(rank: int) -> Callable[..., Any]:
    def one(x: Any, b: Any) -> Any:
        a = array_of(b, x)
        if a.ndim >= rank:
            return a
        shape = a.shape
        if rank == 3:
            shape = {0: (1, 1, 1), 1: (1, *shape, 1), 2: (*shape, 1)}[a.ndim]
        else:
            shape = (1,) * (rank - a.ndim) + shape
        return reshape(a, *shape)

    def apply(*arys: Any) -> Any:
        b = builder_of(arys)
        arrays = tuple(one(x, b) for x in arys)
        return arrays[0] if len(arrays) == 1 else arrays

    return apply


at_least_1d, at_least_2d, at_least_3d = _at_least(1), _at_least(2), _at_least(3)
for _function, _implementation in (
    (np.atleast_1d, at_least_1d), (np.atleast_2d, at_least_2d), (np.atleast_3d, at_least_3d),
):  # fmt: skip
    implements(_function, aliasing=True)(_implementation)


def _each(function: Callable[..., Any], arrays: Any) -> list[Any]:
    b = builder_of(arrays)
    return [function(array_of(b, x)) for x in arrays]


@implements(np.vstack)
def vstack(tup: Any, **options: Any) -> Traced:
    return concatenate(_each(at_least_2d, tup), 0, **options)


@implements(np.hstack)
def hstack(tup: Any, **options: Any) -> Traced:
    parts = _each(at_least_1d, tup)
    return concatenate(parts, 0 if parts[0].ndim == 1 else 1, **options)


@implements(np.dstack)
def dstack(tup: Any) -> Traced:
    return concatenate(_each(at_least_3d, tup), 2)


@implements(np.column_stack)
def column_stack(tup: Any) -> Traced:
    return concatenate(_each(lambda x: at_least_2d(x).T if x.ndim < 2 else x, tup), 1)


@implements(np.block)
def block(arrays: Any) -> Traced:
    def depth(x: Any) -> int:
        return 1 + max(map(depth, x)) if isinstance(x, list) else 0

    b, levels = builder_of(arrays), depth(arrays)

    def joined(x: Any, level: int) -> Any:
        if isinstance(x, list):
            parts = [joined(e, level + 1) for e in x]
            rank = max(p.ndim for p in parts)
            parts = [reshape(p, *(1,) * (rank - p.ndim), *p.shape) for p in parts]
            return concatenate(parts, axis=-(levels - level))
        a = array_of(b, x)
        return reshape(a, *(1,) * (levels - a.ndim), *a.shape) if a.ndim < levels else a

    return joined(arrays, 0)


@implements(np.append)
def append(arr: Any, values: Any, axis: int | None = None) -> Traced:
    b = builder_of(arr, values)
    return concatenate([array_of(b, arr), array_of(b, values)], axis)


@implements(np.array_split, aliasing=True)
def split(ary: Traced, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    axis = normal_axis(axis, ary.ndim)
    n, places = ary.shape[axis], known_value(indices_or_sections)
    if places is None:
        raise UnsupportedError("np.split at places that are not known has no compiled form: give Python numbers")
    if places.ndim == 0:
        count = int(places)
        sizes = [n // count + (k < n % count) for k in range(count)]
        bounds = [0, *np.cumsum(sizes).tolist()]
    else:
        bounds = [0, *places.tolist(), n]
    before = (slice(None),) * axis
    parts = [(*before, slice(low, high)) for low, high in zip(bounds, bounds[1:], strict=False)]
    return [ary[part] for part in parts]


@implements(np.split, aliasing=True)
def split_equally(ary: Traced, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    if np.ndim(indices_or_sections) == 0 and ary.shape[axis] % int(indices_or_sections):
        raise ValueError("array split does not result in an equal division")
    return split(ary, indices_or_sections, axis)


implements(np.hsplit, aliasing=True)(lambda ary, n: split_equally(ary, n, 0 if ary.ndim == 1 else 1))
implements(np.vsplit, aliasing=True)(lambda ary, n: split_equally(ary, n, 0))
implements(np.dsplit, aliasing=True)(lambda ary, n: split_equally(ary, n, 2))


@implements(np.unstack, aliasing=True)
def unstack(x: Traced, /, *, axis: int = 0) -> tuple[Any, ...]:
    return tuple(moveaxis(x, axis, 0))


# -- moving and repeating


@implements(np.roll)
def roll(a: Traced, shift: Any, axis: Any = None) -> Traced:
    if axis is None:
        return reshape_value(roll(reshape_value(a, (a.size,)), shift, 0), a.shape)
    axes = np.lib.array_utils.normalize_axis_tuple(axis, a.ndim, allow_duplicate=True)
    shape = np.broadcast_shapes(np.shape(shift), (len(axes),) if isinstance(axis, (tuple, list)) else ())
    if len(shape) > 1:
        raise ValueError("'shift' and 'axis' should be scalars or 1D sequences")
    shifts = known_value(shift)
    for n, d in enumerate(np.broadcast_to(axes, shape or (1,)).tolist()):  # an axis may be there several times
        size = a.shape[d]
        if shifts is None:
            places = (np.arange(size) - (np.broadcast_to(shift, shape)[n] if shape else shift)) % max(1, size)
            a = np.take(a, places, axis=d)
            continue
        cut = int(-np.broadcast_to(shifts, shape or (1,))[n]) % max(1, size)
        before = (slice(None),) * d
        high, low = (*before, slice(cut, None)), (*before, slice(0, cut))
        a = concatenate([a[high], a[low]], d) if cut else a
    return copied(a)


@implements(np.tile)
def tile(A: Traced, reps: Any) -> Traced:
    reps = (int(reps),) if np.ndim(reps) == 0 else tuple(int(r) for r in reps)
    rank = max(len(reps), A.ndim)
    own, reps = (1,) * (rank - A.ndim) + A.shape, (1,) * (rank - len(reps)) + reps
    wide = tuple(n for pair in zip(reps, own, strict=True) for n in pair)
    b = A.build
    spread_ = b.spread(b.reshape(A.instruction, own), Shape(A.instruction.shape.element_type, wide),
                       tuple(range(1, 2 * rank, 2)))  # fmt: skip
    return array_wrap(b, b.reshape(spread_, tuple(r * n for r, n in zip(reps, own, strict=True))))


@implements(np.repeat, "repeat")
def repeat(a: Any, repeats: Any, axis: int | None = None) -> Traced:
    counts = known_value(repeats)
    if counts is None:
        raise UnsupportedError(
            "np.repeat by numbers that are not known has no compiled form, since the size of its result is a value: "
            "np.repeat(x, 3) has one, and so has x[places]"
        )
    a = array_of(builder_of(a, repeats), a)
    axis = own_axis(axis, a.ndim)
    if axis is None:
        a, axis = reshape_value(a, (a.size,)), 0
    axis = normal_axis(axis, a.ndim)
    n = a.shape[axis]
    if counts.size == 1:
        wide = tuple(
            m for d, size in enumerate(a.shape) for m in ((size, int(counts.flat[0])) if d == axis else (size,))
        )
        shape = tuple(size * int(counts.flat[0]) if d == axis else size for d, size in enumerate(a.shape))
        b = a.build
        dims = tuple(d if d <= axis else d + 1 for d in range(a.ndim))
        return wrap(b, b.reshape(b.spread(a.instruction, Shape(a.instruction.shape.element_type, wide), dims), shape))
    return xp.take(a, xp.repeat(np.arange(n), counts), axis=axis)


@implements(np.resize)
def resize(a: Traced, new_shape: Any) -> Traced:
    shape = (int(new_shape),) if np.ndim(new_shape) == 0 else tuple(int(n) for n in new_shape)
    size = prod(shape)
    if not a.size or not size:
        return xp.zeros_like(a, shape=shape)
    flat = reshape_value(a, (a.size,))
    return reshape_value(tile(flat, -(-size // a.size))[:size], shape)


@implements(np.pad)
def pad(array: Traced, pad_width: Any, mode: Any = "constant", **options: Any) -> Traced:
    rank = array.ndim
    if isinstance(pad_width, dict):
        widths = np.zeros((rank, 2), int)
        for axis, width in pad_width.items():
            widths[axis] = width
    else:
        widths = np.broadcast_to(np.asarray(pad_width), (rank, 2)).astype(int)
    if (widths < 0).any():
        raise ValueError("index can't contain negative values")
    if callable(mode) or mode in ("maximum", "minimum", "mean", "median", "linear_ramp"):
        return _padded_by_values(array, widths, mode, **options)
    if mode == "empty":
        mode = "constant"
    if mode == "constant":
        values = options.get("constant_values", 0)
        for d, (low, high) in enumerate(widths):
            ends = values if isinstance(values, (Number, Traced)) and not np.ndim(values) else _ends(values, d, rank)
            low_value, high_value = ends if isinstance(ends, tuple) else (ends, ends)
            array = _joined(array, d, _constant(array, d, low, low_value), _constant(array, d, high, high_value))
        return copied(array)
    # All others select elements of the array: NumPy itself determines which, from an array of positions.
    for d, (low, high) in enumerate(widths):
        if low or high:
            places = np.pad(np.arange(array.shape[d]), (int(low), int(high)), mode, **_without_odd(options))
            array = xp.take(array, places, axis=d)
    return copied(array)


def _without_odd(options: dict[str, Any]) -> dict[str, Any]:
    if options.get("reflect_type", "even") == "odd":
        raise UnsupportedError("np.pad with reflect_type='odd' has no compiled form: use 'even'")
    return options


def _ends(values: Any, d: int, rank: int) -> tuple[Any, Any]:
    widths = known_value(values)
    if widths is None:
        raise UnsupportedError("np.pad with several values that are not known has no compiled form: pad once for each")
    low, high = np.broadcast_to(widths, (rank, 2))[d]
    return low, high


def _constant(array: Traced, d: int, width: int, value: Any) -> Traced | None:
    if not width:
        return None
    shape = tuple(int(width) if k == d else n for k, n in enumerate(array.shape))
    return xp.full_like(array, as_array(value, array.build), shape=shape)


def _joined(array: Traced, d: int, low: Any, high: Any) -> Traced:
    parts = [p for p in (low, array, high) if p is not None]
    return array if len(parts) == 1 else concatenate(parts, d)


def _padded_by_values(array: Traced, widths: np.ndarray, mode: Any, **options: Any) -> Traced:
    if callable(mode):
        raise UnsupportedError("np.pad with a function has no compiled form: use a mode that has a name")
    rank = array.ndim
    for d, (low, high) in enumerate(widths):
        ends: list[Traced | None] = []
        for which, width in enumerate((int(low), int(high))):
            if not width:
                ends.append(None)
                continue
            edge = xp.take(array, [0 if which == 0 else array.shape[d] - 1], axis=d)
            if mode == "linear_ramp":
                end = _ends(options.get("end_values", 0), d, rank)[which]
                ramp = xp.linspace(end, xp.squeeze(edge, d), width, endpoint=False, dtype=array.dtype, axis=d)
                ends.append(ramp if which == 0 else xp.flip(ramp, d))
                continue
            length = options.get("stat_length")
            count = array.shape[d] if length is None else int(np.broadcast_to(length, (rank, 2))[d][which])
            count = min(count, array.shape[d])
            span = slice(0, count) if which == 0 else slice(array.shape[d] - count, None)
            part = array[(slice(None),) * d + (span,)]
            value = getattr(xp, {"maximum": "max", "minimum": "min"}.get(mode, mode))(part, axis=d, keepdims=True)
            if array.dtype.kind in "iu":
                value = xp.rint(value)
            ends.append(xp.repeat(value.astype(array.dtype), width, axis=d))
        array = _joined(array, d, *ends)
    return copied(array)
