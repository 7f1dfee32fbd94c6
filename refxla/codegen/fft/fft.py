"""The kernels of kind "fft" for CPUs: one for each stage of a transform (analysis/fft_plan.py).

An item computes several vectors of lanes, one after the other, in scratch memory of its own that stays in a cache:
it loads them, runs the passes from one half of that memory to the other and back, and stores them.
"""

from __future__ import annotations

from math import prod
from typing import Any

from ...analysis.fft_plan import Strides
from ...device.description import LINE, Target
from ...ir.plan import Argument, Fusion, Kernel
from . import edges, lanes, passes
from .passes import UNROLLED
from .stage_emitter import StageEmitter, kernels

ITEMS_PER_CORE = 4  # of a stage with enough groups
MOST_SCRATCH = 1 << 26  # bytes for all items, unless the cores need more
COLUMNS, ROWS, NEITHER = "columns", "rows", "neither"  # how the lanes of a vector lie in memory
ROW_PART = 1 << 12  # complex numbers that an item separates or joins


def emit(fusion: Fusion, target: Target) -> tuple[Kernel, ...]:
    """The kernels of a transform."""
    return kernels(fusion, target, _VectorStage)


def _direction(strides: Strides, whole: bool) -> str:
    """Whether lanes are adjacent in memory (if there is a `whole` vector of them), or the elements of each lane."""
    if strides.lane == 1 and whole:
        return COLUMNS
    return ROWS if strides.element == 1 else NEITHER


