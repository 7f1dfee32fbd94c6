"""Dots, convolutions, reductions and transposes of sizes that fill vectors, panels and blocks, with partial ones.

Their results are kept separately (`ProgramBuilder.wide`), where only these rules find them: for the others, their cost
would exceed their benefit. A program has a few of them, of bounded work; if one ends small, the others continue with
it.
"""

from __future__ import annotations

from math import prod

from refxla_spec.module import Instruction, WindowDimension
from refxla_spec.types import ElementType, Shape

from .. import values
from ..program_builder import WIDEST, ProgramBuilder, Skip, rule
from .structured import NUMBERS, dimension_labels, placed, reducer, start

WIDTHS = (8, 9, 12, 16, 17, 24, 31, 32, 33, 40, 48, 63, 64)
WORK = 1 << 18  # multiply-adds of one product
BUDGET = 1 << 19  # of a program
MODES = ("small", "small", "normal", "normal", "unit", "special")  # a sum with one NaN is NaN, whatever the others are


def width(f: ProgramBuilder, narrow: float = 0.2) -> int:
    """The size of a dimension, with a chance of `narrow` one of few elements."""
    return f.r.choice((1, 2, 3, 5, 7)) if f.flip(narrow) else f.r.choice(WIDTHS)


def array(f: ProgramBuilder, t: ElementType, dims: tuple[int, ...]) -> Instruction:
    """A value of these dimensions: an existing one, a parameter or a constant; or a transpose of one."""
    if prod(dims) > WIDEST:
        raise Skip("too large")
    candidates = [v for v in f.wide if v.shape.without_layout() == Shape(t, dims)]
    if candidates and f.flip():
        return f.r.choice(candidates)
    if len(dims) > 1 and f.flip(0.15):
        order = tuple(f.r.sample(range(len(dims)), len(dims)))
        return f.put("transpose", array(f, t, placed(list(order), list(dims))), dimensions=tuple(order))
    drawn = values.array(f.r, t, dims, f.r.choice(MODES))
    return f.parameter(Shape.of(drawn), drawn) if f.entry and f.flip(0.8) else f.constant(drawn)


def spend(f: ProgramBuilder, work: int) -> None:
    """Raises Skip for a product with more multiply-adds than are left; nested computations may run many times."""
    limit = WORK if f.entry else WORK // 16
    if work > limit or f.program.work + work > BUDGET:
        raise Skip("too much work")
    f.program.work += work


def prepared(f: ProgramBuilder, x: Instruction) -> Instruction:
    """The operand of a product: the value, or a cheap function of it, which may be computed while the value is
    packed."""
    t = x.shape.element_type
    if f.flip(0.7):
        return x
    if t.kind != "unsigned" and f.flip():
        return f.put("negate", x)
    return f.put("multiply", x, f.full(x.shape, f.number(t, 2)))


def follow(f: ProgramBuilder, x: Instruction) -> None:
    """A typical epilogue of a product, and then perhaps something small with which other rules continue."""
    t = x.shape.element_type
    if x.shape.rank and f.flip(0.4):
        at = f.r.randrange(x.shape.rank)
        bias = f.of(t, x.shape.dimensions[at : at + 1])
        x = f.put("add", x, f.put("broadcast", bias, shape=Shape(t, x.shape.dimensions), dimensions=(at,)))
    if t.kind in NUMBERS and f.flip(0.3):
        x = f.put("maximum", x, f.full(x.shape, f.number(t, 0)))
    if x.shape.rank > 1 and f.flip(0.2):
        x = f.put("transpose", x, dimensions=tuple(f.r.sample(range(x.shape.rank), x.shape.rank)))
    if x.shape.rank and f.flip(0.3):
        over = f.some(range(x.shape.rank)) or (x.shape.rank - 1,)
        f.put("reduce", x, start(f, t), dimensions=over, to_apply=reducer(f, t))


@rule(1.6, wide=True)
def wide_dot(f: ProgramBuilder) -> None:
    """Each side in any order of its dimensions, mostly in one that is stored as it is read."""
    t = f.type(*NUMBERS, "complex")
    batch = [f.r.choice((1, 2, 3, 8))] if f.flip(0.25) else []
    rows, columns, terms = [width(f)] if f.flip(0.85) else [], [width(f)] if f.flip(0.9) else [], [width(f, 0.1)]
    if f.flip(0.1):
        rows.append(f.r.choice((2, 3)))
    spend(f, prod((*batch, *rows, *columns, *terms)))

    def side(free: list[int]) -> tuple[Instruction, tuple[int, ...], tuple[int, ...]]:
        sizes = [*batch, *terms, *free]
        places = list(range(len(sizes)))
        if f.flip():
            f.r.shuffle(places)
        x = prepared(f, array(f, t, placed(places, sizes)))
        return x, tuple(places[: len(batch)]), tuple(places[len(batch) : len(batch) + 1])

    left, left_batch, left_terms = side(rows)
    right, right_batch, right_terms = side(columns)
    product = f.put(
        "dot", left, right, lhs_batch_dims=left_batch, rhs_batch_dims=right_batch, lhs_contracting_dims=left_terms,
        rhs_contracting_dims=right_terms,
    )  # fmt: skip
    follow(f, product)


