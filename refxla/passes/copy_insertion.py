"""Gives each in-place update its own copy of a fill value, such as gradients of tables that start as the same zeros.

    z = broadcast(0);  a = scatter(z, ...);  b = scatter(z, ...)
        ->  z = broadcast(0);  y = broadcast(0);  a = scatter(z, ...);  b = scatter(y, ...)

A scatter or dynamic-update-slice overwrites its operand if nothing else reads the operand, and copies it first if
something does. Filling memory a second time costs less than copying it.
"""

from __future__ import annotations

from refxla_spec.module import Computation, Instruction, Module

from ..ir.op_table import ROWS


def run(module: Module) -> int:
    """Gives each such operand that is the broadcast of a scalar its own broadcast. Returns the number of new ones."""
    return sum(_part(c) for c in module.computations)


def _part(computation: Computation) -> int:
    uses: dict[Instruction, int] = {}
    for i in computation.instructions:
        for o in i.operands:
            uses[o] = uses.get(o, 0) + 1
    count = 0
    instructions: list[Instruction] = []
    for i in computation.instructions:
        for n in range(ROWS[i.opcode].in_place(i) if i.opcode in ROWS else 0):
            filling = i.operands[n]
            if filling.opcode == "broadcast" and filling.operands[0].shape.rank == 0 and uses[filling] > 1:
                name, operands = f"{filling.name}.own.{count}", list(filling.operands)
                attributes = dict(filling.attributes)
                own = Instruction(name, "broadcast", filling.shape, operands, attributes, filling.metadata)
                uses[filling] -= 1
                i.operands[n] = own
                instructions.append(own)
                count += 1
        instructions.append(i)
    computation.instructions = instructions
    return count
