"""A value from the host, which hands out the values of a queue, one to each infeed, in their order.

    result = (the value, token)

See Host in devices.py.
"""

from __future__ import annotations

from ..attributes import STRING, Attribute
from ..devices import Device
from ..errors import EvaluationError, InputError
from ..module import Instruction
from ..operation import Example, require
from ..types import TOKEN, Shape, Value

INPUTS = {"token": "what is to happen before"}
ATTRIBUTES = {"infeed_config": Attribute(STRING, "", "a note for an implementation")}
CONSTRAINTS = {"C1": "token is a token", "C2": "the result is a tuple of some shape and token[]"}


def infer(instruction: Instruction, token: Shape) -> Shape:
    require(token.element_type is TOKEN, "C1", f"token is {token}")
    return Shape.tuple_of(*instruction.shape.elements[:1], token)


def evaluate(instruction: Instruction, token: Value, device: Device) -> Value:
    from ..interpreter import conform  # here, since the interpreter is defined in terms of operations

    shape = instruction.shape.elements[0]
    if not device.host.infeed:
        raise EvaluationError(
            f"{instruction.name}: the infeed of device {device.number} is empty, and {shape.without_layout()} is taken "
            "from it; give the values: run(module, args, host=Host(infeed=[...])), or `refxla run --infeed NPZ`"
        )
    try:
        return conform(device.host.infeed.popleft(), shape, f"{instruction.name}: the value of the infeed"), None
    except InputError as problem:
        raise EvaluationError(str(problem)) from None


EXAMPLES = (
    Example(
        """t = token[] after-all()
           first = (s32[2], token[]) infeed(t)
           u = token[] get-tuple-element(first), index=1
           second = ((s32[2], f32[]), token[]) infeed(u), infeed_config="the second"
           x = s32[2] get-tuple-element(first), index=0
           pair = (s32[2], f32[]) get-tuple-element(second), index=0
           y = s32[2] get-tuple-element(pair), index=0
           ROOT r = s32[2] subtract(x, y)""",
        (),
        ("s32[2] {9,18}",),
        infeed=("s32[2] {10,20}", "(s32[2], f32[]) ({1,2}, 0.5)"),
    ),
)
_BROKEN = "x = s32[1] parameter(0)\nt = token[] after-all()\nROOT r = "
COUNTEREXAMPLES = {
    "C1": _BROKEN + "(s32[1], token[]) infeed(x)",
    "C2": _BROKEN + "(s32[1], s32[]) infeed(t)",
}
