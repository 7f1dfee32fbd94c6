"""Several operations in sequence that tempt a compiler: to round once instead of twice, to reassociate sums, to cancel
terms, to fold one operation into the next. Each result is exactly that of the program."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from refxla_spec.types import ELEMENT_TYPES, ElementType

from .. import Case, seeded
from ..building import random_values, several, shape, structured
from ..values import edges

FLOATS = ("f16", "bf16", "f32", "f64")
NARROWER = (("f64", "f32"), ("f64", "bf16"), ("f32", "f16"), ("f32", "bf16"), ("bf16", "f8e5m2"), ("f16", "f8e4m3fn"))
DIRECTIONS = ("EQ", "NE", "LT", "LE", "GT", "GE")
COUNT = 96


def cases(thorough: bool) -> Iterator[Case]:
    """Arithmetic in each type, conversions there and back, functions and their inverses, then data movement."""
    for name in FLOATS:
        t = ELEMENT_TYPES[name]
        yield _products_and_sums(t)
        yield _grouped(t)
        yield _with_itself(t)
        yield _with_constants(t)
        yield _by_sign(t)
        yield _undone(t)
    for wide, narrow in NARROWER:
        yield _there_and_back(wide, narrow)
    for name in ("s8", "u8", "s32", "u32", "s64"):
        yield _integers(ELEMENT_TYPES[name])
    for name in ("u16", "s32", "u32", "s64", "u64"):
        for divisor in (4, 512, 6):
            yield _wrapped(ELEMENT_TYPES[name], divisor)
    yield from _movement()


def _products_and_sums(t: ElementType) -> Case:
    """A product and a sum are each rounded: the sums cancel, so that only the product's rounding is left."""
    rng = seeded(f"chains/products/{t}")
    x, y = random_values(rng, t, (COUNT,)), random_values(rng, t, (COUNT,))
    z = -(x * y).astype(t.dtype)
    dims = shape(t, (COUNT,))
    product = f"m = {dims} multiply(p0, p1)\n"
    lines = ["_ add(m, p2)", "_ add(p2, m)", "_ subtract(m, p3)", "_ subtract(p3, m)"]
    return several("add", f"to_product_{t}", lines, x, y, z, -z, constants=product)


def _grouped(t: ElementType) -> Case:
    """Sums and products of three, associated either way, and of four as a tree."""
    rng = seeded(f"chains/grouped/{t}")
    inputs = [random_values(rng, t, (COUNT,)) * t.array_dtype.type(2.0**k) for k in (6, 0, 3, -2)]
    inputs = [i.astype(t.dtype) for i in inputs]
    d = shape(t, (COUNT,))
    before = "".join(
        f"{o}{n} = {d} {o}({a}, {b})\n"
        for o in ("add", "multiply")
        for n, (a, b) in enumerate((("p0", "p1"), ("p1", "p2"), ("p2", "p3")))
    )
    lines = [
        f"_ {o}({a}, {b})"
        for o in ("add", "multiply")
        for a, b in ((f"{o}0", "p2"), ("p0", f"{o}1"), (f"{o}0", f"{o}2"), ("p2", f"{o}0"))
    ]
    return several("add", f"grouped_{t}", lines, *inputs, constants=before)


def _with_itself(t: ElementType) -> Case:
    """x - x, x / x and comparisons of x with itself, on edge values."""
    x = edges(t)
    lines = [f"_ {o}(p0, p0)" for o in ("subtract", "divide", "add", "multiply", "maximum", "minimum", "remainder")]
    lines += [f"{shape('pred', x.shape)} compare(p0, p0), direction={d}" for d in DIRECTIONS]
    return several("subtract", f"from_itself_{t}", lines, x)


def _with_constants(t: ElementType) -> Case:
    """Sums, products and quotients with 0, -0, 1, -1, 2 and 0.5, on edge values."""
    x = edges(t)
    d, constants, lines = shape(t, x.shape), "", []
    for n, number in enumerate(("0", "-0", "1", "-1", "2", "0.5", "3")):
        constants += f"k{n} = {t}[] constant({number})\nc{n} = {d} broadcast(k{n}), dimensions={{}}\n"
        for o in ("add", "subtract", "multiply", "divide", "maximum", "power")[: 6 if number in ("2", "0.5") else 5]:
            lines.append(f"_ {o}(p0, c{n})")
        lines += [f"_ {o}(c{n}, p0)" for o in ("subtract", "divide", "add", "multiply")]
    return several("multiply", f"by_constants_{t}", lines, x, constants=constants)


