"""An operation that HLO does not have, by its name: custom_call_target says which.

The targets that have a meaning here stand in the folder `custom_calls/`, with what they take and give, and
`refxla_spec.custom_calls.register` adds to them. A program with any other target is valid and cannot be evaluated. The
result of a target that is registered or has no meaning has the shape that the instruction states.
"""

from __future__ import annotations

from .. import custom_calls
from ..attributes import (
    BOOL,
    COMPUTATION,
    COMPUTATIONS,
    CONVOLUTION,
    ENUM,
    ENUMS,
    INT,
    LITERAL,
    REQUIRED,
    SHAPES,
    STRING,
    VERBATIM,
    WINDOW,
    Attribute,
)
from ..devices import Device
from ..module import Instruction
from ..operation import Example, require
from ..types import Shape, Value
from ..vectorize import Run

INPUTS = {"*operands": "what the target takes"}
ATTRIBUTES = {
    "custom_call_target": Attribute(STRING, REQUIRED, "the name of the operation"),
    "api_version": Attribute(ENUM, "API_VERSION_ORIGINAL", "how an implementation calls the target"),
    "custom_call_has_side_effect": Attribute(BOOL, False, "whether it may not be removed or repeated"),
    "called_computations": Attribute(COMPUTATIONS, (), "computations that the target applies"),
    "to_apply": Attribute(COMPUTATION, None, "the same, where there is one"),
    "operand_layout_constraints": Attribute(SHAPES, (), "the layouts in which the target takes its operands"),
    "output_to_operand_aliasing": Attribute(VERBATIM, "", "which results may live in which operand's memory"),
    "schedule": Attribute(ENUM, "SCHEDULE_NONE", "when an implementation should run it"),
    "literal": Attribute(LITERAL, None, "a value for the target"),
    "window": Attribute(WINDOW, (), "a window, where the target is a kind of convolution"),
    "dim_labels": Attribute(CONVOLUTION, None, "its dimensions"),
    "feature_group_count": Attribute(INT, 1, "its feature groups"),
    "batch_group_count": Attribute(INT, 1, "its batch groups"),
    "padding_type": Attribute(ENUM, "PADDING_INVALID", "its kind of padding"),
    "operand_precision": Attribute(ENUMS, (), "how exact an implementation must be"),
}
CONSTRAINTS = {
    "C1": "custom_call_target is not empty",
    "C2": "a target that has a meaning here has the operands and options that it takes",
    "C3": "the result of such a target has the shape that follows from its operands and options",
}


def infer(instruction: Instruction, *operands: Shape) -> Shape:
    require(bool(instruction.custom_call_target), "C1", "custom_call_target is empty")
    return custom_calls.infer(instruction, *operands)


def evaluate(instruction: Instruction, *operands: Value, run: Run, device: Device) -> Value:
    return custom_calls.evaluate(instruction, *operands, run=run, device=device)


EXAMPLES = (
    Example(
        """x = f32[2] parameter(0)
           ROOT r = f32[2] custom-call(x), custom_call_target="Sharding", sharding={replicated}""",
        ("f32[2] {1,2}",),
        ("f32[2] {1,2}",),
        "a remark for a partitioner",
    ),
    Example(
        """x = f32[<=3] parameter(0)
           ROOT r = (f32[3], s32[]) custom-call(x), custom_call_target="PadToStatic"
           """,
        ("f32[2] {1,2}",),
        ("f32[3] {1,2,0}", "s32[] 2"),
        "at its bound, with zeros, and its size",
    ),
    Example(
        """x = f32[3] parameter(0)
           n = s32[] parameter(1)
           ROOT r = f32[<=3] custom-call(x, n), custom_call_target="SliceToDynamic"
           """,
        ("f32[3] {1,2,3}", "s32[] 2"),
        ("f32[2] {1,2}",),
    ),
)

COUNTEREXAMPLES = {
    "C1": 'x = f32[2] parameter(0)\nROOT r = f32[2] custom-call(x), custom_call_target=""',
    "C2": """x = f32[2,3] parameter(0)
             ROOT r = (f32[2,3], f32[3]) custom-call(x), custom_call_target="Eigh" """,
    "C3": """x = f32[3,3] parameter(0)
             ROOT r = (f32[3,3], f32[1]) custom-call(x), custom_call_target="Eigh" """,
}
