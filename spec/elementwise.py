"""What the elementwise operations share: their inputs, constraints and shape rules, one family for each arity.

An elementwise operation computes each element of its result from the elements at the same index of its operands; of
dynamic sizes that differ the smallest counts (dynamic.py), which the interpreter sees to before `evaluate`. A file
in `ops/` names its family and the kinds of element types it takes:

    INPUTS, CONSTRAINTS, infer, COUNTEREXAMPLES = unary(FLOAT, COMPLEX)

and adds its formula, its `evaluate` and its examples. Results have no layout: layouts do not belong to meaning.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from .attributes import VERBATIM, Attribute
from .dynamic import union
from .module import Instruction
from .operation import operations, require
from .types import BY_DTYPE, ELEMENT_TYPES, Array, ElementType, Shape

PRED, SIGNED, UNSIGNED, FLOAT, COMPLEX = "pred", "signed", "unsigned", "float", "complex"
INTEGER = (SIGNED, UNSIGNED)

Family = tuple[dict[str, str], dict[str, str], Callable[..., Shape], dict[str, str]]

# What XLA lets elementary functions carry; the meaning here is the same for every mode.
RESULT_ACCURACY = {
    "result_accuracy": Attribute(
        VERBATIM, "", "the accuracy asked for, such as {mode=highest}; the contract holds anyway"
    )
}


# Elementwise operations whose operands or results differ in type, or follow rules of their own.
_OTHERS = frozenset("bitcast-convert clamp compare complex convert copy reduce-precision select".split())


@cache
def is_elementwise(opcode: str) -> bool:
    """Whether an operation computes each element of its result from the elements at the same index of its operands."""
    rule = operations().get(opcode)
    return opcode in _OTHERS or (rule is not None and rule.infer.__module__ == __name__)


def _flat(kinds: tuple[str | tuple[str, ...], ...]) -> tuple[str, ...]:
    return tuple(k for kind in kinds for k in ((kind,) if isinstance(kind, str) else kind))


def _words(kinds: tuple[str, ...]) -> str:
    return " or ".join(", ".join(kinds).rsplit(", ", 1))


def _vector(kinds: tuple[str, ...], among: bool) -> Shape:
    """An array of two elements of a type that is among the kinds; or that is not, or else a token."""
    types = (ELEMENT_TYPES[t] for t in ("f32", "s32", "c64", "pred", "u32", "token"))
    element_type = next(t for t in types if (t.kind in kinds) is among)
    return Shape(element_type, (2,) if element_type.is_array else ())


def same_dimensions(a: Shape, b: Shape) -> bool:
    """Whether two array shapes agree in all but element type, layout and dynamic marks."""
    return a.is_array and b.is_array and a.dimensions == b.dimensions


def unary(*kinds: str | tuple[str, ...], result: Callable[[ElementType], ElementType] | None = None) -> Family:
    """INPUTS, CONSTRAINTS, infer and COUNTEREXAMPLES of an operation with one operand.

    `kinds` are the kinds of element types that it takes; `result` maps the operand's element type to the result's
    (the same by default).
    """
    flat = _flat(kinds)
    inputs = {"operand": f"array of {_words(flat)} type"}
    constraints = {
        "C1": f"the element type of operand is {_words(flat)}",
        "C2": "the result has the dimensions of operand",
    }

    def infer(instruction: Instruction, operand: Shape) -> Shape:
        require(operand.element_type.kind in flat, "C1", f"operand is {operand}; it must be {_words(flat)}")
        shape = operand.without_layout()
        return shape if result is None else shape.with_element_type(result(shape.element_type))

    vector, other = _vector(flat, True), _vector(flat, False)
    longer = Shape(result(vector.element_type) if result else vector.element_type, (3,))
    counterexamples = {
        "C1": f"x = {other} parameter(0)\nROOT y = {other} OPCODE(x)",
        "C2": f"x = {vector} parameter(0)\nROOT y = {longer} OPCODE(x)",
    }
    return inputs, constraints, infer, counterexamples


def binary(*kinds: str | tuple[str, ...], result: ElementType | None = None) -> Family:
    """The same of an operation with two operands of one shape; `result` is the result's element type, if another."""
    flat = _flat(kinds)
    inputs = {"lhs": f"array of {_words(flat)} type", "rhs": "array of the same type and dimensions"}
    constraints = {
        "C1": f"the element type of lhs is {_words(flat)}",
        "C2": "lhs and rhs have the same element type",
        "C3": "lhs and rhs have the same dimensions; a scalar is not broadcast",
        "C4": "the result has the dimensions of lhs",
    }

    def infer(instruction: Instruction, lhs: Shape, rhs: Shape) -> Shape:
        require(lhs.element_type.kind in flat, "C1", f"lhs is {lhs}; it must be {_words(flat)}")
        require(lhs.element_type is rhs.element_type, "C2", f"lhs is {lhs} and rhs is {rhs}; convert one of them")
        require(same_dimensions(lhs, rhs), "C3", f"lhs is {lhs} and rhs is {rhs}; broadcast or reshape one of them")
        shape = union(lhs, rhs) if rhs.dynamic else lhs.without_layout()
        return shape if result is None else shape.with_element_type(result)

    def applied(lhs: Shape, rhs: Shape, size: int = 2) -> str:
        shape = Shape(result or lhs.element_type, (size,)) if lhs.is_array else lhs
        return f"x = {lhs} parameter(0)\ny = {rhs} parameter(1)\nROOT z = {shape} OPCODE(x, y)"

    vector, other = _vector(flat, True), _vector(flat, False)
    counterexamples = {
        "C1": applied(other, other),
        "C2": applied(vector, Shape.array("s8", (2,))),
        "C3": applied(vector, Shape(vector.element_type)),
        "C4": applied(vector, vector, size=3),
    }
    return inputs, constraints, infer, counterexamples


def by_kind(array: Array, **functions: Callable[..., Array]) -> Callable[..., Array]:
    """The function given for the kind of the array's element type; `integer` stands for signed and unsigned."""
    kind = BY_DTYPE[array.dtype].kind
    if kind in functions:
        return functions[kind]
    return functions["integer"] if kind in INTEGER else functions["other"]
