"""What the computation of a value says about its sign, so that functions are called in a cheaper form."""

from __future__ import annotations

from collections.abc import Collection

from refxla_spec.module import Instruction

from ..ir.op_table import ROWS
from .accumulation import binary_opcode


def form(instruction: Instruction, members: Collection[Instruction]) -> str:
    """The name under which scalar.py knows the operation of a member of a fusion: with "-below" after the opcode where
    there is a form for an operand that is not above 0.

    Only what the members say counts: a fusion with equal members is the same kernel (kernel_deduplication.py).
    """
    row = ROWS.get(instruction.opcode)
    below = row is not None and row.has_below and _is_less_its_maximum(instruction.operands[0], members)
    return instruction.opcode + ("-below" if below else "")


def _is_less_its_maximum(i: Instruction, members: Collection[Instruction]) -> bool:
    """Whether a value is x less the maximum over some dimensions of x: at most 0, or a NaN."""
    if i.opcode != "subtract" or i.shape.element_type.name not in ("f16", "bf16", "f32", "f64"):
        return False
    x, spread = i.operands
    if spread.opcode != "broadcast" or ROWS[(largest := spread.operands[0]).opcode].kind != "reduction":
        return False
    if not {i, spread, largest}.issubset(members) or largest.operands[0] is not x or len(largest.operands) != 2:
        return False
    kept = tuple(d for d in range(x.shape.rank) if d not in largest.attributes["dimensions"])
    same = tuple(spread.attributes.get("dimensions", ())) == kept
    return same and binary_opcode(largest.attributes["to_apply"]) == "maximum"
