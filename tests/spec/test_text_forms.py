"""What a text may leave to be worked out: shapes, ENTRY, names of operands, elided values; as XLA reads it."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest
from refxla_spec import grammar
from refxla_spec.devices import run_devices
from refxla_spec.errors import InputError, InvalidProgramError, ParseError, UnsupportedError
from refxla_spec.interpreter import run
from refxla_spec.literals import filled
from refxla_spec.module import Module
from refxla_spec.operation import operations
from refxla_spec.scope import UNSTATED
from refxla_spec.text import parse, parse_literal, parse_shape, print_module
from refxla_spec.verify import verify

ADD = "add { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT r = f32[] add(x, y) }\n"
# Whose examples state more than follows from their operands: sizes, an element type, contexts, a size that was dynamic.
STATES_MORE = ("broadcast", "collective-permute-start", "dot", "scaled-dot", "set-dimension-size")


def same(text: str, plain: str) -> None:
    """Both are the same program; what is printed reads as the same again."""
    module = parse(text)
    verify(module)
    printed = print_module(module)
    assert printed == print_module(parse(plain))
    assert print_module(parse(printed)) == printed


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("x = f32[2] parameter(0)\nROOT y = negate(x)", "x = f32[2] parameter(0)\nROOT y = f32[2] negate(x)"),
        (
            "x = f32[2] parameter(0)\nt = tuple(x, x)\nROOT y = get-tuple-element(t), index=1",
            "x = f32[2] parameter(0)\nt = (f32[2], f32[2]) tuple(x, x)\nROOT y = f32[2] get-tuple-element(t), index=1",
        ),
        (
            f"HloModule m\n{ADD}ENTRY e {{ x = f32[2,3] parameter(0)\n z = f32[] constant(0)\n"
            "ROOT s = reduce(x, z), dimensions={1}, to_apply=add }",
            f"HloModule m\n{ADD}ENTRY e {{ x = f32[2,3] parameter(0)\n z = f32[] constant(0)\n"
            "ROOT s = f32[2] reduce(x, z), dimensions={1}, to_apply=add }",
        ),
        (
            f"HloModule m\n{ADD}e {{ x = f32[] parameter(0)\n ROOT s = call(x, x), to_apply=add }}",
            f"HloModule m\n{ADD}ENTRY e {{ x = f32[] parameter(0)\n ROOT s = f32[] call(x, x), to_apply=add }}",
        ),
        (
            "x = f32[2] parameter(0)\nROOT y = f32[2] add(x, f32[2] negate(x))",
            "x = f32[2] parameter(0)\nnegate.anon = f32[2] negate(x)\nROOT y = f32[2] add(x, negate.anon)",
        ),
        (
            "add.anon = f32[2] parameter(0)\nROOT y = f32[2] multiply(add(add.anon, add.anon), abs(add.anon))",
            "add.anon = f32[2] parameter(0)\nadd.anon.1 = f32[2] add(add.anon, add.anon)\n"
            "abs.anon = f32[2] abs(add.anon)\nROOT y = f32[2] multiply(add.anon.1, abs.anon)",
        ),
        (
            "x = f32[2,2]{/*minor to major*/1,0} parameter(0)\nc = f32[2,2] constant({{1, 2,}, {3, 4},})\n"
            "ROOT y = f32[2,2] add(x, c)",
            "x = f32[2,2]{1,0} parameter(0)\nc = f32[2,2] constant({{1, 2}, {3, 4}})\nROOT y = f32[2,2] add(x, c)",
        ),
        ("ROOT y = f32[2] negate(f32[2] parameter(0))", "parameter.anon = f32[2] parameter(0)\nROOT y = f32[2] "
         "negate(parameter.anon)"),
        (
            "p = (f32[2], (s32[], f32[2])) parameter(0)\nROOT y = f32[2] add(p#0, f32[2] %p#1#1)",
            "p = (f32[2], (s32[], f32[2])) parameter(0)\np_0 = f32[2] get-tuple-element(p), index=0\n"
            "p_1 = (s32[], f32[2]) get-tuple-element(p), index=1\np_1_1 = f32[2] get-tuple-element(p_1), index=1\n"
            "ROOT y = f32[2] add(p_0, p_1_1)",
        ),
        (
            "p = (f32[2], s32[]) parameter(0)\nROOT y = f32[2] add(p#0, p#0)",
            "p = (f32[2], s32[]) parameter(0)\np_0 = f32[2] get-tuple-element(p), index=0\n"
            "ROOT y = f32[2] add(p_0, p_0)",
        ),
        (
            "ROOT y = f32[2] add(f32[2] a, f32[2] b)",
            "a = f32[2] parameter(0)\nb = f32[2] parameter(1)\nROOT y = f32[2] add(a, b)",
        ),
        (
            "ROOT y = f32[2] negate(f32[2])",
            "parameter.anon = f32[2] parameter(0)\nROOT y = f32[2] negate(parameter.anon)",
        ),
        (
            "x = f32[] parameter(0)\nROOT y = broadcast(x)",
            "x = f32[] parameter(0)\nROOT y = f32[] broadcast(x), dimensions={}",
        ),
        (
            "x = f32[2] parameter(0)\nROOT y = broadcast(x), dimensions={1}",
            "x = f32[2] parameter(0)\nROOT y = f32[1,2] broadcast(x), dimensions={1}",
        ),
        ("HloModule m:\nENTRY e { ROOT x = f32[] constant(1) }", "HloModule m\nENTRY e { ROOT x = f32[] constant(1) }"),
        (
            "HloModule m\nENTRY /* the */ e { ROOT /* only */ x /* one */ = f32[/* rows */ 2] constant({1, 2}) }",
            "HloModule m\nENTRY e { ROOT x = f32[2] constant({1, 2}) }",
        ),
        (
            "ROOT x = f32 [2, 3] {0, /* then */ 1} parameter(0)",
            "ROOT x = f32[2,3]{0,1} parameter(0)",
        ),
        ("HloModule m\nENTRY e (x f32[2]) -> f32[2] { ROOT x = f32[2] parameter(0) }", "HloModule m\nENTRY e (x: "
         "f32[2]) -> f32[2] { ROOT x = f32[2] parameter(0) }"),
        ("ROOT x = f32[3] constant(0)", "ROOT x = f32[3] constant({0, 0, 0})"),
        ("ROOT x = pred[2,1] constant(false)", "ROOT x = pred[2,1] constant({{false}, {false}})"),
        ("ROOT x = s32[1,1] constant(7)", "ROOT x = s32[1,1] constant({{7}})"),
        (
            "ROOT x = f32[2] parameter(0), sharding={{maximal device=1},\n  {replicated}}",
            "ROOT x = f32[2] parameter(0), sharding={{maximal device=1},\n  {replicated}}",
        ),
    ],
)  # fmt: skip
def test_a_text_that_leaves_something_out_is_the_program_that_says_it(text, plain):
    same(text, plain)


def test_without_entry_the_last_computation_is_it():
    module = parse(f"HloModule m\ne {{ ROOT x = f32[] parameter(0) }}\n{ADD}")
    assert module.entry.name == "add"
    assert parse(f"{ADD}e {{ ROOT x = f32[] parameter(0) }}").entry.name == "e"


def test_every_operation_infers_what_its_examples_state_or_asks_for_it():
    for opcode, operation in operations().items():
        for example in operation.examples:
            for i in parse(example.hlo).instructions():
                if i.opcode in grammar.STATED or i.opcode.startswith("async-") or i.opcode in STATES_MORE:
                    continue
                stated, i.shape = i.shape, UNSTATED
                inferred = operations()[i.opcode].infer(i, *(o.shape for o in i.operands))
                i.shape = stated
                assert inferred.without_layout() == stated.without_layout(), (opcode, i)


def without_shape(module: Module, opcode: str) -> str:
    """The module's text, in which the first instruction of that opcode does not state its shape."""
    i = next(i for i in module.instructions() if i.opcode == opcode)
    text = re.sub(r", entry_computation_layout=.*", "", print_module(module))
    return text.replace(f"%{i.name} = {i.shape} {opcode}(", f"%{i.name} = {opcode}(")


