"""How many elements a core has to compute at the same time to be busy.

A vector of elements waits for each result of a chain of operations (Horner's rule, the rounds of a random number
generator), some cycles for each. Meanwhile the core computes what does not wait: operations of the same elements that
are independent, and those of the next elements, as far as it sees. Where that is too little, the loop computes several
vectors of elements alternately.
"""

from __future__ import annotations

from collections.abc import Sequence

from refxla_spec.module import Instruction

from ..ir.op_table import ELEMENTWISE, class_of, flops_of

WINDOW = 100  # operations that a core looks at: entries of the schedulers of Zen 3 (64) to Golden Cove (97 and 70)
BUSY = 4.0  # independent operations that keep a core busy: two units with 2 (integers) to 4 cycles (floats)
FEW = 2.5  # independent operations, up to which four vectors are better than two
WORTH = 1 << 17  # operations in a call from which on it is worth compiling a loop with two vectors of elements
WORTH_FOUR = 1 << 20  # and with four


def vectors_at_once(members: Sequence[Instruction], size: int) -> int:
    """How many vectors of elements a loop over `size` elements should compute alternately: 1, 2 or 4. `members` are
    the instructions computed for each element, operands before users."""
    work, chain = _work(members)
    if work * size < WORTH:
        return 1
    independent = work / chain * max(1.0, WINDOW / work)
    if independent >= BUSY:
        return 1
    return 4 if independent <= FEW and work * size >= WORTH_FOUR else 2


def _work(members: Sequence[Instruction]) -> tuple[float, float]:
    """The operations of an element: all, and the longest chain of those that wait for each other."""
    work = 0.0
    chains: dict[Instruction, float] = {}
    for i in members:
        own = flops_of(i) if class_of(i) == ELEMENTWISE and i.shape.size > 1 else 0.0
        work += own
        chains[i] = own + max((chains.get(o, 0.0) for o in i.operands), default=0.0)
    return work, max(chains.values(), default=0.0)
