"""Functions whose number of results depends on values, with a size given by the caller."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy
from refxla_spec.errors import InputError

from .tracing import running
from .untyped import np
from .values import array_of

if TYPE_CHECKING:
    from ...typing import ArrayLike


def _check(condition: Any, message: str) -> None:
    """Raises InputError, at the call, if a condition does not hold."""
    b = running()
    if b is None:
        if not condition:
            raise InputError(message)
    else:
        b.check(array_of(b, condition).instruction, InputError, message)


def _array(x: Any) -> Any:
    b = running()
    return np.asarray(x) if b is None else array_of(b, x)


def _gathered(values: Any, places: Any, size: int, fill_value: Any) -> Any:
    """[size] elements: `values` at their positions; those with position `size` are dropped."""
    b = running()
    buffer = (
        np.full(size + 1, fill_value, values.dtype) if b is None else np.full_like(values, fill_value, shape=size + 1)
    )
    buffer = buffer.copy()
    buffer[places] = values
    return buffer[:size].copy()


def nonzero(a: ArrayLike, size: int, fill_value: int = 0) -> tuple[numpy.ndarray, ...]:
    """np.nonzero with `size` positions: s64[size] for each dimension of `a`, in order, padded with `fill_value`.

    Raises InputError, at the call, if more than `size` elements are not 0.
    """
    values = _array(a)
    mask = np.ravel(values != 0)
    order = np.cumsum(mask)
    count = np.sum(mask)
    _check(count <= size, f"refxla.nonzero: more than size={size} elements are not 0; give a larger size")
    places = np.where(mask & (order <= size), order - 1, size)
    flat = _gathered(_array(np.arange(mask.shape[0])), places, size, 0)
    filled = np.arange(size) >= count
    if not values.ndim:
        raise InputError("refxla.nonzero takes an array of at least one dimension")
    return tuple(np.where(filled, fill_value, index) for index in np.unravel_index(flat, values.shape))


def unique(
    a: ArrayLike, size: int, fill_value: ArrayLike | None = None, return_index: bool = False,
    return_inverse: bool = False, return_counts: bool = False,
) -> numpy.ndarray | tuple[numpy.ndarray, ...]:  # fmt: skip
    """np.unique with `size` elements: the distinct elements of `a`, in order, padded with `fill_value` (None: with the
    largest). After them, as requested: the first position of each (s64[size]), for each element of `a` the number of
    its distinct value (s64, a's shape), and how often each occurs (s64[size], 0 for padding).

    Raises InputError, at the call, if there are more than `size` of them.
    """
    elements = _array(a)
    flat = np.ravel(elements)
    n = flat.shape[0]
    if not n:
        raise InputError("refxla.unique of an empty array: what it would be filled up with is not known")
    order = np.argsort(flat, kind="stable")
    values = np.take(flat, order)
    differs = values[1:] != values[:-1]
    if values.dtype.kind in "fc":
        differs = differs & ~(np.isnan(values[1:]) & np.isnan(values[:-1]))
    is_first = np.concatenate([_array(np.ones(1, bool)), differs])
    number = np.cumsum(is_first) - 1
    count = number[n - 1] + 1
    _check(count <= size, f"refxla.unique: more than size={size} elements differ; give a larger size")
    last = values[n - 1] if fill_value is None else fill_value
    filled = np.arange(size) >= count
    first_places = np.where(is_first & (number < size), number, size)
    result = np.where(filled, _array(last).astype(values.dtype), _gathered(values, first_places, size, 0))
    results = [result]
    if return_index:
        results.append(_gathered(order, first_places, size, 0))
    if return_inverse:
        inverse = np.zeros_like(order).copy()
        inverse[order] = number
        results.append(inverse.reshape(elements.shape))
    if return_counts:
        counts = np.zeros_like(order, shape=size + 1).copy()
        np.add.at(counts, np.minimum(number, size), 1)
        results.append(counts[:size])
    return results[0] if len(results) == 1 else tuple(results)
