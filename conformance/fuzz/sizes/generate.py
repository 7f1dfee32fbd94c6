"""The program of a number: a form, its size, and names that are long or alike."""

from __future__ import annotations

import random

from refxla_spec.module import Module
from refxla_spec.operation import Violation
from refxla_spec.types import PRED, S32

from ..generate import Sample
from ..program_builder import Program, ProgramBuilder, Skip, module_of
from . import arguments, chains, control, operands  # noqa: F401  (enters the forms)
from .common import FORMS, Form

LONGEST = 1 << 17  # elements of a value
NAMES = 4  # one program in so many has unusual names
WORDS = ("int", "float", "kernel", "global", "while", "main", "add", "NULL", "if", "x", "get_global_id")
LETTERS = "abcdefghijklmnopqrstuvwxyz_.-"


def form_of(seed: int) -> Form:
    """The form of a number's program: one after another, each for even and odd numbers alike."""
    return FORMS[(seed + seed // len(FORMS)) % len(FORMS)]


def generate_sized(seed: int, scale: float = 1.0) -> Sample:
    """The program of that number; with another `scale`, one of the same form with so many times its size."""
    r = random.Random(f"size {seed}")
    chosen = form_of(seed)
    ratio = chosen.most / chosen.least
    size = max(1, round(chosen.least * ratio ** (r.random()) * scale))
    program = Program(r, (S32, PRED), sizes=(1, 2, 3), largest=LONGEST)
    entry = ProgramBuilder(program, entry=True)
    try:
        roots = chosen.grow(entry, r, size)
    except Violation as problem:
        raise Skip(f"number {seed}: {problem}") from None
    module = module_of(program, entry.finish("main", roots, as_tuple=True))
    program.used[chosen.name] += 1
    naming = random.Random(f"names {seed}")
    if naming.randrange(NAMES) == 0:
        rename(naming, module)
    arguments_ = tuple(a for p in module.entry.parameters for a in program.arguments[p])
    return Sample(seed, module, arguments_, program.used)


def rename(r: random.Random, module: Module) -> None:
    """Gives everything a name that is long, a word of C or HLO, or the same as another one but for its punctuation."""
    kind = r.randrange(4)
    for c in module.computations:
        for k, i in enumerate(c.instructions):
            i.name = _name(r, kind, k)
    for k, c in enumerate(module.computations):
        c.name = _name(r, kind, k)


def _name(r: random.Random, kind: int, k: int) -> str:
    match kind:
        case 0:
            return "n" + "".join(r.choice(LETTERS) for _ in range(r.choice((1, 60, 300, 3000)))) + f"_{k}"
        case 1:
            return "".join(r.choice("._-") if x == "." else x for x in f"a.b.{k // 3}.{k % 3}")
        case 2:
            return r.choice(WORDS) + r.choice("._") + str(k)
        case _:
            return f"v.{k}"  # the same in every computation
