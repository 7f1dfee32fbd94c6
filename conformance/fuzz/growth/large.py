"""An array of a million elements at the end of a program, where threads share the work, and indices are large.

It is computed from an existing value, repeated, and an iota, so that all elements differ; the program's arguments, and
the record of a divergence, stay small.
"""

from __future__ import annotations

from random import Random

from refxla_spec.module import Instruction
from refxla_spec.types import ELEMENT_TYPES, Shape

from ..program_builder import ProgramBuilder

LEAST = 10**6
TYPES = ("s32", "u32", "f32", "u8", "bf16", "s16", "f64")


def large(f: ProgramBuilder, r: Random) -> list[Instruction]:
    """One result of at least LEAST elements, or one and its reduction; none if nothing fits."""
    candidates = [v for v in f.pool if v.shape.element_type.name in TYPES and v.shape.size and v.shape.rank]
    if not candidates:
        return []
    limit, f.limit = f.limit, 2 * LEAST
    try:
        return _grown(f, r, r.choice(candidates))
    finally:
        f.limit = limit


def _grown(f: ProgramBuilder, r: Random, value: Instruction) -> list[Instruction]:
    t, n = value.shape.element_type, value.shape.size
    rows = LEAST // n + r.randrange(1, 20)
    flat = f.put("reshape", value, shape=Shape(t, (n,)))
    x = f.put("broadcast", flat, shape=Shape(t, (rows, n)), dimensions=(1,))
    counted = f.put("iota", shape=Shape(ELEMENT_TYPES["s32"], (rows, n)), iota_dimension=0)
    if t.name != "s32":
        counted = f.put("convert", counted, shape=Shape(t, (rows, n)))
    x = f.put(r.choice(("add", "subtract", "maximum")), x, counted)
    kind = r.randrange(5)
    if kind == 0:
        x = f.put("transpose", x, dimensions=(1, 0))
    elif kind == 1:
        x = f.put("reverse", x, dimensions=(r.randrange(2),))
    elif kind == 2:
        x = f.put("reshape", x, shape=Shape(t, (rows * n,)))
    elif kind == 3 and t.is_integer:
        opcode = r.choice(("add", "maximum"))
        d = (r.choice((0, 1)),) if r.random() < 0.7 else (0, 1)
        start = f.number(t, 0)
        return [x, f.put("reduce", x, start, dimensions=d, to_apply=f.program.reducer(opcode, t))]
    return [x]
