"""The sizes of the arrays in the cases: for each operation, the largest array of each rank."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from math import prod

from refxla_spec.elementwise import is_elementwise
from refxla_spec.module import Instruction
from refxla_spec.types import leaves

from . import Case

MOST = 6  # ranks from here on are counted together


def largest(cases: Iterable[Case]) -> dict[str, dict[int, int]]:
    """By operation and rank, the number of elements of the operation's largest result in its cases."""
    sizes: dict[str, dict[int, int]] = defaultdict(dict)
    for case in cases:
        if case.is_negative:
            continue
        for instruction in case.module.instructions():
            if instruction.opcode == case.opcode:
                _count(instruction, sizes[case.opcode])
    return dict(sorted(sizes.items()))


def _count(instruction: Instruction, sizes: dict[int, int]) -> None:
    for leaf in leaves(instruction.shape):
        if leaf.is_array:
            rank = min(leaf.rank, MOST)
            sizes[rank] = max(sizes.get(rank, 0), prod(leaf.dimensions))


def rows(cases: Iterable[Case], least: int = 1000) -> list[tuple[str, ...]]:
    """A row for each operation that is not elementwise and has arrays of that many elements: its name, then the largest
    array of rank one, two, ..., of MOST and more."""
    return [
        (opcode, *(f"{sizes[rank]:,}" if sizes.get(rank) else "" for rank in range(1, MOST + 1)))
        for opcode, sizes in largest(cases).items()
        if not is_elementwise(opcode) and max(sizes.values(), default=0) >= least
    ]
