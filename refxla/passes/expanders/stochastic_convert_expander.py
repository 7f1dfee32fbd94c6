"""stochastic-convert as arithmetic, exact in f32 (f64 for f64), by the formula on its page in the specification."""

from __future__ import annotations

from refxla_spec.errors import UnsupportedError
from refxla_spec.module import Instruction
from refxla_spec.types import ELEMENT_TYPES, F32, F64

from ...ir.builder import Build


def _expand(i: Instruction) -> Instruction:
    b, (operand, random), result = Build(i.name), i.operands, i.shape.element_type
    if result.kind != "signed":
        raise UnsupportedError(
            f"{i.name}: stochastic-convert to {result}: only signed integers have a meaning; convert to one of them, "
            "and then to the type"
        )
    bits = random.shape.element_type.bits
    x = b.convert(operand, F64 if bits == 64 else F32)
    size = b.abs(x)
    floor = b.floor(size)
    fraction = b.make("select", b.is_finite(size), b.subtract(size, floor), b.full(0, size.shape))
    scaled = b.convert(b.multiply(fraction, 2.0**bits), random.shape.element_type)
    up = b.compare(random, scaled, direction="LT")
    wide = ELEMENT_TYPES["s64"] if result.bits == 64 else ELEMENT_TYPES["s32"]
    least, most = -(2 ** (result.bits - 1)), 2 ** (result.bits - 1) - 1
    whole = b.add(b.convert(floor, wide), b.convert(up, wide))
    signed = b.make("select", b.compare(x, 0, direction="LT"), b.negate(whole), whole)
    signed = b.make("select", b.compare(x, float(least), direction="LE"), b.full(least, signed.shape), signed)
    signed = b.make("select", b.compare(x, float(most), direction="GE"), b.full(most, signed.shape), signed)
    return b.convert(signed, result)


EXPANSIONS = {"stochastic-convert": _expand}
