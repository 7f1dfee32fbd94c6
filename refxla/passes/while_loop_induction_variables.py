"""Merges equal induction variables of a loop into one, such as the two counters of `jax.lax.fori_loop`.

    i = 0, k = 0;  while (k < n) { ... i ...; i += 1; k += 1 }    ->    k = 0;  while (k < n) { ... k ...; k += 1 }

The trip count is derived from one of them, and the runtime counts it; any other is memory that each iteration writes
and the next one waits for. Its element of the state remains, but the loop neither changes nor reads it.
"""

from __future__ import annotations

from refxla_spec.module import Computation, Instruction, Module

from .._core.shapes import make
from ..analysis.while_loop_analysis import counter_of, equal_counters, state_values
from .dce import called_first, settle


def run(module: Module) -> int:
    """Rewrites all loops. Returns the number of induction variables removed."""
    called: list[Computation] = [c for i in module.instructions() for c in i.called]
    return sum(
        _merge(computation, i)
        for computation in called_first(module.entry)
        for i in list(computation.instructions)
        if i.opcode == "while" and called.count(i.body) == called.count(i.condition) == 1
    )


def _merge(computation: Computation, loop: Instruction) -> int:
    """Rewrites one loop, whose condition and body no other instruction runs."""
    init, root = loop.operands[0], loop.body.root
    counter = counter_of(loop) if init.opcode == root.opcode == "tuple" else None
    if counter is None:
        return 0
    inside, equal = state_values(loop.body), equal_counters(loop, counter)
    replaced = {inside[k]: inside[counter.index] for k in equal}
    leaves = [inside[k] if k in equal else o for k, o in enumerate(root.operands)]
    for i in loop.body.instructions:
        i.operands = [replaced.get(o, o) for o in i.operands]
    root.operands = leaves
    settle(loop.body, {})
    _read_instead(computation, loop, equal, counter.index)
    return len(equal)


def _read_instead(computation: Computation, loop: Instruction, elements: set[int], element: int) -> None:
    """Replaces reads of several equal elements of a loop's result by reads of one of them."""
    reads = [i for i in computation.instructions if i.opcode == "get-tuple-element" and i.operands[0] is loop]
    others = [i for i in reads if i.index in elements]
    if others:
        source = next((i for i in reads if i.index == element), None)
        source = source or make("get-tuple-element", loop, name=f"{loop.name}.{element}", index=element)
        replaced = dict.fromkeys(others, source)
        for i in computation.instructions:
            i.operands = [replaced.get(o, o) for o in i.operands]
        settle(computation, replaced)
