"""The operands of another device: for each pair (source, target) the target gets what the source brings.

    results[n] = operands[n] of the source in the pair whose target is this device; zeros if there is none

The pairs have numbers of replicas, within each partition; with a channel_id numbers of partitions, within each replica.
With several operands the result is a tuple.

With slice_sizes there are four operands: input, output, and for each of both the start indices of parts, as a tuple of
s32[] scalars, one for each dimension; or for several parts a tuple of such tuples, slice_sizes then has as many lists.
The result is output, into which for each part the source's slice of input, at the source's start indices for input,
is written at the source's start indices for output. Start indices are moved so that the parts lie inside, as those of
dynamic-slice. A device that is no target keeps its output.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..attributes import INT_LISTS, Attribute
from ..collectives import CHANNEL_ID, check_arrays, check_inside, one_or_tuple
from ..devices import Device
from ..groups import Count
from ..module import Instruction
from ..operation import Example, require
from ..types import S32, Array, Shape, Value

INPUTS = {"*operands": "arrays; with slice_sizes: input, output, and the start indices of the parts in each"}
ATTRIBUTES = {
    "channel_id": CHANNEL_ID,
    "source_target_pairs": Attribute(INT_LISTS, (), "who brings, and who gets it"),
    "slice_sizes": Attribute(INT_LISTS, (), "the sizes of each part of input that is written into output"),
}
CONSTRAINTS = {
    "C1": "the operands are arrays, at least one; with slice_sizes two arrays of one element type and two tuples of "
    "start indices, s32[] for each dimension, or tuples of such tuples, one for each list of slice_sizes",
    "C2": "source_target_pairs are pairs in which no source and no target is twice",
    "C3": "each list of slice_sizes has a size for each dimension, which fits into input and output",
    "C4": "the result is of the operand's shape, for several operands a tuple of their shapes; with slice_sizes of the "
    "shape of output",
    "C5": "source_target_pairs have numbers of replicas (with a channel_id: of partitions) that the module's header "
    "counts, where it counts more than one",
}


def infer(instruction: Instruction, *operands: Shape) -> Shape:
    return one_or_tuple(permuted(instruction, operands))


def permuted(instruction: Instruction, operands: tuple[Shape, ...]) -> tuple[Shape, ...]:
    """The shapes of what arrives."""
    sizes = instruction.slice_sizes
    check_arrays(operands[:2] if sizes else operands, "C1")
    pairs = instruction.source_target_pairs
    fits = all(len(p) == 2 and min(p) >= 0 for p in pairs)
    fits = fits and all(len({p[k] for p in pairs}) == len(pairs) for k in (0, 1))
    require(fits, "C2", f"source_target_pairs is {pairs}")
    if not sizes:
        return operands
    text = f"the operands are ({', '.join(map(str, operands))})"
    fits = len(operands) == 4 and operands[0].element_type is operands[1].element_type
    require(fits and operands[0].rank == operands[1].rank, "C1", text)
    for starts in operands[2:]:
        parts = starts.elements if starts.elements and starts.elements[0].is_tuple else (starts,)
        fits = len(parts) == len(sizes) and all(len(p.elements) == operands[0].rank for p in parts)
        fits = fits and all(e.is_scalar and e.element_type is S32 for p in parts for e in p.elements)
        require(fits, "C1", text)
    for part in sizes:
        limits = [min(a, b) for a, b in zip(operands[0].dimensions, operands[1].dimensions, strict=True)]
        fits = len(part) == len(limits) and all(0 <= n <= m for n, m in zip(part, limits, strict=True))
        require(fits, "C3", f"slice_sizes is {sizes}, {text}")
    return (operands[1],)


def check_devices(instruction: Instruction, replicas: Count, partitions: Count) -> None:
    check_pairs(instruction, replicas, partitions, "C5")


def check_pairs(instruction: Instruction, replicas: Count, partitions: Count, label: str) -> None:
    """C5."""
    numbers = (n for pair in instruction.source_target_pairs for n in pair)
    check_inside(instruction, numbers, replicas, partitions, label)


def evaluate(instruction: Instruction, *operands: Value, device: Device) -> Value:
    return one_or_tuple(permute(instruction, operands, device))


def permute(instruction: Instruction, operands: tuple[Value, ...], device: Device) -> tuple[Array, ...]:
    """What arrives at this device."""
    mine = [p for p in device.pairs(instruction, instruction.source_target_pairs) if device.number in p]
    arrived = None
    for source, target in sorted(mine):  # one order for all, so that no two wait for each other
        if source == target:
            arrived = operands
            continue
        met = device.meet(instruction, (source, target), operands)
        if device.number == target:
            arrived = met[0]
    if not instruction.slice_sizes:
        return arrived or tuple(np.zeros_like(o) for o in operands)
    output = operands[1].copy()
    if arrived is not None:
        source, _, from_, to = arrived
        for k, sizes in enumerate(instruction.slice_sizes):
            output[_part(to, k, sizes, output)] = source[_part(from_, k, sizes, source)]
    return (output,)


def _part(starts: Any, k: int, sizes: tuple[int, ...], array: Array) -> tuple[slice, ...]:
    """Where in an array part k lies."""
    mine = starts[k] if starts and isinstance(starts[0], tuple) else starts
    moved = (min(max(int(s), 0), n - size) for s, size, n in zip(mine, sizes, array.shape, strict=True))
    return tuple(slice(s, s + size) for s, size in zip(moved, sizes, strict=True))


EXAMPLES = (
    Example(
        """HloModule one_further, replica_count=3
        ENTRY main { x = s32[] parameter(0)
                     ROOT r = s32[] collective-permute(x), source_target_pairs={{0,1},{1,2}} }""",
        ("s32[] 10", "s32[] 11", "s32[] 12"),
        ("s32[] 0", "s32[] 10", "s32[] 11"),
        "nobody sends to the first one",
    ),
    Example(
        """HloModule exchanged, num_partitions=2
        ENTRY main { x = s32[] parameter(0)
                     y = f32[1] parameter(1)
                     ROOT r = (s32[], f32[1]) collective-permute(x, y), channel_id=1,
                       source_target_pairs={{0,1},{1,0}} }""",
        ("s32[] 1", "f32[1] {1.5}", "s32[] 2", "f32[1] {2.5}"),
        ("s32[] 2", "f32[1] {2.5}", "s32[] 1", "f32[1] {1.5}"),
    ),
    Example(
        """HloModule in_place, replica_count=2
        ENTRY main { x = s32[3] parameter(0)
                     y = s32[4] parameter(1)
                     one = s32[] constant(1)
                     two = s32[] constant(2)
                     i = (s32[]) tuple(one)
                     o = (s32[]) tuple(two)
                     ROOT r = s32[4] collective-permute(x, y, i, o), source_target_pairs={{0,1}},
                       slice_sizes={{2}} }""",
        ("s32[3] {1,2,3}", "s32[4] {0,0,0,0}", "s32[3] {4,5,6}", "s32[4] {7,7,7,7}"),
        ("s32[4] {0,0,0,0}", "s32[4] {7,7,2,3}"),
    ),
)
_BROKEN = """t = token[] after-all()
             x = f32[2] parameter(0)
             zero = s32[] constant(0)
             i = (s32[]) tuple(zero)
             ROOT r = """
COUNTEREXAMPLES = {
    "C1": _BROKEN + "token[] collective-permute(t), source_target_pairs={{0,1}}",
    "C2": _BROKEN + "f32[2] collective-permute(x), source_target_pairs={{0,1},{2,1}}",
    "C3": _BROKEN + "f32[2] collective-permute(x, x, i, i), source_target_pairs={{0,1}}, slice_sizes={{3}}",
    "C4": _BROKEN + "f32[4] collective-permute(x), source_target_pairs={{0,1}}",
    "C5": f"HloModule broken, replica_count=2\nENTRY main {{ {_BROKEN}"
    "f32[2] collective-permute(x), source_target_pairs={{0,1},{1,2}} }",
}
