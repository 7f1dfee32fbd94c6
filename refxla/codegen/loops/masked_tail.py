"""Loops over rows that are no multiple of a vector, whose last vector is masked.

clang computes the elements that are left after the last whole vector one by one. Where an element takes many operations
and rows are short, these few take most of the time: in rows of 20 elements with logarithms, four single ones take twice
as long as the sixteen of the vector. Where an iteration computes several vectors at once, all elements after the last
whole iteration are left. With AVX-512, a vector of which some lanes are masked is as fast as a whole one. Without it,
masked stores are slow on some processors, so that such loops stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence

from refxla_spec.module import Instruction

from ...analysis.access_patterns import AccessPattern
from ...device.description import Target
from ...ir.op_table import ELEMENTWISE, class_of, flops_of

HINTS = "vectorize(enable) vectorize_predicate(enable)"
MOST_ELEMENTS = 1024  # of a row: the rest of a longer one does not matter
MASK = 8.0  # operations that computing the mask of a vector takes the time of


def pays(
    target: Target,
    members: Sequence[Instruction],
    pattern: AccessPattern,
    elements: int,
    vectors: int = 1,
    anywhere: bool = False,
) -> bool:
    """Whether a loop over so many elements should mask what is left after the last whole iteration, each of which
    computes so many `vectors` at once. `members` are the instructions that are computed for each element, and `pattern`
    is what the loop reads and stores, each along memory or the same in all iterations. With `anywhere`, the loop may
    have fewer elements, so that half an iteration is left on average."""
    if not target.capabilities.loop_pragmas or target.widest <= target.vector_bytes:
        return False
    arrays = [a.instruction for a in pattern.accesses] + [s.instruction for s in pattern.stores]
    moved = {i.shape.element_type for i in arrays}
    widest = max(t.bits for t in moved)
    # Bytes beside wider elements are a quarter of a vector, or less; by themselves, their vectors have more lanes than
    # what is computed from them.
    if {t.bits for t in moved} - {8, 32, 64} or widest == 8 or any(t.is_complex for t in moved):
        return False
    lanes = target.widest * 8 // widest
    rest = lanes * vectors // 2 if anywhere else elements % (lanes * vectors)
    if not rest or not lanes // 2 < elements <= MOST_ELEMENTS:
        return False
    own = (i for i in members if class_of(i) == ELEMENTWISE and i.shape.is_array and i.shape.size > 1)
    return rest * sum(map(flops_of, own)) >= MASK * (elements // lanes + 1)
