"""Unrolls loops: those of one or a few small iterations altogether, and two iterations of others into one.

A loop over the two or three rows of a small matrix costs more than its iterations do: each reads and writes memory, at
places that depend on a counter. Unrolled, it is fused with its producers and users (`run`).

The second is double buffering (`unrolled_twice`). An iteration that reads elements all over its state while it writes
the next state (a stencil, a relaxation) cannot write in place: it writes another buffer, which is then copied back. A
body of two iterations needs no copy: the first reads one buffer and writes the other, the second reads the other and
writes the first.
"""

from __future__ import annotations

from collections.abc import Sequence

from refxla_spec.module import Computation, Instruction, Module, post_order

from ..analysis.while_loop_analysis import Counter, counter_of, equal_counters, state_values
from ..ir.builder import copied
from ..ir.op_table import ELEMENTWISE, MOVEMENT, ROWS, overwritten
from .dce import called_first, rewrite

_MOST_ITERATIONS = 3  # of a loop that is unrolled
_MOST_INSTRUCTIONS = 96  # of all its iterations
_FREE = ("parameter", "get-tuple-element", "tuple", "constant")


def run(module: Module) -> int:
    """Unrolls all loops of at most one iteration, and of at most 3 whose body is small and reads the counter, inner
    ones first. Returns how many instructions were replaced: the loops, and those that read their results."""
    count = sum(rewrite(c, _without_loop) for c in called_first(module.entry))
    if count:
        module.computations = called_first(module.entry)
    return count


def _without_loop(i: Instruction) -> Instruction | None:
    if i.opcode == "get-tuple-element" and i.operands[0].opcode == "tuple":
        value: Instruction = i.operands[0].operands[i.index]
        return value
    return _unrolled(i) if i.opcode == "while" else None


def _unrolled(loop: Instruction) -> Instruction | None:
    """The tuple that a loop computes, or None if it is not such a loop."""
    if loop.operands[0].opcode != "tuple" or loop.body.root.opcode != "tuple":
        return None
    counter = counter_of(loop)
    if counter is None or counter.trip_count > 1 and not _is_short(loop, counter):
        return None
    state: Instruction = loop.operands[0]
    for k in range(counter.trip_count):
        state = _iteration(loop.body, state.operands, str(k))[loop.body.root]
    return state


def _is_short(loop: Instruction, counter: Counter) -> bool:
    """Whether the iterations of a loop are few and small, and read the counter."""
    body = [i for i in loop.body.instructions if i.opcode not in _FREE]
    if counter.trip_count > _MOST_ITERATIONS or counter.trip_count * len(body) > _MOST_INSTRUCTIONS:
        return False
    return all(map(_is_small, body)) and _is_read(loop, counter)


def _is_read(loop: Instruction, counter: Counter) -> bool:
    """Whether a body reads a counter, other than to count: to know which rows are meant."""
    counters = {counter.index, *equal_counters(loop, counter)}
    counted = {loop.body.root.operands[k] for k in counters}
    reads = {i for k, i in state_values(loop.body).items() if k in counters}
    return any(not reads.isdisjoint(i.operands) for i in loop.body.instructions if i not in (*counted, loop.body.root))


def _is_small(i: Instruction) -> bool:
    """Whether an instruction computes or moves elements one by one, or writes some into an array."""
    return i.opcode in ROWS and (ROWS[i.opcode].op_class in (ELEMENTWISE, MOVEMENT) or overwritten(i) > 0)


def _iteration(body: Computation, state: Sequence[Instruction], suffix: str) -> dict[Instruction, Instruction]:
    """What takes the place of each instruction of a loop's body in an iteration that begins with these values of the
    elements of the state. Those without operands, such as constants, are the same in all iterations."""
    copies = {i: state[k] for k, i in state_values(body).items()}
    for i in body.instructions:
        if i not in copies:
            operands = [copies[o] for o in i.operands]
            copies[i] = copied(i, f"{i.name}.{suffix}", operands) if operands else i
    return copies


def unrolled_twice(body: Computation) -> tuple[Computation, set[Instruction]]:
    """The body of two iterations of a loop, and the instructions of the second. `body` has no loops or conditionals,
    and its parameter and root are flat tuples, as tuple_simplifier leaves them."""
    second = _iteration(body, body.root.operands, "second")
    root = second[body.root]
    live = set(post_order(root, body.parameters))
    # Those of the first iteration come first: a late one of them would keep its buffer live.
    instructions = [i for i in dict.fromkeys((*body.instructions, *second.values())) if i in live]
    return Computation(body.name, instructions, root), live.difference(body.instructions)
