"""Operations with many operands, many dimensions, or many constants."""

from __future__ import annotations

from math import prod
from random import Random

from refxla_spec.module import Computation, Instruction, PaddingDimension, SliceDimension, WindowDimension
from refxla_spec.types import S32, Shape

from .. import values
from ..program_builder import ProgramBuilder
from .common import Roots, array, element_type, form, step


@form(3, 40)
def sorts(f: ProgramBuilder, r: Random, n: int) -> Roots:
    """A stable sort of so many operands, by the first keys or by all of them."""
    dims = r.choice(((9,), (3, 17), (0,), (1,), (70,)))
    operands = [array(f, r, S32, dims) for _ in range(n)]
    keys = r.choice((1, 2, n))
    order = ProgramBuilder(f.program)
    pairs = [(order.parameter(Shape(S32)), order.parameter(Shape(S32))) for _ in range(n)]
    less = order.put("compare", *pairs[keys - 1], direction="LT")
    for a, b in reversed(pairs[: keys - 1]):
        equal, before = (order.put("compare", a, b, direction=d) for d in ("EQ", "LT"))
        less = order.put("or", before, order.put("and", equal, less))
    to_apply = f.program.keep(Computation(f.program.name("order"), order.instructions, less))
    return f.elements(f.put("sort", *operands, dimensions=(len(dims) - 1,), is_stable=True, to_apply=to_apply))


@form(2, 40)
def reduces(f: ProgramBuilder, r: Random, n: int) -> Roots:
    """A reduce, a window's or a scatter of so many operands."""
    kind = r.choice(("reduce", "reduce-window", "scatter"))
    dims = r.choice(((6, 5), (3, 70), (1, 1), (40, 3)))
    operands = [array(f, r, S32, dims) for _ in range(n)]
    c = ProgramBuilder(f.program)
    before, after = ([c.parameter(Shape(S32)) for _ in range(n)] for _ in range(2))
    opcodes = [r.choice(("add", "maximum", "minimum", "xor")) for _ in range(n)]
    roots = [c.put(o, a, b) for o, a, b in zip(opcodes, before, after, strict=True)]
    to_apply = c.finish("combine", roots, as_tuple=n > 1)
    starts = [f.number(S32, 0) for _ in range(n)]
    if kind == "reduce":
        made = f.put("reduce", *operands, *starts, dimensions=r.choice(((0,), (1,), (0, 1))), to_apply=to_apply)
    elif kind == "reduce-window":
        window = (WindowDimension(min(2, dims[0])), WindowDimension(1))
        made = f.put("reduce-window", *operands, *starts, window=window, to_apply=to_apply)
    else:
        drawn = values.array(r, S32, (3, 1), "small") % dims[0]
        at = f.parameter(Shape.of(drawn), drawn)
        parts = [array(f, r, S32, (3, dims[1])) for _ in range(n)]
        made = f.put("scatter", *operands, at, *parts, update_window_dims=(1,), inserted_window_dims=(0,),
                     scatter_dims_to_operand_dims=(0,), index_vector_dim=1, to_apply=to_apply)  # fmt: skip
    return f.elements(made) if n > 1 else [made]


@form(2, 60)
def maps(f: ProgramBuilder, r: Random, n: int) -> Roots:
    """A map of a function of so many parameters."""
    t = element_type(r)
    inner = ProgramBuilder(f.program, scalar=True)
    parameters = [inner.parameter(Shape(t)) for _ in range(n)]
    x = parameters[0]
    for p in parameters[1:]:
        x = step(inner, r, x, (p,))
    to_apply = inner.finish("mapped", [x], as_tuple=False)
    operands = [array(f, r, t, (7,)) for _ in range(n)]
    return [f.put("map", *operands, dimensions=(0,), to_apply=to_apply)]


@form(2, 12)
def ranks(f: ProgramBuilder, r: Random, n: int) -> Roots:
    """Operations of 5 to 16 dimensions, of sizes 1 and 2, and sometimes 0 or 3."""
    t = element_type(r)
    rank = r.randint(5, 16)
    dims = [r.choice((1, 1, 2)) for _ in range(rank)]
    while prod(dims) > 512:
        dims[dims.index(2)] = 1
    if r.random() < 0.3:
        dims[r.randrange(rank)] = r.choice((0, 3))
    x = array(f, r, t, tuple(dims))
    zero, roots = f.number(t, 0), []
    for _ in range(n):
        y = _ranked(f, r, x, zero)
        roots.append(y)
        if y.shape.rank >= 5 and prod(y.shape.dimensions) <= 2048:
            x = y
    return roots


