"""HloModuleProto: round trips of everything the text has, broken bytes, and the schema's field numbers."""

import random

import numpy as np
import pytest
from refxla_spec.equality import difference
from refxla_spec.errors import Error, InvalidProgramError, ParseError, UnsupportedError
from refxla_spec.text import parse
from refxla_spec.verify import verify

from refxla.frontends import load
from refxla.ir.hlo_schema import CLASSES, MESSAGES, HloModuleProto, HloProto
from refxla.ir.proto import from_proto, to_proto

TEXT = """HloModule m, is_scheduled=true, input_output_alias={ {0}: (0, {}, must-alias) }, \
entry_computation_layout={(f32[4,4]{1,0}, s32[2,1]{1,0}, f32[1,4,4,1]{3,2,1,0}, s32[])->(f32[4,4]{1,0}, f32[])}, \
buffer_donor={ (1, {}) }, frontend_attributes={a="b",c="{\\"d\\": 1}"}

FileNames
1 "/a.py"

FunctionNames
1 "<module>"

FileLocations
1 {file_name_id=1 function_name_id=1 line=4 end_line=4 column=2 end_column=25}

StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=1 parent_frame_id=2}

%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %c = f32[] add(%a, %b)
}

%ge (ga: f32[], gb: f32[]) -> pred[] {
  %ga = f32[] parameter(0)
  %gb = f32[] parameter(1)
  ROOT %gc = pred[] compare(%ga, %gb), direction=GE
}

%body (s: (s32[], f32[4,4])) -> (s32[], f32[4,4]) {
  %s = (s32[], f32[4,4]{1,0}) parameter(0)
  %n = s32[] get-tuple-element(%s), index=0
  %v = f32[4,4]{1,0} get-tuple-element(%s), index=1
  %one = s32[] constant(1)
  %m = s32[] add(%n, %one)
  ROOT %next = (s32[], f32[4,4]{1,0}) tuple(%m, %v)
}

%condition (q: (s32[], f32[4,4])) -> pred[] {
  %q = (s32[], f32[4,4]{1,0}) parameter(0)
  %l = s32[] get-tuple-element(%q), index=0
  %five = s32[] constant(5)
  ROOT %less = pred[] compare(%l, %five), direction=LT
}, execution_thread="host"

%negated (f: f32[4,4]) -> f32[4,4] {
  %f = f32[4,4]{1,0} parameter(0)
  ROOT %g = f32[4,4]{1,0} negate(%f)
}

ENTRY %e (x: f32[4,4], i: s32[2,1], im: f32[1,4,4,1], k: s32[]) -> (f32[4,4], f32[]) {
  %x = f32[4,4]{1,0} parameter(0), parameter_replication={true}, sharding={devices=[2,1]<=[2]}
  %i = s32[2,1]{1,0} parameter(1), sharding={replicated}
  %im = f32[1,4,4,1]{3,2,1,0} parameter(2), sharding={devices=[1,2,1,1,2]0,1,2,3 last_tile_dim_replicate}
  %k = s32[] parameter(3)
  %z = f32[] constant(-0.0)
  %d = f32[4,4]{1,0} dot(%x, %x), lhs_contracting_dims={1}, rhs_contracting_dims={0}, \
operand_precision={highest,high}, algorithm=dot_bf16_bf16_f32_x3
  %outer = f32[4,4,4,4]{3,2,1,0} dot(%x, %x)
  %w = f32[2,2,1,1]{3,2,1,0} constant({{{{1}}, {{2}}}, {{{3}}, {{4}}}})
  %co = f32[1,3,5,1]{3,2,1,0} convolution(%im, %w), \
window={size=2x2 stride=1x2 pad=-1_2x0_3 lhs_dilate=1x2 rhs_dilate=2x1 rhs_reversal=1x0}, dim_labels=b01f_01io->b01f
  %ga1 = f32[2,4]{1,0} gather(%x, %i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, \
index_vector_dim=1, slice_sizes={1,4}, indices_are_sorted=true
  %sc = f32[4,4]{1,0} scatter(%x, %i, %ga1), update_window_dims={1}, inserted_window_dims={0}, \
scatter_dims_to_operand_dims={0}, index_vector_dim=1, unique_indices=true, to_apply=%add
  %sl = f32[2,2]{1,0} slice(%x), slice={[0:2], [0:4:2]}
  %pd = f32[5,3]{1,0} pad(%sl, %z), padding=1_1_1x0_1
  %ds = f32[1,4]{1,0} dynamic-slice(%x, %k, %k), dynamic_slice_sizes={1,4}
  %io = s32[4,4]{1,0} iota(), iota_dimension=1
  %br = f32[4,4]{0,1} broadcast(%z), dimensions={}
  %so = (f32[4,4]{1,0}, s32[4,4]{1,0}) sort(%x, %io), dimensions={1}, is_stable=true, to_apply=%by
  %ss = f32[4,4]{1,0} select-and-scatter(%x, %sl, %z), window={size=2x2 stride=2x2}, select=%ge, scatter=%add
  %rw = f32[2,2]{1,0} reduce-window(%x, %z), window={size=2x2 stride=2x2}, to_apply=%add
  %in = (s32[], f32[4,4]{1,0}) tuple(%k, %d)
  %wh = (s32[], f32[4,4]{1,0}) while(%in), condition=%condition, body=%body, \
backend_config={"known_trip_count":{"n":"5"}}
  %fu = f32[4,4]{1,0} fusion(%x), kind=kLoop, calls=%negated, backend_config="raw \\"text\\""
  %p = pred[] compare(%z, %z), direction=EQ, type=TOTALORDER
  %c1 = f32[4,4]{1,0} conditional(%p, %x, %x), true_computation=%negated, false_computation=%negated
  %c2 = f32[4,4]{1,0} conditional(%k, %x, %x), branch_computations={%negated, %negated}
  %rp = f32[4,4]{1,0} reduce-precision(%x), exponent_bits=5, mantissa_bits=10
  %bn = (f32[4,4]{1,0}, f32[4]{0}, f32[4]{0}) batch-norm-training(%x, %row, %row), epsilon=0.001, feature_index=1
  %ts = f32[4,4]{1,0} triangular-solve(%x, %x), left_side=true, lower=true, transpose_a=ADJOINT
  %ch = f32[4,4]{1,0} cholesky(%x), lower=true
  %ft = c64[4,3]{1,0} fft(%x), fft_type=RFFT, fft_length={4}
  %key = u64[2]{0} constant({1, 18446744073709551615})
  %rb = (u64[2]{0}, u32[4]{0}) rng-bit-generator(%key), algorithm=rng_three_fry
  %tk = (f32[4,2]{1,0}, s32[4,2]{1,0}) topk(%x), k=2, largest=true
  %cc = f32[2,<=3]{1,0:T(8,128)(2,1)S(1)} custom-call(%x, %k), custom_call_target="Q", \
custom_call_has_side_effect=true, operand_layout_constraints={f32[4,4]{1,0}, s32[]}, \
output_to_operand_aliasing={{}: (0, {})}, api_version=API_VERSION_TYPED_FFI, \
schedule=SCHEDULE_LATEST, control-predecessors={%x, %i}, \
frontend_attributes={n="v"}, metadata={op_type="t" op_name="n" source_file="/a.py" source_line=3 source_end_line=4 \
profile_type={1} deduplicated_name="d" stack_frame_id=1}
  %re = f32[] reduce(%x, %z), dimensions={0,1}, to_apply=%add
  ROOT %t = (f32[4,4]{1,0}, f32[]) tuple(%sc, %re), sharding={{devices=[2,2]<=[2,2]T(1,0)}, {maximal device=1}}
}
"""
# (by compares what sort moves, and row is a constant: kept apart only for the length of their lines)
TEXT = TEXT.replace(
    "ENTRY",
    "%by (ba: f32[], bb: f32[], bc: s32[], bd: s32[]) -> pred[] {\n  %ba = f32[] parameter(0)\n"
    "  %bb = f32[] parameter(1)\n  %bc = s32[] parameter(2)\n  %bd = s32[] parameter(3)\n"
    "  ROOT %be = pred[] compare(%ba, %bb), direction=LT\n}\n\nENTRY",
).replace("  %bn =", "  %row = f32[4]{0} constant({1, nan(0x1), -inf, 1e-45})\n  %bn =")