class _VectorStage(StageEmitter):
    """A stage whose items compute vectors of lanes."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.helpers: dict[str, None] = {}

    def kernel(self) -> Kernel:
        """The kernel itself."""
        items = self._vectors() if self.stage.passes else self._numbers()
        return Kernel(
            self.name,
            self.block.text(),
            tuple(self.arguments),
            items,
            wide_vectors=True,
            helpers=tuple(self.helpers),
            global_only=True,
        )

    def _call(self, text: str, *arguments: object) -> None:
        """The statement that calls a function with this text."""
        self.helpers[text] = None
        name = text.split("(", 1)[0].split()[-1]
        self.block.line(f"{name}({', '.join(map(str, arguments))});")

    # -- stages of passes --------------------------------------------------------------------------------------

    def _vectors(self) -> int:
        """Emits the loop over the vectors of an item. Returns the number of items."""
        stage, p, block = self.stage, self.parts, self.block
        groups = -(-stage.lanes // p.lanes)
        units = stage.outer * groups
        width = p.lanes * p.dtype.itemsize
        # One more line, so that reads and writes do not compete for the same cache sets.
        vectors = 2 * max(stage.length + (stage.real != ""), stage.convolution) + LINE // width
        own = 2 * vectors * width  # bytes of scratch memory of an item
        most = max(self.target.compute_units, min(ITEMS_PER_CORE * self.target.compute_units, MOST_SCRATCH // own))
        per_item = -(-units // min(units, most))
        items = -(-units // per_item)
        source, target = self.place(stage.source, False), self.place(stage.target, True)
        scratch = Argument("scratch", p.vector, bytes=items * own, scratch=self.work)
        block.line(f"__global {p.vector}* const x = {self.pointer(scratch)} + item * {2 * vectors};")
        block.line(f"__global {p.vector}* const y = x + {vectors};")
        tables = self.pass_tables()
        end = f"(item + 1) * {per_item} < {units} ? (item + 1) * {per_item} : {units}"
        block.line(f"const int end = {end};")
        with block.scope(f"for (int unit = item * {per_item}; unit < end; ++unit)"):
            block.line(f"const int group = unit / {groups}, vector = unit % {groups}, lane = vector * {p.lanes};")
            block.line(f"const int valid = {stage.lanes} - lane < {p.lanes} ? {stage.lanes} - lane : {p.lanes};")
            reads, writes = (f"2 * ({a.outer}l * group + {a.lane}l * lane)" for a in (stage.reads, stage.writes))
            block.line(f"__global const {p.scalar}* const from = {source} + {reads};")
            block.line(f"__global {p.scalar}* const to = {target} + {writes};")
            if stage.lanes < p.lanes:
                self._unit(tables, whole=False)
            else:
                with block.scope(f"if (valid == {p.lanes})" if stage.lanes % p.lanes else ""):
                    self._unit(tables, whole=True)
                if stage.lanes % p.lanes:
                    with block.scope("else"):
                        self._unit(tables, whole=False)
        return items

    def _unit(self, tables: list[tuple[str, str]], whole: bool) -> None:
        """Emits the transforms in the lanes of a vector, which are all valid if it is a `whole` one."""
        stage, p, radices = self.stage, self.parts, self.stage.radices
        reads, writes = _direction(stage.reads, whole), _direction(stage.writes, whole)
        several = len(radices) > 1 and not stage.convolution
        first = several and reads == COLUMNS and radices[0] <= UNROLLED and stage.real != "join"
        final = several and writes == COLUMNS and radices[-1] <= UNROLLED and stage.real != "separate"
        final = final and not stage.twiddles
        divided = [p.literal(stage.divisor)] if stage.divisor != 1 else []
        if first:
            text, apart = edges.first(radices[0], p, stage.swaps[0]), f"{stage.reads.element}l"
            self._call(text, "from", apart, "x", stage.length // radices[0], tables[0][0])
        else:
            self._load(reads)
        if stage.convolution:
            here = self._convolution(tables)
        else:
            here = self._passes("x", tables, int(first), len(radices) - final)
        if final:
            text, apart = edges.final(radices[-1], p, stage.swaps[1], bool(divided)), f"{stage.writes.element}l"
            self._call(text, here, stage.length // radices[-1], "to", apart, *divided)
            return
        if stage.twiddles:
            self._rotate(here)
        if stage.real == "separate":
            self._call(lanes.real_pass(p, False, True), here, stage.length, self.real_table(), 0)
        self._store(writes if whole else NEITHER, here, divided)

    def _passes(self, here: str, tables: list[tuple[str, str]], first: int, end: int) -> str:
        """Emits the passes from number `first` to `end` - 1. Returns the C pointer to the results."""
        radices = self.stage.radices
        for number in range(first, end):
            (w, roots), s, m = tables[number], prod(radices[:number]), prod(radices[number + 1 :])
            there = "x" if here == "y" else "y"
            arguments: list[object] = [here, there, *([s] if m == 1 else [m, s, w]), *([roots] if roots else [])]
            self._call(passes.function(radices[number], self.parts, m == 1), *arguments)
            here = there
        return here

    def _convolution(self, tables: list[tuple[str, str]]) -> str:
        """Emits the transform of x as a convolution. Returns the C pointer to the results."""
        n, size, count = self.stage.length, self.stage.convolution, len(tables)
        chirp, response = self.convolution_tables()
        scale = lanes.scale(self.parts)
        self._call(scale, "x", n, size, chirp, 0, 0)
        here = self._passes("x", tables, 0, count)
        self._call(scale, here, size, size, response, 0, 1)  # the next passes are the inverse
        here = self._passes(here, tables, 0, count)
        self._call(scale, here, n, n, chirp, 1, 0)
        return here

    def _load(self, direction: str) -> None:
        stage, p = self.stage, self.parts
        join, strides = stage.real == "join", self.stage.reads
        n, swap = stage.length + join, int(stage.swaps[0] and not join)
        if direction == COLUMNS:
            self._call(lanes.load_columns(p), "from", f"{strides.element}l", n, "x", swap)
        elif direction == ROWS and n >= p.lanes // 4:
            self._call(lanes.load_rows(p), "from", f"{strides.lane}l", n, "valid", "x", swap)
        else:
            steps = f"{strides.lane}l", f"{strides.element}l"
            self._call(lanes.load_lanes(p), "from", *steps, n, "valid", f"(__global {p.scalar}*)x", swap)
        if join:
            self._call(lanes.real_pass(p, True, True), "x", stage.length, self.real_table(), int(stage.swaps[0]))

    def _store(self, direction: str, array: str, divided: list[str]) -> None:
        stage, p, strides = self.stage, self.parts, self.stage.writes
        n, swap = stage.length + (stage.real == "separate"), int(stage.swaps[1])
        if direction == COLUMNS:
            self._call(lanes.store_columns(p, bool(divided)), array, n, "to", f"{strides.element}l", swap, *divided)
        elif direction == ROWS and n >= p.lanes // 4:
            self._call(lanes.store_rows(p, bool(divided)), array, n, "to", f"{strides.lane}l", swap, *divided)
        else:
            steps = f"{strides.lane}l", f"{strides.element}l"
            source = f"(__global const {p.scalar}*){array}"
            self._call(lanes.store_lanes(p, bool(divided)), source, n, "valid", "to", *steps, swap, *divided)

    def _rotate(self, array: str) -> None:
        length = self.stage.length
        first, each = self.lane_tables()
        each = f"(__global const {self.parts.vector}*){each}"
        self._call(lanes.rotate(self.parts), array, length, f"{first} + 2 * vector * {length}", each)

    # -- stages of real passes alone ---------------------------------------------------------------------------

    def _numbers(self) -> int:
        """Emits a part of a row of numbers. Returns the number of items."""
        stage, p, block = self.stage, self.parts, self.block
        count = stage.length // 2 + 1
        chunks = -(-count // ROW_PART)
        source, target = self.place(stage.source, False), self.place(stage.target, True)
        table = self.real_table()
        block.line(f"const int row = item / {chunks}, first = item % {chunks} * {ROW_PART};")
        block.line(f"const int end = first + {ROW_PART} < {count} ? first + {ROW_PART} : {count};")
        self._call(
            lanes.real_pass(p, stage.real == "join", False),
            f"{source} + 2l * {stage.reads.lane} * row",
            f"{target} + 2l * {stage.writes.lane} * row",
            stage.length, "first", "end", table, int(stage.swaps[1]),
        )  # fmt: skip
        return stage.lanes * chunks