def _ranked(f: ProgramBuilder, r: Random, x: Instruction, zero: Instruction) -> Instruction:
    t, dims, rank = x.shape.element_type, x.shape.dimensions, x.shape.rank
    some = tuple(d for d in range(rank) if r.random() < 0.4)
    match r.randrange(10):
        case 0:
            return f.put("transpose", x, dimensions=tuple(r.sample(range(rank), rank)))
        case 1:
            return f.put("reverse", x, dimensions=some)
        case 2:
            return f.put("reduce", x, zero, dimensions=some[: rank - 5], to_apply=f.program.reducer("maximum", t))
        case 3:
            row = f.put("reduce", x, zero, dimensions=some, to_apply=f.program.reducer("minimum", t))
            kept = tuple(d for d in range(rank) if d not in some)
            return f.put("add", x, f.put("broadcast", row, shape=x.shape, dimensions=kept))
        case 4:
            low = [r.randrange(-1, 2) if d in some[:3] else 0 for d in range(rank)]
            padding = tuple(PaddingDimension(n, int(d in some[:2])) for d, n in enumerate(low))
            return f.put("pad", x, zero, padding=padding)
        case 5:
            parts = (SliceDimension(int(n > 1 and d in some), n) for d, n in enumerate(dims))
            return f.put("slice", x, slice=tuple(parts))
        case 6:
            window = tuple(WindowDimension(min(2, n) if d in some and n else 1) for d, n in enumerate(dims))
            return f.put("reduce-window", x, zero, window=window, to_apply=f.program.reducer("maximum", t))
        case 7:
            kept = tuple(d for d in range(rank) if d not in some[:4])
            return f.put("dot", x, x, lhs_contracting_dims=kept[1:], rhs_contracting_dims=kept[1:],
                         lhs_batch_dims=some[:4], rhs_batch_dims=some[:4])  # fmt: skip
        case 8:
            return f.put("concatenate", x, x, dimensions=(r.randrange(rank),))
        case _:
            return f.put("add", x, x)


@form(10, 300)
def constants(f: ProgramBuilder, r: Random, n: int) -> Roots:
    """Constants: many scalars, many arrays, of which some are equal, and some large ones."""
    t = element_type(r)
    x = array(f, r, t, (4,))
    roots = []
    for k in range(n):
        drawn = values.array(r, t, (4,), r.choice(("small", "small", "normal", "special")))
        c = f.constant(drawn if k % 3 else drawn * 0 if t.is_integer else drawn)
        roots.append(f.put("maximum", x, c))
        x = roots[-1] if k % 5 == 0 else x
    size = r.choice((0, 1, 1000, 4097, 30011))
    big = f.constant(values.array(r, t, (size,), "small"))
    roots.append(f.put("add", big, f.put("broadcast", f.number(t, 1), shape=big.shape, dimensions=())))
    return roots


@form(10, 200)
def gathers(f: ProgramBuilder, r: Random, n: int) -> Roots:
    """Gathers of one table at many different indices, and updates one after another."""
    t = element_type(r)
    table = array(f, r, t, (20, 3))
    roots, in_a_row = [], r.random() < 0.5
    for k in range(n):
        drawn = values.array(r, S32, (k % 4 + 1, 1), "small")
        at = f.parameter(Shape.of(drawn), drawn) if r.random() < 0.5 else f.constant(drawn)
        rows = f.put("gather", table, at, offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,),
                     index_vector_dim=1, slice_sizes=(1, 3))  # fmt: skip
        roots.append(rows)
        if in_a_row:
            table = f.put("scatter", table, at, rows, update_window_dims=(1,), inserted_window_dims=(0,),
                          scatter_dims_to_operand_dims=(0,), index_vector_dim=1,
                          to_apply=f.program.reducer("maximum", t))  # fmt: skip
    return [*roots, table]