CONSTANTS = """ENTRY e {
  a = f32[3] constant({nan(0x1), -nan, 1e-45})
  b = c64[2] constant({(nan(0x7), -0.0), (1, 2)})
  c = c128[] constant((1.5, nan(0x3)))
  d = f64[2] constant({-nan(0x12345), 1e-320})
  e = bf16[2] constant({nan(0x3), 1.5})
  f = f16[2] constant({-nan(0x1), 2})
  g = f8e4m3fn[3] constant({nan, -nan, 1.125})
  h = f8e5m2[2] constant({nan(0x1), -inf})
  i = s4[3] constant({-8, 7, -1})
  j = u4[3] constant({15, 0, 1})
  k = s2[3] constant({-2, 1, 0})
  l = pred[2,2] constant({{true, false}, {false, true}})
  m = s8[2] constant({-128, 127})
  n = u64[2] constant({18446744073709551615, 0})
  o = s64[2] constant({-9223372036854775808, 0})
  p = f32[2,0] constant({{}, {}})
  q = f4e2m1fn[3] constant({-6, 0.5, -0.0})
  ROOT r = (f32[], (s32[2])) constant((1, ({1, 2})))
}"""


def test_a_module_with_everything_comes_back_the_same():
    module = parse(TEXT)
    verify(module)
    again = from_proto(to_proto(module))
    assert difference(module, again) is None
    assert to_proto(again) == to_proto(module)


