"""Reductions, windows, dots, convolutions, sorts and the other structured operations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from refxla_spec.module import Computation, ConvolutionDimensions, Instruction, WindowDimension
from refxla_spec.operation import make
from refxla_spec.types import PRED, S32, U64, ElementType, Shape

from .. import values
from ..program_builder import Program, ProgramBuilder, Skip, rule

NUMBERS = ("signed", "unsigned", "float")


def reducer(f: ProgramBuilder, t: ElementType) -> Computation:
    """A computation that combines two values of a type."""
    if t.is_integer and f.flip(0.2):
        return shifted(f.program, t)
    if t.kind == "pred":
        return f.program.reducer(f.r.choice(("and", "or", "xor")), t, f.flip())
    opcodes = ("add", "multiply") if t.is_complex else ("add", "add", "add", "maximum", "minimum", "multiply")
    return f.program.reducer(f.r.choice(opcodes), t, f.flip())


def shifted(program: Program, t: ElementType) -> Computation:
    """a + b + 1, whose identity no kernel knows."""
    key = ("shifted", t.name)
    if key not in program.reducers:
        name = program.name(f"shifted.{t}")
        a, b = (Instruction(f"{name}.{n}", "parameter", Shape(t), [], {"number": k}) for k, n in enumerate("ab"))
        one = Instruction(f"{name}.one", "constant", Shape(t), [], {"literal": np.asarray(1).astype(t.dtype)})
        both = make("add", a, b, name=f"{name}.both")
        root = make("add", both, one, name=f"{name}.r")
        program.reducers[key] = program.keep(Computation(name, [a, b, one, both, root], root))
    return program.reducers[key]


def start(f: ProgramBuilder, t: ElementType) -> Instruction:
    """The initial value of a reduction: mostly 0, since real programs rarely have others."""
    return f.number(t, f.r.choice((0, 0, 0, 1))) if f.flip(0.7) else f.of(t, ())


@rule(5)
def reduce(f: ProgramBuilder) -> None:
    """And, as in a softmax, broadcast back to the operand's shape."""
    x = f.any(least=1 if f.flip(0.9) else 0)
    t = x.shape.element_type
    over = f.some(range(x.shape.rank)) or tuple(range(x.shape.rank))[:1]
    result = f.put("reduce", x, start(f, t), dimensions=over, to_apply=reducer(f, t))
    if f.flip(0.4):
        others = tuple(d for d in range(x.shape.rank) if d not in over)
        wide = f.put("broadcast", result, shape=Shape(t, x.shape.dimensions), dimensions=others)
        opcode = {"pred": "xor"}.get(t.kind, f.r.choice(("subtract", "divide", "multiply")))
        f.put(opcode, x, wide)


@rule(0.8)
def reduce_pairs(f: ProgramBuilder) -> None:
    """The maximum or minimum with its index, of two operands at once."""
    x = f.any(*NUMBERS, least=1)
    t, axis = x.shape.element_type, f.r.randrange(x.shape.rank)
    index = f.put("iota", shape=Shape(S32, x.shape.dimensions), iota_dimension=axis)
    better = choose_pair(f.program, t, f.r.choice(("GT", "LT")))
    pair = f.put("reduce", x, index, start(f, t), f.number(S32, 0), dimensions=(axis,), to_apply=better)
    f.elements(pair)


@rule(0.6)
def reduce_two(f: ProgramBuilder) -> None:
    """Two sums at once, of integers, from any initial values."""
    x = f.any("signed", "unsigned", least=1)
    y = f.of(f.type("signed", "unsigned"), x.shape.dimensions)
    types = x.shape.element_type, y.shape.element_type
    key = ("two", *(t.name for t in types))
    if key not in f.program.reducers:
        name = f.program.name("two")
        a, b, c, d = (
            Instruction(f"{name}.{n}", "parameter", Shape(t), [], {"number": k})
            for k, (n, t) in enumerate(zip("abcd", types * 2, strict=True))
        )
        sums = make("add", a, c, name=f"{name}.e"), make("add", b, d, name=f"{name}.f")
        root = make("tuple", *sums, name=f"{name}.r")
        f.program.reducers[key] = f.program.keep(Computation(name, [a, b, c, d, *sums, root], root))
    over = f.some(range(x.shape.rank)) or (0,)
    f.elements(f.put("reduce", x, y, *(start(f, t) for t in types), dimensions=over, to_apply=f.program.reducers[key]))


