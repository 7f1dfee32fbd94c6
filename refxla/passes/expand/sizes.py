"""get-dimension-size and set-dimension-size where sizes are known: a constant, and the operand as it is."""

from __future__ import annotations

import numpy as np
from refxla_spec.errors import UnsupportedError
from refxla_spec.module import Instruction
from refxla_spec.types import S32

from ...build import Build


def _get(i: Instruction) -> Instruction:
    shape = i.operands[0].shape
    if shape.is_dynamic:
        raise UnsupportedError(f"{i.name}: {shape} has a size known at run time only; give the program static shapes")
    return Build(i.name).scalar(shape.dimensions[i.dimensions[0]], S32)


def _set(i: Instruction) -> Instruction:
    x, size = i.operands
    if size.opcode != "constant" or i.shape.is_dynamic or x.shape.is_dynamic:
        raise UnsupportedError(
            f"{i.name}: set-dimension-size makes an array of {i.shape.without_layout()} whose size is known at "
            "run time only; give the program static shapes, or mask the array instead"
        )
    if int(np.asarray(size.literal)) != x.shape.dimensions[i.dimensions[0]]:
        raise UnsupportedError(
            f"{i.name}: set-dimension-size makes dimension {i.dimensions[0]} of {x.shape.without_layout()} "
            f"{int(np.asarray(size.literal))} long without changing the shape; slice the array instead"
        )
    return x


EXPANSIONS = {"get-dimension-size": _get, "set-dimension-size": _set}
