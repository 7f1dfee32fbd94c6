"""What a loop carries and nothing depends on goes; the results keep their bits."""

import numpy as np
import pytest
from refxla_spec.interpreter import run
from refxla_spec.text import parse

import refxla
from refxla.passes.pipeline import optimize


def loop(body: str, result: str, condition: str = "i, n", turns: int = 4) -> str:
    """The state: a counter, x f32[3], all f32[4,3], and total f32[3]; the body makes the next three of them."""
    state = "(s32[], f32[3], f32[4,3], f32[3])"
    parts = """i = s32[] get-tuple-element(s), index=0
        x = f32[3] get-tuple-element(s), index=1
        all = f32[4,3] get-tuple-element(s), index=2
        total = f32[3] get-tuple-element(s), index=3"""
    return f"""HloModule m
    body {{ s = {state} parameter(0)
        {parts}
        one = s32[] constant(1)
        zero = s32[] constant(0)
        count = s32[] add(i, one)
        row = f32[1,3] reshape(x)
        collected = f32[4,3] dynamic-update-slice(all, row, i, zero)
        twice = f32[3] add(x, x)
        {body}
        ROOT r = {state} tuple(count, next, collected, sum) }}
    test {{ s = {state} parameter(0)
        {parts}
        n = s32[] constant({turns})
        first = f32[1] slice(total), slice={{[0:1]}}
        scalar = f32[] reshape(first)
        bound = s32[] convert(scalar)
        ROOT p = pred[] compare({condition}), direction=LT }}
    ENTRY e {{ x = f32[3] parameter(0)
        all = f32[4,3] parameter(1)
        total = f32[3] parameter(2)
        zero = s32[] constant(0)
        begin = {state} tuple(zero, x, all, total)
        loop = {state} while(begin), condition=test, body=body
        {result} }}"""


NEXT = "next = f32[3] add(x, x)\n sum = f32[3] add(total, x)"
CASES = {  # and how many elements the state has then
    "one result": (loop(NEXT, "ROOT x1 = f32[3] get-tuple-element(loop), index=1"), 2),
    "of another": (loop(NEXT, "ROOT x1 = f32[3] get-tuple-element(loop), index=3"), 3),
    "collected": (loop(NEXT, "ROOT x1 = f32[4,3] get-tuple-element(loop), index=2"), 3),
    "in the condition": (loop(NEXT, "ROOT x1 = f32[4,3] get-tuple-element(loop), index=2", "bound, n", 9), 4),
    "exchanged": (
        loop(
            "next = f32[3] add(total, total)\n sum = f32[3] copy(x)",
            "ROOT x1 = f32[3] get-tuple-element(loop), index=3",
        ),
        3,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_no_result_depends_on_is_not_carried(name):
    text, count = CASES[name]
    module = parse(text)
    (left,) = [i for i in optimize(module).instructions() if i.opcode == "while"]
    assert len(left.shape.elements) == count
    inputs = [np.arange(1, n + 1, dtype=np.float32).reshape(s) for n, s in ((3, (3,)), (12, (4, 3)), (3, (3,)))]
    np.testing.assert_array_equal(refxla.compile(text)(*inputs), run(module, inputs))


def test_inner_loops_follow_outer_ones():
    inner = """body { s = (s32[], f32[3], f32[3]) parameter(0)
        i = s32[] get-tuple-element(s), index=0
        x = f32[3] get-tuple-element(s), index=1
        y = f32[3] get-tuple-element(s), index=2
        one = s32[] constant(1)
        k = s32[] add(i, one)
        u = f32[3] add(x, x)
        v = f32[3] multiply(y, y)
        ROOT r = (s32[], f32[3], f32[3]) tuple(k, u, v) }
    test { s = (s32[], f32[3], f32[3]) parameter(0)
        i = s32[] get-tuple-element(s), index=0
        n = s32[] constant(3)
        ROOT p = pred[] compare(i, n), direction=LT }"""
    outer = inner.replace("body", "outer").replace("test", "outer_test")
    outer = outer.replace("u = f32[3] add(x, x)", "z = s32[] constant(0)\n b = (s32[], f32[3], f32[3]) tuple(z, x, y)\n"
        "w = (s32[], f32[3], f32[3]) while(b), condition=test, body=body\n u = f32[3] get-tuple-element(w), index=1"
    ).replace("v = f32[3] multiply(y, y)", "v = f32[3] get-tuple-element(w), index=2")  # fmt: skip
    module = parse(f"""HloModule m
    {inner}
    {outer}
    ENTRY e {{ x = f32[3] parameter(0)
        y = f32[3] parameter(1)
        z = s32[] constant(0)
        b = (s32[], f32[3], f32[3]) tuple(z, x, y)
        w = (s32[], f32[3], f32[3]) while(b), condition=outer_test, body=outer
        ROOT u = f32[3] get-tuple-element(w), index=2 }}""")
    loops = [i for i in optimize(module).instructions() if i.opcode == "while"]
    assert [len(i.shape.elements) for i in loops] == [2, 2]
