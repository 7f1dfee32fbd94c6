"""Literals: rounded once when read, the same bits when written and read again."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refxla_spec.errors import ParseError
from refxla_spec.text import format_literal, parse_literal
from refxla_spec.types import ELEMENT_TYPES, Shape

FLOATS = [t.name for t in ELEMENT_TYPES.values() if t.is_float]
NARROW = [t.name for t in ELEMENT_TYPES.values() if t.is_float and t.bits <= 16]


def bits(value):
    return np.asarray(value).tobytes()


@pytest.mark.parametrize("name", NARROW)
def test_every_value_of_a_narrow_type_reads_back_bit_for_bit(name):
    element_type = ELEMENT_TYPES[name]
    codes = np.arange(1 << element_type.bits, dtype=f"u{element_type.dtype.itemsize}")
    values = codes.view(element_type.dtype)
    again = parse_literal(format_literal(values))
    assert again.dtype == values.dtype and bits(again) == bits(values)


@pytest.mark.parametrize(("name", "code"), [("f32", "u4"), ("f64", "u8"), ("c64", "u8")])
@given(data=st.data())
def test_random_bits_read_back(name, code, data):
    number = data.draw(st.integers(0, 2 ** (8 * int(code[1])) - 1))
    value = np.array([number], code).view(ELEMENT_TYPES[name].dtype)
    assert bits(parse_literal(format_literal(value))) == bits(value)


@pytest.mark.parametrize("name", [t.name for t in ELEMENT_TYPES.values() if t.is_integer])
def test_integers(name):
    element_type = ELEMENT_TYPES[name]
    low, high = (-(1 << element_type.bits - 1), (1 << element_type.bits - 1) - 1)
    if element_type.kind == "unsigned":
        low, high = 0, (1 << element_type.bits) - 1
    value = parse_literal(f"{name}[2] {{{low}, {high}}}")
    assert [int(v) for v in value] == [low, high] and value.dtype == element_type.dtype
    assert format_literal(value) == f"{name}[2] {{{low}, {high}}}"
    for beyond in (low - 1, high + 1):
        with pytest.raises(ParseError, match="out of range"):
            parse_literal(f"{name}[] {beyond}")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("f32[] nan", 0x7FC00000),
        ("f32[] -nan", 0xFFC00000),
        ("f32[] nan(0x1)", 0x7F800001),
        ("f32[] -nan(0x7fffff)", 0xFFFFFFFF),
        ("f32[] inf", 0x7F800000),
        ("f32[] -inf", 0xFF800000),
        ("f32[] -0", 0x80000000),
        ("f32[] 1e-45", 0x00000001),
        ("f32[] 16777217", 0x4B800000),  # a tie: to even
        ("f32[] 16777217.0000000000000000000001", 0x4B800001),  # above the tie by less than a double can say
        ("f32[] 16777218.9999999999999999999999", 0x4B800001),
        ("bf16[] nan(0x3)", 0x7F83),
        ("bf16[] 1.00390625", 0x3F80),  # 1 + 2^-8, a tie
        ("bf16[] 1.00390625000000001", 0x3F81),
        ("f16[] 65519.99", 0x7BFF),
        ("f8e5m2[] -nan(0x1)", 0xFD),
        ("f8e4m3fn[] -nan", 0xFF),
        ("f8e4m3fnuz[] nan", 0x80),
    ],
)
def test_bits(text, code):
    value = parse_literal(text)
    assert int(value.view(f"u{value.dtype.itemsize}")) == code
    assert bits(parse_literal(format_literal(value))) == bits(value)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("f32[] 0.1", "0.1"),
        ("f32[] 1.10000002384185791015625", "1.1"),
        ("bf16[] 1.1", "1.1"),
        ("f64[] 0.1000000000000000055", "0.1"),
        ("f32[2,2] {{1,2},{3,4}}", "{{1, 2}, {3, 4}}"),
        ("f32[2,2] {1,2,3,4}", "{{1, 2}, {3, 4}}"),
        ("f32[2,1] { /*i0=0*/ {1}, /*i0=1*/ {2} }", "{{1}, {2}}"),
        ("pred[3] {1, false, true}", "{true, false, true}"),
        ("c64[2] {(1, -2), (nan, -inf)}", "{(1, -2), (nan, -inf)}"),
        ("f32[0,3] {  }", "{}"),
        ("f32[2,0] { {}, {} }", "{{},{}}"),
        ("f32[] -0.0", "-0.0"),  # and not -0, which XLA reads as 0
        ("f32[] .5", "0.5"),
        ("(f32[], (s32[2], pred[])) (1.5, ({1, 2}, true))", "(1.5, ({1, 2}, true))"),
        ("() ()", "()"),
    ],
)
def test_written_form(text, written):
    assert format_literal(parse_literal(text), with_shape=False) == written


def test_shape_of_what_is_read():
    value = parse_literal("(f32[2]{0} {1, 2}, ())".replace("{1, 2}, ())", "") + ", s8[2,2]) ({1,2}, {1,2,3,4})")
    assert Shape.of(value) == Shape.tuple_of(Shape.array("f32", (2,)), Shape.array("s8", (2, 2)))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("f32[2] {1}", "has 2 element"),
        ("f32[2] {1, 2, 3}", "has 2 element"),
        ("f32[2,2] {{1, 2, 3}, {4}}", "do not nest"),
        ("f32[2] {1, 2", "do not nest"),
        ("f32[2] {1, x}", "'x' is no f32 value"),
        ("s32[] 1.5", "'.' is no s32 value|1 element"),
        ("f32[] 1e39", "out of range"),
        ("f16[] 65520", "out of range"),
        ("f8e4m3fn[] inf", "out of range"),
        ("f64[] 1e400", "out of range"),
        ("f32[] nan(0x0)", "payload"),
        ("f32[] nan(0x1000000)", "payload"),
        ("f8e4m3fn[] nan(0x1)", "payload"),
        ("f4e2m1fn[] nan", "no NaN"),
        ("f32[100] {...}", "elided"),
        ("f32[]", "has 1 element"),
        ("token[] 1", "cannot have the shape"),
        ("(f32[], f32[]) (1)", "2 elements"),
        ("(f32[]) 1", "in parentheses"),
    ],
)
def test_bad_literals(text, message):
    with pytest.raises(ParseError, match=message):
        parse_literal(text)


def test_an_empty_array_of_many_rows_is_written_in_no_time():
    many = np.zeros((10, 9, 8, 7, 30, 29, 28, 0, 5), np.float32)
    assert format_literal(many, with_shape=False) == "{}"
    assert format_literal(many, with_shape=False, elide=40) == "{...}"
    assert format_literal(np.zeros((2, 0, 3)), with_shape=False) == "{{},{}}"
    assert format_literal(np.zeros((2000, 0)), with_shape=False) == "{" + ",".join(["{}"] * 2000) + "}"
