"""Index simplification, by brute force: the simplified text has the value of the expression it stands for."""

import re
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from search import examples

from refxla.analysis.index_expression import constant, delinearize, linearize, variable
from refxla.analysis.index_maps import Condition
from refxla.codegen.index_printer import c_of, c_of_condition, c_of_conditions

RANGES = {"i": (0, 5), "j": (0, 3), "k": (2, 4), "m": (-3, 2)}
VARIABLES = {n: variable(n, *r) for n, r in RANGES.items()}
POINTS = [dict(zip(RANGES, p, strict=True)) for p in product(*(range(a, b + 1) for a, b in RANGES.values()))]


def in_python(text: str) -> str:
    """C's (a ? b : c), which have parentheses of their own, as Python's (b if a else c)."""

    def parenthesis(at: int, step: int) -> int:
        """Where the parentheses around a place begin, or end."""
        depth = step
        while depth:
            at += step
            depth += {"(": 1, ")": -1}.get(text[at], 0)
        return at

    while "?" in text:
        mark = text.rindex("?")
        colon, begin, end = text.index(" : ", mark), parenthesis(mark, -1), parenthesis(mark, 1)
        test, first, second = text[begin + 1 : mark], text[mark + 1 : colon], text[colon + 2 : end]
        text = f"{text[:begin]}({first} if {test} else {second}){text[end + 1 :]}"
    return text


