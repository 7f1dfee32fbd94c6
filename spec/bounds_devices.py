"""Bounds of errors for collectives and for what is done in two halves, on one device: values pass, and so do errors."""

from __future__ import annotations

from typing import Any

from .bounds import Bounds, Error, exact, no_error, undecided
from .collectives import started
from .module import Instruction
from .types import Value


def _own(self: Bounds, i: Instruction, values: list[Value], errors: list[Error], result: Value) -> Error:
    """A device that meets itself alone gets what it brings."""
    data = errors[:-1] if i.attributes.get("has_dynamic_root") else errors
    return tuple(data) if isinstance(result, tuple) else data[0]


def _passed(self: Bounds, i: Instruction, values: list[Value], errors: list[Error], result: Value) -> Error:
    return errors[0]


def _part(n: int) -> Any:
    def rule(self: Bounds, i: Instruction, values: list[Value], errors: list[Error], result: Value) -> Error:
        return errors[0][n]

    return rule


def _begun(self: Bounds, i: Instruction, values: list[Value], errors: list[Error], result: Value) -> Error:
    """The tuple of a start: twice what the device brings, and contexts."""
    own = tuple(errors) if len(errors) > 1 else errors[0]
    return own, own, *(None for _ in result[2:])


def _permuted(self: Bounds, i: Instruction, values: list[Value], errors: list[Error], result: Value) -> Error:
    """What it sends to itself; zeros are exact."""
    begun = i.opcode.endswith("-start")
    if i.slice_sizes:
        return no_error(result) if exact(errors) else undecided(result)
    if not i.source_target_pairs:
        arrived = no_error(result[1] if begun else result)
        own = tuple(errors) if len(errors) > 1 else errors[0]
        return (own, arrived, *(None for _ in result[2:])) if begun else arrived
    return (_begun if begun else _own)(self, i, values, errors, result)


def _copied(self: Bounds, i: Instruction, values: list[Value], errors: list[Error], result: Value) -> Error:
    return errors[0], errors[0], None


def _async_start(self: Bounds, i: Instruction, values: list[Value], errors: list[Error]) -> tuple[Value, Error]:
    value, error = self.run(i.calls, values, errors)
    result = started(i, tuple(values), value)
    return result, (tuple(errors), error, *(None for _ in result[2:]))


def _exact(self: Bounds, i: Instruction, values: list[Value], errors: list[Error], result: Value) -> Error:
    return no_error(result)


CONTROL = {"async-start": _async_start}
RULES = {
    **dict.fromkeys(("all-reduce", "all-reduce-start", "all-gather", "reduce-scatter", "all-to-all"), _own),
    **dict.fromkeys(("collective-broadcast", "collective-reduce"), _own),
    **dict.fromkeys(("all-reduce-done", "async-update"), _passed),
    "all-gather-start": _begun,
    **dict.fromkeys(("collective-permute", "collective-permute-start"), _permuted),
    **dict.fromkeys(("all-gather-done", "collective-permute-done", "async-done"), _part(1)),
    "copy-start": _copied,
    "copy-done": _part(0),
    **dict.fromkeys(("partition-id", "replica-id"), _exact),
}
