"""What is known about an operation's operands from how they are computed, such as their sign, so that it can take a
cheaper form."""

from __future__ import annotations

import math
from collections.abc import Collection

import numpy as np
from refxla_spec.module import Instruction
from refxla_spec.ops.compare import is_total

from ..ir.literals import is_splat
from ..ir.op_table import ROWS
from .accumulation import commutative_opcode

_FLOATS = ("f16", "bf16", "f32", "f64")


def form(instruction: Instruction, members: Collection[Instruction]) -> str:
    """The name by which scalar.py knows the operation of a fusion's member: its opcode, with "-below" where there is a
    form for an operand that is not above 0, with "-by-constant" where there is one for a constant last operand, with
    "-of-constant" for a constant first one.

    This depends on the members alone: fusions with equal members share a kernel (kernel_deduplication.py).
    """
    row = ROWS.get(instruction.opcode)
    if row is None:
        return instruction.opcode
    if row.has_below and _is_less_its_maximum(instruction.operands[0], members):
        return f"{instruction.opcode}-below"
    return instruction.opcode + (_of_a_constant(instruction, row.constant_role, members) if row.constant_role else "")


def _of_a_constant(i: Instruction, role: str, members: Collection[Instruction]) -> str:
    """What the name of an operation with a constant operand of this role (ir/op_table.py) ends with: "-by-constant" if
    there is a form for the last operand, "-of-constant" for the first, or ""."""
    element_type = i.operands[-1].shape.element_type
    if element_type.name not in _FLOATS and not (element_type.is_integer and element_type.bits >= 8):
        return ""
    first, last = (_constant(i, operand, members) for operand in (i.operands[0], i.operands[-1]))
    if role == "bounds":
        return "-by-constant" if _fits(i, "bound", first) and _fits(i, "bound", last) else ""
    if _fits(i, role, last) or role == "factor" and _fits(i, role, first):
        return "-by-constant"
    return "-of-constant" if role in ("bound", "threshold") and _fits(i, role, first) else ""


def _fits(i: Instruction, role: str, constant: float | None) -> bool:
    """Whether there is a form for a constant operand of this role: for a divisor or modulus other than 0 and -1, a
    shift below the width, a factor that is negative or has the highest bit; for floats, a modulus that is a power of
    two of at least 1, a bound that is not NaN, zero as the threshold of an ordering comparison, an abscissa of 1."""
    element_type = i.operands[-1].shape.element_type
    if constant is None:
        return False
    if element_type.name in _FLOATS:
        if role == "modulus":
            return 1 <= abs(constant) <= 2**64 and math.frexp(abs(constant))[0] == 0.5
        if role == "abscissa":
            return constant == 1
        if role == "threshold":
            return constant == 0 and i.attributes["direction"] not in ("EQ", "NE") and not is_total(i.attributes)
        return role == "bound" and not math.isnan(constant)
    if role in ("divisor", "modulus"):
        return constant not in (0, -1)
    if role == "shift":
        return 0 <= constant < element_type.bits
    return role == "factor" and (constant < 0 or int(constant) >> (element_type.bits - 1) > 0)


def _constant(i: Instruction, operand: Instruction, members: Collection[Instruction]) -> float | None:
    """The real number of which an operand is a splat, if it is a literal in the members' kernel."""
    x = operand
    while x.opcode == "broadcast":
        x = x.operands[0]
    if x.opcode != "constant":
        return None
    if i in members and x not in members:  # an argument: its value may differ in another fusion with equal members
        return None
    values = np.asarray(x.attributes["literal"])
    if not is_splat(values):
        return None
    value = values.reshape(-1)[0]
    return float(value) if x.shape.element_type.name in _FLOATS else int(value)


def _is_less_its_maximum(i: Instruction, members: Collection[Instruction]) -> bool:
    """Whether a value is x less the maximum over some dimensions of x: at most 0, or a NaN."""
    if i.opcode != "subtract" or i.shape.element_type.name not in _FLOATS:
        return False
    x, spread = i.operands
    if spread.opcode != "broadcast" or ROWS[(largest := spread.operands[0]).opcode].kind != "reduction":
        return False
    if not {i, spread, largest}.issubset(members) or largest.operands[0] is not x or len(largest.operands) != 2:
        return False
    dimensions = tuple(d for d in range(x.shape.rank) if d not in largest.attributes["dimensions"])
    same = tuple(spread.attributes.get("dimensions", ())) == dimensions
    return same and commutative_opcode(largest.attributes["to_apply"]) == "maximum"
