"""A field that the schema does not name is found in every kind of message that a program's proto may have."""

import warnings

import pytest
from refxla_spec.equality import difference
from refxla_spec.errors import UnsupportedError
from refxla_spec.releases import NEWEST_IN_WORDS
from refxla_spec.text import parse

from refxla.ir.hlo_schema import MESSAGES, HloModuleProto, HloProto
from refxla.ir.proto import from_proto, to_proto
from tests.frontends.test_proto import TEXT

MORE = """HloModule m

add {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT s = f32[] add(p, q)
}

ENTRY e {
  x = f32[4,8] parameter(0)
  sizes = s32[2] parameter(1)
  rd = f32[4,8] ragged-dot(x, w, sizes), lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0}, \
rhs_group_dims={0}
  sh = f32[4,8] shuffle(x), dimensions={0}, mode=rotate, shifts={1}
  si = f32[4,8] sine(x), result_accuracy={tolerance={atol=0,rtol=0,ulps=2}}
  pm = f32[4,8] collective-permute(x), source_target_pairs={{0,0}}
  g1 = f32[4,8] all-reduce(x), to_apply=add, replica_groups={{0}}, sharding={mesh['a'=2], [{'a'}, {}]}
  g2 = f32[4,8] all-reduce(x), to_apply=add, replica_groups=[1,1]<=[1]
  g3 = f32[4,8] all-reduce(x), to_apply=add, replica_groups=mesh['a'=4,'b'=2], device_ids=([4,2]T(1,0)) {'a':(2)2}
  ROOT t = (f32[4,8], f32[4,8]) tuple(sh, si)
}
""".replace("  rd =", "  w = f32[2,8,8] parameter(2)\n  rd =")


def _original_value(instruction):
    element = instruction.original_value.elements.add()
    element.original_array.instruction_name = "x"


#: Messages that no text of a program gives, or none that is read: how they come into a proto.
ADDED = {
    "OriginalValueProto": _original_value,
    "OriginalValueElementProto": _original_value,
    "OriginalArrayProto": _original_value,
    "SplitConfigProto": lambda i: i.shape.layout.split_configs.add(),
}
WRITTEN = {  # kinds that are written for others, and never read
    "DeviceAssignmentProto",
    "ComputationDevice",
    "HloModuleProtoWithConfig",
    "HloModuleConfigProto",
}
KINDS = sorted(set(MESSAGES) - WRITTEN - {"HloProto"})


def messages(message):
    """The message and all that it has, outermost first."""
    yield message
    for field, value in message.ListFields():
        if field.message_type is not None:
            for inner in value if field.is_repeated else [value]:
                yield from messages(inner)


def holding(kind):
    """A program's proto with a message of that kind, and the message."""
    for text in (TEXT, MORE):
        proto = HloModuleProto.FromString(to_proto(parse(text)))
        if kind in ADDED:
            ADDED[kind](proto.computations[0].instructions[0])
        for message in messages(proto):
            if message.DESCRIPTOR.name == kind:
                return proto, message
    raise AssertionError(f"no program here has a message of the kind {kind}")


def unknown_field(value):
    """The field of number 999 with a small number, as bytes."""
    return bytes([0xB8, 0x3E, value])


@pytest.mark.parametrize("kind", KINDS)
def test_a_field_that_says_something_is_refused(kind):
    proto, message = holding(kind)
    message.MergeFromString(unknown_field(7))
    for lenient in (False, True):
        with pytest.raises(UnsupportedError, match=f"the field of number 999 of {kind} is not known") as raised:
            from_proto(proto.SerializeToString(), lenient)
        assert NEWEST_IN_WORDS in str(raised.value)


@pytest.mark.parametrize("kind", [k for k in KINDS if k != "SplitConfigProto"])  # which is not implemented at all
def test_leniency_passes_over_one_that_says_nothing(kind):
    proto, message = holding(kind)
    plain = from_proto(proto.SerializeToString())
    message.MergeFromString(unknown_field(0))
    with pytest.raises(UnsupportedError, match=f"999 of {kind} is not known.*--lenient"):
        from_proto(proto.SerializeToString())
    with pytest.warns(UserWarning, match=f"999 of {kind}"):
        module = from_proto(proto.SerializeToString(), lenient=True)
    assert difference(module, plain) is None


@pytest.mark.parametrize(("value", "lenient"), [(7, True), (0, False)])
def test_a_field_of_the_message_around_the_module(value, lenient):
    wrapped = HloProto(hlo_module=HloModuleProto.FromString(to_proto(parse(MORE))))
    wrapped.MergeFromString(unknown_field(value))
    with pytest.raises(UnsupportedError, match="999 of HloProto is not known"):
        from_proto(wrapped.SerializeToString(), lenient)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        buffers = HloProto(hlo_module=wrapped.hlo_module, buffer_assignment=b"\x0a\x00")
        assert difference(from_proto(buffers.SerializeToString()), from_proto(to_proto(parse(MORE)))) is None
