"""Whether two values stand in a relation, element by element, as pred.

`direction` is EQ, NE, GE, GT, LE or LT. For floats `type` FLOAT, the default, compares as numbers: a NaN is not
equal to, not below and not above anything, itself included (so NE is true and the others are false), and -0 equals
+0. TOTALORDER is the total order of IEEE 754: -NaN < -inf < ... < -0 < +0 < ... < inf < NaN, equal only where all
bits are. SIGNED and UNSIGNED go with integer types and say nothing that these do not say; pred is ordered as false
< true. Complex numbers are only equal or not.
"""

import numpy as np

from .. import numerics
from ..attributes import ENUM, REQUIRED, Attribute
from ..dynamic import union
from ..elementwise import same_dimensions
from ..operation import Example, require
from ..types import PRED

DIRECTIONS = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "GE": np.greater_equal,
    "GT": np.greater,
    "LE": np.less_equal,
    "LT": np.less,
}
TYPES = {  # the element types' kinds that each goes with
    "FLOAT": ("float", "complex"),
    "TOTALORDER": ("float",),
    "SIGNED": ("signed",),
    "UNSIGNED": ("unsigned", "pred"),
}

INPUTS = {"lhs": "array of any element type", "rhs": "array of the same element type and dimensions"}
ATTRIBUTES = {
    "direction": Attribute(ENUM, REQUIRED, "EQ, NE, GE, GT, LE or LT"),
    "type": Attribute(ENUM, None, "FLOAT, TOTALORDER, SIGNED or UNSIGNED; None: what goes with the element type"),
}
CONSTRAINTS = {
    "C1": "lhs and rhs are arrays of the same element type",
    "C2": "lhs and rhs have the same dimensions; a scalar is not broadcast",
    "C3": "direction is one of EQ, NE, GE, GT, LE, LT; for complex types EQ or NE",
    "C4": "type goes with the element type: FLOAT with float and complex, TOTALORDER with float, "
    "SIGNED with signed, UNSIGNED with unsigned and pred",
    "C5": "the result is pred with the dimensions of lhs",
}


def infer(instruction, lhs, rhs):
    same_type = lhs.is_array and lhs.element_type is rhs.element_type
    require(same_type, "C1", f"lhs is {lhs} and rhs is {rhs}; convert one of them")
    require(same_dimensions(lhs, rhs), "C2", f"lhs is {lhs} and rhs is {rhs}; broadcast or reshape one of them")
    direction, order = instruction.direction, instruction.type
    require(direction in DIRECTIONS, "C3", f"the direction is {direction}")
    require(direction in ("EQ", "NE") or not lhs.element_type.is_complex, "C3", f"{direction} of {lhs}: use EQ or NE")
    require(order is None or lhs.element_type.kind in TYPES.get(order, ()), "C4", f"type {order} with operands {lhs}")
    return union(lhs, rhs).with_element_type(PRED)


def evaluate(instruction, lhs, rhs):
    relation = DIRECTIONS[instruction.direction]
    if instruction.type == "TOTALORDER" and numerics.type_of(lhs).is_float:
        lhs, rhs = numerics.total_order_key(lhs), numerics.total_order_key(rhs)
    with np.errstate(all="ignore"):
        return relation(lhs, rhs)


EXAMPLES = (
    Example(
        "x = f32[4] parameter(0)\ny = f32[4] parameter(1)\nROOT z = pred[4] compare(x, y), direction=LT",
        ("f32[4] {-0, nan, 1, -inf}", "f32[4] {0, nan, 2, inf}"),
        ("pred[4] {false, false, true, true}",),
    ),
    Example(
        "x = f32[3] parameter(0)\ny = f32[3] parameter(1)\nROOT z = pred[3] compare(x, y), "
        "direction=LT, type=TOTALORDER",
        ("f32[3] {-0, inf, nan}", "f32[3] {0, nan, nan}"),
        ("pred[3] {true, true, false}",),
    ),
    Example(
        "x = u8[2] parameter(0)\ny = u8[2] parameter(1)\nROOT z = pred[2] compare(x, y), direction=GE, type=UNSIGNED",
        ("u8[2] {255, 1}", "u8[2] {1, 1}"),
        ("pred[2] {true, true}",),
    ),
    Example(
        "x = c64[3] parameter(0)\ny = c64[3] parameter(1)\nROOT z = pred[3] compare(x, y), direction=NE",
        ("c64[3] {(1, 2), (-0, 1), (nan, 1)}", "c64[3] {(1, 3), (0, 1), (nan, 1)}"),
        ("pred[3] {true, false, true}",),
        "complex numbers have no order",
    ),
    Example(
        """x = s32[<=4] parameter(0)
           y = s32[<=4] parameter(1)
           ROOT z = pred[<=4] compare(x, y), direction=LT""",
        ("s32[1] {1}", "s32[1] {2}"),
        ("pred[1] {true}",),
    ),
)

COUNTEREXAMPLES = {
    "C1": "x = f32[2] parameter(0)\ny = s32[2] parameter(1)\nROOT r = pred[2] compare(x, y), direction=LT",
    "C2": "x = f32[2] parameter(0)\ny = f32[] parameter(1)\nROOT r = pred[2] compare(x, y), direction=LT",
    "C3": "x = c64[2] parameter(0)\ny = c64[2] parameter(1)\nROOT r = pred[2] compare(x, y), direction=LT",
    "C4": """x = f32[2] parameter(0)
             y = f32[2] parameter(1)
             ROOT r = pred[2] compare(x, y), direction=LT, type=SIGNED""",
    "C5": "x = f32[2] parameter(0)\ny = f32[2] parameter(1)\nROOT r = f32[2] compare(x, y), direction=LT",
}
