"""Loops that may have no end: the reference with a bound on how often a loop may go round."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from unittest.mock import patch

from refxla_spec.errors import EvaluationError
from refxla_spec.module import Instruction
from refxla_spec.operation import operations
from refxla_spec.types import Value


class EndlessLoop(EvaluationError):
    """A loop has gone round as often as it may."""


@contextmanager
def bounded_loops(turns: int) -> Iterator[None]:
    """For a while no loop of the reference goes round more often: EndlessLoop is raised instead."""
    known = operations()
    with patch.dict(known, {"while": replace(known["while"], evaluate=bounded_while(turns))}):
        yield


def bounded_while(turns: int) -> Callable[..., Value]:
    """The meaning of `while`, with that bound."""

    def evaluate(instruction: Instruction, value: Value, *, run: Callable[..., Value]) -> Value:
        for _ in range(turns):
            if not run(instruction.condition, value):
                return value
            value = run(instruction.body, value)
        raise EndlessLoop(f"{instruction.name} has made {turns} turns")

    return evaluate
