"""What the branches of a conditional return: elements of their operands, unchanged or updated in place."""

from __future__ import annotations

from collections.abc import Iterator

from refxla_spec.module import Computation, Instruction

from ..ir.op_table import overwritten
from .while_loop_analysis import state_values


def root_leaves(computation: Computation) -> list[Instruction]:
    """The array values that a computation returns, whose root may be a flat tuple."""
    root = computation.root
    return list(root.operands) if root.opcode == "tuple" else [root]


def branch_computations(conditional: Instruction) -> tuple[Computation, ...]:
    """The computations of a conditional, in the order of its operands."""
    if "true_computation" in conditional.attributes:
        return (conditional.true_computation, conditional.false_computation)
    return tuple(conditional.branch_computations)


def returned_elements(conditional: Instruction, k: int) -> Iterator[Instruction]:
    """The elements of a conditional's operands that its branches return as result k, unchanged or with slices of them
    updated."""
    for called, operand in zip(branch_computations(conditional), conditional.operands[1:], strict=True):
        value = _element_of(operand, _origin(root_leaves(called)[k], called))
        if value is not None:
            yield value


def _origin(value: Instruction, computation: Computation) -> int | None:
    """The number of the element of a computation's parameter that a value equals, apart from updates of slices; None
    for any other value."""
    numbers = {element: k for k, element in state_values(computation).items()}
    i: Instruction | None = value
    while i is not None and i not in numbers:
        i = _before_update(i)
    return None if i is None else numbers[i]


def _before_update(i: Instruction) -> Instruction | None:
    """The operand of an update of some elements; None if the value is not such an update."""
    if i.opcode in ("copy", "reshape") or overwritten(i) == 1:
        return i.operands[0]
    if i.opcode != "get-tuple-element":
        return None
    source = i.operands[0]
    if overwritten(source):
        updated: Instruction = source.operands[i.index]
        return updated
    if source.opcode == "while":
        return _element_of(source.operands[0], i.index)
    if source.opcode == "conditional":
        return next(returned_elements(source, i.index), None)
    return None


def _element_of(value: Instruction, number: int | None) -> Instruction | None:
    """An element of a tuple that is built in this computation."""
    return value.operands[number] if value.opcode == "tuple" and number is not None else None
