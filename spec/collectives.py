"""What the collectives share: attributes, the rules about groups and reducers, and how values are combined."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from .accumulate import narrow, wide_type, widen
from .attributes import BOOL, GROUPS, INT, Attribute
from .errors import EvaluationError, plural
from .groups import Count, GroupList, numbered
from .module import Computation, Instruction
from .numerics import convert, type_of
from .operation import require
from .types import S32, U32, Array, ElementType, Shape, Value
from .vectorize import Run, binary_opcode, run_vectorized

REPLICA_GROUPS = Attribute(GROUPS, GroupList(), "who meets whom (see groups.py); empty: all of them one group")
CHANNEL_ID = Attribute(INT, None, "there: partitions take part, too (see groups.py); its value means nothing")
GLOBAL_IDS = Attribute(BOOL, False, "with channel_id: the groups have numbers of devices")
LAYOUT = Attribute(BOOL, False, "whether an implementation must keep the layouts")
DYNAMIC_ROOT = Attribute(BOOL, False, "whether the last operand says for each other one which member is the root")
OF_REPLICAS: dict[str, Attribute] = {
    "replica_groups": REPLICA_GROUPS,
    "channel_id": CHANNEL_ID,
    "use_global_device_ids": GLOBAL_IDS,
    "constrain_layout": LAYOUT,
}
GROUPS_RULE = "replica_groups have the numbers from 0 on, each once, in groups of at least one"
EQUAL_GROUPS_RULE = "replica_groups have the numbers from 0 on, each once, in groups of one size that is not 0"
ALL_NAMED_RULE = (
    "replica_groups, if there are any, have as many numbers as there are replicas (or partitions, or devices: see "
    "groups.py), where that is known"
)
MODE_RULE = "use_global_device_ids comes with a channel_id, which may be 0, and replica_groups"
REDUCER_RULE = (
    "to_apply takes two scalars of one type and gives one: of the type of every operand, or one that holds its values"
)


def check_groups(instruction: Instruction, label: str, equal: bool = True) -> None:
    """GROUPS_RULE, or with `equal` EQUAL_GROUPS_RULE."""
    groups = instruction.replica_groups.groups
    numbers = sorted(n for g in groups for n in g)
    fits = all(groups) and numbers == list(range(len(numbers))) and (not equal or len({len(g) for g in groups}) < 2)
    require(fits, label, f"replica_groups is {instruction.replica_groups}")


def check_mode(instruction: Instruction, label: str) -> None:
    """MODE_RULE."""
    channel = instruction.attributes.get("channel_id") is not None  # the text may say that it is 0
    fits = not instruction.use_global_device_ids or (channel and instruction.replica_groups.groups)
    stated = f"channel_id is {instruction.channel_id}" if channel else "there is no channel_id"
    require(
        bool(fits), label, f"use_global_device_ids is true, {stated}, replica_groups is {instruction.replica_groups}"
    )


def check_all_named(instruction: Instruction, replicas: Count, partitions: Count, label: str) -> None:
    """ALL_NAMED_RULE, for groups that keep to GROUPS_RULE and counts as in `groups.numbered`."""
    count, what = numbered(instruction, replicas, partitions)
    groups = instruction.replica_groups.groups
    fits = count is None or not groups or sum(map(len, groups)) == count
    require(fits, label, f"replica_groups is {instruction.replica_groups}, and there {counted(count, what)}")


def check_inside(
    instruction: Instruction, numbers: Iterable[int], replicas: Count, partitions: Count, label: str
) -> None:
    """The numbers are below their count, where it is known."""
    count, what = numbered(instruction, replicas, partitions)
    outside = next((n for n in numbers if count is not None and n >= count), None)
    require(outside is None, label, f"{what} {outside} is named, and there {counted(count, what)}")


def counted(count: int | None, what: str) -> str:
    """A count of replicas, partitions or devices, in words."""
    return f"is one {what}" if count == 1 else f"are {count} {what}s"


def one_or_tuple(parts: tuple[Any, ...] | list[Any]) -> Any:
    """The shape, or value, of an operation that gives a tuple for several operands, and for one no tuple."""
    if len(parts) == 1:
        return parts[0]
    return Shape.tuple_of(*parts) if isinstance(parts[0], Shape) else tuple(parts)


def check_arrays(operands: tuple[Shape, ...], label: str) -> None:
    """There is at least one operand, and each is an array."""
    fits = len(operands) > 0 and all(o.is_array for o in operands)
    require(fits, label, f"the operands are ({', '.join(map(str, operands))})")


def data_shapes(instruction: Instruction, operands: tuple[Shape, ...], arrays: str, root: str) -> tuple[Shape, ...]:
    """The operands without the root that has_dynamic_root puts after them; raises by these two labels."""
    if not instruction.has_dynamic_root:
        check_arrays(operands, arrays)
        return operands
    check_arrays(operands[:-1], arrays)
    *data, last = operands
    fits = last.compatible(Shape(S32, (len(data),)))
    require(fits, root, f"root is {last}, after {plural(len(data), 'operand')}")
    return tuple(data)


def rooted(instruction: Instruction, operands: tuple[Any, ...], device: Any) -> tuple[tuple[Any, ...], list[int]]:
    """The operands without the root, and for each the place of its root in the group.

    EvaluationError for a place that the group does not have.
    """
    if not instruction.has_dynamic_root:
        return operands, [0] * len(operands)
    places, count = operands[-1].tolist(), len(device.group(instruction))
    outside = next((p for p in places if count and not 0 <= p < count), None)
    if outside is not None:
        raise EvaluationError(f"{instruction.name}: the root is member {outside}, and the group has {count}")
    return operands[:-1], places


def check_reducer(instruction: Instruction, operands: tuple[Shape, ...], label: str) -> None:
    """REDUCER_RULE."""
    reducer = instruction.to_apply
    shapes = [p.shape for p in reducer.parameters] + [reducer.root.shape]
    fits = len(shapes) == 3 and all(s.is_scalar and s.element_type is shapes[0].element_type for s in shapes)
    for o in operands:
        fits = fits and _holds(shapes[0].element_type, o.element_type)
        signature = f"({', '.join(map(str, shapes[:-1]))}) and gives {shapes[-1]}"
        require(fits, label, f"{reducer.name} takes {signature}, an operand is {o}")


def combined(reducer: Computation, values: list[Array], run: Run) -> Array:
    """Arrays of several devices combined element by element; sums and products are computed in a wider type and rounded
    once, any other reducer is applied to one value after the other, in its own type, and the last result rounded."""
    opcode = binary_opcode(reducer)
    if opcode in ("add", "multiply") and values[0].dtype != np.bool_:
        element_type = type_of(values[0])
        wide = [widen(v, wide_type(element_type)) for v in values]
        with np.errstate(all="ignore"):
            result = wide[0]
            for v in wide[1:]:
                result = result + v if opcode == "add" else result * v
        return narrow(result, element_type)
    parameter_type = reducer.parameters[0].shape.element_type
    result, *rest = (convert(v, parameter_type) for v in values)
    for v in rest:
        result = run_vectorized(reducer, result, v, run=run)
    return convert(result, type_of(values[0]))


def _holds(wide: ElementType, narrow: ElementType) -> bool:
    """Whether every value of one element type is one of the other."""
    return wide is narrow or (
        wide.kind == narrow.kind and bool(np.can_cast(narrow.array_dtype, wide.array_dtype, "safe"))
    )


# -- operations in two halves


def contexts(instruction: Instruction, first: int, label: str) -> tuple[Shape, ...]:
    """The shapes of what an implementation keeps in the tuple of a start, after its `first` elements, as stated."""
    shapes = instruction.shape.elements[first:]
    fits = all(s.is_scalar and s.element_type.is_integer for s in shapes)
    require(fits, label, f"the result is stated as {instruction.shape}")
    return shapes


def started(instruction: Instruction, *parts: Value) -> Value:
    """The value of a start: its parts, and zeros for the contexts."""
    rest = instruction.shape.elements[len(parts) :]
    return (*parts, *(np.zeros((), s.element_type.dtype) for s in rest))


CONTEXT = Shape(U32)


def check_begun(instruction: Instruction, operand: Shape, opcodes: tuple[str, ...], parts: int, label: str) -> None:
    """The operand is one of these starts, and has the tuple that it gives."""
    opcode = instruction.operands[0].opcode
    fits = opcode in opcodes and len(operand.elements) >= parts
    require(fits, label, f"the operand is {opcode}, of shape {operand}")
