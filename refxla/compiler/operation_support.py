"""How the compiler handles each operation of HLO, in a word, from its tables."""

from __future__ import annotations

from functools import cache

from refxla_spec.errors import Error
from refxla_spec.operation import operations
from refxla_spec.text import parse

from ..ir import library_calls
from ..ir.op_table import HERO, ROWS, row
from ..passes import call_inliner, collective_lowering, expanders, pipeline

REFERENCE_ONLY = "reference only"


@cache
def compiled_as(opcode: str) -> str:
    """How an operation is handled: how kernels compute it, or that a pass inlines or lowers it; REFERENCE_ONLY for one
    that the compiler does not support."""
    library = "LAPACK, or " if opcode in library_calls.NAMES else ""
    entry = ROWS.get(opcode)
    if opcode in call_inliner.INLINED:
        return "inlined"
    if opcode in expanders.EXPANSIONS or opcode in collective_lowering.EXPANSIONS:
        if library or entry is None:
            return f"{library}expanded"
    if entry is not None:
        return f"a kernel of its own ({entry.kind})" if entry.op_class == HERO else entry.op_class
    return "lowered by a pass" if _compiles(opcode) else REFERENCE_ONLY


def _compiles(opcode: str) -> bool:
    """Whether the passes turn an example into a form that the scheduler accepts."""
    for example in operations()[opcode].examples:
        try:
            for i in pipeline.optimize(parse(example.hlo)).instructions():
                row(i)
        except (Error, ValueError, TypeError, KeyError):
            continue
        return True
    return False
