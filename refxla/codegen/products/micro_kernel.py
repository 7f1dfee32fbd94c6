"""The inner loop of a matrix product as a function of its own, which all products of a program share.

The loop takes most of the compile time. If it runs over many terms, so that a call and storing the sums in memory cost
next to nothing, a product calls it as a function: equal loops, with the same tile and the same distances of terms, are
then compiled once, for products of all sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from ...device.description import LINE
from ..c_block import Block
from ..sums import SegmentedSum
from .tile import Tile

SHARED_ROWS = 32  # terms of a run, from which on tiles are a shared function, if rows are at a constant distance
FAR = 16  # elements from one term to the next, beyond which steps differ between all sizes
SHARED_TERMS = 128  # of a run, from which on the loop is shared


@dataclass(frozen=True)
class TermLoop:
    """sums[i][v] += left[i][k] * right[k][v] for all terms k of a run of terms, in order.

    The sums are the `tile`, row by row. `element` is the C type of the right side and of sums, `left` that of the left
    side; `steps` are the distances of their terms (left, right) in elements, `spaces` the address spaces they lie in
    ("__global " or ""). A long step of the left side is an argument, so that loops with different ones are equal. With
    `fetches` each term prefetches one cache line of later reads: rows of `lines` lines (a power of 2), `apart` elements
    from each other, starting at pointer `ahead` with line number `begin`.

    With `segmented` the sums are those of whole segments (contraction_order.py), of 2^`shift` terms each; the sum of
    the incomplete segment is at `open`. `before` is the number of its terms before the run; `ends` says whether a
    segment ends with the run.
    """

    tile: Tile
    element: str
    left: str
    steps: tuple[int, int]
    spaces: tuple[str, str]
    fetches: bool = False
    segmented: bool = False

    @property
    def function(self) -> str:
        """The C function's name, which identifies the loop."""
        t = self.tile
        steps = f"{'far' if self.far else self.steps[0]}_{self.steps[1]}".replace("-", "m")
        spaces = "".join("g" if s else "p" for s in self.spaces) + ("_fetches" if self.fetches else "")
        spaces += "_segmented" if self.segmented else ""
        return f"tile_{t.label}_{t.rows}_{t.vectors}_{t.bytes}_{self.left.replace(' ', '_')}_{steps}_{spaces}"

    @property
    def far(self) -> bool:
        """Whether the step of the left side is an argument, a long named `step`."""
        return abs(self.steps[0]) > FAR

    def call(self, rows: Sequence[str], right: str, terms: str) -> str:
        """The statement that adds a run to the sums at `tile`."""
        step = [str(self.steps[0])] if self.far else []
        return f"{self.function}({', '.join([*rows, right, terms, *step])}, tile{self.rest});"

    @property
    def rest(self) -> str:
        """The last arguments of a call: C variables of these names say where segments end and what is prefetched."""
        return f"{', before, shift, ends, open_tile' if self.segmented else ''}{self.prefetch_arguments}"

    @property
    def rest_parameters(self) -> str:
        """The parameters for them."""
        return f"{self.segmenting}{self.fetching}"

    @property
    def segmenting(self) -> str:
        """The parameters that say where segments end."""
        if not self.segmented:
            return ""
        return f", const int before, const int shift, const int ends, {self.tile.vector}* const open"

    @property
    def prefetch_arguments(self) -> str:
        """The arguments that say what is prefetched."""
        return ", ahead, apart, lines, begin" if self.fetches else ""

    @property
    def fetching(self) -> str:
        """The parameters that say what is prefetched."""
        element = f"__global const {self.element}*"
        return f", {element} const ahead, const int apart, const int lines, const int begin" if self.fetches else ""

    def text(self) -> str:
        """The function, without what says how it is compiled."""
        block, t = Block(), self.tile
        places = t.places("sums")
        rows = ", ".join(f"{self.spaces[0]}const {self.left}* const p{i}" for i in range(t.rows))
        right = f"{self.spaces[1]}const {self.element}* const q"
        rest = f"const int terms, {'const long step, ' if self.far else ''}{t.vector}* const sums{self.rest_parameters}"
        with block.scope(f"void {self.function}({rows}, {right}, {rest})"):
            block.line(f"typedef {t.vector} __attribute__((aligned(sizeof({self.element})))) vector;")
            if self.segmented:
                self.add_segments(block, places, t.places("open"))
            else:
                t.open_offsets(block, self.right("{v}"), "terms")
                for c, place in places.items():
                    block.line(t.start(c, place))
                self.add(block, "0")
                for c, place in places.items():
                    block.line(f"{place} = {c};")
        return block.text()

    def right(self, vector: str) -> str:
        """The C lvalue of a vector of the right side at term k."""
        return f"*({self.spaces[1]}const vector*)(q + (long)k * {self.steps[1]} + {vector} * {self.tile.lanes})"

    def add_segments(self, block: Block, sums: dict[str, str], open_sums: dict[str, str]) -> None:
        """Declares the variables c0_0, c0_1, ... and adds all terms of a run to them, segment by segment; the arguments
        are C text for the sums of whole segments, and for those of the incomplete one."""
        for c, place in open_sums.items():
            block.line(f"{self.tile.vector} {c} = before ? {place} : ({self.tile.vector})(0);")
        block.line("int k0 = 0;")
        with block.scope("while (k0 < terms)"):
            block.line("const int rest = (1 << shift) - ((before + k0) & ((1 << shift) - 1));")
            block.line("const int k1 = rest < terms - k0 ? k0 + rest : terms;")
            self.add(block, "0", "k0", "k1")
            with block.scope("if (k1 < terms || ends)"):
                self.close_segment(block, sums)
            block.line("k0 = k1;")
        with block.scope("if (!ends)"):
            for c, place in open_sums.items():
                block.line(f"{place} = {c};")

    def close_segment(self, block: Block, sums: dict[str, str]) -> None:
        """Adds the sum of a segment to those of the segments before it, and starts the next one."""
        for c, place in sums.items():
            SegmentedSum.of_vectors(self.tile.vector, place, c).close(block)

    def add(self, block: Block, before: str, first: str = "0", end: str = "terms") -> None:
        """The loop itself, over the terms from `first` to `end` at the pointers p0, p1, ... and q, into the variables
        c0_0, c0_1, ...; so many terms come before those at the pointers."""
        t = self.tile
        if self.fetches:
            block.line(f"const int first_line = begin + ({before});")
        with block.scope(f"for (int k = {first}; k < {end}; ++k)"):
            if self.fetches:
                place = f"(((first_line + k) & ((1 << lines) - 1)) * ({LINE} / (int)sizeof({self.element})))"
                block.line(f"RX_PREFETCH(ahead + (long)((first_line + k) >> lines) * apart + {place});")
            for v in range(t.vectors):
                block.line(f"const {t.vector} b{v} = {self.right(str(v))};")
            for i in range(t.rows):
                term = f"({self.element})p{i}[(long)k * {'step' if self.far else self.steps[0]}]"
                block.line(f"const {t.vector} x{i} = ({t.vector})({term});")
                for v in range(t.vectors):
                    c = f"c{i}_{v}"
                    block.line(f"{c} = {t.multiply_add(f'x{i}', f'b{v}', c)};")


