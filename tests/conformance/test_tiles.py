"""What is wrong in large arrays of several dimensions alone is met by the cases of each operation by themselves."""

from __future__ import annotations

from functools import cache
from itertools import combinations, permutations

import numpy as np
import pytest
from refxla_conformance.case_check import asked, expectation
from refxla_conformance.cases import Case
from refxla_conformance.cases.sizes import largest
from refxla_conformance.cases.structured import tiles, tiles_of_sums
from refxla_conformance.liars import tiles as lies
from refxla_conformance.liars.liar import Lie, redefined
from refxla_conformance.targets.reference import Reference

MOVEMENT = (*lies.MOVEMENT, "pad", "reshape", "bitcast", "copy")
OPERATIONS = (
    *MOVEMENT, "iota", "reduce", "reduce-window", "select-and-scatter", "sort", "topk", "scan", "dot", "convolution",
    "cholesky", "triangular-solve", "fft", "batch-norm-training", "batch-norm-inference", "batch-norm-grad",
)  # fmt: skip
MATRICES = ("cholesky", "triangular-solve", "fft")  # in batches of one and of two dimensions


@cache
def cases_of(opcode: str) -> list[Case]:
    return [c for module in (tiles, tiles_of_sums) for c in module.cases(False) if c.opcode == opcode]


def caught(opcode: str, lie: Lie, cases: list[Case]) -> bool:
    """Whether one of the cases fails with the lie about that operation alone."""
    for case in cases:
        with redefined((opcode,), lie):
            got = asked(Reference(), case)
        if any(w.any() for w in expectation(case).wrong(got)):
            return True
    return False


def ranks(opcode: str) -> tuple[int, ...]:
    return {"convolution": (3, 4, 5)}.get(opcode, (3, 4) if opcode in MATRICES else (2, 3, 4, 5))


@pytest.mark.parametrize("opcode, rank", [(o, r) for o in OPERATIONS for r in ranks(o)])
def test_the_last_of_some_thousand_elements_is_met(opcode, rank):
    def lie(truth, i, *operands):
        value = truth(i, *operands)
        large = isinstance(value, tuple) or value.ndim == rank
        return lies.last_element_wrong(value, rank, 1000, 200_000) if large else value

    assert caught(opcode, lie, cases_of(opcode))


@pytest.mark.parametrize("opcode", OPERATIONS)
def test_arrays_of_three_to_five_dimensions_are_large(opcode):
    sizes = largest(cases_of(opcode))[opcode]
    assert all(sizes[rank] > 1000 for rank in ranks(opcode))


@pytest.mark.parametrize("opcode", MOVEMENT)
@pytest.mark.parametrize("itemsize", [1, 2, 4, 8])
def test_elements_of_each_size_are_moved(opcode, itemsize):
    def lie(truth, i, *operands):
        value = truth(i, *operands)
        return lies.last_element_wrong(value, 3, 1000, 200_000) if value.itemsize == itemsize else value

    assert caught(opcode, lie, cases_of(opcode))


@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_each_permutation_is_met(order):
    """Two dimensions of the result, of the same size, are exchanged in one order alone; or the size does not matter."""
    cases = [c for c in cases_of("transpose") if "permutations" in c.name]
    for a, b in combinations(range(4), 2):

        def lie(truth, i, x, a=a, b=b):
            value = truth(i, x)
            other = value.swapaxes(a, b) if value.ndim == 4 and tuple(i.dimensions) == order else value
            return np.ascontiguousarray(other) if other.shape == value.shape else value

        assert caught("transpose", lie, cases)
