"""Loops, conditionals, calls, fusions and maps: operations that contain computations."""

from __future__ import annotations

from refxla_spec.module import Computation, Instruction
from refxla_spec.types import PRED, S32, Shape, Value

from .. import values
from ..program_builder import Program, ProgramBuilder, Skip, rule


def bare(shape: Shape) -> Shape:
    return shape.without_layout()


def carried(f: ProgramBuilder, least: int, most: int) -> list[Instruction]:
    return [f.any() for _ in range(f.r.randint(least, most))]


@rule(2, control=True)
def while_(f: ProgramBuilder) -> None:
    """A loop that ends: it counts up or down to a constant, which may be part of its state. State may be permuted,
    unchanged, duplicated, and ignored."""
    program, r = f.program, f.r
    state = carried(f, 1, 4)
    turns, step = r.randint(0, 4), r.choice((1, 1, 1, 2, -1))
    limit = turns * step
    at = r.randint(0, len(state))  # the position of the counter
    state.insert(at, f.number(S32, 0))
    carries_limit = f.flip(0.3)
    if carries_limit:
        state.append(f.number(S32, limit))
    shapes = [bare(v.shape) for v in state]
    tuple_shape = Shape.tuple_of(*shapes)

    body = ProgramBuilder(program, f.depth - 1)
    parts = body.elements(body.parameter(tuple_shape))
    body.grow(r.randint(0, 5))
    if f.depth > 1 and f.flip(0.2):
        while_(body)
    counter = body.put("add", parts[at], body.number(S32, step))
    roots = []
    for n, s in enumerate(shapes):
        if n == at:
            roots.append(counter)
        elif carries_limit and n == len(shapes) - 1:
            roots.append(parts[n])
        else:
            roots.append(parts[n] if f.flip(0.25) else body.of(s.element_type, s.dimensions, 0.1))
    made_body = body.finish("body", roots, as_tuple=True)

    test = ProgramBuilder(program)
    parts = test.elements(test.parameter(tuple_shape))
    last = parts[-1] if carries_limit else test.number(S32, limit)
    direction = r.choice(("NE", "LT" if step > 0 else "GT"))
    root = test.put("compare", parts[at], last, direction=direction)
    condition = program.keep(Computation(program.name("condition"), test.instructions, root))
    loop = f.put("while", f.put("tuple", *state), condition=condition, body=made_body)
    for n in range(len(shapes)):
        if f.flip(0.8):
            f.put("get-tuple-element", loop, index=n)


@rule(1, control=True)
def conditional(f: ProgramBuilder) -> None:
    """Of one to three branches, by an index that may be out of range or by a pred."""
    r = f.r
    count = r.randint(1, 3)
    by_pred = count == 2 and f.flip()
    index = f.of(PRED, ()) if by_pred else f.index()
    if not by_pred and index.shape.element_type is not S32:
        index = f.put("convert", index, shape=Shape(S32))
    results: list[Shape] = []
    branches: list[tuple[ProgramBuilder, list[Instruction]]] = []
    operands = []
    for n in range(count):
        inputs = carried(f, 1, 3)
        as_tuple = len(inputs) > 1 or f.flip()
        operand = f.put("tuple", *inputs) if as_tuple else inputs[0]
        branch = f.inner([operand.shape if as_tuple else bare(operand.shape)], r.randint(0, 4))
        if n == 0:
            roots = [branch.any() for _ in range(r.randint(1, 3))]
            results = [bare(v.shape) for v in roots]
        else:
            roots = [branch.of(s.element_type, s.dimensions) for s in results]
        branches.append((branch, roots))
        operands.append(operand)
    as_tuple = len(results) > 1 or f.flip()
    called = tuple(branch.finish("branch", roots, as_tuple) for branch, roots in branches)
    if by_pred:
        result = f.put("conditional", index, *operands, true_computation=called[0], false_computation=called[1])
    else:
        result = f.put("conditional", index, *operands, branch_computations=called)
    if as_tuple:
        f.elements(result)


