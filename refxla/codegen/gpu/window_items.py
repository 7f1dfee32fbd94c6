"""Items of a kernel that traverses windows: how an item computes a few adjacent placings, loading each element once.

An item has `rows` x `columns` placings in the last two dimensions of the window. If the array's last dimension is
outside of the window, as with the channels last, it has these for `lanes` adjacent elements of that, and loads vectors
of lanes; otherwise vectors of columns. Without vectors, it has a single column, so that adjacent items access adjacent
elements. Each placing visits its elements in row-major order of the window.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import product as combinations
from math import prod

from refxla_spec.module import Instruction, WindowDimension

from ...analysis.access_patterns import AccessPattern
from ...analysis.index_expression import Index, constant, delinearize, variable
from ...analysis.index_maps import Condition, window_position
from ...device.description import Target
from ...ir.plan import Fusion
from .. import scalar
from ..c_block import Block
from ..element_builder import type_name
from ..elemental_ir_emitter import ElementalIrEmitter
from ..index_printer import c_of, c_of_conditions
from ..windows.window_lanes import is_left_alone
from .vector_access import VectorAccesses
from .window_strips import Strip
from .work_groups import group_size

SIZES = (1, 2, 4)  # lanes, rows and columns of an item
MOST_RESULTS = 8  # of an item
GROUPS_PER_UNIT = 4  # work-groups that keep a compute unit busy: items have fewer results if there would be fewer
MOST_ELEMENTS = 64  # of a window whose loops are unrolled

# Takes the placings whose window contains an element, as (row, column, element of the window), the lane (C), and the
# operands' values (C); emits the statements for them.
Step = Callable[[Sequence[tuple[int, int, int]], str, Sequence[str]], None]


@dataclass(frozen=True)
class WindowItem:
    """An item's placings of `window` over `operands` of equal dimensions, of which there are `counts` in all."""

    fusion: Fusion
    operands: tuple[Instruction, ...]
    window: tuple[WindowDimension, ...]
    counts: tuple[int, ...]
    lanes: int
    rows: int
    columns: int

    @staticmethod
    def choose(
        fusion: Fusion, operands: Sequence[Instruction], window: Sequence[WindowDimension], counts: Sequence[int],
        target: Target,
    ) -> WindowItem | None:  # fmt: skip
        """The item that loads least for a result, if enough work-groups are left; None for windows that are too large
        for unrolled loops, and those that are no windows."""
        dimensions = sum(not is_left_alone(w) for w in window)
        if not 0 < prod(w.size for w in window) <= MOST_ELEMENTS or not dimensions or 0 in counts:
            return None
        most = min(MOST_RESULTS, prod(counts) // (GROUPS_PER_UNIT * target.compute_units * group_size(target)))
        sizes = combinations(SIZES, SIZES if dimensions > 1 else (1,), SIZES)
        own = (tuple(operands), tuple(window), tuple(counts))
        items = [WindowItem(fusion, *own, *s) for s in sizes if prod(s) <= max(most, 1)]
        return min((i for i in items if i._is_possible()), key=lambda i: i._loads_per_result, default=None)

    @cached_property
    def _windowed(self) -> list[int]:
        return [d for d, w in enumerate(self.window) if not is_left_alone(w)]

    @cached_property
    def _strips(self) -> dict[int, Strip]:
        """The placings of an item in the last two dimensions of the window, or the last one."""
        dimensions, sizes = self._windowed[-2:], self.operands[0].shape.dimensions
        placings = (self.rows, self.columns)[-len(dimensions) :]
        return {
            d: Strip(self.window[d], sizes[d], self.counts[d], n) for d, n in zip(dimensions, placings, strict=True)
        }

    @property
    def _column_strip(self) -> Strip:
        return self._strips[self._windowed[-1]]

    @cached_property
    def _width(self) -> int:
        """The columns of the array in a vector, without vectors of lanes."""
        step, size = self._column_strip.step, self.operands[0].shape.dimensions[self._windowed[-1]]
        widths = [w for w in SIZES if self.columns > 1 and step % w == size % w == 0]
        return max((w for w in widths if w > 1 and self._are_vectors(self._windowed[-1], w)), default=1)

    def _is_possible(self) -> bool:
        last = len(self.counts) - 1
        if any(strip.step == 0 for strip in self._strips.values()):
            return False
        if self.lanes > 1:
            inside = last in self._windowed or self.counts[last] % self.lanes
            return not inside and self._are_vectors(last, self.lanes)
        whole = self._windowed[-1] == last and self.counts[last] % self.columns == 0
        return self.columns == 1 or (whole and self._width > 1)

    def _are_vectors(self, dimension: int, width: int) -> bool:
        """Whether what is read are vectors along a dimension."""
        at: list[Index] = [variable(f"at{d}", 0, size - 1) for d, size in enumerate(self.operands[0].shape.dimensions)]
        at[dimension] = variable("q", 0, (at[dimension].high + 1) // width - 1) * width + variable("j", 0, width - 1)
        for operand in self.operands:
            pattern = AccessPattern(self.fusion)
            pattern.value(operand, at)
            varying = [a for a in pattern.accesses if a.position.factor("j") != 0]
            if not varying or len(VectorAccesses.of(pattern, "j", width).loads) != len(varying):
                return False
        return True

    @property
    def _loads_per_result(self) -> float:
        *rows, columns = (len(strip.meetings) for strip in self._strips.values())
        if self.lanes == 1:
            columns = len({distance // self._width for distance in self._column_strip.meetings})
        loads: int = prod(self.window[d].size for d in self._windowed[:-2]) * prod(rows) * columns
        results: int = self.lanes * self.rows * self.columns
        return loads / results

    @property
    def units(self) -> int:
        """The number of items."""
        return prod(self._sizes)

    @property
    def _sizes(self) -> list[int]:
        sizes = [self._strips[d].count if d in self._strips else count for d, count in enumerate(self.counts)]
        return [*sizes[:-1], sizes[-1] // self.lanes]

    @property
    def state(self) -> str:
        """The dimensions (C) of an array with an element for each result of an item."""
        return f"[{self.rows}][{self.columns}][{self.lanes}]"

    def fill(self, block: Block, array: str, value: str) -> None:
        """Sets all elements of such an array."""
        with self._each(block, "r", self.rows), self._each(block, "c", self.columns):
            with self._each(block, "j", self.lanes):
                block.line(f"{array}[r][c][j] = {value};")

    def begin(self, block: Block) -> list[Index]:
        """Names the item's place: for each dimension the number of the strip, of the vector of lanes, or the index."""
        parts = delinearize(variable("unit", 0, self.units - 1), self._sizes)
        for d, part in enumerate(parts):
            block.line(f"const int at{d} = {c_of(part)};")
        return [variable(f"at{d}", part.low, part.high) for d, part in enumerate(parts)]

    @contextmanager
    def _each(self, block: Block, name: str, count: int) -> Iterator[None]:
        block.line("#pragma unroll")
        with block.scope(f"for (int {name} = 0; {name} < {count}; ++{name})"):
            yield

    def visit(self, e: ElementalIrEmitter, block: Block, at: Sequence[Index], step: Step) -> None:
        """Visits the elements of the item's windows."""
        outer = self._windowed[:-2]
        for elements in combinations(*(range(self.window[d].size) for d in outer)):
            positions, conditions = [*at], list[Condition]()
            if self.lanes > 1:
                positions[-1] = at[-1] * self.lanes + variable("j", 0, self.lanes - 1)
            number = 0
            for d, element in zip(outer, elements, strict=True):
                size = self.operands[0].shape.dimensions[d]
                inside, positions[d] = window_position(self.window[d], at[d], constant(element), size)
                conditions += inside
                number = number * self.window[d].size + element
            with self._if(block, conditions):
                self._visit_rows(e, block, at, positions, number, step)

    def _visit_rows(
        self, e: ElementalIrEmitter, block: Block, at: Sequence[Index], positions: list[Index], number: int, step: Step
    ) -> None:
        *rows, _ = self._strips.items()
        if not rows:
            self._visit_columns(e, block, at, positions, [(0, number)], step)
            return
        ((d, strip),) = rows
        for distance, pairs in strip.meetings.items():
            own = [*positions]
            own[d] = strip.position(at[d], distance)
            with self._if(block, strip.inside(own[d])):
                placed = [(r, number * strip.window.size + k) for r, k in pairs]
                self._visit_columns(e, block, at, own, placed, step)

    def _visit_columns(
        self, e: ElementalIrEmitter, block: Block, at: Sequence[Index], positions: list[Index],
        rows: Sequence[tuple[int, int]], step: Step,
    ) -> None:  # fmt: skip
        strip, d = self._column_strip, self._windowed[-1]
        width = 1 if self.lanes > 1 else self._width

        def placed(distance: int) -> list[tuple[int, int, int]]:
            columns = strip.meetings.get(distance, [])
            return [(r, c, n * strip.window.size + k) for r, n in rows for c, k in columns]

        for first in sorted({distance // width * width for distance in strip.meetings}):
            own = [*positions]
            own[d] = strip.position(at[d], first)
            # A vector of columns is inside as a whole, or not at all: the array's columns are a multiple of its width.
            with self._if(block, strip.inside(own[d])):
                if width == 1:
                    with self._loads(e, block, own, self.lanes) as values:
                        step(placed(first), "j" if self.lanes > 1 else "0", values)
                    continue
                own[d] += variable("j", 0, width - 1)
                for n, operand in enumerate(self.operands):
                    block.line(f"{scalar.register_type(type_name(operand))} element{n}[{width}];")
                with self._loads(e, block, own, width) as values:
                    for n, value in enumerate(values):
                        block.line(f"element{n}[j] = {value};")
                for k in range(width):
                    if pairs := placed(first + k):
                        step(pairs, "0", [f"element{n}[{k}]" for n in range(len(self.operands))])

    @contextmanager
    def _loads(
        self, e: ElementalIrEmitter, block: Block, positions: Sequence[Index], width: int
    ) -> Iterator[list[str]]:
        """Evaluates the operands for each `j` of a vector; gives the values (C)."""
        pattern = AccessPattern(self.fusion)
        for operand in self.operands:
            pattern.value(operand, positions)
        with block.scope(""), VectorAccesses.of(pattern, "j", width).loop(e, block, pattern):
            yield [e.value(operand, positions, block) for operand in self.operands]

    @contextmanager
    def _if(self, block: Block, conditions: Sequence[Condition]) -> Iterator[None]:
        condition = c_of_conditions(conditions)
        with block.scope("" if condition is True else f"if ({condition or 0})"):
            yield

    @contextmanager
    def placings(self, block: Block, at: Sequence[Index]) -> Iterator[tuple[list[Index], int, str]]:
        """The loops over an item's placings: (the indices of one, up to an element `j`; the number of those elements,
        over which no loop is open; C for the index into arrays of `state`)."""
        place = [*at]
        part = {"r": "0", "c": "0"}
        width = self.lanes if self.lanes > 1 else self.columns
        with ExitStack() as scopes:
            for (d, strip), name in zip(reversed(self._strips.items()), ("c", "r"), strict=False):
                if name == "c" and self.lanes == 1:
                    place[d] = at[d] * self.columns + variable("j", 0, self.columns - 1)
                    part["c"] = "j" if self.columns > 1 else "0"
                    continue
                part[name] = name
                scopes.enter_context(self._each(block, name, strip.placings))
                index = at[d] * strip.placings + variable(name, 0, strip.placings - 1)
                block.line(f"const int place{d} = {c_of(index)};")
                inside = f"if (place{d} < {self.counts[d]})" if self.counts[d] % strip.placings else ""
                scopes.enter_context(block.scope(inside))
                place[d] = variable(f"place{d}", 0, self.counts[d] - 1)
            if self.lanes > 1:
                place[-1] = at[-1] * self.lanes + variable("j", 0, self.lanes - 1)
            yield place, width, f"[{part['r']}][{part['c']}][{'j' if self.lanes > 1 else '0'}]"
