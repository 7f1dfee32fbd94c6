"""Loops that may not end: the reference with a bound on the iterations of a loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from refxla_spec.errors import EvaluationError
from refxla_spec.module import Instruction
from refxla_spec.operation import operation, replaced
from refxla_spec.types import Value


class EndlessLoop(EvaluationError):
    """A loop has reached the bound on its iterations."""


@contextmanager
def bounded_loops(iterations: int) -> Iterator[None]:
    """A context in which loops of the reference that exceed a number of iterations raise EndlessLoop."""
    with replaced({"while": replace(operation("while"), evaluate=bounded_while(iterations))}):
        yield


def bounded_while(iterations: int) -> Callable[..., Value]:
    """The meaning of `while`, with that bound."""

    def evaluate(instruction: Instruction, value: Value, *, run: Callable[..., Value]) -> Value:
        for _ in range(iterations):
            if not run(instruction.condition, value):
                return value
            value = run(instruction.body, value)
        raise EndlessLoop(f"{instruction.name} has made {iterations} iterations")

    return evaluate
