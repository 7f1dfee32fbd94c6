"""The steps of one computation that runs by itself: the entry, a loop's body or condition, a branch of a conditional.

The instructions are grouped into fusions; each becomes kernels and a launch of each. Meanwhile every value gets a
block of memory. Blocks are shared where a value may be updated in place: the state of a loop, the operand of a
dynamic-update-slice or scatter that nobody reads later, an input of a loop kernel that is read only at the index that
is written.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np
from refxla_spec.module import Computation, Instruction
from refxla_spec.types import S32, Shape

from .._core.fusion import schedule
from .._core.graph import Graph, NodeClass, Relation
from ..analysis.conditional_analysis import branch_computations, returned_elements, root_leaves
from ..analysis.cost_analysis import kernel_us, library_call_us
from ..analysis.in_place_updates import reads_where_it_writes
from ..analysis.tiling_analysis import TileBody
from ..analysis.while_loop_analysis import Counter, counter_of, covers, state_values, without_counting
from ..ir import plan as p
from ..ir.library_calls import batch, library_call, routine_name
from ..passes import host_call_threading
from ..passes.while_loop_unroller import unrolled_twice
from ..progress import stage
from .fusion_group import FusionGroup, UnfusedEdge
from .plan_builder import MemoryBlock, PlanBuilder, Refusal, Steps
from .tile_buffers import TileBuffers
from .tiled_fusion import TiledFusion, TilingSearch

TABLE = 1 << 16  # iterations of a loop up to which its counter is read from a table
LEAST_COPIED = 1 << 10  # bytes of a loop's state, below which copies are not worth a second iteration's code
LEAST_SHARE = 0.05  # of an iteration's time that copies take, for the same


@dataclass
class _Preheader:
    """What is around the body of a loop: the steps before it, which may become more, and the blocks that are the same
    in every iteration; the same of the loop around that, if there is one, and the steps that went there from here."""

    steps: Steps
    invariant: set[MemoryBlock]
    outer: _Preheader | None = None
    passed: Steps = field(default_factory=list)

    def is_invariant(self, block: MemoryBlock) -> bool:
        """Whether a block is the same in every iteration."""
        return block in self.invariant or block.space == p.CONSTANT

    def hoist(self, step: p.Launch, reads: Sequence[MemoryBlock]) -> None:
        """Adds a step that reads these blocks before the outermost loop in which they are the same."""
        if self.outer is not None and all(map(self.outer.is_invariant, reads)):
            self.passed.append(step)
            self.outer.hoist(step, reads)
        else:
            self.steps.append(step)

    def launches(self) -> list[p.Launch]:
        """The launches among the steps."""
        return [step for step in self.steps if isinstance(step, p.Launch)]


class ComputationScheduler:
    """One computation being planned: the blocks of its values, and who may still read them.

    `owned` are the blocks given from outside that this computation may overwrite once their value is read for the last
    time: the state of the loop whose body it is. `trip_count`: of the body of a tiled fusion, the number of tiles.
    `second`: of a body that is two iterations of a loop, the instructions of the second. `in_loop`: it is the body of a
    loop.
    """

    def __init__(
        self,
        builder: PlanBuilder,
        computation: Computation,
        values: dict[Instruction, MemoryBlock],
        owned: set[MemoryBlock],
        trip_count: int = 0,
        second: Collection[Instruction] = (),
        in_loop: bool = False,
    ) -> None:
        self.builder, self.computation, self.values, self.owned = builder, computation, values, set(owned)
        options = builder.options
        self.graph = Graph(computation, second, options.costs.caches, options.computes_in_pieces)
        self.groups, unfused = schedule(self.graph, options.costs, options.fusion, options.shares_launches, in_loop)
        self.read: dict[int, list[tuple[Instruction, bool]]] = {}  # what `operands` gave
        self.roots = root_leaves(computation)
        self.names = [self._name(n) for n in range(len(self.groups))]
        self.overwritten = self._overwritten()
        builder.refusals += self._refusals(unfused)
        self.aliases = self._aliases()
        self.last_use = self._last_uses()
        self.preheader: _Preheader | None = None  # of the body of a loop, or of a tiled fusion
        self.trip_count, self.in_loop = trip_count or 1, in_loop
        self.tiled: dict[int, TiledFusion] = {}  # by the number of their group
        if builder.tiled and not trip_count:
            self._tile()
        self.steps: Steps = []
        self.targets: dict[Instruction, MemoryBlock] = {}  # values that are to be written to a given block

    def _refusals(self, unfused: list[UnfusedEdge]) -> Iterator[Refusal]:
        """Why each value that one kernel writes for another is not computed there. What follows a hero is never asked:
        it is in the kernel of the hero, and would take that along."""
        told = set()
        for edge in unfused:
            told.add((edge.producer, edge.user))
            value = self.graph.instructions[edge.producer][0]
            yield Refusal(value, self.names[edge.user], edge.reason, edge.unfused, edge.fused)
        number = {i: n for n, instructions in enumerate(self.graph.instructions) for i in instructions}
        behind = {n: g.heroes for g in self.groups if g.kind != "control" for n in g.outputs if n not in g.heroes}
        for user, group in enumerate(self.groups):
            for i in (i for n in group.members for i in self.graph.instructions[n]):
                for producer in (number[o] for o in i.operands if o in number):
                    if behind.get(producer) and producer not in group.members and (producer, user) not in told:
                        told.add((producer, user))
                        hero = self.graph.instructions[behind[producer][-1]][0]
                        reason = f"it follows {hero.name}, which has an emitter of its own, and is in that kernel"
                        yield Refusal(self.graph.instructions[producer][0], self.names[user], reason, 0, 0)

    def _tile(self) -> None:
        """Make one of groups that are computed tile by tile."""
        us = lambda n: kernel_us(self.fusion(n, self.groups[n]), self.builder.costs)  # noqa: E731
        search = TilingSearch(self, self.builder.costs, self.builder.cores, us)
        fusions = search.run()
        self.builder.tiling_decisions += search.decisions
        if fusions:
            self.groups, self.names, self.tiled = search.joined(fusions)
            self.aliases = self._aliases()
            self.last_use = self._last_uses()

    def _name(self, n: int) -> str:
        group = self.groups[n]
        first = self.graph.instructions[group.heroes[-1] if group.heroes else group.outputs[0]][0]
        return first.name if group.kind == "control" else f"{group.kind}.{first.name}"

    def _aliases(self) -> dict[Instruction, Instruction]:
        """Values that are others: a reshape or copy alone in its group, and what a loop leaves as it was given."""
        aliases: dict[Instruction, Instruction] = {}
        for group in self.groups:
            i, *elements = self.graph.instructions[group.outputs[0]]
            alone = group.members == group.outputs and len(group.members) == 1
            if group.kind == "loop" and alone and i.opcode in ("reshape", "copy"):
                if not self.is_inline(i.operands[0]):
                    aliases[i] = i.operands[0]
            elif i.opcode == "while":
                inside, roots = state_values(i.body), root_leaves(i.body)
                invariants = (e for e in elements if inside.get(e.index) is roots[e.index])
                aliases.update({e: i.operands[0].operands[e.index] for e in invariants})
        return aliases

    def _overwritten(self) -> dict[Instruction, set[int]]:
        """By loop, the elements of its state whose values before it nobody reads."""
        by_loop = {}
        for group in self.groups:
            i = self.graph.instructions[group.outputs[0]][0]
            counter = counter_of(i) if i.opcode == "while" else None
            if counter is not None and 0 < counter.trip_count <= TABLE:
                by_loop[i] = {k for k in range(len(i.operands[0].operands)) if covers(i, counter, k)}
        return by_loop

    def base(self, i: Instruction) -> Instruction:
        while i in self.aliases:
            i = self.aliases[i]
        return i

    def _last_uses(self) -> dict[Instruction, int]:
        """For each value in memory the number of the last group that reads it; roots are read after all."""
        last: dict[Instruction, int] = {}
        for n, group in enumerate(self.groups):
            for i in self.inputs(group):
                last[self.base(i)] = n
        for i in self.roots:
            last[self.base(i)] = len(self.groups)
        return last

    def inputs(self, group: FusionGroup) -> list[Instruction]:
        """The values a group reads from memory, in order of first use."""
        inside = {i for m in group.members for i in self.graph.instructions[m]}
        values: dict[Instruction, None] = {}
        for m in group.members:
            for leaf, in_memory in self.operands(m):
                if leaf not in inside and (in_memory or not self.is_inline(leaf)):
                    values[leaf] = None
        return list(values)

    def operands(self, node: int) -> list[tuple[Instruction, bool]]:
        """The array values a node reads, and whether it must find them in memory."""
        if node not in self.read:
            self.read[node] = self._operands(node)
        return self.read[node]

    def _operands(self, node: int) -> list[tuple[Instruction, bool]]:
        i, first = self.graph.instructions[node][0], self.graph.first[node]
        values = [leaf for o in i.operands for leaf in (o.operands if o.opcode == "tuple" else (o,))]
        unread = self.overwritten.get(i, ())
        return [
            (v, self.graph.relation[first + k] == Relation.R_MEMORY) for k, v in enumerate(values) if k not in unread
        ]

    def is_inline(self, i: Instruction) -> bool:
        """Whether a value is written out wherever it is used (a scalar or splat constant, an iota)."""
        return bool(self.graph.group[self.graph.node_of[i]] == NodeClass.N_INLINE)

    # -- values and their blocks --------------------------------------------------------------------------------

    def block_of(self, i: Instruction) -> MemoryBlock:
        """The block a value lies in; constants get theirs when first asked for."""
        i = self.base(i)
        if i not in self.values and i.opcode == "constant":
            self.values[i] = self.builder.constant(i.name, i.literal)
        return self.values[i]

    def is_last_use(self, i: Instruction, group: int) -> bool:
        """Whether no later group reads a value, and its buffer is of this computation, so that it can be reused."""
        if self.base(i).opcode == "constant":  # it may have no block, if no kernel reads it from memory
            return False
        return self.last_use[self.base(i)] <= group and self.block_of(i) in self.owned

    def new_block(self, i: Instruction) -> MemoryBlock:
        if i in self.targets:
            block = self.targets[i]
        else:
            block = self.builder.block(i.name, i.shape)
            self.owned.add(block)
        self.values[i] = block
        return block

    # -- the walk ---------------------------------------------------------------------------------------------------

    def run(self) -> Steps:
        for n, group in enumerate(self.groups):
            first = self.graph.instructions[group.outputs[0]][0]
            if group.kind == "control":
                control = {"while": self.loop, "conditional": self.branch, "custom-call": self.host_call}
                control[first.opcode](n, first)
            elif n in self.tiled:
                self.tiled_fusion(self.names[n], self.tiled[n].body)
            elif first in self.aliases or not self.is_read(group.outputs):
                continue
            elif group.kind == "library-call":
                self.library_call(n, group)
            else:
                self.launch(n, group)
        for i in self.roots:
            self.values[i] = self.block_of(i)
        return self.steps

    def is_read(self, nodes: Sequence[int]) -> bool:
        """Whether anybody reads what a group writes."""
        return any(self.base(i) in self.last_use for m in nodes for i in self.graph.instructions[m])

    def launch(self, n: int, group: FusionGroup) -> None:
        """A group's kernels, and the launch of each."""
        fusion = self.fusion(n, group)
        builder = self.builder
        builder.fusions.append(fusion)
        scratch: dict[str, MemoryBlock] = {}
        stage(f"kernel {len(builder.kernels) + 1}, {fusion.name}")
        kernels = builder.emit(fusion)
        arguments = [a for k in kernels for a in k.arguments]
        updated = {a.instruction: a.updates for a in arguments if a.role == "output" and a.updates}
        bases = {self.base(_value(a)) for a in arguments if a.role == "input"}
        for i in fusion.outputs:
            source = updated.get(i)
            read_too = source is not None and self.base(source) in bases and not self.updates_what_it_reads(fusion)
            self.values[i] = self.output(n, fusion, i, source, read_too)
            if source is not None:
                bases.add(self.base(source))  # a second output that begins as the same value needs a copy
        each_time: set[str] = set()  # scratch memory that is used anew in each iteration of the loop around
        for kernel in kernels:
            numbers = tuple(builder.number[self._argument_block(fusion, kernel, a, scratch)] for a in kernel.arguments)
            us = builder.us_of(fusion, kernel, last=kernel is kernels[-1])
            builder.kernels.append(replace(kernel, us=us))
            builder.report_kernel(builder.kernels[-1], self.computation)
            step = p.Launch(len(builder.kernels) - 1, numbers)
            shared = {a.scratch for a in kernel.arguments if a.role == "scratch"}
            preheader = None if kernel is kernels[-1] or shared & each_time else self.preheader
            if preheader is not None and self.is_once(kernel):
                preheader.hoist(step, [self.block_of(_value(a)) for a in kernel.arguments if a.role == "input"])
            else:
                each_time |= shared
                if kernel.items:
                    self.steps.append(step)

    def _argument_block(
        self, fusion: p.Fusion, kernel: p.Kernel, a: p.Argument, scratch: dict[str, MemoryBlock]
    ) -> MemoryBlock:
        """The block of a kernel's argument; `scratch` has those of the fusion's scratch memory so far, by name."""
        if a.role == "workspace":
            return self.builder.blocks[self.builder.workspace(kernel.name, a.bytes)]
        if a.role != "scratch":
            return self.block_of(_value(a))
        if a.scratch not in scratch:
            shape = Shape.array("u8", (a.bytes,))
            scratch[a.scratch] = self.builder.block(f"{fusion.name}.{a.scratch}", shape)
        return scratch[a.scratch]

    def library_call(self, n: int, group: FusionGroup) -> None:
        """A call of a library. What several instructions show of it is written once and copied."""
        builder = self.builder
        fusion = self.fusion(n, group)
        builder.fusions.append(fusion)
        i = fusion.hero
        assert i is not None
        call, items = library_call(i), batch(i)
        assert call is not None  # or it were no group of that kind
        results: list[int | None] = [None] * call.results
        again: list[tuple[MemoryBlock, MemoryBlock]] = []
        for o in fusion.outputs:
            k = o.index if i.shape.is_tuple else 0
            block = self.new_block(o)
            written = results[k]
            if written is None:
                results[k] = builder.number[block]
            else:
                again.append((builder.blocks[written], block))
        operands = tuple(builder.number[self.block_of(o)] for o in i.operands)
        shapes = [o.shape for o in i.operands] + list(i.shape.elements if i.shape.is_tuple else (i.shape,))
        each = [s.bytes // items for s in shapes]
        each += [S32.bytes] * (len(operands) + call.results - len(each))
        name, us = routine_name(i, call), library_call_us(i, call, self.builder.costs)
        step = p.LibraryCall(name, call.sizes, call.flags, items, operands, tuple(results), tuple(each), us)
        self.steps.append(step)
        for source, target in again:
            builder.copy(self.steps, source, target)

    def is_once(self, kernel: p.Kernel) -> bool:
        """Whether a stage makes the same of the same in every iteration of the loop around."""
        return all(
            a.role == "scratch" or (a.role == "input" and self.is_invariant(_value(a))) for a in kernel.arguments
        )

    def is_invariant(self, i: Instruction) -> bool:
        """Whether a value is the same in every iteration of the loop whose body this is."""
        if self.preheader is None:
            return False
        if self.base(i).opcode == "constant":
            return True
        return self.preheader.is_invariant(self.block_of(i))

    def fusion(self, n: int, group: FusionGroup) -> p.Fusion:
        inside: dict[Instruction, None] = {}
        for m in group.members:
            for o, in_memory in self.operands(m):
                if self.is_inline(o) and not in_memory:
                    inside.update(dict.fromkeys(_with_operands(o)))
            inside.update(dict.fromkeys(self.graph.instructions[m]))
        written = []
        for m in group.outputs:
            for i in self.graph.instructions[m]:
                if i.shape.is_array and i in self.last_use:
                    written.append(i)
        hero = self.graph.instructions[group.heroes[0]][0] if group.heroes else None
        if hero is not None and group.kind == "scatter" and hero.shape.is_tuple:
            # it updates all its operands, also where a result is not read
            by_index = {i.index: i for i in written}
            for k, shape in enumerate(hero.shape.elements):
                if k not in by_index:
                    by_index[k] = Instruction(f"{hero.name}.{k}", "get-tuple-element", shape, [hero], {"index": k})
                    inside[by_index[k]] = None
            written = list(by_index.values())
        inputs = tuple(dict.fromkeys(self.inputs(group)))
        invariants = tuple(i for i in inputs if self.is_invariant(i))
        return p.Fusion(
            self.names[n],
            group.kind,
            tuple(inside),
            inputs,
            tuple(written),
            hero,
            invariants,
            self.trip_count,
            self.in_loop,
        )

    def in_place(self, group: FusionGroup, value: Instruction) -> bool:
        """Whether a loop or product reads a value, under whichever names it has, only at the index that it writes."""
        names = [i for i in self.inputs(group) if self.base(i) is self.base(value)]
        return all(self.graph.node_of[i] in group.pointwise_inputs for i in names)

    def updates_what_it_reads(self, fusion: p.Fusion) -> bool:
        """Whether a kernel that updates a slice reads the array nowhere else than where it writes."""
        hero = fusion.hero
        if hero is None or hero.opcode != "dynamic-update-slice" or len(fusion.outputs) > 1:
            return False
        base = self.base(hero.operands[0])
        return reads_where_it_writes(hero, set(fusion.instructions), lambda i: self.base(i) is base)

    def is_made_in_place(self, n: int) -> bool:
        """Whether what makes a group's outputs says where they lie: an update or scatter in place, control flow."""
        kind = self.groups[n].kind
        if kind == "update":
            return self.updates_what_it_reads(self.fusion(n, self.groups[n]))
        return kind in ("control", "scatter")

    def output(
        self, n: int, fusion: p.Fusion, i: Instruction, updated: Instruction | None = None, read_too: bool = False
    ) -> MemoryBlock:
        """The block an output is written to: a new one, or one that may be overwritten.

        `updated` is the value that is to lie there already, which the kernel also reads elsewhere if `read_too`.
        """
        if updated is not None:
            source = self.block_of(updated)
            if self.is_last_use(updated, n) and not read_too and i not in self.targets:
                return source
            target = self.new_block(i)
            if source is not target:
                self.builder.copy(self.steps, source, target)
            return target
        if i in self.targets or len(fusion.outputs) > 1:
            return self.new_block(i)
        for candidate in fusion.inputs:
            if self.is_last_use(candidate, n):
                block, alike = self.block_of(candidate), candidate.shape.element_type is i.shape.element_type
                if alike and block.bytes == i.shape.bytes and self.in_place(self.groups[n], candidate):
                    return block
        return self.new_block(i)

    def tiled_fusion(self, name: str, body: TileBody) -> None:
        """A tiled fusion: one launch that does the steps of a tile for one tile after the other.

        What is the same for every tile, such as the panels of weights, is computed before; what is the same along the
        last axis, such as the panels of the keys of one head, once for each position of the other axes.
        """
        builder = self.builder
        assert builder.merging is not None  # or nothing is tiled
        results = [self.new_block(i) for i in body.results]
        block_count = len(builder.blocks)
        tile = TileBuffers(builder)
        values: dict[Instruction, MemoryBlock] = {}
        bases: list[MemoryBlock] = []
        for parameter, view in zip(body.computation.parameters, body.views, strict=True):
            if view.value is not None:
                bases.append(self.block_of(view.value))
            else:
                bases.append(builder.constant(f"{name}.starts", body.axes[view.table].starts()))
            values[parameter] = tile.part(view, bases[-1], parameter.shape)
        inner = ComputationScheduler(builder, body.computation, values, set(), prod(a.count for a in body.axes))
        preheader = inner.preheader = _Preheader([], tile.shared)
        targets = [tile.part(v, b, i.shape) for v, b, i in zip(body.written, results, inner.roots, strict=True)]
        inner.assign_new_output_buffers(targets)
        steps = inner.run()
        for leaf, target in zip(inner.roots, targets, strict=True):
            builder.copy(steps, inner.block_of(leaf), target)
        # A stage that reads no part of anything is the same for every tile.
        first = [s for s in preheader.launches() if not tile.has_part(s)]
        once = [s for s in preheader.launches() if tile.has_part(s)]
        self.steps += first
        outside = {b for s in first for b in s.buffers}
        own = [b for b in builder.blocks[block_count:] if b.space == p.ARENA and builder.number[b] not in outside]
        tile.assign(name, own, once, steps)
        self.steps.append(builder.merging.tiled(body.axes, tile.sub_buffers, once, steps))

    def loop(self, n: int, i: Instruction) -> None:
        """A while: its state lies in blocks that the body reads and writes anew."""
        builder = self.builder
        counter = counter_of(i)
        tabled = counter if counter is not None and counter.trip_count <= TABLE else None
        body = i.body if tabled is None else without_counting(i.body, tabled)
        state, owned, invariant = self._loop_state(n, i, body, None if tabled is None else tabled.index)
        block_count, before = len(builder.blocks), len(self.steps)
        around = _Preheader(self.steps, invariant, self.preheader)
        condition = self._condition(i, state) if counter is None else None
        told, tilings = len(builder.refusals), len(builder.tiling_decisions)
        iteration = self._iteration(body, state, owned)
        rest: Computation | None = None  # an iteration after the loop
        if tabled is not None and tabled.trip_count > 1 and iteration.copies_much(state):
            del builder.refusals[told:], builder.tiling_decisions[tilings:]
            rest = i.body if tabled.trip_count % 2 else None
            tabled = replace(tabled, step=2 * tabled.step, trip_count=tabled.trip_count // 2)
            counter = tabled
            both, second = unrolled_twice(i.body)
            iteration = self._iteration(without_counting(both, tabled), state, owned, second)
        iteration.preheader = around
        unmerged = iteration.run()
        self.write_back(iteration, unmerged, state)
        steps = builder.merge(unmerged)
        internal = builder.internal(block_count, [*self.steps[before:], *around.passed])
        if condition is not None:
            self._append_while_loop(*condition, steps, internal)
        elif counter is not None:
            self._append_counted_loop(i, counter, tabled, state, steps, internal)
        if rest is not None:
            state = self._last_iteration(i, rest, state, owned)
        self.owned |= owned
        for k, block in enumerate(state):
            for gte in self.elements(i, k):
                self.values[gte] = block

    def _loop_state(
        self, n: int, i: Instruction, body: Computation, counter: int | None
    ) -> tuple[list[MemoryBlock], set[MemoryBlock], set[MemoryBlock]]:
        """The blocks of a loop's state before its first iteration; those that the loop may overwrite; and those that
        are the same in every iteration. `counter` is the element that whoever runs the loop counts, if there is one."""
        builder, init = self.builder, i.operands[0].operands
        inside, roots = state_values(body), root_leaves(body)
        unread = self.overwritten.get(i, ())
        sources = [None if k in unread else self.block_of(value) for k, value in enumerate(init)]
        state: list[MemoryBlock] = []
        owned: set[MemoryBlock] = set()
        invariant: set[MemoryBlock] = set()
        for k, (value, source) in enumerate(zip(init, sources, strict=True)):
            is_invariant = inside.get(k) is roots[k]
            if k == counter or source is None:  # of which every iteration writes its part
                block = builder.block(f"{i.name}.{k}", value.shape)
            elif is_invariant or (self.is_last_use(value, n) and sources.count(source) == 1):
                block = source
            else:
                block = builder.block(f"{i.name}.{k}", value.shape)
                builder.copy(self.steps, source, block)
            state.append(block)
            if is_invariant and block is source:
                invariant.add(block)
            elif k != counter:
                owned.add(block)
        return state, owned, invariant

    def _condition(self, i: Instruction, state: Sequence[MemoryBlock]) -> tuple[tuple[p.Step, ...], int]:
        """The steps of a loop's condition, and the number of the buffer of its value."""
        test = ComputationScheduler(self.builder, i.condition, _bind(i.condition, state), set())
        steps = self.builder.merge(test.run())
        return steps, self.builder.number[test.block_of(test.roots[0])]

    def _append_while_loop(
        self, test: tuple[p.Step, ...], predicate: int, body: tuple[p.Step, ...], internal: Collection[int]
    ) -> None:
        """The steps of a loop that ends by a predicate."""
        if self.builder.merging is None:
            self.steps.append(p.Loop(test, predicate, body))
        else:
            self.steps += self.builder.merging.while_loop(test, predicate, body, internal)

    def _append_counted_loop(
        self,
        i: Instruction,
        counter: Counter,
        tabled: Counter | None,
        state: list[MemoryBlock],
        body: tuple[p.Step, ...],
        internal: Collection[int],
    ) -> None:
        """The steps of a loop with a known trip count. Where the counter is `tabled`, iterations read its value from a
        table, and `state` has the last one from here on."""
        builder = self.builder
        numbers: tuple[int | None, int | None] = (None, None)
        if tabled is not None:
            variable = state[tabled.index]
            values = tabled.values(_dtype(variable.shape))
            numbers = builder.number[variable], builder.number[builder.constant(f"{i.name}.iterations", values)]
        if builder.merging is None:
            self.steps.append(p.Repeat(counter.trip_count, body, *numbers))
        else:
            self.steps += builder.merging.counted_loop(counter.trip_count, body, *numbers, internal)
        if tabled is not None:
            state[tabled.index] = builder.constant(f"{i.name}.{tabled.index}.last", values[-1])

    def _iteration(
        self,
        body: Computation,
        state: Sequence[MemoryBlock],
        owned: set[MemoryBlock],
        second: Collection[Instruction] = (),
    ) -> ComputationScheduler:
        """The body of a loop, which writes the next state where the state lies if that can be."""
        iteration = ComputationScheduler(self.builder, body, _bind(body, state), owned, second=second, in_loop=True)
        inside = state_values(body)
        iteration.assign_output_buffers({k: (block, inside.get(k)) for k, block in enumerate(state)})
        return iteration

    def _last_iteration(
        self, i: Instruction, body: Computation, state: Sequence[MemoryBlock], owned: set[MemoryBlock]
    ) -> list[MemoryBlock]:
        """One iteration after those of the loop: the blocks of the state after it, each of its own. `owned` grows by
        those that are new."""
        iteration = ComputationScheduler(self.builder, body, _bind(body, state), owned)
        self.steps += iteration.run()
        owned |= iteration.owned
        blocks: list[MemoryBlock] = []
        for k, root in enumerate(iteration.roots):
            block = iteration.block_of(root)
            if block in blocks:
                again = self.builder.block(f"{i.name}.{k}", root.shape)
                self.builder.copy(self.steps, block, again)
                owned.add(again)
                block = again
            blocks.append(block)
        return blocks

    def copies_much(self, state: Sequence[MemoryBlock]) -> bool:
        """Whether an iteration of a loop spends much of its time on copies to where the state lies, which two
        iterations would not need: of arrays that kernels make elsewhere, since they read all over the old ones, and of
        those that only change their places. Products and what has steps of its own are much slower than copies."""
        if any(group.kind in ("control", "library-call") for group in self.groups):
            return False
        if Relation.R_PACKED in list(self.graph.relation):
            return False
        makers = {i: n for n, g in enumerate(self.groups) for m in g.outputs for i in self.graph.instructions[m]}
        copied = 0
        bases = [self.base(root) for root in self.roots]
        for base, block in zip(bases, state, strict=True):
            if base in self.values:
                moved = self.values[base] is not block and self.values[base] in state
            else:
                alone = base in makers and bases.count(base) == 1 and base not in self.targets
                moved = alone and not self.is_made_in_place(makers[base])
            copied += block.bytes if moved else 0
        us = sum(kernel_us(self.fusion(n, group), self.builder.costs) for n, group in enumerate(self.groups))
        return copied >= LEAST_COPIED and copied * self.builder.costs.copied_byte >= LEAST_SHARE * 1e3 * us

    def elements(self, i: Instruction, k: int) -> list[Instruction]:
        """The get-tuple-element of index k, if anybody reads it."""
        return [g for g in self.graph.instructions[self.graph.node_of[i]][1:] if g.index == k]

    def assign_output_buffers(self, blocks: Mapping[int, tuple[MemoryBlock, Instruction | None]]) -> None:
        """Let kernels write results where their old values lie, if no later kernel reads these. `blocks` has, by the
        number of a result, the block and its old value, or None if it is not read: the state of a loop, or a
        parameter that is donated."""
        outputs = ((i, n) for n, g in enumerate(self.groups) for m in g.outputs for i in self.graph.instructions[m])
        makers = {i: n for i, n in outputs if i not in self.aliases}
        bases = [self.base(root) for root in self.roots]
        for k, (block, old) in blocks.items():
            base = bases[k]
            if base in self.targets or base not in makers or bases.count(base) > 1:
                continue
            n = makers[base]
            if self.is_made_in_place(n) or base.shape.bytes != block.bytes:
                continue
            last = -1 if old is None else self.last_use.get(old, -1)
            if last < n or (last == n and old is not None and self.replaces(self.groups[n], base, old)):
                self.targets[base] = block
                self.owned.discard(block)

    def replaces(self, group: FusionGroup, result: Instruction, old: Instruction) -> bool:
        """Whether a kernel may write a result over an input. Where it has several outputs, the result is computed from
        the input's element: it can be stored only when that has been read."""
        if not self.in_place(group, old):
            return False
        if len(group.outputs) == 1:
            return True
        inside = {i for m in group.members for i in self.graph.instructions[m]}
        waiting, visited = [result], {result}
        while waiting:
            i = waiting.pop()
            if self.base(i) is self.base(old):
                return True
            more = [o for o in i.operands if i in inside and o not in visited]
            visited.update(more)
            waiting += more
        return False

    def write_back(self, iteration: ComputationScheduler, steps: Steps, state: Sequence[MemoryBlock]) -> None:
        """Copy to the state what the body left elsewhere; what lies in another state's block goes through a new one."""
        builder = self.builder
        results = [iteration.block_of(r) for r in iteration.roots]
        moves = [(source, target) for source, target in zip(results, state, strict=True) if source is not target]
        safe = []
        for source, target in moves:
            if source in state and any(target is not source and t is source for _, t in moves):
                between = builder.block(f"{target.name}.next", target.shape)
                builder.copy(steps, source, between)
                source = between
            safe.append((source, target))
        for source, target in safe:
            builder.copy(steps, source, target)

    def branch(self, n: int, i: Instruction) -> None:
        """A conditional: each branch writes the same blocks, of arrays that are updated those of the operands."""
        builder = self.builder
        index = builder.number[self.block_of(i.operands[0])]
        owned = self._overwritable_blocks(n, i)
        places = self._places(i, owned)
        results = [b or builder.block(f"{i.name}.{k}", i.shape.elements[k]) for k, b in enumerate(places)]
        block_count, branches = len(builder.blocks), []
        for called, operand in zip(branch_computations(i), i.operands[1:], strict=True):
            parameters = _bind(called, [self.block_of(o) for o in operand.operands])
            old = {block: value for value, block in parameters.items()}
            branch = ComputationScheduler(builder, called, parameters, owned)
            branch.assign_output_buffers({k: (b, old.get(b)) for k, b in enumerate(places) if b is not None})
            branch.assign_new_output_buffers([None if places[k] else b for k, b in enumerate(results)])
            steps = branch.run()
            self.write_back(branch, steps, results)
            branches.append(builder.merge(steps))
        self.owned.update(results)
        merging = builder.merging
        if merging is None:
            self.steps.append(p.Branch(index, tuple(branches)))
        else:
            of_pred = i.operands[0].shape.element_type.kind == "pred"
            self.steps += merging.branch(index, of_pred, branches, builder.internal(block_count))
        for k, block in enumerate(results):
            for gte in self.elements(i, k):
                self.values[gte] = block

    def _overwritable_blocks(self, n: int, i: Instruction) -> set[MemoryBlock]:
        """The blocks of a conditional's operands whose values nobody reads after it, and each branch under one name."""
        branches = [[(o, self.block_of(o)) for o in operand.operands] for operand in i.operands[1:]]
        excluded = {self.block_of(i.operands[0])}
        for operands in branches:
            blocks = [block for _, block in operands]
            excluded |= {block for o, block in operands if not self.is_last_use(o, n) or blocks.count(block) > 1}
        return {block for operands in branches for _, block in operands} - excluded

    def _places(self, i: Instruction, owned: Collection[MemoryBlock]) -> list[MemoryBlock | None]:
        """For each result of a conditional the block of an operand that some branch returns, as it is or with slices
        of it updated, if that may be overwritten; None for a result that needs a new one."""
        places: list[MemoryBlock | None] = []
        for k, shape in enumerate(i.shape.elements):
            alike = (v for v in returned_elements(i, k) if v.shape.element_type is shape.element_type)
            blocks = (b for b in map(self.block_of, alike) if b in owned and b.bytes == shape.bytes and b not in places)
            places.append(next(blocks, None))
        return places

    def host_call(self, n: int, i: Instruction) -> None:
        """A function of the host: it reads memory, and fills other memory."""
        builder = self.builder
        results = [builder.block(f"{i.name}.{k}", s) for k, s in enumerate(i.shape.elements)]
        end = -1 if i.custom_call_has_side_effect else None  # without the state, which is an order
        self.steps.append(
            p.HostCall(
                host_call_threading.key_of(i),
                operands=tuple(builder.number[self.block_of(o)] for o in i.operands[:end]),
                results=tuple(builder.number[block] for block in results[:end]),
                operand_shapes=tuple(o.shape for o in i.operands[:end]),
                result_shapes=tuple(i.shape.elements[:end]),
            )
        )
        self.owned.update(results)
        for k, block in enumerate(results):
            for gte in self.elements(i, k):
                self.values[gte] = block

    def assign_new_output_buffers(self, results: Sequence[MemoryBlock | None]) -> None:
        """Let kernels write results into new blocks; None for what is written elsewhere."""
        outputs = {i for n, g in enumerate(self.groups) if not self.is_made_in_place(n) for m in g.outputs
                   for i in self.graph.instructions[m]}  # fmt: skip
        for root, block in zip(self.roots, results, strict=True):
            base = self.base(root)
            if block and base in outputs and base not in self.targets and base.shape.bytes == block.bytes:
                self.targets[base] = block


def _value(a: p.Argument) -> Instruction:
    """The value that an input or output is."""
    assert a.instruction is not None
    return a.instruction


def _dtype(shape: Shape) -> np.dtype[Any]:
    """The type of an array's elements for NumPy."""
    dtype = shape.element_type.dtype
    assert dtype is not None
    return dtype


def _bind(computation: Computation, blocks: Sequence[MemoryBlock]) -> dict[Instruction, MemoryBlock]:
    return {i: blocks[k] for k, i in state_values(computation).items()}


def _with_operands(i: Instruction) -> list[Instruction]:
    """An inline value with what it is made of: a broadcast constant with its constant."""
    return [x for o in i.operands for x in _with_operands(o)] + [i]
