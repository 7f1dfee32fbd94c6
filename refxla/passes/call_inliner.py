"""Inlines calls, fusions and maps.

A fusion in the input is the decision of another compiler; this one makes its own. The computation of a map works on
scalars; inlined, it works on arrays, and its constants are broadcast.
"""

from __future__ import annotations

from refxla_spec.elementwise import is_elementwise
from refxla_spec.errors import UnsupportedError
from refxla_spec.module import Computation, Instruction, Module
from refxla_spec.types import Shape

from .._core.shapes import make
from ..ir.builder import copied
from .dce import called_first, sort

# Instructions of one computation. Twenty computations, each of which calls the previous one twice, inline to a million;
# programs that people write stay far below.
LIMIT = 500_000
MOVES = frozenset("broadcast reshape transpose reverse slice dynamic-slice".split())
INLINED = {"call": "to_apply", "fusion": "calls", "map": "to_apply"}


def run(module: Module) -> int:
    """Inline everywhere, callees first, so that one walk is enough. Returns the number of calls inlined.

    Raises UnsupportedError where a computation would grow beyond LIMIT instructions.
    """
    module.computations = called_first(module.entry)
    return sum(_inline(computation) for computation in module.computations)


def _inline(computation: Computation) -> int:
    calls = [i for i in computation.instructions if i.opcode in INLINED]
    size = len(computation.instructions) + sum(len(c.attributes[INLINED[c.opcode]].instructions) for c in calls)
    if size > LIMIT:
        raise UnsupportedError(
            f"{calls[0].name}: with its calls inlined {computation.name} has {size} instructions, and at most {LIMIT} "
            "are compiled; make a loop of what it calls again and again"
        )
    replacements: dict[Instruction, Instruction] = {}
    for call in calls:
        callee = call.attributes[INLINED[call.opcode]]
        copies: dict[Instruction, Instruction] = {}
        members = set(call.operands)
        for i in callee.instructions:
            if i.opcode == "parameter":
                copies[i] = call.operands[i.attributes["number"]]
            else:
                copies[i] = _copy(i, copies, call)
                if copies[i] not in members:
                    members.add(copies[i])
                    computation.instructions.append(copies[i])
        replacements[call] = copies[callee.root]
    if calls:
        computation.replace(replacements)
        sort(computation)
    return len(calls)


def mapped(computation: Computation, operands: list[Instruction], like: Instruction, name: str) -> list[Instruction]:
    """The results of a scalar computation, applied elementwise to arrays with the dimensions of `like`.

    Raises UnsupportedError for a computation that is not elementwise.
    """
    call = Instruction(name, "map", like.shape, operands, {})
    copies: dict[Instruction, Instruction] = {}
    root = computation.root
    for i in computation.instructions:
        if i.opcode == "parameter":
            copies[i] = operands[i.attributes["number"]]
        elif i is not root or i.opcode != "tuple":
            copies[i] = _copy(i, copies, call)
    return [copies[o] for o in root.operands] if root.opcode == "tuple" else [copies[root]]


def _copy(i: Instruction, copies: dict[Instruction, Instruction], call: Instruction) -> Instruction:
    instruction = copied(i, f"{call.name}.{i.name}", [copies[o] for o in i.operands])
    instruction.metadata = i.metadata or call.metadata
    return _mapped(instruction, call) if call.opcode == "map" else instruction


def _mapped(i: Instruction, call: Instruction) -> Instruction:
    """The elementwise form of a scalar instruction, on the arrays of a map."""
    if i.opcode in ("tuple", "get-tuple-element"):  # of the result of a fusion or call in the computation
        i.shape = _spread(i.shape, call.shape)
        return i
    wide = call.shape.with_element_type(i.shape.element_type)
    if i.opcode == "constant" and i.shape.is_scalar:
        return make("broadcast", i, name=f"{i.name}.map", shape=wide, dimensions=())
    if i.opcode in MOVES and i.shape.is_scalar and i.operands[0].shape.dimensions == wide.dimensions:
        return i.operands[0]  # a scalar has only one element to move
    if not is_elementwise(i.opcode) or not i.shape.is_scalar:
        raise UnsupportedError(
            f"{call.name}: a map whose computation is not elementwise is not compiled: {i.name} in it is {i.opcode} to "
            f"{i.shape}; call the computation in a loop, or run the program on the reference with device='reference'"
        )
    i.shape = wide
    return i


def _spread(shape: Shape, like: Shape) -> Shape:
    """The shape of a scalar, or of a tuple of scalars, with the dimensions of a map."""
    if shape.is_tuple:
        return Shape.tuple_of(*(_spread(e, like) for e in shape.elements))
    return like.with_element_type(shape.element_type)
