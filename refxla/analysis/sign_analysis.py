"""What the computation of a value says about its operands, so that operations are written in a cheaper form."""

from __future__ import annotations

import math
from collections.abc import Collection

import numpy as np
from refxla_spec.module import Instruction

from ..ir.literals import is_splat
from ..ir.op_table import ROWS
from .accumulation import binary_opcode

_FLOATS = ("f16", "bf16", "f32", "f64")


def form(instruction: Instruction, members: Collection[Instruction]) -> str:
    """The name under which scalar.py knows the operation of a member of a fusion: with "-below" after the opcode where
    there is a form for an operand that is not above 0, with "-by-constant" where the second operand is a constant for
    which the operator of C gives what HLO says, or of whose multiples the floating-point remainder needs no loop.

    Only what the members say counts: a fusion with equal members is the same kernel (kernel_deduplication.py).
    """
    row = ROWS.get(instruction.opcode)
    below = row is not None and row.has_below and _is_less_its_maximum(instruction.operands[0], members)
    by_constant = row is not None and row.constant_role and _is_plain(instruction, row.constant_role, members)
    return instruction.opcode + ("-below" if below else "-by-constant" if by_constant else "")


def _is_plain(i: Instruction, role: str, members: Collection[Instruction]) -> bool:
    """Whether an integer is divided by a constant other than 0 and -1, shifted by one below its width, or multiplied by
    a negative one (or one with the highest bit), on either side; or whether the remainder of a float is that by a power
    of two from 1 on."""
    element_type = i.shape.element_type
    if role == "modulus" and element_type.name in _FLOATS:
        divisor = _constant(i, i.operands[1], members)
        return divisor is not None and 1 <= abs(divisor) <= 2**64 and math.frexp(abs(divisor))[0] == 0.5
    if not element_type.is_integer or element_type.bits < 8:
        return False
    if role == "factor":
        factors = (_constant(i, x, members) for x in i.operands)
        return any(v is not None and (v < 0 or int(v) >> (element_type.bits - 1) > 0) for v in factors)
    value = _constant(i, i.operands[1], members)
    if value is None:
        return False
    return 0 <= value < element_type.bits if role == "shift" else value not in (0, -1)


def _constant(i: Instruction, operand: Instruction, members: Collection[Instruction]) -> float | None:
    """The one real number that an operand consists of, where it is written into the kernel of the members."""
    x = operand
    while x.opcode == "broadcast":
        x = x.operands[0]
    if x.opcode != "constant":
        return None
    if i in members and x not in members:  # an argument: another fusion of equal members has another value there
        return None
    values = np.asarray(x.attributes["literal"])
    if not is_splat(values):
        return None
    value = values.reshape(-1)[0]
    return float(value) if i.shape.element_type.name in _FLOATS else int(value)


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
    return same and binary_opcode(largest.attributes["to_apply"]) == "maximum"
