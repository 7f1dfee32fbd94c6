"""Arrays of a million elements: errors in sharing out work, in too narrow indices, or that occur rarely.

The arrays are computed in the program, from a scalar and an iota, and their sizes are multiples of nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

from .. import Case
from ..building import combiner, shape, structured

ROWS, COLUMNS = 1031, 1021  # primes
SIZE = ROWS * COLUMNS
LONG = 20011  # a prime, too: of a sum
ODD = (1001, 4099, 16387, 65539, 150001, 1048583)  # terms of sums of one array, all odd


def cases(thorough: bool) -> Iterator[Case]:
    """One case for each way in which kernels are written."""
    seed = np.array(12345, np.uint32)
    matrix = _noise("u32", (ROWS, COLUMNS))
    yield structured("xor", "large", f"{matrix}n = _ not(x)\nROOT r = _ xor(x, n)", seed)
    floats = f"{matrix}f = {shape('f32', (ROWS, COLUMNS))} convert(x)\n"
    yield structured("negate", "large", f"{floats}ROOT r = _ negate(f)", seed)
    yield structured("transpose", "large", f"{floats}ROOT r = _ transpose(f), dimensions={{1,0}}", seed)
    yield structured("copy", "large", f"{matrix}ROOT r = {shape('u32', (ROWS, COLUMNS))} copy(x)", seed)
    yield structured("reshape", "large", f"{matrix}ROOT r = {shape('u32', (SIZE,))} reshape(x)", seed)
    flat = shape("u32", (SIZE,))
    bits = f"{matrix}y = {flat} reshape(x)\nz = {flat} reverse(y), dimensions={{0}}\n"
    yield structured("compare", "large", f"{bits}ROOT r = {shape('pred', (SIZE,))} compare(y, z), direction=LT", seed)
    yield _concatenated(seed)
    yield _product(seed)
    yield from _reductions(seed)


def _noise(element_type: str, dims: tuple[int, ...], name: str = "x") -> str:
    """The lines that compute an array: numbers that differ between elements, and depend on the parameter."""
    d, flat = shape(element_type, dims), shape(element_type, (prod(dims),))
    return f"""{name}i = {flat} iota(), iota_dimension=0
               {name}k = {element_type}[] constant(2654435761)
               {name}b = {flat} broadcast({name}k), dimensions={{}}
               {name}m = {flat} multiply({name}i, {name}b)
               {name}p = {flat} broadcast(p0), dimensions={{}}
               {name}a = {flat} add({name}m, {name}p)
               {name} = {d} reshape({name}a)
            """


def _concatenated(seed: np.ndarray) -> Case:
    half = shape("u32", (SIZE // 2,))
    lines = f"""{_noise("u32", (SIZE,))}
                l = {half} slice(x), slice={{[0:{SIZE // 2}]}}
                ROOT r = _ concatenate(x, l), dimensions={{0}}"""
    return structured("concatenate", "large", lines, seed)


def _product(seed: np.ndarray) -> Case:
    """Three terms, so that the bound of each element is small."""
    lines = ""
    for name, dims in (("a", (ROWS, 3)), ("b", (3, COLUMNS))):
        lines += f"{_noise('u32', dims, name)}f{name} = {shape('f32', dims)} convert({name})\n"
    lines += "ROOT r = _f32 dot(fa, fb), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    return structured("dot", "large", lines, seed)


def _reductions(seed: np.ndarray) -> Iterator[Case]:
    """Long sums of integers are exact; in those of floats a single element that is not zero must not be lost."""
    add = combiner("add_u32", "add", "u32") + combiner("max_u32", "maximum", "u32")
    lines = f"""{_noise("u32", (ROWS, COLUMNS))}
                zero = u32[] constant(0)
                s = _ reduce(x, zero), dimensions={{0,1}}, to_apply=add_u32
                t = _ reduce(x, zero), dimensions={{1}}, to_apply=add_u32
                u = _ reduce(x, zero), dimensions={{0}}, to_apply=add_u32
                v = _ reduce(x, zero), dimensions={{0,1}}, to_apply=max_u32
                ROOT r = _ tuple(s, t, u, v)"""
    yield structured("reduce", "large", lines, seed, before=add)
    places = sorted({min(LONG - 1, max(0, (1 << k) + d)) for k in range(15) for d in (-1, 0, 1)} | {LONG - 1})
    for t in ("f32", "f64"):
        p = np.array(places, np.int32)
        d = shape("s32", (len(p), LONG))
        lines = f"""i = {d} iota(), iota_dimension=1
                    p = {d} broadcast(p0), dimensions={{0}}
                    e = {shape("pred", (len(p), LONG))} compare(i, p), direction=EQ
                    x = {shape(t, (len(p), LONG))} convert(e)
                    zero = {t}[] constant(0)
                    s = _ reduce(x, zero), dimensions={{1}}, to_apply=add
                    y = {shape(t, (LONG, len(p)))} transpose(x), dimensions={{1,0}}
                    u = _ reduce(y, zero), dimensions={{0}}, to_apply=add
                    ROOT r = _ tuple(s, u)"""
        yield structured("reduce", f"one_of_many_{t}", lines, p, before=combiner("add", "add", t))
    yield from _one_term()


def _one_term() -> Iterator[Case]:
    """Long sums with a single nonzero term: the first, one in the middle, the last. Arrays of one dimension are summed
    by reductions, windows and dots."""
    for t in ("f32", "f64", "bf16", "s32"):
        for n in ODD if t != "bf16" else ODD[:1]:
            lines, results = f"zero = {t}[] constant(0)\n", []
            places = [0, n // 2, n - 2, n - 1] if n < 1 << 17 else [n - 1]  # few: it takes some interpreters minutes
            for k in range(len(places)):
                lines += f"""{_one_at(t, n, f"p{k}", f"x{k}")}
                             s{k} = _ reduce(x{k}, zero), dimensions={{0}}, to_apply=add
                          """
                results.append(f"s{k}")
                if t in ("f32", "f64") and n < 1 << 17:
                    ones = f"o{k} = {t}[{n}] broadcast(one), dimensions={{}}\n"
                    lines += ("" if k else f"one = {t}[] constant(1)\n") + ones
                    lines += f"d{k} = _{t} dot(x{k}, o{k}), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}\n"
                    results.append(f"d{k}")
            lines += f"ROOT r = _ tuple({', '.join(results)})"
            inputs = [np.array(place, np.int32) for place in places]
            yield structured("reduce", f"one_term_{t}_{n}", lines, *inputs, before=combiner("add", "add", t))
    n = 4099
    lines = f"""{_one_at("f32", n, "p0", "x")}
                zero = f32[] constant(0)
                w = _ reduce-window(x, zero), window={{size={n} pad={n - 1}_0}}, to_apply=add
                ROOT r = _ slice(w), slice={{[{n - 8}:{n}]}}"""
    for place in (0, n - 1):
        yield structured("reduce-window", f"one_term_{place}", lines, np.array(place, np.int32),
                         before=combiner("add", "add", "f32"))  # fmt: skip


def _one_at(element_type: str, n: int, place: str, name: str) -> str:
    """The lines that compute an array of zeros with a 1 at a position given by a parameter."""
    return f"""{name}i = s32[{n}] iota(), iota_dimension=0
               {name}p = s32[{n}] broadcast({place}), dimensions={{}}
               {name}e = pred[{n}] compare({name}i, {name}p), direction=EQ
               {name} = {element_type}[{n}] convert({name}e)"""
