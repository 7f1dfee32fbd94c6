"""The kernel of kind "reduction": one or more reduces over the same dimensions, with their producers and consumers.

A unit of work is a row of the operand, or a strip of columns (`reduction_tree`). It goes over the operand once for each
level of reduces that depend on each other, then once more for outputs as large as the operand (softmax, layer norm):

    accumulate level 1     sum, sum of squares, ...: siblings read their input once
    accumulate level 2     what needs the results of level 1
    store                  results, what is computed from them, and outputs on the operand's space

Expensive values that a row needs again are kept in a private array. Where a unit falls into leaves, each item leaves
its totals in the workspace and counts itself; the last one combines them in order and goes on alone, so that a sum of
any size is one launch.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from math import prod

from refxla_spec.errors import UnsupportedError
from refxla_spec.module import Instruction

from ...analysis.index_expression import Index, constant, delinearize, linearize, variable
from ...analysis.reduction_order import MANY, Tree, panel, tree
from ...device.description import Target
from ...ir.op_table import ELEMENTWISE, ROWS
from ...ir.plan import Argument, Fusion, Kernel
from .. import scalar
from ..c_block import Block
from ..elemental_ir_emitter import ElementalIrEmitter
from ..elemental_rules import accumulator_types, binary_opcode, combine, rounded
from ..kernel_arguments import input_argument, output_argument
from .accumulators import Loop, Slots, neutral, types_of, widest
from .cached_operands import Held
from .lane_reduction import combine_lanes, fill_lanes, vector_width
from .partial_reductions import declare_parts, finish_leaves, in_place, partials
from .row_grouping import emit_rows
from .second_pass_outputs import declare_gathered, emit_late, is_streamed, is_strip
from .software_prefetch import emit_fetches, fetched

CHUNK = 16384  # elements of the operand that one item goes over, about
ITEMS = 4  # strips beside each other are shared out among: of a core
TOGETHER = 2048  # elements of rows that are gone through at a time
UNROLL = 4  # elements that one accumulator takes in a turn, where they are cheap
TINY = 8  # elements of a row that are written out one by one
UNROLL_FROM = 1 << 20  # elements of the operand from which on that is worth the time to compile it
CHEAP_MEMBERS = 16
EXPENSIVE_FLOPS = 6  # of an element, from which on an operation is no longer a few
LANES_FLOPS = 20  # of an element with such an operation, up to which all lanes are computed side by side
_ELEMENTWISE = frozenset(o for o, row in ROWS.items() if row.group == ELEMENTWISE)
_EXPENSIVE = frozenset(o for o in _ELEMENTWISE if ROWS[o].flops >= EXPENSIVE_FLOPS)
_EXPENSIVE |= {o for o, row in ROWS.items() if row.costly}

Indices = tuple[Index, ...]


def emit(fusion: Fusion, target: Target) -> tuple[Kernel, ...]:
    """The kernel of a fusion around reduces of operands with the same dimensions over the same dimensions.

    Raises UnsupportedError where columns fall into leaves and their results are needed to go over the operand again.
    """
    probe = _Reduction(fusion, target, list(fusion.inputs))
    probe.emit()
    read = {access.instruction for access in probe.elements.accesses}
    return (_Reduction(fusion, target, [i for i in fusion.inputs if i in read]).emit(),)


class _Reduction:
    def __init__(self, fusion: Fusion, target: Target, inputs: list[Instruction]) -> None:
        self.fusion, self.target, self.inputs = fusion, target, inputs
        self.reduces = [i for i in fusion.instructions if i.opcode == "reduce"]
        first = self.reduces[0]
        self.dims = first.operands[0].shape.dimensions
        self.reduced = tuple(sorted(first.attributes["dimensions"]))
        for r in self.reduces:
            same = (
                r.operands[0].shape.dimensions == self.dims
                and tuple(sorted(r.attributes["dimensions"])) == self.reduced
            )
            if not same:
                raise UnsupportedError(f"{r.name} and {first.name} reduce different dimensions; part them")
        self.kept = tuple(d for d in range(len(self.dims)) if d not in self.reduced)
        self.kept_dims = tuple(self.dims[d] for d in self.kept)
        self.tree: Tree = tree(self.dims, self.reduced)
        self.levels = self._levels()
        self.phases = [
            [r for r in self.reduces if self.levels[r] == n]
            for n in range(1, 1 + max(self.levels[r] for r in self.reduces))
        ]
        self._split_outputs()
        again = len(self.phases) > 1 or bool(self.late)
        columns = panel(self.tree, first.operands[0].shape.element_type.bytes)
        if again and self.tree.style == "column" and columns:
            self.tree = replace(self.tree, strip=columns)
        elif again and self.tree.style == "column" and self.tree.leaves > 1:
            raise UnsupportedError(f"{first.name} is too long to go over its operand again in the same kernel")
        # One item then takes the leaves of a unit one after the other, in the same tree.
        self.serial = self.tree.leaves > 1 and again
        pointers = {i: f"a{n}" for n, i in enumerate((*inputs, *fusion.outputs))}
        self.elements = ElementalIrEmitter(fusion, target, pointers)
        self.block = Block()
        self.workspace = f"a{len(pointers)}"
        self.columns: dict[Instruction, list[str]] = {}  # reduces of style "column": the arrays of their totals
        self.starts: dict[Instruction, list[str]] = {}  # what accumulators begin with
        self.inits: dict[Instruction, list[str]] = {}  # of those whose initial values have not entered
        self.pointers = pointers
        self.gathered: dict[Instruction, str] = {}  # outputs of columns that are streamed: the arrays they go through
        self.streamed = is_streamed(self)
        self.held = Held(self)
        # In memory, a row's held values would be read from what was written past the caches.
        self.streamed &= self.tree.style == "column" or all(isinstance(row, str) for row in self.held.rows.values())
        cheap = len(fusion.instructions) <= CHEAP_MEMBERS and not self.expensive()
        self.unroll = UNROLL if cheap and prod(self.dims) >= UNROLL_FROM else 1
        # The processor's masks let a loop's last vector have fewer elements; those of 32 bytes only read, whole words.
        masks = target.kind == "cpu" and target.clang and self._registers()
        self.masked = masks and target.widest == 64
        words = all(i.shape.element_type.bits in (32, 64) for i in inputs)
        self.masked_reads = self.masked or masks and words and target.vector_bytes == 32
        self.filled = self._fill()
        self.together = self._together()
        self.once = self._once()
        self.fetched = fetched(self) if prod(self.dims) >= UNROLL_FROM else {}
        if self.filled > 1:
            self.unroll = 1

    def emit(self) -> Kernel:
        t, block = self.tree, self.block
        leaves, units = 1 if self.serial else t.leaves, t.units
        if self.together > 1:
            rows = t.groups[-2].size
            units = units // rows * -(-rows // self.together)
        behind = max(1, t.reduced_size * t.strip * self.together)
        per_item = 1 if self.target.kind == "gpu" or leaves > 1 else max(1, min(CHUNK // behind, units))
        if prod(self.dims) <= CHUNK and leaves == 1 and self.target.kind == "cpu":
            per_item = max(1, units)
        if self.streamed and t.style == "column" and (strips := -(-t.groups[-1].size // t.strip)) > 1:
            per_item = min(strips, -(-units // (ITEMS * self.target.compute_units)))
        self.per_item, self.last = per_item, f"item * {per_item} + {per_item}"
        items = -(-units // per_item) * leaves
        arguments = [input_argument(i) for i in self.inputs] + [output_argument(o) for o in self.fusion.outputs]
        if units:
            declare_gathered(self)
            self.held.declare()
            if leaves > 1:
                leaf = variable("leaf", 0, leaves - 1)
                block.line(f"const int leaf = item % {leaves};")
                block.line(f"const int unit = item / {leaves};")
                self._emit_unit(variable("unit", 0, units - 1), leaf)
                arguments.append(Argument("workspace", "uchar", bytes=partials(self)[1]))
            elif per_item == 1:
                block.line("const int unit = item;")
                self._emit_unit(variable("unit", 0, units - 1), constant(0))
            else:
                if units % per_item:
                    self.last = f"({self.last} < {units} ? {self.last} : {units})"
                with block.scope(f"for (int unit = item * {per_item}; unit < {self.last}; ++unit)"):
                    self._emit_unit(variable("unit", 0, units - 1), constant(0))
            if self.streamed:
                block.line("RX_FENCE();")
        return Kernel(self.fusion.name, block.text(), tuple(arguments), items, registers=self._registers())

    def _registers(self) -> bool:
        """Whether the kernel is compiled for all registers: sums of floats begin with a constant, so that those of
        masked instructions lie on a touched page (elementwise.py)."""
        return any(scalar.register_type(n).startswith(("float", "double")) for n in types_of(self.reduces))

    def _fill(self) -> int:
        """Of how many columns vectors are filled, where those of a whole strip stay in registers; else 1."""
        t, columns = self.tree, self.tree.strip
        if t.style == "row" or not self.masked:
            return 1
        width = self.target.widest // widest(types_of(self.reduces))
        vectors = -(-columns // width) * max(len(types_of(phase)) for phase in self.phases)
        return width if columns >= width and vectors <= self.target.registers // 2 else 1

    def _together(self) -> int:
        """How many rows one unit of work goes through at a time, where the next part of a row lies far away in memory
        and that of the next row lies behind it."""
        t = self.tree
        outer = any(g.reduced for g in t.groups[:-1])
        if t.style != "row" or not outer or t.leaves > 1 or len(self.phases) > 1 or self.late or len(t.groups) < 3:
            return 1
        rows = t.groups[-2].size
        wanted = max(1, min(rows, TOGETHER // max(1, t.groups[-1].size), t.units // MANY))
        return 1 if self.target.kind == "gpu" else wanted

    def _once(self) -> bool:
        """Whether all lanes of a row are used once before its last elements: their values then make the accumulators.
        (Where clang sees what is in those that were filled just before, it takes the first lane out of the loop over
        them, and makes no vector of the rest.)"""
        t = self.tree
        alone = t.style == "row" and t.leaves == 1 and t.single
        return alone and t.lanes > 1 and t.groups[-1].size // t.lanes == 1 and self.together == 1

    # What depends on what.

    def _levels(self) -> dict[Instruction, int]:
        """For each member how many reduces, one after the other, come before its value."""
        levels: dict[Instruction, int] = {}
        for i in self.fusion.instructions:
            before = max((levels.get(o, 0) for o in i.operands), default=0)
            levels[i] = before + (i.opcode == "reduce")
        return levels

    def _split_outputs(self) -> None:
        """Outputs on the operand's space that need no reduce (`early`) or some (`late`), and on the kept space."""
        self.early, self.late, self.small = [], [], []
        for o in self.fusion.outputs:
            size = o.shape.size
            if size == prod(self.kept_dims) and (self.levels[o] > 0 or size != prod(self.dims)):
                self.small.append(o)
            elif size == prod(self.dims):
                (self.late if self.levels[o] else self.early).append(o)
            else:
                raise UnsupportedError(f"{o.name} {o.shape} is neither as large as the reduce's operand nor its result")

    def expensive(self, i: Instruction | None = None) -> bool:
        """Whether computing the instruction (or any member) takes more than a few operations."""
        if i is None:
            return any(m.opcode in _EXPENSIVE for m in self.fusion.instructions)
        return any(m.opcode in _EXPENSIVE for m in self._under(i))

    def _under(self, i: Instruction) -> set[Instruction]:
        """The members on the operand's space that one element of the instruction is computed by."""
        members, seen, waiting = self.elements.members, set(), [i]
        while waiting:
            m = waiting.pop()
            if m in seen or m not in members or m.opcode == "reduce" or m.shape.size < prod(self.dims):
                continue
            seen.add(m)
            waiting += m.operands
        return seen

    def _side_by_side(self, i: Instruction) -> bool:
        """Whether an element takes so few operations that those of all lanes have registers."""
        under = self._under(i)
        dear = {m.opcode for m in under} & _EXPENSIVE
        few = sum(ROWS[m.opcode].flops for m in under if m.opcode in _ELEMENTWISE) <= LANES_FLOPS
        return not dear or dear <= _ELEMENTWISE and few

    def roots(self) -> list[list[Instruction]]:
        """For each pass over the operand the values it asks for at each element."""
        passes = [[o for r in phase for o in r.operands[: len(r.operands) // 2]] for phase in self.phases]
        passes[0] += self.early
        return [*passes, self.late]

    # Indices.

    def indices(self, at: dict[int, Index]) -> Indices:
        """The indices in the operand, given those in each group."""
        result: list[Index] = [constant(0)] * len(self.dims)
        for n, group in enumerate(self.tree.groups):
            inside = delinearize(at[n], [self.dims[d] for d in group.dimensions])
            for d, x in zip(group.dimensions, inside, strict=True):
                result[d] = x
        return tuple(result)

    def _kept_indices(self, at: dict[int, Index]) -> Indices:
        kept = {n: at[n] if not g.reduced else constant(0) for n, g in enumerate(self.tree.groups)}
        full = self.indices(kept)
        return tuple(full[d] for d in self.kept)

    # One unit of work.

    def _emit_unit(self, unit: Index, leaf: Index) -> None:
        t, block = self.tree, self.block
        kept = [n for n, g in enumerate(t.groups) if not g.reduced]
        self.at: dict[int, Index] = {}
        if self.together > 1:
            emit_rows(self, unit, kept)
            return
        if t.style == "column":
            size = t.groups[-1].size
            strips = -(-size // t.strip)
            outer = delinearize(unit // strips, [t.groups[n].size for n in kept[:-1]])
            self.at.update(zip(kept[:-1], outer, strict=True))
            self.first, self.end = "0", str(size)
            if strips > 1:
                block.line(f"int begin = {(unit % strips) * t.strip};")
                last = f"begin + {t.strip}"
                if self.streamed:  # whose last strip overlaps the one before: then none has fewer columns
                    block.line(f"begin = begin < {size - t.strip} ? begin : {size - t.strip};")
                elif size % t.strip:
                    last = f"{last} < {size} ? {last} : {size}"
                block.line(f"const int end = {last};")
                self.first, self.end = "begin", "end"
                if self.streamed:
                    self._emit_ends(unit, strips)
        else:
            self.at.update(zip(kept, delinearize(unit, [t.groups[n].size for n in kept]), strict=True))
        self._evaluate_invariants(0)
        totals: dict[Instruction, list[str]] = {}
        for number, phase in enumerate(self.phases):
            fills: list[str] = []
            parts = declare_parts(self, phase) if t.leaves > 1 and not self.serial else {}
            for r in phase:
                totals[r] = self._accumulators(r, fills=fills, parts=parts.get(r, ()))
            if fills:
                block.line(f"for (int l = 0; l < {self._width()}; ++l) {{ {' '.join(fills)} }}")
            if self.serial:
                self._accumulate_serially(number, phase, totals)
            else:
                self._accumulate(number, phase, totals, leaf)
                if t.style == "row":
                    for r in phase:
                        self._combine_lanes(r, totals[r])
                if t.leaves > 1:
                    finish_leaves(self, phase, totals, parts)
            self._finish(phase, totals)
            self._evaluate_invariants(number + 1)
        self._store()

    def _emit_ends(self, unit: Index, strips: int) -> None:
        """Whether the item has no strip before the one at hand in the same rows, and whether none comes after it."""
        first, last = ("unit", "unit + 1") if self.per_item == 1 else (f"item * {self.per_item}", self.last)
        strip, cut = unit % strips, self.tree.groups[-1].size % self.tree.strip > 0
        overlaps = f" || {strip} == {strips - 1}" if cut else ""
        self.block.line(f"const int starts = unit == {first} || {strip} == 0{overlaps};")
        self.block.line(f"const int ends = unit + 1 == {last} || {strip} >= {strips - 1 - cut};")

    def _evaluate_invariants(self, level: int) -> None:
        """What is broadcast along a row is computed outside the row's loops, as soon as it is known."""
        if self.tree.style == "row":
            self._evaluate_broadcasts(level, self.at)

    def _evaluate_broadcasts(self, level: int, at: dict[int, Index]) -> None:
        """The operands of broadcasts on the operand's space that the indices in `at` alone decide."""
        known = set().union(*(x.variables for x in at.values())) if at else set()
        inside = {n: at.get(n, variable(f"?{n}", 0, g.size - 1)) for n, g in enumerate(self.tree.groups)}
        full = self.indices(inside)
        for i in self.fusion.instructions:
            if i.opcode != "broadcast" or i.shape.dimensions != self.dims or self.levels[i] != level:
                continue
            operand = i.operands[0]
            taken = [full[d] for d in i.attributes.get("dimensions", ())]
            taken = [x if n != 1 else constant(0) for x, n in zip(taken, operand.shape.dimensions, strict=True)]
            if all(x.variables <= known for x in taken):
                self.elements.value(operand, taken, self.block)

    def _accumulators(
        self, r: Instruction, width: int = 0, fills: list[str] | None = None, parts: Sequence[str] = ()
    ) -> list[str]:
        """Declares the accumulators of a reduce, an array each or their leaf's of `parts`, filled with what changes
        nothing.

        Columns are filled by the caller if it gives `fills`, to which the statements for number l are added: one loop
        for all reduces, since each takes a compiler milliseconds.
        """
        width, names = width or self._width(), []
        self.starts[r] = []
        reducer = r.attributes["to_apply"]
        for n, name in enumerate(accumulator_types(reducer)):
            start = neutral(binary_opcode(reducer), name)
            if start is None:  # they may enter often: passes/init_value_isolation.py
                start = self.elements.value(r.operands[len(r.operands) // 2 + n], (), self.block)
            names.append(self.elements.names.fresh("acc"))
            if width == 1:
                self.block.line(f"{scalar.register_type(name)} {names[-1]} = {start};")
                continue
            self.starts[r].append(start)
            c_type = scalar.register_type(name)
            if parts and in_place(self):
                self.block.line(f"__global {c_type}* {names[-1]} = {parts[n]} + leaf * {width};")
            else:
                self.block.line(f"{c_type} {names[-1]}[{width}] __attribute__((aligned(64)));")
            fill = f"{names[-1]}[l] = {start};"
            if self.once:
                continue
            if fills is not None and self.tree.style == "column":
                fills.append(fill)
            elif width == self.tree.lanes and vector_width(self, name):
                fill_lanes(self, name, names[-1], start)
            else:
                self.block.line(f"for (int l = 0; l < {width}; ++l) {fill}")
        return names

    def _width(self) -> int:
        """How many accumulators a reduce has: a lane or a column each, and those that fill the last vector."""
        if self.tree.style == "row":
            return self.tree.lanes
        return -(-self.tree.strip // self.filled) * self.filled

    def _accumulate(self, number: int, phase: Sequence[Instruction], totals: dict, leaf: Index) -> None:
        """The loops of one pass over the operand."""
        t, e, block = self.tree, self.elements, self.block
        inner = len(t.groups) - 1
        outer = [n for n, g in enumerate(t.groups) if g.reduced and n != inner]
        with ExitStack() as scopes:
            at = dict(self.at)
            for n in outer[:-1] if t.style == "column" else outer:
                low, high = self._bounds(n, t.groups[n].size, leaf)
                name = e.names.fresh("r")
                scopes.enter_context(block.scope(f"for (int {name} = {low}; {name} < {high}; ++{name})"))
                at[n] = variable(name, 0, t.groups[n].size - 1)
            if t.style == "row":
                self._accumulate_row(at, number, phase, totals, leaf)
            else:
                self._accumulate_strip(at, outer[-1], number, phase, totals, leaf)

    def _accumulate_serially(self, number: int, phase: Sequence[Instruction], totals: dict) -> None:
        """All leaves of a row, each combined into the totals when it is done."""
        name, leaves, block = self.elements.names.fresh("leaf"), self.tree.leaves, self.block
        with block.scope(f"for (int {name} = 0; {name} < {leaves}; ++{name})"):
            own = {r: self._accumulators(r) for r in phase}
            self._accumulate(number, phase, own, variable(name, 0, leaves - 1))
            for r in phase:
                if self.tree.style == "row":
                    self._combine_lanes(r, own[r])
                with block.scope(f"if ({name} == 0)"), Slots(self) as at:
                    slot = self._lane_slot(at)
                    for total, part in zip(totals[r], own[r], strict=True):
                        block.line(f"{total}{slot} = {part}{slot};")
                with block.scope("else"), Slots(self) as at:
                    slot = self._lane_slot(at)
                    self._combine_into(r, [f"{n}{slot}" for n in totals[r]], [f"{n}{slot}" for n in own[r]])

    def _accumulate_row(self, at: dict, number: int, phase: Sequence[Instruction], totals: dict, leaf: Index) -> None:
        t = self.tree
        inner = len(t.groups) - 1
        size, lanes = t.groups[inner].size, t.lanes
        chunks, tail = divmod(size, lanes)
        vector = self._vector(phase)

        def turn(chunk: Index, step: int) -> None:
            emit_fetches(self, number, self.indices({**at, inner: chunk * lanes}), step * lanes)
            with self._lanes(lanes, vector) as lane:
                for k in range(step):
                    place = {**at, inner: (chunk + k) * lanes + lane}
                    self._take(number, phase, totals, place, self._lane_slot(lane), first=self.once)

        self._turns(self._bounds(inner, chunks, leaf), chunks, turn)
        if tail:
            with ExitStack() as scopes:
                if t.leaves > 1 and t.split == inner:
                    scopes.enter_context(self.block.scope(f"if ({leaf} == {t.leaves - 1})"))
                masked = 1 < tail and (self.masked or self.masked_reads and not self._writes(number))
                lane = scopes.enter_context(self._masked(tail, vector) if masked else self._lanes(tail))
                slot, mask = self._lane_slot(lane), f"{lane} < {tail}" if masked else ""
                self._take(number, phase, totals, {**at, inner: lane + chunks * lanes}, slot, mask)

    def _accumulate_strip(
        self, at: dict, rows: int, number: int, phase: Sequence[Instruction], totals: dict, leaf: Index
    ) -> None:
        t = self.tree
        inner, size = len(t.groups) - 1, t.groups[rows].size

        def turn(row: Index, step: int) -> None:
            for k in range(step):  # what is broadcast along the columns, once for a strip
                self._evaluate_broadcasts(0, {**at, rows: row + k})
            apart = is_strip(self)
            for k in range(step if apart else 1) if self.streamed or step > 1 else ():
                here = self.indices({**at, rows: row + k, inner: self.first_column()})
                emit_fetches(self, number, here, t.strip if apart else step * t.strip)
            if self.filled > 1:
                with ExitStack() as scopes:
                    lane = scopes.enter_context(self._masked(t.strip, self._vector(phase)))
                    column, mask = self._column(lane)
                    self._take(number, phase, totals, {**at, rows: row, inner: column}, f"[{lane}]", mask)
                return
            with self.each_column() as column:
                for k in range(step):
                    place = {**at, rows: row + k, inner: column}
                    self._take(number, phase, totals, place, self._slot(column))

        self._turns(self._bounds(rows, size, leaf), size, turn)

    def _turns(self, bounds: tuple[str, str], count: int, turn) -> None:
        """`turn(index, step)` in a loop over all of low..high-1, UNROLL at a time while there are as many."""
        (low, high), e, block = bounds, self.elements, self.block
        if self.tree.style == "row" and self.tree.lanes == 1 and self.tree.leaves == 1 and count < TINY:
            # Written out, so that clang can make a vector of several rows.
            for k in range(count):
                turn(constant(k), 1)
            return
        if count == 1 and self.tree.leaves == 1:
            turn(constant(0), 1)
            return
        name = e.names.fresh("c")
        steps = [self.unroll, 1] if 1 < self.unroll <= count else [1]
        counter = "long" if any(r.shape.is_tuple for r in self.reduces) else "int"  # or clang widens what is compared
        block.line(f"{counter} {name} = {low};")
        for step in steps:
            if step == 1 and len(steps) == 2 and self.tree.leaves == 1 and count % steps[0] == 0:
                break
            ahead = f"{name} + {step - 1}" if step > 1 else name
            with block.scope(f"for (; {ahead} < {high}; {name} += {step})"):
                turn(variable(name, 0, max(count - step, 0)), step)

    def _bounds(self, n: int, size: int, leaf: Index) -> tuple[str, str]:
        """Where this item's part of a loop of `size` turns over group n begins and ends, as C."""
        t = self.tree
        if t.leaves == 1 or n != t.split:
            return "0", str(size)
        wide = "(long)" if size * t.leaves >= 2**31 else ""
        cast = "(int)" if wide else ""
        part = f"{cast}({wide}{leaf} * {size} / {t.leaves})"
        return part, f"{cast}(({wide}{leaf} + 1) * {size} / {t.leaves})"

    def _vector(self, phase: Sequence[Instruction]) -> tuple[int, int]:
        """Of how many elements and how many of them are the vectors that hold all accumulators of a phase; (0, 0):
        clang's choice, where operands take more than a few operations or the vectors more than half the registers."""
        types, row = types_of(phase), self.tree.style == "row"
        width = min(self.target.vector_bytes // widest(types), self.tree.lanes) if row else self.filled
        count = self._width() // max(1, width)
        cheap = all(self._side_by_side(o) for r in phase for o in r.operands)
        many = count * len(types) > self.target.registers // 2
        return (0, 0) if not self.target.clang or width < 2 or many or not cheap else (width, count)

    def _lanes(self, count: int, vector: tuple[int, int] = (0, 0)):
        return Loop(self, "0", str(count), count, vector, "long" if vector[0] else "int")

    def _masked(self, size: int, vector: tuple[int, int]):
        """A loop over as many accumulators as fill vectors; those from `size` on have no element."""
        return Loop(self, "0", str(self._width()), size, vector, "long")

    def _column(self, lane: Index) -> tuple[Index, str]:
        """The column of an accumulator, and the condition for that there is one ("": there is)."""
        t, size = self.tree, self.tree.groups[-1].size
        if self.first == "0":
            return lane, f"{lane} < {t.strip}" if self._width() > t.strip else ""
        name = self.elements.names.fresh("column")
        self.block.line(f"const long {name} = {self.first} + {lane};")
        some = size % t.strip and not self.streamed or self._width() > t.strip
        return variable(name, 0, size - 1), f"{name} < {self.end}" if some else ""

    def first_column(self) -> Index:
        return constant(0) if self.first == "0" else variable(self.first, 0, self.tree.groups[-1].size - 1)

    def enter_columns(self, scopes: ExitStack) -> Index:
        """Enters a loop over the columns of a strip, in whole vectors where those are filled."""
        if self.filled == 1:
            return scopes.enter_context(self.each_column())
        column, mask = self._column(scopes.enter_context(self._masked(self.tree.strip, (0, 0))))
        if mask:
            scopes.enter_context(self.block.scope(f"if ({mask})"))
        return column

    def each_column(self):
        return Loop(self, self.first, self.end, self.tree.groups[-1].size)

    def _lane_slot(self, lane: Index) -> str:
        """What stands behind the name of an accumulator to name that of a lane."""
        return "" if self._width() == 1 else f"[{lane}]"

    def _slot(self, column: Index) -> str:
        return f"[{column}]" if self.first == "0" else f"[{column} - {self.first}]"

    def _take(
        self,
        number: int,
        phase: Sequence[Instruction],
        totals: dict,
        at: dict,
        slot: str,
        mask: str = "",
        first: bool = False,
    ) -> None:
        """One element of the operand goes into the accumulators, and to what else this pass computes of it.

        With a `mask`, a C condition, there is no such element where that does not hold: the accumulators stay. The
        `first` element of an accumulator finds nothing there.
        """
        e, block = self.elements, self.block
        full = self.indices(at)
        with block.scope():
            places = {r: [f"{name}{slot}" for name in totals[r]] for r in phase}
            results = places
            if mask:  # clang makes a masked load of what stands under the condition, and plain stores of the rest
                results = {
                    r: [e.assign(n, p, block, changes=True) for n, p in self._typed(r, places[r])] for r in phase
                }
            with block.scope(f"if ({mask})") if mask else ExitStack():
                self.held.bind(number, at, full)
                self.bind_columns(at)
                for r in phase:
                    operands = r.operands[: len(r.operands) // 2]
                    values = [e.value(o, full, block) for o in operands]
                    self._combine_into(r, results[r], values, self.starts[r] if first else ())
                self.held.keep(number, at, full)
                if number == 0:
                    self.store_full(self.early, full)
            if mask:
                for r in phase:
                    for place, result in zip(places[r], results[r], strict=True):
                        block.line(f"{place} = {result};")

    def _writes(self, number: int) -> bool:
        """Whether a pass writes more than accumulators."""
        return number in self.held.made.values() or number == 0 and bool(self.early)

    def _typed(self, r: Instruction, places: Sequence[str]):
        """Pairs of the type and the place of each accumulator of a reduce."""
        return zip(accumulator_types(r.attributes["to_apply"]), places, strict=True)

    # Results.

    def _combine_lanes(self, r: Instruction, names: list[str]) -> None:
        if combine_lanes(self, r, names[0]):
            return
        half = self.tree.lanes // 2
        width, _ = self._vector(next(phase for phase in self.phases if r in phase))
        while half:
            width = min(width, half)
            written = half <= 2 and width > 0  # too short for a vector: as a loop it would keep all in memory
            for k in range(half if written else 1):
                with self._lanes(half, (width, half // max(width, 1))) if not written else self._lanes(1) as lane:
                    places = [f"{name}[{lane + k}]" for name in names]
                    others = [f"{name}[{lane + k + half}]" for name in names]
                    self._combine_into(r, places, others)
            half //= 2

    def _combine_into(
        self, r: Instruction, places: Sequence[str], others: Sequence[str], held: Sequence[str] = ()
    ) -> None:
        """What `held` (or else the places) and the others make together goes to the places."""
        reducer = r.attributes["to_apply"]
        held = [self.elements.assign(name, place, self.block) for name, place in self._typed(r, held or places)]
        results = combine(self.elements, reducer, (*held, *others), self.block)
        for place, value in zip(places, results, strict=True):
            self.block.line(f"{place} = {value};")

    def _finish(self, phase: Sequence[Instruction], totals: dict[Instruction, list[str]]) -> None:
        """The initial values enter, totals are rounded to the results' types and bound to the reduces.

        For columns that is done where they are stored, or in a loop before where the operand is gone over again.
        """
        e, block = self.elements, self.block
        self.inits |= {r: [e.value(o, (), block) for o in r.operands[len(r.operands) // 2 :]] for r in phase}
        if self.tree.style == "column":
            if self.late or phase is not self.phases[-1]:
                with self.each_column() as column:
                    for r in phase:
                        places = [f"{name}{self._slot(column)}" for name in totals[r]]
                        for place, value in zip(places, self._finished(r, places), strict=True):
                            if place != value:
                                block.line(f"{place} = {value};")
                self.inits = {}
            self.columns |= {r: totals[r] for r in phase}
            return
        for r in phase:
            values = self._finished(r, [f"{name}{self._lane_slot(constant(0))}" for name in totals[r]])
            if not self._starts_neutral(r):
                types = accumulator_types(r.attributes["to_apply"])
                values = [e.assign(t, v, block) for t, v in zip(types, values, strict=True)]
            self._bind(r, self._kept_indices(self.at), values)

    def _starts_neutral(self, r: Instruction) -> bool:
        """Whether the initial value is no part of the total yet."""
        reducer = r.attributes["to_apply"]
        return neutral(binary_opcode(reducer), accumulator_types(reducer)[0]) is not None

    def _finished(self, r: Instruction, places: Sequence[str]) -> Sequence[str]:
        """The results of a reduce, given its totals."""
        e, reducer, block = self.elements, r.attributes["to_apply"], self.block
        total = combine(e, reducer, (*self.inits[r], *places), block) if self._starts_neutral(r) else places
        return rounded(e, reducer, total, block)

    def _bind(self, r: Instruction, kept: Indices, values: Sequence[str]) -> None:
        self.elements.bind(r, kept, tuple(values) if r.shape.is_tuple else values[0])

    def bind_columns(self, at: dict[int, Index]) -> None:
        """In a loop over columns: the finished reduces are known at this column (for rows there are none)."""
        column = at[len(self.tree.groups) - 1]
        for r, names in self.columns.items():
            totals = [f"{name}{self._slot(column)}" for name in names]
            self._bind(r, self._kept_indices(at), self._finished(r, totals) if r in self.inits else totals)

    def _store(self) -> None:
        """The outputs that need the results."""
        if self.tree.style == "row":
            self._store_small(self.at)
        elif self.small:
            with self.each_column() as column:
                at = {**self.at, len(self.tree.groups) - 1: column}
                self.bind_columns(at)
                self._store_small(at)
        if self.late:
            emit_late(self)

    def _store_small(self, at: dict[int, Index]) -> None:
        kept = self._kept_indices(at)
        for o in self.small:
            own = kept
            if o.shape.dimensions != self.kept_dims:
                own = delinearize(linearize(kept, self.kept_dims), o.shape.dimensions)
            self.elements.store(o, own, self.block)

    def store_full(self, outputs: Sequence[Instruction], full: Indices) -> None:
        places = {}
        for o in outputs:
            same = o.shape.dimensions == self.dims
            places[o] = full if same else delinearize(linearize(full, self.dims), o.shape.dimensions)
        # All values before the first store: an output may lie in the memory of an input that is read at the same index.
        for o, own in places.items():
            self.elements.value(o, own, self.block)
        for o, own in places.items():
            self.elements.store(o, own, self.block)
