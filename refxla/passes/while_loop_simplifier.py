"""Removes dead elements from the state of a loop: those on which neither a result nor the number of iterations depends.

    x, y = while (...) { x += a; y[i] = x }, and only x is read    ->    x = while (...) { x += a }

Every element of a state keeps itself alive, because its next value depends on it; so does an array that collects a
value of each iteration. So liveness is tracked for each element, through nested loops, too.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from refxla_spec.module import Instruction, Module
from refxla_spec.types import Shape

from .dce import sort


def run(module: Module) -> int:
    """Rewrites all loops. Returns the number of elements removed."""
    loops = dict(_loops(module))
    if not loops:
        return 0
    live = _live_elements(module, loops)
    count = sum(_narrow(loop, reads, live[loop]) for loop, reads in loops.items() if loop in live)
    if count:
        for computation in module.computations:  # without the readers of removed elements
            sort(computation)
    return count


def _loops(module: Module) -> Iterator[tuple[Instruction, list[Instruction]]]:
    """The loops whose computations nothing else runs and whose state is read element by element, with the readers of
    the result and of the state in the loop."""
    called = Counter(c for i in module.instructions() for c in i.called)
    users: defaultdict[Instruction, list[Instruction]] = defaultdict(list)
    for i in module.instructions():
        for o in i.operands:
            users[o].append(i)
    roots = {c.root for c in module.computations}
    for i in module.instructions():
        if i.opcode != "while" or i in roots or not called[i.body] == called[i.condition] == 1:
            continue
        reads = [*users[i], *users[i.body.parameters[0]], *users[i.condition.parameters[0]]]
        is_flat = i.operands[0].opcode == i.body.root.opcode == "tuple"
        if is_flat and all(j.opcode == "get-tuple-element" for j in reads):
            yield i, reads


def _live_elements(module: Module, loops: dict[Instruction, list[Instruction]]) -> dict[Instruction, set[int]]:
    """For each loop on which the module's result depends, the elements of the state on which it depends."""
    owners = {c.parameters[0]: loop for loop in loops for c in (loop.body, loop.condition)}
    owners.update({loop: loop for loop in loops})
    live: dict[Instruction, set[int]] = {}
    visited: set[Instruction] = set()
    waiting = [module.entry.root]
    while waiting:
        i = waiting.pop()
        if i in visited:
            continue
        visited.add(i)
        waiting += i.control_predecessors
        loop = owners.get(i.operands[0]) if i.opcode == "get-tuple-element" else None
        if loop is None:
            waiting += [*i.operands, *(c.root for c in i.called)]
            continue
        if loop not in live:
            live[loop] = set()
            waiting += [loop.condition.root, *loop.control_predecessors]
        if i.index not in live[loop]:
            live[loop].add(i.index)
            waiting += [loop.operands[0].operands[i.index], loop.body.root.operands[i.index]]
    return live


def _narrow(loop: Instruction, reads: Sequence[Instruction], live: set[int]) -> int:
    """Removes all elements but the live ones from a loop's state. Returns the number of elements removed."""
    init, root = loop.operands[0], loop.body.root
    kept = sorted(live)
    if len(kept) == len(init.operands):
        return 0
    shape = Shape.tuple_of(*(init.shape.elements[n] for n in kept))
    loop.operands = [_part(init, kept, shape)]
    loop.body.root = _part(root, kept, shape)
    place = {n: k for k, n in enumerate(kept)}
    for i in reads:
        if i.index in place:
            i.attributes["index"] = place[i.index]
    for owner in (loop, loop.body.parameters[0], loop.condition.parameters[0]):
        owner.shape = shape
    return len(init.operands) - len(kept)


def _part(whole: Instruction, numbers: Sequence[int], shape: Shape) -> Instruction:
    return Instruction(f"{whole.name}.narrow", "tuple", shape, [whole.operands[n] for n in numbers], {}, whole.metadata)
