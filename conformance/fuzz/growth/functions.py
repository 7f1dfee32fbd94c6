"""Functions of new arrays, so that none is rare and each meets the operands at which errors are likely; and
roundings."""

from __future__ import annotations

import numpy as np
from refxla_spec.compare import precision
from refxla_spec.module import Instruction
from refxla_spec.operation import Violation
from refxla_spec.types import ELEMENT_TYPES, ElementType, Shape

from .. import values
from ..program_builder import Dims, ProgramBuilder, Skip, rule
from .algebra import fresh, operand_of
from .elementwise import plain

MODES = ("edges", "edges", "special", "special", "ties", "bits", "normal", "whole", "whole", "small")
COMMON = ("f32", "f32", "f64", "f16", "bf16", "c64", "c64", "c128", "s32", "u8", "s64")
WIDE = ("f64", "f64", "f32", "f32", "f16", "s64", "s32", "u32", "u64")  # types that are rounded
FLOATS = tuple(t for t in ELEMENT_TYPES.values() if t.is_float)


def row(f: ProgramBuilder) -> Dims:
    """The dimensions of a row of operands."""
    return () if f.scalar else (f.r.choice((3, 5, 8, 17)),)


@rule(3.5)
def functions(f: ProgramBuilder) -> None:
    """Several functions of the same operands, from the whole table of them; the elements of the two are often equal
    except for their signs."""
    t, dims = f.any_type(*COMMON), row(f)
    x = values.array(f.r, t, dims, f.r.choice(MODES))
    y = values.array(f.r, t, dims, f.r.choice(MODES))
    if f.flip():
        rng = np.random.default_rng(f.r.getrandbits(32))
        signed = np.where(rng.random(dims) < 0.5, x, -x if t.kind in ("signed", "float", "complex") else x)
        y = np.where(rng.random(dims) < 0.3, y, signed).astype(t.dtype)
    operands = [operand_of(f, x), operand_of(f, y)]
    count = f.r.randint(2, 7)
    for opcode, arity in f.r.sample(plain(), len(plain())):
        try:
            f.put(opcode, *operands[:arity])
        except Violation:
            continue  # no function of this type
        count -= 1
        if not count:
            return


@rule(2)
def rounded(f: ProgramBuilder) -> None:
    """Numbers halfway between two of fewer digits, or next to that, rounded to these."""
    f.other_types()
    source = f.any_type(*WIDE)
    if source.kind not in ("float", "signed", "unsigned") or values.digits_of(source) < 2:
        raise Skip("no real number of several digits")
    kind = f.r.randrange(4) if source.is_float else 0
    if kind < 2:
        results = [t for t in FLOATS if precision(t)[0] < values.digits_of(source)]
        if not results:
            raise Skip(f"no type has fewer digits than {source}")
        wide = [t for t in results if t.bits > 8]
        result = f.r.choice(wide if wide and f.flip() else results)
        x = halfway(f, source, precision(result)[0])
        f.put("convert", x, shape=Shape(result, x.shape.dimensions))
    elif kind == 2:
        digits = f.r.randrange(1, values.digits_of(source))
        f.put("reduce-precision", halfway(f, source, digits), exponent_bits=f.r.randrange(4, 9),
              mantissa_bits=digits - 1)  # fmt: skip
    else:
        opcode = f.r.choice(("round-nearest-even", "round-nearest-afz", "floor", "ceil"))
        f.put(opcode, fresh(f, source, row(f), "ties"))


def halfway(f: ProgramBuilder, t: ElementType, digits: int) -> Instruction:
    """A new array of numbers halfway between two neighbours of so many digits, or next to that."""
    return operand_of(f, values.ties(np.random.default_rng(f.r.getrandbits(32)), t, row(f), digits))


@rule(0.4)
def stochastic(f: ProgramBuilder) -> None:
    """Rounded to integers by random bits."""
    f.other_types()
    t = f.type("float")
    if t.bits < 8:
        raise Skip("no random bits of that width")
    x = fresh(f, t, row(f), f.r.choice(("ties", "normal", "edges")))
    bits = fresh(f, ELEMENT_TYPES[f"u{t.bits}"], x.shape.dimensions, "bits")
    integers = [ELEMENT_TYPES[name] for name in ("s8", "s16", "s32", "s64")]
    f.put("stochastic-convert", x, bits, shape=Shape(f.r.choice(integers), x.shape.dimensions))
