"""Data movement: broadcast, reshape, transpose, slice, pad, concatenate, gather and the like."""

from __future__ import annotations

from math import prod

import numpy as np
from refxla_spec.module import PaddingDimension, SliceDimension
from refxla_spec.types import S32, Shape

from ..program_builder import ProgramBuilder, Skip, rule


@rule(2)
def broadcast(f: ProgramBuilder) -> None:
    x = f.any()
    if x.shape.rank == 4:
        raise Skip("rank enough")
    at, extra = f.r.randint(0, x.shape.rank), f.size()
    dims = (*x.shape.dimensions[:at], extra, *x.shape.dimensions[at:])
    places = tuple(d + (d >= at) for d in range(x.shape.rank))
    f.put("broadcast", x, shape=Shape(x.shape.element_type, dims), dimensions=places)


@rule(2)
def reshape(f: ProgramBuilder) -> None:
    x = f.any()
    size = x.shape.size
    dims: list[int] = []
    while len(dims) < 3 and (size > 1 or f.flip(0.2)):
        dims.append(f.r.choice([n for n in range(1, size + 1) if size % n == 0] or [1]))
        size //= dims[-1]
    f.put("reshape", x, shape=Shape(x.shape.element_type, (*dims, size)))


@rule(2)
def transpose(f: ProgramBuilder) -> None:
    """Sometimes of a cube, which is equally large in any order of its dimensions."""
    n = f.r.choice((2, 3))
    if f.flip(0.15) and not f.scalar:
        x = f.of(f.type(), (n,) * f.r.choice((3, 3, 4)))
    else:
        x = f.any(least=2 if f.flip(0.8) else 0)
    order = list(range(x.shape.rank))
    f.r.shuffle(order)
    f.put("transpose", x, dimensions=tuple(order))


@rule(2)
def slice_(f: ProgramBuilder) -> None:
    x = f.any()
    parts = []
    for n in x.shape.dimensions:
        start = f.r.randint(0, max(0, n - 1))
        parts.append(SliceDimension(start, f.r.randint(start, n), f.r.choice((1, 1, 2, 3))))
    f.put("slice", x, slice=tuple(parts))


@rule(1)
def reverse(f: ProgramBuilder) -> None:
    x = f.any(least=1)
    f.put("reverse", x, dimensions=f.some(range(x.shape.rank)))


@rule(2.5)
def pad(f: ProgramBuilder) -> None:
    x = f.any(least=1)
    parts = [PaddingDimension(f.r.randint(-2, 2), f.r.randint(-2, 2), f.r.choice((0, 0, 1, 2))) for _ in
             x.shape.dimensions]  # fmt: skip
    f.put("pad", x, f.of(x.shape.element_type, ()), padding=tuple(parts))


@rule(2)
def concatenate(f: ProgramBuilder) -> None:
    x = f.any(least=1)
    axis = f.r.randrange(x.shape.rank)
    dims = x.shape.dimensions
    parts = [x]
    for _ in range(f.r.choice((0, 1, 1, 2))):
        parts.append(f.of(x.shape.element_type, (*dims[:axis], f.size(), *dims[axis + 1 :])))
    if f.flip():
        parts.append(x)
    f.r.shuffle(parts)
    f.put("concatenate", *parts, dimensions=(axis,))


@rule(2)
def dynamic_slice(f: ProgramBuilder) -> None:
    x = f.any()
    start = f.index()
    starts = [start if f.flip(0.3) else f.of(start.shape.element_type, ()) for _ in x.shape.dimensions]
    f.put("dynamic-slice", x, *starts, dynamic_slice_sizes=tuple(f.r.randint(0, n) for n in x.shape.dimensions))


@rule(2)
def dynamic_update_slice(f: ProgramBuilder) -> None:
    x = f.any()
    for _ in range(f.r.choice((1, 1, 2))):
        start = f.index()
        update = f.of(x.shape.element_type, tuple(f.r.randint(0, n) for n in x.shape.dimensions))
        starts = [start if f.flip(0.3) else f.of(start.shape.element_type, ()) for _ in x.shape.dimensions]
        x = f.put("dynamic-update-slice", x, update, *starts)


