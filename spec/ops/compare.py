"""Whether two values stand in a relation, element by element, as pred.

`direction` is EQ, NE, GE, GT, LE or LT. `order` says how floating-point numbers are ordered. PARTIAL, their default,
compares as numbers: a NaN is not equal to, not below and not above anything, itself included (so NE is true and the
others are false), and -0 equals +0. TOTAL is the total order of IEEE 754: -NaN < -inf < ... < -0 < +0 < ... < inf <
NaN, equal only where all bits are. Integers have one order, which is total; pred is ordered as false < true. Complex
numbers are only equal or not.

`type` is how programs of JAX 0.11 and before say it: TOTALORDER is TOTAL, FLOAT is PARTIAL; SIGNED and UNSIGNED go with
integer types and say nothing that these do not say.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .. import numerics
from ..attributes import ENUM, REQUIRED, Attribute
from ..dynamic import union
from ..elementwise import same_dimensions
from ..module import Instruction
from ..operation import Example, require
from ..types import PRED, Array, Shape

DIRECTIONS = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "GE": np.greater_equal,
    "GT": np.greater,
    "LE": np.less_equal,
    "LT": np.less,
}
ORDERS = {  # the element types' kinds that each goes with
    "PARTIAL": ("float", "complex"),
    "TOTAL": ("float", "signed", "unsigned", "pred"),
}
TYPES = {  # the same
    "FLOAT": ("float", "complex"),
    "TOTALORDER": ("float",),
    "SIGNED": ("signed",),
    "UNSIGNED": ("unsigned", "pred"),
}

INPUTS = {"lhs": "array of any element type", "rhs": "array of the same element type and dimensions"}
ATTRIBUTES = {
    "direction": Attribute(ENUM, REQUIRED, "EQ, NE, GE, GT, LE or LT"),
    "order": Attribute(ENUM, None, "PARTIAL or TOTAL; None: PARTIAL of float and complex, TOTAL of all others"),
    "type": Attribute(ENUM, None, "the older form: FLOAT, TOTALORDER, SIGNED or UNSIGNED"),
}
CONSTRAINTS = {
    "C1": "lhs and rhs are arrays of the same element type",
    "C2": "lhs and rhs have the same dimensions; a scalar is not broadcast",
    "C3": "direction is one of EQ, NE, GE, GT, LE, LT; for complex types EQ or NE",
    "C4": "type goes with the element type: FLOAT with float and complex, TOTALORDER with float, "
    "SIGNED with signed, UNSIGNED with unsigned and pred",
    "C5": "the result is pred with the dimensions of lhs",
    "C6": "order goes with the element type: PARTIAL with float and complex, TOTAL with all but complex",
    "C7": "order and type are not both given",
}


def is_total(attributes: Mapping[str, Any]) -> bool:
    """Whether a comparison with these attributes orders floats totally, however it is written."""
    return attributes.get("order") == "TOTAL" or attributes.get("type") == "TOTALORDER"


def infer(instruction: Instruction, lhs: Shape, rhs: Shape) -> Shape:
    same_type = lhs.is_array and lhs.element_type is rhs.element_type
    require(same_type, "C1", f"lhs is {lhs} and rhs is {rhs}; convert one of them")
    require(same_dimensions(lhs, rhs), "C2", f"lhs is {lhs} and rhs is {rhs}; broadcast or reshape one of them")
    direction, order, kind = instruction.direction, instruction.order, lhs.element_type.kind
    require(direction in DIRECTIONS, "C3", f"the direction is {direction}")
    require(direction in ("EQ", "NE") or not lhs.element_type.is_complex, "C3", f"{direction} of {lhs}: use EQ or NE")
    older = instruction.type
    require(older is None or kind in TYPES.get(older, ()), "C4", f"type {older} with operands {lhs}")
    require(order is None or kind in ORDERS.get(order, ()), "C6", f"order {order} with operands {lhs}")
    require(order is None or older is None, "C7", f"order is {order} and type is {older}; write the order alone")
    return union(lhs, rhs).with_element_type(PRED)


def evaluate(instruction: Instruction, lhs: Array, rhs: Array) -> Array:
    relation = DIRECTIONS[instruction.direction]
    if is_total(instruction.attributes) and numerics.type_of(lhs).is_float:
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
        "x = f32[3] parameter(0)\ny = f32[3] parameter(1)\nROOT z = pred[3] compare(x, y), direction=LT, order=TOTAL",
        ("f32[3] {-0, inf, nan}", "f32[3] {0, nan, nan}"),
        ("pred[3] {true, true, false}",),
    ),
    Example(
        "x = f32[3] parameter(0)\ny = f32[3] parameter(1)\nROOT z = pred[3] compare(x, y), "
        "direction=EQ, type=TOTALORDER",
        ("f32[3] {-0, 1, nan}", "f32[3] {0, 1, nan}"),
        ("pred[3] {false, true, true}",),
        "the older form of order=TOTAL",
    ),
    Example(
        "x = f32[3] parameter(0)\ny = f32[3] parameter(1)\nROOT z = pred[3] compare(x, y), direction=EQ, order=PARTIAL",
        ("f32[3] {-0, 1, nan}", "f32[3] {0, 1, nan}"),
        ("pred[3] {true, true, false}",),
    ),
    Example(
        "x = s8[3] parameter(0)\ny = s8[3] parameter(1)\nROOT z = pred[3] compare(x, y), direction=GT, order=TOTAL",
        ("s8[3] {-128, 1, 2}", "s8[3] {127, 1, 1}"),
        ("pred[3] {false, false, true}",),
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
    "C6": """x = s32[2] parameter(0)
             y = s32[2] parameter(1)
             ROOT r = pred[2] compare(x, y), direction=LT, order=PARTIAL""",
    "C7": """x = f32[2] parameter(0)
             y = f32[2] parameter(1)
             ROOT r = pred[2] compare(x, y), direction=LT, order=TOTAL, type=TOTALORDER""",
}
