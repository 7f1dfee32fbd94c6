"""The order into which a comparator brings rows: by a key where it compares one, else by comparing in a network."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from .module import Computation, Instruction, post_order
from .numerics import total_order_key
from .ops.compare import is_total
from .types import Array
from .vectorize import Run, run_vectorized


def sorted_order(comparator: Computation, rows: list[Array], run: Run) -> Array:
    """For each row the indices that sort it, stably.

    `rows` are N arrays of shape [m, n]: m lists of n tuples. The result has that shape too. The comparator takes
    2 N scalars, two for each array, and says whether the first tuple comes before the second.
    """
    keys = _keys(comparator, rows, run)
    return _network(comparator, rows, run) if keys is None else np.argsort(keys, axis=1, kind="stable")


def ordered(comparator: Computation, rows: list[Array], order: Array, run: Run) -> Array:
    """For each row whether the comparator is a strict weak order of its tuples, as far as that is seen; of others
    the specification says nothing. `rows` and `order` are those of `sorted_order`; the result has the shape [m].

    One that compares floats as numbers is none of rows with a NaN, which is equal to numbers that differ. Any other is
    asked about tuples of the sorted row whose distance is a power of two, of which the later one must not come first.
    """
    m, n = rows[0].shape
    decided = np.ones(m, bool)
    if n < 2:
        return decided
    keys = keys_of(comparator)
    if keys is not None:
        for key in keys:
            if key.function.root.shape.element_type.is_float and not key.total and not key.nans_greatest:
                decided &= ~np.isnan(run_vectorized(key.function, rows[key.operand], run=run)).any(1)
        return decided
    in_order = [np.take_along_axis(r, order, 1) for r in rows]
    distance = 1
    while distance < n:
        pairs = [side for r in in_order for side in (r[:, distance:], r[:, :-distance])]
        decided &= ~run_vectorized(comparator, *pairs, run=run).any(1)
        distance *= 2
    return decided


class SortKey(NamedTuple):
    """A key that a comparator orders rows by: `function` of one element of operand number `operand`.

    Floats are in total order (`total`), else as numbers, both zeros equal. Then a NaN is equal to any other and greater
    than all numbers if `nans_greatest`; if not, what NaNs do to the order is the comparator's affair.
    """

    operand: int
    function: Computation
    descending: bool
    total: bool
    nans_greatest: bool


def keys_of(comparator: Computation) -> list[SortKey] | None:
    """The keys that a comparator compares one after the other, most significant first; None for any other comparator.

    One is  compare(key(a), key(b)), direction LT or GT, with the same function of one operand on both sides, or that
    with a rule for NaNs (`_ranks_nans`). Several of them are  less | (same & the rest), where `same` compares what
    `less` does for EQ.
    """
    keys, rest = [], comparator.root
    while rest.opcode == "or" and not _ranks_nans(rest):
        less, both = rest.operands
        if both.opcode != "and" or both.operands[0].opcode != "compare":
            return None
        same, rest = both.operands
        key = _key_of(comparator, less)
        if key is None or same.operands != less.operands:
            return None
        if same.attributes != less.attributes | {"direction": "EQ"}:
            return None
        keys.append(key)
    key = _key_of(comparator, rest)
    return None if key is None else [*keys, key]


def _key_of(comparator: Computation, before: Instruction) -> SortKey | None:
    nans_greatest = _ranks_nans(before)
    compare = before.operands[0] if nans_greatest else before
    if compare.opcode != "compare" or compare.direction not in ("LT", "GT"):
        return None
    descending = compare.direction == "GT"
    left, right = compare.operands
    number = _same_function(left, right)
    if number is None:  # the second tuple's key on the left
        left, right, descending = right, left, not descending
        number = _same_function(left, right)
    if number is None or left.shape.element_type.is_complex:
        return None
    parameter = replace(comparator.parameters[number], attributes={"number": 0})
    function = _function(left, comparator.parameters[number], parameter)
    return SortKey(number // 2, function, descending, is_total(compare.attributes), nans_greatest)


def _ranks_nans(before: Instruction) -> bool:
    """Whether this is  lesser < greater | (lesser is a number & greater is NaN):  NaNs are equal, and greatest."""
    if before.opcode != "or" or before.operands[1].opcode != "and":
        return False
    compare, rule = before.operands
    if compare.opcode != "compare" or compare.direction not in ("LT", "GT") or is_total(compare.attributes):
        return False
    lesser, greater = compare.operands if compare.direction == "LT" else reversed(compare.operands)
    tests = [_nan_test(i) for i in rule.operands]
    return tests in ([(lesser, False), (greater, True)], [(greater, True), (lesser, False)])


def _nan_test(test: Instruction) -> tuple[Instruction, bool] | None:
    """What a comparison of a value with itself, or `not` of it, tests, and whether a NaN passes."""
    if test.opcode == "not":
        inner = _nan_test(test.operands[0])
        return None if inner is None else (inner[0], not inner[1])
    if test.opcode != "compare" or test.direction not in ("EQ", "NE") or is_total(test.attributes):
        return None
    left, right = test.operands
    return (left, test.direction == "NE") if left is right else None


def _keys(comparator: Computation, rows: list[Array], run: Run) -> Array | None:
    """Numbers that are in ascending order where the rows are in the comparator's, if it is seen how to get them."""
    keys = keys_of(comparator)
    if keys is None:
        return None
    ranks = np.zeros(rows[0].shape, np.int64)
    for key in keys:
        values = run_vectorized(key.function, rows[key.operand], run=run)
        if key.function.root.shape.element_type.is_float:
            if key.total:
                values = total_order_key(values)
            else:
                values = values.astype(np.float64)
                if not key.nans_greatest and np.isnan(values).any():
                    return None
        places = np.unique(values, return_inverse=True)[1].reshape(values.shape)  # all NaNs are one, the last
        ranks = ranks * values.size + (-places if key.descending else places)
        ranks = np.unique(ranks, return_inverse=True)[1].reshape(values.shape)
    return ranks


