"""Fields of a proto that the schema does not name: a newer XLA wrote them, and they may change the meaning of a
program."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.unknown_fields import UnknownFieldSet
from refxla_spec.errors import UnsupportedError
from refxla_spec.leniency import unknown

from .hlo_schema import HloModuleProto


def check_known(module: Any, around: Any = None) -> None:
    """Raises UnsupportedError for a field of a HloModuleProto, of a message in it, or of the HloProto around it, that
    the schema does not name.

    If reading is lenient, a field with its default value (0, or empty) is only a warning.
    """
    for number, value in _own(around) if around is not None else ():
        _tell(f"module {module.name}", "HloProto", number, value)
    if not _has_unknown(module):
        return
    for number, value in _own(module):
        _tell(f"module {module.name}", "HloModuleProto", number, value)
    for field, value in module.ListFields():
        if field.name != "computations":
            _check(f"module {module.name}", value)
    for computation in module.computations:
        for instruction in computation.instructions:
            _check(instruction.name, instruction)
        for number, value in _own(computation):
            _tell(f"computation {computation.name}", "HloComputationProto", number, value)
        _check(f"computation {computation.name}", computation.program_shape)


def _has_unknown(message: Any) -> bool:
    """Whether there is any in the message; determined without a walk, since most programs have none."""
    copy = HloModuleProto()
    copy.CopyFrom(message)
    copy.DiscardUnknownFields()
    return bool(copy.ByteSize() != message.ByteSize())


def _check(where: str, value: Any) -> None:
    for message in _messages(value):
        for number, content in _own(message):
            _tell(where, message.DESCRIPTOR.name, number, content)


def _messages(value: Any) -> Iterator[Any]:
    """The messages in a field's value, outermost first."""
    if hasattr(value, "ListFields"):
        yield value
        for field, inner in value.ListFields():
            if field.type == FieldDescriptor.TYPE_MESSAGE:
                yield from _messages(inner)
    elif not isinstance(value, (str, bytes, int, float)):
        for element in value:
            if not hasattr(element, "ListFields"):
                break
            yield from _messages(element)


def _own(message: Any) -> list[tuple[int, Any]]:
    return [(field.field_number, field.data) for field in UnknownFieldSet(message)]


def _tell(where: str, kind: str, number: int, value: Any) -> None:
    unknown(UnsupportedError(f"{where}: the field of number {number} of {kind} is not known"), not value)
