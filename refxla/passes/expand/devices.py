"""What tells devices apart, in programs for one device: its numbers are 0, and a mark of a domain changes nothing."""

from __future__ import annotations

from refxla_spec.module import Instruction
from refxla_spec.types import U32

from ...build import Build


def _first(i: Instruction) -> Instruction:
    return Build(i.name).scalar(0, U32)


EXPANSIONS = {"partition-id": _first, "replica-id": _first, "domain": lambda i: i.operands[0]}
