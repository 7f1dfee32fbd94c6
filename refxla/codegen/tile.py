"""The inner loop of a matrix product as a function of its own, which all products of a program share.

The loop is what takes a compiler longest. Where its stretches are long, so that a call and another trip of the sums
through memory cost next to nothing, a product calls it: equal loops, of the same tile and the same distances from one
term to the next, are then compiled once, whatever the sizes of the products are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .block import Block
from .blocking import Tile

SHARED_TERMS = 128  # of a stretch, from which on the loop is shared


@dataclass(frozen=True)
class Loop:
    """sums[i][v] += left[i][k] * right[k][v] for all terms k of a stretch, in order.

    The sums are the `tile`, row after row. `element` is the C type of the right side and of sums, `left` that of the
    left side; `steps` are the distances of their terms (left, right) in elements, `spaces` the address spaces they lie
    in ("__global " or "").
    """

    tile: Tile
    element: str
    left: str
    steps: tuple[int, int]
    spaces: tuple[str, str]

    @property
    def function(self) -> str:
        """The C function's name, which tells one loop from another."""
        t = self.tile
        steps = "_".join(str(s).replace("-", "m") for s in self.steps)
        spaces = "".join("g" if s else "p" for s in self.spaces)
        return f"tile_{t.name}_{t.rows}_{t.vectors}_{t.bytes}_{self.left.replace(' ', '_')}_{steps}_{spaces}"

    def call(self, rows: Sequence[str], right: str, terms: str, taking: Sequence[str] | None) -> str:
        """The statement that adds a stretch to the sums at `tile`; of the rows those take part whose condition in
        `taking` holds (None: all)."""
        if taking is None:
            taken = str((1 << self.tile.rows) - 1)
        else:
            taken = " | ".join(f"(({c}) ? {1 << i} : 0)" for i, c in enumerate(taking))
        return f"{self.function}({', '.join(rows)}, {right}, {terms}, tile, {taken});"

    def text(self) -> str:
        """The function, without what says how it is compiled."""
        block, t = Block(), self.tile
        places = {f"c{i}_{v}": f"sums[{i * t.vectors + v}]" for i in range(t.rows) for v in range(t.vectors)}
        rows = ", ".join(f"{self.spaces[0]}const {self.left}* const p{i}" for i in range(t.rows))
        right = f"{self.spaces[1]}const {self.element}* const q"
        rest = f"const int terms, {t.vector}* const sums, const int taken"
        with block.scope(f"void {self.function}({rows}, {right}, {rest})"):
            block.line(f"typedef {t.vector} __attribute__((aligned(sizeof({self.element})))) vector;")
            for c, place in places.items():
                block.line(f"{t.vector} {c} = {place};")
            with block.scope("for (int k = 0; k < terms; ++k)"):
                for v in range(t.vectors):
                    place = f"q + (long)k * {self.steps[1]} + {v * t.lanes}"
                    block.line(f"const {t.vector} b{v} = *({self.spaces[1]}const vector*)({place});")
                for i in range(t.rows):
                    term = f"({self.element})p{i}[(long)k * {self.steps[0]}]"
                    block.line(f"const {t.vector} x{i} = ({t.vector})({term});")
                    for v in range(t.vectors):
                        c = f"c{i}_{v}"
                        block.line(f"{c} = {t.multiply_add(f'x{i}', f'b{v}', c)};")
            for i in range(t.rows):
                with block.scope(f"if (taken & {1 << i})"):
                    for v in range(t.vectors):
                        block.line(f"sums[{i * t.vectors + v}] = c{i}_{v};")
        return block.text()
