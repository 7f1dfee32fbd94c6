"""Bad texts: each gives one clear error of the family, with the place, and nothing else ever comes out."""

import random
import re

import pytest
from refxla_spec.errors import Error, InvalidProgramError, ParseError, UnsupportedError
from refxla_spec.text import parse
from refxla_spec.verify import verify

HEADER = "{ {0}: (0, {}, may-alias) }, entry_computation_layout={(f32[2,3]{1,0})->(f32[2,3]{1,0}, f32[])}"
TEXT = (
    f"HloModule m, input_output_alias={HEADER}"
    + """

%add.1 (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %c = f32[] add(%a, %b)
}

ENTRY %e (x: f32[2,3]) -> (f32[2,3], f32[]) {
  %x = f32[2,3]{1,0} parameter(0), sharding={replicated}
  %k = f32[2,3]{1,0} constant({ { 1, -2.5, nan }, { inf, 0, 1e-3 } })
  %s = f32[2,3]{1,0} add(f32[2,3]{1,0} %x, /*index=1*/%k), metadata={op_name="jit(f)/add" source_line=3}
  %z = f32[] constant(0)
  %r = f32[] reduce(%s, %z), dimensions={0,1}, to_apply=%add.1, backend_config={"a":["}"]}
  %w = f32[1,2]{1,0} slice(%s), slice={[0:1], [0:3:2]}
  %p = f32[3,4]{1,0} pad(%w, %z), padding=1_1x0_1_1
  ROOT %t = (f32[2,3]{1,0}, f32[]) tuple(%s, %r), frontend_attributes={k="v"}
}
"""
)


def fail(text: str, kind: type[Error] = ParseError) -> Error:
    with pytest.raises(kind) as raised:
        parse(text)
    return raised.value


def changed(old: str, new: str) -> str:
    assert TEXT.count(old) == 1
    return TEXT.replace(old, new)


def test_the_text_itself_is_valid():
    verify(parse(TEXT))


def test_the_form_of_an_error():
    error = fail(changed("add(f32[2,3]{1,0} %x", "adds(f32[2,3]{1,0} %x"))
    assert (error.line, error.column) == (12, 22)
    first, line, caret = str(error).split("\n")
    assert first == "line 12, column 22: HLO has no opcode 'adds'; did you mean 'add'?"
    assert line.strip().startswith("%s = f32[2,3]{1,0} adds(") and line[len(caret) - 1 :].startswith("adds(")


