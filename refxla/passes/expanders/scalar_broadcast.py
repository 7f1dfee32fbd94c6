"""Broadcasts scalar operands of elementwise operations, so that operands and result have the same dimensions.

A clamp of complex numbers becomes a minimum and a maximum.
"""

from __future__ import annotations

from dataclasses import replace

from refxla_spec.module import Instruction

from ..._core.shapes import make


def _spread(i: Instruction) -> Instruction | None:
    """The clamp with its scalar bounds, or the select with its scalar predicate, broadcast."""
    if not i.shape.is_array or not i.shape.rank or not any(o.shape.is_scalar for o in i.operands):
        return None
    operands = list(i.operands)
    for n, o in enumerate(operands):
        if o.shape.is_scalar:
            wide = i.shape.with_element_type(o.shape.element_type)
            operands[n] = make("broadcast", o, name=f"{i.name}.{n}", shape=wide, dimensions=())
    return replace(i, operands=operands)


def _clamp(i: Instruction) -> Instruction | None:
    instruction = _spread(i)
    if not i.shape.element_type.is_complex:
        return instruction
    low, x, high = (instruction or i).operands
    upper = make("maximum", x, low, name=f"{i.name}.upper")
    return make("minimum", upper, high, name=i.name)


EXPANSIONS = {"clamp": _clamp, "select": _spread}