def _same_function(left: Instruction, right: Instruction) -> int | None:
    """The number of the one parameter p that left is a function of, if right is that function of p + 1; else None."""
    numbers = set()
    stack, visited = [(left, right)], set()
    while stack:
        a, b = stack.pop()
        if (a, b) in visited:
            continue
        visited.add((a, b))
        if a.opcode == b.opcode == "parameter":
            numbers.add(a.number)
            if a.number % 2 or b.number != a.number + 1:
                return None
        elif a.opcode == b.opcode == "constant":
            if not a.shape.compatible(b.shape) or a.literal.tobytes() != b.literal.tobytes():
                return None
        elif a.opcode != b.opcode or a.attributes != b.attributes or len(a.operands) != len(b.operands):
            return None
        else:
            stack += zip(a.operands, b.operands, strict=True)
    return numbers.pop() if len(numbers) == 1 else None


def _function(root: Instruction, old: Instruction, new: Instruction) -> Computation:
    """The computation of `root`, a function of the parameter `old`, with the parameter `new` in its place."""
    copies: dict[Instruction, Instruction] = {old: new}
    for i in post_order(root):
        if i is not old:
            copies[i] = replace(i, operands=[copies[o] for o in i.operands], control_predecessors=[])
    return Computation("key", [new, *(i for i in copies.values() if i is not new)], copies[root])


def _network(comparator: Computation, rows: list[Array], run: Run) -> Array:
    """Batcher's merge exchange: log2(n)^2 / 2 steps, each comparing many pairs at once.

    A tuple's old index decides where the comparator does not, which makes the order stable.
    """
    m, n = rows[0].shape
    order = np.broadcast_to(np.arange(n), (m, n)).copy()
    rows = [r.copy() for r in rows]

    def before(i: Array, j: Array) -> Array:
        pairs = [side for r in rows for side in (r[:, i], r[:, j])]
        return run_vectorized(comparator, *pairs, run=run)

    top = 1 << max(0, (n - 1).bit_length() - 1)
    p = top if n > 1 and m else 0
    while p:
        q, r, d = top, 0, p
        while True:
            i = np.arange(n - d)
            i = i[(i & p) == r]
            j = i + d
            swap = before(j, i) | (~before(i, j) & (order[:, j] < order[:, i]))
            for a in (order, *rows):
                low, high = a[:, i], a[:, j]
                a[:, i], a[:, j] = np.where(swap, high, low), np.where(swap, low, high)
            if q == p:
                break
            d, q, r = q - p, q >> 1, p
        p >>= 1
    return order
