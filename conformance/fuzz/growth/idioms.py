"""Formulas on which simplifiers and expanders fail: each looks as if it were something simpler."""

from __future__ import annotations

from refxla_spec.module import Instruction, PaddingDimension, SliceDimension
from refxla_spec.types import ELEMENT_TYPES, Shape

from ..program_builder import ProgramBuilder, Skip, rule
from ..values import digits_of

REAL = ("signed", "unsigned", "float")


def spread(f: ProgramBuilder, x: Instruction, number: float) -> Instruction:
    """A number in the shape of x."""
    return f.full(x.shape, f.number(x.shape.element_type, number))


@rule(5)
def with_constant(f: ProgramBuilder) -> None:
    """x + 0, x - 0, x * 0, x * 1, x / 1, 0 - x, 0 / x, max(x, inf), x / 4, power(x, 2), x << 40, x / 65537, ..."""
    x = f.any(*REAL)
    floating, unsigned = x.shape.element_type.is_float, x.shape.element_type.kind == "unsigned"
    opcodes = ["add", "subtract", "multiply", "divide", "maximum", "minimum", "remainder", "power"]
    opcodes += [] if floating else ["shift-left", "shift-right-arithmetic", "shift-right-logical", "and", "or", "xor"]
    numbers = [0, 1, 2, 4, 3] + ([-1] if not unsigned else []) + ([-0.0, 0.5, float("inf"), float("nan")] * floating)
    if f.flip(0.25):  # near a power of two: masks, and divisors that become multiplications by the reciprocal
        numbers = [2 ** f.r.randrange(max(1, digits_of(x.shape.element_type))) + f.r.choice((-1, 0, 1, 1))]
    number = f.r.choice(numbers)
    c = spread(f, x, number)
    operands = [x, c] if f.flip(0.7) else [c, x]
    f.put(f.r.choice(opcodes), *operands)


@rule(3)
def with_itself(f: ProgramBuilder) -> None:
    """x - x, x / x, x == x, max(x, x), x xor x, select(p, x, x)"""
    x = f.any()
    kind = x.shape.element_type.kind
    if kind == "pred":
        f.put(f.r.choice(("and", "or", "xor")), x, x)
    elif f.flip(0.3):
        f.put("compare", x, x, direction=f.r.choice(("EQ", "NE")))
    else:
        opcodes = ("subtract", "subtract", "divide", "add", "multiply") + (
            ("maximum", "minimum") if kind != "complex" else ()
        )
        f.put(f.r.choice(opcodes), x, x)


@rule(2)
def back_and_forth(f: ProgramBuilder) -> None:
    """Negated, reversed, transposed or converted twice; padded and cut; a slice of a concatenate."""
    x = f.any(least=1, empty=False)
    rank, dims, t = x.shape.rank, x.shape.dimensions, x.shape.element_type
    match f.r.randrange(6):
        case 0:
            f.put("negate", f.put("negate", x))
        case 1:
            over = f.some(range(rank))
            f.put("reverse", f.put("reverse", x, dimensions=over), dimensions=over if f.flip() else f.some(range(rank)))
        case 2:
            order = list(range(rank))
            f.r.shuffle(order)
            y = f.put("transpose", x, dimensions=tuple(order))
            f.put("transpose", y, dimensions=tuple(order))
        case 3:
            other = f.type() if f.flip() else ELEMENT_TYPES[f.r.choice(("s8", "u32", "f32", "s32", "bf16", "s64"))]
            y = f.put("convert", x, shape=Shape(other, dims))
            f.put("convert", y, shape=Shape(t, dims))
        case 4:
            low = [f.r.randint(0, 2) for _ in dims]
            wide = f.put("pad", x, f.of(t, ()), padding=tuple(PaddingDimension(a, f.r.randint(0, 2)) for a in low))
            at = low if f.flip() else [f.r.randint(0, w - n) for n, w in zip(dims, wide.shape.dimensions, strict=True)]
            f.put("slice", wide, slice=tuple(SliceDimension(a, a + n) for a, n in zip(at, dims, strict=True)))
        case 5:
            axis = f.r.randrange(rank)
            both = f.put("concatenate", x, f.like(x), dimensions=(axis,))
            start = f.r.randint(0, dims[axis])
            parts = [
                SliceDimension(start, start + n) if d == axis else SliceDimension(0, n) for d, n in enumerate(dims)
            ]
            f.put("slice", both, slice=tuple(parts))


