"""The arguments of kernels: what they read and write."""

from __future__ import annotations

from collections.abc import Sequence

from refxla_spec.module import Instruction

from ..ir.plan import Argument, Fusion
from . import scalar
from .element_builder import type_name


def inputs_of(fusion: Fusion, roots: Sequence[Instruction], stop: Instruction | None = None) -> list[Instruction]:
    """The inputs on which the roots depend, in the fusion's order; `stop` and its operands are not visited."""
    inputs, visited, waiting = set(fusion.inputs), set(), list(roots)
    while waiting:
        i = waiting.pop()
        if i in visited or i is stop or i.shape.is_array and not i.shape.size:
            continue
        visited.add(i)
        if i not in inputs:
            waiting.extend(i.operands)
    return [i for i in fusion.inputs if i in visited]


def members_of(fusion: Fusion, roots: Sequence[Instruction]) -> tuple[Instruction, ...]:
    """The members on which the roots depend, the roots included, each after its operands."""
    inputs, visited, waiting = set(fusion.inputs), set(), list(roots)
    while waiting:
        i = waiting.pop()
        if i not in visited and i not in inputs:
            visited.add(i)
            waiting.extend(i.operands)
    return tuple(i for i in fusion.instructions if i in visited)


def hero_of(fusion: Fusion) -> Instruction:
    """The hero of a fusion that has one."""
    assert fusion.hero is not None, f"{fusion.name} is a {fusion.kind} without a hero"
    return fusion.hero


def input_argument(instruction: Instruction) -> Argument:
    """The argument by which a kernel reads an instruction's value."""
    return Argument("input", scalar.storage_type(type_name(instruction)), instruction)


def output_argument(instruction: Instruction) -> Argument:
    """The argument by which a kernel writes an instruction's value."""
    return Argument("output", scalar.storage_type(type_name(instruction)), instruction)