@rule(1.6, wide=True)
def wide_convolution(f: ProgramBuilder) -> None:
    """With many features, unchanged, by groups or depthwise; also in the form of gradients: with a dilated input, a
    reversed window, the batch and the features exchanged."""
    t = f.type("float", "signed")
    spatial = f.r.choice((1, 2, 2))
    groups = f.r.choice((1, 1, 1, 2, 4))
    depthwise = f.flip(0.15)
    features, outputs = width(f), width(f)
    if depthwise:
        groups, features, outputs = features, 1, f.r.choice((1, 1, 2))
    elif groups > 1:
        features, outputs = -(-features // groups), -(-outputs // groups)
    batch = f.r.choice((1, 1, 2, 3))
    size = [f.r.choice((1, 4, 7, 8, 9, 14) if spatial == 2 else (8, 9, 17, 31, 33)) for _ in range(spatial)]
    window = []
    for n in size:
        low, high = f.r.randint(0, 2), f.r.randint(0, 2)
        stride, base, dilation = (f.r.choice((1, 1, 1, 2)) for _ in range(3))
        window.append(WindowDimension(f.r.choice((1, 2, 3, 3, 5)[: max(1, n + 1)]), stride, low, high, base, dilation,
                                      f.flip(0.25)))  # fmt: skip
    usual = [0, spatial + 1, *range(1, spatial + 1)], [spatial, spatial + 1, *range(spatial)]
    orders = [usual[0], usual[1], usual[0]]
    for n in range(3):
        if f.flip(0.4):
            orders[n] = f.r.sample(range(spatial + 2), spatial + 2)
    labels = dimension_labels(orders)
    # An upper bound: windows in the padding count, too.
    reach = [(n - 1) * w.base_dilation + 1 + w.padding_low + w.padding_high for n, w in zip(size, window, strict=True)]
    places = prod(-(-r // w.stride) for r, w in zip(reach, window, strict=True))
    spend(f, batch * places * outputs * groups * features * prod(w.size for w in window))
    x = prepared(f, array(f, t, placed(orders[0], [batch, features * groups, *size])))
    kernel = prepared(f, array(f, t, placed(orders[1], [features, outputs * groups, *(w.size for w in window)])))
    result = f.put("convolution", x, kernel, window=tuple(window), dim_labels=labels, feature_group_count=groups)
    follow(f, result)


def any_wide(f: ProgramBuilder) -> Instruction:
    """A wide value, an existing or a new one."""
    if f.wide and f.flip(0.7):
        return f.r.choice(f.wide)
    dims = [width(f) for _ in range(f.r.choice((1, 2, 2, 3)))]
    while prod(dims) > WIDEST:
        dims.pop()
    return array(f, f.type(), tuple(dims))


@rule(1.6, wide=True)
def wide_reduce(f: ProgramBuilder) -> None:
    """And, as in a softmax, broadcast back to the operand's shape."""
    x = any_wide(f)
    t, dims = x.shape.element_type, x.shape.dimensions
    over = f.some(range(len(dims))) or (f.r.randrange(len(dims)),)
    result = f.put("reduce", prepared(f, x) if t.kind in NUMBERS else x, start(f, t), dimensions=over,
                 to_apply=reducer(f, t))  # fmt: skip
    if f.flip(0.4):
        others = tuple(d for d in range(len(dims)) if d not in over)
        wide = f.put("broadcast", result, shape=Shape(t, dims), dimensions=others)
        opcode = {"pred": "xor"}.get(t.kind, f.r.choice(("subtract", "multiply")))
        follow(f, f.put(opcode, x, wide)) if t.kind in NUMBERS else f.put(opcode, x, wide)


@rule(1.6, wide=True)
def wide_transpose(f: ProgramBuilder) -> None:
    """Alone, or of a computed value; possibly read both by the rows and by the columns."""
    x = any_wide(f)
    t, rank = x.shape.element_type, x.shape.rank
    if rank < 2:
        raise Skip("no matrix")
    order = f.r.sample(range(rank), rank)
    turned = f.put("transpose", prepared(f, x) if t.kind in NUMBERS else x, dimensions=tuple(order))
    if f.flip(0.4) and t.kind in NUMBERS:
        follow(f, f.put("add", turned, array(f, t, turned.shape.dimensions)))
