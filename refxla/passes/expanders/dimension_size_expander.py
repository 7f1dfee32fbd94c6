"""get-dimension-size of a static shape is a constant; for dynamic shapes the pass `dynamic-padder` has the sizes."""

from __future__ import annotations

from refxla_spec.module import Instruction
from refxla_spec.types import S32

from ...ir.builder import Build


def _get(i: Instruction) -> Instruction:
    return Build(i.name).scalar(i.operands[0].shape.dimensions[i.dimensions[0]], S32)


EXPANSIONS = {"get-dimension-size": _get}