def test_constants_come_back_bit_for_bit():
    module = parse(CONSTANTS)
    again = from_proto(to_proto(module))
    for before, after in zip(module.entry.instructions, again.entry.instructions, strict=True):
        pairs = [(before.literal, after.literal)]
        if before.name == "r":
            pairs = [(before.literal[0], after.literal[0]), (before.literal[1][0], after.literal[1][0])]
        for a, b in pairs:
            assert a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes(), before.name


def test_a_literal_that_lies_column_major():
    module = HloModuleProto.FromString(to_proto(parse("ROOT c = s32[2,3] constant({{1, 2, 3}, {4, 5, 6}})")))
    literal = module.computations[0].instructions[0].literal
    literal.shape.layout.minor_to_major[:] = [0, 1]
    assert np.array_equal(from_proto(module.SerializeToString()).entry.root.literal, [[1, 3, 5], [2, 4, 6]])


def test_a_constant_has_the_layout_of_its_shape():
    text = "ROOT c = (s4[2,3]{0,1:E(4)}, f32[<=2]) constant(({{1, 2, 3}, {4, 5, 6}}, {1, 2}))"
    proto = to_proto(parse(text))
    first, second = HloModuleProto.FromString(proto).computations[0].instructions[0].literal.tuple_literals
    assert list(first.shape.layout.minor_to_major) == [0, 1] and first.s4s == bytes([1, 4, 2, 5, 3, 6])
    assert not first.shape.layout.element_size_in_bits  # which XLA wants of literals, whose elements are bytes
    assert list(second.dynamic_sizes) == [2]
    literal = from_proto(proto).entry.root.literal
    assert np.array_equal(literal[0], [[1, 2, 3], [4, 5, 6]]) and np.array_equal(literal[1], [1, 2])


def test_a_constant_of_fewer_elements_than_its_bound():
    module = HloModuleProto.FromString(to_proto(parse("ROOT c = f32[<=2] constant({1, 2})")))
    module.computations[0].instructions[0].literal.dynamic_sizes[:] = [1]
    with pytest.raises(UnsupportedError, match=r"c: a literal of the sizes \[1\] for the shape"):
        from_proto(module.SerializeToString())


def test_frames_have_their_parents_as_xla_counts_them():
    module = parse(TEXT)
    assert module.stack_frames.frames == ((1, 0), (1, 1))
    frames = HloModuleProto.FromString(to_proto(module)).stack_frame_index.stack_frames
    assert [f.parent_frame_id for f in frames] == [0, 1]


def test_an_outfeed_states_its_shape():
    text = "x = s32[2] parameter(0)\nt = token[] after-all()\nROOT o = token[] outfeed(x, t)"
    assert str(from_proto(to_proto(parse(text))).entry.root.outfeed_shape) == "s32[2]{0}"


def test_the_literal_of_a_custom_call_has_its_own_shape():
    text = 'ROOT c = f32[] custom-call(), custom_call_target="X", literal=(s32[2,2]{0,1} {{1, 2}, {3, 4}}, f32[] 5)'
    first, second = from_proto(to_proto(parse(text))).entry.root.literal
    assert first.dtype == np.int32 and np.array_equal(first, [[1, 2], [3, 4]]) and second == 5


