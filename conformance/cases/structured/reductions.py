"""reduce, reduce-window and select-and-scatter: any dimensions and windows, one array or several, any reducer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np
from ml_dtypes import finfo
from refxla_spec.types import ELEMENT_TYPES, ElementType, Shape

from .. import Case, seeded
from ..building import (
    array_types,
    braces,
    combiner,
    comparator,
    neutral,
    not_finite,
    random_values,
    several,
    small_integers,
    structured,
)
from ..values import edges

OPCODES = ("add", "multiply", "maximum", "minimum", "and", "or", "xor")

ARGMAX = """argmax {
  a = f32[] parameter(0)
  i = s32[] parameter(1)
  b = f32[] parameter(2)
  j = s32[] parameter(3)
  above = pred[] compare(a, b), direction=GT
  same = pred[] compare(a, b), direction=EQ
  before = pred[] compare(i, j), direction=LT
  first = pred[] and(same, before)
  nan = pred[] compare(a, a), direction=NE
  left = pred[] or(above, first)
  keep = pred[] or(left, nan)
  x = f32[] select(keep, a, b)
  k = s32[] select(keep, i, j)
  ROOT r = (f32[], s32[]) tuple(x, k)
}
"""
SUMS = """sums {
  a = f32[] parameter(0)
  m = s32[] parameter(1)
  p = pred[] parameter(2)
  b = f32[] parameter(3)
  n = s32[] parameter(4)
  q = pred[] parameter(5)
  x = f32[] add(a, b)
  y = s32[] maximum(m, n)
  z = pred[] or(p, q)
  ROOT r = (f32[], s32[], pred[]) tuple(x, y, z)
}
"""
AFFINE = """composed {
  a = u32[] parameter(0)
  b = u32[] parameter(1)
  c = u32[] parameter(2)
  d = u32[] parameter(3)
  x = u32[] multiply(a, c)
  y = u32[] multiply(b, c)
  z = u32[] add(y, d)
  ROOT r = (u32[], u32[]) tuple(x, z)
}
"""
SECOND = "second { a = f32[] parameter(0)\n  ROOT b = f32[] parameter(1) }\n"
OF_SQUARES = """scaled {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  c = f32[] maximum(a, b)
  d = f32[] minimum(a, b)
  e = f32[] abs(d)
  ROOT r = f32[] maximum(c, e)
}
"""

SHIFTED = """shifted {
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  one = s32[] constant(1)
  c = s32[] add(a, b)
  ROOT r = s32[] add(c, one)
}
"""
PAIRS = """pairs {
  a = s32[] parameter(0)
  b = f32[] parameter(1)
  c = s32[] parameter(2)
  d = f32[] parameter(3)
  e = s32[] add(a, c)
  f = f32[] add(b, d)
  ROOT r = (s32[], f32[]) tuple(e, f)
}
"""
WIDENED = """widened {
  a = f32[] parameter(0)
  b = bf16[] parameter(1)
  c = f32[] convert(b)
  ROOT r = f32[] add(a, c)
}
"""
LONG = (((2000,), (0,)), ((3, 333), (1,)), ((333, 9), (0,)), ((5, 67, 3), (0, 2)), ((150000,), (0,)), ((0, 3), (0,)))
SHAPES = (  # dimensions, which are reduced
    ((5,), (0,)),
    ((3, 4), (0,)),
    ((3, 4), (1,)),
    ((3, 4), (0, 1)),
    ((3, 4), ()),
    ((2, 3, 4), (0, 2)),
    ((2, 3, 4), (1,)),
    ((2, 1, 3, 2, 2), (4, 0)),
    ((2, 2, 1, 3, 2, 2), (1, 3, 5)),
    ((0, 3), (0,)),
    ((0, 3), (1,)),
    ((3, 0), (1,)),
    ((), ()),
    ((1, 1), (0,)),
    ((33, 70), (0,)),
    ((33, 70), (1,)),
    ((1000,), (0,)),
)

NARROW = (((4, 33), 1), ((33, 4), 0), ((100,), 0), ((3, 37, 5), 1))  # dimensions, which one is reduced
NARROWEST = (((16, 5), 1), ((5, 16), 0))  # of f8, for which a sum of many terms could be anything


def cases(thorough: bool) -> Iterator[Case]:
    """reduce, then reduce-window, then select-and-scatter."""
    yield from _reduces(thorough)
    yield from _windows(thorough)
    yield from _select_and_scatters(thorough)
    yield from _not_finite()
    yield from _cubes()
    yield from _in_order()
    yield from _independent()


def _independent() -> Iterator[Case]:
    """Several arrays of a narrow type that are reduced together, each by its own operation: each sum among them is
    computed in f32, as by itself."""
    for t in ("bf16", "f16", "f8e5m2", "f8e4m3fn"):
        for opcodes in (("add", "add"), ("add", "maximum"), ("add", "multiply"), ("minimum", "add")):
            forms = NARROW if t == "bf16" else NARROW[:2] if t == "f16" else NARROWEST
            for n, (dims, d) in enumerate(forms):
                rng = seeded(f"reduce/independent_{t}_{opcodes}_{n}")
                xs = [_terms(rng, opcode, t, dims) for opcode in opcodes]
                yield _variadic_reduce(f"{t}_{n}", opcodes, d, xs)
    rng = seeded("reduce/independent")
    xs = [_terms(rng, "add", t, (4, 33)) for t in ("bf16", "bf16", "s32")]
    yield _variadic_reduce("mixed", ("add", "maximum", "add"), 1, xs)
    yield _variadic_reduce("squares", ("add", "add"), 1, xs[:1], "x = _ multiply(p0, p0)\n")


def _terms(rng: np.random.Generator, opcode: str, t: str, dims: tuple[int, ...]) -> np.ndarray:
    """Terms of sums are positive, and factors 1 and -1, and a few times 2 and 0.5, so that no product overflows."""
    x = random_values(rng, t, dims) if ELEMENT_TYPES[t].is_float else small_integers(rng, t, dims)
    if opcode != "multiply":
        return np.abs(x * x.dtype.type(4)) if opcode == "add" else x
    factors = rng.choice((1.0, -1.0), dims)
    factors.reshape(-1)[::25] *= rng.choice((0.5, 2.0), -(-factors.size // 25))
    return factors.astype(x.dtype)


def _variadic_reduce(
    variant: str, reducers: Sequence[str], d: int, inputs: Sequence[np.ndarray], lines: str = ""
) -> Case:
    """Arrays reduced together, each by its reducer: the inputs, followed by x, which `lines` compute from them."""
    given = [(f"p{n}", str(Shape.of(x).element_type)) for n, x in enumerate(inputs)]
    names, types = zip(*given, *([("x", given[-1][1])] if lines else []), strict=True)
    inits = "".join(f"c{n} = {t}[] constant({_neutral(reducers[n], t)})\n" for n, t in enumerate(types))
    starts = ", ".join(f"c{n}" for n in range(len(names)))
    line = f"ROOT r = _ reduce({', '.join(names)}, {starts}), dimensions={{{d}}}, to_apply=each"
    label = f"independent_{'_'.join(reducers)}_{variant}"
    return structured("reduce", label, lines + inits + line, *inputs, before=_each(reducers, types))


def _each(reducers: Sequence[str], types: Sequence[str]) -> str:
    """A computation of two groups of scalars, which combines each with its counterpart."""
    sides = [(side, n, t) for side in "ab" for n, t in enumerate(types)]
    lines = [f"{side}{n} = {t}[] parameter({k})" for k, (side, n, t) in enumerate(sides)]
    lines += [f"r{n} = {t}[] {o}(a{n}, b{n})" for n, (o, t) in enumerate(zip(reducers, types, strict=True))]
    results = ", ".join(f"r{n}" for n in range(len(types)))
    result = f"({', '.join(f'{t}[]' for t in types)})"
    return "each {\n  " + "\n  ".join([*lines, f"ROOT r = {result} tuple({results})"]) + "\n}\n"


def _in_order() -> Iterator[Case]:
    """Reducers that are associative and not commutative: the composition of maps x -> a x + b, and the first maximum if
    several are NaN."""
    for n, (dims, axes) in enumerate(
        (((9,), (0,)), ((100,), (0,)), ((3, 40), (1,)), ((40, 3), (0,)), ((4, 3, 33), (0, 2)))
    ):
        rng = seeded(f"reduce/in_order_{n}")
        maps = [rng.integers(0, 2**32, dims, dtype=np.uint32) for _ in "ab"]
        lines = (
            "one = u32[] constant(1)\nzero = u32[] constant(0)\n"
            f"ROOT r = _ reduce(p0, p1, one, zero), dimensions={braces(axes)}, to_apply=composed"
        )
        yield structured("reduce", f"in_order_{n}", lines, *maps, before=AFFINE)
        if len(axes) == 1:
            x = np.where(rng.random(dims) < 0.2, np.float32(np.nan), rng.normal(size=dims).astype(np.float32))
            lines = (
                f"i = s32{braces(dims).replace('{', '[').replace('}', ']')} iota(), iota_dimension={axes[0]}\n"
                "low = f32[] constant(-inf)\nzero = s32[] constant(0)\n"
                f"ROOT r = _ reduce(p0, i, low, zero), dimensions={braces(axes)}, to_apply=argmax"
            )
            yield structured("reduce", f"first_nan_{n}", lines, x, before=ARGMAX)


def _cubes() -> Iterator[Case]:
    """Along any of the dimensions of a cube, which are equally large."""
    for t in ("s32", "f32", "bf16"):
        x = random_values(seeded(f"reduce/cube_{t}"), t, (3, 3, 3))
        lines = [f"_ reduce(p0, zero), dimensions={braces(axes)}, to_apply=op"
                 for count in (1, 2) for axes in combinations(range(3), count)]  # fmt: skip
        zero = f"zero = {t}[] constant(0)\n"
        yield several("reduce", f"cube_{t}", lines, x, before=combiner("op", "add", t), constants=zero)


def _not_finite() -> Iterator[Case]:
    """Sums, products, windows and pools of operands that hold NaN and infinities, short and long."""
    for t in ("f32", "f64", "f16", "bf16"):
        for opcode in ("add", "multiply"):
            for n in ((2, 4, 14, 15, 16)[: 5 if opcode == "add" else 4]) if t == "f32" else (15,):
                labels = (
                    ("nan", "inf") if opcode == "add" else ("nan",)
                )  # results of a product with infinities are unspecified
                yield from not_finite(_reduce(f"{opcode}_{t}_{n}", opcode, t, *SHAPES[n]), labels)
        for opcode in ("add", "multiply", "maximum", "minimum"):
            for n in (1, 2, 9, 10) if t == "f32" else (10,):
                yield from not_finite(_window(f"{opcode}_{t}_{n}", opcode, t, *WINDOWS[n]))
        yield from not_finite(_pool(f"{t}_4", "GE", t, *POOLS[4]))


def _has_neutral(opcode: str, t: ElementType) -> bool:
    """Whether the operation combines numbers of the type with an identity among them."""
    if t.name == "f8e8m0fnu":
        return opcode in ("multiply", "minimum")  # it has no zero and no negative numbers
    if t.is_complex:
        return opcode in ("add", "multiply")
    return not t.is_float or opcode not in ("and", "or", "xor")


def _starting(thorough: bool) -> Iterator[Case]:
    """Reducers that are not simple sums or the like, whose initial values are not identities: they count once."""
    for n, (dims, axes) in enumerate((*LONG, *SHAPES) if thorough else (*LONG, *SHAPES[1:7])):
        rng, over = seeded(f"reduce/starting_{n}"), f"dimensions={braces(axes)}"
        m, x = small_integers(rng, "s32", dims), small_integers(rng, "f32", dims)
        line = f"c = s32[] constant(5)\nROOT r = _ reduce(p0, c), {over}, to_apply=shifted"
        yield structured("reduce", f"shifted_{n}", line, m, before=SHIFTED)
        line = f"""c = s32[] constant(5)
                   d = f32[] constant(1)
                   ROOT r = _ reduce(p0, p1, c, d), {over}, to_apply=pairs"""
        yield structured("reduce", f"pairs_{n}", line, m, x, before=PAIRS)
        line = f"ROOT r = _ reduce(p0, p1, p2, p3), {over}, to_apply=pairs"
        yield structured("reduce", f"pairs_from_{n}", line, m, x, np.int32(3), np.float32(1), before=PAIRS)
        line = f"c = f32[] constant(1)\nROOT r = _ reduce(p0, c), {over}, to_apply=widened"
        terms = np.abs(small_integers(rng, "bf16", dims))  # of one sign, so that the bound for many terms decides
        yield structured("reduce", f"widened_{n}", line, terms, before=WIDENED)
    x = small_integers(seeded("reduce-window/starting"), "s32", (100,))
    for n, window in enumerate(("size=3", "size=100 pad=99_0", "size=5 stride=2 pad=1_3", "size=2 pad=3_3")):
        line = f"c = s32[] constant(5)\nROOT r = _ reduce-window(p0, c), window={{{window}}}, to_apply=shifted"
        yield structured("reduce-window", f"shifted_{n}", line, x, before=SHIFTED)


def _reduces(thorough: bool) -> Iterator[Case]:
    for n, (dims, axes) in enumerate(SHAPES):
        yield _reduce(f"add_{n}", "add", "f32", dims, axes)
    for t in array_types():
        opcodes = [o for o in OPCODES if _has_neutral(o, t)]
        x = random_values(seeded(f"reduce/{t}"), t, (3, 7, 5))
        yield _combined("reduce", t.name, opcodes, "dimensions={1}", x)
    for t in array_types("float"):  # NaN, infinities, signs of zeros
        if t.bits >= 16 or thorough:
            table = edges(t, few=True)
            pairs = np.stack([np.repeat(table, len(table)), np.tile(table, len(table))])
            yield _combined(
                "reduce", f"edges_{t}", [o for o in OPCODES[:4] if _has_neutral(o, t)], "dimensions={0}", pairs
            )
    rng = seeded("reduce/variadic")
    for n, (dims, axes) in enumerate(SHAPES if thorough else SHAPES[:8] + SHAPES[9:12]):
        x = small_integers(rng, "f32", dims)
        places = f"iota(), iota_dimension={len(dims) - 1}" if dims else "constant(0)"
        line = f"""i = s32[{",".join(map(str, dims))}] {places}
                   c = f32[] constant(-inf)
                   d = s32[] constant(2147483647)
                   ROOT r = _ reduce(p0, i, c, d), dimensions={braces(axes)}, to_apply=argmax"""
        yield structured("reduce", f"argmax_{n}", line, x, before=ARGMAX)
        a, m, p = random_values(rng, "f32", dims), random_values(rng, "s32", dims), random_values(rng, "pred", dims)
        line = f"""c = f32[] constant(0)
                   d = s32[] constant(-2147483648)
                   e = pred[] constant(false)
                   ROOT r = _ reduce(p0, p1, p2, c, d, e), dimensions={braces(axes)}, to_apply=sums"""
        yield structured("reduce", f"three_{n}", line, a, m, p, before=SUMS)
    yield from _starting(thorough)
    x = np.abs(random_values(rng, "f32", (4, 9)))
    line = "c = f32[] constant(0)\nROOT r = _ reduce(p0, c), dimensions={1}, to_apply=scaled"
    yield structured("reduce", "composite", line, x, before=OF_SQUARES)
    for n in range(200 if thorough else 12):
        rng = seeded(f"reduce/random_{n}")
        dims = tuple(int(rng.choice((0, 1, 2, 3, 5), p=(0.05, 0.2, 0.3, 0.3, 0.15))) for _ in range(rng.integers(0, 7)))
        axes = tuple(int(d) for d in rng.permutation(len(dims))[: rng.integers(0, len(dims) + 1)])
        yield _reduce(
            f"random_{n}", ("add", "maximum", "multiply")[n % 3], ("f32", "s32", "bf16", "f64")[n % 4], dims, axes
        )


def _reduce(variant: str, opcode: str, t: str, dims: tuple[int, ...], axes: tuple[int, ...]) -> Case:
    x = random_values(seeded(f"reduce/{variant}"), t, dims)
    line = (
        f"c = {t}[] constant({_neutral(opcode, t)})\nROOT r = _ reduce(p0, c), dimensions={braces(axes)}, to_apply=op"
    )
    return structured("reduce", variant, line, x, before=combiner("op", opcode, t))


def _combined(opcode: str, variant: str, reducers: Sequence[str], attributes: str, x: np.ndarray) -> Case:
    """One array reduced by several reducers."""
    t = str(Shape.of(x).element_type)
    inits = "".join(f"c{n} = {t}[] constant({_neutral(o, t)})\n" for n, o in enumerate(reducers))
    lines = [f"_ {opcode}(p0, c{n}), {attributes}, to_apply=op{n}" for n in range(len(reducers))]
    before = "\n".join(combiner(f"op{n}", o, t) for n, o in enumerate(reducers))
    return several(opcode, variant, lines, x, before=before, constants=inits)


def _neutral(opcode: str, t: str) -> str:
    """As building.neutral; in types without infinities their largest numbers."""
    word = neutral(opcode, t)
    kind = ELEMENT_TYPES[t]
    if kind.is_complex:
        return f"({word},0)"
    if "inf" in word and not np.isinf(np.array(np.inf).astype(kind.dtype)):
        return f"{'-' if '-' in word else ''}{float(finfo(kind.dtype).max)}"
    return word


WINDOWS = (  # dimensions, window
    ((7,), "size=3"),
    ((7,), "size=3 stride=2 pad=1_1"),
    ((7,), "size=7 pad=6_0"),  # a cumulative sum
    ((7,), "size=3 pad=-1_-2"),
    ((7,), "size=2 lhs_dilate=3"),
    ((7,), "size=3 rhs_dilate=2 pad=2_2"),
    ((7,), "size=2 stride=3 pad=-1_4 lhs_dilate=2 rhs_dilate=2"),
    ((4,), "size=9"),  # no position at all
    ((0,), "size=2 pad=2_2"),
    ((6, 8), "size=2x2 stride=2x2"),
    ((6, 8), "size=3x3 stride=2x1 pad=1_1x0_2"),
    ((2, 6, 8, 3), "size=1x2x2x1 stride=1x2x2x1"),
    ((2, 6, 8, 3), "size=1x3x3x1 stride=1x2x2x1 pad=0_0x1_1x1_1x0_0"),
    ((3, 4, 5), "size=2x1x3 pad=1_0x0_0x-1_2 lhs_dilate=1x2x2 rhs_dilate=2x1x1"),
    ((), ""),
    ((2, 3, 0, 2), "size=1x2x2x1"),
    ((9, 700), "size=1x700 pad=0_0x699_0"),  # long cumulative sums
    ((600, 5), "size=600x1 pad=0_599x0_0"),
)


def _windows(thorough: bool) -> Iterator[Case]:
    for n, (dims, window) in enumerate(WINDOWS):
        for opcode in ("add", "maximum") if n < 12 else ("add",):
            yield _window(f"{opcode}_{n}", opcode, "f32", dims, window)
    for t in array_types():
        opcodes = [o for o in OPCODES[:4] if _has_neutral(o, t)]
        x = random_values(seeded(f"reduce-window/{t}"), t, (5, 7))
        yield _combined("reduce-window", t.name, opcodes, "window={size=2x3 stride=1x2 pad=1_1x1_2}", x)
    rng = seeded("reduce-window/variadic")
    for n, (dims, window) in enumerate(WINDOWS if thorough else WINDOWS[:7] + WINDOWS[9:11]):
        x = small_integers(rng, "f32", dims)
        i = np.arange(x.size, dtype=np.int32).reshape(dims)
        attribute = f", window={{{window}}}" if window else ""
        line = f"""c = f32[] constant(-inf)
                   d = s32[] constant(2147483647)
                   ROOT r = _ reduce-window(p0, p1, c, d){attribute}, to_apply=argmax"""
        yield structured("reduce-window", f"argmax_{n}", line, x, i, before=ARGMAX)
    for n in range(300 if thorough else 20):
        rng = seeded(f"reduce-window/random_{n}")
        rank = int(rng.integers(1, 5))
        dims = tuple(int(rng.choice((1, 2, 3, 5, 6))) for _ in range(rank))
        columns: dict[str, Sequence[int | str]] = {
            "size": [int(rng.choice((1, 2, 3))) for _ in dims],
            "stride": [int(rng.choice((1, 1, 2, 3))) for _ in dims],
            "pad": [f"{rng.choice((0, 0, 1, 2, -1))}_{rng.choice((0, 0, 1, 3, -1))}" for _ in dims],
            "lhs_dilate": [int(rng.choice((1, 1, 1, 2))) for _ in dims],
            "rhs_dilate": [int(rng.choice((1, 1, 2))) for _ in dims],
        }
        window = " ".join(f"{key}={'x'.join(map(str, values))}" for key, values in columns.items())
        opcode = ("add", "maximum", "minimum", "multiply")[n % 4]
        yield _window(f"random_{n}", opcode, ("f32", "f64", "s32", "bf16", "f16")[n % 5], dims, window)


def _window(variant: str, opcode: str, t: str, dims: tuple[int, ...], window: str) -> Case:
    x = random_values(seeded(f"reduce-window/{variant}"), t, dims)
    attribute = f", window={{{window}}}" if window else ""
    line = f"c = {t}[] constant({_neutral(opcode, t)})\nROOT r = _ reduce-window(p0, c){attribute}, to_apply=op"
    return structured("reduce-window", variant, line, x, before=combiner("op", opcode, t))


POOLS = (  # operand, source, window
    ((8,), (4,), "size=2 stride=2"),
    ((8,), (6,), "size=3"),  # overlapping windows
    ((8,), (4,), "size=3 stride=2 pad=1_0"),
    ((6, 8), (3, 4), "size=2x2 stride=2x2"),
    ((6, 8), (3, 4), "size=3x3 stride=2x2 pad=1_0x0_1"),
    ((2, 6, 6, 3), (2, 3, 3, 3), "size=1x2x2x1 stride=1x2x2x1"),
    ((2, 6, 6, 3), (2, 3, 3, 3), "size=1x3x3x1 stride=1x2x2x1 pad=0_0x0_1x1_0x0_0"),
    ((7, 7), (3, 3), "size=1x1 stride=3x3"),  # gaps between the windows
    ((0, 3), (0, 3), "size=1x1"),
)


def _select_and_scatters(thorough: bool) -> Iterator[Case]:
    for n, (dims, source, window) in enumerate(POOLS):
        for direction in ("GE", "LE", "GT", "LT") if thorough or n == 1 else ("GE",):
            yield _pool(f"{direction}_{n}", direction, "f32", dims, source, window)
    for t in array_types("signed", "unsigned", "float"):
        if t.name == "f8e8m0fnu":  # it has no zero
            continue
        if thorough or t.name in ("s32", "u8", "f64", "bf16", "f16", "s64"):
            yield _pool(f"{t}", "GE", t.name, *POOLS[4])
    for opcode in ("multiply", "maximum"):
        yield _pool(opcode, "GE", "f32", *POOLS[4], scatter=opcode)
    rng = seeded("select-and-scatter/nan")
    x = random_values(rng, "f32", (6, 8))
    x[1, 2] = x[4, 4] = np.nan
    line = """c = f32[] constant(0)
              ROOT r = _ select-and-scatter(p0, p1, c), window={size=2x2 stride=2x2}, select=above, scatter=op"""
    before = comparator("above", "GE", "f32") + "\n" + combiner("op", "add", "f32")
    yield structured("select-and-scatter", "nan", line, x, random_values(rng, "f32", (3, 4)), before=before)


def _pool(
    variant: str,
    direction: str,
    t: str,
    dims: tuple[int, ...],
    source: tuple[int, ...],
    window: str,
    scatter: str = "add",
) -> Case:
    rng = seeded(f"select-and-scatter/{variant}")
    line = f"""c = {t}[] constant({_neutral(scatter, t)})
               ROOT r = _ select-and-scatter(p0, p1, c), window={{{window}}}, select=above, scatter=op"""
    before = comparator("above", direction, t) + "\n" + combiner("op", scatter, t)
    x = small_integers(rng, t, dims)  # with ties
    return structured("select-and-scatter", variant, line, x, random_values(rng, t, source), before=before)
