"""The grammar of HLO text: everything that XLA writes, in all its styles, and back."""

import numpy as np
import pytest
from refxla_spec.equality import difference
from refxla_spec.errors import ParseError
from refxla_spec.module import (
    Alias,
    ConvolutionDimensions,
    Module,
    PaddingDimension,
    Position,
    SliceDimension,
    WindowDimension,
)
from refxla_spec.text import parse, parse_shape
from refxla_spec.types import TOKEN, Layout, Shape

REDUCER = """
add.1 {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
"""


def round_trip(text: str) -> Module:
    """The module of a text, after checking that its own text parses to the same."""
    module = parse(text)
    again = parse(str(module))
    assert difference(module, again) is None
    assert str(again) == str(module)
    return module


def entry(*lines: str, before: str = "") -> dict:
    """The instructions, by name, of a module with these lines as its entry."""
    body = "\n".join(f"  {line}" for line in lines)
    module = round_trip(f"HloModule m\n{before}\nENTRY e {{\n{body}\n}}\n")
    return {i.name: i for i in module.entry.instructions}


def test_the_styles_of_xla_mean_the_same():
    plain = "HloModule m\nENTRY e {\n x = f32[2]{0} parameter(0)\n ROOT y = f32[2]{0} add(x, x)\n}"
    percent = plain.replace("x", "%x").replace("ENTRY e", "ENTRY %e (x: f32[2]) -> f32[2]").replace("y =", "%y =")
    shapes = plain.replace("add(x, x)", "add(f32[2]{0} x, /*index=1*/f32[2] %x)")
    comments = plain.replace("add(x", "add( // the first\n x /* and the second */").replace("ROOT", "\n\n//\nROOT")
    one_line = plain.replace("\n", " ")
    tight = percent.replace("f32[2] {", "f32[2]{")
    for text in (percent, shapes, comments, one_line, tight):
        assert difference(parse(text), parse(plain)) is None, text


def test_printed_style():
    text = """HloModule m, entry_computation_layout={(f32[2]{0})->f32[2]{0}}

ENTRY %e (x: f32[2]) -> f32[2] {
  %x = f32[2]{0} parameter(0)
  ROOT %y = f32[2]{0} negate(%x), metadata={op_name="n" source_line=3}
}
"""
    assert str(parse(text)) == text


def test_a_computation_alone_and_instructions_alone():
    alone = parse("f {\n x = s32[] parameter(0)\n ROOT y = s32[] negate(x)\n}")
    assert (alone.name, alone.entry.name, alone.entry.root.name) == ("f", "f", "y")
    lines = parse("x = s32[] parameter(0)\ny = s32[] negate(x)")
    assert lines.entry.root.name == "y" and [i.opcode for i in lines.entry.instructions] == ["parameter", "negate"]


def test_computations_stand_before_their_callers_wherever_the_text_has_them():
    module = round_trip(
        "HloModule m\nENTRY e {\n x = f32[4] parameter(0)\n z = f32[] constant(0)\n"
        " ROOT r = f32[] reduce(x, z), dimensions={0}, to_apply=add.1\n}" + REDUCER
    )
    assert [c.name for c in module.computations] == ["add.1", "e"] and module.entry.name == "e"
    assert module.entry.root.to_apply is module.computations[0]
    assert module.entry.root.called == [module.computations[0]]


def test_computations_written_where_they_are_called():
    module = round_trip(
        "HloModule m\nENTRY e {\n x = f32[4] parameter(0)\n z = f32[] constant(0)\n"
        " ROOT r = f32[] reduce(x, z), dimensions={0}, to_apply=\n {\n"
        " a = f32[] parameter(0)\n b = f32[] parameter(1)\n"
        " ROOT c = f32[] add(f32[] a, f32[] b)\n }\n}"
    )
    assert module.entry.root.to_apply.root.opcode == "add"


def test_header():
    module = round_trip(
        "HloModule jit_f.1, is_scheduled=true, input_output_alias={ {0}: (1, {}, must-alias), {1, 2}: (0, {3}) }, "
        "entry_computation_layout={(f32[2,3]{0,1:T(8,128)(2,1)S(1)}, ())->(f32[], s32[2]{0})}, num_partitions=2, "
        'buffer_donor={ (1, {}) }, frontend_attributes={a="b",c={"d": 1}}, '
        "allow_spmd_sharding_propagation_to_output={true}"
        "\n\nENTRY e {\n ROOT x = f32[] parameter(0)\n}"
    )
    assert module.name == "jit_f.1"
    assert module.aliases == (Alias((0,), 1, (), "must-alias"), Alias((1, 2), 0, (3,), "may-alias"))
    assert module.attributes["is_scheduled"] == "true" and module.attributes["num_partitions"] == "2"
    (first, second), result = module.entry_layout
    assert first.layout == Layout((0, 1), "T(8,128)(2,1)S(1)") and second == Shape.tuple_of()
    assert [str(e) for e in result.elements] == ["f32[]", "s32[2]{0}"]


