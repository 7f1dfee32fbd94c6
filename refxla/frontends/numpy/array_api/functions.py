"""The functions of the standard that are not elementwise: moves, reductions, sorts, products, sets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ...._core.array import Array
from ..untyped import np
from .eager import on_host, run

if TYPE_CHECKING:
    from ...._core.array import Operand
    from ....typing import DTypeLike

__all__ = [
    "all", "any", "argmax", "argmin", "argsort", "broadcast_arrays", "broadcast_to", "concat", "count_nonzero",
    "cumulative_prod", "cumulative_sum", "diff", "expand_dims", "flip", "matmul", "matrix_transpose", "max", "mean",
    "min", "moveaxis", "nonzero", "permute_dims", "prod", "repeat", "reshape", "roll", "searchsorted", "sort",
    "squeeze", "stack", "std", "sum", "take", "take_along_axis", "tensordot", "tile", "unique_all", "unique_counts",
    "unique_inverse", "unique_values", "unstack", "var", "vecdot", "where",
]  # fmt: skip

Axes = int | tuple[int, ...] | None


# -- moves


def broadcast_arrays(*arrays: Array) -> list[Array]:
    """Arrays of one shape, by NumPy's rules of broadcasting."""
    shape = np.broadcast_shapes(*(a.shape for a in arrays))
    return [broadcast_to(a, shape) for a in arrays]


def broadcast_to(x: Array, /, shape: tuple[int, ...]) -> Array:
    """The elements of `x`, repeated to a shape."""
    return x if x.shape == tuple(shape) else run(np.broadcast_to, x, shape=tuple(shape))


def concat(arrays: Sequence[Array], /, *, axis: int | None = 0) -> Array:
    """Concatenates arrays along an axis; flattens them if it is None."""
    return run(_concat, *arrays, axis=axis)


def _concat(*arrays: Any, axis: int | None) -> Any:
    return np.concatenate(arrays, axis=axis)


def stack(arrays: Sequence[Array], /, *, axis: int = 0) -> Array:
    """Stacks arrays of one shape along a new axis."""
    return run(_stack, *arrays, axis=axis)


def _stack(*arrays: Any, axis: int) -> Any:
    return np.stack(arrays, axis=axis)


def unstack(x: Array, /, *, axis: int = 0) -> tuple[Array, ...]:
    """The parts of `x` along an axis."""
    if not x.ndim:
        raise ValueError("an Array without dimensions has no parts")
    return tuple(run(_unstack, x, axis=axis)) if x.shape[axis] else ()


def _unstack(x: Any, axis: int) -> tuple[Any, ...]:
    return tuple(np.moveaxis(x, axis, 0)[n] for n in range(x.shape[axis]))


def expand_dims(x: Array, /, axis: int | tuple[int, ...] = 0) -> Array:
    """`x` with a new dimension of size one at one or several positions."""
    return x.shaped_as(np.expand_dims(_like(x), axis).shape)


def squeeze(x: Array, /, axis: int | tuple[int, ...]) -> Array:
    """`x` without these dimensions of size one. Raises ValueError if one has another size."""
    return x.shaped_as(np.squeeze(_like(x), axis).shape)


def reshape(x: Array, /, shape: tuple[int, ...], *, copy: bool | None = None) -> Array:
    """The elements of `x`, in order, in another shape, in which one size may be -1. No values are moved."""
    return x.shaped_as(np.reshape(_like(x), shape).shape)


def _like(x: Array) -> Any:
    """An array with the shape of `x` and no memory."""
    return np.broadcast_to(np.empty((), np.bool), x.shape) if x.size else np.empty(x.shape, np.bool)


def flip(x: Array, /, *, axis: Axes = None) -> Array:
    """`x` in reverse order along axes; along all if none are given."""
    return run(np.flip, x, axis=axis)


def matrix_transpose(x: Array, /) -> Array:
    """Matrices, the last two dimensions, transposed."""
    return run(np.matrix_transpose, x)


def moveaxis(x: Array, source: int | tuple[int, ...], destination: int | tuple[int, ...], /) -> Array:
    """`x` with axes at other positions."""
    return run(np.moveaxis, x, source=source, destination=destination)


def permute_dims(x: Array, /, axes: tuple[int, ...]) -> Array:
    """`x` with its axes in another order."""
    return run(np.transpose, x, axes=tuple(axes))


