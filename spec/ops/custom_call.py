"""An operation that HLO does not have, by its name: custom_call_target says which.

The result has the shape that the instruction states. The targets that have a meaning here stand in `custom_calls.py`,
and `register` adds to them. A program with any other target is valid and cannot be evaluated.
"""

from __future__ import annotations

from collections.abc import Callable

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
from ..custom_calls import TARGETS
from ..errors import UnsupportedError
from ..module import Instruction
from ..operation import Example, require
from ..types import Shape, Value

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
CONSTRAINTS = {"C1": "custom_call_target is not empty"}

Evaluate = Callable[..., Value]
_targets: dict[str, Evaluate] = dict(TARGETS)


def register(target: str, evaluate: Evaluate) -> None:
    """Give a custom-call target a meaning: `evaluate(instruction, *operand_values) -> Value`, for the whole process.

    A target that has one already gets the new one.
    """
    _targets[target] = evaluate


def infer(instruction: Instruction, *operands: Shape) -> Shape:
    require(bool(instruction.custom_call_target), "C1", "custom_call_target is empty")
    return instruction.shape


def evaluate(instruction: Instruction, *operands: Value) -> Value:
    target = instruction.custom_call_target
    if target not in _targets:
        raise UnsupportedError(
            f"{instruction.name}: the custom-call target {target!r} has no meaning here; "
            f"known are {', '.join(sorted(_targets))}; give it one with refxla_spec.ops.custom_call.register"
        )
    return _targets[target](instruction, *operands)


EXAMPLES = (
    Example(
        """x = f32[2] parameter(0)
           ROOT r = f32[2] custom-call(x), custom_call_target="Sharding", sharding={replicated}""",
        ("f32[2] {1,2}",),
        ("f32[2] {1,2}",),
        "a remark for a partitioner",
    ),
)

COUNTEREXAMPLES = {"C1": 'x = f32[2] parameter(0)\nROOT r = f32[2] custom-call(x), custom_call_target=""'}
