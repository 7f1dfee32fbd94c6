"""Two iterations of a loop as one: double buffering.

An iteration that reads all over its state while it writes the next (a stencil, a relaxation) cannot write in place: it
writes other memory, which is then copied to where the state lies. A body of two iterations needs no copy. The first
reads the one memory and writes the other, the second reads that and writes back.
"""

from __future__ import annotations

from refxla_spec.module import Computation, Instruction, post_order

from ..analysis.while_loop_analysis import state_values


def unrolled_twice(body: Computation) -> tuple[Computation, set[Instruction]]:
    """The body of two iterations of a loop, and the instructions of the second. `body` runs no other computations: it
    has no loops or conditionals, and its parameter and root are flat tuples, as tuple_simplifier leaves them."""
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
    order = dict.fromkeys((*body.instructions, *second.values()))  # what the first leaves late would keep its memory
    instructions = [i for i in order if i in live]
    return Computation(body.name, instructions, root), live.difference(body.instructions)
