"""Matrices, transforms, products of mixed types, scans, and operations followed by their inverses."""

from __future__ import annotations

import numpy as np
from refxla_spec.module import Computation, Instruction
from refxla_spec.types import ELEMENT_TYPES, ElementType, Shape

from .. import values
from ..program_builder import Dims, ProgramBuilder, Skip, rule

MIXED = (("u8", "s8", "s32"), ("s8", "s8", "s32"), ("u8", "u8", "s32"), ("f32", "f32", "bf16"), ("bf16", "bf16", "f32"))


def operand_of(f: ProgramBuilder, value: np.ndarray) -> Instruction:
    """An array as a parameter, or as a constant."""
    return f.parameter(Shape.of(value), value) if f.entry and f.flip(0.8) else f.constant(value)


def fresh(f: ProgramBuilder, t: ElementType, dims: Dims, mode: str = "normal") -> Instruction:
    """A new array, drawn in that mode."""
    return operand_of(f, values.array(f.r, t, dims, mode))


def field(f: ProgramBuilder) -> ElementType:
    """A type that matrices may have."""
    t = f.type("float", "complex")
    if t.bits < 16:
        raise Skip("too narrow")
    return t


def matrices(f: ProgramBuilder, t: ElementType, n: int, batch: Dims, hermitian: bool) -> Instruction:
    """Well-conditioned ones; whether or not they are Hermitian, both triangles are filled."""
    rng = np.random.default_rng(f.r.getrandbits(32))
    drawn = rng.integers(-3, 4, (*batch, n, n)) + (1j * rng.integers(-3, 4, (*batch, n, n)) if t.is_complex else 0)
    matrix = drawn @ np.conj(drawn.swapaxes(-1, -2)) + n * np.eye(n) if hermitian else drawn + (5 + n) * np.eye(n)
    return operand_of(f, matrix.astype(t.dtype))


@rule(0.4)
def cholesky(f: ProgramBuilder) -> None:
    t, batch = field(f), f.r.choice(((), (2,)))
    f.put("cholesky", matrices(f, t, f.r.randint(1, 4), batch, True), lower=f.flip())


@rule(0.6)
def triangular_solve(f: ProgramBuilder) -> None:
    t, n, batch = field(f), f.r.randint(1, 4), f.r.choice(((), (2,)))
    m, left = f.r.choice((n, n, 1, 3)), f.flip()
    b = fresh(f, t, (*batch, n, m) if left else (*batch, m, n))
    transpose = f.r.choice(("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"))
    f.put("triangular-solve", matrices(f, t, n, batch, False), b, left_side=left, lower=f.flip(),
          unit_diagonal=f.flip(0.3), transpose_a=transpose)  # fmt: skip


