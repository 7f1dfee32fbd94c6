"""The order in which the terms of long sums are added: one rule for dots, convolutions and cumulative sums.

The terms of an element of the result are numbered by k, in row-major order over the contracting dimensions of a dot, or
over the elements of a convolution's window and then its input features. Up to ONE_CHAIN terms are one chain of
multiply-adds in that order. More terms are cut into segments of `segment_terms` each, the last of which may be shorter:
the sum of a segment is a chain that starts at zero, and the sums of the segments are added in order, also starting at
zero. Terms without an element of a convolution's input are left out, but keep their numbers.

The length of a segment depends on the number of terms and on the type alone, so the order, and each bit of the result,
is independent of tiles and blocks. The rounding error of a chain of n terms grows as the square root of n, in the worst
case as n; with segments it is that of two chains of about the square root of n terms, or of SEGMENT terms where that is
more. A segment is about as long as a cache block, so it only adds an addition where the sums are loaded and stored
anyway.

A cumulative sum has the same segments: each result is the sum of all earlier segments, starting at the initial value,
plus the chain of its own segment up to it.
"""

from __future__ import annotations

from refxla_spec.module import Instruction

from .accumulation import accumulator_types, commutative_opcode
from .index_maps import cumulative

ONE_CHAIN = 512  # terms up to which a sum is one chain
SEGMENT = 256  # terms of a segment, at least


def segment_terms(terms: int, element_type: str) -> int:
    """The length of a segment, a power of two, of a contraction of so many terms, accumulated in that type; 0 where all
    terms are one chain, as for integers, whose sums are the same in any order."""
    if terms <= ONE_CHAIN or element_type[0] not in "fcb":
        return 0
    return max(SEGMENT, 1 << terms.bit_length() // 2)


def cumulative_segment(window: Instruction) -> int:
    """The length of a segment of a reduce-window; 0 if it is not a cumulative sum, or a single chain."""
    direction = cumulative(window)
    if direction is None or commutative_opcode(window.to_apply) != "add":
        return 0
    (name,) = accumulator_types(window.to_apply)
    return segment_terms(window.operands[0].shape.dimensions[direction[0]], name)
