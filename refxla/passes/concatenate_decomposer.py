"""Concatenates of hundreds of arrays become trees of concatenates of fewer ones.

    concatenate(p1, ..., p2000)  ->  concatenate(concatenate(p1, ..., p64), concatenate(p65, ..., p128), ...)

A kernel has a loop or a condition for each operand, and OpenCL compilers take a time quadratic in their number: 20
seconds for a stack of 2,000 scalars, as one kernel. The kernels of a tree are mostly equal, and so are compiled once.
The scheduler does not fuse them with each other (_core/fusion.pyx: MOST_PIECES).
"""

from __future__ import annotations

from collections.abc import Sequence

from refxla_spec.module import Instruction, Module

from ..analysis.index_maps import SOURCES
from ..ir.builder import Build
from .dce import rewrite

MOST = 64  # operands of a concatenate
MOST_OF_LARGE = 512  # of one whose result does not fit the caches: writing it twice takes longer than the program saves
LARGE = 1 << 20  # bytes


def run(module: Module) -> int:
    """Rewrites all computations; returns the number of concatenates rewritten."""
    return sum(rewrite(c, _decomposed) for c in module.computations)


def _decomposed(i: Instruction) -> Instruction | None:
    most = MOST if i.shape.bytes <= LARGE else MOST_OF_LARGE
    if i.opcode != "concatenate" or len(i.operands) <= most or _is_of_one_array(i):
        return None
    b, level = Build(i.name), list(i.operands)
    while len(level) > most:
        level = [_joined(b, level[n : n + most], i.dimensions) for n in range(0, len(level), most)]
    return _joined(b, level, i.dimensions)


def _joined(b: Build, parts: Sequence[Instruction], dimensions: tuple[int, ...]) -> Instruction:
    return parts[0] if len(parts) == 1 else b.make("concatenate", *parts, dimensions=dimensions)


def _is_of_one_array(i: Instruction) -> bool:
    """Whether the operands are parts of one array, of which the kernel computes the place without conditions
    (index_maps.window)."""
    return len({_moved_from(o) for o in i.operands}) == 1


def _moved_from(i: Instruction) -> Instruction:
    while i.opcode in SOURCES:
        i = i.operands[0]
    return i
