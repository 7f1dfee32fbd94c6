"""What sends and receives share: which device sends to which, and the rules of both halves."""

from __future__ import annotations

import re

import numpy as np

from .devices import Device
from .errors import InvalidProgramError, UnsupportedError
from .module import Instruction
from .operation import require
from .types import TOKEN, U32, Shape, Value

PAIRS = "_xla_send_recv_source_target_pairs"


def pairs_of(instruction: Instruction, device: Device) -> list[tuple[int, int]]:
    """The pairs (source, target) of numbers of devices. On one device without any, it sends to itself.

    Raises UnsupportedError where several devices run and none are given, InvalidProgramError for a text that is none.
    """
    text = dict(instruction.frontend_attributes).get(PAIRS)
    if text is None:
        if device.world.replicas * device.world.partitions == 1:
            return [(0, 0)]
        raise UnsupportedError(
            f"{instruction.name}: {instruction.opcode} does not say which device sends to which; "
            f"say it with frontend_attributes={{{PAIRS}={{{{0,1}}}}}}"
        )
    bare = re.sub(r"\s", "", text)
    if not re.fullmatch(r"\{(?:\{\d{1,9},\d{1,9}\}(?:,\{\d{1,9},\d{1,9}\})*)?\}", bare):
        raise InvalidProgramError(f"{instruction.name}: {PAIRS}={text} is no list of pairs such as {{{{0,1}},{{1,2}}}}")
    pairs = tuple((int(s), int(t)) for s, t in re.findall(r"\{(\d+),(\d+)\}", bare))
    if any(len({p[k] for p in pairs}) < len(pairs) for k in (0, 1)):
        raise InvalidProgramError(f"{instruction.name}: {PAIRS}={text} has a source or a target twice")
    return device.pairs(instruction, pairs)


def check_transfer(instruction: Instruction, operand: Shape, begin: str) -> None:
    """C1 and C2 of send-done and recv-done, whose first half has the opcode `begin`."""
    parts = operand.elements
    fits = len(parts) == 3 and parts[1].is_scalar and parts[1].element_type is U32 and parts[2].element_type is TOKEN
    require(fits, "C1", f"the operand is {operand}")
    begun = instruction.operands[0]
    if begun.opcode == begin:
        for name in ("channel_id", "is_host_transfer"):
            mine, other = getattr(instruction, name), getattr(begun, name)
            require(mine == other, "C2", f"{name} is {mine}, and that of {begun.name} is {other}")


def zeros(shape: Shape) -> Value:
    """The value of zeros of a shape."""
    if shape.is_tuple:
        return tuple(zeros(e) for e in shape.elements)
    return np.zeros(shape.dimensions, shape.element_type.dtype) if shape.is_array else None
