"""The functions to sweep: the elementwise operations of the specification on its floating-point types."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from refxla_spec.accuracy import max_ulp
from refxla_spec.elementwise import is_elementwise
from refxla_spec.module import Instruction
from refxla_spec.operation import Violation, operation, operations
from refxla_spec.types import ELEMENT_TYPES, F64, ElementType, Shape

# The values of an operation's attributes.
_ATTRIBUTES: dict[str, tuple[dict[str, Any], ...]] = {
    # The total order of NaNs depends on their bits, which a conversion to f64 does not keep: edge cases test it.
    "compare": tuple({"direction": direction} for direction in ("EQ", "NE", "LT", "LE", "GT", "GE")),
}
# Functions that f64 cannot check: a value's bits, parts and copies; and reduce-precision, which depends on the format
# of its operand.
_LEFT_OUT = {"bitcast-convert", "complex", "copy", "imag", "real", "reduce-precision", "stochastic-convert"}


@dataclass(frozen=True)
class Function:
    """An elementwise operation on one element type, from it to `result`."""

    opcode: str
    operand: ElementType
    result: ElementType
    attributes: tuple[tuple[str, Any], ...] = ()

    @property
    def arity(self) -> int:
        return operation(self.opcode).arity or 1

    @property
    def operands(self) -> int:
        """The number of operands, or pairs of them."""
        count: int = 2 ** (self.operand.bits * self.arity)  # mypy has no type for powers
        return count

    @cached_property
    def bound(self) -> float:
        """The largest error that the accuracy contract allows, in ULP of the result; 0 if it is exact."""
        return max_ulp(self.opcode, self.operand.name)

    @property
    def name(self) -> str:
        """A readable name: the opcode, and what distinguishes it from similar functions."""
        values = [self.result.name] if self.opcode == "convert" else [str(value) for _, value in self.attributes]
        return " ".join([self.opcode, *values])

    def __str__(self) -> str:
        return f"{self.name} of {self.operand}"


def functions(opcodes: Collection[str] = (), types: Collection[str] = (), arity: int = 0) -> Iterator[Function]:
    """The functions of these operations, operand types and number of operands, or all of them.

    Those of one operand have up to 32 bits, those of two up to 16. Raises UnsupportedError for an unknown opcode.
    """
    for opcode in opcodes or operations():
        rule = operation(opcode)
        if not is_elementwise(opcode) or rule.arity is None or rule.arity not in ((arity,) if arity else (1, 2)):
            continue
        for element_type in ELEMENT_TYPES.values():
            if types and element_type.name not in types:
                continue
            # A program accesses values by their bits, and there are no integers as wide as f6; its 64 values are edge
            # cases.
            reachable = element_type.is_float and f"u{element_type.bits}" in ELEMENT_TYPES
            if reachable and element_type.bits * rule.arity <= 32:
                yield from _of(opcode, rule.arity, element_type)


def _of(opcode: str, arity: int, element_type: ElementType) -> Iterator[Function]:
    if opcode == "convert":
        for result in ELEMENT_TYPES.values():
            known = not result.is_float or f"u{result.bits}" in ELEMENT_TYPES
            if result.dtype is not None and known and not result.is_complex and result not in (element_type, F64):
                yield Function(opcode, element_type, result)
    elif opcode not in _LEFT_OUT:
        for attributes in _ATTRIBUTES.get(opcode, ({},)):
            inferred = _result(opcode, attributes, arity, element_type)
            if inferred is not None and _result(opcode, attributes, arity, F64) is not None:
                yield Function(opcode, element_type, inferred, tuple(attributes.items()))


def _result(opcode: str, attributes: dict[str, Any], arity: int, element_type: ElementType) -> ElementType | None:
    """The element type of the result, or None if the operation does not accept this one."""
    shape = Shape(element_type)
    try:
        call = Instruction(opcode, opcode, shape, [], dict(attributes))
        return operation(opcode).infer(call, *[shape] * arity).element_type
    except Violation:
        return None
