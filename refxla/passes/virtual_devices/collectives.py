"""What each collective computes for each device, from the operands that each device has."""

from __future__ import annotations

from collections.abc import Callable

from refxla_spec.custom_calls import TARGETS as MEANINGS
from refxla_spec.custom_calls import identity
from refxla_spec.errors import UnsupportedError
from refxla_spec.groups import device_pairs, member_groups
from refxla_spec.module import Computation, Instruction
from refxla_spec.types import F32
from refxla_spec.vectorize import COMMUTATIVE

from ...ir.builder import Build
from .one_device_builder import OneDeviceBuilder

Data = list[list[Instruction]]  # of each device, its operands


def _groups(builder: OneDeviceBuilder, i: Instruction) -> dict[int, tuple[int, ...]]:
    """The group of each device."""
    return {d: g for g in member_groups(i, 1, builder.count) for d in g}


def _one(b: Build, parts: list[Instruction]) -> Instruction:
    return parts[0] if len(parts) == 1 else b.tuple(*parts)


def _combined(b: Build, reducer: Computation, values: list[Instruction]) -> Instruction:
    """Values of several devices combined element by element; narrow sums are computed in f32 and rounded once."""
    root = _unmarked(reducer.root)
    alone = set(map(_unmarked, root.operands)) == set(reducer.parameters)
    return combined_in_order(b, root.opcode if alone else None, values, reducer)


def _unmarked(i: Instruction) -> Instruction:
    """The operand under sharding annotations and the like."""
    while i.opcode == "custom-call" and MEANINGS.get(i.custom_call_target) is identity:
        i = i.operands[0]
    return i


def combined_in_order(
    b: Build, opcode: str | None, values: list[Instruction], reducer: Computation | None = None
) -> Instruction:
    """Values combined in order, by an operation or, where no single one does it, by a computation."""
    element_type = values[0].shape.element_type
    wide = len(values) > 1 and opcode in ("add", "multiply") and element_type.is_float and element_type.bits < 32
    values = [b.convert(v, F32) for v in values] if wide else values
    result = values[0]
    for v in values[1:]:
        if opcode in COMMUTATIVE:
            result = b.make(opcode, result, v)
        else:
            result = b.make("map", result, v, dimensions=tuple(range(v.shape.rank)), to_apply=reducer)
    return b.convert(result, element_type)


def _all_reduce(builder: OneDeviceBuilder, i: Instruction, data: Data) -> list[Instruction]:
    results: dict[tuple[int, ...], Instruction] = {}
    groups, reducer = _groups(builder, i), builder.own(i.to_apply)
    for group in groups.values():
        if group not in results:
            b = Build(i.name)
            results[group] = _one(b, [_combined(b, reducer, [data[d][n] for d in group]) for n in range(len(data[0]))])
    return [results[groups[d]] for d in range(builder.count)]


def _all_gather(builder: OneDeviceBuilder, i: Instruction, data: Data) -> list[Instruction]:
    results: dict[tuple[int, ...], Instruction] = {}
    groups = _groups(builder, i)
    for group in groups.values():
        if group not in results:
            b = Build(i.name)
            rows = [[data[d][n] for d in group] for n in range(len(data[0]))]
            results[group] = _one(b, [b.make("concatenate", *row, dimensions=i.dimensions) for row in rows])
    return [results[groups[d]] for d in range(builder.count)]


def _cut(b: Build, x: Instruction, dimension: int, parts: int, k: int) -> Instruction:
    """Part k of so many equal ones along a dimension."""
    size = x.shape.dimensions[dimension] // parts
    start = tuple(k * size if d == dimension else 0 for d in range(x.shape.rank))
    limit = tuple((k + 1) * size if d == dimension else n for d, n in enumerate(x.shape.dimensions))
    return b.slice(x, start, limit)


def _reduce_scatter(builder: OneDeviceBuilder, i: Instruction, data: Data) -> list[Instruction]:
    groups, results = _groups(builder, i), []
    reducer = builder.own(i.to_apply)
    for d in range(builder.count):
        b, group = Build(i.name), groups[d]
        k = group.index(d)
        parts = [[_cut(b, data[m][n], i.dimensions[0], len(group), k) for m in group] for n in range(len(data[0]))]
        results.append(_one(b, [_combined(b, reducer, values) for values in parts]))
    return results


def _all_to_all(builder: OneDeviceBuilder, i: Instruction, data: Data) -> list[Instruction]:
    groups, results = _groups(builder, i), []
    for d in range(builder.count):
        b, group = Build(i.name), groups[d]
        k = group.index(d)
        if not i.dimensions:
            results.append(b.tuple(*(data[m][k] for m in group)))
            continue
        (at,) = i.dimensions
        results.append(
            b.make("concatenate", *(_cut(b, data[m][0], at, len(group), k) for m in group), dimensions=(at,))
        )
    return results


def _permute(builder: OneDeviceBuilder, i: Instruction, data: Data) -> list[Instruction]:
    if i.slice_sizes:
        raise UnsupportedError(f"{i.name}: a permutation of slices has no equivalent on one device")
    source = {t: s for s, t in device_pairs(i, i.source_target_pairs, 1, builder.count)}
    results = []
    for d in range(builder.count):
        b = Build(i.name)
        zeros = (b.full(o.shape.element_type.array_dtype.type(0), o.shape) for o in data[d])
        results.append(_one(b, data[source[d]] if d in source else list(zeros)))
    return results


def _refused(builder: OneDeviceBuilder, i: Instruction, data: Data) -> list[Instruction]:
    raise UnsupportedError(f"{i.name}: {i.opcode} has no equivalent on one device that stands for several")


COLLECTIVES: dict[str, Callable[[OneDeviceBuilder, Instruction, Data], list[Instruction]]] = {
    "all-reduce": _all_reduce,
    "all-gather": _all_gather,
    "reduce-scatter": _reduce_scatter,
    "all-to-all": _all_to_all,
    "collective-permute": _permute,
    **dict.fromkeys(
        "all-reduce-start all-gather-start collective-permute-start collective-broadcast ragged-all-to-all".split(),
        _refused,
    ),
}
