"""Which element types each operation takes, found from its own constraints and examples."""

from __future__ import annotations

import re
from functools import cache

from .errors import Error
from .module import Instruction, Module
from .operation import operations
from .text import parse
from .types import ELEMENT_TYPES, Shape, leaves


@cache
def accepted(opcode: str) -> tuple[str, ...]:
    """The element types of operands for which the operation's own constraints hold in one of its examples.

    Found by writing each type in the place of the operands', of the first operand's alone, or of all that an example
    has. Of an operation without
    array operands it is the type of the result; it is () where no example has arrays.
    """
    names: set[str] = set()
    for example in operations()[opcode].examples:
        own = _data_type(_instruction(parse(example.hlo), opcode))
        if own is not None:
            names.add(own)
            places = [re.compile(rf"\b({types})(?=\[)") for types in (own, "|".join(_ARRAYS))]
            for t in _ARRAYS:
                if t not in names and (
                    any(_takes(opcode, p.sub(t, example.hlo)) for p in places) or _first_takes(opcode, example.hlo, t)
                ):
                    names.add(t)
    return tuple(t for t in _ARRAYS if t in names)


_ARRAYS = tuple(t.name for t in ELEMENT_TYPES.values() if t.is_array)
_CONSTANT = re.compile(r"constant\([^({]*\)")  # a scalar, which another type may not have


def _instruction(module: Module, opcode: str) -> Instruction | None:
    """The first instruction of that opcode."""
    return next((i for c in module.computations for i in c.instructions if i.opcode == opcode), None)


def _data_type(instruction: Instruction | None) -> str | None:
    """The element type of the data that an instruction works on."""
    if instruction is None:
        return None
    shapes = [s for o in instruction.operands or [instruction] for s in leaves(o.shape) if s.is_array]
    types = [s.element_type.name for s in shapes]
    return next((t for t in types if t != "pred"), types[0] if types else None)


def _takes(opcode: str, text: str) -> bool:
    """Whether the constraints of the operation hold in a program, whose results may be stated wrong."""
    for value in "01":  # one of them is a value of every type
        try:
            instruction = _instruction(parse(_CONSTANT.sub(f"constant({value})", text)), opcode)
        except Error:
            continue
        return instruction is not None and _holds(instruction, [o.shape for o in instruction.operands])
    return False


def _first_takes(opcode: str, text: str, element_type: str) -> bool:
    """Whether the constraints hold with another element type of the first operand alone."""
    instruction = _instruction(parse(text), opcode)
    shapes = [] if instruction is None else [o.shape for o in instruction.operands]
    if instruction is None or not shapes or not shapes[0].is_array:
        return False
    return _holds(instruction, [shapes[0].with_element_type(ELEMENT_TYPES[element_type]), *shapes[1:]])


def _holds(instruction: Instruction, shapes: list[Shape]) -> bool:
    try:
        result = operations()[instruction.opcode].infer(instruction, *shapes)
    except (Error, ArithmeticError, LookupError, TypeError, ValueError):  # as in the verifier
        return False
    return bool(shapes) or result.compatible(instruction.shape)