def test_long_lines_are_shown_in_part():
    text = "ENTRY e {\n ROOT c = f32[3] constant({" + "1, " * 5000 + "x})\n}"
    message = str(fail(text))
    assert all(len(line) < 200 for line in message.split("\n"))


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        ("", "found the end of the text", 1),
        ("HloModule m\n", "expected a computation", 1),
        (TEXT.replace("%add.1 (a:", "ENTRY %add.1 (a:"), "a second ENTRY", 9),
        (changed("%add.1 (a: f32[], b", "%e (a: f32[], b"), "a second computation is called e", 9),
        (changed("tuple(%s, %r)", "tuple(%s, %rr)"), "called 'rr'; did you mean 'r'", 17),
        (changed("%k), metadata", "%r), metadata"), "used before it is defined .in line 14", 12),
        (changed("slice(%s)", "slice(%w)"), "w depends on itself", 15),
        (changed("%z = f32[] constant(0)", "%s = f32[] constant(0)"), "s is defined twice; it is first in line 12", 13),
        (changed("%w = f32", "ROOT %w = f32"), "a second ROOT; the first is w", 17),
        (changed("to_apply=%add.1", "to_apply=%add"), "no computation has this name; did you mean 'add.1'", 14),
        (changed("dimensions={0,1}", "dimension={0,1}"), "no attribute 'dimension'; did you mean 'dimensions'", 14),
        (changed("dimensions={0,1}", "dimensions={0,a}"), "expected an integer", 14),
        (changed("dimensions={0,1}", "dimensions={0,1}, dimensions={0}"), "has the attribute dimensions twice", 14),
        (changed("f32[1,2]{1,0} slice", "f32[1,2]{1,1} slice"), "is no layout of 2 dimensions, such as .1,0.", 15),
        (changed("%z = f32[] const", "%z = f31[] const"), "'f31' is no element type", 13),
        (changed("[0:3:2]", "[0-3]"), "expected ':'", 15),
        (changed("padding=1_1x0_1_1", "padding=one"), "expected padding", 16),
        (changed("1e-3 } }", "1e-3 }"), "expected '}', to close '{' of line 11, column 31, found '\\)'", 11),
        ("e {\n\n", "'}' is missing\n    e {\n       \\^", 1),
        ("x = f32[2 parameter(0)", "']' is missing after the dimensions", 1),
        ("x = f32[2] {0 y\n}", r"[{]0 y is no layout of 1 dimension, such as [{]0}\n", 1),
        ("x = f32[2]{0 parameter(0)", "or a layout such as .1,0}", 1),
        ('x = f32[2] parameter(0), metadata={op_name="a}', "no closing quote", 1),
        (changed("{ { 1, -2.5, nan }, { inf, 0, 1e-3 } }", "{...}"), "print_large_constants", 11),
        (changed("parameter(0), sharding", "parameter(2147483648), sharding"), "integer of 32 bits", 10),
        (changed("parameter(0), sharding", "parameter(x), sharding"), "expected the number", 10),
        (changed("may-alias", "might-alias"), "may-alias or must-alias", 1),
        (changed("sharding={replicated}", "sharding={replicated"), "'{' is never closed", 10),
        (changed("ENTRY %e", "ENTRY %e e"), "expected", 9),
        ("HloModule m\n" + "ENTRY e { ROOT x = " + "(" * 5000, "levels deep", 2),
        ("ENTRY e {\n x = parameter(0)\n}", "expected the shape", 2),
        ("ENTRY e {\n}", "no instructions", 2),
        (changed("HloModule m", "HloModule m, num_partitions=?"), "num_partitions is a number from 1 to .* not [?]", 1),
        ("hello", "expected", 1),
        ("\0\0\0", "expected", 1),
    ],
)
def test_what_breaks_the_grammar(text, message, line):
    error = fail(text)
    assert re.search(message, str(error)), str(error)
    assert error.line == line, str(error)
    assert error.column is not None and "^" in str(error)


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        (
            changed("add(f32[2,3]{1,0} %x", "add(f32[3,2]{1,0} %x"),
            InvalidProgramError,
            "x is f32.2,3., and here f32.3,2.",
        ),
        (changed("(a: f32[], b: f32[])", "(a: f32[], b: s32[])"), InvalidProgramError, "says .f32.., s32"),
        (changed("f32[1,2]{1,0} slice", "f32[?,2] slice"), UnsupportedError, "without a bound .* state the size"),
        (
            changed("HloModule m", "HloModule m, replica_count=99999999999999"),
            InvalidProgramError,
            "line 1, column 14: replica_count is a number from 1 to 999999999, not 99999999999999",
        ),
        (
            changed("ROOT %c = f32[] add(%a, %b)", "ROOT %c = f32[] call(%a, %b), to_apply=%e"),
            InvalidProgramError,
            "calls itself",
        ),
    ],
)
def test_what_the_text_already_shows(text, kind, message):
    error = fail(text, kind)
    assert re.search(message, str(error)), str(error)


@pytest.mark.parametrize(
    ("of_g", "of_e", "line"),
    [
        ("call(x), to_apply=f", "call(x), to_apply=f", 5),
        ("negate(x)", "while(x), condition=e, body=f", 7),
        ("negate(x)", "call(x), to_apply=e", 7),
    ],
)
def test_a_computation_that_calls_itself_is_placed_at_the_call(of_g, of_e, line):
    one = "{} {{ x = f32[] parameter(0)\n ROOT r = f32[] {} }}\n".format
    text = "HloModule m\n" + one("f", "call(x), to_apply=g") + one("g", of_g) + one("ENTRY e", of_e)
    error = str(fail(text, InvalidProgramError))
    assert error.startswith(f"line {line}, column 7: ") and "calls itself (through r of " in error


def test_every_truncation_is_a_parse_error():
    entry, end = TEXT.index("ENTRY"), TEXT.rindex("}")
    whole = TEXT.rindex("}", 0, entry) + 1  # a module that ends after another computation has that one as its entry
    for length in {*range(end)} - {*range(whole, entry + 1)}:
        fail(TEXT[:length])
    assert parse(TEXT[:whole]).entry.name == "add.1"
    parse(TEXT[: end + 1])


def test_mutated_texts_raise_only_the_family():
    """Characters changed, dropped, doubled, moved: valid, or one error of the family; never another exception."""
    rng = random.Random(0)
    outcomes = set()
    for _ in range(600):
        text = TEXT
        for _ in range(rng.choice([1, 1, 2, 4])):
            at, kind = rng.randrange(len(text)), rng.randrange(4)
            if kind == 0:
                text = text[:at] + rng.choice("(){}[],=%\"'<>:;/*0123456789abx-._ \n\\") + text[at + 1 :]
            elif kind == 1:
                text = text[:at] + text[at + rng.randrange(1, 9) :]
            elif kind == 2:
                other = rng.randrange(len(text))
                text = text[:at] + text[other : other + rng.randrange(1, 20)] + text[at:]
            else:
                text = text[:at] + rng.choice(["99999999999999999999", "-1", "0", "nan", "{" * 50]) + text[at:]
        try:
            verify(parse(text))
            outcomes.add("valid")
        except Error as error:
            outcomes.add(type(error).__name__)
    assert {"valid", "ParseError", "InvalidProgramError"} <= outcomes
