"""A random program in a form that XLA takes: the same meaning, without what only XLA itself may write.

Fusions and composites are calls of their computations, and each array of a parameter that is a tuple is a parameter.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from refxla_spec.module import Computation, Instruction, Module
from refxla_spec.operation import make
from refxla_spec.types import Shape, leaves

from .generate import Sample


def prepared(sample: Sample) -> Sample:
    """The program with calls for fusions, and parameters that are arrays."""
    module = sample.module.clone()
    for i in module.instructions():
        if i.opcode == "fusion":
            i.opcode, i.attributes = "call", {"to_apply": i.attributes["calls"]}
        elif i.opcode == "call":
            i.attributes = {"to_apply": i.attributes["to_apply"]}
    entry = module.entry
    parameters, rest = entry.parameters, [i for i in entry.instructions if i.opcode != "parameter"]
    made: list[Instruction] = []
    for n, shape in enumerate(s for p in parameters for s in leaves(p.shape)):
        made.append(Instruction(f"parameter.{n}", "parameter", shape, [], {"number": n}))
    given = iter(list(made))
    values = {p: _value(p.name, p.shape, given, made) for p in parameters}
    entry.instructions = [*made, *rest]
    entry.replace(values)
    return replace(sample, module=module)


def _value(name: str, shape: Shape, given: Iterable[Instruction], made: list[Instruction]) -> Instruction:
    if not shape.is_tuple:
        return next(given)
    parts = [_value(f"{name}.{n}", s, given, made) for n, s in enumerate(shape.elements)]
    made.append(make("tuple", *parts, name=f"{name}.tuple"))
    return made[-1]


def lifted(sample: Sample) -> Sample:
    """The program with the constants of the entry computation as arguments, so that no compiler knows them."""
    module = sample.module.clone()
    arguments = list(sample.arguments)
    for i in module.entry.instructions:
        if i.opcode == "constant" and i.shape.is_array:
            value = np.asarray(i.attributes["literal"])
            i.opcode, i.attributes = "parameter", {"number": len(arguments)}
            arguments.append(value)
    return replace(sample, module=module, arguments=tuple(arguments))


def guarded(sample: Sample) -> Sample:
    """The program with every divisor of an integer behind an opt-barrier, so that no compiler knows it."""
    module = sample.module.clone()
    for computation in module.computations:
        _guard(computation)
    return replace(sample, module=module)


def _guard(computation: Computation) -> None:
    made: list[Instruction] = []
    for i in computation.instructions:
        if i.opcode in ("divide", "remainder") and i.shape.element_type.is_integer:
            name = f"{i.name}.divisor"
            made.append(make("tuple", i.operands[1], name=f"{name}.tuple"))
            made.append(make("opt-barrier", made[-1], name=f"{name}.barrier"))
            made.append(make("get-tuple-element", made[-1], name=name, index=0))
            i.operands = [i.operands[0], made[-1]]
        made.append(i)
    computation.instructions = made


def divides(module: Module) -> bool:
    """Whether some integer is divided."""
    return any(i.opcode in ("divide", "remainder") and i.shape.element_type.is_integer for i in module.instructions())
