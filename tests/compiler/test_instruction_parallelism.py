"""Loops over elements whose operations wait for each other compute several vectors of elements alternately."""

import numpy as np
import pytest
from kernel_driver import check_within
from refxla_spec.text import parse

from refxla.analysis.instruction_parallelism import WORTH, WORTH_FOUR, vectors_at_once

CHAIN = "\n".join(f"  v{n} = f32[{{size}}] multiply(v{n - 1}, v{n - 1})" for n in range(1, 120))
FLAT = "\n".join(f"  v{n} = f32[{{size}}] multiply(v0, v0)" for n in range(1, 120))
PRAGMA = "#pragma clang loop interleave_count"


def members(lines: str, size: int, root: int = 119):
    text = f"ENTRY e {{\n  v0 = f32[{{size}}] parameter(0)\n{lines}\n  ROOT r = f32[{{size}}] negate(v{root})\n}}"
    return parse(text.replace("{size}", str(size))).entry.instructions


def test_a_chain_needs_more_vectors_than_independent_operations():
    assert vectors_at_once(members(CHAIN, WORTH_FOUR), WORTH_FOUR) == 4
    assert vectors_at_once(members(FLAT, WORTH_FOUR), WORTH_FOUR) == 1


def test_what_a_core_sees_of_the_next_elements_is_enough_where_an_element_is_cheap():
    short = members("  v1 = f32[{size}] multiply(v0, v0)\n  v2 = f32[{size}] multiply(v1, v1)", 1 << 24, root=2)
    assert vectors_at_once(short, 1 << 24) == 1


def test_longer_code_is_for_calls_that_take_some_time():
    assert [vectors_at_once(members(CHAIN, n), n) for n in (100, WORTH // 100, WORTH)] == [1, 2, 4]


@pytest.mark.parametrize("size", ["30011", "3,10007", "20000,64", "150000,3"])
def test_the_values_are_right(size):
    """Also of loops whose length is no multiple of what is computed at once."""
    shape = f"f32[{size}]"
    lines = [
        f"  a{n} = {shape} multiply(v{n}, h)\n  b{n} = {shape} add(a{n}, x)\n  v{n + 1} = {shape} sqrt(b{n})"
        for n in range(30)
    ]
    body = f"  c = f32[] constant(0.25)\n  h = {shape} broadcast(c), dimensions={{}}\n" + "\n".join(lines)
    x = np.random.default_rng(0).uniform(0.5, 2, [int(n) for n in size.split(",")]).astype(np.float32)
    text = check_within(
        f"  x = {shape} parameter(0)\n  v0 = {shape} copy(x)\n{body}\n  ROOT r = {shape} negate(v30)", x
    )
    assert PRAGMA in text