def test_words_in_capital_letters():
    text = """x = f32[2,2] parameter(0)
      ROOT d = f32[2,2] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}, operand_precision={HIGH,DEFAULT},
        algorithm=DOT_BF16_BF16_F32"""
    d = from_proto(to_proto(parse(text))).entry.root
    assert d.operand_precision == ("high", "default") and d.algorithm == "dot_bf16_bf16_f32"


@pytest.mark.parametrize("labels", ["b01f?_01i?o->b01f?", "?b0f_0?io->fb0", "fb_oi->b?f"])
def test_dimensions_of_a_custom_call_without_a_label(labels):
    line = f'ROOT c = f32[] custom-call(x), custom_call_target="X", dim_labels={labels}'
    module = parse(f"x = f32[2] parameter(0)\n{line}")
    assert from_proto(to_proto(module)).entry.root.dim_labels == module.entry.root.dim_labels


def test_labels_that_contradict_each_other():
    module = parse("x = f32[1,3,1] parameter(0)\ny = f32[1,1,1] parameter(1)\n"
                   "ROOT c = f32[1,3,1] convolution(x, y), window={size=1}, dim_labels=b0f_0io->b0f")  # fmt: skip
    proto = HloModuleProto.FromString(to_proto(module))
    proto.computations[0].instructions[2].convolution_dimension_numbers.output_spatial_dimensions[:] = [2]
    with pytest.raises(ParseError, match="c: the dimension numbers of a convolution are contradictory"):
        from_proto(proto.SerializeToString())


SHARDINGS = {  # as texts may write them, and as they come back
    "{devices=[4,1,4]<=[16]last_tile_dim_replicate}": "{devices=[4,1,4]<=[16] last_tile_dim_replicate}",
    '{unreduced metadata={op_type="a" op_name="b"}}': '{unreduced metadata={op_type="a" op_name="b"}}',
    '{metadata={{op_name="{"},{source_line=3}} manual shard_as 2}': '{manual shard_as 2 metadata={{op_name="{"}, '
    "{source_line=3}}}",
    "{maximal device=-1}": "{maximal device=-1}",
    "{{replicated},/*index=1*/{}}": "{{replicated}, {}}",
    "{mesh['x'=2,'y'=2] [{'x', ?}, {}]}": "{mesh['x'=2,'y'=2], [{'x', ?}, {}]}",
    "{mesh['x'=2,'y'=2], unreduced=max}": "{mesh['x'=2,'y'=2], [], unreduced=max{'x', 'y'}}",
    "{mesh['x'=2,'y'=2], device_ids=([2,2]T(1,0)), [], manual={'y'}}": "{mesh['x'=2,'y'=2], "
    "device_ids=([2,2]T(1,0)), [], manual={'y'}}",
    "{mesh['x'=8],[{'x':(2)2}],replicated={'x':(4)2},metadata={op_name=\"a\"}}": "{mesh['x'=8], [{'x':(2)2}], "
    "replicated={'x':(4)2}, metadata={{op_name=\"a\"}}}",
    "{maximal_mesh[device_id=3]}": "{single_device[device_id=3]}",
}


@pytest.mark.parametrize("sharding", SHARDINGS)
def test_shardings(sharding):
    module = parse(f"ROOT x = f32[8,8] parameter(0), sharding={sharding}")
    again = from_proto(to_proto(module))
    assert again.entry.root.sharding == SHARDINGS[sharding]
    assert to_proto(again) == to_proto(module)


@pytest.mark.parametrize(
    ("sharding", "message"),
    [
        ("{mesh['x'=2], [{'y'}]}", "the mesh has no axis 'y'"),
        ("{mesh['x'=2], [{'x'}], open={'x'}}", "metadata"),
        ("{mesh['x'=2], [{'x'}], unreduced=prod{'x'}}", "prod is unknown"),
        ("{devices=[2,1]<=[2]T(1,0)}", "no permutation"),
        ("{rotated}", "rotated is unknown here"),
        ("{last_tile_dims={rotated}}", "rotated is unknown here"),
        ("{" * 300 + "}" * 300, "nest more than 100"),
    ],
)
def test_shardings_that_no_proto_has(sharding, message):
    module = parse(f"ROOT x = f32[8,8] parameter(0), sharding={sharding}")
    with pytest.raises(UnsupportedError, match=rf"(?s)x: the sharding .* is not implemented in protos: .*{message}"):
        to_proto(module)