def choose_pair(program: Program, t: ElementType, direction: str) -> Computation:
    """(a, i), (b, j) -> the pair with the better value, or for equal ones that with the smaller index.

    NaN is better than everything else, so that this is a total order, and the order of combination does not matter.
    """
    key = (direction, t.name, "pair")
    if key not in program.reducers:
        name = program.name(f"pair.{t}")
        a, i, b, j = (
            Instruction(f"{name}.{n}", "parameter", Shape(s), [], {"number": k})
            for k, (n, s) in enumerate(zip("aibj", (t, S32, t, S32), strict=True))
        )
        instructions = [a, i, b, j]

        def add(opcode: str, *operands: Instruction, **attributes: Any) -> Instruction:
            instructions.append(make(opcode, *operands, name=f"{name}.{len(instructions)}", **attributes))
            return instructions[-1]

        def either(x: Instruction, y: Instruction, opcode: str = "or") -> Instruction:
            return add(opcode, x, y)

        nan_a, nan_b = (add("compare", x, x, direction="NE") for x in (a, b))
        better = either(add("compare", a, b, direction=direction), either(nan_a, add("not", nan_b), "and"))
        equal = either(add("compare", a, b, direction="EQ"), either(nan_a, nan_b, "and"))
        keep = either(better, either(equal, add("compare", i, j, direction="LT"), "and"))
        root = add("tuple", add("select", keep, a, b), add("select", keep, i, j))
        program.reducers[key] = program.keep(Computation(name, instructions, root))
    return program.reducers[key]


def window_dimension(f: ProgramBuilder, n: int, dilated: bool = True) -> WindowDimension:
    """One dimension of a window over n elements."""
    size = f.r.randint(1, max(1, min(n, 4)))
    if f.flip(0.4):
        return WindowDimension(size)
    low, high = f.r.randint(0, size), f.r.randint(0, size)
    dilation = (f.r.choice((1, 1, 2)), f.r.choice((1, 1, 2))) if dilated else (1, 1)
    return WindowDimension(size, f.r.choice((1, 2, 3)), low, high, *dilation)


@rule(3)
def reduce_window(f: ProgramBuilder) -> None:
    x = f.any(least=1)
    t = x.shape.element_type
    n = f.r.randrange(x.shape.rank)
    window = tuple(
        window_dimension(f, s) if d == n or f.flip(0.4) else WindowDimension(1)
        for d, s in enumerate(x.shape.dimensions)
    )
    if f.flip(0.15) and x.shape.dimensions[n]:  # a cumulative one
        size = x.shape.dimensions[n]
        window = tuple(
            WindowDimension(size, 1, size - 1) if d == n else WindowDimension(1) for d in range(x.shape.rank)
        )
    f.put("reduce-window", x, start(f, t), window=window, to_apply=reducer(f, t))


