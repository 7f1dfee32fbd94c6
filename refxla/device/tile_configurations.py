"""How a matrix product is cut into tiles and blocks, if that is chosen by measuring and not by the emitters' rules.

No configuration changes a bit of the result: the terms of each element are added in the same order with any blocking
(contraction_order.py). This file has the search space of `refxla.compile(..., tune=True)`, and the key under which the
result is stored; the search itself is in refxla/compiler/autotuner.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from refxla_spec.module import Computation, Instruction

from ..ir.plan import Fusion


@dataclass(frozen=True)
class TileConfiguration:
    """The parameters of the emitters of products; None leaves one to their rules.

    `tile` is (rows, vectors) of the part of the result in registers; `rows` and `columns` are those of the block of the
    result that an item computes, rounded up to whole tiles; `terms` is the length of a block of the contraction;
    `panels` says how an item reads the right side: "packed" by an earlier stage, "local" (the item packs its own),
    "direct" (in place). If a product cannot follow a parameter, such as reading a badly laid out right side directly,
    the rules decide.
    """

    tile: tuple[int, int] | None = None
    rows: int | None = None
    columns: int | None = None
    terms: int | None = None
    panels: str | None = None

    def __str__(self) -> str:
        tile = () if self.tile is None else (f"tile {self.tile[0]} x {self.tile[1]}",)
        others = (f"{k} {v}" for k, v in vars(self).items() if k != "tile" and v is not None)
        return ", ".join((*tile, *others)) or "the rules"


# The candidates, one field after the other, each starting from the best so far.
SPACE = {
    "tile": ((6, 2), (6, 4), (8, 2), (8, 3), (4, 4), (4, 6), (4, 3), (3, 8), (12, 1)),
    "panels": ("packed", "local", "direct"),
    "terms": (128, 256, 512, 1024, 4096),
    "columns": (16, 32, 64, 128, 256),
    "rows": (12, 24, 48, 96, 192),
}


def neighbours(configuration: TileConfiguration, field: str) -> Iterator[TileConfiguration]:
    """The configurations that differ from this one in one field."""
    for value in (None, *SPACE[field]):
        if getattr(configuration, field) != value:
            changed: dict[str, Any] = {field: value}
            yield replace(configuration, **changed)


def configuration_for(fusion: Fusion, configurations: Mapping[str, TileConfiguration]) -> TileConfiguration:
    """The target's configuration for a fusion's hero; one that leaves everything to the rules if it has none."""
    return configurations.get(signature(fusion), _NONE) if configurations else _NONE


_NONE = TileConfiguration()


def product_of(fusion: Fusion) -> tuple[list[Instruction], list[Instruction]]:
    """The computation that a configuration is for: the inputs that the hero depends on, and the members, operands
    first, with the hero at the end. The epilogue does not matter."""
    inputs, needed, waiting = set(fusion.inputs), set(), [fusion.hero]
    while waiting and (i := waiting.pop()) is not None:
        if i not in needed:
            needed.add(i)
            waiting.extend(() if i in inputs else i.operands)
    members = [i for i in fusion.instructions if i in needed and i not in inputs]
    return [i for i in fusion.inputs if i in needed], members


def signature(fusion: Fusion) -> str:
    """The signature of a product: its operations with shapes and attributes, but without names."""
    inputs, members = product_of(fusion)
    number = {i: str(n) for n, i in enumerate((*inputs, *members))}
    lines = [f"input {i.shape.without_layout()}" for i in inputs]
    for i in members:
        attributes = " ".join(f"{k}={_text(v)}" for k, v in sorted(i.attributes.items()) if k != "literal")
        operands = ",".join(number[o] for o in i.operands)
        lines.append(f"{i.opcode} {i.shape.without_layout()} {operands} {attributes}".rstrip())
    return "; ".join(lines)


def _text(value: object) -> str:
    return value.root.opcode if isinstance(value, Computation) else str(value)
