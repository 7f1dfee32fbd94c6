"""Expands operations that have no emitter into operations that have one.

There is one file for each family. Each has EXPANSIONS, {opcode: f(instruction) -> Instruction}, where f returns the
replacement; for an operation with several outputs that is a `tuple`. Every expansion uses the algorithm that the
specification states, or an order that it allows, so the accuracy contract holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from refxla_spec.module import Computation, Instruction, Module, post_order

from ...ir.library_calls import library_call
from ..dce import called_first, sort
from . import (
    batch_norm_expander,
    cholesky_expander,
    cumulative_window_expander,
    custom_call_expander,
    dimension_size_expander,
    dot_expander,
    fft_expander,
    rng_expander,
    scalar_broadcast,
    scan_expander,
    shuffle_expander,
    stochastic_convert_expander,
    topk_expander,
    triangular_solve_expander,
)

Expansions = Mapping[str, Callable[[Instruction], Instruction | None]]
EXPANSIONS: dict[str, Callable[[Instruction], Instruction | None]] = {}
for family in (
    batch_norm_expander, cholesky_expander, cumulative_window_expander, custom_call_expander, dot_expander,
    fft_expander, rng_expander, scalar_broadcast, scan_expander, shuffle_expander, dimension_size_expander,
    stochastic_convert_expander, topk_expander, triangular_solve_expander,
):  # fmt: skip
    EXPANSIONS.update(family.EXPANSIONS)


def run(module: Module, expansions: Expansions = EXPANSIONS, library_calls: bool = False) -> int:
    """Expand everywhere; with `library_calls`, all but what a library computes (ir/library_calls.py). Returns how many
    instructions were expanded."""
    module.computations = called_first(module.entry)
    counts = [_expand(c, expansions, library_calls) for c in module.computations]
    if any(n is not None for n in counts):
        module.computations = called_first(module.entry)
    return sum(n or 0 for n in counts)


def _expand(computation: Computation, expansions: Expansions, library_calls: bool) -> int | None:
    """How many instructions were expanded; None where all stays as it is."""
    replaced: dict[Instruction, Instruction] = {}
    count = 0
    for i in computation.instructions:
        i.operands = [replaced.get(o, o) for o in i.operands]
        expansion = expansions.get(i.opcode)
        if library_calls and expansion is not None and library_call(i) is not None:
            continue
        made = expansion(i) if expansion else None
        if made is None:
            if i.opcode == "get-tuple-element" and i.operands[0].opcode == "tuple":
                replaced[i] = i.operands[0].operands[i.index]
            continue
        count += 1
        for n in post_order(made):
            n.metadata = n.metadata or i.metadata
        replaced[i] = made
    if not replaced:
        return None
    computation.root = replaced.get(computation.root, computation.root)
    sort(computation)
    return count
