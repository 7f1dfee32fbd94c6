"""Reducers that do not commute get the elements in their order."""

import numpy as np
import pytest
from refxla_spec.interpreter import run
from refxla_spec.text import parse

import refxla
from refxla.analysis.commutativity import Order, order_of


def reducer(lines: str, types: str = "ff") -> str:
    names = [f"{t}32[]" if t in "fsu" else "pred[]" for t in types]
    head = "\n".join(f"p{n} = {t} parameter({n})" for n, t in enumerate(names))
    return f"f {{ {head}\n{lines} }}"


@pytest.mark.parametrize(
    ("lines", "types", "wanted"),
    [
        ("ROOT r = f32[] add(p0, p1)", "ff", Order.ANY),
        ("ROOT r = f32[] subtract(p0, p1)", "ff", Order.SEQUENCE),
        ("ROOT r = f32[] add(p1, p1)", "ff", Order.SEQUENCE),
        ("q = pred[] compare(p0, p1), direction=GE\nROOT r = f32[] select(q, p0, p1)", "ff", Order.CHOICE),
        ("ROOT r = f32[] copy(p0)", "ff", Order.CHOICE),
        ("x = f32[] multiply(p0, p2)\ny = s32[] maximum(p3, p1)\nROOT r = (f32[], s32[]) tuple(x, y)",
         "fsfs", Order.ANY),
        ("q = pred[] not(p0)\nROOT r = pred[] and(q, p1)", "pp", Order.SEQUENCE),
        ("q = pred[] compare(p0, p1), direction=NE\nROOT r = pred[] or(q, q)", "ss", Order.ANY),
        # One of two values that says whether it is there, or their sum: as init-value-isolation makes them.
        ("s = f32[] add(p0, p2)\nn = f32[] constant(0)\nx = f32[] select(p3, s, p0)\nz = f32[] select(p3, p2, n)\n"
         "y = f32[] select(p1, x, z)\nq = pred[] or(p1, p3)\nROOT r = (f32[], pred[]) tuple(y, q)", "fpfp", Order.ANY),
    ],
)  # fmt: skip
def test_what_is_known_of_a_reducer(lines, types, wanted):
    text = reducer(lines, types)
    result = "pred[]" if types in ("pp", "ss") else "f32[]"
    module = parse(
        f"HloModule m\n{text}\nENTRY e {{ ROOT x = {result} constant(0) }}".replace(
            "pred[] constant(0)", "pred[] constant(false)"
        )
    )
    assert order_of(module.computations[0] if module.computations[0].name == "f" else module.computations[1]) is wanted


AFFINE = """f { a = u32[] parameter(0)  b = u32[] parameter(1)  c = u32[] parameter(2)  d = u32[] parameter(3)
    x = u32[] multiply(a, c)
    y = u32[] multiply(b, c)
    z = u32[] add(y, d)
    ROOT r = (u32[], u32[]) tuple(x, z) }"""


@pytest.mark.parametrize("size", [2, 7, 8, 9, 16, 33, 1000, 70_001])
def test_maps_are_composed_one_after_the_other(size):
    text = f"""HloModule m
    {AFFINE}
    ENTRY e {{ x = u32[{size}] parameter(0)
        y = u32[{size}] parameter(1)
        one = u32[] constant(1)
        two = u32[] constant(2)
        ROOT r = (u32[], u32[]) reduce(x, y, one, two), dimensions={{0}}, to_apply=f }}"""
    rng = np.random.default_rng(size)
    x, y = (rng.integers(0, 2**32, size, dtype=np.uint32) for _ in "xy")
    total = np.array([1, 2], np.uint32)
    for a, b in zip(x, y, strict=True):
        total = total * a + np.array([0, b], np.uint32)
    assert [int(v) for v in refxla.compile(text)(x, y)] == total.tolist()
    if size < 1000:
        assert [int(v) for v in run(parse(text), [x, y])] == total.tolist()


def test_of_several_nans_argmax_gives_the_first():
    x = np.random.default_rng(0).normal(size=(9, 500)).astype(np.float32)
    x[np.random.default_rng(1).random(x.shape) < 0.1] = np.nan
    for function in (np.argmax, np.argmin):
        for axis in (0, 1, None):
            got = refxla.compile(lambda a: function(a, axis=axis))(x)  # noqa: B023
            np.testing.assert_array_equal(got, function(x, axis=axis))


def test_the_last_of_the_largest_is_the_last():
    text = """HloModule m
    f { a = f32[] parameter(0)  i = s32[] parameter(1)  b = f32[] parameter(2)  j = s32[] parameter(3)
        q = pred[] compare(b, a), direction=GE
        x = f32[] select(q, b, a)
        k = s32[] select(q, j, i)
        ROOT r = (f32[], s32[]) tuple(x, k) }
    ENTRY e { x = f32[3,100] parameter(0)
        i = s32[3,100] iota(), iota_dimension=1
        low = f32[] constant(-inf)
        none = s32[] constant(-1)
        ROOT r = (f32[3], s32[3]) reduce(x, i, low, none), dimensions={1}, to_apply=f }"""
    x = np.zeros((3, 100), np.float32)
    x[0, [5, 8, 38]] = x[2, [99, 0]] = 1
    assert refxla.compile(text)(x)[1].tolist() == [38, 99, 99]
