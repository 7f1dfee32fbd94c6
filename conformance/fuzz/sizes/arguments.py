"""Many parameters, and many results: updates of trees of arrays, scalars, what is passed through or ignored."""

from __future__ import annotations

from random import Random

from refxla_spec.module import Computation, Instruction, SliceDimension
from refxla_spec.types import ELEMENT_TYPES, Shape

from ..program_builder import Dims, ProgramBuilder
from .common import Roots, array, element_type, form, step

FEW: tuple[Dims, ...] = ((3, 4), (4,), (), (2, 3, 2))


def shapes(r: Random, n: int) -> list[Dims]:
    """As many shapes: the same, one of few, or all different."""
    match r.randrange(4):
        case 0:
            return [r.choice(FEW)] * n
        case 1:
            return [r.choice(FEW) for _ in range(n)]
        case 2:
            return [(k % 19 + 1, k // 19 + 1) for k in range(n)]
        case _:
            return [r.choice((*FEW, (0,), (1,), (1, 3), (0, 2))) for _ in range(n)]


@form(20, 300)
def updates(f: ProgramBuilder, r: Random, n: int) -> Roots:
    """An optimizer's update: p - rate * m, m = a m + b g, and perhaps second moments or a norm over all gradients."""
    t = ELEMENT_TYPES[r.choice(("f32", "f32", "s32", "bf16"))]
    dims = shapes(r, n)
    p, m, g = ([array(f, r, t, d) for d in dims] for _ in range(3))
    rate, decay = array(f, r, t), f.number(t, 2)
    scale = rate
    if r.random() < 0.4:
        zero, add = f.number(t, 0), f.program.reducer("add", t)
        for x in g:
            square = f.put("multiply", x, x)
            if square.shape.rank:
                square = f.put("reduce", square, zero, dimensions=tuple(range(square.shape.rank)), to_apply=add)
            scale = f.put("maximum", scale, square)
    moments = []
    for k, d in enumerate(dims):
        by = [f.full(Shape(t, d), c) for c in (decay, scale)]
        moments.append(f.put("add", f.put("multiply", m[k], by[0]), g[k]))
        p[k] = f.put("subtract", p[k], f.put("multiply", moments[k], by[1]))
    return [*p, *moments] if r.random() < 0.7 else p


@form(30, 1500)
def passed(f: ProgramBuilder, r: Random, n: int) -> Roots:
    """Parameters of which most are ignored, returned as they are, or returned several times."""
    t = element_type(r)
    every = [array(f, r, t, d) for d in shapes(r, n)]
    return [*(x for x in every if r.random() < 0.3), *(r.choice(every) for _ in range(n // 4)), f.put("copy", every[0])]


@form(30, 1000)
def results(f: ProgramBuilder, r: Random, n: int) -> Roots:
    """Many results of few arrays: elements, rows, multiples."""
    t = element_type(r)
    x, y = array(f, r, t, (17, 3)), array(f, r, t)
    rows: Roots = []
    for k in range(n):
        row = f.put("slice", x, slice=(SliceDimension(k % 17, k % 17 + 1), SliceDimension(0, 3)))
        if k % 3:
            row = f.put("multiply", row, f.full(row.shape, f.number(t, k % 5)))
        rows.append(f.put("reshape", row, shape=Shape(t, (3,))) if r.random() < 0.3 else row)
    return [*rows, y]


@form(30, 1000)
def scalars(f: ProgramBuilder, r: Random, n: int) -> Roots:
    """Scalars that are parameters, constants, and results, perhaps gathered in one array."""
    t = element_type(r)
    inputs = [array(f, r, t) for _ in range(n)]
    made = [step(f, r, x, (r.choice(inputs), f.number(t, k % 7))) for k, x in enumerate(inputs)]
    if r.random() < 0.5:
        return [f.put("concatenate", *(f.put("reshape", x, shape=Shape(t, (1,))) for x in made), dimensions=(0,))]
    return made


@form(20, 600)
def concatenated(f: ProgramBuilder, r: Random, n: int) -> Roots:
    """Many operands of one concatenate: parameters, or computed ones; of different lengths, some of them empty."""
    t, axis, computed = element_type(r), r.randrange(2), r.random() < 0.6
    parts = []
    for k in range(n):
        x = array(f, r, t, (k % 4, 3) if axis == 0 else (2, r.randrange(4)))
        parts.append(step(f, r, x, (x,)) if computed and k % 3 else x)
    whole = f.put("concatenate", *parts, dimensions=(axis,))
    return [whole, step(f, r, whole, (whole,))] if r.random() < 0.5 else [whole]


@form(20, 400)
def tuples(f: ProgramBuilder, r: Random, n: int) -> Roots:
    """Tuples of tuples: of the parameters, through calls and barriers, and of the results."""
    t = element_type(r)
    shape, depth = Shape(t, (3,)), 0
    while depth < 40 and len(_leaves(shape)) < n:
        shape = Shape.tuple_of(*[shape] * r.choice((1, 2, 3)), *[Shape(t, (r.choice((1, 2)),))] * r.randrange(2))
        depth += 1
    p = f.parameter(shape)
    made = p
    if r.random() < 0.5:
        made = f.put("opt-barrier", made)
    if r.random() < 0.5:
        inner = ProgramBuilder(f.program)
        q = inner.parameter(shape)
        made = f.put("call", made, to_apply=f.program.keep(_identity(inner, q)))
    leaves = _elements(f, made)
    return [made, *(step(f, r, x, (x,)) for x in leaves[: n // 2])]


def _identity(inner: ProgramBuilder, q: Instruction) -> Computation:
    root = inner.put("tuple", *inner.elements(q)) if q.shape.is_tuple else inner.put("copy", q)
    return Computation(inner.program.name("same"), inner.instructions, root)


def _leaves(shape: Shape) -> list[Shape]:
    return [s for e in shape.elements for s in _leaves(e)] if shape.is_tuple else [shape]


def _elements(f: ProgramBuilder, x: Instruction) -> Roots:
    return [leaf for e in f.elements(x) for leaf in _elements(f, e)] if x.shape.is_tuple else [x]
