"""From an optimized module to a plan: fusions, kernels, steps, and memory.

For each computation that runs by itself (the entry, the bodies and conditions of loops, the branches of conditionals)
the scheduler groups instructions; each group becomes kernels and a launch of each. Meanwhile every value gets a
block: a piece of memory with the steps between which it is needed. Blocks are shared where a value may be updated in
place: the state of a loop, the operand of a dynamic-update-slice or scatter that nobody reads later, an input of a
loop kernel that is read only at the index that is written. The memory planner then gives each block of the arena its
offset.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from refxla_spec.module import Computation, Instruction, Module
from refxla_spec.types import S32, Shape

from .._core.buffer_offsets import assign
from .._core.fusion import schedule
from .._core.graph import Graph, NodeClass, Relation
from ..analysis.cost_analysis import Costs, kernel_us
from ..analysis.while_loop_analysis import counter_of, covers, state_values, without_counting
from ..ir import plan as p
from ..ir.library_calls import batch, call_us, library_call, routine_name
from ..passes import host_call_threading
from ..passes.winograd_convolution import Decision
from ..progress import stage
from .fusion_group import FusionGroup
from .launch_merging import LaunchMerger, MergedLaunch
from .tile_scheduling import plan_tiled_fusion
from .tiled_fusion import TiledFusion, TilingDecision, TilingSearch

ALIGNMENT = 64
TABLE = 1 << 16  # iterations of a loop up to which its counter is read from a table
Emit = Callable[[p.Fusion], "tuple[p.Kernel, ...]"]
Steps = list[tuple[int, p.Step]]  # each with its time


@dataclass(eq=False)
class Block:
    """A piece of memory: where it lies, and the first and last step at which it is needed."""

    name: str
    shape: Shape
    bytes: int
    space: str = p.ARENA
    index: int = 0
    offset: int = 0
    start: int = 0
    end: int = -1


@dataclass(frozen=True)
class Refusal:
    """An edge that was not fused: who makes the value, which kernel reads it, why, and what the cost model said
    (ns)."""

    producer: Instruction
    user: str
    reason: str
    apart: float
    fused: float


@dataclass
class PlanningResult:
    """A plan, and what `explain` tells about how it came about. `tilings` says of each convolution whether it is
    computed in tiles, where that was asked for."""

    plan: p.Plan
    refusals: list[Refusal] = field(default_factory=list)
    merged_launches: list[MergedLaunch] = field(default_factory=list)
    winograd: tuple[Decision, ...] = ()
    tiled_fusions: list[TilingDecision] = field(default_factory=list)
    costs: Costs = field(default_factory=Costs)


def make_plan(
    module: Module,
    emit: Emit,
    costs: Costs | None = None,
    fuse: bool = True,
    launch_merging_cores: int = 0,
    persistent: bool = False,
    on_kernel: Callable[[p.Kernel], object] | None = None,
    tiled_fusion: bool = True,
) -> PlanningResult:
    """Plan a module that the passes have prepared (see passes/pipeline.py); `emit` turns a fusion into kernels.

    Without `fuse` every instruction is a kernel of its own, which changes no bit of any result. With
    `launch_merging_cores`, the number of cores of a CPU, small launches are merged (launch_merging.py); 0 leaves each
    kernel a launch. `persistent` allows persistent kernels (persistent_kernel.py), `tiled_fusion` tiled fusions
    (tiled_fusion.py). `on_kernel` is called with each kernel that is sure to be launched by itself, when it is emitted.
    """
    planner = _Planner(module, emit, costs or Costs(), fuse, launch_merging_cores, persistent, on_kernel, tiled_fusion)
    return planner.planned()


class _Planner:
    def __init__(
        self,
        module: Module,
        emit: Emit,
        costs: Costs,
        fuse: bool,
        launch_merging_cores: int,
        persistent: bool,
        on_kernel: Callable[[p.Kernel], object] | None,
        tiled_fusion: bool,
    ) -> None:
        self.module, self.emit, self.costs, self.fuse, self.on_kernel = module, emit, costs, fuse, on_kernel
        self.time = 0
        self.blocks: list[Block] = []
        self.number: dict[Block, int] = {}
        self.kernels: list[p.Kernel] = []
        self.fusions: list[p.Fusion] = []
        self.refusals: list[Refusal] = []
        self.constants: dict[tuple[str, tuple[int, ...], bytes], Block] = {}
        self.constant_values: list[tuple[int, np.ndarray]] = []
        self.constant_bytes = self.workspace_bytes = 0
        self.merging: LaunchMerger | None = None
        if launch_merging_cores:
            size = lambda b: self.blocks[b].bytes  # noqa: E731
            workspace = partial(self.workspace, "barrier") if persistent else None
            self.merging = LaunchMerger(
                self.kernels, size, self.live, costs, launch_merging_cores, self.scratch, self.zeros, workspace
            )
        self.cores = launch_merging_cores
        self.tiled = tiled_fusion and fuse and self.merging is not None and self.merging.workspace is not None
        self.tiling_decisions: list[TilingDecision] = []

    def planned(self) -> PlanningResult:
        entry = self.module.entry
        single = entry.root.opcode != "tuple"
        threaded = host_call_threading.STATE_RESULT in self.module.attributes
        values: dict[Instruction, Block] = {}
        for n, i in enumerate(entry.parameters):
            values[i] = self.block(i.name, i.shape, p.PARAMETER, index=n)
        frame = ComputationScheduler(self, entry, values, owned=set())
        steps = frame.run()
        results = frame.roots
        if threaded:  # the last of them is there to be computed, and nobody wants it
            results = results[:-1]
            single = self.module.attributes[host_call_threading.STATE_RESULT] == "single"
        taken: set[Block] = set()
        for n, leaf in enumerate(results):
            block = frame.values[leaf]
            if block.space == p.ARENA and block not in taken:
                block.space, block.index = p.RESULT, n
            else:
                target = self.block(f"result.{n}", leaf.shape, p.RESULT, index=n)
                self.copy(steps, block, target)
                block = target
            taken.add(block)
        merged = [] if self.merging is None else self.merging.merged
        return PlanningResult(
            self.finish(self.merge(steps), results, single),
            self.refusals,
            merged,
            tiled_fusions=self.tiling_decisions,
            costs=self.costs,
        )

    # -- memory -----------------------------------------------------------------------------------------------

    def block(self, name: str, shape: Shape, space: str = p.ARENA, index: int = 0, bytes: int | None = None) -> Block:
        made = Block(name, shape, shape.bytes if bytes is None else bytes, space, index)
        made.start = self.time
        self.number[made] = len(self.blocks)
        self.blocks.append(made)
        return made

    def constant(self, name: str, value: np.ndarray) -> Block:
        array = np.ascontiguousarray(value).reshape(np.shape(value))
        key = (str(array.dtype), array.shape, hashlib.sha256(array.reshape(-1).view(np.uint8)).digest())
        if key not in self.constants:
            made = self.block(name, Shape.of(array), p.CONSTANT)
            made.offset = self.constant_bytes
            self.constant_values.append((made.offset, array))
            self.constant_bytes += _aligned(made.bytes)
            self.constants[key] = made
        return self.constants[key]

    def workspace(self, name: str, bytes: int) -> int:
        """The number of a new block of memory that is zeroed once."""
        block = self.block(f"{name}.workspace", Shape.array("u8", (bytes,)), p.WORKSPACE)
        block.offset = self.workspace_bytes
        self.workspace_bytes += _aligned(bytes)
        return self.number[block]

    def scratch(self, name: str, element_type: str, count: int) -> int:
        """The number of a new block of so many elements, which the step being planned uses."""
        return self.touch(self.block(name, Shape.array(element_type, (count,))))

    def zeros(self, count: int) -> int:
        """The number of a constant of zeros of type s64."""
        return self.touch(self.constant("zeros", np.zeros(count, np.int64)))

    def touch(self, block: Block) -> int:
        """Note that the step being planned uses the block; returns its number."""
        block.end = max(block.end, self.time)
        return self.number[block]

    def live(self, number: int, time: int) -> None:
        """Note that the step of that time uses a block, though it was planned for a later one."""
        self.blocks[number].start = min(self.blocks[number].start, time)

    def copy(self, steps: Steps, source: Block, target: Block) -> None:
        if source is not target and source.bytes:
            steps.append((self.time, p.Copy(self.touch(source), self.touch(target))))
            self.time += 1

    def merge(self, steps: Steps) -> tuple[p.Step, ...]:
        """The steps of a computation, with small launches made one."""
        return tuple(s for _, s in steps) if self.merging is None else self.merging.run(steps)

    def us_of(self, fusion: p.Fusion, kernel: p.Kernel, last: bool) -> float:
        """The microseconds that a kernel takes on one core; the last of a fusion does the work, others move values."""
        if last:
            return kernel_us(fusion, self.costs)
        moved = sum(a.instruction.shape.bytes if a.instruction is not None else a.bytes for a in kernel.arguments)
        return moved * self.costs.byte / 1e3

    def tell(self, kernel: p.Kernel, computation: Computation) -> None:
        """Give away a kernel that no other launch will take."""
        if self.on_kernel is not None and kernel.items and computation is self.module.entry:
            if self.merging is None or self.merging.stands_alone(kernel):
                self.on_kernel(kernel)

    def finish(self, steps: Sequence[p.Step], results: Sequence[Instruction], single: bool) -> p.Plan:
        arena = [b for b in self.blocks if b.space == p.ARENA]
        columns = ([b.start for b in arena], [b.end for b in arena], [b.bytes for b in arena])
        offsets, total = assign(*(np.array(c, np.int64) for c in columns), ALIGNMENT)
        for b, offset in zip(arena, offsets, strict=True):
            b.offset = int(offset)
        steps, kernels = p.renumbered(steps, self.kernels)
        buffers = [p.Buffer(b.name, b.shape, b.bytes, b.space, b.index, b.offset) for b in self.blocks]
        buffers, steps = p.without_tiles(buffers, steps)
        return p.Plan(
            self.module.name,
            kernels,
            buffers,
            steps,
            tuple(i.shape for i in self.module.entry.parameters),
            tuple(i.shape for i in results),
            tuple(self.constant_values),
            self.constant_bytes,
            int(total),
            self.workspace_bytes,
            single,
            tuple(self.fusions),
        )


@dataclass
class _Preheader:
    """What is around the body of a loop: the steps before it, at `time` more of them can be done, and the blocks that
    are the same in every iteration. `filled` are blocks that those steps fill for all of them."""

    steps: Steps
    time: int
    kept: set[Block]
    filled: list[Block] = field(default_factory=list)


class ComputationScheduler:
    """One computation being planned: the blocks of its values, and who may still read them.

    `owned` are the blocks given from outside that this computation may overwrite once their value is read for the last
    time: the state of the loop whose body it is. `trip_count`: of the body of a tiled fusion, the number of tiles.
    """

    def __init__(
        self,
        planner: _Planner,
        computation: Computation,
        values: dict[Instruction, Block],
        owned: set[Block],
        trip_count: int = 0,
    ) -> None:
        self.planner, self.computation, self.values, self.owned = planner, computation, values, set(owned)
        self.graph = Graph(computation)
        self.groups, unfused = schedule(self.graph, planner.costs, planner.fuse, planner.merging is not None)
        self.read: dict[int, list[tuple[Instruction, bool]]] = {}  # what `operands` gave
        self.roots = root_leaves(computation)
        self.names = [self._name(n) for n in range(len(self.groups))]
        self.overwritten = self._overwritten()
        for edge in unfused:
            producer = self.graph.instructions[edge.producer][0]
            planner.refusals.append(Refusal(producer, self.names[edge.user], edge.reason, edge.apart, edge.fused))
        self.aliases = self._aliases()
        self.last_use = self._last_uses()
        self.preheader: _Preheader | None = None  # of the body of a loop, or of a tiled fusion
        self.trip_count = trip_count or 1
        self.tiled: dict[int, TiledFusion] = {}  # by the number of their group
        if planner.tiled and not trip_count:
            self._tile()
        self.steps: Steps = []
        self.targets: dict[Instruction, Block] = {}  # values that are to be written to a given block

    def _tile(self) -> None:
        """Make one of groups that are computed tile by tile."""
        us = lambda n: kernel_us(self.fusion(n, self.groups[n]), self.planner.costs)  # noqa: E731
        search = TilingSearch(self, self.planner.costs, self.planner.cores, us)
        found = search.run()
        self.planner.tiling_decisions += search.decisions
        if found:
            self.groups, self.names, self.tiled = search.joined(found)
            self.aliases = self._aliases()
            self.last_use = self._last_uses()

    def _name(self, n: int) -> str:
        group = self.groups[n]
        first = self.graph.instructions[group.heroes[-1] if group.heroes else group.outputs[0]][0]
        return first.name if group.kind == "control" else f"{group.kind}.{first.name}"

    def _aliases(self) -> dict[Instruction, Instruction]:
        """Values that are others: a reshape or copy alone in its group, and what a loop leaves as it was given."""
        found: dict[Instruction, Instruction] = {}
        for group in self.groups:
            i, *elements = self.graph.instructions[group.outputs[0]]
            alone = group.members == group.outputs and len(group.members) == 1
            if group.kind == "loop" and alone and i.opcode in ("reshape", "copy"):
                if not self.is_inline(i.operands[0]):
                    found[i] = i.operands[0]
            elif i.opcode == "while":
                inside, roots = state_values(i.body), root_leaves(i.body)
                kept = (e for e in elements if inside.get(e.index) is roots[e.index])
                found.update({e: i.operands[0].operands[e.index] for e in kept})
        return found

    def _overwritten(self) -> dict[Instruction, set[int]]:
        """By loop, the elements of its state whose values before it nobody reads."""
        found = {}
        for group in self.groups:
            i = self.graph.instructions[group.outputs[0]][0]
            counter = counter_of(i) if i.opcode == "while" else None
            if counter is not None and 0 < counter.trip_count <= TABLE:
                found[i] = {k for k in range(len(i.operands[0].operands)) if covers(i, counter, k)}
        return found

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
        found: dict[Instruction, None] = {}
        for m in group.members:
            for leaf, in_memory in self.operands(m):
                if leaf not in inside and (in_memory or not self.is_inline(leaf)):
                    found[leaf] = None
        return list(found)

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
        return self.graph.group[self.graph.node_of[i]] == NodeClass.N_INLINE

    # -- values and their blocks --------------------------------------------------------------------------------

    def block_of(self, i: Instruction) -> Block:
        """The block a value lies in; constants get theirs when first asked for."""
        i = self.base(i)
        if i not in self.values and i.opcode == "constant":
            self.values[i] = self.planner.constant(i.name, i.literal)
        return self.values[i]

    def dies(self, i: Instruction, group: int) -> bool:
        """Whether nobody reads a value after that group, and its memory is this computation's to use again."""
        if self.base(i).opcode == "constant":  # it may have no block, if nobody reads it as it is
            return False
        return self.last_use[self.base(i)] <= group and self.block_of(i) in self.owned

    def new_block(self, i: Instruction) -> Block:
        if i in self.targets:
            block = self.targets[i]
        else:
            block = self.planner.block(i.name, i.shape)
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
                plan_tiled_fusion(self, self.names[n], self.tiled[n], ALIGNMENT)
            elif first in self.aliases or not self.is_read(group.outputs):
                continue
            elif group.kind == "library-call":
                self.library_call(n, group)
            else:
                self.launch(n, group)
        for i in self.roots:
            self.values[i] = self.block_of(i)
            self.planner.touch(self.values[i])
        return self.steps

    def is_read(self, nodes: Sequence[int]) -> bool:
        """Whether anybody reads what a group writes."""
        return any(self.base(i) in self.last_use for m in nodes for i in self.graph.instructions[m])

    def launch(self, n: int, group: FusionGroup) -> None:
        """A group's kernels, and the launch of each."""
        fusion = self.fusion(n, group)
        planner = self.planner
        planner.fusions.append(fusion)
        scratch: dict[str, Block] = {}
        stage(f"kernel {len(planner.kernels) + 1}, {fusion.name}")
        kernels = planner.emit(fusion)
        arguments = [a for k in kernels for a in k.arguments]
        updated = {a.instruction: a.updates for a in arguments if a.role == "output" and a.updates}
        read = {self.base(a.instruction) for a in arguments if a.role == "input"}
        for i in fusion.outputs:
            source = updated.get(i)
            self.values[i] = self.output(n, fusion, i, source, source is not None and self.base(source) in read)
            if source is not None:
                read.add(self.base(source))  # a second output that begins as the same value needs a copy
        each_time: set[str] = set()  # scratch memory that is used anew in each iteration of the loop around
        for kernel in kernels:
            numbers = []
            for a in kernel.arguments:
                if a.role == "scratch":
                    if a.scratch not in scratch:
                        shape = Shape.array("u8", (a.bytes,))
                        scratch[a.scratch] = planner.block(f"{fusion.name}.{a.scratch}", shape)
                    block = scratch[a.scratch]
                elif a.role == "workspace":
                    block = planner.blocks[planner.workspace(kernel.name, a.bytes)]
                else:
                    block = self.block_of(a.instruction)
                numbers.append(planner.touch(block))
            us = planner.us_of(fusion, kernel, last=kernel is kernels[-1])
            planner.kernels.append(replace(kernel, us=us))
            planner.tell(planner.kernels[-1], self.computation)
            step = p.Launch(len(planner.kernels) - 1, tuple(numbers))
            shared = {a.scratch for a in kernel.arguments if a.role == "scratch"}
            if kernel is not kernels[-1] and not shared & each_time and self.is_once(kernel):
                self.preheader.steps.append((self.preheader.time, step))
                self.preheader.filled += [scratch[name] for name in sorted(shared)]
            else:
                each_time |= shared
                if kernel.items:
                    self.steps.append((planner.time, step))
            planner.time += 1

    def library_call(self, n: int, group: FusionGroup) -> None:
        """A call of a library. What several instructions show of it is written once and copied."""
        planner = self.planner
        fusion = self.fusion(n, group)
        planner.fusions.append(fusion)
        i = fusion.hero
        call, items = library_call(i), batch(i)
        results: list[int | None] = [None] * call.results
        again: list[tuple[Block, Block]] = []
        for o in fusion.outputs:
            k = o.index if i.shape.is_tuple else 0
            block = self.new_block(o)
            if results[k] is None:
                results[k] = planner.touch(block)
            else:
                again.append((planner.blocks[results[k]], block))
        operands = tuple(planner.touch(self.block_of(o)) for o in i.operands)
        shapes = [o.shape for o in i.operands] + list(i.shape.elements if i.shape.is_tuple else (i.shape,))
        each = [s.bytes // items for s in shapes]
        each += [S32.bytes] * (len(operands) + call.results - len(each))
        name, us = routine_name(i, call), call_us(call)
        step = p.LibraryCall(name, call.sizes, call.flags, items, operands, tuple(results), tuple(each), us)
        self.steps.append((planner.time, step))
        planner.time += 1
        for source, target in again:
            planner.copy(self.steps, source, target)

    def is_once(self, kernel: p.Kernel) -> bool:
        """Whether a stage makes the same of the same in every iteration of the loop around."""
        return self.preheader is not None and all(
            a.role == "scratch" or (a.role == "input" and self.is_kept(a.instruction)) for a in kernel.arguments
        )

    def is_kept(self, i: Instruction) -> bool:
        """Whether a value is the same in every iteration of the loop whose body this is."""
        if self.preheader is None:
            return False
        if self.base(i).opcode == "constant":
            return True
        block = self.block_of(i)
        return block in self.preheader.kept or block.space == p.CONSTANT

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
        if (
            group.kind == "scatter" and hero.shape.is_tuple
        ):  # it updates all its operands, also where a result is not read
            found = {i.index: i for i in written}
            for k, shape in enumerate(hero.shape.elements):
                if k not in found:
                    found[k] = Instruction(f"{hero.name}.{k}", "get-tuple-element", shape, [hero], {"index": k})
                    inside[found[k]] = None
            written = list(found.values())
        inputs = tuple(dict.fromkeys(self.inputs(group)))
        kept = tuple(i for i in inputs if self.is_kept(i))
        return p.Fusion(self.names[n], group.kind, tuple(inside), inputs, tuple(written), hero, kept, self.trip_count)

    def in_place(self, group: FusionGroup, value: Instruction) -> bool:
        """Whether a loop or dot reads a value, under whichever names it has, only at the index that it writes."""
        names = [i for i in self.inputs(group) if self.base(i) is self.base(value)]
        return all(self.graph.node_of[i] in group.pointwise_inputs for i in names)

    def output(
        self, n: int, fusion: p.Fusion, i: Instruction, updated: Instruction | None = None, read_too: bool = False
    ) -> Block:
        """The block an output is written to: a new one, or one that may be overwritten.

        `updated` is the value that is to lie there already, which the kernel also reads elsewhere if `read_too`.
        """
        if updated is not None:
            source = self.block_of(updated)
            if self.dies(updated, n) and not read_too and i not in self.targets:
                return source
            target = self.new_block(i)
            if source is not target:
                self.planner.copy(self.steps, source, target)
            return target
        if i in self.targets or len(fusion.outputs) > 1:
            return self.new_block(i)
        for candidate in fusion.inputs:
            if self.dies(candidate, n):
                block, alike = self.block_of(candidate), candidate.shape.element_type is i.shape.element_type
                if alike and block.bytes == i.shape.bytes and self.in_place(self.groups[n], candidate):
                    return block
        return self.new_block(i)

    def inside(
        self, computation: Computation, values: dict[Instruction, Block], trip_count: int, kept: set[Block]
    ) -> ComputationScheduler:
        """The frame of what is done in `trip_count` tiles; `kept` are blocks that most of these read alike."""
        frame = ComputationScheduler(self.planner, computation, values, set(), trip_count)
        frame.preheader = _Preheader([], self.planner.time - 1, kept)
        return frame

    def loop(self, n: int, i: Instruction) -> None:
        """A while: its state lives in blocks that the body reads and writes anew."""
        planner = self.planner
        counter = counter_of(i)
        tabled = counter is not None and counter.trip_count <= TABLE
        body = without_counting(i.body, counter) if tabled else i.body
        init = i.operands[0].operands
        inside = state_values(body)
        roots = root_leaves(body)
        state: list[Block] = []
        owned: set[Block] = set()
        unread = self.overwritten.get(i, ())
        given = [None if k in unread else self.block_of(value) for k, value in enumerate(init)]
        for k, value in enumerate(init):
            source = given[k]
            if tabled and k == counter.index:
                state.append(planner.block(f"{i.name}.{k}", value.shape))
                continue
            if inside.get(k) is roots[k]:  # the same in every iteration
                state.append(source)
                continue
            if source is None:  # every iteration writes its part
                state.append(planner.block(f"{i.name}.{k}", value.shape))
                owned.add(state[-1])
                continue
            if self.dies(value, n) and given.count(source) == 1:
                block = source
            else:
                block = planner.block(f"{i.name}.{k}", value.shape)
                planner.copy(self.steps, source, block)
            owned.add(block)
            state.append(block)
        same = {block for k, block in enumerate(state) if inside.get(k) is roots[k] and block is given[k]}
        around = _Preheader(self.steps, planner.time, same)
        planner.time += 1
        begin = planner.time
        known = len(planner.blocks)
        if counter is None:
            test = ComputationScheduler(planner, i.condition, _bind(i.condition, state), set())
            test_steps = planner.merge(test.run())
            predicate = planner.touch(test.block_of(test.roots[0]))
            planner.time += 1
        iteration = ComputationScheduler(planner, body, _bind(body, state), owned)
        iteration.aim(state)
        iteration.preheader = around
        timed = iteration.run()
        self.write_back(iteration, timed, state)
        body_steps = planner.merge(timed)
        for block in planner.blocks[:known]:
            if block.end >= begin or block in owned:
                block.end = planner.time
        for block in state:
            planner.touch(block)
        if counter is None:  # a launch of many iterations ends behind a body; whether another follows is read then
            planner.touch(test.block_of(test.roots[0]))
        for block in around.filled:
            block.start, block.end = around.time, planner.time
        merging, before = planner.merging, len(planner.blocks)
        if counter is None and merging is None:
            steps = (p.Loop(test_steps, predicate, body_steps),)
        elif counter is None:
            steps = merging.while_loop(test_steps, predicate, body_steps)
        else:
            numbers = (None, None)
            if tabled:
                dtype = state[counter.index].shape.element_type.dtype
                table = planner.constant(f"{i.name}.iterations", counter.values(dtype))
                numbers = planner.number[state[counter.index]], planner.number[table]
            if merging is None:
                steps = (p.Repeat(counter.trip_count, body_steps, *numbers),)
            else:
                steps = merging.counted_loop(counter.trip_count, body_steps, *numbers)
        self.add(begin, steps, before)
        planner.time += 1
        for k, block in enumerate(state):
            self.owned |= {block} if block in owned else set()
            if tabled and k == counter.index:
                last = counter.values(block.shape.element_type.dtype)[-1]
                block = planner.constant(f"{i.name}.{k}.last", last)
            for gte in self.elements(i, k):
                self.values[gte] = block

    def add(self, time: int, steps: Sequence[p.Step], blocks: int) -> None:
        """Add steps that begin at a time, as do the blocks that were made for them: those behind the first `blocks`."""
        for block in self.planner.blocks[blocks:]:
            block.start = min(block.start, time)
        self.steps += [(time, step) for step in steps]

    def elements(self, i: Instruction, k: int) -> list[Instruction]:
        """The get-tuple-element of index k, if anybody reads it."""
        return [g for g in self.graph.instructions[self.graph.node_of[i]][1:] if g.index == k]

    def aim(self, state: Sequence[Block]) -> None:
        """Let a loop's body write its results into the state, where no later kernel reads the old value."""
        inside = state_values(self.computation)
        outputs = ((i, n) for n, g in enumerate(self.groups) for m in g.outputs for i in self.graph.instructions[m])
        makers = {i: n for i, n in outputs if i not in self.aliases}
        bases = [self.base(root) for root in self.roots]
        for k, made in enumerate(bases):
            old = inside.get(k)
            if made in self.targets or made not in makers or bases.count(made) > 1:
                continue
            n = makers[made]
            if self.groups[n].kind in ("control", "update", "scatter") or made.shape.bytes != state[k].bytes:
                continue
            aligned = old is not None and len(self.groups[n].outputs) == 1 and self.in_place(self.groups[n], old)
            last = -1 if old is None else self.last_use.get(old, -1)
            if last < n or (last == n and aligned):
                self.targets[made] = state[k]
                self.owned.discard(state[k])

    def write_back(self, iteration: ComputationScheduler, steps: Steps, state: Sequence[Block]) -> None:
        """Copy to the state what the body left elsewhere; what lies in another state's block goes through a new one."""
        planner = self.planner
        made = [iteration.block_of(r) for r in iteration.roots]
        moves = [(source, target) for source, target in zip(made, state, strict=True) if source is not target]
        safe = []
        for source, target in moves:
            if source in state and any(target is not source and t is source for _, t in moves):
                between = planner.block(f"{target.name}.next", target.shape)
                planner.copy(steps, source, between)
                source = between
            safe.append((source, target))
        for source, target in safe:
            planner.copy(steps, source, target)

    def branch(self, n: int, i: Instruction) -> None:
        """A conditional: each branch writes the same blocks."""
        planner = self.planner
        index = planner.touch(self.block_of(i.operands[0]))
        results = [planner.block(f"{i.name}.{k}", s) for k, s in enumerate(i.shape.elements)]
        begin, known = planner.time, len(planner.blocks)
        planner.time += 1
        branches = []
        for called, operand in zip(branch_computations(i), i.operands[1:], strict=True):
            frame = ComputationScheduler(
                planner, called, _bind(called, [self.block_of(o) for o in operand.operands]), set()
            )
            frame.aim_fresh(results)
            steps = frame.run()
            for leaf, target in zip(frame.roots, results, strict=True):
                planner.copy(steps, frame.block_of(leaf), target)
            branches.append(planner.merge(steps))
        for block in planner.blocks[:known]:
            if block.end >= begin:
                block.end = planner.time
        for block in results:
            planner.touch(block)
        self.owned.update(results)
        merging, before = planner.merging, len(planner.blocks)
        if merging is None:
            self.add(begin, [p.Branch(index, tuple(branches))], before)
        else:
            of_pred = i.operands[0].shape.element_type.kind == "pred"
            self.add(begin, merging.branch(index, of_pred, branches), before)
        planner.time += 1
        for k, block in enumerate(results):
            for gte in self.elements(i, k):
                self.values[gte] = block

    def host_call(self, n: int, i: Instruction) -> None:
        """A function of the host: it reads memory, and fills other memory."""
        planner = self.planner
        results = [planner.block(f"{i.name}.{k}", s) for k, s in enumerate(i.shape.elements)]
        operands = [planner.touch(self.block_of(o)) for o in i.operands]
        filled = [planner.touch(block) for block in results]
        if i.custom_call_has_side_effect:  # the state is an order, and no value that the function knows
            operands, filled = operands[:-1], filled[:-1]
        step = p.HostCall(host_call_threading.key_of(i), tuple(operands), tuple(filled))
        self.steps.append((planner.time, step))
        planner.time += 1
        self.owned.update(results)
        for k, block in enumerate(results):
            for gte in self.elements(i, k):
                self.values[gte] = block

    def aim_fresh(self, results: Sequence[Block]) -> None:
        """Let a branch's kernels write the results' blocks."""
        made_here = {i for g in self.groups if g.kind not in ("control", "update", "scatter") for m in g.outputs
                     for i in self.graph.instructions[m]}  # fmt: skip
        for root, block in zip(self.roots, results, strict=True):
            made = self.base(root)
            if made in made_here and made not in self.targets and made.shape.bytes == block.bytes:
                self.targets[made] = block


def root_leaves(computation: Computation) -> list[Instruction]:
    """The array values a computation returns."""
    root = computation.root
    return list(root.operands) if root.opcode == "tuple" else [root]


def branch_computations(i: Instruction) -> tuple[Computation, ...]:
    """The computations of a conditional, in the order of its operands."""
    if "true_computation" in i.attributes:
        return (i.true_computation, i.false_computation)
    return i.branch_computations


def _bind(computation: Computation, blocks: Sequence[Block]) -> dict[Instruction, Block]:
    return {i: blocks[k] for k, i in state_values(computation).items()}


def _with_operands(i: Instruction) -> list[Instruction]:
    """An inline value with what it is made of: a broadcast constant with its constant."""
    return [x for o in i.operands for x in _with_operands(o)] + [i]


def _aligned(size: int) -> int:
    return (size + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT
