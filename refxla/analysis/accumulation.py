"""The operation of a reducer, and the types in which sums and the like are accumulated."""

from __future__ import annotations

from refxla_spec.module import Computation
from refxla_spec.types import ELEMENT_TYPES
from refxla_spec.vectorize import COMMUTATIVE


def commutative_opcode(computation: Computation) -> str | None:
    """The opcode of a computation that is a single commutative operation on its two parameters, or None."""
    root = computation.root
    operands = {o for o in root.operands if o.opcode == "parameter"}
    is_one = root.opcode in COMMUTATIVE and len(operands) == len(computation.parameters) == 2
    return root.opcode if is_one else None


def combiners(computation: Computation) -> tuple[str | None, ...]:
    """For each result of a reducer of N pairs, the commutative operation that combines its own pair; None unless there
    is one for each."""
    root, count = computation.root, len(computation.parameters) // 2
    if root.opcode != "tuple":
        return (commutative_opcode(computation),)
    pairs = zip(computation.parameters[:count], computation.parameters[count:], strict=True)
    return tuple(
        part.opcode if part.opcode in COMMUTATIVE and set(part.operands) == set(pair) else None
        for part, pair in zip(root.operands, pairs, strict=True)
    )


def result_types(computation: Computation) -> tuple[str, ...]:
    """The element types of a reducer's results."""
    root = computation.root
    return tuple(r.shape.element_type.name for r in (root.operands if root.opcode == "tuple" else [root]))


def accumulator_types(computation: Computation) -> tuple[str, ...]:
    """The types in which a reducer's results are accumulated: f32 for sums and products of narrower floats, unless a
    result depends on other pairs than its own."""
    names, opcodes = result_types(computation), combiners(computation)
    if None in opcodes:
        return names
    pairs = zip(names, opcodes, strict=True)
    return tuple("f32" if is_narrow(name) and opcode in ("add", "multiply") else name for name, opcode in pairs)


def contraction_type(result: str) -> str:
    """The type in which a dot or convolution with that result type accumulates."""
    return "f32" if is_narrow(result) else result


def is_narrow(name: str) -> bool:
    """Whether values of a type are floating-point numbers narrower than f32, which are computed in f32."""
    return ELEMENT_TYPES[name].is_float and ELEMENT_TYPES[name].bits < 32
