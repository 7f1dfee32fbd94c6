"""Programs that keep the accuracy contract, at random: how large their errors typically are.

The bounds of bounds.py are certain, and for deep programs far too wide: errors that in truth cancel add up there, layer
by layer. The other half of the answer is a sample. `sample(module, args, seed)` runs the reference with every
elementary function moved by a random part of the ULPs that the contract allows it, and every floating-point sum by what
an order of its additions typically costs: u sqrt(n) (sum of squares of the terms)^(1/2). `typical_errors` says how far
several such runs lie from the reference. A compiled program is one more such run; where it lies many times farther away
than all of them, it is wrong, though it be within the certain bounds.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .accuracy import max_ulp
from .bounds import Bounds, of_errors, unit_roundoff
from .bounds_structured import sum_of_errors
from .compare import distance, ulp
from .interpreter import Interpreter, check_arguments
from .module import Instruction, Module
from .numerics import make_complex, round_to, type_of
from .types import Value
from .vectorize import binary_opcode

Array = np.ndarray


def sample(module: Module, args: Sequence[Value], seed: int) -> Value:
    """The value that one program which keeps the contract may give. The same seed gives the same value."""
    return Sampler(seed).run(module.entry, *check_arguments(module.entry, args))


def typical_errors(module: Module, args: Sequence[Value], reference: Value, samples: int = 4) -> Value:
    """For each element the largest distance of `samples` such programs from the reference's value, as f64.

    In tuples as the value; of integers it is 0 or inf.
    """

    def largest(expected: Value, runs: list[Value]) -> Value:
        if isinstance(expected, tuple):
            return tuple(largest(e, [r[k] for r in runs]) for k, e in enumerate(expected))
        return None if expected is None else np.max([distance(r, expected) for r in runs], axis=0)

    with np.errstate(all="ignore"):
        return largest(reference, [sample(module, args, seed) for seed in range(samples)])


class Sampler(Interpreter):
    """An interpreter whose roundings are random, within the contract."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._errors_drawn = np.random.default_rng(seed)
        self._errors = Bounds()

    def evaluate(self, instruction: Instruction, operands: list[Value]) -> Value:
        """The value of one instruction, moved by as much as a compiled one may typically be."""
        if instruction.opcode.startswith("batch-norm"):  # many roundings: as if its operands were moved by one
            with np.errstate(all="ignore"):
                return super().evaluate(instruction, [self._moved(o, ulp(o)) for o in operands])
        value = super().evaluate(instruction, operands)
        with np.errstate(all="ignore"):
            size = self._size(instruction, operands, value)
            return value if size is None else self._moved(value, size)

    def _size(self, i: Instruction, operands: list[Value], value: Value) -> Array | None:
        """The typical size of the errors that this instruction makes itself, or None if it makes none."""
        if isinstance(value, tuple) or value is None or not operands or isinstance(operands[0], tuple):
            return None
        element_type = type_of(value)
        if not (element_type.is_float or element_type.is_complex):
            return None
        allowed = max_ulp(i.opcode, type_of(operands[-1]).name)
        if allowed:
            return allowed * ulp(value)
        count, squares = self._terms(i, operands, value)
        return None if squares is None else unit_roundoff(element_type) * np.sqrt(count * squares)

    def _terms(self, i: Instruction, operands: list[Array], value: Array) -> tuple[Array | float, Array | None]:
        """(number of terms, sum of their squares) of each sum that a summing instruction computes."""
        if i.opcode == "reduce":
            if binary_opcode(i.to_apply) != "add":
                return 0, None
            squares = (np.abs(operands[0]).astype(np.float64) ** 2).sum(tuple(i.dimensions))
            return operands[0].size / max(1, value.size), squares
        if i.opcode in ("dot", "convolution"):
            products = np.multiply(*(float(max(1, o.size)) for o in operands)) / max(1, value.size)
            squared = [np.abs(o).astype(np.float64) ** 2 for o in operands]
            return np.sqrt(products), self._errors.evaluate_errors(of_errors(i, (True, True)), squared)
        if i.opcode in ("reduce-window", "scatter") and binary_opcode(i.to_apply) == "add":
            j, carried = sum_of_errors(i)
            squared = [np.abs(o).astype(np.float64) ** 2 if c else o for o, c in zip(operands, carried, strict=True)]
            ones = [np.ones(o.shape) if c else o for o, c in zip(operands, carried, strict=True)]
            return self._errors.evaluate_errors(j, ones) - 1, self._errors.evaluate_errors(j, squared)
        return 0, None

    def _moved(self, value: Array, size: Array) -> Array:
        element_type = type_of(value)
        parts = [value.real, value.imag] if element_type.is_complex else [value]
        size = np.where(np.isfinite(size), size, 0) / np.sqrt(len(parts))
        parts = [p.astype(np.longdouble) + size * self._errors_drawn.uniform(-1, 1, value.shape) for p in parts]
        moved = round_to(make_complex(*parts) if element_type.is_complex else parts[0], element_type)
        return np.where(value == 0, value, moved)  # what is exactly zero is zero, and keeps its sign
