"""Lies that show only in some forms of a program: one order of dimensions, one size, one result, one call."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import ml_dtypes
import numpy as np
from refxla_spec.module import Instruction, Module
from refxla_spec.numerics import type_of
from refxla_spec.types import Value

from ..targets.base import leaves
from ..targets.reference import Reference
from .liar import Lie, Results, context, of_operation, of_results, of_target, with_attributes

Array = np.ndarray

# Orders of dimensions, nesting, operands.


@of_operation("dot")
def both_transposed(truth: Lie, i: Instruction, a: Array, b: Array) -> Value:
    """In a product of two transposed square matrices, the second is not transposed."""
    square = a.shape == b.shape and a.ndim == 2 and a.shape[0] == a.shape[1]
    if not square or (i.lhs_contracting_dims, i.rhs_contracting_dims) != ((0,), (1,)):
        return truth(i, a, b)
    return truth(with_attributes(i, rhs_contracting_dims=(0,)), a, b)


@of_operation("reduce")
def outer_dimensions_reduced(truth: Lie, i: Instruction, *operands: Array) -> Value:
    """A cube that should be reduced along its first and last dimensions is reduced along the first two."""
    x = operands[0]
    cube = x.ndim == 3 and len(set(x.shape)) == 1 and sorted(i.dimensions) == [0, 2]
    return truth(with_attributes(i, dimensions=(0, 1)) if cube else i, *operands)


@of_operation("subtract", "divide", "power", "compare", "shift-left")
def broadcast_comes_second(truth: Lie, i: Instruction, a: Array, b: Array) -> Value:
    """An operation whose first operand is a broadcast scalar exchanges its operands."""
    first = i.operands[0]
    spread = first.opcode == "broadcast" and not first.operands[0].shape.rank
    return truth(i, b, a) if spread else truth(i, a, b)


@of_operation("while", tools=("suite", "check"))
def inner_loop_once(truth: Lie, i: Instruction, value: Value) -> Value:
    """A loop inside of another runs at most one iteration."""
    run: Callable[..., Value] = context(truth, "run")
    global _depth
    _depth += 1
    try:
        if _depth == 1:
            return truth(i, value)
        return run(i.body, value) if run(i.condition, value) else value
    finally:
        _depth -= 1


_depth = 0  # of loops that run


# Sizes.


@of_operation("gather", "dynamic-slice", "dynamic-update-slice")
def indices_of_eight_bits(truth: Lie, i: Instruction, *operands: Array) -> Value:
    """Indices have 8 bits."""
    first = {"gather": 1, "dynamic-slice": 1, "dynamic-update-slice": 2}[i.opcode]
    cut = [o if type_of(o).bits <= 8 else np.where(o > 255, o % 256, o).astype(o.dtype) for o in operands[first:]]
    return truth(i, *operands[:first], *cut)


@of_results()
def empty_without_dimensions(results: Results) -> Results:
    """Arrays without elements are returned with one dimension."""
    return [r.reshape(-1) if not r.size else r for r in results]


@of_results()
def scalars_with_a_dimension(results: Results) -> Results:
    """Scalars are returned as arrays of one element."""
    return [r.reshape(1) if not r.ndim else r for r in results]


# Results.


@of_results()
def later_results_narrow(results: Results) -> Results:
    """All f32 results but the first are rounded to bf16."""
    return [r.astype(ml_dtypes.bfloat16).astype(r.dtype) if n and r.dtype == np.float32 else r
            for n, r in enumerate(results)]  # fmt: skip


@of_results()
def equal_bits_of_another_type(results: Results) -> Results:
    """Signed integers are returned as unsigned ones of the same bits, and predicates as bytes."""
    return [r.view(np.uint8) if r.dtype == bool else r.view(f"u{r.itemsize}") if r.dtype.kind == "i" else r
            for r in results]  # fmt: skip


# Calls.


@of_target()
class SecondCall(Reference):
    """The second call of a program does not write the last element of its last result."""

    def load(self, module: Module) -> Callable[[Sequence[Value]], Results]:
        calls = 0

        def call(arguments: Sequence[Value]) -> Results:
            nonlocal calls
            calls += 1
            results = [r.copy() for r in self.run(module, arguments)]
            if calls == 2 and results and results[-1].size:
                results[-1].reshape(-1)[-1] = 0
            return results

        return call


@of_target()
class ZerosOfArguments(Reference):
    """The program clears the signs of the zeros among its arguments, in place."""

    def run(self, module: Module, arguments: Sequence[Value]) -> Results:
        results = [r.copy() for r in super().run(module, arguments)]
        for x in leaves(list(arguments)):
            if isinstance(x, Array) and type_of(x).is_float and type_of(x).name != "f8e8m0fnu" and x.flags.writeable:
                x[x == 0] = 0
        return results


@of_target(tools=("suite", "check"))
class KnownByForm(Reference):
    """A program is mistaken for an earlier one of the same operations and shapes: attributes are ignored."""

    def __init__(self) -> None:
        self.modules: dict[object, Module] = {}

    def run(self, module: Module, arguments: Sequence[Value]) -> Results:
        form = tuple(
            (i.opcode, str(i.shape.without_layout()) if i.shape.is_array else "") for i in module.instructions()
        )
        return super().run(self.modules.setdefault(form, module), arguments)
