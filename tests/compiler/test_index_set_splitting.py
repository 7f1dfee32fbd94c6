"""Where loops fall into ranges, by brute force."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refxla_spec.text import parse
from search import examples

from refxla.analysis.index_expression import variable
from refxla.codegen.loops.index_set_splitting import Cut, breaks, cut, period
from refxla.codegen.opencl_program import program
from refxla.compiler.planning import plan_module
from refxla.device.description import DEFAULT_CPU


@examples(300)
@given(st.integers(1, 4), st.integers(-9, 9), st.sampled_from([-3, -1, 1, 2]), st.integers(-20, 40))
def test_breaks_are_where_the_answer_changes(divisor, shift, factor, bound):
    i = variable("i", 0, 30)
    index = (i + shift) // divisor * factor + 1

    def answer(v):
        return (v + shift) // divisor * factor + 1 >= bound

    changes = {v for v in range(1, 31) if answer(v) != answer(v - 1)}
    assert changes == {v for v in breaks(index, bound, "i") if 0 < v <= 30}


def test_other_variables_make_a_range_that_keeps_its_test():
    i, k = variable("i", 0, 30), variable("k", 0, 2)
    assert sorted(breaks(i + k - 1, 0, "i")) == [-1, 1]  # from 1 on it holds for all k, below -1 for none
    assert breaks(i % 4, 2, "i") == []
    assert breaks(k, 2, "i") == []


@examples(300)
@given(st.integers(2, 6), st.integers(-9, 9), st.sampled_from([-3, -1, 1, 2, 4]), st.integers(0, 3))
def test_a_remainder_repeats_after_its_period(divisor, shift, factor, outer):
    i = variable("i", 0, 60)
    remainder = (i * factor + outer + shift) % divisor
    repeats = period([remainder], "i")

    def value(v):
        return (v * factor + outer + shift) % divisor

    assert repeats == min(n for n in range(1, 7) if all(value(v) == value(v + n) for v in range(60)))
    assert period([remainder, (i + outer) % 5], "i") % 5 == 0


def test_what_has_no_period():
    i, j = variable("i", 0, 30), variable("j", 0, 30)
    assert period([], "i") == period([(j + 1) % 4], "i") == 1
    assert period([(i // 3) % 4], "i") == 1


def asked(*tests):
    """What code asks that wants these (loop, bound) where loop >= bound is not known already."""

    def tests_in(ranges):
        return [
            (variable(f"g{n}", low, high), bound)
            for n, bound in tests
            for low, high in [ranges[n]]
            if low < bound <= high
        ]

    return tests_in


def test_a_border():
    inner = Cut(1, ((0, 0, None), (1, 78, None), (79, 79, None)))
    tests = asked((0, 1), (0, 39), (1, 1), (1, 79))
    edge = Cut(0, ((0, 0, None), (1, 38, inner), (39, 39, None)))
    assert cut([(0, 39), (0, 79)], tests) == edge


def test_thin_neighbours_stay_one():
    tests = asked((0, 1), (0, 2), (0, 77), (0, 78), (0, 79))
    assert cut([(0, 79)], tests) == Cut(0, ((0, 1, None), (2, 76, None), (77, 79, None)))
    assert cut([(0, 4)], asked((0, 1), (0, 4))) == Cut(0, ((0, 0, None), (1, 3, None), (4, 4, None)))


def test_many_ranges_are_none():
    assert cut([(0, 999)], asked(*((0, 50 * k) for k in range(1, 20)))) is None
    assert cut([(0, 999)], asked()) is None


@pytest.mark.parametrize("opcode, written", [("rx_exponential_f32", 2), ("RX_FABS_F32", 1)])
def test_short_loops_fall_into_ranges_where_they_take_functions(opcode, written):
    name = "exponential" if "exponential" in opcode else "abs"
    module = parse(f"""HloModule m
ENTRY main {{
  x = f32[100] parameter(0)
  y = f32[4] constant({{1, 2, 3, 4}})
  both = f32[104] concatenate(y, x), dimensions={{0}}
  turned = f32[104] reverse(both), dimensions={{0}}
  ROOT z = f32[104] {name}(turned)
}}""")
    source = program(plan_module(module, DEFAULT_CPU)[1].plan.kernels, DEFAULT_CPU).source
    assert len(re.findall(rf"= {opcode}\(", source)) == written


DIFFERENCE = """zero = f32[] constant(0)
  wide = f32[202] pad(x, zero), padding=1_1
  left = f32[200] slice(wide), slice={[0:200]}
  right = f32[200] slice(wide), slice={[2:202]}"""
ONCE = f"""HloModule m
ENTRY main {{ x = f32[200] parameter(0)
  {DIFFERENCE}
  ROOT y = f32[200] subtract(left, right) }}"""
AGAIN = f"""HloModule m
body {{ s = (s32[], f32[200]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  x = f32[200] get-tuple-element(s), index=1
  {DIFFERENCE}
  sum = f32[200] subtract(left, right)
  ROOT r = (s32[], f32[200]) tuple(next, sum) }}
test {{ s = (s32[], f32[200]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(50)
  ROOT p = pred[] compare(i, n), direction=LT }}
ENTRY main {{ x = f32[200] parameter(0)
  zero = s32[] constant(0)
  begin = (s32[], f32[200]) tuple(zero, x)
  loop = (s32[], f32[200]) while(begin), condition=test, body=body
  ROOT y = f32[200] get-tuple-element(loop), index=1 }}"""

AT_TIMES = AGAIN.replace("body {", f"""stay {{ x = f32[200] parameter(0)
  ROOT y = f32[200] negate(x) }}
move {{ x = f32[200] parameter(0)
  {DIFFERENCE}
  ROOT y = f32[200] subtract(left, right) }}
body {{""").replace(f"""  {DIFFERENCE}
  sum = f32[200] subtract(left, right)
""", """  odd = s32[] and(i, one)
  sum = f32[200] conditional(odd, x, x), branch_computations={stay, move}
""")  # fmt: skip


@pytest.mark.parametrize("text, written", [(ONCE, 1), (AGAIN, 3), (AT_TIMES, 3)])
def test_short_loops_fall_into_ranges_in_the_body_of_a_loop(text, written):
    source = program(plan_module(parse(text), DEFAULT_CPU)[1].plan.kernels, DEFAULT_CPU).source
    assert len(re.findall(r"= \(\S+ - \S+\);", source)) == written
