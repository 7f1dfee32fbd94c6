"""Whether rows of a few elements are unrolled, so that clang vectorizes the loop over rows.

A loop over all elements would take a division for each to find its row. Unrolling costs code instead, one copy of the
body for each element of a row, so each of the four reasons for it has a bound:

    cheap rows    every element is moved, or computed by a few operations or a short sum of products (has_cheap_rows)
    moved rows    every element is stored as it was loaded (_moves)
    stacked rows  each element is another operand's of a concatenate, as where matrices are put together of scalars:
                  they are written out one after the other, and what they share is computed once (stacks)
    joined rows   each function of the fusion is that of one element of a row, as where matrices are put together of
                  sines and cosines, or one of the whole row, by which all its elements are scaled: a loop over elements
                  would compute all functions for each (_joins)
"""

from __future__ import annotations

from collections.abc import Callable

from refxla_spec.module import Instruction

from ...analysis import index_maps
from ...analysis.access_patterns import AccessPattern
from ...ir.op_table import ELEMENTWISE, FUNCTIONS, MOVEMENT, SOURCE, class_of
from ...ir.plan import Fusion
from ..elemental_ir_emitter import divides_by_constant

NARROW = 16  # elements: shorter rows are unrolled, or joined with the next dimension, which takes divisions
MOST_STATEMENTS = 256  # elements of a row times instructions of the fusion
MOST_TERMS = 8  # of a sum of products that is unrolled


def has_cheap_rows(fusion: Fusion, row: int) -> bool:
    """Whether rows of `row` elements take little code. Instructions of one element do not count: they are computed
    once, before the loops."""
    each = [i for i in fusion.instructions if i.shape.is_array and i.shape.size > 1]
    if row >= NARROW or row * sum(map(_statements, each)) > MOST_STATEMENTS:
        return False
    groups = {class_of(i) for i in each if not _is_short_sum(i)} - {""}
    types = {i.shape.element_type.name for i in each}
    costly = any(i.opcode in FUNCTIONS and not divides_by_constant(i) for i in each)
    costly = costly or ELEMENTWISE in groups and not types.isdisjoint(("c64", "c128"))
    return not costly and groups <= {ELEMENTWISE, MOVEMENT, SOURCE}


def stacks(
    fusion: Fusion,
    row: int,
    pattern: Callable[[], AccessPattern],
    pattern_of_element: Callable[[int], AccessPattern],
) -> bool:
    """Whether each element of a row is of another operand of a concatenate: which one is known for the n-th, and has to
    be tested for any. The arguments are those of `applies`."""
    if row >= NARROW or not any(i.opcode == "concatenate" and len(i.operands) == row for i in fusion.instructions):
        return False
    return bool(pattern().tests) and not any(pattern_of_element(n).tests for n in range(row))


def applies(
    fusion: Fusion,
    row: int,
    pattern: Callable[[], AccessPattern],
    pattern_of_element: Callable[[int], AccessPattern],
    functions: int,
) -> bool:
    """Whether rows of `row` elements are unrolled. `pattern` gives what an element of any row reads and stores, and
    `pattern_of_element` that of the n-th of a row; `functions` counts the operations that patterns note as calls."""
    if row >= NARROW:
        return False
    if has_cheap_rows(fusion, row) or stacks(fusion, row, pattern, pattern_of_element) or _moves(pattern()):
        return True
    return _joins(fusion, row, pattern_of_element, functions)


def _moves(pattern: AccessPattern) -> bool:
    """Whether all stored values are loaded elements."""
    return {s.value for s in pattern.stores} <= {a.name for a in pattern.accesses}


def _joins(fusion: Fusion, row: int, pattern_of_element: Callable[[int], AccessPattern], functions: int) -> bool:
    """Whether the elements of a row together call no more functions than the fusion has."""
    if not functions or row * sum(map(_statements, fusion.instructions)) > MOST_STATEMENTS:
        return False
    return len({(c.instruction, c.indices) for n in range(row) for c in pattern_of_element(n).calls}) <= functions


def _statements(i: Instruction) -> int:
    """The statements of an instruction for each element, about."""
    return index_maps.terms(i) if _is_short_sum(i) else 1


def _is_short_sum(i: Instruction) -> bool:
    """Whether an element is a sum of a few products."""
    return 0 < index_maps.terms(i) <= MOST_TERMS