@rule(0.4)
def transform(f: ProgramBuilder) -> None:
    """Of one to three dimensions, of real and complex numbers."""
    f.type("float", "complex")  # fails in a program of only integers
    length = tuple(f.r.choice((1, 2, 3, 4, 5, 8)) for _ in range(f.r.choice((1, 2, 2, 3))))
    kind, t = f.r.choice(("FFT", "IFFT", "RFFT", "IRFFT")), ELEMENT_TYPES[f.r.choice(("c64", "c64", "c128"))]
    dims = (*length[:-1], length[-1] // 2 + 1) if kind == "IRFFT" else length
    if kind == "RFFT":
        t = ELEMENT_TYPES["f32" if t.name == "c64" else "f64"]
    f.put("fft", fresh(f, t, (*f.r.choice(((), (3,))), *dims)), fft_type=kind, fft_length=length)


@rule(0.4)
def batch_norm_grad(f: ProgramBuilder) -> None:
    t = f.type("float")
    dims = tuple(f.r.choice((2, 3, 5)) for _ in range(f.r.choice((2, 3))))
    axis = f.r.randrange(len(dims))
    x, g = fresh(f, t, dims), fresh(f, t, dims)
    scale, mean, variance = (fresh(f, t, (dims[axis],), m) for m in ("normal", "normal", "unit"))
    f.elements(f.put("batch-norm-grad", x, scale, mean, variance, g, epsilon=0.125, feature_index=axis))


@rule(0.3)
def top_k(f: ProgramBuilder) -> None:
    """The largest elements by a custom call, which returns them and their positions: for s32, two arrays of one
    type."""
    s32, n = ELEMENT_TYPES["s32"], f.r.choice((1, 3, 8))
    shape = Shape(s32, (2, f.r.randint(1, n)))
    called = f.put("custom-call", f.of(s32, (2, n)), shape=Shape.tuple_of(shape, shape), custom_call_target="TopK")
    f.elements(called)


@rule(0.4, control=True)
def scan(f: ProgramBuilder) -> None:
    """A running sum, product or maximum along a dimension, from an initial carry."""
    x = f.any("signed", "unsigned", "float", least=1)
    t, d = x.shape.element_type, f.r.randrange(x.shape.rank)
    part = Shape(t, x.shape.dimensions[:d] + x.shape.dimensions[d + 1 :])
    inner = ProgramBuilder(f.program, f.depth - 1)
    a, carried = inner.parameter(part), inner.parameter(part)
    step = inner.put(f.r.choice(("add", "multiply", "maximum", "subtract")), a, carried)
    root = inner.put("tuple", step, step)
    body = f.program.keep(Computation(f.program.name("turn"), inner.instructions, root))
    f.elements(f.put("scan", x, f.of(t, part.dimensions), dimensions=(d,), num_carries=1, to_apply=body,
                     is_reverse=f.flip(0.3)))  # fmt: skip


@rule(1.5)
def undone(f: ProgramBuilder) -> None:
    """(x / y) * y, (x * y) / y, (x + y) - y, sqrt(x * x), log(exp(x)), exp(log(x)), roundings of halves, and products
    that are added or subtracted."""
    t = f.type("float")
    x = f.any("float") if f.flip() else fresh(f, t, (f.r.choice((3, 8, 17)),))
    match f.r.randrange(9):
        case 0:
            y = f.like(x) if f.flip() else fresh(f, x.shape.element_type, x.shape.dimensions)
            f.put("multiply", f.put("divide", x, y), y)
        case 1:
            y = f.like(x) if f.flip() else fresh(f, x.shape.element_type, x.shape.dimensions)
            f.put("divide", f.put("multiply", x, y), y)
        case 2:
            y = f.like(x) if f.flip() else fresh(f, x.shape.element_type, x.shape.dimensions)
            f.put("subtract", f.put("add", x, y), y)
        case 3:
            f.put("sqrt", f.put("multiply", x, x))
        case 4:
            f.put("log", f.put("exponential", x))
        case 5:
            f.put("exponential", f.put("log", x))
        case 6:
            half = f.full(x.shape, f.number(x.shape.element_type, 0.5))
            halves = f.put("multiply", f.put("floor", x), half)
            f.put(f.r.choice(("round-nearest-even", "round-nearest-afz")), halves)
        case _:
            y, z = (fresh(f, x.shape.element_type, x.shape.dimensions) for _ in range(2))
            terms = [f.put("multiply", x, y), z]
            f.r.shuffle(terms)
            f.put(f.r.choice(("add", "subtract")), *terms)


@rule(0.2)
def many_parts(f: ProgramBuilder) -> None:
    """A concatenation of more operands than a tree of selects is deep."""
    t, n = f.type(), f.r.choice((1, 2, 3))
    f.put("concatenate", *(f.of(t, (n,)) for _ in range(f.r.randint(9, 12))), dimensions=(0,))


@rule(0.7)
def mixed_dot(f: ProgramBuilder) -> None:
    """Operands narrower or wider than the result, integers at the ends of their types."""
    kinds = {t.kind for t in f.program.types}
    mixtures = [[ELEMENT_TYPES[name] for name in names] for names in MIXED]
    fitting = [m for m in mixtures if {t.kind for t in m} <= kinds]
    if not fitting:
        raise Skip("no mixture of these types")
    *types, result = f.r.choice(fitting)
    m, k, n = f.r.choice((1, 3, 5)), f.r.choice((2, 7, 24)), f.r.choice((1, 4))
    mode = "special" if result.is_integer and f.flip() else "normal"
    a, b = fresh(f, types[0], (m, k), mode), fresh(f, types[1], (k, n), mode)
    f.put("dot", a, b, shape=Shape(result, (m, n)), lhs_contracting_dims=(1,), rhs_contracting_dims=(0,))


@rule(0.3)
def ragged_dot(f: ProgramBuilder) -> None:
    """Rows in groups, each with its own matrix; the groups may have fewer rows than there are, or none."""
    t = f.type("float", "signed", "unsigned")
    m, k, n, groups = (f.r.choice((1, 2, 3, 5)) for _ in range(4))
    sizes = np.array([f.r.choice((0, 1, 1, 2, m)) for _ in range(groups)], np.int32)
    x, w = fresh(f, t, (m, k)), fresh(f, t, (groups, k, n))
    f.put("ragged-dot", x, w, operand_of(f, sizes), lhs_contracting_dims=(1,), rhs_contracting_dims=(1,),
          lhs_ragged_dims=(0,), rhs_group_dims=(0,))  # fmt: skip


@rule(0.3)
def scaled_dot(f: ProgramBuilder) -> None:
    """Numbers of few bits with a scale for some of them each, or one for all."""
    f.other_types()
    narrow, scales = ("f8e4m3fn", "f8e5m2", "f4e2m1fn", "bf16", "f32"), ("f8e8m0fnu", "f32", "bf16")
    m, n, blocks, each = (f.r.choice((1, 2, 3)) for _ in range(4))
    k = blocks * each
    operands = [fresh(f, ELEMENT_TYPES[f.r.choice(narrow)], dims) for dims in ((m, k), (k, n))]
    parts = [dims if f.flip(0.7) else () for dims in ((m, blocks), (blocks, 1))]
    of_scales = [fresh(f, ELEMENT_TYPES[f.r.choice(scales)], dims, "unit") for dims in parts]
    f.put("scaled-dot", *operands, *of_scales, lhs_contracting_dims=(1,), rhs_contracting_dims=(0,),
          shape=Shape(ELEMENT_TYPES["f32"], (m, n)))  # fmt: skip
