"""Sorts of which only the first elements of each row are read: an annotation of the instruction that does not change
its value."""

from __future__ import annotations

from refxla_spec.module import Instruction

_NOTE = "refxla.first"


def note_first(sort: Instruction, count: int) -> None:
    """Records that only the first `count` elements of each row are read."""
    others = tuple(pair for pair in sort.frontend_attributes if pair[0] != _NOTE)
    sort.frontend_attributes = (*others, (_NOTE, str(count)))


def first_of(sort: Instruction) -> int | None:
    """How many elements of each row are read at most, from the first on; None if nothing is recorded."""
    return next((int(count) for name, count in sort.frontend_attributes if name == _NOTE), None)
