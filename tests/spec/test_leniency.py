"""What is not known is an error that names it and the newest XLA known; leniency passes over what says nothing."""

import warnings

import numpy as np
import pytest
from refxla_spec.equality import difference
from refxla_spec.errors import ParseError, UnsupportedError
from refxla_spec.releases import NEWEST_IN_WORDS
from refxla_spec.text import parse

import refxla
from refxla.ir.hlo_schema import HloModuleProto
from refxla.ir.proto import from_proto, to_proto

TEXT = """HloModule m
ENTRY e {
  x = f32[2] parameter(0)
  ROOT y = f32[2] negate(x)
}
"""


def with_attribute(text):
    return TEXT.replace("negate(x)", f"negate(x), {text}")


def varint(number):
    out = b""
    while number > 127:
        out, number = out + bytes([number & 127 | 128]), number >> 7
    return out + bytes([number])


def field(number, value):
    """A field of a proto: a number, or bytes."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def spliced(where, extra):
    """The program as a proto with bytes after one of its messages."""
    proto = HloModuleProto.FromString(to_proto(parse(TEXT)))
    message = where(proto)
    message.MergeFromString(extra)
    return proto.SerializeToString()


PLACES = {  # of a message: where it is, and who is named
    "instruction": (lambda m: m.computations[0].instructions[1], "y: the field of number 999 of HloInstructionProto"),
    "shape": (lambda m: m.computations[0].instructions[1].shape, "y: the field of number 999 of ShapeProto"),
    "computation": (lambda m: m.computations[0], "computation e: the field of number 999 of HloComputationProto"),
    "module": (lambda m: m, "module m: the field of number 999 of HloModuleProto"),
    "program shape": (lambda m: m.host_program_shape, "module m: the field of number 999 of ProgramShapeProto"),
}


@pytest.mark.parametrize("value", ["3", "true", "{1}", '"a"', "word"])
def test_an_unknown_attribute_is_an_error(value):
    text = with_attribute(f"frobnicate={value}")
    for lenient in (False, True):
        with pytest.raises(ParseError, match="line 4, column 30: y: negate has no attribute 'frobnicate'") as raised:
            parse(text, lenient)
        assert NEWEST_IN_WORDS in str(raised.value)


@pytest.mark.parametrize("value", ["0", "false", "{}", '""'])
def test_leniency_passes_over_a_default(value):
    text = with_attribute(f'frobnicate={value}, metadata={{op_name="n"}}')
    with pytest.raises(ParseError, match="--lenient"):
        parse(text)
    with pytest.warns(UserWarning, match=f"'frobnicate'.*{NEWEST_IN_WORDS}"):
        module = parse(text, lenient=True)
    assert module.entry.root.metadata.op_name == "n"
    module.entry.root.metadata = None
    assert difference(module, parse(TEXT)) is None
    with pytest.warns(UserWarning, match="frobnicate"):
        assert refxla.compile(text, device="reference", lenient=True)(np.array([1, 2], np.float32))[1] == -2
    with pytest.raises(ParseError, match="frobnicate"):
        refxla.compile(text, device="reference")


@pytest.mark.parametrize("head", ["frobnicate=false", "frobnicate=true"])
def test_attributes_of_headers_and_computations(head):
    for text in (TEXT.replace("HloModule m", f"HloModule m, {head}"), TEXT.replace("\n}", f"\n}}, {head}")):
        with pytest.raises(ParseError, match=f"'frobnicate'.*{NEWEST_IN_WORDS}"):
            parse(text)
        if head.endswith("false"):
            with pytest.warns(UserWarning, match="frobnicate"):
                assert difference(parse(text, lenient=True), parse(TEXT)) is None
        else:
            with pytest.raises(ParseError, match="frobnicate"):
                parse(text, lenient=True)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("value", [7, b"abc"])
def test_an_unknown_field_is_an_error(place, value):
    where, words = PLACES[place]
    data = spliced(where, field(999, value))
    for lenient in (False, True):
        with pytest.raises(UnsupportedError, match=words) as raised:
            from_proto(data, lenient)
        assert NEWEST_IN_WORDS in str(raised.value)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("value", [0, b""])
def test_leniency_passes_over_a_field_that_says_nothing(place, value):
    where, words = PLACES[place]
    data = spliced(where, field(999, value))
    with pytest.raises(UnsupportedError, match="lenient=True"):
        from_proto(data)
    with pytest.warns(UserWarning, match=words):
        module = from_proto(data, lenient=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert difference(module, from_proto(to_proto(parse(TEXT)))) is None


def test_what_is_known_and_not_implemented_is_named():
    text = "x = f32[4,4] parameter(0)\nROOT y = f32[4,4] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    with pytest.raises(UnsupportedError, match="y: sparsity_config of dot: .*not implemented"):
        parse(text + ", sparsity_config={lhs={dimension=1}}", lenient=True)
    proto = HloModuleProto.FromString(to_proto(parse(text)))
    proto.computations[0].instructions[1].sparsity_config = b"\x08\x01"
    with pytest.raises(UnsupportedError, match="y: .*sparsity_config of dot"):
        from_proto(proto.SerializeToString(), lenient=True)


def test_leniency_ends_where_it_was_asked_for():
    text = with_attribute("frobnicate=0")
    with pytest.warns(UserWarning):
        refxla.parse(text, lenient=True)
    with pytest.raises(ParseError):
        refxla.parse(text)
