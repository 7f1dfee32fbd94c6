"""A transpose of a product of matrices is the product of the operands exchanged, and needs no kernel of its own.

    transpose(dot(x, y)) -> dot(y, x)

Each element is the same sum in the same order, of products whose factors change places: the same bits. (A complex
product is made of real ones in an order that would change.) Gradients of weights come as such transposes.
"""

from __future__ import annotations

from refxla_spec.module import Computation, Instruction, Module

from .._core.shapes import make
from .dead_code import settle

_SIDES = ("batch_dims", "contracting_dims")


def run(module: Module) -> int:
    """Rewrite all such transposes; returns their number."""
    return sum(_rewrite_all(c) for c in module.computations)


def _rewrite_all(computation: Computation) -> int:
    users: dict[Instruction, int] = {}
    for i in computation.instructions:
        for o in i.operands:
            users[o] = users.get(o, 0) + 1
    replaced: dict[Instruction, Instruction] = {}
    for i in computation.instructions:
        i.operands = [replaced.get(o, o) for o in i.operands]
        if i.opcode == "transpose" and i.operands[0].opcode == "dot" and users[i.operands[0]] == 1:
            made = exchanged(i, i.operands[0])
            if made is not None and i.operands[0] is not computation.root:
                replaced[i] = made
    if replaced:
        settle(computation, replaced)
    return len(replaced)


def exchanged(transpose: Instruction, dot: Instruction) -> Instruction | None:
    """The dot that gives the transposed result; None if there is none."""
    lhs, rhs = dot.operands[:2]
    batch, order = len(dot.attributes.get("lhs_batch_dims", ())), tuple(transpose.dimensions)
    left = lhs.shape.rank - batch - len(dot.lhs_contracting_dims)
    free = tuple(range(batch, dot.shape.rank))
    if len(dot.operands) != 2 or dot.shape.element_type.is_complex:
        return None
    if order[:batch] != tuple(range(batch)) or order[batch:] != free[left:] + free[:left] or not 0 < left < len(free):
        return None
    attributes = dict(dot.attributes)
    for side in _SIDES:
        for new, old in (("lhs", "rhs"), ("rhs", "lhs")):
            if f"{old}_{side}" in dot.attributes:
                attributes[f"{new}_{side}"] = dot.attributes[f"{old}_{side}"]
    if "operand_precision" in attributes:
        attributes["operand_precision"] = tuple(reversed(attributes["operand_precision"]))
    shape = transpose.shape.with_dimensions(transpose.shape.dimensions)
    return make("dot", rhs, lhs, name=transpose.name, shape=shape, **attributes)
