"""Gives a value to the host, which keeps all that it is given, in order; the result is a token.

See Host in devices.py.
"""

from __future__ import annotations

from ..attributes import SHAPE, STRING, Attribute
from ..devices import Device
from ..module import Instruction
from ..operation import Example, require
from ..types import TOKEN, Shape, Value

INPUTS = {"operand": "any value", "token": "what is to happen before"}
ATTRIBUTES = {
    "outfeed_shape": Attribute(SHAPE, None, "the shape of operand, with the layout that the host gets"),
    "outfeed_config": Attribute(STRING, "", "a note for an implementation"),
}
CONSTRAINTS = {
    "C1": "token is a token",
    "C2": "outfeed_shape, where it is given, is the shape of operand",
    "C3": "the result is a token",
}


def infer(instruction: Instruction, operand: Shape, token: Shape) -> Shape:
    require(token.element_type is TOKEN, "C1", f"token is {token}")
    stated = instruction.outfeed_shape
    require(stated is None or stated.compatible(operand), "C2", f"outfeed_shape is {stated}, the operand is {operand}")
    return token


def evaluate(instruction: Instruction, operand: Value, token: Value, device: Device) -> Value:
    device.host.outfed.append(operand)
    return None


EXAMPLES = (
    Example(
        """x = s32[2] parameter(0)
           y = (s32[2], s32[2]) tuple(x, x)
           t = token[] after-all()
           u = token[] outfeed(x, t), outfeed_shape=s32[2]{0}
           v = token[] outfeed(y, u), outfeed_config="both"
           ROOT r = s32[2] add-dependency(x, v)""",
        ("s32[2] {1,2}",),
        ("s32[2] {1,2}",),
        outfed=("s32[2] {1,2}", "(s32[2], s32[2]) ({1,2}, {1,2})"),
    ),
)
_BROKEN = "x = s32[1] parameter(0)\nt = token[] after-all()\nROOT r = "
COUNTEREXAMPLES = {
    "C1": _BROKEN + "token[] outfeed(x, x)",
    "C2": _BROKEN + "token[] outfeed(x, t), outfeed_shape=s32[2]",
    "C3": _BROKEN + "s32[1] outfeed(x, t)",
}
