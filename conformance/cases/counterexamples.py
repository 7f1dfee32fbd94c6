"""Every COUNTEREXAMPLE of every operation of the specification: for each constraint, a program that breaks it."""

from __future__ import annotations

from collections.abc import Iterator

from refxla_spec.operation import operations

from . import Case


def cases(thorough: bool) -> Iterator[Case]:
    """The counterexamples, operation by operation; the thorough set is the same."""
    for operation in operations().values():
        for label, hlo in operation.counterexamples.items():
            yield Case(
                name=f"counterexample/{operation.opcode}/{label.lower()}",
                kind="counterexample",
                opcode=operation.opcode,
                hlo=hlo,
                constraint=f"{operation.opcode.replace('-', '_')}_{label.lower()}",
                note=operation.constraints.get(label, ""),
            )
