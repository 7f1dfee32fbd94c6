"""Trip counts: how many iterations a while loop runs, if its initial state determines that."""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np
from refxla_spec.module import Computation, Instruction, post_order

from ..ir.op_table import MIRRORED

_DIRECTIONS = ("LT", "LE", "GT", "GE", "NE")  # of the comparisons that end a counted loop


@dataclass(frozen=True)
class Counter:
    """Element `index` of a loop's state is `start` at first and grows by `step` in each of `trip_count` iterations."""

    index: int
    start: int
    step: int
    trip_count: int

    def values(self, dtype: np.dtype) -> np.ndarray:
        """The counter in each iteration, followed by its value after the loop."""
        return np.array([self.start + self.step * k for k in range(self.trip_count + 1)], dtype)


def counter_of(loop: Instruction) -> Counter | None:
    """The counter that ends a loop: an integer that starts as a constant, changes by a constant in each iteration,
    and is compared with a constant. None if there is none, or if it would overflow."""
    test = loop.condition.root
    if test.opcode != "compare" or len(test.operands) != 2:
        return None
    mirrored = MIRRORED[test.direction]
    for (counted, limit), direction in ((test.operands, test.direction), (test.operands[::-1], mirrored)):
        index = _element(loop.condition, counted)
        bound = _integer(loop, loop.condition, limit)
        if index is None or bound is None or direction not in _DIRECTIONS:
            continue
        start = _constant(loop.operands[0].operands[index])
        step = _step(loop, index)
        if start is None or not step:
            continue
        trip_count = _trip_count(start, step, bound, direction)
        info = ml_dtypes.iinfo(counted.shape.element_type.dtype)
        if trip_count is not None and info.min <= start + trip_count * step <= info.max:
            return Counter(index, start, step, trip_count)
    return None


def equal_counters(loop: Instruction, counter: Counter) -> set[int]:
    """The other elements of a loop's state that have the counter's value in every iteration."""
    inside, init = state_values(loop.body), loop.operands[0].operands
    alike = (k for k in inside if inside[k].shape.element_type is inside[counter.index].shape.element_type)
    return {
        k
        for k in alike
        if k != counter.index and _constant(init[k]) == counter.start and _step(loop, k) == counter.step
    }


def covers(loop: Instruction, counter: Counter, k: int) -> bool:
    """Whether a loop overwrites all of element k of its state before reading it, so that its initial value does not
    matter: each iteration writes its slice of it (`written_slices`), and the slices cover the element."""
    slices = written_slices(loop, counter, k)
    if slices is None:
        return False
    starts = np.unique(slices.starts)
    ends = np.append(starts[1:], slices.whole)
    return len(starts) > 0 and starts[0] == 0 and bool(np.all(ends - starts <= slices.size))


def has_independent_iterations(loop: Instruction, counter: Counter) -> bool:
    """Whether no iteration of a loop reads what another one writes, and no two write the same elements, so that they
    can run in any order, or at the same time: apart from the counter, each element of the state is loop-invariant, or
    an array of which each iteration writes a slice of its own and reads nothing."""
    root = loop.body.root
    if root.opcode != "tuple" or any(o.opcode == "custom-call" for o in loop.body.instructions):
        return False
    varying = set(range(len(root.operands))) - loop_invariant_elements(loop) - {counter.index}
    for k in varying:
        slices = written_slices(loop, counter, k)
        if slices is None or np.any(np.diff(np.sort(slices.starts)) < slices.size):
            return False
    return True


@dataclass(frozen=True)
class WrittenSlices:
    """The slices that the iterations of a loop write along one dimension, of `whole` elements: where each starts, and
    its size."""

    starts: np.ndarray
    size: int
    whole: int


def written_slices(loop: Instruction, counter: Counter, k: int) -> WrittenSlices | None:
    """The slices of element k of a loop's state that its iterations write, if each writes one, which the counter
    selects, and the body does nothing else with the element: neither before the write nor after it, when slices of
    later iterations are still the initial ones. Otherwise None."""
    body = loop.body
    update = body.root.operands[k] if body.root.opcode == "tuple" else None
    if update is None or update.opcode != "dynamic-update-slice" or _element(body, update.operands[0]) != k:
        return None
    reads = [i for i in body.instructions if _element(body, i) == k]
    users = [u for u in body.instructions for o in u.operands if o in reads]
    if len(users) != 1 or update.operands[0] in update.operands[1:]:
        return None
    if [u for u in body.instructions for o in u.operands if o is update] != [body.root]:
        return None
    whole, part = update.shape.dimensions, update.operands[1].shape.dimensions
    along = [d for d, (n, m) in enumerate(zip(whole, part, strict=True)) if n != m]
    if len(along) != 1:
        return None  # along every other dimension the slice has one possible position
    starts = iteration_values(loop, counter, update.operands[2 + along[0]])
    if starts is None:
        return None
    n, m = int(whole[along[0]]), int(part[along[0]])
    return WrittenSlices(np.clip(starts, 0, n - m), m, n)


