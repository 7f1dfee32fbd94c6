"""A random program in a form that XLA accepts: the same meaning, without constructs that only XLA itself may create.

Fusions and composites are calls of their computations, and each array of a parameter that is a tuple is a parameter.
"""

from __future__ import annotations

from collections.abc import Iterator
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
    instructions: list[Instruction] = []
    for n, shape in enumerate(s for p in parameters for s in leaves(p.shape)):
        instructions.append(Instruction(f"parameter.{n}", "parameter", shape, [], {"number": n}))
    inputs = iter(list(instructions))
    values = {p: _value(p.name, p.shape, inputs, instructions) for p in parameters}
    entry.instructions = [*instructions, *rest]
    entry.replace(values)
    return replace(sample, module=module)


def _value(name: str, shape: Shape, inputs: Iterator[Instruction], instructions: list[Instruction]) -> Instruction:
    if not shape.is_tuple:
        return next(inputs)
    parts = [_value(f"{name}.{n}", s, inputs, instructions) for n, s in enumerate(shape.elements)]
    instructions.append(make("tuple", *parts, name=f"{name}.tuple"))
    return instructions[-1]


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
    """The program with every integer divisor behind an opt-barrier, so that no compiler knows it."""
    module = sample.module.clone()
    for computation in module.computations:
        _guard(computation)
    return replace(sample, module=module)


def _guard(computation: Computation) -> None:
    instructions: list[Instruction] = []
    for i in computation.instructions:
        if i.opcode in ("divide", "remainder") and i.shape.element_type.is_integer:
            name = f"{i.name}.divisor"
            instructions.append(make("tuple", i.operands[1], name=f"{name}.tuple"))
            instructions.append(make("opt-barrier", instructions[-1], name=f"{name}.barrier"))
            instructions.append(make("get-tuple-element", instructions[-1], name=name, index=0))
            i.operands = [i.operands[0], instructions[-1]]
        instructions.append(i)
    computation.instructions = instructions


def divides(module: Module) -> bool:
    """Whether some integer is divided."""
    return any(i.opcode in ("divide", "remainder") and i.shape.element_type.is_integer for i in module.instructions())
