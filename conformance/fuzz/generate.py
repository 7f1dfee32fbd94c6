"""Random valid HLO programs, each from one number.

    sample = generate(1234)           a module, and arguments for it
    sample = generate(1234, types=EXACT)   of integers and pred alone: every result is exact

Every instruction's shape is checked by its operation's own `infer`, and `verify` accepts every program. Elementwise
operations come from the registry; the examples of all operations are inlined into programs; the other operations have
rules in growth/.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from refxla_spec.module import Instruction, Module
from refxla_spec.types import ELEMENT_TYPES, ElementType, Layout, Shape

from . import growth  # noqa: F401  (enters the rules)
from .growth.large import large
from .growth.lengths import lengths
from .program_builder import LARGER, LARGEST, LONGER_SIZES, SIZES, Program, ProgramBuilder, module_of

EXACT = ("s32", "s32", "pred")
COMMON = ("s32", "f32", "f32", "pred", "f32", "u32", "bf16", "f16", "f64", "s8", "u8", "s64", "c64")
RARE = tuple(t.name for t in ELEMENT_TYPES.values() if t.is_array)
LARGE = 50  # one program in so many has an array of a million elements
LONGER = 12  # one in so many has longer dimensions
LENGTHS = 5  # one in so many has an operation of medium length, or with more than two of a kind


@dataclass(frozen=True)
class Sample:
    """A program with one argument for each array among its parameters, in order."""

    seed: int
    module: Module
    arguments: tuple[np.ndarray, ...]
    used: Counter[str] = field(default_factory=Counter, compare=False)  # rules that added something


def generate(
    seed: int,
    steps: int = 9,
    depth: int = 2,
    types: Sequence[str] = (),
    weights: dict[str, float] | None = None,
    sizes: Sequence[int] | None = None,
) -> Sample:
    """The program of that number: about `steps` rules applied, with computations nested up to `depth`.

    `types` names the element types of its values (by default a random few for each seed); `weights` makes rules more or
    less frequent, by name; dimensions have `sizes`, drawn at random (by default small ones, and LONGER_SIZES in one
    program of LONGER). The same call gives the same program, as long as the rules and the operations are unchanged.
    """
    r = random.Random(f"refxla {seed}")
    longer = sizes is None and seed % LONGER == LONGER - 1
    sizes = tuple(sizes or (LONGER_SIZES if longer else SIZES))
    program = Program(r, palette(r, types), bool(types), weights or {}, sizes, LARGER if longer else LARGEST)
    entry = ProgramBuilder(program, depth, entry=True)
    for _ in range(r.randint(1, 2)):
        shapes = [Shape(r.choice(program.types), entry.dims()) for _ in range(2)]
        if r.random() < 0.85:
            entry.parameter(shapes[0])
        else:
            entry.elements(entry.parameter(Shape.tuple_of(*shapes)))
    entry.grow(r.randint(1, steps))
    roots = _roots(r, entry)
    if seed % LARGE == 0:
        roots += large(entry, random.Random(f"large {seed}"))
    if seed % LENGTHS == LENGTHS - 1:
        roots += lengths(entry, random.Random(f"lengths {seed}"))
    module = module_of(program, entry.finish("main", roots, as_tuple=r.random() < 0.3))
    if r.random() < 0.1:
        _layouts(r, module)
    if r.random() < 0.1:
        _notes(r, module)
    arguments = tuple(a for p in module.entry.parameters for a in program.arguments[p])
    return Sample(seed, module, arguments, program.used)


def palette(r: random.Random, types: Sequence[str]) -> tuple[ElementType, ...]:
    """The element types of one program, the more frequent ones repeated."""
    if not types:
        types = ["s32", "pred", *r.choices(COMMON, k=r.randint(1, 3))]
        if r.random() < 0.15:
            types += [r.choice(RARE)] * 2
    return tuple(ELEMENT_TYPES[name] for name in types)


def _roots(r: random.Random, entry: ProgramBuilder) -> list[Instruction]:
    """The program's results: the last values that nobody reads, and perhaps some that are read."""
    operands = {o for i in entry.instructions for o in i.operands}
    ends, wide = (
        [v for v in pool if v not in operands and v.opcode != "parameter"] for pool in (entry.pool, entry.wide)
    )
    roots = [*ends[-8:], *wide[-3:]] or entry.pool[-1:]
    if r.random() < 0.4:
        roots = [*roots, r.choice(entry.pool)]
    return roots


def _notes(r: random.Random, module: Module) -> None:
    """Gives some instructions annotations, which do not affect their meaning."""
    for i in module.instructions():
        if r.random() < 0.3:
            i.attributes = {**i.attributes, r.choice(("origin", "original_value")): "{v.1}"}


def _layouts(r: random.Random, module: Module) -> None:
    """Gives some values of the entry a layout that is not row-major, which does not affect their meaning."""
    for i in module.entry.instructions:
        if i.shape.is_array and i.shape.rank > 1 and i.opcode not in ("bitcast", "constant") and r.random() < 0.3:
            order = list(range(i.shape.rank))
            r.shuffle(order)
            i.shape = Shape(i.shape.element_type, i.shape.dimensions, Layout(tuple(order)), i.shape.dynamic)
