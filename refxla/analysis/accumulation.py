"""The operation of a reducer, and the types in which sums and the like are accumulated."""

from __future__ import annotations

from refxla_spec.module import Computation
from refxla_spec.types import ELEMENT_TYPES
from refxla_spec.vectorize import COMMUTATIVE, binary_opcode, combiners


def commutative_opcode(computation: Computation) -> str | None:
    """The opcode of a computation that is a single commutative operation on its two parameters, or None."""
    opcode = binary_opcode(computation)
    return opcode if opcode in COMMUTATIVE else None


def commutative_opcodes(computation: Computation) -> tuple[str | None, ...]:
    """For each result of a reducer of N pairs, the commutative operation that combines its own pair, or None."""
    return tuple(opcode if opcode in COMMUTATIVE else None for opcode in combiners(computation))


def result_types(computation: Computation) -> tuple[str, ...]:
    """The element types of a reducer's results."""
    root = computation.root
    return tuple(r.shape.element_type.name for r in (root.operands if root.opcode == "tuple" else [root]))


def accumulator_types(computation: Computation) -> tuple[str, ...]:
    """The types in which a reducer's results are accumulated: f32 for sums and products of narrower floats, unless a
    result depends on other pairs than its own."""
    names, opcodes = result_types(computation), commutative_opcodes(computation)
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
