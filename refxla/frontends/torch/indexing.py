"""Indexing by arrays. HLO clamps an index that is out of range; PyTorch raises, and so does the compiled graph: each
index is checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from refxla_spec.module import Computation, Instruction, WindowDimension
from refxla_spec.types import PRED, S64

from .lowering import INDEX, I, Lowering, NotLowered, Operand, axis, highest, lowers, lowest, newest, reducer


def places(b: Lowering, index: I, size: int, what: str, wraps: bool = False) -> I:
    """An index (s64), counted from the front, into a dimension of some size; it is checked. `wraps`: a negative one
    counts from the end, as in x[i]; functions that take an index reject it."""
    index = b.cast(index, S64)
    if index.shape.size:
        low = b.compare(index, -size if wraps else 0, direction="GE")
        inside = b.and_(low, b.compare(index, size, direction="LT"))
        whole = f"{b.origin}: " if b.origin not in ("", what) else ""
        b.check(inside, f"{whole}{what}: {INDEX} of a dimension of size {size}")
    return b.select(b.compare(index, 0, direction="LT"), b.add(index, size), index) if wraps else index


class _Places:
    """The index arrays of x[i, j, ...], broadcast together, and where their dimensions go in the result."""

    def __init__(self, b: Lowering, x: I, indices: Sequence[I | None], what: str, wraps: bool = False) -> None:
        pairs = [(d, i) for d, i in enumerate(indices) if i is not None]
        if any(i.shape.element_type.name in ("pred", "u8") for _, i in pairs):
            raise NotLowered("by a mask: the shape of the result depends on its values")
        rank = max(i.shape.rank for _, i in pairs)
        sizes = [1] * rank
        for _, i in pairs:
            for d, n in enumerate(i.shape.dimensions):
                if n != 1:
                    sizes[rank - i.shape.rank + d] = n
        self.dims = tuple(d for d, _ in pairs)
        self.sizes = tuple(sizes)
        spread = [b.expand(places(b, i, x.shape.dimensions[d], what, wraps), self.sizes) for d, i in pairs]
        self.vectors = b.concatenate([b.reshape(i, (*self.sizes, 1)) for i in spread], rank)
        # NumPy's rule: in place of the indexed dimensions if they are adjacent, otherwise in front
        together = self.dims[-1] - self.dims[0] == len(self.dims) - 1
        self.position = self.dims[0] if together else 0
        self.rest = tuple(d for d in range(x.shape.rank) if d not in self.dims)
        result_rank = rank + len(self.rest)
        self.offset = tuple(d for d in range(result_rank) if not self.position <= d < self.position + rank)
        others = tuple(x.shape.dimensions[d] for d in self.rest)
        self.result = (*others[: self.position], *self.sizes, *others[self.position :])


def gather_places(b: Lowering, x: I, p: _Places) -> I:
    return b.make(
        "gather", x, p.vectors, offset_dims=p.offset, collapsed_slice_dims=p.dims, start_index_map=p.dims,
        index_vector_dim=len(p.sizes),
        slice_sizes=tuple(1 if d in p.dims else n for d, n in enumerate(x.shape.dimensions)),
    )  # fmt: skip


@lowers("index.Tensor", "_unsafe_index.Tensor")
def index(b: Lowering, x: I, indices: Sequence[I | None]) -> I:
    return gather_places(b, x, _Places(b, x, indices, "index", wraps=True))


@lowers("index_select")
def index_select(b: Lowering, x: I, dim: int, places: I) -> I:
    if not x.shape.rank:
        return b.expand(x, b.result.dimensions)
    d = axis(dim, x.shape.rank)
    places = b.view(places, (places.shape.size,))
    return gather_places(b, x, _Places(b, x, [None] * d + [places], "index_select"))


@lowers("embedding")
def embedding(b: Lowering, weight: I, places: I, *_: Any) -> I:
    return gather_places(b, weight, _Places(b, weight, [places], "embedding"))


@lowers("gather")
def gather(b: Lowering, x: I, dim: int, index: I, *, sparse_grad: bool = False) -> I:
    if not x.shape.rank or not index.shape.size:
        return b.expand(x, b.result.dimensions) if not x.shape.rank else b.full(0, b.result)
    if not index.shape.rank:
        index = b.reshape(index, (1,))
    d = axis(dim, x.shape.rank)
    size = x.shape.dimensions[d]
    for k, n in enumerate(index.shape.dimensions):
        if k != d:
            x = b.cut(x, k, 0, n)
    others = tuple(k for k in range(x.shape.rank) if k != d)
    row = _row(b, index, d)
    if row is not None:
        return gather_places(b, x, _Places(b, x, [None] * d + [row], "gather"))
    elements = b.make(
        "gather", x, places(b, index, size, "gather"), offset_dims=(), collapsed_slice_dims=(d,), start_index_map=(d,),
        operand_batching_dims=others, start_indices_batching_dims=others, index_vector_dim=index.shape.rank,
        slice_sizes=(1,) * x.shape.rank,
    )  # fmt: skip
    return b.view(elements, b.result.dimensions)


def _row(b: Lowering, index: I, d: int) -> I | None:
    """The index of a gather or scatter along a dimension d as a vector, if it is the same along all others, as with
    index.unsqueeze(1).expand_as(x): whole rows are then read or written."""
    strides = b.fakes[2].stride()
    if index.shape.rank < 2 or any(k != d and strides[k] and n != 1 for k, n in enumerate(index.shape.dimensions)):
        return None
    for k in range(index.shape.rank):
        index = index if k == d else b.cut(index, k, 0, 1)
    return b.reshape(index, (index.shape.size,))


# -- writing


def _combined(b: Lowering, x: I, opcode: str | None) -> Computation:
    if opcode is None:
        return newest(b, x)
    kind = x.shape.element_type
    return reducer({"add": "or", "multiply": "and"}.get(opcode, opcode) if kind is PRED else opcode, kind)


@lowers("index_put", "_unsafe_index_put")
def index_put(b: Lowering, x: I, indices: Sequence[I | None], values: I, accumulate: bool = False) -> I:
    p = _Places(b, x, indices, "index_put", wraps=True)
    return _put(b, x, p, b.expand(b.cast(values, x.shape.element_type), p.result), "add" if accumulate else None)


def _put(b: Lowering, x: I, p: _Places, updates: I, opcode: str | None) -> I:
    """x with updates at positions."""
    return b.make(
        "scatter", x, p.vectors, updates, update_window_dims=p.offset, inserted_window_dims=p.dims,
        scatter_dims_to_operand_dims=p.dims, index_vector_dim=len(p.sizes), to_apply=_combined(b, x, opcode),
    )  # fmt: skip


def _put_along(
    b: Lowering, x: I, dim: int, index: I, source: I, opcode: str | None, what: str, wraps: bool = False
) -> I:
    """x with parts from a source, one for each index, in a dimension; or with a scalar there."""
    own = x.shape.dimensions
    x = b.view(x, own or (1,))
    d, count = axis(dim, x.shape.rank), index.shape.size
    sizes = [count if k == d else n for k, n in enumerate(x.shape.dimensions)]
    if not count:
        return b.view(x, own)
    p = _Places(b, x, [None] * d + [b.view(index, (count,))], what, wraps)
    source = b.cast(source, x.shape.element_type)
    parts = b.view(source, tuple(sizes)) if source.shape.rank else b.expand(source, tuple(sizes))
    return b.view(_put(b, x, p, parts, opcode), own)


@lowers("index_add")
def index_add(b: Lowering, x: I, dim: int, index: I, source: I, *, alpha: Operand = 1) -> I:
    source = b.cast(source, x.shape.element_type)
    if alpha != 1:
        source = b.multiply(source, alpha)
    return _put_along(b, x, dim, index, source, "add", "index_add")


@lowers("index_copy")
def index_copy(b: Lowering, x: I, dim: int, index: I, source: I) -> I:
    return _put_along(b, x, dim, index, source, None, "index_copy")


@lowers("index_fill.int_Scalar", "index_fill.int_Tensor")
def index_fill(b: Lowering, x: I, dim: int, index: I, value: Operand) -> I:
    filled = value if isinstance(value, Instruction) else b.scalar(value, x.shape.element_type)
    return _put_along(b, x, dim, index, filled, None, "index_fill", wraps=True)


@lowers("put")
def put(b: Lowering, x: I, index: I, source: I, accumulate: bool = False) -> I:
    """Writes to positions in the flattened array."""
    row, opcode = b.view(x, (x.shape.size,)), "add" if accumulate else None
    written = _put_along(b, row, 0, index, b.view(source, (source.shape.size,)), opcode, "put", wraps=True)
    return b.view(written, x.shape.dimensions)


def _scattered(b: Lowering, x: I, d: int, index: I, updates: I, opcode: str | None) -> I:
    """x with updates at positions along a dimension; the positions in the other dimensions are those of the updates."""
    dims, row = index.shape.dimensions, _row(b, index, d)
    if row is not None:
        return _put(b, x, _Places(b, x, [None] * d + [row], "scatter"), updates, opcode)
    coordinates = [
        places(b, index, x.shape.dimensions[d], "scatter") if k == d else b.iota(S64, dims, k) for k in range(len(dims))
    ]
    vectors = b.concatenate([b.reshape(c, (*dims, 1)) for c in coordinates], len(dims))
    every = tuple(range(len(dims)))
    return b.make(
        "scatter", x, vectors, updates, update_window_dims=(), inserted_window_dims=every,
        scatter_dims_to_operand_dims=every, index_vector_dim=len(dims), to_apply=_combined(b, x, opcode),
    )  # fmt: skip


def _scatter(b: Lowering, x: I, dim: int, index: I, source: Operand, opcode: str | None) -> I:
    own = x.shape.dimensions
    if not index.shape.size:
        return x
    if not x.shape.rank:
        x = b.reshape(x, (1,))
    if not index.shape.rank:
        index = b.reshape(index, (1,))
    d = axis(dim, x.shape.rank)
    updates = b.cast(source, x.shape.element_type)
    if updates.shape.rank or isinstance(source, Instruction):
        updates = b.view(updates, updates.shape.dimensions or (1,))
        for k, n in enumerate(index.shape.dimensions):
            updates = b.cut(updates, k, 0, n)
    else:
        updates = b.expand(updates, index.shape.dimensions)
    return b.view(_scattered(b, x, d, index, updates, opcode), own)


_REDUCTIONS = {"add": "add", "multiply": "multiply", "sum": "add", "prod": "multiply", "amax": "maximum",
               "amin": "minimum"}  # fmt: skip


@lowers("scatter.src", "scatter.value", "scatter.reduce", "scatter.value_reduce")
def scatter(b: Lowering, x: I, dim: int, index: I, source: Operand, *, reduce: str | None = None) -> I:
    return _scatter(b, x, dim, index, source, None if reduce is None else _REDUCTIONS[reduce])


@lowers("scatter_add")
def scatter_add(b: Lowering, x: I, dim: int, index: I, source: I) -> I:
    return _scatter(b, x, dim, index, source, "add")


@lowers("scatter_reduce.two")
def scatter_reduce(b: Lowering, x: I, dim: int, index: I, source: I, reduce: str, *, include_self: bool = True) -> I:
    if reduce == "mean":
        return _scatter_mean(b, x, dim, index, source, include_self)
    opcode = _REDUCTIONS[reduce]
    if not include_self:
        own = x.shape.element_type
        identity = {"add": 0, "multiply": 1, "maximum": lowest(own), "minimum": highest(own)}[opcode]
        x = _scatter(b, x, dim, index, identity, None)
    return _scatter(b, x, dim, index, source, opcode)


def _scatter_mean(b: Lowering, x: I, dim: int, index: I, source: I, include_self: bool) -> I:
    """The sum at each position divided by the number of elements there."""
    own = x.shape.element_type
    if not own.is_float:
        raise NotLowered("a mean of integers")
    if not include_self:
        x = _scatter(b, x, dim, index, 0, None)
    counts = b.full(1 if include_self else 0, x.shape)
    counts = _scatter(b, counts, dim, index, 1, "add")
    return b.divide(_scatter(b, x, dim, index, source, "add"), b.maximum(counts, 1))


@lowers("masked_scatter")
def masked_scatter(b: Lowering, x: I, mask: I, source: I) -> I:
    """The elements of the source, in order, at the positions where the mask is true."""
    dims, n = b.result.dimensions, b.result.size
    x, mask = b.expand(x, dims), b.expand(mask, dims)
    if not n or not source.shape.size:
        return x
    flags = b.reshape(b.cast(mask, S64), (n,))
    window = (WindowDimension(n, padding_low=n - 1),)
    counts = b.make("reduce-window", flags, b.scalar(0, S64), window=window, to_apply=reducer("add", S64))
    b.check(b.compare(counts, source.shape.size, direction="LE"), "masked_scatter: the source has too few elements")
    elements = b.make(
        "gather", b.reshape(source, (source.shape.size,)), b.maximum(b.subtract(counts, 1), 0), offset_dims=(),
        collapsed_slice_dims=(0,), start_index_map=(0,), index_vector_dim=1, slice_sizes=(1,),
    )  # fmt: skip
    return b.select(mask, b.reshape(elements, dims), x)
