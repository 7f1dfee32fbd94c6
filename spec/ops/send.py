"""Begins to send a value to another device, or to the host; send-done waits until it has arrived.

    result = (data, context, token)

Which device sends to which stands in the frontend attribute _xla_send_recv_source_target_pairs, as the pairs of a
collective-permute: numbers of replicas, or with a channel_id of partitions. A device that is no source sends nothing.
The sends from one device to another on one channel meet the recvs there in their order. With is_host_transfer the host
gets the value (see Host in devices.py). The context is the number of the transfer.
"""

from __future__ import annotations

import numpy as np

from ..attributes import BOOL, INT, Attribute
from ..collectives import CONTEXT
from ..devices import Device
from ..module import Instruction
from ..operation import Example, require
from ..transfers import pairs_of
from ..types import TOKEN, Shape, Value

INPUTS = {"data": "any value", "token": "what is to happen before"}
ATTRIBUTES = {
    "channel_id": Attribute(INT, None, "where the recv that gets it has the same"),
    "is_host_transfer": Attribute(BOOL, False, "whether the host is the other side"),
}
CONSTRAINTS = {"C1": "token is a token", "C2": "the result is a tuple of the shape of data, u32[] and token[]"}


def infer(instruction: Instruction, data: Shape, token: Shape) -> Shape:
    require(token.element_type is TOKEN, "C1", f"token is {token}")
    return Shape.tuple_of(data, CONTEXT, token)


def evaluate(instruction: Instruction, data: Value, token: Value, device: Device) -> Value:
    if instruction.is_host_transfer:
        device.host.received.setdefault(instruction.channel_id or 0, []).append(data)
        number = device.done()
    else:
        number = device.send(instruction, pairs_of(instruction, device), data)
    return data, np.array(number, np.uint32), None


EXAMPLES = (
    Example(
        """HloModule to_the_next, num_partitions=3
        ENTRY main { x = s32[1] parameter(0)
                     t = token[] after-all()
                     there = (s32[1], u32[], token[]) recv(t), channel_id=1,
                       frontend_attributes={_xla_send_recv_source_target_pairs={{0,1},{1,2}}}
                     here = (s32[1], u32[], token[]) send(x, t), channel_id=1,
                       frontend_attributes={_xla_send_recv_source_target_pairs={{0,1},{1,2}}}
                     got = (s32[1], token[]) recv-done(there), channel_id=1
                     gone = token[] send-done(here), channel_id=1
                     ROOT r = s32[1] get-tuple-element(got), index=0 }""",
        ("s32[1] {10}", "s32[1] {11}", "s32[1] {12}"),
        ("s32[1] {0}", "s32[1] {10}", "s32[1] {11}"),
        "what nobody sends is 0",
    ),
)
_BROKEN = "x = s32[1] parameter(0)\nt = token[] after-all()\nROOT r = "
COUNTEREXAMPLES = {
    "C1": _BROKEN + "(s32[1], u32[], s32[1]) send(x, x), channel_id=1",
    "C2": _BROKEN + "(s32[1], s32[], token[]) send(x, t), channel_id=1",
}
