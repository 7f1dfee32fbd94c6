"""Random programs with bounded dynamic shapes: static ones, some of whose parameters become dynamic (f32[<=4]).

The compiler makes such a program static (refxla/passes/dynamic): arrays have their maximum size, with their actual
sizes as separate values. The padding beyond the sizes has values here that show wherever they are used.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from refxla_conformance.targets.sized import static_arguments
from refxla_spec.errors import Error
from refxla_spec.interpreter import Interpreter
from refxla_spec.module import Instruction, Module
from refxla_spec.operation import operation
from refxla_spec.types import Shape, leaves
from refxla_spec.verify import verify

from .generate import Sample, generate
from .prepared import prepared
from .program_builder import Skip, flatten

MARKED = 0.5  # of a parameter's dimensions
ATTEMPTS = 20


def is_dynamic(module: Module) -> bool:
    """Whether the program takes arrays whose sizes are known only at run time."""
    return any(p.shape.is_dynamic for p in module.entry.parameters)


def generate_dynamic(seed: int) -> Sample:
    """A program with dynamic shapes, without loops and branches: the first one of this number that can be made dynamic.

    Raises Skip if there is none.
    """
    for attempt in range(ATTEMPTS):
        try:
            return replace(marked(generate(seed * ATTEMPTS + attempt, depth=0, weights={"sizes": 4})), seed=seed)
        except Error:
            continue  # a dynamic dimension breaks a constraint, or there is no value at these sizes
    raise Skip(f"number {seed}: no parameter can be marked")


def marked(sample: Sample) -> Sample:
    """The program with some dimensions of its parameters dynamic, and arguments of sizes up to these bounds.

    Raises refxla's errors if that gives an invalid program, or one without a value.
    """
    r = random.Random(f"dynamic {sample.seed}")
    sample = prepared(sample)
    module, arguments = sample.module, list(sample.arguments)
    for p in module.entry.parameters:
        marks = tuple(n > 0 and r.random() < MARKED for n in p.shape.dimensions)
        if any(marks):
            sizes = [r.randint(0, n) if m else n for n, m in zip(p.shape.dimensions, marks, strict=True)]
            n = p.attributes["number"]
            arguments[n] = np.ascontiguousarray(arguments[n][tuple(map(slice, sizes))])
            p.shape = Shape(p.shape.element_type, p.shape.dimensions, None, marks)
    if not is_dynamic(module):
        raise Skip("there is nothing to mark")
    for i in module.entry.instructions:
        if i.opcode != "parameter":
            i.shape = operation(i.opcode).infer(i, *(o.shape for o in i.operands))
    verify(module)
    with np.errstate(all="ignore"):
        values = flatten((Interpreter().run(module.entry, *arguments),))
    _state(module.entry.root, [v.shape for v in values])
    return replace(sample, module=module, arguments=tuple(arguments))


def _state(root: Instruction, sizes: Sequence[tuple[int, ...]]) -> None:
    """Marks the dimensions of a result whose size differs from the stated one."""
    shapes = []
    for shape, actual in zip(leaves(root.shape), sizes, strict=True):
        marks = tuple(m or n != a for m, n, a in zip(shape.marks, shape.dimensions, actual, strict=True))
        shapes.append(Shape(shape.element_type, shape.dimensions, None, marks if any(marks) else ()))
    root.shape = Shape.tuple_of(*shapes) if root.shape.is_tuple else shapes[0]
    for o, shape in zip(root.operands, shapes, strict=False) if root.opcode == "tuple" else ():
        o.shape = shape


def at_bounds(sample: Sample) -> list[np.ndarray]:
    """The arguments in the compiled program's form: padded arrays, and then the sizes."""
    return static_arguments(sample.module, sample.arguments)


def at_sizes(module: Module, results: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The results of the compiled program, each sliced to its sizes, which follow."""
    stated = leaves(module.entry.root.shape)
    sizes = iter(results[len(stated) :])
    cut = []
    for r, shape in zip(results, stated, strict=False):
        cut.append(r[tuple(slice(int(next(sizes)) if m else n) for n, m in zip(r.shape, shape.marks, strict=True))])
    return cut
