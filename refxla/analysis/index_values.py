"""Integers that depend only on their own indices, computed from iotas and constants, as an Index.

Programs express sliding windows as a gather with computed start indices, x[i * step + j]. As an Index, these are known
to be in bounds and to be consecutive in memory.

    start = select(iota + 3 < 0, iota + 3 + 60, iota + 3)       at (i,): i + 3
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from refxla_spec.module import Instruction

from ..ir.literals import is_splat
from .index_expression import Index, constant, decide
from .index_maps import SOURCES, Indices, Start, concatenate, elementwise_operand

LONGEST_CHAIN = 40  # of instructions that is followed


def known_start(s: Start) -> Index | None:
    """A start index that is known to need no clamp; None where the program computes it."""
    index = _Values().of(s.value, s.indices)
    return index if index is not None and 0 <= index.low and index.high <= s.limit else None


def known_value(i: Instruction, indices: Indices) -> int | None:
    """The value of an element of an integer array, if it does not depend on inputs; None where it is not known."""
    index = _Values().of(i, indices)
    return index.low if index is not None and index.is_constant else None


def is_followed(i: Instruction) -> bool:
    """Whether what is known of an integer array, or of a select's predicate, may follow from the operands of this
    instruction. Nothing else is looked behind, so that kernels whose inputs are no such instructions depend on the
    members of their fusion alone."""
    return (
        i.opcode in ("iota", "constant", "concatenate", "select", "compare")
        or i.opcode in SOURCES
        or i.opcode in _RULES
    )


class _Values:
    """The elements that were requested, each computed once."""

    def __init__(self) -> None:
        self._values: dict[tuple[Instruction, Indices], Index | None] = {}

    def of(self, i: Instruction, indices: Indices) -> Index | None:
        """An element as an index, if it does not depend on inputs of the program and no step overflows."""
        key = i, indices
        if key not in self._values:
            if len(self._values) >= LONGEST_CHAIN or not is_followed(i):
                return None
            if not i.shape.is_array or not i.shape.element_type.is_integer:
                return None
            value = self._computed(i, indices)
            if value is not None:
                signed, bits = i.shape.element_type.kind == "signed", i.shape.element_type.bits - 1
                least, end = (-(1 << bits), 1 << bits) if signed else (0, 2 << bits)
                value = value if least <= value.low and value.high < end else None
            self._values[key] = value
        return self._values[key]

    def _computed(self, i: Instruction, indices: Indices) -> Index | None:
        if i.opcode == "iota":
            dimension: int = i.attributes["iota_dimension"]
            return indices[dimension]
        if i.opcode == "constant":
            values = np.asarray(i.attributes["literal"])
            if all(x.is_constant for x in indices):
                return constant(int(values[tuple(x.low for x in indices)]))
            return constant(int(values.flat[0])) if values.size and is_splat(values) else None
        if i.opcode in SOURCES:
            return self.of(i.operands[0], SOURCES[i.opcode](i, indices))
        if i.opcode == "concatenate":
            pieces = concatenate(i, indices)
            return self.of(pieces[0].operand, pieces[0].indices) if len(pieces) == 1 else None
        if i.opcode == "select":
            chosen = self._holds(i.operands[0], elementwise_operand(i.operands[0], indices))
            return None if chosen is None else self.of(i.operands[1 if chosen else 2], indices)
        rule = _RULES.get(i.opcode)
        if rule is None:
            return None
        operands = []
        for o in i.operands:
            operand = self.of(o, elementwise_operand(o, indices))
            if operand is None:
                return None
            operands.append(operand)
        return rule(operands)

    def _holds(self, i: Instruction, indices: Indices) -> bool | None:
        """The result of a comparison, if the ranges of its operands decide it."""
        while i.opcode in SOURCES:
            i, indices = i.operands[0], SOURCES[i.opcode](i, indices)
        if i.opcode != "compare" or i.attributes["direction"] not in _ORDERS:
            return None
        left, right = (self.of(o, indices) for o in i.operands)
        if left is None or right is None:
            return None
        swapped, bound, negated = _ORDERS[i.attributes["direction"]]
        answer = decide(right - left if swapped else left - right, bound)
        return answer != negated if isinstance(answer, bool) else None


# left < right is not left - right >= 0, and so on: (whether right - left is asked, the bound, whether it is not so).
_ORDERS = {"GE": (False, 0, False), "LT": (False, 0, True), "LE": (True, 0, False), "GT": (True, 0, True)}


def _product(x: Sequence[Index]) -> Index | None:
    a, b = x
    return b * a.low if a.is_constant else a * b.low if b.is_constant else None


def _quotient(x: Sequence[Index]) -> Index | None:
    a, b = x
    return a // b.low if b.is_constant and b.low > 0 and a.low >= 0 else None


def _remainder(x: Sequence[Index]) -> Index | None:
    a, b = x
    return a % b.low if b.is_constant and b.low > 0 and a.low >= 0 else None


def _larger(a: Index, b: Index) -> Index | None:
    return a if a.low >= b.high else b if b.low >= a.high else None


def _smaller(a: Index, b: Index) -> Index | None:
    return a if a.high <= b.low else b if b.high <= a.low else None


def _clamped(x: Sequence[Index]) -> Index | None:
    low, value, high = x
    least = _larger(low, value)
    return None if least is None else _smaller(least, high)


_RULES: dict[str, Callable[[Sequence[Index]], Index | None]] = {
    "add": lambda x: x[0] + x[1],
    "subtract": lambda x: x[0] - x[1],
    "negate": lambda x: -x[0],
    "convert": lambda x: x[0],
    "multiply": _product,
    "divide": _quotient,
    "remainder": _remainder,
    "maximum": lambda x: _larger(*x),
    "minimum": lambda x: _smaller(*x),
    "clamp": _clamped,
}