def test_shapes_that_xla_infers_are_inferred_here():
    oracle = pytest.importorskip("refxla_conformance.targets.xla_cpu")
    inferred = set()
    for opcode, operation in operations().items():
        for example in operation.examples[:2]:
            module = parse(example.hlo)
            if any(i.opcode == opcode for i in module.instructions()):
                text = without_shape(module, opcode)
                try:
                    xla = oracle.xla_prints(text)
                except oracle.OracleError:
                    continue  # it does not infer this one
                inferred.add(opcode)
                ours, theirs = (parse(t).entry.root.shape.without_layout() for t in (text, xla))
                assert ours == theirs, f"{text}\n{xla}"
    assert len(inferred) > 85 and not inferred & grammar.STATED


@pytest.mark.parametrize("opcode", sorted(grammar.STATED))
def test_what_does_not_follow_from_operands_has_to_be_written(opcode):
    with pytest.raises(ParseError, match="does not follow from the operands") as error:
        parse(f"x = f32[2] parameter(0)\nROOT y = {opcode}(x)")
    assert (error.value.line, error.value.column) == (2, 10)


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        (
            "x = f32[2] parameter(0)\ny = s32[2] parameter(1)\nROOT z = add(x, y)",
            InvalidProgramError,
            "z does not follow",
        ),
        (
            f"HloModule m\nENTRY e {{ x = f32[] parameter(0)\n ROOT s = call(x, x), to_apply=add }}\n{ADD}",
            ParseError,
            "follows from add, which is not written before",
        ),
        ("x = f32[2] parameter(0)\nROOT y = f32[2] add(x, f32[2] z)", ParseError, "called 'z'"),
        ("ROOT y = f32[2] add(f32[2] a, f32[2] b)\nz = f32[2] negate(y)", ParseError, "called 'a'"),
        ("HloModule m\nENTRY e { ROOT y = f32[2] negate(f32[2] a) }", ParseError, "called 'a'"),
        ("p = (f32[2], s32[]) parameter(0)\nROOT y = f32[2] negate(p#2)", ParseError, "has no element 2"),
        ("p = f32[2] parameter(0)\nROOT y = f32[2] negate(p#0)", ParseError, "has no element 0"),
        ("p = (f32[2], s32[]) parameter(0)\nROOT y = f32[2] negate(s32[2] p#0)", InvalidProgramError, "p is f32.2."),
        ("x = f32[2] parameter(0)\nROOT y = broadcast(x), dimensions={-1}", InvalidProgramError, "y does not follow"),
        ("ROOT x = f32[3] constant(1)", InvalidProgramError, "XLA reads one number as the first element"),
        ("ROOT x = f32[2] constant(-0.0)", InvalidProgramError, "write all of them"),
        ("x = b(f32[2]) parameter(0)", UnsupportedError, "buffers are not specified here"),
        ("ROOT y = " + "f32[] negate(" * 5000, ParseError, "levels deep"),
        ("ROOT y = " + "negate(" * 5000, ParseError, "levels deep"),
    ],
)
def test_what_cannot_be_worked_out_is_one_message_with_a_caret(text, kind, message):
    with pytest.raises(kind) as error:
        parse(text)
    assert re.search(message, str(error.value)), str(error.value)
    assert str(error.value).startswith("line ") and "^" in str(error.value)


