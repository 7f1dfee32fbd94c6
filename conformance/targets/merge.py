"""Several programs as one: their computations in one module, all their parameters, and a tuple of all their results.

A compiler that needs a tenth of a second to start can compile many small programs at once.
"""

from __future__ import annotations

from collections.abc import Sequence

from refxla_spec.module import Computation, Instruction, Module, clone_computation
from refxla_spec.operation import make
from refxla_spec.types import Shape

STATEFUL = frozenset({"rng", "rng-get-and-update-state", "infeed", "outfeed", "send", "recv"})


def can_merge(module: Module) -> bool:
    """Whether a module's meaning does not depend on its header, on state, or on its place among others, and its
    arguments and results are arrays, or results in at most one tuple."""
    if module.attributes or module.aliases or module.entry_layout is not None:
        return False
    if any(i.opcode in STATEFUL or i.shape.is_dynamic for i in module.instructions()):
        return False
    shapes = [p.shape for p in module.entry.parameters] + results(module)
    return all(s.is_array for s in shapes)


def results(module: Module) -> list[Shape]:
    """The shapes of the results; for a tuple, of its elements."""
    shape = module.entry.root.shape
    return list(shape.elements) if shape.is_tuple else [shape]


def merge(modules: Sequence[Module]) -> Module:
    """One module that takes the arguments of all, concatenated, and returns all results in one tuple."""
    computations: list[Computation] = []
    entry: list[Instruction] = []
    outputs: list[Instruction] = []
    count = 0
    for k, module in enumerate(modules):
        copies: dict[Computation, Computation] = {}
        for computation in module.computations:
            copies[computation] = clone_computation(computation, copies.__getitem__, f"p{k}.{computation.name}")
        own = copies[module.entry]
        computations += [c for c in copies.values() if c is not own]
        parameters = own.parameters
        for i in own.instructions:
            i.name, i.position = f"p{k}.{i.name}", None
        for p in parameters:
            p.attributes["number"] += count
        count += len(parameters)
        entry += own.instructions
        if not own.root.shape.is_tuple:
            outputs.append(own.root)
        elif own.root.opcode == "tuple":
            outputs += own.root.operands
        else:
            parts = [
                make("get-tuple-element", own.root, name=f"p{k}.result.{n}", index=n)
                for n in range(len(own.root.shape.elements))
            ]
            entry += parts
            outputs += parts
    root = Instruction("results", "tuple", Shape.tuple_of(*(o.shape for o in outputs)), outputs)
    whole = Computation("merged", [*entry, root], root)
    return Module("merged", [*computations, whole], whole)