def test_notes_that_protos_are_without():
    module = parse("""HloModule m, replica_count=2, allow_spmd_sharding_propagation_to_output={true}
      ENTRY e { ROOT x = f32[] parameter(0), origin={{"y"}}, statistics={visualizing_index=0,a=3} }""")
    again = from_proto(to_proto(module))
    assert again.attributes == {} and set(again.entry.root.attributes) == {"number"}


def test_shapes_of_buffers_and_without_a_bound():
    proto = HloModuleProto.FromString(to_proto(parse("ROOT x = f32[2,784] parameter(0)")))
    shape = proto.computations[0].instructions[0].shape
    shape.dimensions[0] = -(1 << 63)
    with pytest.raises(UnsupportedError, match=r"x: f32\[\?,784\]: dimensions without a bound .* state the size"):
        from_proto(proto.SerializeToString())
    shape.element_type = 34
    with pytest.raises(UnsupportedError, match="x: buffers are not specified here: a name for memory"):
        from_proto(proto.SerializeToString())


def test_a_wrapped_module():
    inner = HloModuleProto.FromString(to_proto(parse(TEXT)))
    wrapped = HloProto(hlo_module=inner).SerializeToString()
    assert difference(from_proto(wrapped), parse(TEXT)) is None


def test_arrays_without_layout_get_one_and_shared_names_are_told_apart():
    module = parse("HloModule m\nf { x = f32[2,3] parameter(0)\n ROOT y = f32[2,3] negate(x) }\nENTRY e {\n"
                   " x = f32[2,3] parameter(0)\n ROOT y = f32[2,3] call(x), to_apply=f\n}")  # fmt: skip
    again = from_proto(to_proto(module))
    assert [i.name for i in again.instructions()] == ["x", "y", "x.1", "y.1"]
    assert all(str(i.shape) == "f32[2,3]{1,0}" for i in again.instructions())


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        (lambda m: m.computations[0].instructions[2].operand_ids.append(77), ParseError, "depends on the id 77"),
        (lambda m: m.computations[0].instructions[2].ClearField("opcode"), ParseError, "no opcode ''"),
        (lambda m: setattr(m.computations[0].instructions[2], "opcode", "ad"), ParseError, "did you mean"),
        (lambda m: setattr(m.computations[0], "root_id", 99), ParseError, "has no root"),
        (lambda m: setattr(m, "entry_computation_id", 99), ParseError, "entry computation has the id 99"),
        (lambda m: setattr(m.computations[0].instructions[0].shape, "element_type", 99), ParseError, "type number 99"),
        (
            lambda m: m.computations[-1].instructions[0].shape.layout.minor_to_major.append(7),
            ParseError,
            "a layout of 2",
        ),
        (
            lambda m: m.computations[0].instructions[1].CopyFrom(m.computations[0].instructions[0]),
            ParseError,
            "same id",
        ),
        (lambda m: m.computations[1].CopyFrom(m.computations[0]), ParseError, "two computations have the id 0"),
        (lambda m: m.computations[0].instructions[2].called_computation_ids.append(0), ParseError, "calls itself"),
        (lambda m: m.computations[0].instructions[2].called_computation_ids.append(55), ParseError, "of id 55"),
        (lambda m: m.schedule.sequences[0].value.instruction_ids.append(5), ParseError, "schedule"),
        (
            lambda m: m.computations[0].instructions[2].dimensions.append(1),
            InvalidProgramError,
            "no attribute dimensions",
        ),
        (
            lambda m: m.computations[0].instructions[2].sharding.named_sharding.manual_axes.add(mesh_axis_index=3),
            ParseError,
            "a mesh of 0 axes has no axis 3",
        ),
    ],
)
def test_contradictions(change, kind, message):
    proto = HloModuleProto.FromString(to_proto(parse(TEXT)))
    change(proto)
    with pytest.raises(kind, match=message):
        verify(from_proto(proto.SerializeToString()))


def test_what_a_proto_cannot_say():
    module = parse("x = f32[2] parameter(0)\ny = f32[2] negate(x), metadata={new_field=3}")
    with pytest.raises(UnsupportedError, match="y: the field new_field=3"):
        to_proto(module)


