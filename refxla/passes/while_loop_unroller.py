"""Unrolls two iterations of a loop into one: double buffering.

An iteration that reads elements all over its state while it writes the next state (a stencil, a relaxation) cannot
write in place: it writes another buffer, which is then copied back. A body of two iterations needs no copy: the first
reads one buffer and writes the other, the second reads the other and writes the first.
"""

from __future__ import annotations

from refxla_spec.module import Computation, Instruction, post_order

from ..analysis.while_loop_analysis import state_values


def unrolled_twice(body: Computation) -> tuple[Computation, set[Instruction]]:
    """The body of two iterations of a loop, and the instructions of the second. `body` has no loops or conditionals,
    and its parameter and root are flat tuples, as tuple_simplifier leaves them."""
    leaves = list(body.root.operands)
    second: dict[Instruction, Instruction] = {i: leaves[k] for k, i in state_values(body).items()}
    second[body.parameters[0]] = body.parameters[0]
    for i in body.instructions:
        if i not in second:
            if i.operands:
                operands = [second[o] for o in i.operands]
                second[i] = Instruction(f"{i.name}.second", i.opcode, i.shape, operands, dict(i.attributes), i.metadata)
            else:  # the same in both: a constant, an iota
                second[i] = i
    root = second[body.root]
    live = set(post_order(root, body.parameters))
    order = dict.fromkeys(
        (*body.instructions, *second.values())
    )  # a late instruction of the first would keep its buffer live
    instructions = [i for i in order if i in live]
    return Computation(body.name, instructions, root), live.difference(body.instructions)
