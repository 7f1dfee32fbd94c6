"""Many instructions: chains, trees, repeated blocks, calls."""

from __future__ import annotations

from random import Random

from refxla_spec.module import Instruction, PaddingDimension, SliceDimension
from refxla_spec.types import S32, Shape

from ..program_builder import ProgramBuilder
from .common import Roots, array, element_type, form, function, step


@form(50, 2000)
def chain(f: ProgramBuilder, r: Random, n: int) -> Roots:
    """One long chain of elementwise operations, whose values are perhaps read again much later."""
    t, dims = element_type(r), r.choice(((), (5,), (3, 4), (300,)))
    others = [array(f, r, t, dims) for _ in range(3)]
    x = others[0]
    far = r.random() < 0.5
    for _ in range(n):
        x = step(f, r, x, others)
        if far and r.random() < 0.2:
            others.append(x)
    return [x, *others[-3:]]


@form(50, 1000)
def tree(f: ProgramBuilder, r: Random, n: int) -> Roots:
    """A tree of sums, balanced or at random, of parameters or of what is computed from one."""
    t, dims = element_type(r), r.choice(((), (5,), (3, 4)))
    if r.random() < 0.5:
        nodes = [array(f, r, t, dims) for _ in range(n)]
    else:
        x = array(f, r, t, dims)
        nodes = [f.put("add", x, f.full(x.shape, f.number(t, k % 100))) for k in range(n)]
    balanced = r.random() < 0.5
    while len(nodes) > 1:
        if balanced:
            odd = nodes[len(nodes) // 2 * 2 :]
            pairs = zip(nodes[::2], nodes[1::2], strict=False)
            nodes = [*(f.put(r.choice(("add", "maximum")), a, b) for a, b in pairs), *odd]
        else:
            a, b = (nodes.pop(r.randrange(len(nodes))) for _ in range(2))
            nodes.append(f.put("add", a, b))
    return nodes


@form(20, 600)
def diamonds(f: ProgramBuilder, r: Random, n: int) -> Roots:
    """Each value is read twice: written once for each path, the code would double with each step."""
    t, dims = element_type(r), r.choice(((), (5,), (4, 4)))
    x = array(f, r, t, dims)
    flat = r.random() < 0.5
    for k in range(n):
        if flat or not dims:
            x = f.put(r.choice(("add", "subtract", "maximum")), x, step(f, r, x, ()) if t.kind != "unsigned" else x)
        else:
            other = f.put("reverse", x, dimensions=(k % len(dims),))
            x = f.put("add", x, other)
    return [x]


@form(8, 120)
def repeated(f: ProgramBuilder, r: Random, n: int) -> Roots:
    """A block of operations again and again, with a different constant, operation or operand here and there."""
    t, dims = element_type(r), r.choice(((), (5,), (3, 4), (40,)))
    block = [(r.random() < 0.2, r.choice(("add", "subtract", "multiply", "maximum"))) for _ in range(r.randint(3, 20))]
    inputs = [array(f, r, t, dims) for _ in range(4)]
    different = r.choice((0.0, 0.02, 0.2))
    own, counting = r.random() < 0.4, r.random() < 0.5
    x, kept = inputs[0], []
    for k in range(n):
        b = array(f, r, t, dims) if own else inputs[1]
        for squared, opcode in block:
            if r.random() < different:
                opcode = r.choice(("minimum", "add"))
            y = x if squared else r.choice(inputs) if r.random() < different else b
            x = f.put(opcode, x, y)
        if counting:
            x = f.put("add", x, f.full(x.shape, f.number(t, k % 90 if r.random() > different else 3)))
        kept.append(x)
    return kept if r.random() < 0.3 else [x]


@form(20, 500)
def calls(f: ProgramBuilder, r: Random, n: int) -> Roots:
    """One computation called again and again, in a row or on one value, and perhaps computations that differ."""
    t = element_type(r)
    x = array(f, r, t, r.choice(((), (5,), (3, 4))))
    shape = x.shape
    same = function(f, r, shape, 6)
    in_a_row, roots = r.random() < 0.6, []
    for k in range(n):
        callee = function(f, r, shape, 3) if r.random() < 0.1 else same
        value = x if in_a_row else f.put("add", x, f.full(shape, f.number(t, k % 50)))
        roots.append(f.put("call", value, to_apply=callee))
        x = roots[-1] if in_a_row else x
    return roots[-1:] if in_a_row else roots


@form(10, 140)
def nested_calls(f: ProgramBuilder, r: Random, n: int) -> Roots:
    """Calls in calls, that deep; perhaps of a computation that the innermost ones share."""
    t = element_type(r)
    x = array(f, r, t, (4,))
    inner = function(f, r, x.shape, 2)
    shared = inner
    for k in range(n):
        b = ProgramBuilder(f.program)
        p = b.parameter(x.shape)
        y = b.put("call", p, to_apply=inner)
        if k % 7 == 0:
            y = b.put("add", y, b.put("call", p, to_apply=shared))
        inner = b.finish("outer", [step(b, r, y, (p,))], as_tuple=False)
    return [f.put("call", x, to_apply=inner)]


@form(20, 300)
def mixed(f: ProgramBuilder, r: Random, n: int) -> Roots:
    """A chain of operations that each want a kernel: sums, products, transposes, slices and updates."""
    t = element_type(r)
    x, w = array(f, r, t, (6, 6)), array(f, r, t, (6, 6))
    zero = f.number(t, 0)
    kinds = r.sample(range(8), r.randint(1, 4))
    for k in range(n):
        x = _mixed(f, r.choice(kinds), x, w, zero, k)
    return [x]


def _mixed(f: ProgramBuilder, kind: int, x: Instruction, w: Instruction, zero: Instruction, k: int) -> Instruction:
    t = x.shape.element_type
    match kind:
        case 0:
            row = f.put("reduce", x, zero, dimensions=(k % 2,), to_apply=f.program.reducer("maximum", t))
            return f.put("add", w, f.put("broadcast", row, shape=x.shape, dimensions=(k % 2,)))
        case 1:
            y = f.put("dot", x, w, lhs_contracting_dims=(1,), rhs_contracting_dims=(0,))
            return f.put("minimum", y, w)
        case 2:
            return f.put("add", f.put("transpose", x, dimensions=(1, 0)), w)
        case 3:
            part = f.put("slice", x, slice=(SliceDimension(1, 6), SliceDimension(0, 5)))
            return f.put("pad", part, zero, padding=(PaddingDimension(k % 2, 1 - k % 2), PaddingDimension(1, 0)))
        case 4:
            at = [f.number(S32, (k * 5 + d) % 6) for d in range(2)]
            part = f.put("slice", x, slice=(SliceDimension(k % 5, k % 5 + 2), SliceDimension(0, 3)))
            return f.put("dynamic-update-slice", x, f.put("negate", part) if t.kind != "unsigned" else part, *at)
        case 5:
            return f.put("concatenate", *(f.put("slice", x, slice=(s, SliceDimension(0, 6))) for s in
                                          (SliceDimension(2, 6), SliceDimension(0, 2))), dimensions=(0,))  # fmt: skip
        case 6:
            return f.put("reverse", f.put("maximum", x, w), dimensions=(k % 2,))
        case _:
            flat = f.put("reshape", x, shape=Shape(t, (36,)))
            return f.put("reshape", f.put("reverse", flat, dimensions=(0,)), shape=x.shape)
