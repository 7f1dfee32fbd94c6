"""The order into which a comparator brings rows: by a key where it compares one, else by comparing in a network."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .module import Computation, Instruction, post_order
from .numerics import total_order_key
from .vectorize import Run, run_vectorized


def sorted_order(comparator: Computation, rows: list[np.ndarray], run: Run) -> np.ndarray:
    """For each row the indices that sort it, stably.

    `rows` are N arrays of shape [m, n]: m lists of n tuples. The result has that shape too. The comparator takes
    2 N scalars, two for each array, and says whether the first tuple comes before the second.
    """
    keys = _keys(comparator, rows, run)
    return _network(comparator, rows, run) if keys is None else np.argsort(keys, axis=1, kind="stable")


def key_of(comparator: Computation) -> tuple[int, Computation] | None:
    """(number of the operand, key) of a comparator that compares one key of the two tuples; None for any other.

    That is compare(f(a), f(b)), direction LT or GT, with the same f of one operand on both sides; `key` computes f.
    """
    root = comparator.root
    if root.opcode != "compare" or root.direction not in ("LT", "GT"):
        return None
    left, right = root.operands
    number = _same_function(left, right)
    if number is None:
        return None
    parameter = replace(comparator.parameters[number], attributes={"number": 0})
    return number // 2, _function(left, comparator.parameters[number], parameter)


def _keys(comparator: Computation, rows: list[np.ndarray], run: Run) -> np.ndarray | None:
    """Numbers that are in ascending order where the rows are in the comparator's, if it is seen how to get them."""
    root, found = comparator.root, key_of(comparator)
    if found is None:
        return None
    number, key = found
    values = run_vectorized(key, rows[number], run=run)
    of_key = key.root.shape.element_type
    if of_key.is_float:
        if root.type == "TOTALORDER":
            values = total_order_key(values)
        elif np.isnan(values.astype(np.float64)).any():
            return None  # what NaNs do to the order is the comparator's affair
    elif of_key.is_complex:
        return None
    ranks = np.unique(values, return_inverse=True)[1].reshape(values.shape)
    return ranks if root.direction == "LT" else -ranks


def _same_function(left: Instruction, right: Instruction) -> int | None:
    """The number of the one parameter p that left is a function of, if right is that function of p + 1; else None."""
    numbers = set()
    stack, seen = [(left, right)], set()
    while stack:
        a, b = stack.pop()
        if (a, b) in seen:
            continue
        seen.add((a, b))
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
    made: dict[Instruction, Instruction] = {old: new}
    for i in post_order(root):
        if i is not old:
            made[i] = replace(i, operands=[made[o] for o in i.operands], control_predecessors=[])
    return Computation("key", [new, *(i for i in made.values() if i is not new)], made[root])


def _network(comparator: Computation, rows: list[np.ndarray], run: Run) -> np.ndarray:
    """Batcher's merge exchange: log2(n)^2 / 2 steps, each comparing many pairs at once.

    A tuple's old index decides where the comparator does not, which makes the order stable.
    """
    m, n = rows[0].shape
    order = np.broadcast_to(np.arange(n), (m, n)).copy()
    rows = [r.copy() for r in rows]

    def before(i: np.ndarray, j: np.ndarray) -> np.ndarray:
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
