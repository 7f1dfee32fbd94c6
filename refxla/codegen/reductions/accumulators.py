"""What the kernel of a reduction (reduction.py) is made of: loops over accumulators, and what they begin with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from refxla_spec.module import Instruction

from ...analysis.index_expression import Index, constant, variable
from .. import scalar
from ..elemental_rules import accumulator_types

if TYPE_CHECKING:
    from .reduction import _Reduction


class Loop:
    """A loop over lanes or columns that clang is asked not to unroll before it vectorises it; gives the index.

    `vector` is how many elements a vector has and how many of them are computed at once: of all lanes, so that the
    loop falls away and the accumulators stay in registers. (0, 0) leaves that to clang. A `c_type` of long spares clang
    the question whether what it computes for indices that the mask leaves out overflows.
    """

    def __init__(
        self, owner: _Reduction, first: str, end: str, size: int, vector: tuple[int, int] = (0, 0), c_type: str = "int"
    ) -> None:
        name = owner.elements.names.fresh("l")
        head = "" if end == "1" else f"for ({c_type} {name} = {first}; {name} < {end}; ++{name})"
        if owner.target.clang and head:
            asked = "vectorize_width({}) interleave_count({})".format(*vector) if vector[0] else ""
            owner.block.line(f"#pragma clang loop unroll(disable) {asked}".rstrip())
        self._scope = owner.block.scope(head)
        self._index = variable(name, 0, size - 1) if head else constant(0)

    def __enter__(self) -> Index:
        self._scope.__enter__()
        return self._index

    def __exit__(self, *error) -> None:
        self._scope.__exit__(*error)


class Slots:
    """A loop over the accumulators that hold totals: the first lane of a row, all columns of a strip."""

    def __init__(self, owner: _Reduction) -> None:
        t = owner.tree
        self._loop = None
        if t.style == "column":
            end = "" if owner.first != "0" else owner.end
            self._loop = Loop(owner, "0", end or f"{owner.end} - {owner.first}", t.strip)

    def __enter__(self) -> Index:
        return self._loop.__enter__() if self._loop else constant(0)

    def __exit__(self, *error) -> None:
        if self._loop:
            self._loop.__exit__(*error)


def neutral(opcode: str | None, name: str) -> str | None:
    """The literal of the neutral element of an operation on a type, or None where there is none that keeps all bits."""
    if opcode is None or name in ("c64", "c128") and opcode != "add":
        return None
    if name == "pred":
        return {"add": "0", "or": "0", "maximum": "0", "xor": "0"}.get(opcode, "1")
    is_float = not name[1:].isdigit() or name.startswith(("f", "b", "c"))
    if is_float:
        values = {"add": -0.0, "multiply": 1.0, "maximum": float("-inf"), "minimum": float("inf")}
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


def types_of(reduces: Sequence[Instruction]) -> list[str]:
    """The types of all accumulators of some reduces."""
    return [name for r in reduces for name in accumulator_types(r.attributes["to_apply"])]


def widest(types: Sequence[str]) -> int:
    """The bytes of the largest of some accumulators."""
    return max({"c128": 16, "c64": 8, "f64": 8, "s64": 8, "u64": 8}.get(name, 4) for name in types)