def _by_sign(t: ElementType) -> Case:
    """Comparisons with zeros of both signs: clamps whose bounds are zeros or others, and selections of x or a zero by
    comparing x with a zero, which are almost a maximum or a minimum."""
    x = edges(t)
    d, pred, constants, lines = shape(t, x.shape), shape("pred", x.shape), "", []
    names = {"z": "0", "n": "-0", "h": "0.5", "l": "-2"}
    for name, number in names.items():
        constants += f"{name}0 = {t}[] constant({number})\n{name} = {d} broadcast({name}0), dimensions={{}}\n"
        lines += [f"_ {o}({a}, {b})" for o in ("maximum", "minimum") for a, b in (("p0", name), (name, "p0"))]
    lines += [f"_ clamp({low}, p0, {high})" for low in names for high in names]
    for zero, direction in ((z, d) for z in "zn" for d in DIRECTIONS):
        for a, b in (("p0", zero), (zero, "p0")):
            constants += f"{direction}{a}{b} = {pred} compare({a}, {b}), direction={direction}\n"
            for other in "zn":
                lines += [f"_ select({direction}{a}{b}, {c}, {e})" for c, e in (("p0", other), (other, "p0"))]
    return several("select", f"by_sign_{t}", lines, x, constants=constants)


def _undone(t: ElementType) -> Case:
    """An operation and its inverse: (x / y) * y, (x * y) / y, (x + y) - y, sqrt(x * x), log(exp(x)), -(-x), ..."""
    rng = seeded(f"chains/undone/{t}")
    x = np.concatenate([edges(t), random_values(rng, t, (COUNT,))])
    y = np.concatenate([edges(t)[::-1], random_values(rng, t, (COUNT,))])
    d = shape(t, x.shape)
    first = {
        "q": "divide(p0, p1)", "m": "multiply(p0, p1)", "s": "add(p0, p1)", "w": "multiply(p0, p0)", "v": "sqrt(p0)",
        "e": "exponential(p0)", "l": "log(p0)", "n": "negate(p0)", "a": "abs(p0)",
    }  # fmt: skip
    before = "".join(f"{name} = {d} {expression}\n" for name, expression in first.items())
    lines = [
        "_ multiply(q, p1)", "_ divide(m, p1)", "_ subtract(s, p1)", "_ sqrt(w)", "_ multiply(v, v)", "_ log(e)",
        "_ exponential(l)", "_ negate(n)", "_ abs(n)", "_ negate(a)", "_ subtract(p0, s)",
    ]  # fmt: skip
    return several("divide", f"undone_{t}", lines, x, y, constants=before)


def _there_and_back(wide: str, narrow: str) -> Case:
    """A number that passes through a narrower type is rounded there."""
    t = ELEMENT_TYPES[wide]
    x = np.concatenate([edges(t), random_values(seeded(f"chains/{wide}/{narrow}"), t, (COUNT,))])
    lines = f"""c = {shape(narrow, x.shape)} convert(p0)
                ROOT r = {shape(wide, x.shape)} convert(c)"""
    return structured("convert", f"there_and_back_{wide}_{narrow}", lines, x)


def _integers(t: ElementType) -> Case:
    """Overflow in intermediate results: (x + y) - y, (x * y) / y, (x << 3) >> 3, x / 2 and x % 2 by shifts and
    masks."""
    rng = seeded(f"chains/integers/{t}")
    x = np.concatenate([edges(t), random_values(rng, t, (COUNT,))])
    y = np.concatenate([edges(t)[::-1], random_values(rng, t, (COUNT,))])
    d = shape(t, x.shape)
    before = f"""s = {d} add(p0, p1)
                 m = {d} multiply(p0, p1)
                 k = {t}[] constant(3)
                 c = {d} broadcast(k), dimensions={{}}
                 l = {d} shift-left(p0, c)
                 h = {t}[] constant(2)
                 two = {d} broadcast(h), dimensions={{}}
              """
    lines = [
        "_ subtract(s, p1)", "_ divide(m, p1)", "_ shift-right-arithmetic(l, c)", "_ shift-right-logical(l, c)",
        "_ divide(p0, two)", "_ remainder(p0, two)", "_ divide(p0, p0)", "_ multiply(two, two)",
    ]  # fmt: skip
    return several("divide", f"undone_{t}", lines, x, y, constants=before)


