"""Powers with some constant as products, quotients and roots, whose results are rounded once.

    1^y = 1      x^1 = x      x^2 = x x      x^-1 = 1 / x      x^(1/2) = sqrt(x)

The first one holds for any y, NaNs and negative integers too; the last one for x > 0 and NaN: the powers of -0 and -inf
are 0 and inf (spec/ops/power.py).
"""

from __future__ import annotations

from refxla_spec.module import Instruction

from ...ir.builder import Build
from ..algebraic_simplifier import scalar_value

_FLOATS = ("f16", "bf16", "f32", "f64")


def _expand(i: Instruction) -> Instruction | None:
    b, element_type = Build(i.name), i.shape.element_type
    if element_type.name not in _FLOATS and not element_type.is_integer:
        return None
    x, number = i.operands[0], scalar_value(i.operands[1])
    if number == 1 or scalar_value(x) == 1:
        return x
    if number == 2:
        return b.multiply(x, x)
    if element_type.is_integer:
        return None
    if number == -1:
        return b.divide(b.full(1, x.shape), x)
    if number == 0.5:
        infinite = b.compare(b.abs(x), float("inf"), direction="EQ")
        return b.make("select", infinite, b.full(float("inf"), x.shape), b.sqrt(b.add(x, b.full(0, x.shape))))
    return None


EXPANSIONS = {"power": _expand}
