"""What the forms share: element types, arrays, computations, steps of a chain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from refxla_spec.module import Computation, Instruction, SliceDimension
from refxla_spec.types import ELEMENT_TYPES, S32, ElementType, Shape

from .. import values
from ..program_builder import Dims, ProgramBuilder

Roots = list[Instruction]
Grow = Callable[[ProgramBuilder, Random, int], Roots]
TYPES = ("s32", "s32", "f32", "f32", "u8", "f64", "bf16", "s64")
OPCODES = ("add", "subtract", "multiply", "maximum", "minimum")
FLOAT_UNARY = ("negate", "tanh", "abs", "cosine", "floor")
INTEGER_UNARY = ("negate", "abs", "not", "sign")


@dataclass(frozen=True)
class Form:
    """A kind of program: how it grows to a size, and the sizes that it has."""

    grow: Grow
    least: int
    most: int

    @property
    def name(self) -> str:
        return self.grow.__name__


FORMS: list[Form] = []


def form(least: int, most: int) -> Callable[[Grow], Grow]:
    """Enters a function into FORMS."""

    def enter(grow: Grow) -> Grow:
        FORMS.append(Form(grow, least, most))
        return grow

    return enter


def element_type(r: Random) -> ElementType:
    return ELEMENT_TYPES[r.choice(TYPES)]


def array(f: ProgramBuilder, r: Random, t: ElementType, dims: Dims = (), mode: str = "small") -> Instruction:
    """A new parameter with small numbers by default."""
    return f.parameter(Shape(t, dims), values.array(r, t, dims, mode))


def step(f: ProgramBuilder, r: Random, x: Instruction, others: Sequence[Instruction]) -> Instruction:
    """An elementwise operation of a value and, mostly, of another one of its shape."""
    t = x.shape.element_type
    if not others or r.random() < 0.2:
        return f.put(r.choice(FLOAT_UNARY if t.is_float else INTEGER_UNARY if t.kind == "signed" else ("not",)), x)
    pair = [x, r.choice(others)]
    r.shuffle(pair)
    return f.put(r.choice(OPCODES), *pair)


def function(f: ProgramBuilder, r: Random, shape: Shape, steps: int, name: str = "function") -> Computation:
    """A computation of one value of that shape, of so many steps."""
    inner = ProgramBuilder(f.program)
    x = p = inner.parameter(shape)
    one = inner.full(shape, inner.number(shape.element_type, r.choice((1, 2, 3))))
    for _ in range(steps):
        x = step(inner, r, x, (p, one))
    return inner.finish(name, [x], as_tuple=False)


def loop(
    f: ProgramBuilder,
    turns: int,
    state: Sequence[Instruction],
    body: Callable[[ProgramBuilder, Instruction, list[Instruction]], Sequence[Instruction]],
) -> list[Instruction]:
    """A counted loop; `body` is given its builder, the counter and the state. The state after it."""
    start = [f.number(S32, 0), *state]
    shape = Shape.tuple_of(*(v.shape for v in start))
    inner = ProgramBuilder(f.program)
    counter, *values_ = inner.elements(inner.parameter(shape))
    following = body(inner, counter, values_)
    after = inner.put("add", counter, inner.number(S32, 1))
    made = inner.finish("body", [after, *following], as_tuple=True)
    test = ProgramBuilder(f.program)
    count = test.put("get-tuple-element", test.parameter(shape), index=0)
    root = test.put("compare", count, test.number(S32, turns), direction="LT")
    condition = f.program.keep(Computation(f.program.name("condition"), test.instructions, root))
    return f.elements(f.put("while", f.put("tuple", *start), condition=condition, body=made))[1:]


def positive(f: ProgramBuilder, x: Instruction) -> Instruction:
    """Whether the first element of a value is positive, as a scalar."""
    t, rank = x.shape.element_type, x.shape.rank
    if rank:
        x = f.put("reshape", f.put("slice", x, slice=(SliceDimension(0, 1),) * rank), shape=Shape(t))
    return f.put("compare", x, f.number(t, 0), direction="GT")