@rule(0.7)
def shift_of_constant(f: ProgramBuilder) -> None:
    """A shift that is known at compile time."""
    t = f.type("signed", "unsigned")
    x, by = f.full(f.any().shape, f.number(t, f.r.choice((-4, 7)) if t.kind == "signed" else 7)), f.r.choice((0, 1, 3))
    opcode = f.r.choice(("shift-left", "shift-right-arithmetic", "shift-right-arithmetic", "shift-right-logical"))
    f.put(opcode, x, f.full(x.shape, f.number(t, by)))


@rule(0.7)
def negated(f: ProgramBuilder) -> None:
    f.put("negate", f.any(*REAL))


@rule(1.5)
def composites(f: ProgramBuilder) -> None:
    """1 / (1 + exp(-x)), a softmax, a norm, log(1 + x), exp(x) - 1, sqrt of a sum of squares, relu."""
    x = f.any("float", least=1)
    t, axis = x.shape.element_type, x.shape.rank - 1
    rows = tuple(range(axis))

    def over(opcode: str, start: float, value: Instruction) -> Instruction:
        result = f.put("reduce", value, f.number(t, start), dimensions=(axis,), to_apply=f.program.reducer(opcode, t))
        return f.put("broadcast", result, shape=Shape(t, x.shape.dimensions), dimensions=rows)

    match f.r.randrange(6):
        case 0:
            e = f.put("exponential", f.put("negate", x))
            one = spread(f, x, 1)
            f.put("divide", one, f.put("add", one, e) if f.flip() else f.put("add", e, one))
        case 1:
            e = f.put("exponential", f.put("subtract", x, over("maximum", float("-inf"), x)))
            f.put("divide", e, over("add", 0, e))
        case 2:
            mean = f.put("divide", over("add", 0, x), spread(f, x, max(1, x.shape.dimensions[axis])))
            d = f.put("subtract", x, mean)
            var = over("add", 0, f.put("multiply", d, d))
            f.put("multiply", d, f.put("rsqrt", f.put("add", var, spread(f, x, 0.25))))
        case 3:
            one = spread(f, x, 1)
            f.put("log", f.put("add", x, one)) if f.flip() else f.put("subtract", f.put("exponential", x), one)
        case 4:
            f.put("sqrt", over("add", 0, f.put("multiply", x, x)))
        case 5:
            f.put("maximum", x, spread(f, x, 0))


@rule(1.5)
def unsigned_order(f: ProgramBuilder) -> None:
    """The order of numbers with the highest bit set, as unsigned and as signed ones."""
    x = f.any("unsigned", "signed")
    y = f.like(x)
    match f.r.randrange(4):
        case 0:
            f.put("compare", x, y, direction=f.r.choice(("LT", "GE", "GT", "LE")))
        case 1:
            f.put(f.r.choice(("maximum", "minimum")), x, y)
        case 2:
            f.put(f.r.choice(("divide", "remainder")), x, y)
        case 3:
            f.put("convert", x, shape=Shape(f.type("float", "signed", "unsigned"), x.shape.dimensions))


@rule(1)
def attributes_differ(f: ProgramBuilder) -> None:
    """Two instructions that are equal except for one attribute."""
    x = f.any(least=1, empty=False)
    dims = x.shape.dimensions
    match f.r.randrange(3):
        case 0:
            y = f.like(x)
            f.put("compare", x, y, direction="EQ"), f.put("compare", x, y, direction="NE")
        case 1:
            a, b = ([SliceDimension(s, s + n - 1) for n in dims] for s in (0, 1))
            f.put("slice", x, slice=tuple(a)), f.put("slice", x, slice=tuple(b))
        case 2:
            if len(dims) < 2:
                raise Skip("one dimension")
            f.put("reverse", x, dimensions=(0,)), f.put("reverse", x, dimensions=(1,))
