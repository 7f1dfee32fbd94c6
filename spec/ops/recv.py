"""Begins to receive a value from another device, or from the host; recv-done waits for it.

    result = (the value, context, token)

Which device sends to which stands in the frontend attribute _xla_send_recv_source_target_pairs, as for send. A device
that is no target receives zeros. With is_host_transfer the value comes from the host (see Host in devices.py). The
value in the result is not there yet: only recv-done may use it. The context is the number of the transfer.
"""

from __future__ import annotations

import numpy as np

from ..collectives import CONTEXT
from ..devices import Device
from ..errors import EvaluationError, InputError
from ..module import Instruction
from ..operation import require
from ..transfers import pairs_of, zeros
from ..types import TOKEN, Shape, Value
from . import send

INPUTS = {"token": "what is to happen before"}
ATTRIBUTES = send.ATTRIBUTES | {}
CONSTRAINTS = {"C1": "token is a token", "C2": "the result is a tuple of some shape, u32[] and token[]"}


def infer(instruction: Instruction, token: Shape) -> Shape:
    require(token.element_type is TOKEN, "C1", f"token is {token}")
    return Shape.tuple_of(*instruction.shape.elements[:1], CONTEXT, token)


def evaluate(instruction: Instruction, token: Value, device: Device) -> Value:
    shape = instruction.shape.elements[0]
    nothing = zeros(shape)
    if instruction.is_host_transfer:
        number = device.done(_from_host(instruction, shape, device))
    else:
        number = device.receive(instruction, pairs_of(instruction, device), nothing)
    return nothing, np.array(number, np.uint32), None


def _from_host(instruction: Instruction, shape: Shape, device: Device) -> Value:
    from ..interpreter import conform  # here, since the interpreter is defined in terms of operations

    channel = instruction.channel_id or 0
    waiting = device.host.sends.get(channel)
    if not waiting:
        raise EvaluationError(
            f"{instruction.name}: the host sends nothing more on channel {channel} to device {device.number}; "
            f"give it what it is to send: Host(sends={{{channel}: [...]}})"
        )
    try:
        return conform(waiting.popleft(), shape, f"{instruction.name}: what the host sends on channel {channel}")
    except InputError as problem:
        raise EvaluationError(str(problem)) from None


EXAMPLES = send.EXAMPLES
_BROKEN = "x = s32[1] parameter(0)\nt = token[] after-all()\nROOT r = "
COUNTEREXAMPLES = {
    "C1": _BROKEN + "(s32[1], u32[], s32[1]) recv(x), channel_id=1",
    "C2": _BROKEN + "(s32[1], s32[], token[]) recv(t), channel_id=1",
}
