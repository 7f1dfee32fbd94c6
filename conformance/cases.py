"""The cases, collected from the specification: nobody lists them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np
from refxla_spec import text
from refxla_spec.module import Module
from refxla_spec.operation import operations


@dataclass(frozen=True)
class Case:
    """A program about one operation, what it is run on, and what comes out, by hand: `expected` has one array for each
    leaf of the result."""

    opcode: str
    name: str  # "add_0": the operation and the number of its example
    module: Module
    inputs: tuple[np.ndarray, ...]
    expected: tuple[np.ndarray, ...]
    note: str


def cases(opcodes: Collection[str] = ()) -> Iterator[Case]:
    """Every EXAMPLE of these operations, or of all, in alphabetical order. Raises KeyError for an unknown opcode."""
    known = operations()
    for opcode in opcodes or known:
        for number, example in enumerate(known[opcode].examples):
            yield Case(
                opcode,
                f"{opcode}_{number}",
                text.parse(example.hlo),
                tuple(text.parse_literal(literal) for literal in example.inputs),
                tuple(text.parse_literal(literal) for literal in example.expected),
                example.note,
            )
