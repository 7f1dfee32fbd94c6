"""NumPy's indexing: what a[key] reads, and what a[key] = value writes.

A key is handled in two steps. Integers, slices, None and `...` select a block, which is a view (_Block). Arrays of
integers then select elements of the block's dimensions to which they apply (Places): a gather, or a scatter for
assignment. A mask with known values is an array of integers; one with unknown values is a selection (selection.py). An
index out of range raises IndexError: when the function is traced, if it is known then, otherwise at the call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import index as index_of
from typing import Any

import numpy
from refxla_spec.errors import UnsupportedError
from refxla_spec.module import Computation, Instruction, PaddingDimension, SliceDimension
from refxla_spec.types import F64, PRED, S64, Shape

from ...ir.builder import Build
from ...ir.calling_convention import index_from_start
from .array import Traced
from .dispatch import ARRAYS, Symbol, adopted, all_known, implements, symbols, values_of
from .number import Number, applied
from .reduction_functions import LOGICAL, REDUCERS, reducer_of
from .selection import Selection
from .tracing import Tracing
from .untyped import np
from .values import (
    I,
    array_of,
    builder_of,
    known_value,
    lift,
    normal_axis,
    own_axis,
    spread,
    type_alone,
    weak,
    wrap,
)


def places_of(
    b: Tracing, index: I, size: int, dimension: int, mode: str = "raise", error: Exception | None = None
) -> I:
    """Indices (s64) counted from the beginning, into a dimension of some size; `mode` is np.take's. `error` is raised
    for those that are out of range when counted from either end."""
    unsigned = index.shape.element_type.kind == "unsigned"
    limit, index = b.ranges.get(index), b.convert(index, S64)
    if mode == "clip":
        return b.clamp(b.full(0, index.shape), index, b.full(size - 1, index.shape))
    if mode == "wrap":
        rest = b.remainder(index, max(1, size))
        return b.select(b.compare(rest, 0, direction="LT"), b.add(rest, size), rest)
    if limit is not None and limit <= size:
        return index
    if index.shape.size:
        least = -size if error is None else 0
        inside = b.and_(b.compare(index, least, direction="GE"), b.compare(index, size, direction="LT"))
        error = error or IndexError(f"an index is out of bounds for axis {dimension} with size {size}")
        b.check(inside, type(error), str(error))
    return index if unsigned else b.select(b.compare(index, 0, direction="LT"), b.add(index, size), index)


@dataclass
class _Block:
    """The block that integers, slices and None of a key select: a slice per dimension of the array, then for some of
    them a single element at a computed position (`starts`); `reverse` are dimensions that run backwards, `shape` is the
    result's."""

    slices: list[SliceDimension] = field(default_factory=list)
    reverse: list[int] = field(default_factory=list)
    shape: list[int] = field(default_factory=list)
    starts: dict[int, I] = field(default_factory=dict)

    def _at(self, b: Tracing) -> list[I]:
        zero = b.scalar(0, S64)
        return [self.starts.get(d, zero) for d in range(len(self.slices))]

    def _sizes(self) -> tuple[int, ...]:
        return tuple(1 if d in self.starts else _count(s) for d, s in enumerate(self.slices))

    def read(self, b: Tracing, whole: I) -> I:
        value = whole
        if any(
            (s.start, s.limit, s.stride) != (0, n, 1) for s, n in zip(self.slices, whole.shape.dimensions, strict=True)
        ):
            value = b.make("slice", value, slice=tuple(self.slices))
        if self.starts:
            value = b.make("dynamic-slice", value, *self._at(b), dynamic_slice_sizes=self._sizes())
        if self.reverse:
            value = b.make("reverse", value, dimensions=tuple(self.reverse))
        return b.reshape(value, tuple(self.shape))

    def put(self, b: Tracing, whole: I, part: I) -> I:
        value = b.reshape(part, self._sizes())
        if self.reverse:
            value = b.make("reverse", value, dimensions=tuple(self.reverse))
        if not value.shape.size:
            return whole
        if self.starts:
            inner = b.make("slice", whole, slice=tuple(self.slices))
            value = b.make("dynamic-update-slice", inner, value, *self._at(b))
        if value.shape.dimensions == whole.shape.dimensions:
            return value
        if all(s.stride == 1 for s in self.slices):
            at = [b.scalar(s.start, S64) for s in self.slices]
            return b.make("dynamic-update-slice", whole, value, *at)
        padding = tuple(
            PaddingDimension(s.start, n - s.start - (_count(s) - 1) * s.stride - 1, s.stride - 1)
            for s, n in zip(self.slices, whole.shape.dimensions, strict=True)
        )
        inside = b.make(
            "pad", b.full(True, Shape(PRED, value.shape.dimensions)), b.scalar(False, PRED), padding=padding
        )
        value = b.make("pad", value, b.scalar(0, value.shape.element_type), padding=padding)
        return b.select(inside, value, whole)


