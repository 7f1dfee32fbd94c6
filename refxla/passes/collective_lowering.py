"""Lowers collectives and device identifiers for a program that runs on one device: its group is the device itself, and
its replica and partition numbers are 0."""

from __future__ import annotations

from collections.abc import Callable

from refxla_spec.module import Instruction
from refxla_spec.types import PRED, S32, U32

from ..ir.builder import Build


def contexts(i: Instruction, first: int) -> list[Instruction]:
    """Zeros for an implementation's own elements of the tuple of a start operation, those after the `first` ones."""
    b = Build(f"{i.name}.context")
    return [b.scalar(0, s.element_type) for s in i.shape.elements[first:]]


def _first(i: Instruction) -> Instruction:
    return Build(i.name).scalar(0, U32)


def _own(i: Instruction) -> Instruction:
    """In a group of one, each device receives what it contributes."""
    return Build(i.name).tuple(*_data(i)) if i.shape.is_tuple else i.operands[0]


def _data(i: Instruction) -> list[Instruction]:
    """The operands without a root."""
    return i.operands[:-1] if i.attributes.get("has_dynamic_root") else i.operands


def _part(n: int) -> Callable[[Instruction], Instruction]:
    def expand(i: Instruction) -> Instruction:
        return Build(i.name).make("get-tuple-element", i.operands[0], index=n)

    return expand


def _all_gather_start(i: Instruction) -> Instruction:
    b = Build(i.name)
    own = b.make("tuple", *i.operands) if len(i.operands) > 1 else i.operands[0]
    return b.tuple(own, own)


def _copy_start(i: Instruction) -> Instruction:
    return Build(i.name).tuple(i.operands[0], i.operands[0], *contexts(i, 2))


def _zeros(b: Build, x: Instruction) -> Instruction:
    """Zeros with the sizes of x, which may be dynamic."""
    zeros = b.full(0, x.shape) if x.shape.element_type is not PRED else b.full(False, x.shape)
    return b.select(b.full(True, x.shape.with_element_type(PRED)), zeros, x) if x.shape.is_dynamic else zeros


def _permuted(i: Instruction) -> Instruction:
    """The operands if the device sends to itself; otherwise zeros, or with slice_sizes the unchanged output."""
    b = Build(i.name)
    arrives = bool(i.source_target_pairs)
    if not i.slice_sizes:
        parts = i.operands if arrives else [_zeros(b, o) for o in i.operands]
        return parts[0] if len(parts) == 1 else b.tuple(*parts)
    source, output, from_, to = i.operands
    for k, sizes in enumerate(i.slice_sizes if arrives else ()):
        starts = [_starts(b, t, k, len(sizes)) for t in (from_, to)]
        block = b.make("dynamic-slice", source, *starts[0], dynamic_slice_sizes=sizes)
        output = b.make("dynamic-update-slice", output, block, *starts[1])
    return output


def _starts(b: Build, indices: Instruction, k: int, rank: int) -> list[Instruction]:
    """The start indices of part k, from their tuple."""
    if indices.shape.elements and indices.shape.elements[0].is_tuple:
        indices = b.make("get-tuple-element", indices, index=k)
    return [b.make("get-tuple-element", indices, index=d) for d in range(rank)]


def _permute_start(i: Instruction) -> Instruction:
    b = Build(i.name)
    sent = i.operands[:1] if i.slice_sizes else i.operands
    first = sent[0] if len(sent) == 1 else b.make("tuple", *sent)
    return b.tuple(first, _permuted(i), *contexts(i, 2))


def _broadcast(i: Instruction) -> Instruction:
    groups = i.replica_groups.groups
    if not groups or any(0 in g for g in groups):
        return _own(i)
    b = Build(i.name)
    zeros = [_zeros(b, o) for o in _data(i)]
    return b.tuple(*zeros) if i.shape.is_tuple else zeros[0]


def _ragged(i: Instruction) -> Instruction:
    """For each offset: as many rows of the output from there on as are sent are rows of the operand."""
    operand, result, *offsets = i.operands
    b = Build(i.name)
    rows, rest = result.shape.dimensions[0], operand.shape.dimensions[1:]
    row = b.iota(S32, (rows,), 0)
    for n in range(offsets[0].shape.dimensions[0]):
        scalars = (b.reshape(b.slice(o, (n,), (n + 1,)), ()) for o in offsets[:3])
        start, size, at = (b.spread(b.convert(t, S32), row.shape, ()) for t in scalars)
        behind = b.subtract(row, at)
        inside = b.and_(b.compare(behind, 0, direction="GE"), b.compare(behind, size, direction="LT"))
        if not operand.shape.dimensions[0]:
            continue
        moved = b.make(
            "gather",
            operand,
            b.add(behind, start),
            offset_dims=tuple(range(1, 1 + len(rest))),
            collapsed_slice_dims=(0,),
            start_index_map=(0,),
            index_vector_dim=1,
            slice_sizes=(1, *rest),
        )
        result = b.select(b.spread(inside, result.shape, (0,)), moved, result)
    return result


_OWN = ("all-reduce", "all-reduce-start", "all-gather", "reduce-scatter", "all-to-all", "collective-reduce")
EXPANSIONS = {
    **{name: _first for name in ("partition-id", "replica-id")},
    "domain": lambda i: i.operands[0],
    **{name: _own for name in _OWN},
    "all-reduce-done": lambda i: i.operands[0],
    "all-gather-start": _all_gather_start,
    "all-gather-done": _part(1),
    "collective-permute": _permuted,
    "collective-permute-start": _permute_start,
    "collective-permute-done": _part(1),
    "collective-broadcast": _broadcast,
    "ragged-all-to-all": _ragged,
    "copy-start": _copy_start,
    "copy-done": _part(0),
}
