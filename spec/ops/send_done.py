"""Waits until what a send began to send has arrived; gives a token."""

from __future__ import annotations

from ..devices import Device
from ..module import Instruction
from ..transfers import check_transfer
from ..types import Shape, Value
from . import send

INPUTS = {"operand": "what the send gave"}
ATTRIBUTES = send.ATTRIBUTES
CONSTRAINTS = {
    "C1": "operand is a tuple of some shape, u32[] and token[]",
    "C2": "channel_id and is_host_transfer are those of the send, where operand is one",
    "C3": "the result is a token",
}


def infer(instruction: Instruction, operand: Shape) -> Shape:
    check_transfer(instruction, operand, "send")
    return operand.elements[2]


def evaluate(instruction: Instruction, operand: Value, device: Device) -> Value:
    device.finish(instruction, int(operand[1]))
    return None


EXAMPLES = send.EXAMPLES
_BROKEN = """x = s32[1] parameter(0)
             t = token[] after-all()
             s = (s32[1], u32[], token[]) send(x, t), channel_id=1
             ROOT r = """
COUNTEREXAMPLES = {
    "C1": _BROKEN + "token[] send-done(x), channel_id=1",
    "C2": _BROKEN + "token[] send-done(s), channel_id=2",
    "C3": _BROKEN + "s32[] send-done(s), channel_id=1",
}
