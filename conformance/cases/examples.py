"""Every EXAMPLE of every operation of the specification, with its results."""

from __future__ import annotations

from collections.abc import Iterator

from refxla_spec import text
from refxla_spec.operation import Example, operations

from ..targets.base import leaves
from . import Case


def cases(thorough: bool) -> Iterator[Case]:
    """The examples, operation by operation; the thorough set is the same."""
    for operation in operations().values():
        for number, example in enumerate(operation.examples):
            yield Case(
                name=f"example/{operation.opcode}/{number}",
                kind="example",
                opcode=operation.opcode,
                hlo=example.hlo,
                inputs=tuple(text.parse_literal(literal) for literal in example.inputs),
                expected=tuple(leaves([text.parse_literal(e) for e in (*example.expected, *example.outfed)])),
                note=example.note,
                infeed=tuple(text.parse_literal(i) for i in example.infeed) if _has_host(example) else None,
            )


def _has_host(example: Example) -> bool:
    return bool(example.infeed or example.outfed)
