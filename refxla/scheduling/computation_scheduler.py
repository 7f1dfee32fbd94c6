"""The steps of one computation that runs by itself: the entry, a loop's body or condition, a branch of a conditional.

Each group of instructions (grouped_computation.py) becomes kernels and a launch of each. Meanwhile every value gets a
block of memory (value_blocks.py), among them the state of loops and the results of conditionals
(control_flow_blocks.py).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
from refxla_spec.module import Computation, Instruction
from refxla_spec.types import S32, Shape

from .._core.graph import Relation
from ..analysis.conditional_analysis import branch_computations
from ..analysis.cost_analysis import kernel_us, library_call_us
from ..analysis.tiling_analysis import TileBody
from ..analysis.while_loop_analysis import (
    Counter,
    counter_of,
    has_independent_iterations,
    state_values,
    without_counting,
)
from ..ir import plan as p
from ..ir.library_calls import batch, library_call, routine_name
from ..passes import host_call_threading
from ..passes.loop_partitioning import parallel_loop_of
from ..passes.while_loop_unroller import unrolled_twice
from ..progress import stage
from .control_flow_blocks import copied_bytes, loop_state, overwritable_operands, updated_operands, write_back
from .fusion_group import FusionGroup
from .grouped_computation import TABLE, GroupedComputation
from .loop_parallelization import best_partition, gains_by_parallel_iterations
from .loop_preheader import Preheader
from .memory_blocks import MemoryBlock
from .merged_kernel import uses
from .parallel_loop import ParallelLoop
from .plan_builder import PlanBuilder, Steps
from .tile_buffers import TileBuffers
from .tiled_fusion import TiledFusion, TilingSearch
from .value_blocks import ValueBlocks

LEAST_COPIED = 1 << 10  # bytes of a loop's state, below which copies are not worth a second iteration's code
LEAST_SHARE = 0.05  # of an iteration's time that copies take, for the same


class ComputationScheduler:
    """Plans the steps of one computation, group by group (`grouped`).

    `values` has the blocks of its parameters, and `owned` those that it may overwrite after their value has been read
    for the last time. `trip_count`: of the body of a tiled fusion, the number of tiles. `second`: of a body that is two
    iterations of a loop, the instructions of the second. `in_loop`: it is the condition or the body of a loop, or a
    branch in one.
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
        self.builder, self.computation = builder, computation
        self.grouped = GroupedComputation(computation, builder.options, second, in_loop)
        builder.refusals += self.grouped.refusals
        self.blocks = ValueBlocks(builder, self.grouped, values, owned)
        self.preheader: Preheader | None = None  # of a loop, for all that it runs, or of a tiled fusion
        self.trip_count = trip_count or 1
        self.tiled: dict[int, TiledFusion] = {}  # by the number of their group
        if builder.scope.tiled_fusion and not trip_count:
            self._tile()
        self.steps: Steps = []
        self.parallel: Instruction | None = None  # a loop that is worth it only if cores run whole iterations of it

    @property
    def roots(self) -> list[Instruction]:
        """The computation's results."""
        return self.grouped.roots

    def _tile(self) -> None:
        """Replaces groups that are computed tile by tile by one group each."""
        us = lambda n: kernel_us(self.grouped.fusion(n), self.builder.costs)  # noqa: E731
        search = TilingSearch(self.grouped, self.builder.costs, self.builder.cores, us)
        fusions = search.run()
        self.builder.tiling_decisions += search.decisions
        if fusions:
            groups, names, self.tiled = search.joined(fusions)
            self.grouped.regroup(groups, names)

    def run(self) -> Steps:
        for n, group in enumerate(self.grouped.groups):
            first = self.grouped.graph.instructions[group.outputs[0]][0]
            if group.kind == "control":
                control = {"while": self.loop, "conditional": self.branch, "custom-call": self.host_call}
                control[first.opcode](n, first)
            elif n in self.tiled:
                self.tiled_fusion(self.grouped.names[n], self.tiled[n].body)
            elif first in self.grouped.aliases or not self.grouped.is_read(group.outputs):
                continue
            elif group.kind == "library-call":
                self.library_call(n, group)
            else:
                self.launch(n, group)
        for i in self.roots:
            self.blocks.values[i] = self.blocks.block_of(i)
        return self.steps

    def launch(self, n: int, group: FusionGroup) -> None:
        """A group's kernels, and the launch of each."""
        fusion = self.fusion(n)
        builder = self.builder
        builder.fusions.append(fusion)
        scratch: dict[str, MemoryBlock] = {}
        stage(f"kernel {len(builder.kernels) + 1}, {fusion.name}")
        kernels = builder.scope.emit(fusion)
        arguments = [a for k in kernels for a in k.arguments]
        updated = {a.instruction: a.updates for a in arguments if a.role == "output" and a.updates}
        bases = {self.grouped.base(_value(a)) for a in arguments if a.role == "input"}
        for i in fusion.outputs:
            source = updated.get(i)
            read_too = (
                source is not None
                and self.grouped.base(source) in bases
                and not self.grouped.updates_what_it_reads(fusion)
            )
            self.blocks.values[i] = self.blocks.output(n, fusion, i, self.steps, source, read_too)
            if source is not None:
                bases.add(self.grouped.base(source))  # a second output that starts as the same value needs a copy
        each_time: set[str] = set()  # scratch memory that is written in each iteration of the enclosing loop
        for kernel in kernels:
            numbers = tuple(self._argument_block(fusion, kernel, a, scratch).number for a in kernel.arguments)
            us = builder.us_of(fusion, kernel, last=kernel is kernels[-1])
            builder.kernels.append(replace(kernel, us=us))
            builder.report_kernel(builder.kernels[-1], self.computation)
            step = p.Launch(len(builder.kernels) - 1, numbers)
            shared = {a.scratch for a in kernel.arguments if a.role == "scratch"}
            preheader = None if kernel is kernels[-1] or shared & each_time else self.preheader
            if preheader is not None and self.is_once(kernel):
                preheader.hoist(step, [self.blocks.block_of(_value(a)) for a in kernel.arguments if a.role == "input"])
            else:
                each_time |= shared
                if kernel.items:
                    self.steps.append(step)

    def _argument_block(
        self, fusion: p.Fusion, kernel: p.Kernel, a: p.Argument, scratch: dict[str, MemoryBlock]
    ) -> MemoryBlock:
        """The block of a kernel's argument; `scratch` has those of the fusion's scratch memory so far, by name."""
        if a.role == "workspace":
            return self.builder.memory.blocks[self.builder.memory.workspace(kernel.name, a.bytes)]
        if a.role != "scratch":
            return self.blocks.block_of(_value(a))
        if a.scratch not in scratch:
            shape = Shape.array("u8", (a.bytes,))
            scratch[a.scratch] = self.builder.memory.block(f"{fusion.name}.{a.scratch}", shape)
        return scratch[a.scratch]

    def library_call(self, n: int, group: FusionGroup) -> None:
        """A call of a library. A result that several instructions have is written once and copied."""
        builder = self.builder
        fusion = self.fusion(n)
        builder.fusions.append(fusion)
        i = fusion.hero
        assert i is not None
        call, items = library_call(i), batch(i)
        assert call is not None  # that is what groups of this kind are
        results: list[int | None] = [None] * call.results
        again: list[tuple[MemoryBlock, MemoryBlock]] = []
        for o in fusion.outputs:
            k = o.index if i.shape.is_tuple else 0
            block = self.blocks.new_block(o)
            written = results[k]
            if written is None:
                results[k] = block.number
            else:
                again.append((builder.memory.blocks[written], block))
        operands = tuple(self.blocks.block_of(o).number for o in i.operands)
        shapes = [o.shape for o in i.operands] + list(i.shape.elements if i.shape.is_tuple else (i.shape,))
        each = [s.bytes // items for s in shapes]
        each += [S32.bytes] * (len(operands) + call.results - len(each))
        name, us = routine_name(i, call), library_call_us(i, call, self.builder.costs)
        step = p.LibraryCall(name, call.sizes, call.flags, items, operands, tuple(results), tuple(each), us)
        self.steps.append(step)
        for source, target in again:
            builder.copy(self.steps, source, target)

    def is_once(self, kernel: p.Kernel) -> bool:
        """Whether all operands of a stage are invariant in the enclosing loop, so that it can be hoisted."""
        return all(
            a.role == "scratch" or (a.role == "input" and self.is_invariant(_value(a))) for a in kernel.arguments
        )

    def is_invariant(self, i: Instruction) -> bool:
        """Whether a value is the same in every iteration of the loop whose body this is."""
        if self.preheader is None:
            return False
        if self.grouped.base(i).opcode == "constant":
            return True
        return self.preheader.is_invariant(self.blocks.block_of(i))

    def fusion(self, n: int) -> p.Fusion:
        """Group number n as the fusion that is emitted."""
        return self.grouped.fusion(n, self.is_invariant, self.trip_count)

    def tiled_fusion(self, name: str, body: TileBody) -> None:
        """A tiled fusion: one launch that runs the steps of a tile for all tiles.

        Values that are the same for every tile, such as the panels of weights, are computed before; values that are the
        same along the last axis, such as the panels of the keys of one head, once for each position of the other axes.
        """
        builder = self.builder
        assert builder.scope.merger is not None  # tiling needs merging
        results = [self.blocks.new_block(i) for i in body.results]
        block_count = len(builder.memory.blocks)
        tile = TileBuffers(builder)
        values: dict[Instruction, MemoryBlock] = {}
        bases: list[MemoryBlock] = []
        for parameter, view in zip(body.computation.parameters, body.views, strict=True):
            if view.value is not None:
                bases.append(self.blocks.block_of(view.value))
            else:
                bases.append(builder.memory.constant(f"{name}.starts", body.axes[view.table].starts()))
            values[parameter] = tile.part(view, bases[-1], parameter.shape)
        inner = ComputationScheduler(builder, body.computation, values, set(), prod(a.count for a in body.axes))
        preheader = inner.preheader = Preheader([], tile.shared)
        targets = [tile.part(v, b, i.shape) for v, b, i in zip(body.written, results, inner.roots, strict=True)]
        inner.blocks.assign_new_output_buffers(targets)
        steps = inner.run()
        for block, target in zip(inner.result_blocks(), targets, strict=True):
            builder.copy(steps, block, target)
        # A stage that reads no part of a value is the same for every tile.
        first = [s for s in preheader.launches() if not tile.has_part(s)]
        once = [s for s in preheader.launches() if tile.has_part(s)]
        self.steps += first
        outside = {b for s in first for b in s.buffers}
        own = [b for b in builder.memory.blocks[block_count:] if b.space == p.ARENA and b.number not in outside]
        tile.assign(name, own, once, steps)
        self.steps.append(builder.scope.merger.persistent.tiled(body.axes, tile.sub_buffers, once, steps))

    def loop(self, n: int, i: Instruction) -> None:
        """A while loop, whose state is in blocks that the body reads and overwrites."""
        builder = self.builder
        counter = counter_of(i)
        if counter is not None and self._is_parallel(i, counter) and self._parallel_loop(n, i, counter):
            return
        if self._partitioned_loop(i):
            return
        tabled = counter if counter is not None and counter.trip_count <= TABLE else None
        body = i.body if tabled is None else without_counting(i.body, tabled)
        index = None if tabled is None else tabled.index
        state, owned, invariant = loop_state(i, n, body, index, self.blocks, self.steps)
        block_count, before = len(builder.memory.blocks), len(self.steps)
        around = Preheader(self.steps, invariant, self.preheader)
        condition = self._condition(i, state, around) if counter is None else None
        refusal_count, decision_count = len(builder.refusals), len(builder.tiling_decisions)
        iteration = self._iteration(body, state, owned)
        rest: Computation | None = None  # an iteration after the loop
        if tabled is not None and tabled.trip_count > 1 and iteration.copies_much(state):
            del builder.refusals[refusal_count:], builder.tiling_decisions[decision_count:]
            rest = i.body if tabled.trip_count % 2 else None
            tabled = replace(tabled, step=2 * tabled.step, trip_count=tabled.trip_count // 2)
            counter = tabled
            both, second = unrolled_twice(i.body)
            iteration = self._iteration(without_counting(both, tabled), state, owned, second)
        iteration.preheader = around
        unmerged = iteration.run()
        write_back(builder, iteration.result_blocks(), state, unmerged)
        steps = builder.merge(unmerged)
        internal = builder.internal(block_count, [*self.steps[before:], *around.passed])
        if condition is not None:
            self._append_while_loop(*condition, steps, internal)
        elif counter is not None:
            self._append_counted_loop(i, counter, tabled, state, steps, internal)
        if rest is not None:
            state = self._last_iteration(i, rest, state, owned)
        self.blocks.owned |= owned
        for gte in self.grouped.elements(i):
            self.blocks.values[gte] = state[gte.index]

    def _is_parallel(self, i: Instruction, counter: Counter) -> bool:
        """Whether each core is to run whole iterations of a loop."""
        if not self.builder.scope.parallel_loops or not 1 < counter.trip_count <= TABLE:
            return False
        if not has_independent_iterations(i, counter):
            return False
        return i is self.parallel or gains_by_parallel_iterations(i, counter, self.builder.computation_costs)

    def _partitioned_loop(self, i: Instruction) -> bool:
        """The steps of a loop over a batch, each core of which runs the loop for parts of the batch; False if it is
        none, or gains nothing by that, and then there are no steps."""
        unread = self.grouped.overwritten.get(i, set())
        read = [gte.index for gte in self.grouped.elements(i)]
        costs = self.builder.computation_costs
        parts = best_partition(i, unread, read, costs) if self.builder.scope.parallel_loops else None
        if parts is None:
            return False
        take_back = self.builder.checkpoint()
        initial = zip(parts.parameters, i.operands[0].operands, strict=True)
        values = {x: self.blocks.block_of(o) for k, (x, o) in enumerate(initial) if k not in unread}
        inner = ComputationScheduler(self.builder, parts, values, set(), in_loop=self.grouped.in_loop)
        inner.preheader = self.preheader
        inner.parallel = parallel_loop_of(parts)
        steps = inner.run()
        if inner.parallel is not None:
            take_back()
            return False
        self.steps += steps
        self.blocks.owned |= inner.blocks.owned
        for gte, block in zip(self.grouped.elements(i), inner.result_blocks(), strict=True):
            self.blocks.values[gte] = block
        return True

    def _parallel_loop(self, n: int, i: Instruction, counter: Counter) -> bool:
        """The steps of a loop whose iterations run on different cores; False if an iteration is no launch for one
        core, and then there are no steps."""
        builder = self.builder
        take_back, before = builder.checkpoint(), len(self.steps)
        body = without_counting(i.body, counter)
        state, owned, invariant = loop_state(i, n, body, counter.index, self.blocks, self.steps)
        block_count = len(builder.memory.blocks)
        around = Preheader(self.steps, invariant, self.preheader)
        with builder.one_core() as merger:
            iteration = self._iteration(body, state, owned)
            iteration.preheader = around
            unmerged = iteration.run()
            internal = builder.internal(block_count, [*self.steps[before:], *around.passed])
            region, us = merger.region(unmerged, internal)
        if not region or iteration.result_blocks() != state:
            del self.steps[before:]
            take_back()
            return False
        outside = {
            b for step in (*self.steps[before:], *around.passed) for side in uses(step, builder.kernels) for b in side
        }
        own = [b for b in builder.memory.blocks[block_count:] if b.number not in outside]
        variable, values = state[counter.index], counter.values(_dtype(state[counter.index].shape))
        self.steps += ParallelLoop(builder, i.name, variable, own).steps(region, us, values[:-1])
        state[counter.index] = builder.memory.constant(f"{i.name}.{counter.index}.last", values[-1])
        self.blocks.owned |= owned
        for gte in self.grouped.elements(i):
            self.blocks.values[gte] = state[gte.index]
        self.parallel = None if self.parallel is i else self.parallel
        return True

    def _condition(
        self, i: Instruction, state: Sequence[MemoryBlock], preheader: Preheader
    ) -> tuple[tuple[p.Step, ...], int]:
        """The steps of a loop's condition, and the number of the buffer of its value."""
        test = ComputationScheduler(self.builder, i.condition, _bind(i.condition, state), set(), in_loop=True)
        test.preheader = preheader
        steps = self.builder.merge(test.run())
        return steps, test.blocks.block_of(test.roots[0]).number

    def _append_while_loop(
        self, test: tuple[p.Step, ...], predicate: int, body: tuple[p.Step, ...], internal: Collection[int]
    ) -> None:
        """The steps of a loop that ends by a predicate."""
        if self.builder.scope.merger is None:
            self.steps.append(p.Loop(test, predicate, body))
        else:
            self.steps += self.builder.scope.merger.while_loop(test, predicate, body, internal)

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
        table, and `state` has its last value afterwards."""
        builder = self.builder
        numbers: tuple[int | None, int | None] = (None, None)
        if tabled is not None:
            variable = state[tabled.index]
            values = tabled.values(_dtype(variable.shape))
            numbers = variable.number, builder.memory.constant(f"{i.name}.iterations", values).number
        if builder.scope.merger is None:
            self.steps.append(p.Repeat(counter.trip_count, body, *numbers))
        else:
            self.steps += builder.scope.merger.counted_loop(counter.trip_count, body, *numbers, internal)
        if tabled is not None:
            state[tabled.index] = builder.memory.constant(f"{i.name}.{tabled.index}.last", values[-1])

    def _iteration(
        self,
        body: Computation,
        state: Sequence[MemoryBlock],
        owned: set[MemoryBlock],
        second: Collection[Instruction] = (),
    ) -> ComputationScheduler:
        """The body of a loop, which overwrites the state with the next one where possible."""
        iteration = ComputationScheduler(self.builder, body, _bind(body, state), owned, second=second, in_loop=True)
        inside = state_values(body)
        iteration.blocks.assign_output_buffers({k: (block, inside.get(k)) for k, block in enumerate(state)})
        return iteration

    def _last_iteration(
        self, i: Instruction, body: Computation, state: Sequence[MemoryBlock], owned: set[MemoryBlock]
    ) -> list[MemoryBlock]:
        """One more iteration after the loop. Returns the distinct blocks of the state after it; new ones are added to
        `owned`."""
        iteration = ComputationScheduler(self.builder, body, _bind(body, state), owned)
        self.steps += iteration.run()
        owned |= iteration.blocks.owned
        blocks: list[MemoryBlock] = []
        for k, root in enumerate(iteration.roots):
            block = iteration.blocks.block_of(root)
            if block in blocks:
                again = self.builder.memory.block(f"{i.name}.{k}", root.shape)
                self.builder.copy(self.steps, block, again)
                owned.add(again)
                block = again
            blocks.append(block)
        return blocks

    def copies_much(self, state: Sequence[MemoryBlock]) -> bool:
        """Whether an iteration spends much of its time on copies back to the state, which two iterations would not
        need. Products and control flow take much longer than copies."""
        if any(group.kind in ("control", "library-call") for group in self.grouped.groups):
            return False
        if Relation.R_PACKED in list(self.grouped.graph.relation):
            return False
        copied = copied_bytes(self.blocks, state)
        us = sum(kernel_us(self.fusion(n), self.builder.costs) for n, group in enumerate(self.grouped.groups))
        return copied >= LEAST_COPIED and copied * self.builder.costs.copied_byte >= LEAST_SHARE * 1e3 * us

    def result_blocks(self) -> list[MemoryBlock]:
        """The blocks of the computation's results, once it is planned."""
        return [self.blocks.block_of(root) for root in self.roots]

    def branch(self, n: int, i: Instruction) -> None:
        """A conditional: all branches write the same blocks, which are those of the operands for arrays that are
        updated."""
        builder = self.builder
        index = self.blocks.block_of(i.operands[0]).number
        owned = overwritable_operands(i, n, self.blocks)
        places = updated_operands(i, owned, self.blocks)
        results = [b or builder.memory.block(f"{i.name}.{k}", i.shape.elements[k]) for k, b in enumerate(places)]
        block_count, branches = len(builder.memory.blocks), []
        around = None if self.preheader is None else self.preheader.inner()
        for called, operand in zip(branch_computations(i), i.operands[1:], strict=True):
            parameters = _bind(called, [self.blocks.block_of(o) for o in operand.operands])
            old = {block: value for value, block in parameters.items()}
            branch = ComputationScheduler(builder, called, parameters, owned, in_loop=self.grouped.in_loop)
            branch.preheader = around
            branch.blocks.assign_output_buffers({k: (b, old.get(b)) for k, b in enumerate(places) if b is not None})
            branch.blocks.assign_new_output_buffers([None if places[k] else b for k, b in enumerate(results)])
            steps = branch.run()
            write_back(builder, branch.result_blocks(), results, steps)
            branches.append(builder.merge(steps))
        self.blocks.owned.update(results)
        merger = builder.scope.merger
        if merger is None:
            self.steps.append(p.Branch(index, tuple(branches)))
        else:
            of_pred = i.operands[0].shape.element_type.kind == "pred"
            internal = builder.internal(block_count, around.passed if around else ())
            self.steps += merger.branch(index, of_pred, branches, internal)
        for gte in self.grouped.elements(i):
            self.blocks.values[gte] = results[gte.index]

    def host_call(self, n: int, i: Instruction) -> None:
        """A call of a host function, which reads some blocks and writes others."""
        builder = self.builder
        results = [builder.memory.block(f"{i.name}.{k}", s) for k, s in enumerate(i.shape.elements)]
        end = -1 if i.custom_call_has_side_effect else None  # without the state, which only expresses the order
        self.steps.append(
            p.HostCall(
                host_call_threading.key_of(i),
                operands=tuple(self.blocks.block_of(o).number for o in i.operands[:end]),
                results=tuple(block.number for block in results[:end]),
                operand_shapes=tuple(o.shape for o in i.operands[:end]),
                result_shapes=tuple(i.shape.elements[:end]),
            )
        )
        self.blocks.owned.update(results)
        for gte in self.grouped.elements(i):
            self.blocks.values[gte] = results[gte.index]


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
