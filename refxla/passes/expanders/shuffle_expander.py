"""shuffle in mode rotate: along each dimension, the two parts on either side of the shift exchange places."""

from __future__ import annotations

from refxla_spec.module import Instruction
from refxla_spec.ops.shuffle import normal_shifts

from ...ir.builder import Build


def _expand(i: Instruction) -> Instruction:
    b, x = Build(i.name), i.operands[0]
    sizes = x.shape.dimensions
    for d, shift in zip(i.dimensions, normal_shifts(i, sizes), strict=True):
        if shift:
            start = tuple(shift if k == d else 0 for k in range(len(sizes)))
            limit = tuple(shift if k == d else n for k, n in enumerate(sizes))
            parts = b.slice(x, start, sizes), b.slice(x, (0,) * len(sizes), limit)
            x = b.make("concatenate", *parts, dimensions=(d,))
    return x


EXPANSIONS = {"shuffle": _expand}
