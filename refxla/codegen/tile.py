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

FAR = 16  # elements from one term to the next, beyond which there are as many steps as sizes
LINE = 64  # bytes of a line of the cache
SHARED_TERMS = 128  # of a stretch, from which on the loop is shared


@dataclass(frozen=True)
class Loop:
    """sums[i][v] += left[i][k] * right[k][v] for all terms k of a stretch, in order.

    The sums are the `tile`, row after row. `element` is the C type of the right side and of sums, `left` that of the
    left side; `steps` are the distances of their terms (left, right) in elements, `spaces` the address spaces they lie
    in ("__global " or ""). A long step of the left side is an argument, so that loops with different ones are equal.
    With `fetches` each term brings a line of the cache nearer, of what is read later: rows of `lines` lines (a power of
    2), `apart` elements from each other, from pointer `ahead` on, beginning with line number `begin`.
    """

    tile: Tile
    element: str
    left: str
    steps: tuple[int, int]
    spaces: tuple[str, str]
    fetches: bool = False

    @property
    def function(self) -> str:
        """The C function's name, which tells one loop from another."""
        t = self.tile
        steps = f"{'far' if self.far else self.steps[0]}_{self.steps[1]}".replace("-", "m")
        spaces = "".join("g" if s else "p" for s in self.spaces) + ("_fetches" if self.fetches else "")
        return f"tile_{t.name}_{t.rows}_{t.vectors}_{t.bytes}_{self.left.replace(' ', '_')}_{steps}_{spaces}"

    @property
    def far(self) -> bool:
        """Whether the step of the left side is an argument, a long named `step`."""
        return abs(self.steps[0]) > FAR

    def call(self, rows: Sequence[str], right: str, terms: str) -> str:
        """The statement that adds a stretch to the sums at `tile`."""
        step = [str(self.steps[0])] if self.far else []
        return f"{self.function}({', '.join([*rows, right, terms, *step])}, tile{self.fetched});"

    @property
    def fetched(self) -> str:
        """The last arguments of a call: C variables of these names say what is fetched."""
        return ", ahead, apart, lines, begin" if self.fetches else ""

    @property
    def fetching(self) -> str:
        """The parameters for them."""
        element = f"__global const {self.element}*"
        return f", {element} const ahead, const int apart, const int lines, const int begin" if self.fetches else ""

    def text(self) -> str:
        """The function, without what says how it is compiled."""
        block, t = Block(), self.tile
        places = {f"c{i}_{v}": f"sums[{i * t.vectors + v}]" for i in range(t.rows) for v in range(t.vectors)}
        rows = ", ".join(f"{self.spaces[0]}const {self.left}* const p{i}" for i in range(t.rows))
        right = f"{self.spaces[1]}const {self.element}* const q"
        rest = f"const int terms, {'const long step, ' if self.far else ''}{t.vector}* const sums{self.fetching}"
        with block.scope(f"void {self.function}({rows}, {right}, {rest})"):
            block.line(f"typedef {t.vector} __attribute__((aligned(sizeof({self.element})))) vector;")
            for c, place in places.items():
                block.line(f"{t.vector} {c} = {place};")
            self.add(block, "0")
            for c, place in places.items():
                block.line(f"{place} = {c};")
        return block.text()

    def add(self, block: Block, before: str) -> None:
        """The loop itself, over `terms` terms at the pointers p0, p1, ... and q, into the variables c0_0, c0_1, ...; so
        many terms come before them."""
        t = self.tile
        if self.fetches:
            block.line(f"const int first_line = begin + ({before});")
        with block.scope("for (int k = 0; k < terms; ++k)"):
            if self.fetches:
                place = f"(((first_line + k) & ((1 << lines) - 1)) * ({LINE} / (int)sizeof({self.element})))"
                block.line(f"RX_FETCH(ahead + (long)((first_line + k) >> lines) * apart + {place});")
            for v in range(t.vectors):
                place = f"q + (long)k * {self.steps[1]} + {v * t.lanes}"
                block.line(f"const {t.vector} b{v} = *({self.spaces[1]}const vector*)({place});")
            for i in range(t.rows):
                term = f"({self.element})p{i}[(long)k * {'step' if self.far else self.steps[0]}]"
                block.line(f"const {t.vector} x{i} = ({t.vector})({term});")
                for v in range(t.vectors):
                    c = f"c{i}_{v}"
                    block.line(f"{c} = {t.multiply_add(f'x{i}', f'b{v}', c)};")