def repeat(x: Array, repeats: int | Array, /, *, axis: int | None = None) -> Array:
    """Each element repeated, along an axis or of the flattened `x`. NumPy computes it for an Array of `repeats`."""
    if isinstance(repeats, Array):
        return on_host(np.repeat, x, repeats, axis=axis)
    return run(np.repeat, x, repeats=repeats, axis=axis)


def roll(x: Array, /, shift: int | tuple[int, ...], *, axis: Axes = None) -> Array:
    """`x` rotated along axes: elements leaving at one end enter at the other."""
    return run(np.roll, x, shift=shift, axis=axis)


def tile(x: Array, repetitions: tuple[int, ...], /) -> Array:
    """`x` repeated along its dimensions."""
    return run(np.tile, x, reps=tuple(repetitions))


# -- parts


def take(x: Array, indices: Array, /, *, axis: int | None = None) -> Array:
    """The parts of `x` at indices along an axis, which is optional for a vector. Raises IndexError for those
    outside."""
    if axis is None and x.ndim != 1:
        raise ValueError("take from an Array of several dimensions needs an axis")
    return run(np.take, x, indices, axis=axis)


def take_along_axis(x: Array, indices: Array, /, *, axis: int = -1) -> Array:
    """For each vector along an axis, the elements at its own indices."""
    return run(np.take_along_axis, x, indices, axis=axis)


def where(condition: Array, x1: Operand, x2: Operand, /) -> Array:
    """Elements of `x1` where the condition holds, of `x2` elsewhere; either may be a number."""
    return run(np.where, condition, x1, x2)


def nonzero(x: Array, /) -> tuple[Array, ...]:
    """The indices of nonzero elements, for each dimension; NumPy finds them."""
    if not x.ndim:
        raise ValueError("an Array without dimensions has no indices")
    return on_host(np.nonzero, x)


def searchsorted(x1: Array, x2: Array, /, *, side: str = "left", sorter: Array | None = None) -> Array:
    """Where elements of `x2` belong in the sorted vector `x1`, which `sorter` sorts if given."""
    return run(_searchsorted, x1, x2, *([] if sorter is None else [sorter]), side=side)


def _searchsorted(x1: Any, x2: Any, *sorter: Any, side: Any) -> Any:
    return np.searchsorted(x1, x2, side, *sorter)


class UniqueAll(NamedTuple):
    """The fields of the result of unique_all, for type checkers: NumPy creates the tuple."""

    values: Array
    indices: Array
    inverse_indices: Array
    counts: Array


class UniqueCounts(NamedTuple):
    """The fields of the result of unique_counts."""

    values: Array
    counts: Array


class UniqueInverse(NamedTuple):
    """The fields of the result of unique_inverse."""

    values: Array
    inverse_indices: Array


def unique_all(x: Array, /) -> UniqueAll:
    """numpy.unique_all, computed by NumPy."""
    return on_host(np.unique_all, x)


def unique_counts(x: Array, /) -> UniqueCounts:
    """numpy.unique_counts, computed by NumPy."""
    return on_host(np.unique_counts, x)


def unique_inverse(x: Array, /) -> UniqueInverse:
    """numpy.unique_inverse, computed by NumPy."""
    return on_host(np.unique_inverse, x)


def unique_values(x: Array, /) -> Array:
    """numpy.unique_values, computed by NumPy."""
    return on_host(np.unique_values, x)


# -- orders


