"""The order of groups: after what they need, by rank, and where possible after those whose operands they overwrite."""

import pytest

from refxla._core.topological_order import topological_order


def ranks(needs):
    return {n: n for n in needs}


def test_a_group_comes_after_what_it_needs_and_otherwise_by_rank():
    needs = {0: {3}, 1: set(), 2: {1}, 3: set()}
    assert topological_order(needs, ranks(needs)) == [1, 2, 3, 0]
    assert topological_order(needs, {0: 0, 1: 9, 2: 1, 3: 2}) == [3, 0, 1, 2]


def test_readers_of_what_a_group_overwrites_come_before_it():
    needs = {0: set(), 1: set(), 2: {1}}
    assert topological_order(needs, ranks(needs), {0: {2}}) == [1, 2, 0]


def test_readers_that_need_the_group_come_after_it():
    needs = {0: set(), 1: {0}, 2: {1}}
    assert topological_order(needs, ranks(needs), {0: {1, 2}}) == [0, 1, 2]


def test_groups_that_overwrite_what_the_other_reads_are_in_order_of_rank():
    needs = {0: set(), 1: set()}
    assert topological_order(needs, ranks(needs), {0: {1}, 1: {0}}) == [0, 1]


def test_groups_that_need_each_other_are_a_fault():
    with pytest.raises(AssertionError, match="a fault of instruction fusion"):
        topological_order({0: {1}, 1: {0}}, {0: 0, 1: 1})