def _wrapped(t: ElementType, divisor: int) -> Case:
    """Remainders in six forms, as an index that counts from the end if it is negative: JAX writes that around every
    index, and a compiler knows in some places, but not in others, that the value is not negative."""
    x = seeded(f"chains/wrapped/{t}").integers(0, 2 ** min(t.bits - 1, 62), COUNT).astype(t.dtype)
    own, index = shape(t, (COUNT,)), f"s32[{COUNT}]"
    shift, less = divisor.bit_length() - 1, -divisor if t.kind == "signed" else (1 << t.bits) - divisor
    values = {"n": divisor, "k": shift, "less": less, "power": 1 << shift}
    before = [f"{c}0 = {t}[] constant({v})\n{c} = {own} broadcast({c}0), dimensions={{}}" for c, v in values.items()]
    remainders = {
        "a": "remainder(p0, n)",
        "b": ("divide(p0, n)", "multiply({}, n)", "subtract(p0, {})"),
        "c": ("divide(p0, n)", "multiply({}, less)", "add(p0, {})"),
        "d": ("shift-right-logical(p0, k)", "multiply({}, power)", "subtract(p0, {})"),
        "e": ("shift-right-logical(p0, k)", "shift-left({}, k)", "subtract(p0, {})"),
        "g": ("divide(p0, n)", "multiply(less, {})", "add(p0, {})"),
    }
    before.append(f"z0 = s32[] constant(0)\nz = {index} broadcast(z0), dimensions={{}}")
    before.append(f"f0 = s32[] constant(4)\nf = {index} broadcast(f0), dimensions={{}}")
    for name, steps in remainders.items():
        last = ""
        for number, step in enumerate((steps,) if isinstance(steps, str) else steps):
            before.append(f"{name}{number} = {own} {step.format(last)}")
            last = f"{name}{number}"
        before.append(f"{name}i = {index} convert({last})")
        before.append(f"{name}n = pred[{COUNT}] compare({name}i, z), direction=LT")
        before.append(f"{name}f = {index} add({name}i, f)")
    lines = [f"_ select({name}n, {name}f, {name}i)" for name in remainders]
    return several("select", f"wrapped_{t}_{divisor}", lines, x, constants="\n".join(before) + "\n")


def _movement() -> Iterator[Case]:
    """Movement of squares and cubes, for which a wrong one has the right dimensions, and combinations that are
    folded."""
    rng = seeded("chains/movement")
    square, cube = random_values(rng, "f32", (4, 4)), random_values(rng, "s16", (3, 3, 3))
    lines = ["_ transpose(p0), dimensions={1,0}"] + [
        f"_ transpose(p1), dimensions={{{o}}}" for o in ("1,2,0", "2,0,1", "0,2,1", "2,1,0", "1,0,2")
    ]
    yield several("transpose", "squares", lines, square, cube)
    lines = [f"f32[4,4] broadcast(p0), dimensions={{{d}}}" for d in (0, 1)]
    lines += [f"f32[4,4,4] broadcast(p1), dimensions={{{d}}}" for d in ("0,1", "1,2", "0,2", "1,0", "2,0")]
    yield several("broadcast", "squares", lines, random_values(rng, "f32", (4,)), square)
    lines = [f"_ reverse(p0), dimensions={{{d}}}" for d in ("0", "1", "0,1")]
    yield several("reverse", "squares", lines, square)
    lines = ["_ concatenate(p0, p1), dimensions={0}", "_ concatenate(p1, p0), dimensions={1}"]
    yield several("concatenate", "squares", lines, square, random_values(rng, "f32", (4, 4)))
    padded = "zero = f32[] constant(0)\nq = _ pad(p0, zero), padding=2_1x1_3\n"
    lines = ["_ slice(q), slice={[2:6], [1:5]}", "_ slice(q), slice={[1:5], [1:5]}", "_ slice(q), slice={[0:4], [4:8]}"]
    yield several("slice", "of_a_pad", lines, square, constants=padded)
    turned = "u = f32[4,4] transpose(p1), dimensions={1,0}\nv = f32[4,4] transpose(p0), dimensions={1,0}\n"
    dims = "lhs_contracting_dims={%d}, rhs_contracting_dims={%d}"
    lines = [f"_ dot({a}, {b}), {dims % (k, n)}" for a, b in (("p0", "u"), ("v", "p1"), ("v", "u"), ("p0", "p1"))
             for k in (0, 1) for n in (0, 1)]  # fmt: skip
    yield several("dot", "squares", lines, square, random_values(rng, "f32", (4, 4)), constants=turned)
    barrier = """a = (f32[4,4], f32[4,4]) tuple(p0, p1)
                 b = (f32[4,4], f32[4,4]) opt-barrier(a)
                 c = f32[4,4] get-tuple-element(b), index=0
                 d = f32[4,4] get-tuple-element(b), index=1
                 ROOT r = f32[4,4] subtract(c, d)"""
    yield structured("opt-barrier", "of_two", barrier, square, random_values(rng, "f32", (4, 4)))
