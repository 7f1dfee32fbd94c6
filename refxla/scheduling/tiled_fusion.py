"""Tiled fusion: several fusions computed tile by tile, so that values between them stay in the cache.

A value as large as the scores of an attention is written to memory by one kernel and read by the next. If consecutive
fusions work on independent rows (batches, heads, queries; analysis/tiling_analysis.py), an item takes a tile of rows
through all of them, and the values between them need memory for one tile of each core, not for all rows. The operations
and their order do not change.

Whether to do so is decided by cost: bytes that no longer go to memory, and launches, against what is read again for
each tile, and load imbalance. The decisions are recorded for `explain`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod

from refxla_spec.module import Instruction

from .._core.topological_order import topological_order
from ..analysis.cost_analysis import bytes_text
from ..analysis.dimension_classes import Dimension
from ..analysis.tiling_analysis import TileBody, TilingAnalysis
from ..device.description import Costs
from ..ir.merged_body import Axis
from ..ir.op_table import ROWS
from .fusion_group import FusionGroup
from .grouped_computation import GroupedComputation

PRODUCTS = frozenset(r.kind for r in ROWS.values() if r.tileable)  # kinds of fusions that make tiling pay
KINDS = PRODUCTS | {"loop", "reduction"}  # that can be parts of a tiled fusion
LEAST_PART = 8  # of the last cache: a value that takes less than this part of it stays there
LEAST_ROWS = 32  # of a tile of a dot: fewer read the other side too often
SEEN = 0.5  # of the time that values take through memory: the rest passes while something is computed
ALIKE = 0.02  # of the work, by which ways to cut may differ: the one that takes least memory is chosen
UNEVEN = 0.1  # of a tile's work, by which cores come to their ends apart
MOST_FUSIONS = 6  # in a tiled fusion


@dataclass(frozen=True)
class TilingDecision:
    """Whether fusions are tiled, for `explain`: their names, the axes (none where they are not), the bytes of
    the values between them and of a tile's part of them, and what the cost model says (ns, all cores): as they are,
    and tiled."""

    fusions: tuple[str, ...]
    axes: tuple[Axis, ...]
    bytes: int
    tile_bytes: int
    untiled: float
    tiled: float
    reason: str = ""

    def __str__(self) -> str:
        names = ", ".join(self.fusions)
        costs = f"{self.untiled / 1e3:.1f} us untiled, {self.tiled / 1e3:.1f} us in tiles"
        if not self.axes:
            return f"{names}: not tiled, {self.reason}" + (f" ({costs})" if self.tiled else "")
        blocks = " x ".join(f"{a.block} of {a.size}" for a in self.axes)
        between = f"{bytes_text(self.tile_bytes)} instead of {bytes_text(self.bytes)} between them"
        return f"{names}: in tiles of {blocks}, {between} ({costs})"


@dataclass(frozen=True)
class TiledFusion:
    """Groups (their numbers) that are done in tiles: `body` is what is done for each tile."""

    groups: tuple[int, ...]
    body: TileBody
    decision: TilingDecision


class TilingSearch:
    """Finds the tiled fusions among the groups of a computation. `fusion_us` gives the microseconds that the kernel of
    a group, by its number, takes on one core."""

    def __init__(
        self, computation: GroupedComputation, costs: Costs, cores: int, fusion_us: Callable[[int], float]
    ) -> None:
        self.computation, self.graph, self.groups = computation, computation.graph, computation.groups
        self.costs, self.cores, self.fusion_us = costs, cores, fusion_us
        self.least_bytes = costs.caches.last // LEAST_PART
        self.decisions: list[TilingDecision] = []
        self.maker: dict[Instruction, int] = {}
        self.readers: dict[Instruction, set[int]] = {}
        for n, group in enumerate(self.groups):
            for m in group.outputs:
                self.maker.update(dict.fromkeys(self.graph.instructions[m], n))
            for i in computation.inputs(group):
                self.readers.setdefault(i, set()).add(n)
        self.roots = {i for m in self.graph.roots for i in self.graph.instructions[m]}

    def run(self) -> list[TiledFusion]:
        """The tiled fusions, which share no group."""
        tiled_fusions: list[TiledFusion] = []
        others: set[int] = set()
        for value in self._seeds():
            groups = frozenset((self.maker[value], *self.readers[value]))
            if groups & others:
                continue
            best = self._grown(groups, others)
            if best is None:
                continue
            fused = self._fusion_of(best)
            if fused is not None:
                tiled_fusions.append(fused)
                others |= set(fused.groups)
        return tiled_fusions

    def _seeds(self) -> list[Instruction]:
        """The values between a dot and what else can be in a tiled fusion, the largest first."""
        kinds = [group.kind for group in self.groups]
        seeds = [
            v
            for v, made_by in self.maker.items()
            if v.shape.is_array and v.shape.bytes >= self.least_bytes and kinds[made_by] in KINDS
            and any(kinds[n] in KINDS and PRODUCTS & {kinds[n], kinds[made_by]} for n in self.readers.get(v, ()))
        ]  # fmt: skip
        return sorted(seeds, key=lambda v: -v.shape.bytes)

    def _grown(self, groups: frozenset[int], others: set[int]) -> _Candidate | None:
        """The best choice for groups and those around them that gain by being with them."""
        best = self._choice(groups)
        if best is None:
            return None
        while len(best.groups) < MOST_FUSIONS:
            more = [self._choice(best.groups | {n}) for n in self._around(best.groups) if n not in others]
            better = max((c for c in more if c is not None), key=lambda c: c.gain, default=None)
            if better is None or better.gain <= best.gain:
                break
            best = better
        return best

    def _around(self, groups: frozenset[int]) -> set[int]:
        """Groups that a large value lies between and one of these."""
        neighbours = set()
        for n in groups:
            outputs = [i for m in self.groups[n].outputs for i in self.graph.instructions[m]]
            for i in (*outputs, *self.computation.inputs(self.groups[n])):
                if i.shape.is_array and i.shape.bytes >= self.least_bytes and i in self.maker:
                    neighbours |= {self.maker[i], *self.readers.get(i, ())}
        return neighbours - groups

    def joined(self, fusions: Sequence[TiledFusion]) -> tuple[list[FusionGroup], list[str], dict[int, TiledFusion]]:
        """The groups with those of each tiled fusion as one (of kind "tile"), in an order in which they can run, their
        names, and the tiled fusions by the numbers of their groups."""
        unit = {n: fused.groups[-1] for fused in fusions for n in fused.groups}
        tiled = {fused.groups[-1]: fused for fused in fusions}
        needs: dict[int, set[int]] = {unit.get(n, n): set() for n in range(len(self.groups))}
        for value, users in self.readers.items():
            if value in self.maker:
                maker = unit.get(self.maker[value], self.maker[value])
                for u in users:
                    needs[unit.get(u, u)] |= {maker} - {unit.get(u, u)}
        order = topological_order(needs, {n: n for n in needs})
        groups, names = [], []
        for n in order:
            names.append(f"tiled.{self.computation.names[n]}" if n in tiled else self.computation.names[n])
            groups.append(self._group(tiled[n]) if n in tiled else self.groups[n])
        return groups, names, {order.index(n): fused for n, fused in tiled.items()}

    def _group(self, fused: TiledFusion) -> FusionGroup:
        heroes = {m for n in fused.groups for m in self.groups[n].heroes}
        members = {m for n in fused.groups for m in self.groups[n].members}
        outputs = {self.graph.node_of[i] for i in fused.body.results}
        return FusionGroup("tile", tuple(sorted(heroes)), tuple(sorted(members)), tuple(sorted(outputs)))

    # -- one set of groups ---------------------------------------------------------------------------------------------

    def _choice(self, groups: frozenset[int]) -> _Candidate | None:
        """How these groups are best tiled; None where they cannot be."""
        if any(self.groups[n].kind not in KINDS for n in groups) or not self._is_closed(groups):
            return None
        rows = self._rows(groups)
        if rows is None:
            return None
        written, between = self._values(groups)
        classes = rows.leading(written)
        if not classes or not between:
            return None
        work = sum(self.fusion_us(n) for n in groups) * 1e3 / self.cores
        times = self._times(groups)
        ways = [self._cost(groups, rows, classes, axes, between, times, work) for axes in self._axes(rows, classes)]
        least = min(c.tiled for c in ways)
        return min((c for c in ways if c.tiled <= least + ALIKE * work), key=lambda c: c.tile_bytes)

    def _is_closed(self, groups: frozenset[int]) -> bool:
        """Whether nothing outside needs what these make and makes what they need."""
        waiting = [u for n in groups for u in self._users(n) if u not in groups]
        visited = set(waiting)
        while waiting:
            for u in self._users(waiting.pop()):
                if u in groups:
                    return False
                if u not in visited:
                    visited.add(u)
                    waiting.append(u)
        return True

    def _users(self, n: int) -> set[int]:
        outputs = (i for m in self.groups[n].outputs for i in self.graph.instructions[m])
        return {u for i in outputs for u in self.readers.get(i, ())}

    def _values(self, groups: frozenset[int]) -> tuple[list[Instruction], list[Instruction]]:
        """What these groups write that others read, and what only they read."""
        written: list[Instruction] = []
        between: list[Instruction] = []
        for n in sorted(groups):
            for m in self.groups[n].outputs:
                for i in self.graph.instructions[m]:
                    outside = i in self.roots or not self.readers.get(i, set()) <= groups
                    (written if outside else between).append(i)
        return written, between

    def _times(self, groups: frozenset[int]) -> dict[Instruction, int]:
        """How often large values go through memory that would stay in the cache in tiles: reads of what was made or
        read before, and the write of what nobody else reads."""
        _, between = self._values(groups)
        times = {}
        for i, readers in self.readers.items():
            if i.shape.is_array and (i in between or i.shape.bytes >= self.least_bytes):
                inside = len(readers & groups)
                times[i] = inside + (i in between) - (self.maker.get(i) not in groups)
        return {i: n for i, n in times.items() if n > 0}

    def _rows(self, groups: frozenset[int]) -> TilingAnalysis | None:
        nodes = sorted({m for n in groups for m in self.groups[n].members})
        if any(len(self.graph.instructions[m]) > 1 for m in nodes):
            return None
        members = [self.graph.instructions[m][0] for m in nodes]
        inputs = self.computation.inputs(FusionGroup("tile", (), tuple(nodes), ()))
        outputs = [self.graph.instructions[m][0] for n in sorted(groups) for m in self.groups[n].outputs]
        heroes = [self.graph.instructions[m][0] for n in sorted(groups) for m in self.groups[n].heroes]
        rows = TilingAnalysis(members, inputs, self.computation.is_inline, outputs, heroes)
        return rows if rows.is_supported else None

    @staticmethod
    def _axes(rows: TilingAnalysis, classes: list[Dimension]) -> Iterator[list[Axis]]:
        """The ways to cut: one by one along the first axes, in tiles along the next, whole along those after it."""
        for n, c in enumerate(classes):
            before = [Axis(rows.size(b), 1) for b in classes[:n]]
            size, least = rows.size(c), LEAST_ROWS if rows.is_row(c) else 1
            shares = {-(-size // k) for k in _numbers(max(1, size // least))}
            for block in sorted({b if least == 1 else min(_round(b), size) for b in shares}):
                yield [*before, Axis(size, block)]
            if least > 1:
                return  # a single row is no way to begin

    def _cost(
        self,
        groups: frozenset[int],
        rows: TilingAnalysis,
        classes: list[Dimension],
        axes: list[Axis],
        between: list[Instruction],
        times: dict[Instruction, int],
        work: float,
    ) -> _Candidate:
        """What it costs to cut so, and what not to."""
        classes = classes[: len(axes)]
        trip_count = prod(a.count for a in axes)
        ratio = prod(a.count * a.block / a.size for a in axes)  # more than 1 where a last tile does some rows again
        tile_bytes = sum(i.shape.bytes * rows.share(rows.clones[i], classes, axes) for i in between)
        reads = rows.reads(classes, axes)
        again = sum(b for b, changes in reads if not changes)  # the same for the next tile
        used = tile_bytes + again
        untiled = SEEN * sum(i.shape.bytes * n * self._far(2 * i.shape.bytes) for i, n in times.items())
        untiled += (len(groups) - 1) * self.costs.launch
        share = prod(a.block / a.size for a in axes)
        moved = sum(n * i.shape.bytes * share for i, n in times.items())
        tiled = trip_count * (SEEN * (moved + again) * self.costs.reused_byte(used) + self.costs.tile) / self.cores
        rounds = -(-trip_count // self.cores) * self.cores / trip_count * ratio
        tiled += work * (rounds - 1 + UNEVEN * self.cores / trip_count)
        return _Candidate(
            groups, rows, classes, tuple(axes), sum(i.shape.bytes for i in between), int(tile_bytes), untiled, tiled
        )

    def _far(self, bytes: float) -> float:
        """Nanoseconds in which all cores move a byte that they last touched so many bytes ago."""
        in_caches = bytes <= self.costs.cached[-1][0]
        return self.costs.reused_byte(bytes / self.cores) / self.cores if in_caches else self.costs.byte

    def _fusion_of(self, choice: _Candidate) -> TiledFusion | None:
        """The tiled fusion of a choice, if it gains."""
        order = tuple(sorted(choice.groups))
        names = tuple(self.computation.names[n] for n in order)

        def decide(axes: tuple[Axis, ...], reason: str = "") -> TilingDecision:
            verdict = TilingDecision(names, axes, choice.bytes, choice.tile_bytes, choice.untiled, choice.tiled, reason)
            self.decisions.append(verdict)
            return verdict

        if choice.gain <= 0:
            decide((), "they would take longer")
            return None
        written, _ = self._values(choice.groups)
        body = choice.rows.body(choice.classes, choice.axes, written)
        if body is None:
            decide((), "a sum would have another order, or a tile lies in pieces")
            return None
        return TiledFusion(order, body, decide(choice.axes))


@dataclass(frozen=True, eq=False)
class _Candidate:
    """Groups that could run tile by tile, the axes of the tiles, and the model's time without tiles and with them, in
    nanoseconds."""

    groups: frozenset[int]
    rows: TilingAnalysis
    classes: list[Dimension]
    axes: tuple[Axis, ...]
    bytes: int
    tile_bytes: int
    untiled: float
    tiled: float

    @property
    def gain(self) -> float:
        return self.untiled - self.tiled


def _numbers(most: int) -> Iterator[int]:
    """1, 2, 3, ... up to `most`, ever further apart."""
    n = 1
    while n <= most:
        yield n
        n += max(1, 1 << n.bit_length() - 1 >> 2)


def _round(block: int) -> int:
    """A number of rows that falls into tiles of products."""
    return -(-block // 8) * 8
