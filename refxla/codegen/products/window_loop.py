"""The loop of a convolution's tile over the window, as a function that the convolutions of a program share.

Bounds of window elements are tested for a whole tile, and the tests depend only on the number of dimensions and on
their dilations: all sizes are arguments. So convolutions of all sizes share one function, which takes as long to
compile as three of them would otherwise.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass

from ..c_block import Block
from .micro_kernel import TermLoop


@dataclass(frozen=True)
class WindowLoop:
    """Adds the runs of a block of k to the sums of a tile; see implicit_gemm_rows.py for the runs.

    `loop` computes a run. For each spatial dimension, `bases` has the dilation of lhs and `checked` says whether
    elements of the window may be out of bounds. `joined`: the elements of the last dimension are contiguous in memory,
    and those inside for all rows are one run.
    """

    loop: TermLoop
    bases: tuple[int, ...]
    checked: tuple[bool, ...]
    joined: bool

    @property
    def function(self) -> str:
        """The C function's name, which identifies the loop."""
        dimensions = "".join(f"_{b}{'c' if c else 'i'}" for b, c in zip(self.bases, self.checked, strict=True))
        return f"window{dimensions}{'_joined' if self.joined else ''}_{self.loop.function}"

    @property
    def numbers(self) -> list[str]:
        """Its arguments for each dimension d: the elements from low{d} to high{d}; the terms of each; their distance in
        the window and (step{d}) in memory; the size of lhs; the positions of the tile's origins in a dilated lhs."""
        result = []
        for d, (base, checked) in enumerate(zip(self.bases, self.checked, strict=True)):
            result += [f"low{d}", f"high{d}", f"terms{d}", f"apart{d}", f"step{d}"]
            result += [f"size{d}"] if checked else []
            result += [f"rest{d}"] if base > 1 else []
        return result

    def call(self, left: str, right: str, numbers: dict[str, int | str], features: int, base: str, fresh: str) -> str:
        """The statement that calls it for the sums at `tile`, which start at zero if `fresh` holds; for segmented sums,
        `fresh` is the number of all terms instead. C arrays `at` and o0, o1, ... have the positions of the rows'
        origins in memory and in each dimension."""
        origins = [f"o{d}" for d in range(len(self.bases))]
        values = [str(numbers[name]) for name in self.numbers]
        values += [str(self.loop.steps[0])] if self.loop.far else []
        arguments = ", ".join([left, right, "at", *origins, *values, str(features), base, fresh])
        return f"{self.function}({arguments}, tile{self.loop.rest});"

    def text(self) -> str:
        """The function, without what says how it is compiled."""
        block, loop, t = Block(), self.loop, self.loop.tile
        origins = "".join(f", const int* const o{d}" for d in range(len(self.bases)))
        numbers = "".join(f", const {'long' if n.startswith('step') else 'int'} {n}" for n in self.numbers)
        left = f"{loop.spaces[0]}const {loop.left}* const left"
        right = f"{loop.spaces[1]}const {loop.element}* const right"
        numbers += ", const long step" if loop.far else ""
        how = "all" if loop.segmented else "fresh"
        rest = f"const int features, const long base, const int {how}, {t.vector}* const sums{loop.rest_parameters}"
        head = f"void {self.function}({left}, {right}, const long* const at{origins}{numbers}, {rest})"
        places = t.places("sums")
        with block.scope(head):
            block.line(f"typedef {t.vector} __attribute__((aligned(sizeof({loop.element})))) vector;")
            begins, begun = ("before", t.places("open")) if loop.segmented else ("!fresh", places)
            for c, place in begun.items():
                block.line(f"{t.vector} {c} = {begins} ? {place} : ({t.vector})(0);")
            if loop.segmented:
                block.line("int segment = 0;  // the one that is open, counted from the one that is so at first")
            for d in (d for d, c in enumerate(self.checked) if c):
                block.line(f"int least{d} = o{d}[0], most{d} = o{d}[0];")
                least = f"least{d} = o{d}[i] < least{d} ? o{d}[i] : least{d};"
                most = f"most{d} = o{d}[i] > most{d} ? o{d}[i] : most{d};"
                self._each_row(block, 1, least, most)
            self._runs(block)
            if loop.segmented:
                with block.scope("if (ends || (before + all - 1) >> shift != segment)"):
                    loop.close_segment(block, places)
            with block.scope("if (!ends)" if loop.segmented else ""):
                for c, place in begun.items():
                    block.line(f"{place} = {c};")
        return block.text()

    def _runs(self, block: Block) -> None:
        last = len(self.bases) - 1
        with ExitStack() as scopes:
            inside: list[str] = []
            for d, base in enumerate(self.bases):
                if d == last and self.joined:
                    self._joined(block, inside)
                    return
                scopes.enter_context(block.scope(f"for (int e{d} = low{d}; e{d} < high{d}; ++e{d})"))
                self._open_element(block, d, base, inside)
            self._run(block, "features", " && ".join(inside))

    def _open_element(self, block: Block, d: int, base: int, inside: list[str]) -> None:
        """Declares the distance of element e of dimension d from the origins; skips it if it is out of bounds for all
        rows."""
        if base > 1:
            block.line(f"const int f{d} = rest{d} + e{d} * apart{d};")
            block.line(f"if (f{d} % {base} != 0) continue;")
            block.line(f"const int s{d} = f{d} / {base};")
        else:
            block.line(f"const int s{d} = e{d} * apart{d};")
        if self.checked[d]:
            block.line(f"if (most{d} + s{d} < 0 || least{d} + s{d} >= size{d}) continue;")
            inside.append(f"least{d} + s{d} >= 0 && most{d} + s{d} < size{d}")

    def _joined(self, block: Block, inside: list[str]) -> None:
        """The last dimension: elements from..to are inside for all rows, if the outer dimensions are."""
        d = len(self.bases) - 1
        if not any(self.checked):
            block.line(f"const int e{d} = low{d}, s{d} = low{d};")
            self._run(block, f"(high{d} - low{d}) * features", "")
            return
        block.line(f"int e{d} = low{d}, from = low{d}, to = high{d};")
        if self.checked[d]:
            block.line(f"from = -least{d} > low{d} ? -least{d} : low{d};")
            block.line(f"to = size{d} - most{d} < high{d} ? size{d} - most{d} : high{d};")
        if inside:
            block.line(f"if (!({' && '.join(inside)})) to = from;")
        with block.scope(f"while (e{d} < high{d})"):
            block.line(f"const int s{d} = e{d};")
            block.line(f"const int next = e{d} == from && from < to ? to : e{d} + 1;")
            outside = f"most{d} + s{d} < 0 || least{d} + s{d} >= size{d}" if self.checked[d] else "0"
            with block.scope(f"if (!({outside}))"):
                self._run(block, f"(next - e{d}) * features", " && ".join([*inside, f"e{d} >= from", f"e{d} < to"]))
            block.line(f"e{d} = next;")

    def _run(self, block: Block, terms: str, whole: str) -> None:
        """A run. Unless condition `whole` holds ("": always), rows out of bounds read the start of lhs, which is valid
        memory, and keep their sums, so that the loop is the same and compiled only once."""
        loop, t, dimensions = self.loop, self.loop.tile, range(len(self.bases))
        before = " + ".join(f"(e{d} - low{d}) * terms{d}" for d in dimensions) or "0"
        moved = " + ".join(f"s{d} * step{d}" for d in dimensions) or "0"
        checks = [d for d in dimensions if self.checked[d]]
        with block.scope():
            block.line(f"const long moved = {moved};")
            block.line(f"{loop.spaces[1]}const {loop.element}* const q = right + (long)({before}) * {loop.steps[1]};")
            block.line(f"const int terms = {terms};")
            if whole:
                inside = " && ".join(f"(uint)(o{d}[i] + s{d}) < (uint)size{d}" for d in checks)
                block.line(f"const int whole = {whole};")
                block.line(f"int inside[{t.rows}];")
                block.line(f"long place[{t.rows}];")
                there = "place[i] = inside[i] ? at[i] + moved : base;"
                self._each_row(block, 0, f"inside[i] = whole || ({inside});", there)
            for i in range(t.rows):
                place = f"place[{i}]" if whole else f"at[{i}] + moved"
                block.line(f"{loop.spaces[0]}const {loop.left}* const p{i} = left + {place};")
            if not loop.segmented:
                self._add(block, before, whole)
                return
            # At the start of a segment, where the sum of the previous one is complete.
            block.line("int k0 = 0;")
            with block.scope("while (k0 < terms)"):
                block.line(f"const int term = before + ({before}) + k0;")
                with block.scope("if (term >> shift != segment)"):
                    loop.close_segment(block, t.places("sums"))
                    block.line("segment = term >> shift;")
                block.line("const int rest = ((segment + 1) << shift) - term;")
                block.line("const int k1 = rest < terms - k0 ? k0 + rest : terms;")
                self._add(block, before, whole, "k0", "k1")
                block.line("k0 = k1;")

    def _add(self, block: Block, before: str, whole: str, first: str = "0", end: str = "terms") -> None:
        """Terms `first` to `end` of a run; see _run."""
        loop, t = self.loop, self.loop.tile
        if not whole:
            loop.add(block, before, first, end)
            return
        if loop.segmented:
            block.line(f"{t.vector} saved[{t.rows * t.vectors}];")
        sums = list(t.places("saved" if loop.segmented else "sums").items())
        with block.scope("if (!whole)"):
            for c, place in sums:
                block.line(f"{place} = {c};")
        loop.add(block, before, first, end)
        with block.scope("if (!whole)"):
            for n, (c, place) in enumerate(sums):
                block.line(f"if (inside[{n // t.vectors}]) {place} = {c};")
            for c, place in sums:
                block.line(f"{c} = {place};")

    def _each_row(self, block: Block, first: int, *lines: str) -> None:
        """Statements for the rows i of the tile, from the first on."""
        # Vectors are hardly faster, and the compiler of Intel's runtime crashes with SIGILL, or loses sums.
        block.line("#pragma clang loop vectorize(disable) unroll(disable)")
        with block.scope(f"for (int i = {first}; i < {self.loop.tile.rows}; ++i)"):
            for line in lines:
                block.line(line)
