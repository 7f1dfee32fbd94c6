"""Estimates of what a computation costs before it is planned: on one core, and on all cores together; on a GPU in one
work item, and by a launch for each kernel.

The groups of a computation are known before its kernels are (grouped_computation.py), and the cost model gives the time
of each. Whoever has to choose between ways to run a loop (loop_parallelization.py) compares such estimates.
"""

from __future__ import annotations

from dataclasses import dataclass

from refxla_spec.module import Computation, Instruction

from ..analysis.conditional_analysis import branch_computations
from ..analysis.cost_analysis import kernel_us
from ..analysis.while_loop_analysis import counter_of, loop_invariant_elements
from ..device.description import Costs
from .grouped_computation import GroupedComputation
from .scheduling_options import SchedulingOptions

UNKNOWN_TRIPS = 20  # of a loop that ends by a predicate
# A work item of a GPU, which waits for each operation before the next, takes so many times as long as a core of a CPU
# with vectors (the default costs): two nanoseconds for an addition.
ITEM_TIMES = 150.0
LEAST_ITEM_US = 0.01  # of a kernel that an item calls


@dataclass(frozen=True)
class ComputationCost:
    """The microseconds of a computation on one core, and on all cores with the barriers between its kernels; and at
    most so many bytes of values that it computes. On a GPU those of one work item, and those of the launches."""

    one_core_us: float
    all_cores_us: float
    bytes: int

    def __add__(self, other: ComputationCost) -> ComputationCost:
        """The cost of both, one after the other."""
        return ComputationCost(
            self.one_core_us + other.one_core_us, self.all_cores_us + other.all_cores_us, self.bytes + other.bytes
        )


NOTHING = ComputationCost(0.0, 0.0, 0)


class ComputationCosts:
    """The estimates for the computations of a program, each made once."""

    def __init__(self, options: SchedulingOptions) -> None:
        self.options, self.costs, self.cores = options, options.costs, options.merging.units
        self.by_item = options.merging.group > 0  # the device is a GPU
        self._estimates: dict[Computation, ComputationCost | None] = {}

    def of(self, computation: Computation) -> ComputationCost | None:
        """The cost of a computation that a loop runs; None if there is anything in it that no kernel can call."""
        if computation not in self._estimates:
            self._estimates[computation] = self._estimate(computation)
        return self._estimates[computation]

    def of_loop(self, loop: Instruction) -> ComputationCost | None:
        """The cost of a while loop; None as above. Each core has the loop's state for itself if cores run loops apart,
        so the state is among the bytes."""
        counter = counter_of(loop)
        body = self.of(loop.body)
        test = NOTHING if counter is not None else self.of(loop.condition)
        if body is None or test is None:
            return None
        count = UNKNOWN_TRIPS if counter is None else counter.trip_count
        once = body + test
        one_core_us = count * once.one_core_us
        invariant = loop_invariant_elements(loop)
        state = sum(shape.bytes for k, shape in enumerate(loop.shape.elements) if k not in invariant)
        return ComputationCost(one_core_us, min(one_core_us, count * once.all_cores_us), once.bytes + state)

    def _estimate(self, computation: Computation) -> ComputationCost | None:
        """See `of`."""
        grouped = GroupedComputation(computation, self.options, (), True)
        total = NOTHING
        for n, group in enumerate(grouped.groups):
            first = grouped.graph.instructions[group.outputs[0]][0]
            if first in grouped.aliases or not grouped.is_read(group.outputs):
                continue
            if group.kind == "control":
                cost = self._of_control_flow(first)
            elif group.kind == "library-call":
                cost = None
            else:
                cost = self._of_fusion(grouped, n)
            if cost is None:
                return None
            total += cost
        return total

    def _of_fusion(self, grouped: GroupedComputation, n: int) -> ComputationCost:
        """The cost of group number n, which is a kernel."""
        fusion = grouped.fusion(n)
        written = 0 if grouped.is_made_in_place(n) else sum(i.shape.bytes for i in fusion.outputs)
        if self.by_item:
            us = max(ITEM_TIMES * kernel_us(fusion, Costs()), LEAST_ITEM_US)
            return ComputationCost(us, self.costs.launch / 1e3, written)
        us = max(kernel_us(fusion, self.costs), self.costs.call / 1e3)
        return ComputationCost(us, min(us, us / self.cores + self.costs.phase / 1e3), written)

    def _of_control_flow(self, i: Instruction) -> ComputationCost | None:
        """The cost of a loop, or the mean of a conditional's branches: nobody knows how often each is taken."""
        if i.opcode == "while":
            return self.of_loop(i)
        if i.opcode != "conditional":
            return None
        branches = [self.of(c) for c in branch_computations(i)]
        known = [c for c in branches if c is not None]
        if len(known) < len(branches):
            return None
        count = len(known)
        return ComputationCost(
            sum(c.one_core_us for c in known) / count,
            sum(c.all_cores_us for c in known) / count,
            max(c.bytes for c in known),
        )
