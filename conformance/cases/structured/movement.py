"""Operations that only move elements: pad, slice, concatenate, transpose, reshape, broadcast, reverse, iota, copy,
bitcast."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import TypeVar

import numpy as np
from refxla_spec.types import ElementType

from .. import Case, seeded
from ..building import Program, braces, by_type, not_finite, random_values, several, shape, structured

Dims = tuple[int, ...]
Forms = tuple[tuple[Dims, str], ...]
_Form = TypeVar("_Form")

FORMS: dict[str, Forms] = {  # for each operation: dimensions of the operand, attributes
    "pad": (
        ((3, 4), "padding=1_2x0_1"),
        ((3, 4), "padding=0_0_2x1_0_1"),
        ((3, 4), "padding=-1_2x-2_-1"),
        ((3, 4), "padding=-1_0_3x0_-4_1"),
        ((3, 4), "padding=-3_0x0_0"),
        ((3, 4), "padding=-2_4x5_-3"),
        ((0, 2), "padding=2_1x0_0"),
        ((0, 2), "padding=0_0_1x0_0"),
        ((2, 1, 2, 3, 1, 2), "padding=0_1x1_0x0_0x-1_0_1x0_0_2x1_-1"),
        ((6,), "padding=2_2_2"),
    ),
    "slice": (
        ((5, 6), "slice={[1:4], [2:6]}"),
        ((5, 6), "slice={[0:5:2], [1:6:3]}"),
        ((5, 6), "slice={[4:5], [0:6:6]}"),
        ((5, 6), "slice={[2:2], [0:6]}"),
        ((5, 6), "slice={[0:5:7], [5:6:2]}"),
        ((2, 3, 2, 2, 3, 2), "slice={[0:2], [1:3], [0:1], [1:2], [0:3:2], [0:2]}"),
    ),
    "transpose": (
        ((3, 4), "dimensions={1,0}"),
        ((3, 4), "dimensions={0,1}"),
        ((2, 3, 4), "dimensions={2,0,1}"),
        ((2, 3, 4), "dimensions={1,2,0}"),
        ((2, 1, 3, 2, 2, 4), "dimensions={5,2,0,4,1,3}"),
        ((0, 3), "dimensions={1,0}"),
        ((35, 40), "dimensions={1,0}"),
        ((5,), "dimensions={0}"),
    ),
    "reverse": (
        ((3, 4), "dimensions={0}"),
        ((3, 4), "dimensions={0,1}"),
        ((3, 4), "dimensions={}"),
        ((2, 3, 2, 2, 1, 3), "dimensions={5,1,3}"),
        ((0, 3), "dimensions={1}"),
    ),
}

RESHAPES = (  # operand, result
    ((3, 4), (12,)),
    ((3, 4), (2, 6)),
    ((12,), (1, 3, 1, 4, 1)),
    ((1, 1), ()),
    ((), (1, 1, 1)),
    ((0, 3), (7, 0)),
    ((2, 3, 4, 5), (6, 20)),
)
BROADCASTS = (  # operand, result, dimensions
    ((), (3, 2), ()),
    ((3,), (3, 2), (0,)),
    ((3,), (2, 3), (1,)),
    ((2, 4), (2, 3, 4), (0, 2)),
    ((2, 4), (4, 3, 2), (2, 0)),
    ((1, 3), (1, 3), (0, 1)),
    ((3,), (0, 3), (1,)),
    ((2, 2), (3, 2, 1, 2, 2, 2), (1, 5)),
    ((), (), ()),
)
JOINS = (  # operands, dimension
    (((2, 3), (4, 3)), 0),
    (((2, 3), (2, 1), (2, 5)), 1),
    (((0, 3), (2, 3)), 0),
    (((2, 3),), 1),
    (((1, 2, 2, 1, 3, 2), (1, 2, 2, 4, 3, 2)), 3),
    (((3,),) * 9, 0),
)
COUNTED = (1 << 24) + 77
IOTAS = (((5,), 0), ((3, 4), 0), ((3, 4), 1), ((2, 1, 3, 2, 2, 4), 5), ((0, 3), 1), ((300,), 0))


def cases(thorough: bool) -> Iterator[Case]:
    """Every form as f32, several in one program; then each element type on a few of the forms."""
    for opcode, forms in FORMS.items():
        yield from _attributes(opcode, forms, thorough)
    yield from _results("reshape", [(d, r, "") for d, r in RESHAPES], thorough)
    yield from _results("broadcast", [(d, r, f", dimensions={braces(m)}") for d, r, m in BROADCASTS], thorough)
    same = [(d, d, "") for d in ((3, 4), (), (0, 2), (2, 1, 2, 2, 1, 3))]
    yield from _results("copy", same, thorough)
    yield from _results("bitcast", [*((d, r, "") for d, r in RESHAPES), *same], thorough)
    yield from _concatenates(thorough)
    yield from by_type("iota", "", thorough, _iotas, "signed", "unsigned", "float", "complex")
    yield from _long_iotas()
    yield from _random(thorough)
    for case in _floats():
        yield from not_finite(case)


def _floats() -> Iterator[Case]:
    """One program of each operation, whose f32 operands not_finite() changes."""
    rng = seeded("movement/floats")
    x, y = random_values(rng, "f32", (6, 8)), random_values(rng, "f32", (6, 8))
    yield several("pad", "floats", ["_ pad(p0, p1), padding=1_2x0_1"], x, random_values(rng, "f32"))
    yield several("slice", "floats", ["_ slice(p0), slice={[0:6], [1:8]}", "_ slice(p0), slice={[0:6], [0:8:2]}"], x)
    yield several("transpose", "floats", ["_ transpose(p0), dimensions={1,0}"], x)
    yield several("reverse", "floats", ["_ reverse(p0), dimensions={0}"], x)
    yield several("reshape", "floats", ["f32[48] reshape(p0)"], x)
    yield several("broadcast", "floats", ["f32[6,2,8] broadcast(p0), dimensions={0,2}"], x)
    yield several("copy", "floats", ["_ copy(p0)"], x)
    yield several("concatenate", "floats", ["_ concatenate(p0, p1), dimensions={1}"], x, y)


def _chosen(forms: Sequence[_Form], t: ElementType, thorough: bool) -> Sequence[_Form]:
    """All forms as f32, one of them as each other type."""
    return forms if t.name == "f32" or thorough else (forms[t.number % len(forms)],)


def _attributes(opcode: str, forms: Forms, thorough: bool) -> Iterator[Case]:
    """Operations whose result's shape follows from operand and attributes."""

    def program(t: ElementType, first: int) -> Program:
        chosen = _chosen(forms, t, thorough)
        rng = seeded(f"{opcode}/{t}")
        inputs = [random_values(rng, t, dims) for dims, _ in chosen]
        value = f", p{first + len(inputs)}" if opcode == "pad" else ""
        lines = [f"_ {opcode}(p{first + n}{value}), {attributes}" for n, (_, attributes) in enumerate(chosen)]
        return [*inputs, *([random_values(rng, t)] if value else [])], lines, ""

    return by_type(opcode, "", thorough, program)