def test_blanks_and_comments_are_read_in_one_way_only():
    blanks = " " * 5000 + "// a // b /* c\n" * 50 + "/* * / ** */" * 50
    same(f"ROOT{blanks} x {blanks}= f32[] constant(1)", "ROOT x = f32[] constant(1)")
    with pytest.raises(ParseError):
        parse(f"ROOT{blanks} x {blanks}; f32[] constant(1)")


ELIDED = "HloModule m\nENTRY e {\n a = f32[2,3]{1,0} constant({...})\n ROOT b = s8[4] constant({1, ...})\n}"


def test_elided_constants_are_refused_or_filled():
    with pytest.raises(ParseError, match="elided") as error:
        parse(ELIDED)
    assert error.value.line == 3 and "--elided" in str(error.value)
    with pytest.warns(UserWarning, match=r"2 constants, left out of the text as {...} \(line 3, 4\)"):
        zeros = parse(ELIDED, elided="zeros")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("default")  # which says the same of one place once
        first, second = parse(ELIDED, elided="random"), parse(ELIDED, elided="random")
    assert ["random numbers are taken" in str(w.message) for w in said] == [True, True]
    assert not any(np.any(i.literal) for i in zeros.entry.instructions)
    assert print_module(first) == print_module(second) != print_module(zeros)
    assert run(first, []).dtype == np.int8
    with pytest.raises(InputError, match="'zeros' or 'random'"):
        parse(ELIDED, elided="ones")
    assert parse_literal("f32[2] {1, 2}").tolist() == [1, 2]


@pytest.mark.parametrize(
    "name", ["pred", "s1", "s2", "u1", "u4", "s32", "u64", "f4e2m1fn", "bf16", "f64", "c64", "c128"]
)
def test_every_type_of_element_can_be_filled(name):
    shape = parse_shape(f"{name}[3,4]")
    for how in ("zeros", "random"):
        value = filled(shape, how)
        assert value.shape == (3, 4) and value.dtype == shape.element_type.dtype


def test_a_question_mark_in_dim_labels_is_a_dimension_without_a_name():
    text = (
        "x = f32[2,3,4,5]{3,2,1,0} parameter(0)\nROOT y = f32[2,3,4,5]{3,2,1,0} custom-call(x), window={size=1}, "
        'dim_labels=b?0f_0?io->b?0f, custom_call_target="f"'
    )
    module = parse(text)
    assert module.entry.root.dim_labels.input_spatial == (2,)
    assert "dim_labels=b?0f_0?io->b?0f" in print_module(module)


