"""Items of a kernel that traverses windows: how an item computes a few adjacent placings, loading each element once.

An item has `rows` x `columns` placings in the last two dimensions of the window. If elements outside of the window are
contiguous, as with the channels last, it has these for `lanes` adjacent ones, and loads vectors of lanes; otherwise
vectors of columns. Without vectors, it has a single column, so that adjacent items access adjacent elements. Each
placing visits its elements in row-major order of the window.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
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
from ..index_printer import c_of, scope_if
from ..windows.window_lanes import is_left_alone
from .vector_access import VectorAccesses
from .window_strips import Strip
from .work_groups import group_size

SIZES = (1, 2, 4)  # lanes, rows and columns of an item
MOST_RESULTS = 8  # of an item that has a few values for each
GROUPS_PER_UNIT = 4  # work-groups that keep a compute unit busy: items have fewer results if there would be fewer
MOST_ELEMENTS = 64  # of a window whose loops are unrolled

# Takes the placings whose window contains an element, as (row, column, element of the window), the lane (C), and the
# operands' values (C); emits the statements for them.
Step = Callable[[Sequence[tuple[int, int, int]], str, Sequence[str]], None]
# Takes the numbers of the window's elements for which the steps that follow are the first ones.
FirstSteps = Callable[[Sequence[int]], None]


def are_vectors(fusion: Fusion, operand: Instruction, at: Sequence[Index], width: int) -> bool:
    """Whether all that is read for an element of an operand, whose indices contain the variable `j`, are vectors."""
    pattern = AccessPattern(fusion)
    pattern.value(operand, at)
    varying = [a for a in pattern.accesses if a.position.factor("j") != 0]
    return bool(varying) and len(VectorAccesses.of(pattern, "j", width).loads) == len(varying)


def _same(positions: Sequence[Index]) -> Sequence[Index]:
    return positions


@dataclass(frozen=True)
class SlidingWindow:
    """A window over operands of equal dimensions.

    Each dimension of the result has its number of placings, `counts`, and the size of that dimension of the operands.
    The window slides along those that `windowed` names, in the order of its elements; `window` has an entry for each
    dimension of the result. `lanes` is a dimension of which adjacent elements may be computed together, unless it is
    one of those. `indices` gives the indices of an operand for positions in the dimensions of the result.
    """

    fusion: Fusion
    operands: tuple[Instruction, ...]
    window: tuple[WindowDimension, ...]
    sizes: tuple[int, ...]
    counts: tuple[int, ...]
    windowed: tuple[int, ...]
    lanes: int
    indices: Callable[[Sequence[Index]], Sequence[Index]] = _same

    @staticmethod
    def over(
        fusion: Fusion, operands: Sequence[Instruction], window: Sequence[WindowDimension], counts: Sequence[int]
    ) -> SlidingWindow:
        """The window of a reduce-window or the like, with a dimension for each of the operands."""
        sizes, windowed = operands[0].shape.dimensions, [d for d, w in enumerate(window) if not is_left_alone(w)]
        return SlidingWindow(
            fusion, tuple(operands), tuple(window), sizes, tuple(counts), tuple(windowed), len(counts) - 1
        )

    @property
    def elements(self) -> int:
        """The elements of a window."""
        return prod(self.window[d].size for d in self.windowed)

    def items(
        self, target: Target, most_results: int, sizes: Sequence[int] = SIZES, other_loads: int = 0
    ) -> list[WindowItem]:
        """The items of up to so many results that leave enough work-groups, those first that load least for a result;
        each has `other_loads` beside those of the operands. None for windows that are too large for unrolled loops, and
        those that are no windows."""
        if not self.windowed or not 0 < self.elements <= MOST_ELEMENTS or 0 in self.counts:
            return []
        most = min(most_results, prod(self.counts) // (GROUPS_PER_UNIT * target.compute_units * group_size(target)))
        sides = combinations(sizes, sizes if len(self.windowed) > 1 else (1,), sizes)
        items = (WindowItem(self, *s) for s in sides if prod(s) <= max(most, 1))
        return sorted((i for i in items if i.is_possible()), key=lambda i: (i.loads + other_loads) / i.results)

    def has_vectors(self, dimension: int, width: int) -> bool:
        """Whether what is read are vectors along a dimension."""
        at: list[Index] = [variable(f"at{d}", 0, size - 1) for d, size in enumerate(self.sizes)]
        at[dimension] = variable("q", 0, self.sizes[dimension] // width - 1) * width + variable("j", 0, width - 1)
        return all(are_vectors(self.fusion, o, self.indices(at), width) for o in self.operands)


@dataclass(frozen=True)
class WindowItem:
    """An item's placings of a window."""

    of: SlidingWindow
    lanes: int
    rows: int
    columns: int

    @cached_property
    def _strips(self) -> dict[int, Strip]:
        """The placings of an item in the last two dimensions of the window, or the last one."""
        of, dimensions = self.of, self.of.windowed[-2:]
        placings = (self.rows, self.columns)[-len(dimensions) :]
        return {d: Strip(of.window[d], of.sizes[d], of.counts[d], n) for d, n in zip(dimensions, placings, strict=True)}

    @property
    def _column_strip(self) -> Strip:
        return self._strips[self.of.windowed[-1]]

    @cached_property
    def _width(self) -> int:
        """The columns of the array in a vector, without vectors of lanes."""
        d, step = self.of.windowed[-1], self._column_strip.step
        widths = [w for w in SIZES if self.columns > 1 and step % w == self.of.sizes[d] % w == 0]
        return max((w for w in widths if w > 1 and self.of.has_vectors(d, w)), default=1)

    def is_possible(self) -> bool:
        """Whether the strips repeat after whole elements of the array, and the loads are vectors."""
        of = self.of
        if any(strip.step == 0 for strip in self._strips.values()):
            return False
        if self.lanes > 1:
            outside = of.lanes not in of.windowed and of.counts[of.lanes] % self.lanes == 0
            return outside and of.has_vectors(of.lanes, self.lanes)
        return self.columns == 1 or (of.counts[of.windowed[-1]] % self.columns == 0 and self._width > 1)

    @property
    def loads(self) -> int:
        """The loads of an operand."""
        *rows, columns = (len(strip.meetings) for strip in self._strips.values())
        if self.lanes == 1:
            columns = len({distance // self._width for distance in self._column_strip.meetings})
        return prod(self.of.window[d].size for d in self.of.windowed[:-2]) * prod(rows) * columns

    @property
    def results(self) -> int:
        """The results of an item."""
        return self.lanes * self.rows * self.columns

    @property
    def units(self) -> int:
        """The number of items."""
        return prod(self._sizes)

    @property
    def _sizes(self) -> list[int]:
        sizes = [self._strips[d].count if d in self._strips else count for d, count in enumerate(self.of.counts)]
        sizes[self.of.lanes] //= self.lanes
        return sizes

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

    def along_lanes(self, at: Sequence[Index]) -> Index:
        """The index in the dimension of lanes, of which `j` counts those of an item."""
        index = at[self.of.lanes]
        return index * self.lanes + variable("j", 0, self.lanes - 1) if self.lanes > 1 else index

    def visit(
        self, e: ElementalIrEmitter, block: Block, at: Sequence[Index], step: Step, first: FirstSteps | None = None
    ) -> None:
        """Visits the elements of the item's windows."""
        outer = self.of.windowed[:-2]
        for elements in combinations(*(range(self.of.window[d].size) for d in outer)):
            positions, conditions = [*at], list[Condition]()
            positions[self.of.lanes] = self.along_lanes(at)
            number = 0
            for d, element in zip(outer, elements, strict=True):
                inside, positions[d] = window_position(self.of.window[d], at[d], constant(element), self.of.sizes[d])
                conditions += inside
                number = number * self.of.window[d].size + element
            with scope_if(block, conditions):
                self._visit_rows(e, block, at, positions, number, step, first or _nothing)

    def _visit_rows(
        self, e: ElementalIrEmitter, block: Block, at: Sequence[Index], positions: list[Index], number: int, step: Step,
        first: FirstSteps,
    ) -> None:  # fmt: skip
        *rows, (_, columns) = self._strips.items()
        width = columns.window.size
        if not rows:
            first(range(number * width, (number + 1) * width))
            self._visit_columns(e, block, at, positions, [(0, number)], step)
            return
        ((d, strip),) = rows
        visited = set[int]()
        for distance, pairs in strip.meetings.items():
            placed = [(r, number * strip.window.size + k) for r, k in pairs]
            if new := sorted({k for _, k in placed} - visited):
                first([k * width + column for k in new for column in range(width)])
            visited.update(new)
            own = [*positions]
            own[d] = strip.position(at[d], distance)
            with scope_if(block, strip.inside(own[d])):
                self._visit_columns(e, block, at, own, placed, step)

    def _visit_columns(
        self, e: ElementalIrEmitter, block: Block, at: Sequence[Index], positions: list[Index],
        rows: Sequence[tuple[int, int]], step: Step,
    ) -> None:  # fmt: skip
        strip, d = self._column_strip, self.of.windowed[-1]
        width = 1 if self.lanes > 1 else self._width

        def placed(distance: int) -> list[tuple[int, int, int]]:
            columns = strip.meetings.get(distance, [])
            return [(r, c, n * strip.window.size + k) for r, n in rows for c, k in columns]

        for first in sorted({distance // width * width for distance in strip.meetings}):
            own = [*positions]
            own[d] = strip.position(at[d], first)
            # A vector of columns is inside as a whole, or not at all: the array's columns are a multiple of its width.
            with scope_if(block, strip.inside(own[d])):
                if width == 1:
                    with self._loads(e, block, own, self.lanes) as values:
                        step(placed(first), "j" if self.lanes > 1 else "0", values)
                    continue
                own[d] += variable("j", 0, width - 1)
                for n, operand in enumerate(self.of.operands):
                    block.line(f"{scalar.register_type(type_name(operand))} element{n}[{width}];")
                with self._loads(e, block, own, width) as values:
                    for n, value in enumerate(values):
                        block.line(f"element{n}[j] = {value};")
                for k in range(width):
                    if pairs := placed(first + k):
                        step(pairs, "0", [f"element{n}[{k}]" for n in range(len(self.of.operands))])

    @contextmanager
    def _loads(
        self, e: ElementalIrEmitter, block: Block, positions: Sequence[Index], width: int
    ) -> Iterator[list[str]]:
        """Evaluates the operands for each `j` of a vector; gives the values (C)."""
        with each_of_vectors(e, block, self.of.fusion, self.of.operands, self.of.indices(positions), width) as values:
            yield values

    @contextmanager
    def placings(self, block: Block, at: Sequence[Index]) -> Iterator[tuple[list[Index], int, str]]:
        """The loops over an item's placings: (the indices of one, up to an element `j`; the number of those elements,
        over which no loop is open; C for the index into arrays of `state`)."""
        place, counts = [*at], self.of.counts
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
                inside = f"if (place{d} < {counts[d]})" if counts[d] % strip.placings else ""
                scopes.enter_context(block.scope(inside))
                place[d] = variable(f"place{d}", 0, counts[d] - 1)
            place[self.of.lanes] = self.along_lanes(place)
            yield place, width, f"[{part['r']}][{part['c']}][{'j' if self.lanes > 1 else '0'}]"


@contextmanager
def each_of_vectors(
    e: ElementalIrEmitter, block: Block, fusion: Fusion, operands: Iterable[Instruction], at: Sequence[Index],
    width: int,
) -> Iterator[list[str]]:  # fmt: skip
    """The loop over the `width` elements of operands at indices that contain the variable `j`; gives their values
    (C)."""
    pattern = AccessPattern(fusion)
    for operand in operands:
        pattern.value(operand, at)
    with block.scope(""), VectorAccesses.of(pattern, "j", width).loop(e, block, pattern):
        yield [e.value(operand, at, block) for operand in operands]


def _nothing(numbers: Sequence[int]) -> None:
    """There is nothing to do before the first steps."""