def evaluate(text: str, values: dict[str, int]) -> int:
    """C's meaning of the text; a division of a negative number would be another one than Python's, and fails."""
    text = in_python(re.sub(r"\((int|long|uint|ulong)\)", "", text))
    text = re.sub(r"(\d)(ul|u|l)\b", r"\1", text)

    class Checked(int):
        def __floordiv__(self, other):
            assert int(self) >= 0, f"negative dividend in {text}"
            return Checked(int(self) // other)

        def __mod__(self, other):
            assert int(self) >= 0, f"negative dividend in {text}"
            return Checked(int(self) % other)

        def __add__(self, other):
            return Checked(int(self) + int(other))

        def __sub__(self, other):
            return Checked(int(self) - int(other))

        def __mul__(self, other):
            return Checked(int(self) * int(other))

        __radd__, __rmul__ = __add__, __mul__

        def __rsub__(self, other):
            return Checked(int(other) - int(self))

    return int(eval(text.replace("/", "//"), {}, {n: Checked(v) for n, v in values.items()}))


def evaluate_condition(text: str, values: dict[str, int]) -> bool:
    return bool(evaluate(text, values))


leaf = st.one_of(
    st.sampled_from(sorted(RANGES)).map(lambda n: (VARIABLES[n], lambda v: v[n])),
    st.integers(-20, 20).map(lambda c: (constant(c), lambda v: c)),
)


def grow(child):
    factor = st.integers(-8, 8)
    divisor = st.sampled_from([1, 2, 3, 4, 5, 6, 8, 12, 20])
    return st.one_of(
        st.tuples(child, child).map(lambda p: (p[0][0] + p[1][0], lambda v: p[0][1](v) + p[1][1](v))),
        st.tuples(child, child).map(lambda p: (p[0][0] - p[1][0], lambda v: p[0][1](v) - p[1][1](v))),
        st.tuples(child, factor).map(lambda p: (p[0][0] * p[1], lambda v: p[0][1](v) * p[1])),
        st.tuples(child, divisor).map(lambda p: (p[0][0] // p[1], lambda v: p[0][1](v) // p[1])),
        st.tuples(child, divisor).map(lambda p: (p[0][0] % p[1], lambda v: p[0][1](v) % p[1])),
    )


@examples(400)
@given(st.recursive(leaf, grow, max_leaves=12))
def test_value_and_range(pair):
    index, meaning = pair
    text = c_of(index)
    for point in POINTS:
        want = meaning(point)
        assert evaluate(text, point) == want
        assert index.low <= want <= index.high


@examples(200)
@given(st.lists(st.integers(1, 5), min_size=0, max_size=4), st.data())
def test_delinearize_undoes_linearize(sizes, data):
    indices = tuple(variable(f"x{d}", 0, n - 1) for d, n in enumerate(sizes))
    assert delinearize(linearize(indices, sizes), sizes) == indices
    # Joining the first and last dimensions and parting them again leaves no division.
    cut = data.draw(st.integers(0, len(sizes)))
    merged = [1, 1]
    for d, n in enumerate(sizes):
        merged[d >= cut] *= n
    back = delinearize(linearize(delinearize(linearize(indices, sizes), merged), merged), sizes)
    assert back == indices


def test_linearize_undoes_delinearize():
    position = variable("p", 0, 2 * 3 * 4 * 5 - 1)
    assert linearize(delinearize(position, (2, 3, 4, 5)), (2, 3, 4, 5)) == position
    assert linearize(delinearize(position, (6, 1, 20)), (6, 1, 20)) == position


def test_linearize_undoes_delinearize_of_a_position_that_may_be_negative():
    """The elements of a window in front of an array, which a condition leaves out."""
    position = variable("i", 0, 1_000_000) - 3
    assert linearize(delinearize(position, (500, 256, 8)), (500, 256, 8)) == position


def test_conditions_known_from_ranges():
    i = variable("i", 0, 9)
    always, never, sometimes = (Condition(i, "<", bound) for bound in (10, 0, 5))
    assert [c_of_condition(c) for c in (always, never, sometimes)] == [True, False, "i < 5"]
    assert c_of_condition(Condition(i - 3, ">=", 0)) == "i - 3 >= 0"
    assert c_of_conditions([always, always]) is True
    assert c_of_conditions([sometimes, never]) is False
    odd = Condition(i % 2, "==", 1)
    assert c_of_conditions([sometimes, always, odd, sometimes]) == "(i < 5) & (((int)((uint)(i) % 2u)) == 1)"


def test_dividends_below_twice_the_divisor_are_compared():
    i = variable("i", 0, 6)
    assert c_of((i + 3) % 7) == "(i + 3 < 7 ? i + 3 : i + 3 - 7)" and c_of((i + 3) // 7) == "(i + 3 >= 7)"
    assert "%" in c_of((i + 2) % 8) and ">>" in c_of((2 * i + 2) % 7)


def test_an_index_has_no_text_of_its_own():
    index = variable("i", 0, 9) // 4 * 3 + 1
    with pytest.raises(TypeError, match="index_printer"):
        f"{index}"
    assert repr(index) == "<index 3 * ((i) / 4) + 1 in 1..7>"


@examples(200)
@given(st.recursive(leaf, grow, max_leaves=12), st.integers(-30, 30))
def test_conditions_hold_where_they_say(pair, bound):
    index, meaning = pair
    for relation, answer in ((">=", True), ("<", False)):
        condition = c_of_condition(Condition(index, relation, bound))
        for point in POINTS:
            held = condition if isinstance(condition, bool) else evaluate_condition(condition, point)
            assert held == ((meaning(point) >= bound) is answer)


def test_a_quotient_is_compared_without_a_division():
    i = variable("i", 0, 99)
    assert c_of_condition(Condition(i // 10 - 1, ">=", 2)) == "i >= 30"
    assert c_of_condition(Condition(3 * (i // 10) + 1, "<", 5)) == "i < 20"


def test_long_where_an_int_overflows():
    i, j = variable("i", 0, 99_999), variable("j", 0, 99_999)
    assert c_of(i * 100_000 + j) == "100000 * (long)i + (long)j"
    assert c_of(i * 10_000 + j) == "10000 * i + j"
    assert c_of((i * 100_000 + j) // 7) == "(long)((ulong)(100000 * (long)i + (long)j) / 7ul)"


def test_factor_and_divisions():
    i, j = variable("i", 0, 9), variable("j", 0, 4)
    assert (i * 5 + j).factor("i") == 5
    assert ((i * 5 + j) // 7).factor("i") is None
    assert (i * 5 + j).factor("x") == 0
    assert (i // 3 + i % 3).divisions == 2
    assert (i // 3 * 3 + i % 3).divisions == 0
    assert i - i // 3 * 3 == i % 3
    p = variable("p", 0, 999)
    assert p % 62 - p // 2 % 31 * 2 == p % 2


@given(st.integers(2, 3000), st.integers(0, 70000))
@examples(64)
def test_divisions_of_small_indices_are_products(divisor, high):
    """The C is evaluated here as C does it, in 32 bits, for the indices beside multiples and for the last ones."""
    index = variable("i", 0, high)
    quotient, rest = c_of(index // divisor), c_of(index % divisor)
    near = np.arange(0, high + 1, divisor)
    values = np.unique(np.clip(np.concatenate([near - 1, near, near + 1, [high]]), 0, high)).astype(np.uint32)
    found = re.fullmatch(r"\(int\)\(\(uint\)\(i\) \* (\d+)u >> (\d+)\)", quotient)
    if found is None:
        assert divisor & (divisor - 1) == 0 or high < 2 * divisor or high > 65535
        return
    factor, shift = map(np.uint32, found.groups())
    assert int(factor) * high < 1 << 32
    np.testing.assert_array_equal(values * factor >> shift, values // divisor)
    assert rest == f"(i - {divisor} * {quotient})"


@given(st.integers(1, 20), st.integers(1, (1 << 30) - 1))
@examples(64)
def test_a_power_of_two_is_divided_by_in_vectors_without_a_mask(power, high):
    """The C is evaluated here as C does it, for the indices beside multiples and for the last ones."""
    divisor = 1 << power
    text = c_of(variable("i", 0, high) % divisor, for_vectors=True)
    found = re.fullmatch(rf"\(i - {divisor} \* \(int\)\(\((uint|ulong)\)\(i\) \* (\d+)(?:u|ul) >> (\d+)\)\)", text)
    if found is None:
        assert text == "i" and high < divisor
        return
    factor, shift = int(found[2]), int(found[3])
    assert factor * high < 1 << (32 if found[1] == "uint" else 64) and factor & (factor - 1)
    for near in {0, divisor, high // divisor * divisor, high // 2 // divisor * divisor}:
        for n in range(max(0, near - 2), min(high, near + 2) + 1):
            assert n * factor >> shift == n // divisor


def test_an_index_that_is_a_variable_has_its_name():
    i, j = variable("i", 0, 9), variable("j", 0, 2**40)
    assert (i.name, j.name, (i + j - i).name) == ("i", "j", "j")
    assert [x.name for x in (constant(0), constant(3), i + 1, i * 2, -i, i + j, i // 2, i % 2)] == [None] * 8
