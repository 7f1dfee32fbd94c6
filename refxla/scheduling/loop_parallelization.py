"""Which loops become parallel loops (parallel_loop.py), of which each core runs whole iterations.

The alternative is that all cores take part in each kernel, and wait for each other after it: that is better if kernels
are large.

On a GPU, work items run the iterations, and the alternative is a launch for each kernel of each iteration, in which
most items are idle if the arrays are small. A batch of small problems, such as trajectories, chains or searches, is one
launch instead. An item is slow, and has room for few values.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from refxla_spec.module import Computation, Instruction

from ..analysis.batch_dimensions import BatchDimensions
from ..analysis.while_loop_analysis import Counter
from ..passes.loop_partitioning import parallel_loop_of, partitioned
from .computation_cost import ComputationCost, ComputationCosts
from .grouped_computation import TABLE
from .parallel_loop import RESUMED_TILES

GAIN = 0.85  # of the time that cores take together for each iteration: at most so much it must take apart
START_US = 10.0  # until other cores run
EVEN = 0.8  # of the time: if cores have so long something to do, a batch need not be cut into more parts
MOST_PARTS = 8  # of a batch, for each core
MOST_BYTES = 1 << 28  # of the values of all iterations that cores run at a time
# On a GPU:
MOST_ITEM_BYTES = 4096  # of the values of an iteration: an item has few registers, and a small part of a cache
RESIDENT_ITEMS = 1024  # of a compute unit, which run at a time


def gains_by_parallel_iterations(loop: Instruction, counter: Counter, costs: ComputationCosts) -> bool:
    """Whether a loop takes less time if each core runs whole iterations."""
    cost = costs.of(loop.body)
    return cost is not None and _gains(cost, counter.trip_count, counter.trip_count * cost.all_cores_us, costs)


def best_partition(
    loop: Instruction, unread: Collection[int], read: Sequence[int], costs: ComputationCosts
) -> Computation | None:
    """A loop as a loop over parts of its batch, if it has one and takes less time so. `unread` are the elements of
    its state of which the initial value is not read, and the results are those of the numbers `read`."""
    dimensions = BatchDimensions(loop)
    candidates = dimensions.candidates() if dimensions.is_supported else []
    if not candidates:
        return None
    whole = costs.of_loop(loop)
    if whole is None or whole.one_core_us < START_US:
        return None
    for batch in candidates:
        count = _parts(dimensions.size(batch), costs)
        if count > 1 and dimensions.keeps_orders(batch, dimensions.size(batch) // count):
            parts = partitioned(loop, dimensions, batch, count, unread, read)
            cost = costs.of(parallel_loop_of(parts).body)
            if cost is not None and _gains(cost, count, min(whole.one_core_us, whole.all_cores_us), costs):
                return parts
    return None


def _gains(iteration: ComputationCost, trip_count: int, otherwise_us: float, costs: ComputationCosts) -> bool:
    """Whether a parallel loop takes less time than what takes so many microseconds otherwise."""
    cores = costs.cores
    if costs.by_item:
        if iteration.bytes > MOST_ITEM_BYTES:
            return False
        cores *= RESIDENT_ITEMS
    elif min(trip_count, RESUMED_TILES * cores) * iteration.bytes > MOST_BYTES:
        return False
    return START_US + -(-trip_count // cores) * iteration.one_core_us < GAIN * otherwise_us


def _parts(size: int, costs: ComputationCosts) -> int:
    """Into how many equal parts a batch is cut: the fewest that keep all cores busy for most of the time, or that
    keep them busiest; on a GPU, into single elements, or as many parts as a loop can have; 1 if a batch has no
    parts."""
    if costs.by_item:
        return next(n for n in range(min(size, TABLE), 0, -1) if size % n == 0)
    cores = costs.cores
    counts = [n for n in range(2, min(size, MOST_PARTS * cores) + 1) if size % n == 0]
    busy = {n: n / (-(-n // cores) * cores) for n in counts}
    return next((n for n in counts if busy[n] >= EVEN), max(counts, key=lambda n: busy[n], default=1))