@rule(0.8, control=True)
def in_many_roles(f: ProgramBuilder) -> None:
    """One computation as the branches of a conditional, the body of a loop and its condition, called and applied to
    elements: x -> not x, on scalars or in tuples."""
    depth = f.r.choice((0, 0, 1, 2))
    role = ProgramBuilder(f.program, 0)
    shape = Shape(PRED)
    for _ in range(depth):
        shape = Shape.tuple_of(shape)
    p = role.parameter(shape)
    if depth:
        for _ in range(depth):
            p = role.put("get-tuple-element", p, index=0)
    inverse = role.put("not", p)
    wrapped = inverse
    for _ in range(depth):
        wrapped = role.put("tuple", wrapped)
    flip = f.program.keep(Computation(f.program.name("flip"), role.instructions, wrapped))
    x = f.of(PRED, ())
    operand = x
    for _ in range(depth):
        operand = f.put("tuple", operand)
    result = operand
    for use in f.r.sample(("while", "conditional", "call", "map"), f.r.randint(1, 3)):
        if use == "while" and not depth:
            result = f.put("while", result, condition=flip, body=flip)  # it ends with what the condition inverts: true
        elif use == "conditional":
            result = f.put("conditional", x, result, operand, true_computation=flip, false_computation=flip)
        elif use == "call":
            result = f.put("call", result, to_apply=flip)
        elif use == "map" and not depth:
            f.put("map", f.of(PRED, (3,)), dimensions=(0,), to_apply=flip)
    for _ in range(depth):
        result = f.put("get-tuple-element", result, index=0)


@rule(0.6)
def tuple_constant(f: ProgramBuilder) -> None:
    """Tuples of constants in one constant, possibly nested."""
    if f.scalar:
        raise Skip("scalars alone")
    parts = [values.array(f.r, f.type(), f.dims()[-1:]) for _ in range(f.r.randint(1, 3))]
    value: Value = tuple(parts) if f.flip() else (parts[0], (*parts,))
    constant = f.put("constant", shape=_shape_of(value), literal=value)
    for e in f.elements(constant):
        if e.shape.is_tuple:
            f.elements(e)


def _shape_of(value: Value) -> Shape:
    return Shape.tuple_of(*map(_shape_of, value)) if isinstance(value, tuple) else Shape.of(value)


@rule(0.6)
def drawn(f: ProgramBuilder) -> None:
    """Random numbers, whose state passes through loops and branches in an order that the program fixes."""
    if f.scalar:
        raise Skip("applied to elements, in no order")
    t = f.type("signed", "unsigned")
    if t.bits < 8:
        raise Skip("no such random numbers")
    shape = Shape(t, f.dims())
    f.put("rng", f.number(t, 1), f.number(t, 100), shape=shape, distribution="rng_uniform")


@rule(1.5, control=True)
def call(f: ProgramBuilder) -> None:
    """A call, a composite, or a fusion as another compiler creates it."""
    r = f.r
    operands = carried(f, 1, 3)
    inner = f.inner([bare(v.shape) for v in operands], r.randint(1, 5))
    roots = [inner.pool[-1], *(inner.any() for _ in range(r.randint(0, 2)))]
    as_tuple = len(roots) > 1
    if f.flip():
        kind = r.choice(("kLoop", "kInput", "kOutput"))
        result = f.put("fusion", *operands, kind=kind, calls=inner.finish("fused", roots, as_tuple))
    else:
        result = f.put("call", *operands, to_apply=inner.finish("callee", roots, as_tuple), is_composite=f.flip(0.3))
    if as_tuple:
        f.elements(result)


@rule(0.7, control=True)
def map_(f: ProgramBuilder) -> None:
    x = f.any()
    operands = [x, *(f.of(f.type(), x.shape.dimensions) for _ in range(f.r.randint(0, 2)))]
    inner = f.inner([Shape(v.shape.element_type) for v in operands], f.r.randint(1, 4), scalar=True)
    root = next(v for v in reversed(inner.pool) if not v.shape.rank)
    body = inner.finish("mapped", [root], as_tuple=False)
    f.put("map", *operands, dimensions=tuple(range(x.shape.rank)), to_apply=body)


def splice(
    program: Program, computation: Computation, arguments: list[Instruction], builder: ProgramBuilder
) -> Instruction:
    """Inlines another module's computation; those that it calls are copied as well. Returns its root."""
    values: dict[Instruction, Instruction] = {}
    for i in computation.instructions:
        if i.opcode == "parameter":
            values[i] = arguments[i.attributes["number"]]
            continue
        attributes = {k: _copied(program, v) for k, v in i.attributes.items()}
        values[i] = builder.put(i.opcode, *(values[o] for o in i.operands), shape=bare(i.shape), **attributes)
    return values[computation.root]


def _copied(program: Program, value: object) -> object:
    """An attribute whose computations are copied into the program under new names."""
    if isinstance(value, tuple) and value and isinstance(value[0], Computation):
        return tuple(_copied(program, c) for c in value)
    if not isinstance(value, Computation):
        return value
    copies: dict[Instruction, Instruction] = {}
    for i in value.instructions:
        attributes = {k: _copied(program, v) for k, v in i.attributes.items()}
        copies[i] = Instruction(i.name, i.opcode, i.shape, [copies[o] for o in i.operands], attributes)
    return program.keep(Computation(program.name(value.name), list(copies.values()), copies[value.root]))