def loop_invariant_elements(loop: Instruction) -> set[int]:
    """The loop-invariant elements of a loop's state."""
    root = loop.body.root
    return {k for k, o in enumerate(root.operands) if _element(loop.body, o) == k} if root.opcode == "tuple" else set()


def iteration_values(loop: Instruction, counter: Counter, i: Instruction) -> np.ndarray | None:
    """The value of a scalar integer of the body in each iteration, if it follows from the counter; otherwise None."""
    if i.shape.element_type.name not in ("s32", "s64") or i.shape.rank:
        return None
    dtype = np.dtype(i.shape.element_type.dtype)
    if _element(loop.body, i) == counter.index:
        return counter.values(dtype)[:-1]
    value = _integer(loop, loop.body, i)
    if value is not None:
        return np.full(counter.trip_count, value, dtype)
    if i.opcode not in _INTEGER_OPERATIONS:
        return None
    values = [iteration_values(loop, counter, o) for o in i.operands]
    return None if any(v is None for v in values) else _INTEGER_OPERATIONS[i.opcode](*values)


def without_counting(body: Computation, counter: Counter) -> Computation:
    """The body of a loop without the update of its counter: the runtime counts."""
    leaves = list(body.root.operands)
    leaves[counter.index] = state_values(body)[counter.index]
    root = Instruction(body.root.name, "tuple", body.root.shape, leaves)
    members = set(post_order(root, body.parameters))
    return Computation(body.name, [*(i for i in body.instructions if i in members), root], root)


def state_values(computation: Computation) -> dict[int, Instruction]:
    """For each element number, the instruction that reads that element of the computation's tuple parameter."""
    parameter = computation.parameters[0]
    return {
        i.index: i for i in computation.instructions if i.opcode == "get-tuple-element" and i.operands[0] is parameter
    }


_INTEGER_OPERATIONS = {"add": np.add, "subtract": np.subtract, "multiply": np.multiply, "negate": np.negative}


def _trip_count(start: int, step: int, limit: int, direction: str) -> int | None:
    """How many of the values start, start + step, ... satisfy the comparison with the limit before the first that does
    not."""
    if direction == "NE":
        whole, rest = divmod(limit - start, step)
        return whole if rest == 0 and whole >= 0 else None
    if (step > 0) != (direction in ("LT", "LE")):
        return None
    reach = abs(limit - start) if (limit > start) == (step > 0) else 0
    if limit == start or reach:
        return -(-reach // abs(step)) if direction in ("LT", "GT") else reach // abs(step) + 1
    return 0


def _step(loop: Instruction, index: int) -> int | None:
    """What an iteration adds to an element of the state; None if that is not a constant."""
    after = loop.body.root.operands[index] if loop.body.root.opcode == "tuple" else None
    if after is None or after.opcode not in ("add", "subtract"):
        return None
    pairs = (after.operands, after.operands[::-1]) if after.opcode == "add" else (after.operands,)
    for counted, step in pairs:
        added = _integer(loop, loop.body, step)
        if _element(loop.body, counted) == index and added is not None:
            return added if after.opcode == "add" else -added
    return None


def _element(computation: Computation, i: Instruction) -> int | None:
    """Which element of the state an instruction reads."""
    reads = i.opcode == "get-tuple-element" and i.operands[0] is computation.parameters[0]
    return i.index if reads else None


def _integer(loop: Instruction, computation: Computation, i: Instruction) -> int | None:
    """The value of a scalar integer that is a constant, or a loop-invariant element of the state that starts as one."""
    index = _element(computation, i)
    if index is None:
        return _constant(i)
    root = loop.body.root
    is_invariant = root.opcode == "tuple" and _element(loop.body, root.operands[index]) == index
    return _constant(loop.operands[0].operands[index]) if is_invariant else None


def _constant(i: Instruction) -> int | None:
    fits = i.opcode == "constant" and i.shape.is_scalar and i.shape.element_type.is_integer
    return int(i.literal) if fits else None
