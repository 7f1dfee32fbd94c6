"""Expands operations that have no emitter into operations that have one.

There is one file for each family. Each has EXPANSIONS, {opcode: f(instruction) -> Instruction}, where f returns the
replacement, which is a `tuple` for an operation with several outputs. Every expansion uses the algorithm that the
specification states, or an order that it allows, so the accuracy contract holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from refxla_spec.module import Computation, Instruction, Module, post_order

from ...ir.library_calls import library_call, pays
from ..dce import called_first, sort
from . import (
    batch_norm_expander,
    cholesky_expander,
    custom_call_expander,
    dimension_size_expander,
    fft_expander,
    power_expander,
    ragged_dot_expander,
    rng_expander,
    scalar_broadcast,
    scaled_dot_expander,
    scan_expander,
    select_and_scatter_expander,
    shuffle_expander,
    stochastic_convert_expander,
    topk_expander,
    triangular_solve_expander,
    window_expander,
)

Expansions = Mapping[str, Callable[[Instruction], Instruction | None]]
EXPANSIONS: dict[str, Callable[[Instruction], Instruction | None]] = {}
for family in (
    batch_norm_expander, cholesky_expander, custom_call_expander, dimension_size_expander, fft_expander, power_expander,
    ragged_dot_expander, rng_expander, scalar_broadcast, scaled_dot_expander, scan_expander,
    select_and_scatter_expander, shuffle_expander, stochastic_convert_expander, topk_expander,
    triangular_solve_expander, window_expander,
):  # fmt: skip
    EXPANSIONS.update(family.EXPANSIONS)


def run(module: Module, expansions: Expansions = EXPANSIONS, library_calls: bool = False) -> int:
    """Expands all such operations. With `library_calls`, as for CPUs, those that a library computes
    (ir/library_calls.py) stay, and sorts that select are used. Returns the number of instructions expanded.
    """
    if library_calls:
        expansions = {**expansions, **topk_expander.FOR_SELECTION}
    module.computations = called_first(module.entry)
    looped = _in_loops(module) if library_calls else set()
    counts = [_expand(c, expansions, library_calls, c in looped) for c in module.computations]
    if any(n is not None for n in counts):
        module.computations = called_first(module.entry)
    return sum(n or 0 for n in counts)


def _in_loops(module: Module) -> set[Computation]:
    """The computations that loops run, directly or indirectly."""
    loops = [i for i in module.instructions() if i.opcode == "while"]
    return {c for i in loops for part in i.called for c in called_first(part)}


def _expand(computation: Computation, expansions: Expansions, library_calls: bool, looped: bool) -> int | None:
    """The number of instructions expanded; None where nothing changes. `looped`: a loop runs the computation."""
    replaced: dict[Instruction, Instruction] = {}
    count = 0
    for i in computation.instructions:
        i.operands = [replaced.get(o, o) for o in i.operands]
        expansion = expansions.get(i.opcode)
        call = library_call(i) if library_calls and expansion is not None else None
        if call is not None and pays(i, call, looped):
            continue
        root = expansion(i) if expansion else None
        if root is None:
            if i.opcode == "get-tuple-element" and i.operands[0].opcode == "tuple":
                replaced[i] = i.operands[0].operands[i.index]
            continue
        count += 1
        for n in post_order(root):
            n.metadata = n.metadata or i.metadata
        replaced[i] = root
    if not replaced:
        return None
    computation.root = replaced.get(computation.root, computation.root)
    sort(computation)
    return count
