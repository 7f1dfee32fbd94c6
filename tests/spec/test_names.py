"""Names that XLA does not read, and those that are there twice: what is printed for them."""

import pytest
from refxla_spec.equality import difference
from refxla_spec.module import Computation, Instruction, Module
from refxla_spec.names import Names, is_legal, legal, make_unique
from refxla_spec.text import format_instruction, parse, print_module
from refxla_spec.types import ELEMENT_TYPES, S32, Layout, Shape
from refxla_spec.verify import verify

ODD = ["s1", "f32", "pred", "token", "opaque", "3", "3x", "-a", ".a", "ä", "größe", "__x", "__", "__3"]
FINE = ["tuple", "x", "_x", "_", "a.1", "b-2", "a__b", "__xla_x", "true", "nan", "ENTRY", "F32", "f31"]


def named(instruction: str, computation: str = "f", module: str = "m", other: str = "other") -> Module:
    """A module that has these names, where other instructions may have the same ones."""
    p = Instruction(instruction, "parameter", Shape(S32), [], {"number": 0})
    inner = Computation(computation, [p, Instruction(other, "negate", Shape(S32), [p])])
    inner.root = inner.instructions[-1]
    x = Instruction(instruction, "parameter", Shape(S32), [], {"number": 0})
    y = Instruction(other, "call", Shape(S32), [x], {"to_apply": inner}, control_predecessors=[x])
    return Module(module, [inner, entry := Computation("main", [x, y], y)], entry)


@pytest.mark.parametrize("name", ODD)
def test_a_name_that_xla_does_not_read_is_printed_as_another(name):
    assert not is_legal(name)
    assert is_legal(legal(name)) and legal(legal(name)) == legal(name)
    module = named(name, name, name)
    again = parse(str(module))
    verify(again)
    assert difference(module, again) is None and str(again) == str(module)
    assert [i.name for i in again.entry.instructions] == [legal(name), "other"]


@pytest.mark.parametrize("name", FINE)
def test_all_other_names_are_kept(name):
    assert legal(name) == name
    assert not Names(named(name, name, name)).changed
    assert difference(named(name), parse(str(named(name)))) is None


def test_element_types_are_no_names():
    assert [n for n in ELEMENT_TYPES if is_legal(n)] == ["tuple"]
    assert legal("s1") == "s1_" and legal("__b") == "a_b" and legal("3x") == "_3x" and legal("a b") == "a_b"


def test_names_are_printed_once_in_their_scope():
    module = named("x", computation="main", other="x")
    verify(parse(str(module)))
    assert str(module).count("%x.1 =") == 2 and "to_apply=%main," in str(module) and "ENTRY %main.1 (" in str(module)
    taken = named("s1", other="s1_")
    assert [Names(taken)(i) for i in taken.entry.instructions] == ["s1_.1", "s1_"]
    assert format_instruction(taken.entry.root).startswith("%s1_ = s32[] call(%s1_)"), "alone, there is no scope"
    assert difference(taken, parse(str(taken))) is None
    make_unique(taken)
    assert [i.name for i in taken.entry.instructions] == ["s1_.1", "s1_"]


def test_a_scalar_has_no_layout():
    module = parse(
        "HloModule m, entry_computation_layout={(s32[]{})->(s32[]{}, f32[2]{0})}\n"
        "ENTRY e { x = s32[]{} parameter(0)\n c = f32[2]{0} constant({1,2})\n"
        " ROOT t = (s32[]{}, f32[2]{0}) tuple(x, c) }"
    )
    assert "{}" not in str(module) and difference(module, parse(str(module))) is None
    tiled = parse("ENTRY e { ROOT x = s32[]{:T(128)} parameter(0) }")
    assert tiled.entry.root.shape.layout == Layout((), "T(128)")


def test_xla_reads_all_names_that_are_printed():
    oracle = pytest.importorskip("refxla_conformance.targets.xla_cpu")
    for name in [*ODD, *FINE, *ELEMENT_TYPES, "HloModule", "unknown"]:
        for module in (named(name, name, name), named(name, "main", other=name), named(name, other=legal(name))):
            assert oracle.xla_parses(print_module(module)), print_module(module)
    assert oracle.xla_parses(str(parse("ENTRY e { ROOT x = s32[]{} parameter(0) }")))


def test_names_are_those_that_xla_takes():
    oracle = pytest.importorskip("refxla_conformance.targets.xla_cpu")
    for name in [*ODD, *FINE, *ELEMENT_TYPES]:
        text = f"HloModule m\n\nENTRY e {{\n  %{name} = s32[] parameter(0)\n  ROOT %r = s32[] negate(%{name})\n}}\n"
        assert oracle.xla_parses(text) == is_legal(name), name