def test_every_truncation_gives_one_clear_error():
    data = to_proto(parse(TEXT))
    for length in range(0, len(data), 7):
        try:
            verify(from_proto(data[:length]))  # (cut between two fields, what is left may be a program)
        except Error as error:
            assert str(error)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            "HloModule m\nENTRY e { ROOT x = f32[] parameter(0) }".encode("utf-16"),
            "line 1, column 1: byte 0xff is no UTF-8",
        ),
        (b"HloModule m\n/* \xfc */ ENTRY e { ROOT x = f32[] parameter(0) }", "line 2, column 4: byte 0xfc is no UTF-8"),
        (b"HloModule m\nENTRY e { ROOT x\0 = f32[] parameter(0) }", "line 2, column"),
    ],
)
def test_a_text_that_cannot_be_read_is_no_proto(data, message):
    with pytest.raises(ParseError, match=message):
        load(data)


def test_a_byte_order_mark_before_a_text_says_nothing():
    assert load(b"\xef\xbb\xbfHloModule m\nENTRY e { ROOT x = f32[] parameter(0) }").name == "m"


def test_random_bytes_and_mutated_protos_raise_only_the_family():
    rng = random.Random(0)
    for length in (0, 1, 2, 10, 100, 1000) * 10:
        with pytest.raises(ParseError, match="no HloModuleProto"):
            from_proto(rng.randbytes(length))
    data, outcomes = to_proto(parse(TEXT)), set()
    for _ in range(500):
        mutated = bytearray(data)
        for _ in range(rng.choice([1, 1, 3])):
            at, kind = rng.randrange(len(mutated)), rng.randrange(3)
            if kind < 2:
                mutated[at] = rng.randrange(256)
            else:
                del mutated[at : at + rng.randrange(1, 4)]
        try:
            module = from_proto(bytes(mutated))
            verify(module)
            str(module)
            to_proto(module)
            outcomes.add("valid")
        except Error as error:
            outcomes.add(type(error).__name__)
    assert {"valid", "ParseError", "InvalidProgramError"} <= outcomes


def test_every_row_of_the_schema_became_a_field():
    for name, table in MESSAGES.items():
        fields = CLASSES[name].DESCRIPTOR.fields_by_number
        assert len(fields) == len(table.strip().splitlines()), name


def test_field_numbers_are_those_of_tensorflows_own_classes():
    """TensorFlow carries the classes that protoc made of XLA's files: an oracle for the numbers, names and types."""
    hlo_pb2 = pytest.importorskip("tensorflow.compiler.xla.service.hlo_pb2")
    xla_data_pb2 = pytest.importorskip("tensorflow.compiler.xla.xla_data_pb2")
    inner = {
        "InstructionSequence": hlo_pb2.HloScheduleProto.InstructionSequence,
        "ScheduleEntry": hlo_pb2.HloScheduleProto.SequencesEntry,
        "AliasEntryProto": hlo_pb2.HloInputOutputAliasProto.AliasEntryProto,
        "BufferDonorEntryProto": hlo_pb2.HloBufferDonorProto.BufferDonorEntryProto,
        "FileLocation": hlo_pb2.StackFrameIndexProto.FileLocation,
        "StackFrame": hlo_pb2.StackFrameIndexProto.StackFrame,
        "SliceDimensions": hlo_pb2.HloInstructionProto.SliceDimensions,
        "PaddingConfigDimension": xla_data_pb2.PaddingConfig.PaddingConfigDimension,
        "Tolerance": xla_data_pb2.ResultAccuracy.Tolerance,
        "FrontendAttribute": xla_data_pb2.FrontendAttributes.MapEntry,
        "MeshAxis": xla_data_pb2.MeshProto.MeshAxis,
        "SubAxis": xla_data_pb2.AxisRefProto.SubAxis,
    }
    held = 0
    for name, ours in CLASSES.items():
        theirs = inner.get(name) or getattr(hlo_pb2, name, None) or getattr(xla_data_pb2, name, None)
        if theirs is None:  # newer than this TensorFlow: seen in what jaxlib writes
            continue
        numbers = {f.name: f.number for f in theirs.DESCRIPTOR.fields}
        for field in ours.DESCRIPTOR.fields:
            if field.name not in numbers:  # newer, too, and then its number is new
                assert field.number not in numbers.values(), (name, field.name)
                continue
            held += 1
            assert numbers[field.name] == field.number, (name, field.name)
            other = theirs.DESCRIPTOR.fields_by_name[field.name]
            enum_or_packed = other.type == other.TYPE_ENUM or field.type == field.TYPE_BYTES
            assert other.type == field.type or enum_or_packed, (name, field.name)
    assert held > 150, "most fields are as old as TensorFlow"
