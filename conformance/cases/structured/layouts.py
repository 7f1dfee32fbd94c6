"""Layouts of parameters and results that are not row-major: they change the memory order of elements and no value."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

import numpy as np

from .. import Case, seeded
from ..building import braces, combiner, random_values, shape

HEAD = "HloModule layout, entry_computation_layout={{{inputs}->{result}}}\n\n{before}ENTRY main {{\n{body}\n}}\n"


def cases(thorough: bool) -> Iterator[Case]:
    """Programs whose parameters and results have every layout of three dimensions, or some of four."""
    orders = list(permutations(range(3)))
    for n, order in enumerate(orders if thorough else orders[:5]):
        result = orders[-1 - n]
        for t in ("f32", "u8", "c64") if thorough else (("f32", "u8", "c64", "bf16", "pred")[n % 5],):
            x = random_values(seeded(f"layouts/{n}"), t, (2, 3, 4))
            source, target = shape(t, (2, 3, 4), order), shape(t, (2, 3, 4), result)
            body = f"  p0 = {source} parameter(0)\n  ROOT r = {target} copy(p0)"
            yield _layout("copy", f"{n}_{t}", body, source, target, (x,))
            target = shape(t, (4, 2, 3), result)
            body = f"  p0 = {source} parameter(0)\n  ROOT r = {target} transpose(p0), dimensions={{2,0,1}}"
            yield _layout("transpose", f"{n}_{t}", body, source, target, (x,))
            target = shape(t, (6, 4), (0, 1))
            body = f"  p0 = {source} parameter(0)\n  ROOT r = {target} reshape(p0)"
            yield _layout("reshape", f"{n}_{t}", body, source, target, (x,))
        x = random_values(seeded(f"layouts/sum_{n}"), "f32", (2, 3, 4))
        source = shape("f32", (2, 3, 4), order)
        body = (
            f"  p0 = {source} parameter(0)\n  c = f32[] constant(0)\n"
            f"  ROOT r = f32[2,4]{braces((0, 1))} reduce(p0, c), dimensions={{1}}, to_apply=op"
        )
        yield _layout("reduce", f"{n}", body, source, "f32[2,4]{0,1}", (x,), combiner("op", "add", "f32") + "\n")
        y = random_values(seeded(f"layouts/more_{n}"), "f32", (2, 3, 4))
        target = shape("f32", (2, 3, 4), result)
        other = shape("f32", (2, 3, 4), orders[(n + 2) % 6])
        body = f"  p0 = {source} parameter(0)\n  p1 = {other} parameter(1)\n  ROOT r = {target} subtract(p0, p1)"
        yield _layout("subtract", f"{n}", body, f"{source}, {other}", target, (x, y))
    rng = seeded("layouts/dot")
    a, b = random_values(rng, "f32", (5, 7)), random_values(rng, "f32", (7, 6))
    for n, (lhs, rhs, out) in enumerate((((0, 1), (1, 0), (1, 0)), ((0, 1), (0, 1), (0, 1)), ((1, 0), (0, 1), (0, 1)))):
        source = f"{shape('f32', (5, 7), lhs)}, {shape('f32', (7, 6), rhs)}"
        target = shape("f32", (5, 6), out)
        one, two = source.split(", ")
        body = (
            f"  p0 = {one} parameter(0)\n  p1 = {two} parameter(1)\n"
            f"  ROOT r = {target} dot(p0, p1), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"
        )
        yield _layout("dot", f"{n}", body, source, target, (a, b))


def _layout(
    opcode: str, variant: str, body: str, inputs: str, result: str, values: tuple[np.ndarray, ...], before: str = ""
) -> Case:
    hlo = HEAD.format(inputs=f"({inputs})", result=result, before=before, body=body)
    return Case(f"structured/{opcode}/layout_{variant}", "structured", opcode, hlo, values)
