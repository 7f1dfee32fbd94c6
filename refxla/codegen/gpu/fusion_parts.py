"""Fusions of very many arrays as several, each with its own kernels.

OpenCL promises 1024 bytes for a kernel's arguments, and compilers keep the pointers of an item in scalar registers, of
which a GPU has about a hundred. The gradients of many equal layers can be siblings in one fusion, with hundreds of
arrays.
"""

from __future__ import annotations

from collections.abc import Iterator

from refxla_spec.module import Instruction

from ...ir.plan import Fusion
from ..kernel_arguments import inputs_of, members_of

MOST_ARRAYS = 60  # of a kernel: each has a pointer and an offset, of 8 bytes each
_ALIASES = ("bitcast", "copy", "get-tuple-element", "reshape")  # that may be in the memory of their operand


def parts(fusion: Fusion, scratch_per_output: int = 0) -> list[Fusion]:
    """The fusion in parts of as many outputs as have room for their arrays; itself if it has room for all.

    An output may be in the memory of an input of its size on which it depends, so outputs that read the same such input
    are in one part.
    """
    if len(fusion.inputs) + (1 + scratch_per_output) * len(fusion.outputs) <= MOST_ARRAYS:
        return [fusion]
    reads = {o: set(inputs_of(fusion, [o])) for o in fusion.outputs}
    found: list[list[Instruction]] = [[]]
    arrays: set[Instruction] = set()
    for outputs in _groups(fusion, reads):
        more = arrays.union(outputs, *(reads[o] for o in outputs))
        if found[-1] and len(more) + scratch_per_output * len(found[-1] + outputs) > MOST_ARRAYS:
            found.append([])
            more = set(outputs).union(*(reads[o] for o in outputs))
        found[-1] += outputs
        arrays = more
    if len(found) == 1:
        return [fusion]
    names = [f"{fusion.name}.part{n}" for n in range(len(found) - 1)] + [fusion.name]
    return [_part(fusion, name, outputs) for name, outputs in zip(names, found, strict=True)]


def _groups(fusion: Fusion, reads: dict[Instruction, set[Instruction]]) -> Iterator[list[Instruction]]:
    """The outputs in groups of those that read the same memory of an output's size."""
    sizes = {o.shape.bytes for o in fusion.outputs}
    groups: list[tuple[set[Instruction], list[Instruction]]] = []  # memory, outputs
    for o in fusion.outputs:
        memory = {_base(i) for i in reads[o] if i.shape.bytes in sizes}
        joined = [g for g in groups if g[0] & memory]
        outputs = [x for g in joined for x in g[1]] + [o]
        groups = [g for g in groups if g not in joined] + [(memory.union(*(g[0] for g in joined)), outputs)]
    for _, outputs in groups:
        yield outputs


def _base(i: Instruction) -> Instruction:
    while i.opcode in _ALIASES:
        i = i.operands[0]
    return i


def _part(fusion: Fusion, name: str, outputs: list[Instruction]) -> Fusion:
    members = members_of(fusion, outputs)
    inputs = tuple(i for i in fusion.inputs if any(i in m.operands for m in members))
    hero = next((m for m in members if fusion.hero and m.opcode == fusion.hero.opcode), None)
    return Fusion(
        name, fusion.kind, members, inputs, tuple(outputs), hero, fusion.loop_invariant, in_loop=fusion.in_loop
    )
