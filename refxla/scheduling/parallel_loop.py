"""Parallel loops: each core runs whole iterations of a loop.

The iterations of some loops do not need each other: a function mapped over the rows of an array (JAX's lax.map), or the
parts of a batch. Such a loop is one phase of a persistent kernel, whose tiles are the iterations. What an iteration
runs, it runs on one core, loops and all, so the cores wait for each other once, not after each kernel. An iteration has
its own memory for the values that it computes, and writes its slices of the results where they belong.

An iteration with a loop that may run long is left after a while, since signals are answered between launches
(serial_control_flow.py). Then its memory is its own until it has finished, and the kernel is launched again as long as
any iteration has not.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import numpy as np
from refxla_spec.module import Computation, Instruction
from refxla_spec.types import Shape

from ..analysis.batch_dimensions import BatchDimensions
from ..analysis.conditional_analysis import branch_computations
from ..analysis.cost_analysis import kernel_us
from ..analysis.while_loop_analysis import Counter, counter_of, loop_invariant_elements
from ..device.description import Costs
from ..ir import merged_body as m
from ..ir import plan as p
from ..passes.loop_partitioning import parallel_loop_of, partitioned
from .grouped_computation import GroupedComputation
from .persistent_kernel import PERSISTENT_US
from .plan_builder import MemoryBlock, PlanBuilder, Steps
from .tile_buffers import TileBuffers

UNKNOWN_TRIPS = 20  # of a loop that ends by a predicate, in estimates
GAIN = 0.85  # of the time that cores take together for each iteration: at most so much it must take apart
START_US = 10.0  # until other cores run
EVEN = 0.8  # of the time: if cores have so long something to do, a batch need not be cut into more parts
MOST_PARTS = 8  # of a batch, for each core
MOST_BYTES = 1 << 28  # of the values of all iterations that cores run at a time
RESUMED_TILES = 4  # of each core: iterations in flight that may be left and resumed, each with its own memory


@dataclass(frozen=True)
class SerialCost:
    """The microseconds of a computation on one core, `alone`, and on all cores, `shared`, with the barriers between
    its kernels; and at most so many bytes of values that it computes."""

    alone: float
    shared: float
    bytes: int


class SerialCosts:
    """Estimates what computations cost before they are planned. `group` gives the groups of one."""

    def __init__(self, costs: Costs, cores: int, group: Callable[[Computation], GroupedComputation]) -> None:
        self.costs, self.cores, self.group = costs, cores, group
        self._estimates: dict[Computation, SerialCost | None] = {}

    def of(self, computation: Computation) -> SerialCost | None:
        """The cost of a computation; None if there is anything in it that no kernel can call."""
        if computation not in self._estimates:
            self._estimates[computation] = self._estimate(computation)
        return self._estimates[computation]

    def _estimate(self, computation: Computation) -> SerialCost | None:
        """See `of`."""
        grouped = self.group(computation)
        alone = shared = 0.0
        size = 0
        for n, group in enumerate(grouped.groups):
            first = grouped.graph.instructions[group.outputs[0]][0]
            if first in grouped.aliases or not grouped.is_read(group.outputs):
                continue
            if group.kind == "control":
                cost = self._control_flow(first)
            elif group.kind == "library-call":
                cost = None
            else:
                fusion = grouped.fusion(n)
                us = max(kernel_us(fusion, self.costs), self.costs.call / 1e3)
                in_place = grouped.is_made_in_place(n)
                written = 0 if in_place else sum(i.shape.bytes for i in fusion.outputs)
                cost = SerialCost(us, min(us, us / self.cores + self.costs.phase / 1e3), written)
            if cost is None:
                return None
            alone, shared, size = alone + cost.alone, shared + cost.shared, size + cost.bytes
        return SerialCost(alone, shared, size)

    def _control_flow(self, i: Instruction) -> SerialCost | None:
        """The cost of a loop, or of the longest branch of a conditional."""
        if i.opcode == "while":
            counter = counter_of(i)
            body = self.of(i.body)
            test = SerialCost(0.0, 0.0, 0) if counter is not None else self.of(i.condition)
            if body is None or test is None:
                return None
            count = UNKNOWN_TRIPS if counter is None else counter.trip_count
            alone, shared = (count * (a + b) for a, b in ((body.alone, test.alone), (body.shared, test.shared)))
            invariant = loop_invariant_elements(i)
            state = sum(shape.bytes for k, shape in enumerate(i.shape.elements) if k not in invariant)
            return SerialCost(alone, min(alone, shared), body.bytes + test.bytes + state)
        if i.opcode != "conditional":
            return None
        branches = [self.of(c) for c in branch_computations(i)]
        known = [c for c in branches if c is not None]
        if len(known) < len(branches):
            return None
        return SerialCost(*(max(getattr(c, name) for c in known) for name in ("alone", "shared", "bytes")))

    def gains_by_parallel_iterations(self, loop: Instruction, counter: Counter) -> bool:
        """Whether a loop takes less time if each core runs whole iterations."""
        cost = self.of(loop.body)
        return cost is not None and self._gains(cost, counter.trip_count, counter.trip_count * cost.shared)

    def _gains(self, iteration: SerialCost, trip_count: int, otherwise: float) -> bool:
        """Whether a parallel loop takes less time than what takes so many microseconds otherwise."""
        if min(trip_count, RESUMED_TILES * self.cores) * iteration.bytes > MOST_BYTES:
            return False
        return START_US + -(-trip_count // self.cores) * iteration.alone < GAIN * otherwise

    def best_partition(self, loop: Instruction, unread: Collection[int], read: Sequence[int]) -> Computation | None:
        """A loop as a loop over parts of its batch, if it has one and takes less time so. `unread` are the elements of
        its state of which the initial value is not read, and the results are those of the numbers `read`."""
        dimensions = BatchDimensions(loop)
        candidates = dimensions.candidates() if dimensions.is_supported else []
        if not candidates:
            return None
        whole = self._control_flow(loop)
        if whole is None or whole.alone < START_US:
            return None
        for batch in candidates:
            count = self._parts(dimensions.size(batch))
            if count > 1 and dimensions.keeps_orders(batch, dimensions.size(batch) // count):
                parts = partitioned(loop, dimensions, batch, count, unread, read)
                cost = self.of(parallel_loop_of(parts).body)
                if cost is not None and self._gains(cost, count, min(whole.alone, whole.shared)):
                    return parts
        return None

    def _parts(self, size: int) -> int:
        """Into how many equal parts a batch is cut: the fewest that keep all cores busy for most of the time, or that
        keep them busiest; 1 if a batch has no parts."""
        counts = [n for n in range(2, min(size, MOST_PARTS * self.cores) + 1) if size % n == 0]
        busy = {n: n / (-(-n // self.cores) * self.cores) for n in counts}
        return next((n for n in counts if busy[n] >= EVEN), max(counts, key=lambda n: busy[n], default=1))


class ParallelLoop:
    """The steps of a parallel loop. `variable` is the block of the counter in the body, and `blocks` are those that an
    iteration has for itself."""

    def __init__(self, builder: PlanBuilder, name: str, variable: MemoryBlock, blocks: Sequence[MemoryBlock]) -> None:
        self.builder, self.name, self.variable, self.blocks = builder, name, variable, blocks
        self.tile = TileBuffers(builder)

    def steps(self, iteration: Sequence[p.Step], us: float, values: np.ndarray) -> Steps:
        """The steps that run `iteration`, the launch for one core that takes so many microseconds, once for each of
        the counter's `values`: with a Loop if it must be launched again, as LaunchMerger.region gives it."""
        builder, cores = self.builder, self.builder.cores
        launch, resumed = _launch_of(iteration)
        trip_count = len(values)
        most = RESUMED_TILES * cores if resumed else max(cores, int(PERSISTENT_US * cores / us) // cores * cores)
        count = min(trip_count, most)
        chunks, rest = divmod(trip_count, count)
        numbers = builder.number
        own = [b for b in self.blocks if numbers[b] not in resumed and b.space == p.ARENA]
        self.tile.assign(self.name, own, (), iteration, count if resumed else None)
        self._workspaces()
        steps: Steps = []
        if chunks == 1:
            steps += self._launches(launch, resumed, builder.constant(f"{self.name}.iterations", values[:count]), count)
        else:
            shape = Shape.array(self.variable.shape.element_type.name, (count,))
            some = builder.block(f"{self.name}.counters", shape)
            table = builder.constant(f"{self.name}.iterations", values[: chunks * count])
            inside = self._launches(launch, resumed, some, count)
            steps.append(p.Repeat(chunks, tuple(inside), numbers[some], numbers[table]))
        if rest:
            table = builder.constant(f"{self.name}.last_iterations", values[-rest:])
            steps += self._launches(launch, resumed, table, rest)
        for block in own:
            block.space = p.TILE
        return steps

    def _workspaces(self) -> None:
        """Give each core a workspace of its own: that of a kernel has counters that its items share."""
        for block in self.blocks:
            if block.space == p.WORKSPACE:
                size = -(-block.bytes // 64) * 64
                whole = self.builder.workspace(self.name, size * self.builder.cores)
                self.tile.sub_buffers[self.builder.number[block]] = (whole, m.WorkerOffset(size, 0))

    def _launches(self, launch: p.Launch, resumed: tuple[int, ...], counters: MemoryBlock, count: int) -> Steps:
        """The steps that run `count` iterations, for which `counters` has the values of the counter."""
        builder = self.builder
        merger = builder.launch_merger
        assert merger is not None  # there are no parallel loops without
        parts = dict(self.tile.sub_buffers)
        size = self.variable.shape.element_type.bytes
        parts[builder.number[self.variable]] = (builder.number[counters], m.TileNumberOffset(0, size))
        if not resumed:
            return [merger.persistent.iterations(count, parts, launch)]
        progress, unfinished = resumed
        steps: Steps = []
        zeros = builder.constant("zeros", np.zeros(count * m.PROGRESS_BYTES // 8, np.int64))
        each_progress = builder.block(f"{self.name}.progress", zeros.shape)
        builder.copy(steps, zeros, each_progress)
        ones = builder.constant("ones", np.ones(count, np.bool_))
        each_unfinished = builder.block(f"{self.name}.unfinished", ones.shape)
        builder.copy(steps, ones, each_unfinished)
        more = builder.block(f"{self.name}.more", Shape.array("pred", ()))
        parts[progress] = (builder.number[each_progress], m.TileNumberOffset(0, m.PROGRESS_BYTES))
        parts[unfinished] = (builder.number[each_unfinished], m.TileNumberOffset(0, 1))
        preds = (builder.number[each_unfinished], builder.number[more])
        steps.append(p.Loop((merger.persistent.iterations(count, parts, launch, preds),), preds[1], ()))
        return steps


def _launch_of(iteration: Sequence[p.Step]) -> tuple[p.Launch, tuple[int, ...]]:
    """The launch of an iteration's kernel; of one that can be resumed, the buffers of its progress and of the pred that
    says whether there is more."""
    match tuple(iteration):
        case (p.Launch() as launch,):
            return launch, ()
        case (p.Copy(_, progress), p.Loop((p.Launch() as launch,), more, ())):
            return launch, (progress, more)
    raise TypeError(f"{iteration!r} is no iteration for one core")