def test_flags_of_the_header_are_true_or_false():
    with pytest.raises(ParseError, match="line 1, column 14: is_scheduled is true or false, not maybe"):
        parse("HloModule m, is_scheduled=maybe\nENTRY e { ROOT x = f32[] parameter(0) }")


def test_stack_frames():
    module = round_trip(
        'HloModule m\n\nFileNames\n1 "/a.py"\n2 "/b.py"\n\nFunctionNames\n1 "<module>"\n\nFileLocations\n'
        "1 {file_name_id=2 function_name_id=1 line=4 end_line=4 column=2 end_column=25}\n\nStackFrames\n"
        "1 {file_location_id=1 parent_frame_id=1}\n2 {file_location_id=1 parent_frame_id=2}\n\n"
        "ENTRY e {\n ROOT x = f32[] parameter(0), "
        'metadata={op_name="x" stack_frame_id=1}\n}'
    )
    assert module.stack_frames.source_of(1) == ("/b.py", 4)
    assert module.stack_frames.source_of(0) is None and module.stack_frames.source_of(3) is None
    assert module.stack_frames.frames == ((1, 0), (1, 1))  # in text, the number of the parent is one more
    assert module.entry.root.metadata.other == (("stack_frame_id", "1"),)


def test_words_that_may_be_in_capital_letters():
    instructions = entry(
        "x = f32[2,2] parameter(0)",
        "ROOT d = f32[2,2] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
        "operand_precision={HIGH,Default}, algorithm=DOT_F32_F32_F32",
    )
    d = instructions["d"]
    assert d.operand_precision == ("high", "default") and d.algorithm == "dot_f32_f32_f32"


def test_the_padding_of_a_scalar_is_nothing():
    module = round_trip("x = f32[] parameter(0)\ny = f32[] pad(x, x), padding=\nROOT z = f32[] negate(y)")
    assert module.entry.instructions[1].padding == ()


@pytest.mark.parametrize(
    "text",
    [
        "f32[]",
        "pred[2,3]",
        "bf16[2,3]{1,0}",
        "f32[2,<=3]{0,1:T(8,128)}",
        "(f32[2], (s32[], ()), token[])",
        "()",
        "u4[0]",
    ],
)
def test_shapes(text):
    assert str(parse_shape(text)) == text


def test_shape_details():
    shape = parse_shape("( f32[ 2, <=3 ]{1,0}, /*index=1*/ token[] )")
    assert shape.elements[0].dimensions == (2, 3) and shape.elements[0].dynamic == (False, True)
    assert shape.elements[1].element_type is TOKEN


def test_window_and_dimension_labels():
    i = entry(
        "x = f32[1,8,8,3] parameter(0)",
        "w = f32[3,3,3,4] parameter(1)",
        "ROOT y = f32[1,4,6,4] convolution(x, w), window={size=3x3 stride=2x1 pad=-1_2x0_0 lhs_dilate=1x2 "
        "rhs_dilate=2x1 rhs_reversal=0x1}, dim_labels=b01f_01io->b01f, operand_precision={highest,default}",
    )["y"]
    assert i.window == (WindowDimension(3, 2, -1, 2, 1, 2, False), WindowDimension(3, 1, 0, 0, 2, 1, True))
    assert i.dim_labels == ConvolutionDimensions(0, 3, (1, 2), 2, 3, (0, 1), 0, 3, (1, 2))
    assert i.operand_precision == ("highest", "default")


def test_slices_padding_and_numbers():
    i = entry(
        "x = f32[9,9] parameter(0)",
        "z = f32[] constant(0)",
        "s = f32[3,2] slice(x), slice={[0:3], [1:7:3]}",
        "p = f32[5,9] pad(x, z), padding=-1_-3x0_0_0",
        "q = f32[12,26] pad(x, z), padding=1_2x0_0_2",
        "ROOT t = (f32[3,2], f32[5,9], f32[12,26]) tuple(s, p, /*index=2*/q)",
    )
    assert i["s"].slice == (SliceDimension(0, 3), SliceDimension(1, 7, 3))
    assert i["p"].padding == (PaddingDimension(-1, -3), PaddingDimension(0, 0))
    assert i["q"].padding == (PaddingDimension(1, 2, 0), PaddingDimension(0, 0, 2))