def test_the_literal_of_a_custom_call_is_printed_and_read_again():
    text = 'ROOT c = f32[2] custom-call(), literal=( s32[2]{0} {1, 2}, pred[] true ), custom_call_target="f"'
    module = parse(text)
    assert [np.asarray(v).tolist() for v in module.entry.root.literal] == [[1, 2], True]
    assert "literal=( s32[2]{0} {1, 2}, pred[] true )" in print_module(module)
    assert print_module(parse(print_module(module))) == print_module(module)


def test_map_needs_no_dimensions():
    verify(parse(f"HloModule m\n{ADD}ENTRY e {{ x = f32[2,3] parameter(0)\n ROOT y = map(x, x), to_apply=add }}"))


def test_a_scan_of_a_tuple_of_one_array_may_be_stated_as_the_array():
    body = "body { x = f32[3] parameter(0)\n y = f32[3] negate(x)\n ROOT t = (f32[3]) tuple(y) }\n"
    scan = "scan(x), dimensions={0}, num_carries=0, to_apply=body }"
    plain = parse(f"HloModule m\n{body}ENTRY e {{ x = f32[2,3] parameter(0)\n ROOT y = f32[2,3] {scan}")
    tuples = parse(f"HloModule m\n{body}ENTRY e {{ x = f32[2,3] parameter(0)\n ROOT y = (f32[2,3]) {scan}")
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    for module in (plain, tuples):
        verify(module)
    assert np.array_equal(run(plain, [x]), -x) and np.array_equal(run(tuples, [x])[0], -x)


def test_a_collective_with_numbers_of_devices_may_have_channel_0():
    header = "HloModule m, replica_count=2\n"
    gather = "ROOT y = f32[4] all-gather(x), dimensions={0}, replica_groups={{1,0}}, use_global_device_ids=true"
    verify(parse(f"{header}ENTRY e {{ x = f32[2] parameter(0)\n {gather}, channel_id=0 }}"))
    with pytest.raises(InvalidProgramError, match="all_gather_c3"):
        verify(parse(f"{header}ENTRY e {{ x = f32[2] parameter(0)\n {gather} }}"))


@pytest.mark.parametrize(
    ("reducer", "operand", "holds"), [("f32", "bf16", True), ("s32", "s8", True), ("bf16", "f32", False)]
)
def test_a_reducer_may_have_a_type_that_holds_the_operands(reducer, operand, holds):
    text = (
        f"HloModule m, replica_count=2\nlast {{ a = {reducer}[] parameter(0)\n b = {reducer}[] parameter(1)\n"
        f"ROOT c = {reducer}[] subtract(a, b) }}\nENTRY e {{ x = {operand}[2] parameter(0)\n"
        f"ROOT y = {operand}[2] all-reduce(x), replica_groups={{}}, to_apply=last }}"
    )
    module = parse(text)
    if not holds:
        with pytest.raises(InvalidProgramError, match="all_reduce_c4"):
            verify(module)
        return
    verify(module)
    x = np.array([3, 5]).astype(parse_shape(f"{operand}[2]").element_type.dtype)
    results = run_devices(module, [[x], [x + x]])
    assert [r.astype(float).tolist() for r in results] == [[-3, -5]] * 2


def test_the_start_of_a_call_keeps_what_may_share_memory():
    aliasing = "output_to_operand_aliasing={{}: (0, {})}"
    module = parse(
        "HloModule m\nf { a = f32[2] parameter(0)\n ROOT b = f32[2] negate(a) }\nENTRY e { x = f32[2] parameter(0)\n"
        f" s = ((f32[2]), f32[2], u32[]) call-start(x), to_apply=f, {aliasing}\n ROOT d = f32[2] call-done(s) }}"
    )
    verify(module)
    (start,) = [line for line in print_module(module).split("\n") if aliasing in line]
    assert " async-start(" in start  # a call has no such attribute in XLA's text


@pytest.mark.parametrize(
    ("root", "constraint"),
    [
        ("broadcast(x), dimensions={0}", "broadcast_c4"),
        ("broadcast(x)", "broadcast_c2"),
        ("f32[1,2,1] convolution(a, a), window={size=2}, dim_labels=b?0f_0oi->b0f", "convolution_c1"),
        ("f32[1,2,1] convolution(a, a), window={size=2}, dim_labels=b0f_0o?i->b0f", "convolution_c1"),
        ("f32[1,2,1] convolution(a, a), window={size=2}, dim_labels=b0f_0oi->b?0f", "convolution_c1"),
    ],
)
def test_what_xla_reads_and_refuses_later_is_read_and_refused(root, constraint):
    module = parse(f"x = f32[2] parameter(0)\na = f32[2,2,2] parameter(1)\nROOT y = {root}")
    with pytest.raises(InvalidProgramError) as error:
        verify(module)
    assert error.value.constraint == constraint