@dataclass(frozen=True)
class Tiles:
    """The tiles of a panel, from top to bottom, as a function that products share.

    The rows of the left side lie `row` elements apart or, where `strip` is not 0, in strips of `strip` rows, which
    begin `row` elements apart and have adjacent rows: these are counted from row `first` on. A tile that is not whole
    reads its last row again. Each tile prefetches as its `loop` says: `most` lines, starting with line number `start`
    for the first tile, of `fetched` in all.
    """

    loop: TermLoop
    strip: int

    @property
    def function(self) -> str:
        """The C function's name."""
        return f"{f'strips_{self.strip}_' if self.strip else ''}{self.loop.function.replace('tile', 'tiles', 1)}"

    def call(
        self, left: str, row: int, first: str, rows: str, right: str, terms: str, fresh: str, sums: str, rest: str
    ) -> str:
        """The statement that calls it. `fresh`: whether the sums start at zero, unless they are segmented; `rest`: the
        last arguments, of a loop that is segmented or prefetches."""
        arguments = [left, str(row), *([first] if self.strip else []), rows, right, terms]
        arguments += [str(self.loop.steps[0])] if self.loop.far else []
        arguments += [] if self.loop.segmented else [fresh]
        return f"{self.function}({', '.join([*arguments, sums, *([rest] if rest else [])])});"

    def text(self) -> str:
        """The function, without what says how it is compiled."""
        block, loop, t = Block(), self.loop, self.loop.tile
        names = [f"const {loop.left}* const left", "const long row", *(["const int first"] if self.strip else [])]
        names[0] = loop.spaces[0] + names[0]
        names += ["const int rows", f"{loop.spaces[1]}const {loop.element}* const q", "const int terms"]
        names += ["const long step"] if loop.far else []
        names += [] if loop.segmented else ["const int fresh"]
        names += [f"{t.vector}* const sums{loop.segmenting}"]
        if loop.fetches:
            names += [f"__global const {loop.element}* const ahead", "const int apart", "const int lines"]
            names += ["const int start", "const int most", "const int fetched"]
        scopes = ExitStack()
        with scopes:
            scopes.enter_context(block.scope(f"void {self.function}({', '.join(names)})"))
            block.line(f"typedef {t.vector} __attribute__((aligned(sizeof({loop.element})))) vector;")
            t.open_offsets(block, loop.right("{v}"), "terms")
            scopes.enter_context(block.scope(f"for (int i = 0; i < rows; i += {t.rows})"))
            block.line(f"{t.vector}* const tile = sums + i * {t.vectors};")
            places = t.places("tile")
            if not loop.segmented:
                for c, place in places.items():
                    block.line(t.start(c, f"fresh ? ({t.vector})(0) : {place}"))
            for i in range(t.rows):
                at = f"(i + {i} < rows ? i + {i} : rows - 1)"
                place = f"{at} * row"
                if self.strip:
                    block.line(f"const uint m{i} = (uint)(first + {at});")
                    place = f"m{i} / {self.strip}u * row + m{i} % {self.strip}u"
                block.line(f"{loop.spaces[0]}const {loop.left}* const p{i} = left + {place};")
            if loop.fetches:
                # After all that is to be fetched is no more than a tile's part, again and again. (A choice of `apart`,
                # or of where to begin, by whether there is something to fetch ends Intel's compiler.)
                block.line(f"const int next = start + i / {t.rows} * most;")
                block.line("const int begin = next < fetched ? next : fetched;")
            if loop.segmented:
                block.line(f"{t.vector}* const open_tile = open + i * {t.vectors};")
                loop.add_segments(block, places, t.places("open_tile"))
            else:
                loop.add(block, "0")
                for c, place in places.items():
                    block.line(f"{place} = {c};")
        return block.text()
