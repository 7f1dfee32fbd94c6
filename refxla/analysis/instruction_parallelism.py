"""How many elements a core has to compute at the same time to keep its units busy.

In a chain of dependent operations (Horner's rule, the rounds of a random number generator), each waits some cycles for
the previous result. Meanwhile the core executes independent operations of the same elements, and those of the next
elements that are within its scheduling window. Where these are too few, the loop interleaves several vectors of
elements.
"""

from __future__ import annotations

from collections.abc import Sequence

from refxla_spec.module import Instruction

from ..ir.op_table import ELEMENTWISE, class_of, flops_of

WINDOW = 100  # operations in a core's window: entries of the schedulers of Zen 3 (64) to Golden Cove (97 and 70)
BUSY = 4.0  # independent operations that keep a core busy: two units with 2 (integers) to 4 cycles (floats)
FEW = 2.5  # independent operations, up to which four vectors are better than two
WORTH = 1 << 17  # operations in a call, from which on compiling a loop with two vectors of elements pays
WORTH_FOUR = 1 << 20  # and with four


def vectors_at_once(members: Sequence[Instruction], size: int) -> int:
    """How many vectors of elements a loop over `size` elements should interleave: 1, 2 or 4. `members` are the
    instructions computed for each element, operands before users."""
    work, chain = _work(members)
    if work * size < WORTH:
        return 1
    independent = work / chain * max(1.0, WINDOW / work)
    if independent >= BUSY:
        return 1
    return 4 if independent <= FEW and work * size >= WORTH_FOUR else 2


def _work(members: Sequence[Instruction]) -> tuple[float, float]:
    """The operations of an element: all of them, and those on the longest chain of dependences."""
    work = 0.0
    chains: dict[Instruction, float] = {}
    for i in members:
        own = flops_of(i) if class_of(i) == ELEMENTWISE and i.shape.size > 1 else 0.0
        work += own
        chains[i] = own + max((chains.get(o, 0.0) for o in i.operands), default=0.0)
    return work, max(chains.values(), default=0.0)