def _results(opcode: str, forms: Sequence[tuple[Dims, Dims, str]], thorough: bool) -> Iterator[Case]:
    """Operations whose result's dimensions are chosen by the program: dimensions of the operand, those of the result,
    and what comes after the operand, for each form."""

    def program(t: ElementType, first: int) -> Program:
        chosen = _chosen(forms, t, thorough)
        rng = seeded(f"{opcode}/{t}")
        inputs = [random_values(rng, t, dims) for dims, *_ in chosen]
        lines = [f"{shape(t, d)} {opcode}(p{first + n}){more}" for n, (_, d, more) in enumerate(chosen)]
        return inputs, lines, ""

    return by_type(opcode, "", thorough, program)


def _concatenates(thorough: bool) -> Iterator[Case]:
    def program(t: ElementType, first: int) -> Program:
        rng = seeded(f"concatenate/{t}")
        inputs: list[np.ndarray] = []
        lines = []
        for parts, d in _chosen(JOINS, t, thorough):
            names = ", ".join(f"p{first + len(inputs) + n}" for n in range(len(parts)))
            inputs += [random_values(rng, t, dims) for dims in parts]
            lines.append(f"_ concatenate({names}), dimensions={{{d}}}")
        return inputs, lines, ""

    return by_type("concatenate", "", thorough, program)


def _iotas(t: ElementType, first: int) -> Program | None:
    if t.name == "f8e8m0fnu":  # it has no zero to begin with
        return None
    return [], [f"{shape(t, dims)} iota(), iota_dimension={d}" for dims, d in IOTAS], ""


def _long_iotas() -> Iterator[Case]:
    """An iota beyond the integers of an f32 (2^24) and 16 bits, whose last numbers are results, and beyond the range of
    narrow types."""
    for t in ("s32", "f32"):
        lines = f"""i = {t}[{COUNTED}] iota(), iota_dimension=0
                    ROOT r = _ slice(i), slice={{[{COUNTED - 100}:{COUNTED}]}}"""
        yield structured("iota", f"beyond_2_24_{t}", lines)
    for t in ("f16", "bf16", "u16", "f8e5m2"):
        yield structured("iota", f"beyond_2_16_{t}", f"ROOT r = {t}[70001] iota(), iota_dimension=0")


def _random(thorough: bool) -> Iterator[Case]:
    """Attributes at random, of operands with up to six dimensions."""
    for n in range(100 if thorough else 8):
        rng = seeded(f"movement/random_{n}")
        dims = tuple(int(rng.choice((0, 1, 2, 3, 4), p=(0.04, 0.26, 0.3, 0.2, 0.2))) for _ in range(rng.integers(1, 7)))
        x = random_values(rng, "s16", dims)
        pads, limits = [], []
        for d in dims:
            low, interior = int(rng.integers(-2, 4)), int(rng.choice((0, 0, 1, 2)))
            dilated = d + max(0, d - 1) * interior
            pads.append(f"{low}_{int(rng.integers(max(-2, -dilated - low), 4))}_{interior}")
            start = int(rng.integers(0, d + 1))
            limits.append(f"[{start}:{int(rng.integers(start, d + 1))}:{int(rng.integers(1, 4))}]")
        value = np.array(-7, np.int16)
        yield several("pad", f"random_{n}", [f"_ pad(p0, p1), padding={'x'.join(pads)}"], x, value)
        yield several("slice", f"random_{n}", [f"_ slice(p0), slice={{{', '.join(limits)}}}"], x)
        order = [int(d) for d in rng.permutation(len(dims))]
        yield several("transpose", f"random_{n}", [f"_ transpose(p0), dimensions={braces(order)}"], x)
        turned = [d for d in range(len(dims)) if rng.random() < 0.5]
        yield several("reverse", f"random_{n}", [f"_ reverse(p0), dimensions={braces(turned)}"], x)
        flat = shape("s16", (prod(dims),))
        yield several("reshape", f"random_{n}", [f"{flat} reshape(p0)"], x)
