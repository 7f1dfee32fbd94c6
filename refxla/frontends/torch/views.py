"""Operations that move elements and compute nothing: reshapes, parts, concatenations; and new arrays."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import torch
from refxla_spec.module import Computation, Instruction
from refxla_spec.types import S64, ElementType, Shape

from .lowering import I, Lowering, NotLowered, Operand, axis, lowers, newest, real_of
from .tensors import inverse, memory_order


@lowers("view", "_unsafe_view", "reshape", "view_copy", "_reshape_alias", "prims::view_of")
def view(b: Lowering, x: I, *_: Any) -> I:
    return b.view(x, b.result.dimensions)


lowers("squeeze", "squeeze.dim", "squeeze.dims", "unsqueeze", "flatten.using_ints", "squeeze_copy", "unsqueeze_copy",
       "squeeze_copy.dim", "squeeze_copy.dims")(view)  # fmt: skip


@lowers("view.dtype")
def view_dtype(b: Lowering, x: I, dtype: Any) -> I:
    new = b.result.element_type
    x = b.view(x, x.shape.dimensions or (1,))
    if x.shape.element_type.is_complex and x.shape.element_type is not new:
        parts = [b.reshape(part, (*part.shape.dimensions, 1)) for part in (b.real(x), b.imag(x))]
        x = _joined(b, b.concatenate(parts, x.shape.rank))
    if new.is_complex and not x.shape.element_type.is_complex:
        pairs = _split(b, _with_bits(b, x, real_of(new)), 2)
        parts = [b.cut(pairs, pairs.shape.rank - 1, n, n + 1) for n in range(2)]
        x = b.complex(*(b.reshape(p, p.shape.dimensions[:-1]) for p in parts))
    return b.view(_with_bits(b, x, new), b.result.dimensions)


def _with_bits(b: Lowering, x: I, new: ElementType) -> I:
    """The bits of x read as another type; the last dimension becomes longer or shorter."""
    bits, dimensions = x.shape.element_type.bits, x.shape.dimensions
    if x.shape.element_type is new:
        return x
    if bits == new.bits:
        return b.make("bitcast-convert", x, shape=Shape(new, dimensions))
    if bits > new.bits:
        return _joined(b, b.make("bitcast-convert", x, shape=Shape(new, (*dimensions, bits // new.bits))))
    parts = _split(b, x, new.bits // bits)
    return b.make("bitcast-convert", parts, shape=Shape(new, parts.shape.dimensions[:-1]))


def _joined(b: Lowering, x: I) -> I:
    """x with its last two dimensions as one."""
    *rest, rows, columns = x.shape.dimensions
    return b.reshape(x, (*rest, rows * columns))


def _split(b: Lowering, x: I, size: int) -> I:
    """x with its last dimension as two, the last one of this size."""
    *rest, count = x.shape.dimensions
    return b.reshape(x, (*rest, count // size, size))


@lowers("permute", "permute_copy")
def permute(b: Lowering, x: I, dims: Sequence[int]) -> I:
    return b.permute(x, [axis(d, x.shape.rank) for d in dims])


@lowers("t", "t_copy")
def t(b: Lowering, x: I) -> I:
    return b.permute(x, range(x.shape.rank)[::-1])


@lowers("transpose.int", "transpose_copy.int")
def transpose(b: Lowering, x: I, dim0: int, dim1: int) -> I:
    order = list(range(x.shape.rank))
    if order:
        first, second = axis(dim0, len(order)), axis(dim1, len(order))
        order[first], order[second] = second, first
    return b.permute(x, order)


@lowers("expand", "expand_copy")
def expand(b: Lowering, x: I, size: Sequence[int], *, implicit: bool = False) -> I:
    return b.expand(x, b.result.dimensions)


@lowers("slice.Tensor", "slice_copy.Tensor")
def slice_(b: Lowering, x: I, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> I:
    d = axis(dim, x.shape.rank)
    first, limit, _ = slice(start, end, step).indices(x.shape.dimensions[d])
    return b.cut(x, d, first, max(first, limit), step)


@lowers("select.int", "select_copy.int")
def select(b: Lowering, x: I, dim: int, index: int) -> I:
    d = axis(dim, x.shape.rank)
    index %= x.shape.dimensions[d]
    return b.view(b.cut(x, d, index, index + 1), b.result.dimensions)


@lowers("slice_scatter")
def slice_scatter(
    b: Lowering, x: I, source: I, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> I:
    d = axis(dim, x.shape.rank)
    n = x.shape.dimensions[d]
    first, limit, _ = slice(start, end, step).indices(n)
    count = len(range(first, limit, step))
    if count == 0:
        return x
    wide = list(x.shape.dimensions)
    wide[d] = count
    source = b.expand(source, tuple(wide))
    if step == 1:
        parts = [b.cut(x, d, 0, first), source, b.cut(x, d, first + count, n)]
        return b.concatenate([p for p in parts if p.shape.dimensions[d]], d)
    last = first + (count - 1) * step
    edges = [(0, 0, 0)] * x.shape.rank
    edges[d] = (first, n - 1 - last, step - 1)
    places = np.zeros(n, np.bool_)
    places[first:limit:step] = True
    there = b.spread(b.constant(places), Shape(b.constant(places).shape.element_type, x.shape.dimensions), (d,))
    return b.select(there, b.padded(source, 0, *edges), x)


@lowers("select_scatter")
def select_scatter(b: Lowering, x: I, source: I, dim: int, index: int) -> I:
    d = axis(dim, x.shape.rank)
    index %= x.shape.dimensions[d]
    one = tuple(1 if k == d else n for k, n in enumerate(x.shape.dimensions))
    return slice_scatter(b, x, b.reshape(source, one), d, index, index + 1)


@lowers("cat")
def cat(b: Lowering, tensors: Sequence[I], dim: int = 0) -> I:
    parts = [b.cast(x, b.result.element_type) for x in tensors]
    if b.result.rank:  # PyTorch ignores empty vectors
        parts = [x for x in parts if x.shape.rank == b.result.rank and (x.shape.size or x.shape.rank > 1)]
    parts = [x for x in parts if x.shape.size] or parts[:1]
    return b.concatenate(parts, axis(dim, b.result.rank)) if parts else b.full(0, b.result)


@lowers("stack")
def stack(b: Lowering, tensors: Sequence[I], dim: int = 0) -> I:
    d = axis(dim, b.result.rank)
    one = tuple(1 if k == d else n for k, n in enumerate(b.result.dimensions))
    return b.concatenate([b.reshape(b.cast(x, b.result.element_type), one) for x in tensors], d)


@lowers("split_with_sizes", "split_with_sizes_copy")
def split_with_sizes(b: Lowering, x: I, sizes: Sequence[int], dim: int = 0) -> list[I]:
    d, ends = axis(dim, x.shape.rank), np.cumsum(sizes).tolist()
    return [b.cut(x, d, end - n, end) for n, end in zip(sizes, ends, strict=True)]


@lowers("split.Tensor", "split_copy.Tensor")
def split(b: Lowering, x: I, size: int, dim: int = 0) -> list[I]:
    d = axis(dim, x.shape.rank)
    n = x.shape.dimensions[d]
    return [b.cut(x, d, k, min(n, k + size)) for k in range(0, n, size)] if n else [x]


@lowers("unbind.int", "unbind_copy.int")
def unbind(b: Lowering, x: I, dim: int = 0) -> list[I]:
    d = axis(dim, x.shape.rank)
    rest = tuple(n for k, n in enumerate(x.shape.dimensions) if k != d)
    return [b.reshape(b.cut(x, d, k, k + 1), rest) for k in range(x.shape.dimensions[d])]


@lowers("repeat")
def repeat(b: Lowering, x: I, repeats: Sequence[int]) -> I:
    own = (1,) * (len(repeats) - x.shape.rank) + x.shape.dimensions
    pairs = tuple(n for pair in zip(repeats, own, strict=True) for n in pair)
    places = tuple(range(1, len(pairs), 2))
    x = b.spread(b.reshape(x, own), Shape(x.shape.element_type, pairs), places)
    return b.reshape(x, b.result.dimensions)


@lowers("flip")
def flip(b: Lowering, x: I, dims: Sequence[int]) -> I:
    along = tuple(sorted({axis(d, x.shape.rank) for d in dims}))
    return b.make("reverse", x, dimensions=along) if along and x.shape.rank else x


@lowers("roll")
def roll(b: Lowering, x: I, shifts: Sequence[int], dims: Sequence[int] = ()) -> I:
    own = x.shape.dimensions
    if not dims:
        x, dims = b.reshape(x, (x.shape.size,)), (0,)
    for shift, dim in zip(shifts, dims, strict=True):
        d = axis(dim, x.shape.rank)
        n = x.shape.dimensions[d] if x.shape.rank else 0
        if n and shift % n:
            cut = n - shift % n
            x = b.concatenate([b.cut(x, d, cut, n), b.cut(x, d, 0, cut)], d)
    return b.view(x, own)


@lowers("constant_pad_nd")
def constant_pad_nd(b: Lowering, x: I, pad: Sequence[int], value: Operand = 0) -> I:
    edges = [(0, 0, 0)] * x.shape.rank
    for k in range(len(pad) // 2):
        edges[-1 - k] = (pad[2 * k], pad[2 * k + 1], 0)
    return b.padded(x, value, *edges)


@lowers("diagonal", "diagonal_copy")
def diagonal(b: Lowering, x: I, offset: int = 0, dim1: int = 0, dim2: int = 1) -> I:
    """The diagonal of two dimensions, which are moved to the end and flattened: its elements are a row and one
    apart."""
    rank = x.shape.rank
    d1, d2 = axis(dim1, rank), axis(dim2, rank)
    rest = [d for d in range(rank) if d not in (d1, d2)]
    x = b.permute(x, [*rest, d1, d2])
    outer, (rows, columns) = x.shape.dimensions[:-2], x.shape.dimensions[-2:]
    count = b.result.dimensions[-1]
    if not count:
        return b.full(0, b.result)
    x = b.reshape(x, (*outer, rows * columns))
    start = offset if offset >= 0 else -offset * columns
    return b.cut(x, len(outer), start, start + (count - 1) * (columns + 1) + 1, columns + 1)


@lowers("unfold", "unfold_copy")
def unfold(b: Lowering, x: I, dimension: int, size: int, step: int) -> I:
    """Windows along a dimension, with the elements of each in a dimension at the end."""
    d, rank = axis(dimension, x.shape.rank), x.shape.rank
    if not rank:
        return b.view(x, b.result.dimensions) if size else b.full(0, b.result)
    count = b.result.dimensions[d]
    first, element = (b.iota(S64, (count, size), k) for k in (0, 1))
    return b.make(
        "gather", x, b.add(b.multiply(first, step), element), offset_dims=tuple(k for k in range(rank) if k != d),
        collapsed_slice_dims=(d,), start_index_map=(d,), index_vector_dim=2,
        slice_sizes=tuple(1 if k == d else n for k, n in enumerate(x.shape.dimensions)),
    )  # fmt: skip


def _triangle(lower: bool) -> Any:
    def apply(b: Lowering, x: I, diagonal: int = 0) -> I:
        dims = x.shape.dimensions
        row, column = (b.iota("s32", dims, len(dims) - k) for k in (2, 1))
        mask = b.compare(b.subtract(column, row), diagonal, direction="LE" if lower else "GE")
        return b.select(mask, x, 0)

    return apply


lowers("tril")(_triangle(True))
lowers("triu")(_triangle(False))


def _memory(b: Lowering, x: I) -> tuple[I, tuple[int, ...]]:
    """The memory of x, which must be x's own and without gaps, as one dimension; and the order of x's dimensions in
    it."""
    fake = b.fakes[0]
    order = memory_order(fake)
    if order is None or fake.storage_offset() or fake.untyped_storage().nbytes() > x.shape.bytes:
        raise NotLowered("of memory beyond the tensor's own elements")
    return b.view(b.permute(x, order), (x.shape.size,)), order


def _places(x: I, size: Sequence[int], stride: Sequence[int], offset: int) -> np.ndarray[Any, Any]:
    """The memory offsets of the elements."""
    places: np.ndarray[Any, Any] = np.full(tuple(size), offset, np.int64)
    for d, (n, step) in enumerate(zip(size, stride, strict=True)):
        places += (np.arange(n) * step).reshape((n,) + (1,) * (len(size) - d - 1))
    if places.size and places.max() >= x.shape.size:
        raise NotLowered("of memory beyond the tensor's own elements")
    return places


def _order_of_all(x: I, size: Sequence[int], stride: Sequence[int], offset: int) -> tuple[int, ...] | None:
    """The order of dimensions in memory of such a view, if it has each element of x once."""
    if offset or prod(size) != x.shape.size:
        return None
    return memory_order(torch.empty_strided(tuple(size), tuple(stride), device="meta"))


@lowers("as_strided", "as_strided_copy")
def as_strided(b: Lowering, x: I, size: Sequence[int], stride: Sequence[int], offset: int | None = None) -> I:
    """Elements of the memory of x."""
    memory, _ = _memory(b, x)
    order = _order_of_all(x, size, stride, offset or 0)
    if order is not None:
        return b.permute(b.view(memory, tuple(size[d] for d in order)), inverse(order))
    places = _places(x, size, stride, offset or 0)
    return b.make(
        "gather", memory, b.constant(places), offset_dims=(), collapsed_slice_dims=(0,),
        start_index_map=(0,), index_vector_dim=len(size), slice_sizes=(1,),
    )  # fmt: skip


@lowers("as_strided_scatter", "prims::as_strided_scatter")
def as_strided_scatter(
    b: Lowering, x: I, source: I, size: Sequence[int], stride: Sequence[int], offset: int | None = None
) -> I:
    """x with elements replaced at offsets of its memory."""
    memory, own = _memory(b, x)
    order = _order_of_all(x, size, stride, offset or 0)
    if order is not None:
        memory = b.permute(source, order)
    else:
        places = _places(x, size, stride, offset or 0)
        if np.unique(places).size != places.size:
            raise NotLowered("to places that are not all different")
        memory = b.make(
            "scatter", memory, b.constant(places), source, update_window_dims=(), inserted_window_dims=(0,),
            scatter_dims_to_operand_dims=(0,), index_vector_dim=len(size),
            to_apply=newest(b, x),
        )  # fmt: skip
    return b.permute(b.view(memory, tuple(x.shape.dimensions[d] for d in own)), inverse(own))


# -- new arrays


@lowers("full", "full_like", "new_full")
def full(b: Lowering, first: Any, value: Any, third: Any = None, **_: Any) -> I:
    return b.expand(b.cast(value if third is None else third, b.result.element_type), b.result.dimensions)


@lowers("full_like")
def full_like(b: Lowering, x: I, value: Operand, **_: Any) -> I:
    return full(b, x, value)


def _filled(value: int) -> Any:
    return lambda b, *_, **__: b.full(value, b.result)


lowers("zeros", "zeros_like", "new_zeros", "_efficientzerotensor", "_new_zeros_with_same_feature_meta")(_filled(0))
lowers("ones", "ones_like", "new_ones")(_filled(1))
# Memory that PyTorch leaves uninitialized is 0 here.
lowers("empty.memory_format", "empty_like", "new_empty", "empty_strided", "new_empty_strided", "empty_permuted")(
    _filled(0)
)


@lowers("scalar_tensor")
def scalar_tensor(b: Lowering, value: Any, **_: Any) -> I:
    return b.cast(value, b.result.element_type)


@lowers("fill.Scalar", "fill.Tensor")
def fill(b: Lowering, x: I, value: Operand) -> I:
    return b.operands(value)[0]


@lowers("arange.start_step", "arange.start", "arange")
def arange(b: Lowering, start: float, end: float | None = None, step: float = 1, **_: Any) -> I:
    if end is None:
        start = 0
    own = b.result.element_type
    if own.is_integer:
        kind = own
    else:  # as PyTorch: in double precision
        from refxla_spec.types import F64

        kind = F64
    steps = b.convert(b.iota(S64, b.result.dimensions, 0), kind)
    return b.cast(b.add(b.multiply(steps, step), start), own)


@lowers("prims::iota")
def iota(b: Lowering, length: int, *, start: int = 0, step: int = 1, **_: Any) -> I:
    return arange(b, start, start + length * step, step)


@lowers("eye", "eye.m")
def eye(b: Lowering, *_: Any, **__: Any) -> I:
    dims = b.result.dimensions
    return b.cast(b.compare(b.iota("s32", dims, 0), b.iota("s32", dims, 1), direction="EQ"), b.result.element_type)


@lowers("prims::broadcast_in_dim", "prims::broadcast_in_dim.default")
def broadcast_in_dim(b: Lowering, x: I, shape: Sequence[int], dimensions: Sequence[int]) -> I:
    pairs = [(k, d) for k, d in enumerate(dimensions) if x.shape.dimensions[k] == shape[d]]
    x = b.view(x, tuple(x.shape.dimensions[k] for k, _ in pairs))
    return b.spread(x, b.result, tuple(d for _, d in pairs))


def elements(dimensions: Sequence[int]) -> int:
    """The number of elements of an array."""
    return prod(dimensions)


def _written(b: Lowering, x: I, source: I, places: np.ndarray[Any, Any]) -> I:
    """x with the elements of the source at positions of the flattened array, which are distinct."""
    if len(np.unique(places)) < places.size:
        raise NotLowered("with elements that overlap")
    flat, source = b.reshape(x, (x.shape.size,)), b.cast(source, x.shape.element_type)
    kind = Shape(x.shape.element_type)
    p = [Instruction(n, "parameter", kind, [], {"number": k}) for k, n in enumerate("ab")]
    b.count += 1
    result = b.make(
        "scatter", flat, b.constant(places.reshape(-1)), b.reshape(source, (source.shape.size,)),
        update_window_dims=(), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,), index_vector_dim=1,
        unique_indices=True, to_apply=Computation(f"{b.name}.new.{b.count}", p, p[1]),
    )  # fmt: skip
    return b.reshape(result, x.shape.dimensions)


@lowers("diagonal_scatter")
def diagonal_scatter(b: Lowering, x: I, source: I, offset: int = 0, dim1: int = 0, dim2: int = 1) -> I:
    flat = np.arange(x.shape.size, dtype=np.int64).reshape(x.shape.dimensions)
    return _written(b, x, source, flat.diagonal(offset, dim1, dim2))