def _count(s: SliceDimension) -> int:
    return max(0, -(-(s.limit - s.start) // s.stride))


class Places:
    """Arrays of indices, broadcast together, into dimensions `dims` of a block, and where their dimensions go in the
    result: `position`."""

    def __init__(self, b: Tracing, block: Sequence[int], indices: dict[int, I], position: int) -> None:
        shapes = [i.shape.dimensions for i in indices.values()]
        try:
            self.sizes = np.broadcast_shapes(*shapes)
        except ValueError:
            texts = " ".join(str(s).replace(" ", "") for s in shapes)
            raise IndexError(
                f"shape mismatch: indexing arrays could not be broadcast together with shapes {texts} "
            ) from None
        self.dims, self.position, rank = tuple(indices), position, len(self.sizes)
        parts = [b.reshape(spread(b, i, self.sizes), (*self.sizes, 1)) for i in indices.values()]
        self.vectors = parts[0] if len(parts) == 1 else b.make("concatenate", *parts, dimensions=(rank,))
        rest = [n for d, n in enumerate(block) if d not in self.dims]
        self.offsets = tuple(d for d in range(rank + len(rest)) if not position <= d < position + rank)
        self.shape = (*rest[:position], *self.sizes, *rest[position:])

    def read(self, b: Tracing, block: I) -> I:
        sizes = tuple(1 if d in self.dims else n for d, n in enumerate(block.shape.dimensions))
        if any(block.shape.dimensions[d] == 0 for d in self.dims):  # no index is in range, and there are none
            return b.full(0, Shape(block.shape.element_type, self.shape))
        return b.make(
            "gather", block, self.vectors, offset_dims=self.offsets, collapsed_slice_dims=self.dims,
            start_index_map=self.dims, index_vector_dim=len(self.sizes), slice_sizes=sizes,
        )  # fmt: skip

    def write(self, b: Tracing, block: I, updates: I, combine: Computation) -> I:
        if not updates.shape.size:
            return block
        return b.make(
            "scatter", block, self.vectors, updates, update_window_dims=self.offsets, inserted_window_dims=self.dims,
            scatter_dims_to_operand_dims=self.dims, index_vector_dim=len(self.sizes), to_apply=combine,
        )  # fmt: skip


def _last(b: Build, x: I) -> Computation:
    """The reducer that keeps the written value."""
    return b.shared_computation("last", (x.shape.element_type,) * 2, lambda _, old, new: new)


# -- keys


def _normal(a: Traced, key: Any) -> list[Any]:
    """The elements of a key, one for each dimension of the array (except for None), with `...` expanded; known ones are
    plain Python or NumPy. Known masks become arrays of integers."""
    keys: list[Any] = []
    for k in key if isinstance(key, tuple) else (key,):
        k = _as_array(k)
        if isinstance(k, Traced) and k.known_value is not None:
            k = k.known_value
        if type(k) is np.ndarray and not k.ndim:
            k = k[()]
        if isinstance(k, (bool, np.bool_)):
            k = _New(np.arange(int(k)))
        keys.append(_KnownMask(k) if type(k) is np.ndarray and k.dtype == bool else k)
    used = sum(_width(k) for k in keys)
    if used > a.ndim:
        raise IndexError(f"too many indices for array: array is {a.ndim}-dimensional, but {used} were indexed")
    if sum(k is Ellipsis for k in keys) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    if not any(k is Ellipsis for k in keys):
        keys.append(_REST)
    parts: list[Any] = []
    for k in keys:
        if k is Ellipsis or k is _REST:
            parts += [slice(None)] * (a.ndim - used) if used < a.ndim else [_GAP] if k is Ellipsis else []
        elif isinstance(k, _KnownMask):
            at = sum(_width(e) for e in parts)
            wrong = [d for d, n in enumerate(k.mask.shape) if n != a.shape[at + d]]
            if wrong:
                raise IndexError(
                    f"boolean index did not match indexed array along axis {at + wrong[0]}; size of axis is "
                    f"{a.shape[at + wrong[0]]} but size of corresponding boolean axis is {k.mask.shape[wrong[0]]}"
                )
            parts += list(np.nonzero(k.mask))
        else:
            parts.append(k)
    return parts


def _as_array(k: Any) -> Any:
    """An element of a key, in which sequences (a list, a range, an array of another library) become arrays, as in
    NumPy."""
    if k is None or k is Ellipsis or isinstance(k, (Symbol, slice, int, numpy.ndarray, numpy.generic)):
        return k
    build = builder_of(k)
    if build is not None:
        return array_of(build, k)
    array = np.asarray(k)
    if array.dtype == object:  # an object with an __index__
        return k
    return array if array.size else array.astype(np.int64)


class _KnownMask:
    """A mask of a key, whose elements are known while the function is traced."""

    def __init__(self, mask: numpy.ndarray) -> None:
        self.mask = mask


@dataclass
class _New:
    """A single boolean in a key: a new dimension of size 1, from which an array selects its element (True) or nothing
    (False)."""

    places: numpy.ndarray


_REST, _GAP = object(), object()  # the remaining dimensions; a `...` that represents none


def _width(k: Any) -> int:
    """How many dimensions of the array an element of a key consumes."""
    if k is None or k is Ellipsis or k is _REST or k is _GAP or isinstance(k, _New):
        return 0
    if isinstance(k, _KnownMask):
        return k.mask.ndim
    return 1


@dataclass
class _Key:
    """A key for an array: a block of it, and the places in the block, if the key contains arrays of integers."""

    block: _Block
    indices: dict[int, I]
    position: int
    numpys: Any  # the block's key for NumPy, with 0 in place of unknown values
    is_known: bool  # whether the block's whole key is known
    is_element: bool  # whether it selects one element, which is a scalar

    def of(self, a: Traced) -> tuple[Traced, Places | None]:
        b, block = a.build, self.block
        view = a.viewed(
            lambda x: x[self.numpys], lambda whole: block.read(b, whole), lambda whole, part: block.put(b, whole, part),
            self.is_known,
        )  # fmt: skip
        return view, Places(b, tuple(block.shape), self.indices, self.position) if self.indices else None


def _has_array(key: Any) -> bool:
    """Whether a key contains an array: NumPy then makes a copy, even if it has no dimensions."""
    return any(
        not k.is_scalar if isinstance(k, Traced) else type(k) is np.ndarray
        for k in (key if isinstance(key, tuple) else (key,))
    )


def _is_array(k: Any) -> bool:
    return isinstance(k, (Traced, np.ndarray)) and k.ndim > 0


def parse(a: Traced, key: Any) -> _Key:
    """A key that is not a selection. Raises IndexError for one that does not fit the array."""
    b, keys = a.build, _normal(a, key)
    advanced = any(_is_array(k) or isinstance(k, _New) for k in keys)
    block, indices, d = _Block(), {}, 0
    runs = 0  # of adjacent indices
    before_array, position = False, 0
    numpys: list[Any] = []
    is_known = True
    for k in keys:
        is_index = False
        if k is None:
            block.shape.append(1)
            numpys.append(None)
        elif k is _GAP:
            pass
        elif isinstance(k, _New):
            runs, position = _begun(runs, position, before_array, block)
            is_index = True
            indices[len(block.shape)] = lift(b, k.places.astype(np.int64))
            block.shape.append(1)
            numpys.append(None)
        else:
            n = a.shape[d]
            if isinstance(k, slice):
                if any(True for _ in symbols(k)) and builder_of(k) is not None:
                    k = slice(*(None if v is None else v.__index__() for v in (k.start, k.stop, k.step)))
                start, stop, step = k.indices(n)
                count = len(range(start, stop, step))
                if step < 0:
                    block.reverse.append(d)
                    start, step = start + (count - 1) * step, -step
                block.slices.append(SliceDimension(start, start + (count - 1) * step + 1 if count else start, step))
                if not count and block.reverse and block.reverse[-1] == d:
                    block.reverse.pop()
                    block.slices[-1] = SliceDimension(0, 0, 1)
                block.shape.append(count)
                numpys.append(k)
            elif advanced:
                if isinstance(k, Number) or (not isinstance(k, Traced) and np.ndim(k) == 0):
                    k = _integer(b, k, n, d)
                elif not isinstance(k, Traced):
                    k = _known_places(k, n, d)
                else:
                    _must_be_integers(k)
                    k = places_of(b, k.instruction, n, d)
                index = k if isinstance(k, Instruction) else lift(b, np.asarray(k, np.int64))
                runs, position = _begun(runs, position, before_array, block)
                is_index = True
                indices[len(block.shape)] = index
                block.slices.append(SliceDimension(0, n, 1))
                block.shape.append(n)
                numpys.append(slice(None))
            else:
                place = _integer(b, k, n, d)
                if isinstance(place, Instruction):
                    block.starts[d], is_known = place, False
                    block.slices.append(SliceDimension(0, n, 1))
                    numpys.append(0)
                else:
                    block.slices.append(SliceDimension(place, place + 1, 1))
                    numpys.append(place)
            d += 1
        before_array = is_index
    if runs > 1:
        position = 0
    else:
        position -= sum(1 for r in indices if r < position)
    is_element = not advanced and not block.shape and all(k is not _GAP for k in keys)
    return _Key(block, indices, position, (*numpys, Ellipsis), is_known, is_element)


def _begun(runs: int, position: int, continues: bool, block: _Block) -> tuple[int, int]:
    """The number of runs of adjacent indices, and where their dimensions go, at an index that continues a run or begins
    one."""
    if runs and continues:
        return runs, position
    return runs + 1, 0 if runs else len(block.shape)


def _integer(b: Tracing, k: Any, size: int, dimension: int) -> int | I:
    """One index: a position, or its computation at the call."""
    if isinstance(k, Number) and k.kind is int and b.region is not b.top:  # the region may not run
        return places_of(b, b.number(k, np.dtype(np.int64)), size, dimension)
    if isinstance(k, Number) and k.kind is int:
        return b.number(applied("index", size, dimension, k), np.dtype(np.int64))
    if isinstance(k, Traced):
        _must_be_integers(k)
        return places_of(b, k.instruction, size, dimension)
    if isinstance(k, (float, complex, str)) or isinstance(k, np.generic) and k.dtype.kind not in "iu":
        raise IndexError(
            "only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and integer or boolean arrays are "
            "valid indices"
        )
    return index_from_start(size, dimension, index_of(k))


def _must_be_integers(k: Any) -> None:
    if k.dtype.kind not in "iu":
        raise IndexError("arrays used as indices must be of integer (or boolean) type")


def _known_places(k: numpy.ndarray, size: int, dimension: int) -> numpy.ndarray:
    _must_be_integers(k)
    wrong = k[(k < -size) | (k >= size)]
    if wrong.size:
        raise IndexError(f"index {wrong.flat[0]} is out of bounds for axis {dimension} with size {size}")
    return np.where(k < 0, k + size, k)


def _is_whole(k: Any) -> bool:
    """Whether an element of a key selects all of its dimensions."""
    return k is Ellipsis or (isinstance(k, slice) and all(v is None for v in (k.start, k.stop, k.step)))


def _selection(a: Traced, key: Any) -> Selection | None:
    """The selection by a key with a mask of unknown values; None if there is no such mask."""
    keys = key if isinstance(key, tuple) else (key,)
    masks = [k for k in keys if isinstance(k, Traced) and k.dtype == bool and k.known_value is None]
    if not masks:
        return None
    mask, at = masks[0], next(n for n, k in enumerate(keys) if k is masks[0])
    others = [k for k in keys if k is not mask]
    if len(masks) > 1 or not all(map(_is_whole, others)) or any(k is Ellipsis for k in keys[:at]):
        mask.ask()
        raise UnsupportedError(
            "a mask beside other indices has no compiled form, since the size of its result is a value: index by the "
            "others first, y = x[:, 1]; y[mask] = 0 changes x, too"
        )
    if at:
        mask.ask()
        raise UnsupportedError(
            "a mask after a slice has no compiled form, since the size of its result is a value: use np.where, or "
            "y = np.moveaxis(x, axis, 0); y[mask] = 0 changes x, too"
        )
    if mask.shape != a.shape[: mask.ndim]:
        raise IndexError(f"boolean index of shape {mask.shape} did not match indexed array of shape {a.shape}")
    return Selection(a, mask)


@implements("__getitem__", aliasing=True)
def index(a: Traced, key: Any) -> Any:
    """a[key]."""
    selection = _selection(a, key)
    if selection is not None:
        return Selection(wrap(a.build, a.instruction), selection.mask)
    parsed = parse(a, key)
    view, places = parsed.of(a)
    if parsed.is_element:
        value = view.known_value
        return wrap(a.build, view.instruction) if value is None else value[()]
    if places is None:
        return view.copy() if _has_array(key) else view
    if a.known_value is not None and all_known(key):
        return adopted(a.known_value[values_of(key)], a.build)
    return wrap(a.build, places.read(a.build, view.instruction))


@implements("__setitem__", aliasing=True)
def assign(a: Traced, key: Any, value: Any) -> None:
    """a[key] = value."""
    b = a.build
    if a.is_scalar:
        raise TypeError(f"'numpy.{a.dtype}' object does not support item assignment")
    selection = _selection(a, key)
    if selection is not None:
        selection.write(value)
        return
    if isinstance(value, Selection):
        raise value.unknown_size("assigned")
    if a.known_value is not None and all_known(key, value) and not isinstance(value, Number):
        a.change(lambda x: x.__setitem__(values_of(key), values_of(value)))
        return
    parsed = parse(a, key)
    view, places = parsed.of(a)
    if places is None:
        if parsed.is_element and np.ndim(value):
            # NumPy's error, of releases and types that do not convert it: the truth of one element has a value.
            np.zeros(1, view.dtype)[0] = np.zeros(np.shape(value))
        if isinstance(value, Traced):
            _check_scalar(b, value, view.dtype)
        fill(view, value)
        return
    values = _fitting(b, value, view.dtype, places.shape)
    view.assign(places.write(b, view.instruction, values, _last(b, values)))


def _check_scalar(b: Tracing, scalar: Traced, dtype: numpy.dtype) -> None:
    """Raises an error at the call if a NumPy scalar is not a number of a signed integer type, when it is assigned to
    its elements: NumPy converts it as a Python integer. (For unsigned types, it converts as it does arrays.)"""
    if dtype.kind != "i" or not scalar.is_scalar or np.can_cast(scalar.dtype, dtype):
        return
    kind, x = scalar.dtype.kind, scalar.instruction
    if kind == "c":
        x = b.real(x)
    limits = np.iinfo(dtype)
    if kind in "fc":
        b.check(b.compare(x, x, direction="EQ"), ValueError, "cannot convert float NaN to integer")
        x = b.convert(x, F64)
        low, high = b.scalar(float(limits.min), F64), b.scalar(float(limits.max) + (dtype.itemsize < 8), F64)
        strict = dtype.itemsize < 8  # what is cut off may lie beyond; at 64 bits, no number lies between
        least = b.subtract(low, b.scalar(1.0, F64)) if strict else low
        inside = b.and_(b.compare(x, least, direction="GT" if strict else "GE"), b.compare(x, high, direction="LT"))
        inside = b.or_(inside, b.compare(x, x, direction="NE"))
    else:
        own = np.iinfo(scalar.dtype)
        inside = b.compare(x, lift(b, scalar.dtype.type(min(limits.max, own.max))), direction="LE")
        if kind == "i":
            above = b.compare(x, lift(b, scalar.dtype.type(limits.min)), direction="GE")
            inside = b.and_(inside, above)
    b.check(inside, OverflowError, f"a number is out of bounds for {dtype}")


def fill(target: Traced, value: Any) -> None:
    """Assigns to all elements of an array, whose type the value is converted to.

    Raises UnsupportedError for the elements that a mask of unknown values selects.
    """
    if isinstance(value, Selection):
        raise value.unknown_size("assigned")
    array = known_value(value)
    if target.known_value is not None and array is not None:
        target.change(lambda x: x.__setitem__(Ellipsis, array))
    else:
        target.assign(_fitting(target.build, value, target.dtype, target.shape))


def _fitting(b: Tracing, value: Any, dtype: numpy.dtype, shape: Sequence[int]) -> I:
    """A value of some type and shape that is assigned to elements: converted and broadcast."""
    shape = tuple(shape)
    source = lift(b, value, dtype)
    own = source.shape.dimensions
    while len(own) > len(shape) and own[0] == 1:
        own = own[1:]
    if len(own) > len(shape) or any(n not in (1, m) for n, m in zip(own[::-1], shape[::-1], strict=False)):
        raise ValueError(f"could not broadcast input array from shape {source.shape.dimensions} into shape {shape}")
    return spread(b, b.reshape(source, own), shape)


ARRAYS["fill"] = fill


# -- functions that index


@implements(np.take, "take")
def take(a: Any, indices: Any, axis: int | None = None, out: Any = None, mode: str = "raise") -> Traced:
    b = builder_of(a, indices)
    assert b is not None
    a = array_of(b, a)
    axis = own_axis(axis, a.ndim)
    if axis is None:
        a, axis = a.reshape(a.size), 0
    axis = normal_axis(axis, a.ndim)
    numbers = known_value(indices)
    if not a.shape[axis] and np.size(indices):
        raise IndexError("cannot do a non-empty take from an empty axes.")
    if numbers is not None:
        if not numbers.size and isinstance(indices, (list, tuple)):  # an empty list has no type of its own
            numbers = numbers.astype(np.int64)
        size = a.shape[axis]
        where = (
            _known_places(numbers, size, axis) if mode == "raise"
            else numbers.clip(0, size - 1) if mode == "clip" else numbers % max(1, size)
        )  # fmt: skip
        at = lift(b, where.astype(np.int64))
    else:
        positions = array_of(b, indices)
        if not np.can_cast(positions.dtype, np.int64) or positions.dtype == bool:
            raise TypeError(
                f"Cannot cast array data from {positions.dtype!r} to dtype('int64') according to the rule 'safe'"
            )
        at = places_of(b, positions.instruction, a.shape[axis], axis, mode)
    places = Places(b, a.shape, {axis: at}, axis)
    return wrap(b, places.read(b, a.instruction))


def _along(a: Traced, indices: Traced, axis: int) -> tuple[Places, tuple[int, ...]]:
    b = a.build
    if indices.ndim != a.ndim:
        raise ValueError("`indices` and `arr` must have the same number of dimensions")
    _must_be_integers(indices)
    shape = np.broadcast_shapes(
        tuple(1 if d == axis else n for d, n in enumerate(a.shape)),
        tuple(1 if d == axis else n for d, n in enumerate(indices.shape)),
    )
    shape = tuple(indices.shape[axis] if d == axis else n for d, n in enumerate(shape))
    at = places_of(b, indices.instruction, a.shape[axis], axis)
    each = {d: spread(b, at, shape) if d == axis else b.iota(S64, shape, d) for d in range(a.ndim)}
    return Places(b, a.shape, each, 0), shape


def _flat(a: Traced, axis: int | None) -> tuple[Traced, int]:
    return (a.reshape(a.size), 0) if axis is None else (a, normal_axis(axis, a.ndim))


@implements(np.take_along_axis)
def take_along_axis(arr: Any, indices: Any, axis: int | None = -1) -> Traced:
    b = builder_of(arr, indices)
    assert b is not None
    a, axis = _flat(array_of(b, arr), axis)
    indices = array_of(b, indices)
    others = tuple(d for d in range(a.ndim) if d != axis)
    if indices.ndim == a.ndim and all(a.shape[d] == indices.shape[d] for d in others):
        _must_be_integers(indices)
        at = places_of(b, indices.instruction, a.shape[axis], axis)
        if not at.shape.size or not a.size:
            return np.zeros_like(a, shape=at.shape.dimensions)
        return wrap(b, b.make(
            "gather", a.instruction, at, offset_dims=(), collapsed_slice_dims=(axis,), start_index_map=(axis,),
            operand_batching_dims=others, start_indices_batching_dims=others, index_vector_dim=a.ndim,
            slice_sizes=(1,) * a.ndim,
        ))  # fmt: skip
    places, _ = _along(a, indices, axis)
    return wrap(b, places.read(b, a.instruction))


@implements(np.put_along_axis, aliasing=True)
def put_along_axis(arr: Any, indices: Any, values: Any, axis: int | None) -> None:
    a, axis = _flat(_target(arr, "np.put_along_axis"), axis)
    b = a.build
    places, shape = _along(a, array_of(b, indices), axis)
    updates = _fitting(b, values, a.dtype, shape)
    a.assign(places.write(b, a.instruction, updates, _last(b, updates)))


def _target(arr: Any, what: str) -> Traced:
    if not isinstance(arr, Traced):
        raise UnsupportedError(f"{what} would change an array of NumPy's in place: begin with x = np.array(x)")
    return arr


@implements(np.put, "put", aliasing=True)
def put(a: Any, ind: Any, v: Any, mode: str = "raise") -> None:
    a = _target(a, "np.put").reshape(-1)
    b = a.build
    at = places_of(b, lift(b, ind, np.int64), a.size, 0, mode)
    at = b.reshape(at, (at.shape.size,))
    values = array_of(b, v) if np.ndim(v) or isinstance(v, Traced) else array_of(b, v, a.dtype)
    values = values.reshape(-1)
    n = at.shape.size
    if not n:
        return
    values = np.resize(values, n) if values.size != n else values
    places = Places(b, a.shape, {0: at}, 0)
    updates = lift(b, values, a.dtype)
    a.assign(places.write(b, a.instruction, updates, _last(b, updates)))


@implements(np.copyto, aliasing=True)
def copyto(dst: Any, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    target = _target(dst, "np.copyto")
    kind = type_alone(src)
    is_weak = weak(src) is int and target.dtype.kind in "iu"  # the range of the type decides
    if not is_weak and not np.can_cast(kind, target.dtype, casting):
        what = "array data" if np.ndim(src) else "scalar"
        raise TypeError(f"Cannot cast {what} from {kind!r} to {target.dtype!r} according to the rule {casting!r}")
    if casting == "unsafe" and isinstance(src, Number):
        src = array_of(target.build, src, type_alone(src))
    if where is True:
        fill(target, src)
        return
    new = wrap(target.build, _fitting(target.build, src, target.dtype, target.shape))
    fill(target, np.where(where, new, target))


@implements(np.putmask, aliasing=True)
def putmask(a: Any, mask: Any, values: Any) -> None:
    target = _target(a, "np.putmask")
    if np.size(mask) != target.size:
        raise ValueError("putmask: mask and data must be the same size")
    is_number = weak(values) in (int, float)  # converted as an element is: out of range, it is an OverflowError
    values = array_of(target.build, values, target.dtype if is_number else None)
    if not values.size:
        return
    if values.size != target.size:
        values = np.resize(values, target.size)
    mask = np.reshape(array_of(target.build, mask, bool), target.shape)
    fill(target, np.where(mask, values.reshape(target.shape).astype(target.dtype), target))


@implements(np.fill_diagonal, aliasing=True)
def fill_diagonal(a: Any, val: Any, wrap: bool = False) -> None:
    target = _target(a, "np.fill_diagonal")
    if target.ndim < 2:
        raise ValueError("array must be at least 2-d")
    if target.ndim > 2 and len(set(target.shape)) > 1:
        raise ValueError("All dimensions of input must be of equal length")
    step = 1 + int(np.cumprod(target.shape[:-1]).sum()) if target.ndim > 2 else target.shape[1] + 1
    end = None if wrap or target.ndim > 2 else target.shape[1] * target.shape[1]
    flat = target.reshape(-1)
    chosen = flat[:end:step]
    if not np.ndim(val):
        fill(chosen, val)
        return
    val = array_of(target.build, val).reshape(-1)
    fill(chosen, val if val.size in (1, chosen.size) else np.resize(val, chosen.size))


@implements("fill", aliasing=True)
def fill_method(a: Traced, value: Any) -> None:
    if a.is_scalar:  # NumPy fills a copy of it
        return
    if isinstance(value, Traced):
        _check_scalar(a.build, value, a.dtype)
    fill(a, value)


@implements(np.ufunc.at)
def at(ufunc: numpy.ufunc, a: Any, indices: Any, values: Any = None) -> None:
    """ufunc.at(a, indices, values): every index counts, including repeated ones."""
    target, name = a, f"np.{ufunc.__name__}.at"
    if not isinstance(target, Traced):
        raise UnsupportedError(f"{name} would change an array of NumPy's in place: begin with x = np.array(x)")
    if target.is_scalar:
        raise TypeError("first operand must be array")
    if values is None:
        raise UnsupportedError(
            f"{name} has no compiled form: x[i] = np.{ufunc.__name__}(x[i]), if no index comes twice"
        )
    opcode = "add" if ufunc is np.subtract else REDUCERS.get(ufunc)
    if opcode is None:
        raise UnsupportedError(
            f"{name} has no compiled form, since it is not the same in every order: "
            f"x[i] = np.{ufunc.__name__}(x[i], v), if no index comes twice"
        )
    b, own, kind = target.build, target.dtype, type_alone(values)
    ufunc.resolve_dtypes((own, kind, None))  # NumPy's TypeError if the ufunc does not have such types
    if not _adds_up(ufunc, own, np.result_type(own, kind)):
        raise UnsupportedError(
            f"{name} of {own} with {kind} has no compiled form, since NumPy converts each result to {own}: convert the "
            f"values first, values.astype({own.name!r})"
        )
    values = array_of(b, array_of(b, values, kind), own)
    if ufunc is np.subtract:
        ufunc, values = np.add, np.negative(values)
    if own.kind == "b":
        opcode = {"add": "or", "multiply": "and", "maximum": "or", "minimum": "and"}.get(opcode, opcode)
    selection = _selection(target, indices)
    if selection is not None:
        selection.write(ufunc(selection, values))
        return
    view, places = parse(target, indices).of(target)
    if places is None:
        fill(view, ufunc(view, wrap(b, _fitting(b, values, own, view.shape))))
        return
    updates = _fitting(b, values, own, places.shape)
    view.assign(places.write(b, view.instruction, updates, reducer_of(b, opcode, updates)))


def _adds_up(ufunc: numpy.ufunc, own: numpy.dtype, wide: numpy.dtype) -> bool:
    """Whether a ufunc that computes in a type gives the same, except for rounding, if it computes in an array's own
    type: whether converting after each step equals converting all values before."""
    if ufunc in LOGICAL:
        return own.kind == "b"
    if own == wide:
        return True
    if own.kind in "iu" and wide.kind in "iu":  # sums and products are exact modulo a power of two
        return ufunc not in (np.maximum, np.minimum, np.fmax, np.fmin)
    return own.kind in "fc" and wide.kind == own.kind
