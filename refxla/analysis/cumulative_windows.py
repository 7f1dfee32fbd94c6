"""Which cumulative windows are computed block by block. The shape alone decides, so that results have the same bits on
every device."""

from __future__ import annotations

from math import prod

from refxla_spec.elementwise import is_elementwise
from refxla_spec.module import Computation, Instruction

from .index_maps import cumulative

LONG_DIMENSION = 2048  # a dimension from here on is cut into blocks,
ROWS = 8  # if it is the innermost one of fewer rows: as many go side by side in vector registers


def goes_by_blocks(window: Instruction) -> bool:
    """Whether a reduce-window is cumulative along a dimension that is cut into blocks."""
    direction, sizes = cumulative(window), window.operands[0].shape.dimensions
    if direction is None:
        return False
    length, before, after = sizes[direction[0]], sizes[: direction[0]], sizes[direction[0] + 1 :]
    return length >= LONG_DIMENSION and 0 < prod(before) < ROWS and prod(after) == 1


def combines_arrays(reducer: Computation) -> bool:
    """Whether a reducer of scalars can be applied to each element of arrays, and its elements have the types of what is
    accumulated."""
    count = len(reducer.parameters) // 2
    first, second = ([p.shape for p in part] for part in (reducer.parameters[:count], reducer.parameters[count:]))
    scalars = all(i.shape.is_scalar and (is_elementwise(i.opcode) or i.opcode in ("parameter", "constant"))
                  for i in reducer.instructions if i is not reducer.root or i.opcode != "tuple")  # fmt: skip
    return scalars and first == second
