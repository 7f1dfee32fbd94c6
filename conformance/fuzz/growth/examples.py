"""Examples of the specification inlined, so that every operation takes part, whether or not it has a rule here."""

from __future__ import annotations

from functools import cache

import numpy as np
from refxla_spec.module import Module
from refxla_spec.operation import operations
from refxla_spec.text import parse, parse_literal
from refxla_spec.types import leaves

from .. import values
from ..program_builder import LARGEST, ProgramBuilder, Skip, rule
from .control import splice

_Example = tuple[Module, tuple[np.ndarray, ...]]


@cache
def examples() -> dict[str, tuple[_Example, ...]]:
    """By opcode, the examples that fit a random program, with their inputs: for one device, of arrays, and small."""
    by_opcode: dict[str, tuple[_Example, ...]] = {}
    for opcode, operation in operations().items():
        fitting = []
        for example in operation.examples:
            module = parse(example.hlo)
            inputs = tuple(parse_literal(text) for text in example.inputs)
            shapes = [i.shape for c in module.computations for i in c.instructions]
            parts = [s for shape in shapes for s in leaves(shape)]
            fits = all(s.is_array and not s.is_dynamic and s.size <= LARGEST for s in parts)
            if fits and len(inputs) == len(module.entry.parameters):
                fitting.append((module, inputs))
        if fitting:
            by_opcode[opcode] = tuple(fitting)
    return by_opcode


@rule(2, control=True)
def example(f: ProgramBuilder) -> None:
    """With values of the program, with the example's inputs, or with random ones instead."""
    module, inputs = f.r.choice(examples()[f.r.choice(list(examples()))])
    operands = []
    loops = any(i.opcode == "while" for i in module.instructions())  # those end for the example's inputs
    for p, literal in zip(module.entry.parameters, inputs, strict=True):
        t, dims = p.shape.element_type, p.shape.dimensions
        if p.shape.is_tuple:
            if not f.entry:
                raise Skip("a tuple, and no parameters to take it")
            operands.append(f.parameter(p.shape.without_layout(), literal))
        elif f.flip(0.6) and not loops:
            operands.append(f.of(t, dims))
        elif f.entry:
            value = literal if loops or f.flip() else values.array(f.r, t, dims)
            operands.append(f.parameter(p.shape.without_layout(), value))
        else:
            operands.append(f.constant(literal))
    result = splice(f.program, module.entry, operands, f)
    if result.shape.is_tuple and result.opcode != "tuple":
        f.elements(result)