@rule(2.5)
def gather(f: ProgramBuilder) -> None:
    """Rows or windows; the index vectors in any dimension; some dimensions collapsed."""
    x = f.any(least=1)
    dims, rank = x.shape.dimensions, x.shape.rank
    indexed = f.some(range(rank)) or (f.r.randrange(rank),)
    mapped = list(indexed)
    f.r.shuffle(mapped)
    collapsed = tuple(d for d in indexed if f.flip(0.7))
    sizes = tuple(
        min(1, n) if d in collapsed else f.r.randint(0 if not n or f.flip(0.1) else 1, n) for d, n in enumerate(dims)
    )
    batch = tuple(f.r.choice((1, 2, 3, 5)) for _ in range(f.r.choice((0, 1, 1, 2))))
    at = f.r.randint(0, len(batch))
    where = (*batch[:at], len(mapped), *batch[at:])
    if len(mapped) == 1 and f.flip(0.3):
        at, where = len(batch), batch
    indices = f.indices(where, max(dims))
    windows = rank - len(collapsed)
    offsets = tuple(sorted(f.r.sample(range(len(batch) + windows), windows)))
    f.put(
        "gather", x, indices, offset_dims=offsets, collapsed_slice_dims=collapsed, start_index_map=tuple(mapped),
        index_vector_dim=at, slice_sizes=sizes,
    )  # fmt: skip


@rule(2)
def scatter(f: ProgramBuilder) -> None:
    """Windows added to, multiplied with, or (a single one) put into a copy of the operand."""
    x = f.any("signed", "unsigned", "float", least=1)
    dims, rank = x.shape.dimensions, x.shape.rank
    indexed = f.some(range(rank)) or (f.r.randrange(rank),)
    inserted = tuple(d for d in indexed if f.flip(0.7))
    window = tuple(f.r.randint(min(1, n), n) for d, n in enumerate(dims) if d not in inserted)
    opcode = f.r.choice(("add", "add", "maximum", "minimum", "multiply"))
    batch = tuple(f.r.choice((1, 2, 3, 5)) for _ in range(f.r.choice((0, 1, 1))))
    indices = f.indices((*batch, len(indexed)), max(dims))
    places = tuple(sorted(f.r.sample(range(len(batch) + len(window)), len(window))))
    rest, shape = iter(batch), []
    sizes = iter(window)
    for d in range(len(batch) + len(window)):
        shape.append(next(sizes) if d in places else next(rest))
    updates = f.of(x.shape.element_type, tuple(shape))
    combine = f.program.reducer(opcode, x.shape.element_type, f.flip())
    f.put(
        "scatter", x, indices, updates, update_window_dims=places, inserted_window_dims=inserted,
        scatter_dims_to_operand_dims=indexed, index_vector_dim=len(batch), to_apply=combine,
    )  # fmt: skip


@rule(1)
def iota(f: ProgramBuilder) -> None:
    dims = f.dims() or (3,)
    f.put("iota", shape=Shape(f.type("signed", "unsigned", "float"), dims), iota_dimension=f.r.randrange(len(dims)))


@rule(0.5)
def iota_indices(f: ProgramBuilder) -> None:
    """A gather by an iota, which simplifiers recognise as a slice."""
    x = f.any(least=1)
    n = x.shape.dimensions[0]
    count = f.put("iota", shape=Shape(S32, (n, 1)), iota_dimension=0)
    if f.flip():
        count = f.put("subtract", f.full(count.shape, f.number(S32, n - 1)), count)
    f.put(
        "gather", x, count, offset_dims=tuple(range(1, x.shape.rank)), collapsed_slice_dims=(0,),
        start_index_map=(0,), index_vector_dim=1, slice_sizes=(min(1, n), *x.shape.dimensions[1:]),
    )  # fmt: skip


@rule(0.6)
def sizes(f: ProgramBuilder) -> None:
    x = f.any(least=1)
    f.put("get-dimension-size", x, dimensions=(f.r.randrange(x.shape.rank),))


@rule(0.7)
def large_constant(f: ProgramBuilder) -> None:
    """A constant with more elements than those that are written into a kernel."""
    size = f.r.choice((33, 100, 255))
    dims = (size,) if f.flip() else (3, size // 3)
    t = f.type()
    drawn = np.arange(prod(dims)).reshape(dims) % 11
    f.constant(drawn.astype(t.dtype) if not t.is_complex else drawn.astype(t.dtype))
