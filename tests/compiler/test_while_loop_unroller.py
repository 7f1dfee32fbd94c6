"""Loops over the few rows of a small matrix are unrolled, and fuse with what is around them."""

import numpy as np
import pytest
from refxla_spec import interpreter
from refxla_spec.text import parse

import refxla
from refxla.passes.pipeline import optimize

# Reverses the first rows of x by exchanging elements: what an iteration reads and writes depends on the counter.
LOOP = """HloModule m
    test { s = (s32[], f32[3], f32[]) parameter(0)
        i = s32[] get-tuple-element(s), index=0
        n = s32[] constant(COUNT)
        ROOT r = pred[] compare(i, n), direction=LT }
    body { s = (s32[], f32[3], f32[]) parameter(0)
        i = s32[] get-tuple-element(s), index=0
        x = f32[3] get-tuple-element(s), index=1
        t = f32[] get-tuple-element(s), index=2
        one = s32[] constant(1)
        j = s32[] add(i, one)
        e = f32[1] dynamic-slice(x, PLACE), dynamic_slice_sizes={1}
        f = f32[] reshape(e)
        u = f32[] add(f, t)
        v = f32[1] reshape(u)
        MORE
        y = f32[3] dynamic-update-slice(x, v, i)
        ROOT r = (s32[], f32[3], f32[]) tuple(j, y, u) }
    ENTRY main { zero = s32[] constant(START)
        x = f32[3] parameter(0)
        t = f32[] parameter(1)
        s = (s32[], f32[3], f32[]) tuple(zero, x, t)
        w = (s32[], f32[3], f32[]) while(s), condition=test, body=body
        k = s32[] get-tuple-element(w), index=0
        y = f32[3] get-tuple-element(w), index=1
        u = f32[] get-tuple-element(w), index=2
        ROOT r = (s32[], f32[3], f32[]) tuple(k, y, u) }"""


def program(count: int, start: int = 0, place: str = "j", more: str = "") -> str:
    text = LOOP.replace("COUNT", str(count)).replace("START", str(start))
    return text.replace("PLACE", place).replace("MORE", more)


@pytest.mark.parametrize(("count", "start"), [(3, 0), (2, 0), (1, 0), (0, 0), (3, 1), (-1, 2), (2, -1)])
def test_a_loop_of_few_iterations_has_no_loop(count, start):
    module = parse(program(count, start))
    assert "while(" not in str(optimize(module))
    assert "while(" in str(optimize(module, without=("while-loop-unroller",))) or count <= start
    x, t = np.array([1.5, -2.25, 4], np.float32), np.float32(0.1)
    wanted = interpreter.run(module, [x, t])
    for got in (refxla.compile(module)(x, t), interpreter.run(optimize(module), [x, t])):
        for a, b in zip(got, wanted, strict=True):
            assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


@pytest.mark.parametrize(
    "text",
    [
        program(4),  # iterations
        program(3, more="\n".join(f"m{k} = f32[3] negate({f'm{k - 1}' if k else 'x'})" for k in range(40))),
        program(3, place="one").replace("dynamic-update-slice(x, v, i)", "dynamic-update-slice(x, v, one)"),
    ],
)
def test_other_loops_stay(text):
    """Of many iterations, of many instructions, and of those that are the same for each iteration."""
    if "m39" in text:
        text = text.replace("f32[3] dynamic-update-slice(x,", "f32[3] dynamic-update-slice(m39,")
    assert "while(" in str(optimize(parse(text)))


def test_a_loop_of_one_iteration_is_its_body_whatever_that_is():
    more = "\n".join(f"m{k} = f32[3] negate({f'm{k - 1}' if k else 'x'})" for k in range(99))
    for count in (1, 2):
        module = parse(
            program(count, place="one", more=more).replace("update-slice(x, v, i)", "update-slice(m98, v, one)")
        )
        assert ("while(" in str(optimize(module))) == (count == 2)
        x, t = np.array([1.5, -2.25, 4], np.float32), np.float32(0.1)
        for a, b in zip(refxla.compile(module)(x, t), interpreter.run(module, [x, t]), strict=True):
            assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


def test_a_loop_in_a_loop_is_unrolled():
    outer = program(3).replace("ENTRY main {", "inner {")
    text = (
        outer
        + """
    test.2 { s = (s32[], f32[3]) parameter(0)
        i = s32[] get-tuple-element(s), index=0
        n = s32[] constant(20)
        ROOT r = pred[] compare(i, n), direction=LT }
    body.2 { s = (s32[], f32[3]) parameter(0)
        i = s32[] get-tuple-element(s), index=0
        x = f32[3] get-tuple-element(s), index=1
        one = s32[] constant(1)
        j = s32[] add(i, one)
        t = f32[] constant(0.5)
        c = (s32[], f32[3], f32[]) call(x, t), to_apply=inner
        y = f32[3] get-tuple-element(c), index=1
        z = f32[3] negate(y)
        ROOT r = (s32[], f32[3]) tuple(j, z) }
    ENTRY main { zero = s32[] constant(0)
        x = f32[3] parameter(0)
        s = (s32[], f32[3]) tuple(zero, x)
        w = (s32[], f32[3]) while(s), condition=test.2, body=body.2
        ROOT r = f32[3] get-tuple-element(w), index=1 }"""
    )
    module = parse(text)
    assert str(optimize(module)).count("while(") == 1
    x = np.array([1.5, -2.25, 4], np.float32)
    assert refxla.compile(module)(x).tobytes() == np.asarray(interpreter.run(module, [x])).tobytes()
