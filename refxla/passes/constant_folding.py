"""Evaluates instructions that depend only on constants, with the interpreter of the specification.

Only operations that are exact under the contract (`refxla_spec.accuracy`) are folded, so folding never changes a bit.
Only small results are folded, because a large constant costs more to store than to compute. The exception is a result
no larger than the constants that become unused, such as weights that are scaled, converted or transposed.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
from refxla_spec import accuracy
from refxla_spec.module import Computation, Instruction, Module
from refxla_spec.operation import operation
from refxla_spec.types import Array, Shape, Value

from .._core.shapes import make
from ..ir.op_table import ELEMENTWISE, MOVEMENT, ROWS
from .algebraic_simplifier import constant, scalar_value
from .dce import sort

LARGEST = 4096  # elements of a result, at most


def run(module: Module) -> int:
    """Folds constants in every computation. Returns how many instructions became constants."""
    return sum(_fold(c) for c in module.computations)


def _fold(computation: Computation) -> int:
    replaced: dict[Instruction, Instruction] = {}
    users = Counter(o for i in computation.instructions for o in dict.fromkeys(i.operands))
    users[computation.root] += 1
    for i in computation.instructions:
        i.operands = [replaced.get(o, o) for o in i.operands]
        folded = _folded(i, users)
        if folded is not None:
            replaced[i] = folded
            users[folded] = users[i]
            users.subtract(set(i.operands))
    if replaced:
        computation.root = replaced.get(computation.root, computation.root)
        sort(computation)
    return len(replaced)


def _folded(i: Instruction, users: Counter[Instruction]) -> Instruction | None:
    """The constant, or broadcast constant, that replaces an instruction; None if that does not pay or is not exact."""
    row = ROWS.get(i.opcode)
    if row is None or row.op_class not in (ELEMENTWISE, MOVEMENT) or not i.operands or not i.shape.is_array:
        return None
    if i.opcode == "broadcast":
        return None
    scalars = [scalar_value(o) for o in i.operands]
    uniform = row.op_class == ELEMENTWISE and all(s is not None for s in scalars) and _by_element(i)
    if not uniform and any(o.opcode != "constant" for o in i.operands):
        return None
    if any(accuracy.max_ulp(i.opcode, s.element_type.name) for s in (i.shape, i.operands[0].shape)):
        return None
    if uniform:
        # All elements are equal: one is computed and broadcast.
        one = Instruction(i.name, i.opcode, Shape(i.shape.element_type), [], i.attributes)
        value = constant(_evaluate(one, scalars), i.name)
        return make("broadcast", value, name=i.name, shape=i.shape, dimensions=()) if i.shape.rank else value
    freed = sum(o.shape.bytes for o in set(i.operands) if users[o] == 1)
    if i.shape.size > LARGEST and i.shape.bytes > freed:
        return None
    return constant(_evaluate(i, [o.literal for o in i.operands]), i.name)


def _by_element(i: Instruction) -> bool:
    """Whether each element depends on one element of each operand, unlike in a bitcast-convert that changes their
    number."""
    return all(o.shape.is_scalar or o.shape.dimensions == i.shape.dimensions for o in i.operands) and (
        i.opcode != "bitcast-convert" or i.shape.dimensions == i.operands[0].shape.dimensions
    )


def _evaluate(i: Instruction, values: list[Value]) -> Array:
    return np.asarray(operation(i.opcode).evaluate(i, *values))