@rule(1.5)
def select_and_scatter(f: ProgramBuilder) -> None:
    """The gradient of a pooling; values tie often, which the comparison's direction decides."""
    x = f.any(*NUMBERS, least=1)
    t = x.shape.element_type
    dims = []
    window = tuple(window_dimension(f, n, dilated=False) if f.flip(0.7) else WindowDimension(1)
                   for n in x.shape.dimensions)  # fmt: skip
    for n, w in zip(x.shape.dimensions, window, strict=True):
        dims.append(max(0, (n + w.padding_low + w.padding_high - w.size) // w.stride + 1))
    select = f.program.reducer(f.r.choice(("GE", "GE", "LE", "GT", "LT")), t)
    scatter = f.program.reducer("add" if f.flip(0.8) else "maximum", t)
    f.put("select-and-scatter", x, f.of(t, tuple(dims)), start(f, t), window=window, select=select, scatter=scatter)


@rule(4)
def dot(f: ProgramBuilder) -> None:
    """Batch, contracting and free dimensions of both sides in any order; transposes before it, a bias after."""
    x = f.any(*NUMBERS, "complex", least=1)
    t, rank = x.shape.element_type, x.shape.rank
    order = list(range(rank))
    f.r.shuffle(order)
    batches = f.r.choice((0, 0, 0, 1)) if rank > 1 else 0
    contracted = f.r.choice((1, 1, 1, 1, 0, 2)) if rank - batches > 1 else f.r.choice((1, 1, 0))
    mine = order[: batches + contracted]
    free = [f.r.choice((1, 2, 3, 5, 8)) for _ in range(f.r.choice((0, 1, 1, 2)))]
    if rank == 2 and len(set(x.shape.dimensions)) == 1 and f.flip(0.4):
        free = [x.shape.dimensions[0]] * (2 - len(mine))  # two squares
    dims = [x.shape.dimensions[d] for d in mine] + free
    places = list(range(len(dims)))
    f.r.shuffle(places)  # places[k]: the position of the k-th of them in the other operand
    there = [0] * len(dims)
    for k, p in enumerate(places):
        there[p] = dims[k]
    y = f.of(t, tuple(there))
    if f.flip(0.15) and len(there) > 1:
        y = f.put("transpose", f.of(t, tuple(reversed(there))), dimensions=tuple(reversed(range(len(there)))))
    sides = (mine, places[: len(mine)])
    left, right = (x, y)
    if f.flip(0.3):
        sides, left, right = (sides[1], sides[0]), y, x
    product = f.put(
        "dot", left, right,
        lhs_batch_dims=tuple(sides[0][:batches]), rhs_batch_dims=tuple(sides[1][:batches]),
        lhs_contracting_dims=tuple(sides[0][batches:]), rhs_contracting_dims=tuple(sides[1][batches:]),
    )  # fmt: skip
    if f.flip(0.4) and product.shape.rank:
        bias = f.of(t, product.shape.dimensions[-1:])
        wide = f.put("broadcast", bias, shape=product.shape, dimensions=(product.shape.rank - 1,))
        f.put("add", product, wide)


@rule(2)
def convolution(f: ProgramBuilder) -> None:
    """One or two spatial dimensions in any layout; strides, padding, dilations, reversal, groups."""
    t = f.type("float", "signed")
    spatial = f.r.choice((1, 1, 2))
    groups = f.r.choice((1, 1, 1, 2, 3))
    by_batch = groups > 1 and f.flip(0.3)
    features, outputs = f.r.choice((1, 2, 3)), f.r.choice((1, 2, 4))
    batch = f.r.choice((1, 2)) * (groups if by_batch else 1)
    size = [f.r.choice((1, 3, 4, 6)) for _ in range(spatial)]
    window = tuple(
        WindowDimension(
            f.r.randint(1, 3), f.r.choice((1, 1, 2)), f.r.randint(-1, 2), f.r.randint(-1, 2), f.r.choice((1, 1, 2)),
            f.r.choice((1, 1, 2)), f.flip(0.2),
        )
        for _ in size
    )  # fmt: skip
    orders = []
    for _ in range(3):
        order = list(range(spatial + 2))
        f.r.shuffle(order)
        orders.append(order)
    labels = dimension_labels(orders)
    left = placed(orders[0], [batch, features * (1 if by_batch else groups), *size])
    right = placed(orders[1], [features, outputs * groups, *(w.size for w in window)])
    f.put(
        "convolution", f.of(t, left), f.of(t, right), window=window, dim_labels=labels,
        feature_group_count=1 if by_batch else groups, batch_group_count=groups if by_batch else 1,
    )  # fmt: skip


def dimension_labels(orders: Sequence[Sequence[int]]) -> ConvolutionDimensions:
    """The numbers of the dimensions of the input, the kernel and the result: for each of the three arrays the first
    two (batch and features, or input and output features), then the spatial ones."""
    (a, b, *of_input), (c, d, *of_kernel), (e, f, *of_output) = orders
    return ConvolutionDimensions(a, b, tuple(of_input), c, d, tuple(of_kernel), e, f, tuple(of_output))


def placed(order: list[int], sizes: list[int]) -> tuple[int, ...]:
    """sizes[k] at place order[k]."""
    result = [0] * len(order)
    for place, size in zip(order, sizes, strict=True):
        result[place] = size
    return tuple(result)


@rule(1.5)
def sort(f: ProgramBuilder) -> None:
    """One array, or keys with values, ascending or descending."""
    x = f.any("signed", "unsigned", "float", "pred", least=1)
    axis, t = f.r.randrange(x.shape.rank), x.shape.element_type
    direction = f.r.choice(("LT", "GT"))
    if f.flip(0.6):
        f.put("sort", x, dimensions=(axis,), is_stable=True, to_apply=order(f.program, (t,), direction))
        return
    y = f.of(f.type(), x.shape.dimensions)
    result = f.put("sort", x, y, dimensions=(axis,), is_stable=True,
                 to_apply=order(f.program, (t, y.shape.element_type), direction))  # fmt: skip
    f.elements(result)


def order(program: Program, types: tuple[ElementType, ...], direction: str) -> Computation:
    """(a, b, ...) -> whether a sorts before b, for operands of these types; floats in their total order, since with NaN
    the usual one is not an order."""
    key = (direction, *(t.name for t in types), "sort")
    if key not in program.reducers:
        name = program.name("sort")
        parameters = [
            Instruction(f"{name}.{k}", "parameter", Shape(t), [], {"number": k})
            for k, t in enumerate(t for t in types for _ in range(2))
        ]
        total: dict[str, Any] = {"order": "TOTAL"} if types[0].is_float else {}
        root = make("compare", *parameters[:2], name=f"{name}.r", direction=direction, **total)
        program.reducers[key] = program.keep(Computation(name, [*parameters, root], root))
    return program.reducers[key]


@rule(0.8)
def topk(f: ProgramBuilder) -> None:
    x = f.any(*NUMBERS, least=1)
    if f.flip() and not f.scalar:
        drawn = values.array(f.r, f.any_type("f32", "bf16", "f16", "f64"), (f.r.choice((3, 8, 17)),))
        x = f.parameter(Shape.of(drawn), drawn) if f.entry else f.constant(drawn)
    n = x.shape.dimensions[-1]
    f.elements(f.put("topk", x, k=f.r.randint(min(1, n), n), largest=f.flip()))


@rule(0.3)
def fft(f: ProgramBuilder) -> None:
    t = f.type("complex")
    n = f.r.choice((1, 2, 3, 4, 6, 8))
    f.put("fft", f.of(t, (*(f.dims()[:1]), n)), fft_type=f.r.choice(("FFT", "IFFT")), fft_length=(n,))


@rule(0.5)
def batch_norm(f: ProgramBuilder) -> None:
    x = f.any("float", least=2)
    t, axis = x.shape.element_type, f.r.randrange(x.shape.rank)
    scale, offset, mean, variance = (f.of(t, (x.shape.dimensions[axis],)) for _ in range(4))
    if f.flip():
        f.put("batch-norm-inference", x, scale, offset, mean, variance, epsilon=0.125, feature_index=axis)
    else:
        f.elements(f.put("batch-norm-training", x, scale, offset, epsilon=0.125, feature_index=axis))


@rule(0.4)
def random_bits(f: ProgramBuilder) -> None:
    state = f.constant(np.array([f.r.getrandbits(63), f.r.getrandbits(63)], U64.dtype))
    t = f.type("unsigned")
    if t.bits < 8:
        raise Skip("no such random bits")
    shape = Shape.tuple_of(state.shape, Shape(t, f.dims()))
    f.elements(f.put("rng-bit-generator", state, shape=shape, algorithm=f.r.choice(("rng_three_fry", "rng_philox"))))


@rule(0.5)
def barrier(f: ProgramBuilder) -> None:
    x = f.any()
    f.elements(f.put("opt-barrier", f.put("tuple", x, f.any())))


@rule(0.5)
def truth(f: ProgramBuilder) -> None:
    """All or any of a comparison."""
    x = f.any(least=1)
    p = f.put("compare", x, f.like(x), direction=f.r.choice(("EQ", "NE")))
    opcode = f.r.choice(("and", "or"))
    f.put("reduce", p, f.number(PRED, opcode == "and"), dimensions=tuple(range(x.shape.rank)),
          to_apply=f.program.reducer(opcode, PRED))  # fmt: skip
