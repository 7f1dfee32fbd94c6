"""Index-set splitting: a loop is split into ranges where a pad or concatenate compares an index with a constant.

Between two such constants the outcome is known, so that the elements of that range are computed without the test, and
clang can vectorize the loop over them. The plate of a heat equation is split into its first row, its last row, and
between them the first column, the last column and the interior.

    breaks(i - 1, 0, "i")                   [1]: from i == 1 on, i - 1 >= 0
    cut([(0, 511)], ...)                    Cut(0, ((0, 0, None), (1, 510, None), (511, 511, None)))

A pad between elements compares a remainder of the index. Its outcome repeats after a number of indices, the period, so
that an iteration computes that many elements, each without the test (residue_loop.py).

    period([(2 * i + 1) % 4], "i")          2
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import gcd, lcm

from ...analysis.index_expression import Index
from ...ir.plan import Fusion

FROM = 1024  # elements of loops, from which on they are split into ranges, each with code of its own
COSTLY_FROM = 32  # if they compute functions, which are worth vectorizing, or are in the body of a loop
THIN = 16  # indices of a thin range, which is joined with thin neighbours; fewer in a short loop
MAX_RANGES = 8  # of one loop
MAX_MEMBERS = 256  # instructions of a fusion, up to which its code may be written once for each range
SHARE = 8  # the loops inside a range with less than this part of a loop are not split

Test = tuple[Index, int]  # an index, and the least value at which the outcome changes
Range = tuple[int, int]  # the first and the last index


@dataclass(frozen=True)
class Cut:
    """Loop number `loop`, split into `parts`: for each its first and last index, and how the loops inside it are
    split."""

    loop: int
    parts: tuple[tuple[int, int, Cut | None], ...]


def pays(fusion: Fusion, elements: int, has_functions: bool) -> bool:
    """Whether the loops of a fusion over so many elements in all are worth code for each range. `has_functions`: they
    compute functions such as an exponential."""
    least = COSTLY_FROM if has_functions or fusion.in_loop else FROM
    return elements >= least and len(fusion.instructions) <= MAX_MEMBERS


def cut(ranges: Sequence[Range], tests: Callable[[Sequence[Range]], Sequence[Test]]) -> Cut | None:
    """How the loops over indices named g0, g1, ... of these ranges, outermost first, are split; None if they are not.

    `tests` gives the tests in the code when the loops' indices are known to lie in some ranges.
    """
    questions = tests(ranges)
    if not questions:
        return None
    for n, (low, high) in enumerate(ranges):
        points = {v for index, bound in questions for v in breaks(index, bound, f"g{n}") if low < v <= high}
        parts = _without_thin_neighbours(low, high, sorted(points))
        if 1 < len(parts) <= MAX_RANGES:
            size = high - low + 1
            inside = [
                cut([*ranges[:n], part, *ranges[n + 1 :]], tests) if (part[1] - part[0] + 1) * SHARE >= size else None
                for part in parts
            ]
            return Cut(n, tuple((*part, c) for part, c in zip(parts, inside, strict=True)))
    return None


def breaks(index: Index, bound: int, name: str) -> list[int]:
    """The values of variable `name` from which on the outcome of index >= bound may change, or has changed."""
    terms = [(atom, c) for atom, c in index.terms if name in Index(((atom, 1),), 0).variables]
    if len(terms) != 1 or terms[0][0].operation == "%":
        return []
    ((atom, c),) = terms
    own = Index(((atom, c),), 0)
    points = []
    for rest in {index.low - own.low, index.high - own.high}:
        at = -((rest - bound) // c) if c > 0 else (rest - bound) // -c + 1
        points += breaks(atom.index, at * atom.divisor, name) if atom.operation else [at]
    return points


def period(remainders: Sequence[Index], name: str) -> int:
    """The number of values of variable `name` after which each of these remainders, if it depends on the variable,
    repeats; 1 if one of them does not, as a quotient of the variable."""
    periods = [1]
    for index in remainders:
        for atom, _ in index.terms:
            if name in (atom.index.variables if atom.operation else (atom.name,)):
                factor = atom.index.factor(name) if atom.operation == "%" else None
                if factor is None:
                    return 1
                periods.append(atom.divisor // gcd(factor, atom.divisor))
    return lcm(*periods)


def _without_thin_neighbours(low: int, high: int, at: Sequence[int]) -> list[Range]:
    """The ranges that begin at `low` and at `at`, with thin neighbours joined."""
    thin = min(THIN, (high - low + 1) // SHARE)
    parts: list[Range] = []
    for begin, end in zip((low, *at), (*at, high + 1), strict=True):
        part = (begin, end - 1)
        if parts and end - begin < thin and parts[-1][1] - parts[-1][0] + 1 < thin:
            part = (parts.pop()[0], end - 1)
        parts.append(part)
    return parts
