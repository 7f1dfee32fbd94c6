"""Which products are too small for blocks, so that a plain loop over the elements of the result is as fast.

A product in blocks has whole tiles of sums and packs an operand; a loop begins at once, and fuses with the producers of
its operands. Each limit is the measured break-even point. All depend on shapes alone, and both forms add the terms in
the same order (analysis/contraction_order.py).
"""

from __future__ import annotations

MOST_WORK = 2048  # multiply-adds of all products
LONGEST_CHAIN = 32  # terms of a sum, up to which a processor overlaps several sums in a loop
FEWEST_SUMS = 8  # the lanes of a vector: with fewer, most of a tile would be empty, regardless of the terms
SHORTEST_VECTOR = 16  # terms of a matrix times a vector, up to which panels cost more than they save
SMALLEST_WORK = 8  # multiply-adds of each of any number of products: 2 x 2 matrices
UNROLLED_WORK = 27  # the same if a loop over the products has vectors of them: 3 x 3 matrices,
UNROLLED_FROM = 4096  # of at least so many products: such a loop takes longer to compile


def dot_is_loop(groups: int, m: int, n: int, k: int) -> bool:
    """Whether a loop computes `groups` products of m x k and k x n matrices on a CPU."""
    sums = groups * m * n
    is_little_work = has_little_work(sums, k) and (k <= LONGEST_CHAIN or sums < FEWEST_SUMS)
    has_tiny_matrices = m * n * k <= SMALLEST_WORK
    has_short_vectors = min(m, n) == 1 and k <= SHORTEST_VECTOR
    return is_little_work or has_tiny_matrices or has_short_vectors


def dot_is_unrolled(groups: int, m: int, n: int, k: int) -> bool:
    """Whether a loop over `groups` products, with all elements of each unrolled, is faster than a product in blocks."""
    return groups >= UNROLLED_FROM and m * n * k <= UNROLLED_WORK


def has_little_work(results: int, k: int) -> bool:
    """Whether so many sums of k terms are so little work that a loop computes them: all that decides for a convolution,
    and for a dot on a GPU."""
    return results * k <= MOST_WORK
