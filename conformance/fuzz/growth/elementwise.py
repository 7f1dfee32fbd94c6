"""Elementwise operations: all that the registry has, on any types that their `infer` accepts."""

from __future__ import annotations

from functools import cache

from refxla_spec.attributes import REQUIRED
from refxla_spec.elementwise import is_elementwise
from refxla_spec.operation import Violation, operations
from refxla_spec.types import PRED, Shape

from .. import values
from ..program_builder import ProgramBuilder, Skip, rule

ARITHMETIC = ("add", "subtract", "multiply", "maximum", "minimum", "divide", "and", "or", "xor", "negate", "abs")
OTHERS = ("f32", "bf16", "f16", "f64", "s8", "s32", "u32", "s64")  # types that a program's own are converted to
DIRECTIONS = ("EQ", "NE", "LT", "LE", "GT", "GE")


@cache
def plain() -> tuple[tuple[str, int], ...]:
    """Each elementwise operation that needs no attribute and no stated shape, with its arity."""
    special = {"convert", "bitcast-convert", "copy", "clamp", "select", "complex"}
    return tuple(
        (opcode, rule.arity)
        for opcode, rule in operations().items()
        if is_elementwise(opcode)
        and opcode not in special
        and rule.arity
        and not any(a.default is REQUIRED for a in rule.attributes.values())
    )


@rule(10)
def elementwise(f: ProgramBuilder) -> None:
    """A random operation on a random value; if its type is not accepted, another operation."""
    x = f.any()
    table = plain()
    for _ in range(8):
        opcode, arity = f.r.choice(table)
        if f.flip(0.4):
            opcode = f.r.choice(ARITHMETIC)
            arity = operations()[opcode].fixed_arity
        operands = [x, *(f.like(x) for _ in range(arity - 1))]
        if f.flip():
            operands.reverse()
        try:
            f.put(opcode, *operands)
            return
        except Violation:
            continue


@rule(3)
def compare(f: ProgramBuilder) -> None:
    x = f.any()
    try:
        f.put("compare", x, f.like(x), direction=f.r.choice(DIRECTIONS))
    except Violation:  # complex numbers have no order
        f.put("compare", x, f.like(x), direction=f.r.choice(DIRECTIONS[:2]))


@rule(3)
def select(f: ProgramBuilder) -> None:
    x = f.any()
    p = f.of(PRED, x.shape.dimensions if f.flip(0.8) else ())
    f.put("select", p, x, f.like(x))


@rule(1)
def clamp(f: ProgramBuilder) -> None:
    x = f.any()
    low, high = (f.like(x) if f.flip() else f.of(x.shape.element_type, ()) for _ in range(2))
    f.put("clamp", low, x, high)


@rule(3)
def convert(f: ProgramBuilder) -> None:
    """To one of the program's types, or to another common one."""
    x = f.any()
    f.put("convert", x, shape=Shape(f.any_type(*OTHERS), x.shape.dimensions))


@rule(0.7)
def bitcast_convert(f: ProgramBuilder) -> None:
    """To a type of as many bits, or to more or fewer elements of another width."""
    x = f.any()
    old, dims = x.shape.element_type, x.shape.dimensions
    new = f.type("signed", "unsigned", "float")
    if "pred" in (old.kind, new.kind) or min(old.bits, new.bits) < 8 or old.is_complex:
        raise Skip("no bits to show")
    if new.bits < old.bits:
        dims = (*dims, old.bits // new.bits)
    elif new.bits > old.bits:
        if not dims or dims[-1] != new.bits // old.bits:
            x = f.of(old, (*dims[:-1], new.bits // old.bits))
        dims = x.shape.dimensions[:-1]
    f.put("bitcast-convert", x, shape=Shape(new, dims))


@rule(0.4)
def reduce_precision(f: ProgramBuilder) -> None:
    x = f.any("float")
    f.put("reduce-precision", x, exponent_bits=f.r.randrange(2, 9), mantissa_bits=f.r.randrange(1, 12))


@rule(1)
def complex_(f: ProgramBuilder) -> None:
    """A complex number, and its parts, including parts whose squares overflow or underflow."""
    x = f.any("float")
    parts = x, f.like(x)
    if f.flip() and f.entry:
        drawn = [values.array(f.r, x.shape.element_type, (5,), f.r.choice(("edges", "special", "bits"))) for _ in "ri"]
        parts = f.parameter(Shape.of(drawn[0]), drawn[0]), f.parameter(Shape.of(drawn[1]), drawn[1])
    number = f.put("complex", *parts)
    if f.flip(0.7):
        f.put(f.r.choice(("real", "imag", "abs")), number)


@rule(0.5)
def copy(f: ProgramBuilder) -> None:
    f.put("copy", f.any())