def sort(x: Array, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Array:
    """`x` sorted along an axis, always stably."""
    return run(_sort, x, axis=axis, descending=descending)


def _sort(x: Any, axis: int, descending: bool) -> Any:
    return np.flip(np.sort(x, axis), axis) if descending else np.sort(x, axis)


def argsort(x: Array, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Array:
    """The indices that sort `x` along an axis; equal elements keep their order."""
    return run(_argsort, x, axis=axis, descending=descending)


def _argsort(x: Any, axis: int, descending: bool) -> Any:
    if not descending:
        return np.argsort(x, axis, stable=True)
    return x.shape[axis] - 1 - np.flip(np.argsort(np.flip(x, axis), axis, stable=True), axis)


def argmax(x: Array, /, *, axis: int | None = None, keepdims: bool = False) -> Array:
    """The index of the first maximum."""
    return run(np.argmax, x, axis=axis, keepdims=keepdims)


def argmin(x: Array, /, *, axis: int | None = None, keepdims: bool = False) -> Array:
    """The index of the first minimum."""
    return run(np.argmin, x, axis=axis, keepdims=keepdims)


# -- reductions


def all(x: Array, /, *, axis: Axes = None, keepdims: bool = False) -> Array:
    """Whether all elements along axes are true."""
    return run(np.all, x, axis=axis, keepdims=keepdims)


def any(x: Array, /, *, axis: Axes = None, keepdims: bool = False) -> Array:
    """Whether any element along axes is true."""
    return run(np.any, x, axis=axis, keepdims=keepdims)


def count_nonzero(x: Array, /, *, axis: Axes = None, keepdims: bool = False) -> Array:
    """How many elements along axes are not zero."""
    return run(_count_nonzero, x, axis=axis, keepdims=keepdims)


def _count_nonzero(x: Any, axis: Axes, keepdims: bool) -> Any:
    return np.sum(x != 0, axis, np.int64, keepdims=keepdims)


def max(x: Array, /, *, axis: Axes = None, keepdims: bool = False) -> Array:
    """The maximum along axes."""
    return run(np.max, x, axis=axis, keepdims=keepdims)


def min(x: Array, /, *, axis: Axes = None, keepdims: bool = False) -> Array:
    """The minimum along axes."""
    return run(np.min, x, axis=axis, keepdims=keepdims)


def mean(x: Array, /, *, axis: Axes = None, keepdims: bool = False) -> Array:
    """The mean along axes."""
    return run(np.mean, x, axis=axis, keepdims=keepdims)


def std(x: Array, /, *, axis: Axes = None, correction: float = 0.0, keepdims: bool = False) -> Array:
    """The standard deviation along axes, of n - `correction` degrees of freedom."""
    return run(np.std, x, axis=axis, ddof=correction, keepdims=keepdims)


def var(x: Array, /, *, axis: Axes = None, correction: float = 0.0, keepdims: bool = False) -> Array:
    """The variance along axes, of n - `correction` degrees of freedom."""
    return run(np.var, x, axis=axis, ddof=correction, keepdims=keepdims)


def sum(x: Array, /, *, axis: Axes = None, dtype: DTypeLike | None = None, keepdims: bool = False) -> Array:
    """The sum along axes; for integers in at least 64 bits, as in NumPy."""
    return run(np.sum, x, axis=axis, dtype=dtype, keepdims=keepdims)


def prod(x: Array, /, *, axis: Axes = None, dtype: DTypeLike | None = None, keepdims: bool = False) -> Array:
    """The product along axes; for integers in at least 64 bits, as in NumPy."""
    return run(np.prod, x, axis=axis, dtype=dtype, keepdims=keepdims)


def cumulative_sum(
    x: Array, /, *, axis: int | None = None, dtype: DTypeLike | None = None, include_initial: bool = False
) -> Array:
    """Cumulative sums along an axis; with `include_initial`, that of no elements is included."""
    return run(np.cumulative_sum, x, axis=axis, dtype=dtype, include_initial=include_initial)


def cumulative_prod(
    x: Array, /, *, axis: int | None = None, dtype: DTypeLike | None = None, include_initial: bool = False
) -> Array:
    """Cumulative products along an axis; with `include_initial`, that of no elements is included."""
    return run(np.cumulative_prod, x, axis=axis, dtype=dtype, include_initial=include_initial)


def diff(
    x: Array, /, *, axis: int = -1, n: int = 1, prepend: Array | None = None, append: Array | None = None
) -> Array:
    """The differences of neighbours along an axis, repeated `n` times."""
    ends = [end for end in (prepend, append) if end is not None]
    return run(_diff, x, *ends, axis=axis, n=n, before=prepend is not None, after=append is not None)


def _diff(x: Any, *ends: Any, axis: int, n: int, before: bool, after: bool) -> Any:
    parts = [*ends[: int(before)], x, *ends[len(ends) - int(after) :]]
    return np.diff(np.concatenate(parts, axis) if before or after else x, n, axis)


# -- products


def matmul(x1: Array, x2: Array, /) -> Array:
    """The matrix product, as in numpy.matmul."""
    return run(np.matmul, x1, x2)


def tensordot(x1: Array, x2: Array, /, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2) -> Array:
    """The product summed over axes, as in numpy.tensordot."""
    return run(np.tensordot, x1, x2, axes=axes)


def vecdot(x1: Array, x2: Array, /, *, axis: int = -1) -> Array:
    """The dot product of vectors along an axis; those of `x1` are conjugated."""
    return run(np.vecdot, x1, x2, axis=axis)
