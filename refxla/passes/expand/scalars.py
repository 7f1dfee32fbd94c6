"""Scalar operands of elementwise operations become arrays, so that operand and result have the same dimensions."""

from __future__ import annotations

from refxla_spec.module import Instruction
from refxla_spec.operation import make


def _spread(i: Instruction) -> Instruction | None:
    """Broadcast the scalar bounds of a clamp or the scalar predicate of a select, in place."""
    if not i.shape.is_array or not i.shape.rank:
        return None
    for n, o in enumerate(i.operands):
        if o.shape.is_scalar:
            wide = i.shape.with_element_type(o.shape.element_type)
            i.operands[n] = make("broadcast", o, name=f"{i.name}.{n}", shape=wide, dimensions=())
    return None


EXPANSIONS = {"clamp": _spread, "select": _spread}
