"""Many loops, conditionals and branches: one after another, nested, or with many values."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from refxla_spec.module import Instruction, SliceDimension
from refxla_spec.types import S32, Shape

from .. import values
from ..program_builder import ProgramBuilder
from .common import Roots, array, element_type, form, function, loop, positive, step


@form(8, 120)
def loops(f: ProgramBuilder, r: Random, n: int) -> Roots:
    """Small loops, one after another or independent, of one body or of bodies that differ."""
    t, dims = element_type(r), r.choice(((), (5,), (3, 40)))
    x = array(f, r, t, dims)
    in_a_row, equal, roots = r.random() < 0.6, r.random() < 0.5, []
    for k in range(n):
        turns, factor = (3, 1) if equal else (r.randrange(5), k % 9)

        def body(b: ProgramBuilder, counter: Instruction, state: Sequence[Instruction], factor: int = factor) -> Roots:
            y = b.put("maximum", *state)
            return [b.put("add", y, b.full(y.shape, b.number(t, factor))), state[0]]

        start = x if in_a_row else f.put("add", x, f.full(x.shape, f.number(t, k % 50)))
        roots.append(loop(f, turns, [start, x], body)[k % 2])
        x = roots[-1] if in_a_row else x
    return roots[-1:] if in_a_row else roots


@form(10, 200)
def conditionals(f: ProgramBuilder, r: Random, n: int) -> Roots:
    """Conditionals, one after another or independent, whose predicates are arguments or computed."""
    t = element_type(r)
    x = array(f, r, t, r.choice(((), (5,), (3, 40))))
    in_a_row, roots = r.random() < 0.6, []
    given = array(f, r, S32, (n,)) if r.random() < 0.5 else None
    for k in range(n):
        if given is None:
            chosen = positive(f, x)
        else:
            element = f.put("slice", given, slice=(SliceDimension(k, k + 1),))
            chosen = f.put("compare", f.put("reshape", element, shape=Shape(S32)), f.number(S32, 1), direction="GT")
        branches = [function(f, r, x.shape, 2, "branch") for _ in range(2)]
        y = f.put("conditional", chosen, x, x, true_computation=branches[0], false_computation=branches[1])
        roots.append(y)
        x = y if in_a_row else f.put("add", x, f.full(x.shape, f.number(t, 1)))
    return roots[-1:] if in_a_row else roots


@form(8, 200)
def branches(f: ProgramBuilder, r: Random, n: int) -> Roots:
    """One conditional of so many branches, which return several values, on arguments that differ or are one."""
    t = element_type(r)
    x = array(f, r, t, (4,))
    index = f.parameter(Shape(S32), values.array(r, S32, (), "small"))
    index = f.put("multiply", index, f.number(S32, max(1, n // 7)))
    operands, computations = [], []
    for k in range(n):
        operands.append(x if r.random() < 0.7 else f.put("add", x, f.full(x.shape, f.number(t, k % 60))))
        computations.append(function(f, r, x.shape, 1 + k % 3, "branch"))
    y = f.put("conditional", index, *operands, branch_computations=tuple(computations))
    return [y, step(f, r, y, (x,))]


@form(3, 60)
def nested_conditionals(f: ProgramBuilder, r: Random, n: int) -> Roots:
    """Conditionals in branches of conditionals."""
    t = element_type(r)
    x = array(f, r, t, (3,))
    inner = function(f, r, x.shape, 2, "branch")
    for _ in range(n):
        b = ProgramBuilder(f.program)
        p = b.parameter(x.shape)
        y = step(b, r, p, (p,))
        other = function(f, r, x.shape, 2, "branch")
        y = b.put("conditional", positive(b, y), y, p, true_computation=inner, false_computation=other)
        inner = b.finish("branch", [step(b, r, y, (p,))], as_tuple=False)
    return [f.put("call", x, to_apply=inner)]


@form(2, 9)
def nested_loops(f: ProgramBuilder, r: Random, n: int) -> Roots:
    """Loops in bodies of loops, of one or two iterations each."""
    t = element_type(r)
    x = array(f, r, t, r.choice(((), (5,), (3, 4))))
    turns = [r.randint(1, 2) for _ in range(n)]

    def body(b: ProgramBuilder, counter: Instruction, state: Sequence[Instruction], depth: int = 0) -> Roots:
        x, y = state
        if depth < n - 1:
            x, y = loop(b, turns[depth], [x, y], lambda b, c, s: body(b, c, s, depth + 1))
        return [step(b, r, y, (x,)), step(b, r, x, (y,))]

    return loop(f, 2, [x, x], body)


@form(20, 500)
def state(f: ProgramBuilder, r: Random, n: int) -> Roots:
    """A loop that carries many values: in their places, rotated, permuted, unchanged; perhaps nested."""
    t = element_type(r)
    start = [array(f, r, t, (r.choice((2, 3)),) if r.random() < 0.1 else (3,)) for _ in range(n)]
    start.sort(key=lambda x: x.shape.dimensions)
    kind, nested = r.randrange(4), r.random() < 0.3
    threes = next(k for k, x in enumerate([*start, None]) if x is None or x.shape.dimensions == (3,))
    order = list(range(threes, n))
    if kind == 0:
        r.shuffle(order)
    elif kind == 1:
        order = order[1:] + order[:1]

    def body(b: ProgramBuilder, counter: Instruction, values_: Sequence[Instruction], depth: int = 0) -> Roots:
        permuted = [*values_[:threes], *(values_[k] for k in order)]
        if nested and depth == 0:
            permuted = loop(b, 2, permuted, lambda b, c, s: body(b, c, s, 1))
        if kind == 3:
            permuted[-1] = b.put("add", permuted[-1], permuted[threes])
            return permuted
        return [step(b, r, x, (x,)) if r.random() < 0.7 else x for x in permuted]

    return loop(f, 3, start, body)


@form(5, 60)
def stacked(f: ProgramBuilder, r: Random, n: int) -> Roots:
    """A scan that reads a row of each of many arrays, and writes one of each of many others."""
    t = element_type(r)
    inputs = [array(f, r, t, (5, k % 3 + 1)) for k in range(n)]
    outputs = [f.full(x.shape, f.number(t, 0)) for x in inputs]

    def body(b: ProgramBuilder, counter: Instruction, state: Sequence[Instruction]) -> Roots:
        following = list(state)
        for k in range(n):
            at = [counter, b.number(S32, 0)]
            row = b.put("dynamic-slice", state[k], *at, dynamic_slice_sizes=(1, k % 3 + 1))
            following[n + k] = b.put("dynamic-update-slice", state[n + k], step(b, r, row, (row,)), *at)
        return following

    return loop(f, 5, [*inputs, *outputs], body)[n:]
