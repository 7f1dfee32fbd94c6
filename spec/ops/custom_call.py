"""An operation that HLO does not have, by its name: custom_call_target says which.

The result has the shape that the instruction states. Targets that are known here are those of `register`; each is a
function of the instruction and the operands' values. Any other target is a valid program that cannot be evaluated.
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
_targets: dict[str, Evaluate] = {}


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


def _identity(instruction: Instruction, operand: Value) -> Value:
    """A remark about where a value lives. Where it changes the shape, it divides a value among devices."""
    if not Shape.of(operand).compatible(instruction.shape):
        raise UnsupportedError(
            f"{instruction.name}: {instruction.custom_call_target} makes {instruction.shape} of {Shape.of(operand)}: "
            f"a program for several devices; compile it for one"
        )
    return operand


for _target in (
    "Sharding",
    "SPMDFullToShardShape",
    "SPMDShardToFullShape",
    "LayoutConstraint",
    "MoveToDevice",
    "MoveToHost",
    "annotate_device_placement",
):
    register(_target, _identity)


EXAMPLES = (
    Example(
        """x = f32[2] parameter(0)
           ROOT r = f32[2] custom-call(x), custom_call_target="Sharding", sharding={replicated}""",
        ("f32[2] {1,2}",),
        ("f32[2] {1,2}",),
        "a remark for a partitioner",
    ),
)