def test_fields_that_every_instruction_may_have():
    i = entry(
        "x = f32[2] parameter(0), sharding={devices=[2]<=[2]}",
        "a = f32[2] negate(x)",
        'y = f32[2] add(x, a), frontend_attributes={n="v \\"w\\"",j={"k": [1, "}"]}}, control-predecessors={x, %a}, '
        'metadata={op_type="Add" op_name="jit(f)/\\303\\244" source_file="f.py" source_line=7 source_end_line=8 '
        'deduplicated_name="d" profile_type={1}}, backend_config={"a": ["}", {"b": 1}]}',
        'ROOT z = f32[2] negate(y), sharding={{replicated}, {maximal device=1}}, backend_config="raw \\n text"',
    )
    y = i["y"]
    assert i["x"].sharding == "{devices=[2]<=[2]}" and i["z"].sharding == "{{replicated}, {maximal device=1}}"
    assert y.frontend_attributes == (("n", 'v "w"'), ("j", '{"k": [1, "}"]}'))
    assert y.control_predecessors == [i["x"], i["a"]]
    assert (y.metadata.op_type, y.metadata.op_name, y.metadata.source_line) == ("Add", "jit(f)/ä", 7)
    assert y.metadata.other == (("source_end_line", "8"), ("deduplicated_name", '"d"'), ("profile_type", "{1}"))
    assert y.backend_config == '{"a": ["}", {"b": 1}]}' and i["z"].backend_config == '"raw \\n text"'


def test_attributes_of_all_kinds():
    i = entry(
        "x = f32[4,4] parameter(0)",
        "i = s32[] parameter(1)",
        "w = (f32[4,4], s32[]) tuple(x, i)",
        "c = pred[4,4] compare(x, x), direction=LT, type=TOTALORDER",
        "g = f32[4,4] get-tuple-element(w), index=0",
        'cc = f32[4,4] custom-call(x, i), custom_call_target="a.b\\"c", custom_call_has_side_effect=true, '
        "operand_layout_constraints={f32[4,4]{1,0}, s32[]}, output_to_operand_aliasing={{}: (0, {})}, "
        "api_version=API_VERSION_TYPED_FFI, called_computations={add.1, %add.1}",
        "rp = f32[4,4] reduce-precision(x), exponent_bits=5, mantissa_bits=10",
        "n = f32[4] batch-norm-x(x)".replace("batch-norm-x", "all-reduce")
        + ", replica_groups=[2,2]<=[2,2]T(1,0), to_apply=add.1, channel_id=3, use_global_device_ids=true",
        "m = f32[4] all-reduce(x), replica_groups=mesh['x'=2,'y'=2] {'x'}, to_apply=add.1",
        "ROOT cond = f32[4,4] conditional(i, x, x), branch_computations={neg, neg}",
        before=REDUCER + "neg {\n p = f32[4,4] parameter(0)\n ROOT q = f32[4,4] negate(p)\n}\n",
    )
    assert (i["c"].direction, i["c"].type, i["g"].index) == ("LT", "TOTALORDER", 0)
    call = i["cc"].attributes
    assert call["custom_call_target"] == 'a.b"c' and call["custom_call_has_side_effect"] is True
    assert [str(s) for s in call["operand_layout_constraints"]] == ["f32[4,4]{1,0}", "s32[]"]
    assert call["output_to_operand_aliasing"] == "{{}: (0, {})}" and len(call["called_computations"]) == 2
    assert i["n"].attributes["replica_groups"].groups == ((0, 2), (1, 3))
    assert str(i["m"].attributes["replica_groups"]) == "mesh['x'=2,'y'=2] {'x'}"
    assert [c.name for c in i["cond"].branch_computations] == ["neg", "neg"]


def test_execution_threads_fusions_and_positions():
    module = round_trip(
        "HloModule m\n\nf {\n p = f32[] parameter(0), parameter_replication={true}\n ROOT q = f32[] negate(p)\n}, "
        'execution_thread="host"\n\nENTRY e {\n  x = f32[] parameter(0)\n'
        "  ROOT y = f32[] fusion(x), kind=kLoop, calls=f\n}"
    )
    assert module.computations[0].execution_thread == "host"
    assert module.entry.root.kind == "kLoop" and module.entry.root.calls is module.computations[0]
    assert module.entry.root.position == Position(10, 8)
    assert module.entry.position == Position(8, 1)


def test_a_deep_program_needs_no_stack_and_little_time():
    lines = ["x0 = f32[2] parameter(0)"] + [f"x{n} = f32[2] negate(x{n - 1})" for n in range(1, 20001)]
    module = parse("ENTRY e {\n" + "\n".join(lines) + "\n}")
    assert len(module.entry.instructions) == 20001 and len(parse(str(module)).entry.instructions) == 20001


def test_a_clone_prints_the_same():
    text = "HloModule m, num_partitions=1\n" + REDUCER
    text += "ENTRY e {\n x = f32[4] parameter(0)\n z = f32[] constant(nan(0x12))\n"
    text += " ROOT r = f32[] reduce(x, z), dimensions={0}, to_apply=add.1\n}"
    assert str(parse(text).clone()) == str(parse(text))


def test_constants_can_be_elided_for_reading():
    from refxla_spec.text import print_module

    module = parse("ENTRY e {\n ROOT c = f32[3] constant({1, 2, 3})\n}")
    assert "constant({...})" in print_module(module, elide=2) and "{1, 2, 3}" in print_module(module, elide=3)
    assert np.array_equal(parse(str(module)).entry.root.literal, [1, 2, 3])
