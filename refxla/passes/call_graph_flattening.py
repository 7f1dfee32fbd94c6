"""Gives every computation a single role, every instruction a unique name, and every constant an array value.

HLO allows one computation to be the condition of one loop, the body of another, and the reducer of a third. Later
passes change the signatures of conditions, bodies and branches, each in its own way, so a computation with several
roles is cloned, once for each role. A tuple constant becomes a tuple of constants. Kernels are named after
instructions, so the instructions of conditions, bodies and branches get names that are unique in the module.
"""

from __future__ import annotations

import numpy as np
from refxla_spec.module import Computation, Instruction, Module, clone_computation
from refxla_spec.types import Shape, Value

from .._core.shapes import make
from .dce import called_first, sort

CONDITION, BODY, APPLIED = "condition", "body", "applied"


def run(module: Module) -> int:
    """Rewrite every computation; returns how many constants and computations were replaced."""
    module.computations = called_first(module.entry)
    count = sum(_open_constants(c) for c in module.computations)
    of_role: dict[tuple[Computation, str], Computation] = {}
    roles: dict[Computation, str] = {}  # of the computations that are not cloned
    for i in module.instructions():
        for name, value in i.attributes.items():
            role = _role(i, name)

            def own(computation: Computation, role: str = role) -> Computation:
                first = roles.setdefault(computation, role)
                if role == first:
                    return computation
                if (computation, role) not in of_role:
                    name = f"{computation.name}.{role}"
                    of_role[computation, role] = clone_computation(computation, lambda c: c, name)
                return of_role[computation, role]

            if isinstance(value, Computation):
                i.attributes[name] = own(value)
            elif isinstance(value, tuple) and value and isinstance(value[0], Computation):
                i.attributes[name] = tuple(map(own, value))
    if of_role:
        module.computations = called_first(module.entry)
    applied = {c for c, role in roles.items() if role == APPLIED}
    _name_apart([module.entry, *(c for c in module.computations if c not in applied and c is not module.entry)])
    return count + len(of_role)


def _role(i: Instruction, attribute: str) -> str:
    if i.opcode == "while" and attribute == "condition":
        return CONDITION
    return BODY if i.opcode in ("while", "conditional") else APPLIED


def _name_apart(computations: list[Computation]) -> None:
    """Renames instructions whose name occurs in an earlier computation."""
    names: set[str] = set()
    for computation in computations:
        for i in computation.instructions:
            while i.name in names:
                i.name = f"{computation.name}.{i.name}"
            names.add(i.name)


def _open_constants(computation: Computation) -> int:
    """Replaces tuple constants by tuples of constants."""
    replaced = {
        i: _opened(i.name, i.literal, i.shape)
        for i in computation.instructions
        if i.opcode == "constant" and i.shape.is_tuple
    }
    if replaced:
        computation.replace(replaced)
        sort(computation)
    return len(replaced)


def _opened(name: str, value: Value, shape: Shape) -> Instruction:
    if not shape.is_tuple:
        return Instruction(name, "constant", shape, [], {"literal": np.asarray(value)})
    elements = zip(value, shape.elements, strict=True)
    return make("tuple", *(_opened(f"{name}.{n}", v, s) for n, (v, s) in enumerate(elements)), name=name)
