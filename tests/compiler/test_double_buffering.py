"""Loops whose iterations read all over the state that they write: two iterations are one, and nothing is copied."""

import numpy as np
import pytest
from refxla_spec.interpreter import run
from refxla_spec.text import parse

import refxla
from refxla.compiler.planning import plan_module
from refxla.device.description import DEFAULT_CPU
from refxla.ir.plan import Copy, Repeat
from refxla.passes.pipeline import optimize

N = 1 << 17


def loop(state: str, body: str, results: str, trip_count: int, first: int = 0) -> str:
    """x and y, f32[N], go through `trip_count` iterations of `body`, which has i, x and y and makes `results`."""
    return f"""HloModule m
    body {{ s = {state} parameter(0)
        i = s32[] get-tuple-element(s), index=0
        x = f32[{N}] get-tuple-element(s), index=1
        y = f32[{N}] get-tuple-element(s), index=2
        one = s32[] constant(1)
        count = s32[] add(i, one)
        {body}
        ROOT r = {state} tuple(count, {results}) }}
    test {{ s = {state} parameter(0)
        i = s32[] get-tuple-element(s), index=0
        n = s32[] constant({first + trip_count})
        ROOT p = pred[] compare(i, n), direction=LT }}
    ENTRY e {{ x = f32[{N}] parameter(0)
        y = f32[{N}] parameter(1)
        zero = s32[] constant({first})
        rows = f32[5,{N}] broadcast(x), dimensions={{1}}
        begin = {state} tuple(zero, x, y{", rows" if "5" in state else ""})
        ROOT loop = {state} while(begin), condition=test, body=body }}"""


STATE = f"(s32[], f32[{N}], f32[{N}])"
ROWS = f"(s32[], f32[{N}], f32[{N}], f32[5,{N}])"
REVERSED = f"""b = f32[{N}] reverse(x), dimensions={{0}}
        f = f32[] convert(i)
        g = f32[{N}] broadcast(f), dimensions={{}}
        h = f32[{N}] add(b, g)
        e = f32[{N}] tanh(h)
        c = f32[{N}] add(e, x)
        d = f32[{N}] multiply(c, y)"""
CASES = {
    "one is read across": (STATE, REVERSED, "d, y", True),
    "wave": (STATE, REVERSED, "d, x", True),
    "exchanged": (STATE, "", "y, x", True),
    "both become one": (STATE, REVERSED, "d, d", False),
    "a row of all": (
        ROWS,
        f"""rows = f32[5,{N}] get-tuple-element(s), index=3
        zero = s32[] constant(0)
        row = f32[1,{N}] reshape(x)
        next = f32[5,{N}] dynamic-update-slice(rows, row, i, zero)
        {REVERSED}""",
        "d, y, next",
        True,
    ),
    "all but the edges are updated": (
        STATE,
        f"""left = f32[{N - 2}] slice(x), slice={{[0:{N - 2}]}}
        right = f32[{N - 2}] slice(x), slice={{[2:{N}]}}
        sum = f32[{N - 2}] add(left, right)
        half = f32[] constant(0.5)
        halves = f32[{N - 2}] broadcast(half), dimensions={{}}
        mean = f32[{N - 2}] multiply(sum, halves)
        d = f32[{N}] dynamic-update-slice(x, mean, one)""",
        "d, y",
        True,
    ),
    "in place": (STATE, f"d = f32[{N}] multiply(x, y)", "d, y", False),
}


def given():
    random = np.random.default_rng(0)
    return [random.uniform(0.5, 1.5, N).astype(np.float32), random.uniform(0.5, 1.5, N).astype(np.float32)]


def flat(steps):
    for step in steps:
        yield step
        yield from flat(step.body if isinstance(step, Repeat) else ())


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(("trip_count", "first"), [(0, 0), (1, 0), (2, 0), (5, -2), (6, 1)])
def test_bits(name, trip_count, first):
    state, body, results, _ = CASES[name]
    text = loop(state, body, results, trip_count, first)
    got = refxla.compile(text)(*given())
    for a, b in zip(got, run(parse(text), given()), strict=True):
        assert np.allclose(a, b, rtol=1e-4, atol=1e-3)
    for a, b in zip(got, refxla.compile(text, without=("launch-merging", "fusion"))(*given()), strict=True):
        assert np.array_equal(a, b)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("trip_count", [6, 7])
def test_a_loop_copies_nothing(name, trip_count):
    """But for a value that is two elements of the state, which two iterations do not help either."""
    state, body, results, doubled = CASES[name]
    plan = plan_module(parse(loop(state, body, results, trip_count)), DEFAULT_CPU, ("launch-merging",))[1].plan
    (repeat,) = [s for s in plan.steps if isinstance(s, Repeat)]
    assert repeat.trip_count == (trip_count // 2 if doubled else trip_count)
    large = [s for s in repeat.body if isinstance(s, Copy) and plan.buffers[s.source].shape.bytes >= 4 * N]
    assert len(large) == (1 if name == "both become one" else 0)


def test_equal_counters_are_one():
    """Also where the result has both, and where one starts elsewhere or grows otherwise."""
    state = "(s32[], s32[], s32[], s32[], f32[4])"
    text = f"""HloModule m
    body {{ s = {state} parameter(0)
        i = s32[] get-tuple-element(s), index=0
        j = s32[] get-tuple-element(s), index=1
        k = s32[] get-tuple-element(s), index=2
        l = s32[] get-tuple-element(s), index=3
        x = f32[4] get-tuple-element(s), index=4
        one = s32[] constant(1)
        two = s32[] constant(2)
        a = s32[] add(i, one)
        b = s32[] add(j, one)
        c = s32[] add(k, one)
        d = s32[] add(l, two)
        ij = s32[] multiply(i, j)
        kl = s32[] multiply(k, l)
        m = s32[] add(ij, kl)
        f = f32[] convert(m)
        fs = f32[4] broadcast(f), dimensions={{}}
        y = f32[4] add(x, fs)
        ROOT r = {state} tuple(a, b, c, d, y) }}
    test {{ s = {state} parameter(0)
        i = s32[] get-tuple-element(s), index=1
        n = s32[] constant(7)
        ROOT p = pred[] compare(i, n), direction=LT }}
    ENTRY e {{ x = f32[4] parameter(0)
        zero = s32[] constant(0)
        one = s32[] constant(1)
        begin = {state} tuple(zero, zero, one, zero, x)
        ROOT loop = {state} while(begin), condition=test, body=body }}"""
    x = np.arange(4, dtype=np.float32)
    for a, b in zip(refxla.compile(text)(x), run(parse(text), [x]), strict=True):
        assert np.array_equal(a, b)
    body = next(i for i in optimize(parse(text)).entry.instructions if i.opcode == "while").body
    kept = [k for k, o in enumerate(body.root.operands) if o.opcode == "get-tuple-element"]
    assert kept == [0]
