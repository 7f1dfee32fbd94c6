"""The accumulators of a reduce: their initial values, and how values are combined into them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from refxla_spec.module import Instruction

from ...analysis.accumulation import accumulator_types, commutative_opcode
from ...analysis.index_expression import Index
from .. import scalar
from ..elemental_rules import combine, rounded
from ..index_printer import c_of
from .dataflow import inputs_and_initial_values
from .kernel_body import KernelBody

# Emits, or collects for later, the fill of an array: (element type, array, C expression of the value).
Fill = Callable[[str, str, str], None]


@dataclass(frozen=True)
class Accumulators:
    """The C variables that accumulate a reduce: a name for each of its results. With a `count` of 1 they are scalars,
    otherwise arrays or pointers with so many elements, one for each lane or column. `starts` are the C expressions of
    their initial values."""

    reduce: Instruction
    names: tuple[str, ...]
    starts: tuple[str, ...]
    count: int

    def at(self, index: Index | str) -> list[str]:
        """The accumulators of a lane or column."""
        place = c_of(index) if isinstance(index, Index) else index
        return list(self.names) if self.count == 1 else [f"{name}[{place}]" for name in self.names]


def types(reduce: Instruction) -> tuple[str, ...]:
    """The element types of a reduce's accumulators."""
    return accumulator_types(reduce.attributes["to_apply"])


def declare(
    body: KernelBody, reduce: Instruction, count: int, fill: Fill | None = None, arrays: Sequence[str] = ()
) -> Accumulators:
    """Declares so many accumulators for each result of a reduce, as local variables or as pointers to the `arrays`.

    They start as the neutral element or, if there is none, as the initial value, which may then be combined several
    times (passes/init_value_isolation.py makes that harmless). If `fill` is given, it emits this for each array.
    """
    reducer, names, starts = reduce.attributes["to_apply"], [], []
    for n, (name, initial) in enumerate(zip(types(reduce), inputs_and_initial_values(reduce)[1], strict=True)):
        start = neutral_element(commutative_opcode(reducer), name)
        if start is None:
            start = body.elements.value(initial, (), body.block)
        names.append(body.fresh("acc"))
        starts.append(start)
        c_type = scalar.register_type(name)
        if count == 1:
            body.block.line(f"{c_type} {names[-1]} = {start};")
            continue
        if arrays:
            body.global_only = True
            body.block.line(f"__global {c_type}* {names[-1]} = {arrays[n]};")
        else:
            body.block.line(f"{c_type} {names[-1]}[{count}] __attribute__((aligned(64)));")
        if fill is not None:
            fill(name, names[-1], start)
        else:
            body.block.line(f"for (int l = 0; l < {count}; ++l) {names[-1]}[l] = {start};")
    return Accumulators(reduce, tuple(names), tuple(starts), count)


def starts_neutral(reduce: Instruction) -> bool:
    """Whether accumulators start from the neutral element, so that the initial value has to be combined at the end."""
    return neutral_element(commutative_opcode(reduce.attributes["to_apply"]), types(reduce)[0]) is not None


def selects(reduce: Instruction) -> bool:
    """Whether several instructions combine two values: a maximum or minimum selects NaNs and zeros, too."""
    return commutative_opcode(reduce.attributes["to_apply"]) not in ("add", "multiply", "and", "or", "xor")


def has_segments(reduce: Instruction) -> bool:
    """Whether the sums of a reduce's segments are added to each other (analysis/reduction_order.py): if it is a sum of
    floats."""
    return commutative_opcode(reduce.attributes["to_apply"]) == "add" and types(reduce)[0][0] in "fcb"


def combine_into(
    body: KernelBody, reduce: Instruction, places: Sequence[str], values: Sequence[str], starts: Sequence[str] = ()
) -> None:
    """Combines the `values` into the `places`, C lvalues; with `starts`, combines those and the values, and stores the
    results in the places."""
    e, block = body.elements, body.block
    names = types(reduce)
    loads = starts or [scalar.from_array(name, place) for name, place in zip(names, places, strict=True)]
    accumulated = [e.assign(name, value, block) for name, value in zip(names, loads, strict=True)]
    results = combine(e, reduce.attributes["to_apply"], (*accumulated, *values), block)
    for name, place, result in zip(names, places, results, strict=True):
        block.line(scalar.to_array(name, place, result))


def initial_values(body: KernelBody, reduce: Instruction) -> list[str]:
    """The C values of a reduce's initial values."""
    return [body.elements.value(o, (), body.block) for o in inputs_and_initial_values(reduce)[1]]


def finished(body: KernelBody, reduce: Instruction, initial: Sequence[str], totals: Sequence[str]) -> Sequence[str]:
    """The results of a reduce: its totals, combined with the initial values unless they have been, and rounded."""
    e, reducer, block = body.elements, reduce.attributes["to_apply"], body.block
    if starts_neutral(reduce):
        totals = combine(e, reducer, (*initial, *totals), block)
    return rounded(e, reducer, totals, block)


def neutral_element(opcode: str | None, name: str) -> str | None:
    """The literal of the neutral element of an operation on a type, or None if there is none that preserves all
    bits."""
    if opcode is None or name in ("c64", "c128") and opcode != "add":
        return None
    if name == "pred":
        return {"add": "0", "or": "0", "maximum": "0", "xor": "0"}.get(opcode, "1")
    is_float = not name[1:].isdigit() or name.startswith(("f", "b", "c"))
    if is_float:
        values: dict[str, complex] = {"add": -0.0, "multiply": 1.0, "maximum": float("-inf"), "minimum": float("inf")}
        if name in ("c64", "c128"):
            values = {"add": complex(-0.0, -0.0)}
        return scalar.literal(name, values[opcode]) if opcode in values else None
    bits, signed = int(name[1:]), name.startswith("s")
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    values = {
        "add": 0,
        "multiply": 1,
        "maximum": low,
        "minimum": high,
        "and": -1 if signed else high,
        "or": 0,
        "xor": 0,
    }
    return scalar.literal(name, values[opcode])
