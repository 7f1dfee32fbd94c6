"""What leaves a loop: products of slices, work on what no turn changes; the results keep their bits."""

import numpy as np
import pytest
from refxla_spec.interpreter import run
from refxla_spec.text import parse

import refxla
from refxla.passes.pipeline import optimize


def loop(body: str, turns: int = 5, first: int = 0, more: str = "") -> str:
    """x f32[5,3,4], w f32[4,6] and total f32[3,6]; the body makes `next` of them."""
    state = "(s32[], f32[5,3,4], f32[4,6], f32[3,6])"
    return f"""HloModule m
    {more}
    body {{ s = {state} parameter(0)
        i = s32[] get-tuple-element(s), index=0
        x = f32[5,3,4] get-tuple-element(s), index=1
        w = f32[4,6] get-tuple-element(s), index=2
        total = f32[3,6] get-tuple-element(s), index=3
        one = s32[] constant(1)
        zero = s32[] constant(0)
        count = s32[] add(i, one)
        {body}
        ROOT r = {state} tuple(count, x, w, next) }}
    test {{ s = {state} parameter(0)
        i = s32[] get-tuple-element(s), index=0
        n = s32[] constant({first + turns})
        ROOT p = pred[] compare(i, n), direction=LT }}
    ENTRY e {{ x = f32[5,3,4] parameter(0)
        w = f32[4,6] parameter(1)
        total = f32[3,6] parameter(2)
        zero = s32[] constant({first})
        begin = {state} tuple(zero, x, w, total)
        loop = {state} while(begin), condition=test, body=body
        ROOT last = f32[3,6] get-tuple-element(loop), index=3 }}"""


SLICE = """t = f32[1,3,4] dynamic-slice(x, i, zero, zero), dynamic_slice_sizes={1,3,4}
        a = f32[3,4] reshape(t)"""
MIDDLE = """t = f32[5,1,4] dynamic-slice(x, zero, i, zero), dynamic_slice_sizes={5,1,4}
        a = f32[5,4] reshape(t)"""
SUM = "next = f32[3,6] add(total, d)"
CASES = {
    "left": (f"{SLICE}\n d = f32[3,6] dot(a, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}\n {SUM}", True),
    "right": (
        f"{SLICE}\n e = f32[6,3] dot(w, a), lhs_contracting_dims={{0}}, rhs_contracting_dims={{1}}\n"
        f"d = f32[3,6] transpose(e), dimensions={{1,0}}\n {SUM}",
        True,
    ),
    "along the middle": (
        f"{MIDDLE}\n e = f32[5,6] dot(a, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}\n"
        f"d = f32[3,6] slice(e), slice={{[1:4], [0:6]}}\n {SUM}",
        True,
    ),
    "contracted with itself": (
        f"{SLICE}\n v = f32[4,4] dot(a, a), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}\n"
        f"d = f32[3,6] slice(w), slice={{[0:3], [0:6]}}\n"
        f"u = f32[3,4] slice(v), slice={{[0:3], [0:4]}}\n"
        f"z = f32[3,6] dot(u, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}\n"
        "next = f32[3,6] add(z, total)",
        False,
    ),
    "the other changes": (
        f"{SLICE}\n d = f32[4,6] dot(a, total), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}\n"
        "next = f32[3,6] slice(d), slice={[1:4], [0:6]}",
        False,
    ),
    "cheap operations before a dot": (
        "t = f32[6,4] transpose(w), dimensions={1,0}\n g = f32[4,4] slice(w), slice={[0:4], [0:4]}\n"
        "n = f32[4,4] negate(g)\n u = f32[3,4] slice(total), slice={[0:3], [0:4]}\n"
        "v = f32[3,4] dot(u, n), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
        "d = f32[3,6] dot(v, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n next = f32[3,6] tanh(d)",
        True,
    ),
    "several cheap operations": (
        "a = f32[4,6] multiply(w, w)\n b = f32[4,6] add(a, w)\n c = f32[4,6] multiply(b, w)\n e = f32[4,6] add(c, w)\n"
        "g = f32[3,6] slice(e), slice={[0:3], [0:6]}\n next = f32[3,6] maximum(total, g)",
        True,
    ),
    "one cheap operation": (
        "a = f32[4,6] multiply(w, w)\n g = f32[3,6] slice(a), slice={[0:3], [0:6]}\nnext = f32[3,6] maximum(total, g)",
        False,
    ),
    "the same in all": (
        "h = f32[4,6] exponential(w)\n v = f32[6,6] dot(h, w), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n"
        "d = f32[3,6] dot(total, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
        "next = f32[3,6] tanh(d)",
        True,
    ),
}


def given():
    random = np.random.default_rng(0)
    return [random.standard_normal(s).astype(np.float32) / 2 for s in ((5, 3, 4), (4, 6), (3, 6))]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(("turns", "first"), [(5, 0), (9, -2)])
def test_bits(name, turns, first):
    """Also where numbers of slices lie outside and are clamped."""
    text, leaves = CASES[name][0], CASES[name][1]
    text = loop(text, turns, first)

    def elements(without: tuple[str, ...] = ()) -> int:
        (loop_,) = (i for i in optimize(parse(text), without).entry.instructions if i.opcode == "while")
        return len(loop_.shape.elements)

    assert (elements() > elements(("while-loop-invariant-code-motion",))) == leaves
    got = refxla.compile(text)(*given())
    assert got.tobytes() == refxla.compile(text, without=("while-loop-invariant-code-motion",))(*given()).tobytes()
    assert np.allclose(got, run(parse(text), given()), atol=1e-4)


def test_a_loop_that_takes_few_slices_computes_no_more():
    made = optimize(parse(loop(CASES["left"][0], turns=4)))
    (kept,) = [i for i in made.entry.instructions if i.opcode == "while"]
    assert len(kept.shape.elements) == 4 and any(i.opcode == "dot" for i in kept.body.instructions)


@pytest.mark.parametrize(("size", "leaves"), [(512, True), (4096, False)])
def test_a_product_much_larger_than_its_operands_is_computed_once(size, leaves):
    """It is in memory in any case; what would take much memory for the whole loop stays in it."""
    state = f"(s32[], f32[{size},3], f32[{size}])"
    text = f"""HloModule m
    add {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }}
    body {{ s = {state} parameter(0)
        i = s32[] get-tuple-element(s), index=0
        x = f32[{size},3] get-tuple-element(s), index=1
        y = f32[{size}] get-tuple-element(s), index=2
        one = s32[] constant(1)
        none = f32[] constant(0)
        count = s32[] add(i, one)
        d = f32[{size},{size}] dot(x, x), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}
        b = f32[{size},{size}] broadcast(y), dimensions={{0}}
        z = f32[{size},{size}] subtract(d, b)
        v = f32[{size}] reduce(z, none), dimensions={{1}}, to_apply=add
        ROOT r = {state} tuple(count, x, v) }}
    test {{ s = {state} parameter(0)
        i = s32[] get-tuple-element(s), index=0
        n = s32[] constant(9)
        ROOT p = pred[] compare(i, n), direction=LT }}
    ENTRY e {{ x = f32[{size},3] parameter(0)
        y = f32[{size}] parameter(1)
        zero = s32[] constant(0)
        begin = {state} tuple(zero, x, y)
        loop = {state} while(begin), condition=test, body=body
        ROOT last = f32[{size}] get-tuple-element(loop), index=2 }}"""
    entry = optimize(parse(text)).entry
    (loop_,) = (i for i in entry.instructions if i.opcode == "while")
    assert any(i.opcode == "dot" for i in entry.instructions) == leaves
    assert any(i.opcode == "dot" for i in loop_.body.instructions) != leaves


def test_what_leaves_an_inner_loop_leaves_the_outer_one():
    inner = """inside { s = (s32[], f32[4,6], f32[3,6]) parameter(0)
        i = s32[] get-tuple-element(s), index=0
        w = f32[4,6] get-tuple-element(s), index=1
        y = f32[3,6] get-tuple-element(s), index=2
        one = s32[] constant(1)
        count = s32[] add(i, one)
        g = f32[6,6] dot(w, w), lhs_contracting_dims={0}, rhs_contracting_dims={0}
        z = f32[3,6] dot(y, g), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        v = f32[3,6] tanh(z)
        ROOT r = (s32[], f32[4,6], f32[3,6]) tuple(count, w, v) }
    enough { s = (s32[], f32[4,6], f32[3,6]) parameter(0)
        i = s32[] get-tuple-element(s), index=0
        n = s32[] constant(2)
        ROOT p = pred[] compare(i, n), direction=LT }"""
    body = """b = (s32[], f32[4,6], f32[3,6]) tuple(zero, w, total)
        l = (s32[], f32[4,6], f32[3,6]) while(b), condition=enough, body=inside
        next = f32[3,6] get-tuple-element(l), index=2"""
    text = loop(body, more=inner)
    made = optimize(parse(text))
    assert [i.opcode for i in made.entry.instructions].count("dot") == 1
    got = refxla.compile(text)(*given())
    assert got.tobytes() == refxla.compile(text, without=("while-loop-invariant-code-motion",))(*given()).tobytes()


COLUMNS = """HloModule m
    body { s = (s32[], f32[20,8], f32[20]) parameter(0)
        i = s32[] get-tuple-element(s), index=0
        x = f32[20,8] get-tuple-element(s), index=1
        total = f32[20] get-tuple-element(s), index=2
        one = s32[] constant(1)
        zero = s32[] constant(0)
        count = s32[] add(i, one)
        column = f32[20,1] dynamic-slice(x, zero, i), dynamic_slice_sizes={20,1}
        a = f32[20] reshape(column)
        b = f32[20] multiply(a, total)
        next = f32[20] add(a, b)
        ROOT r = (s32[], f32[20,8], f32[20]) tuple(count, x, next) }
    test { s = (s32[], f32[20,8], f32[20]) parameter(0)
        i = s32[] get-tuple-element(s), index=0
        n = s32[] constant(8)
        ROOT p = pred[] compare(i, n), direction=LT }
    ENTRY e { x = f32[20,8] parameter(0)
        total = f32[20] parameter(1)
        first = s32[] constant(0)
        begin = (s32[], f32[20,8], f32[20]) tuple(first, x, total)
        loop = (s32[], f32[20,8], f32[20]) while(begin), condition=test, body=body
        ROOT last = f32[20] get-tuple-element(loop), index=2 }"""


def transposes_before(text: str) -> int:
    return [i.opcode for i in optimize(parse(text)).entry.instructions].count("transpose")


def test_columns_are_rows_of_a_transpose():
    random = np.random.default_rng(0)
    x, total = random.standard_normal((20, 8)).astype(np.float32), random.standard_normal(20).astype(np.float32)
    assert transposes_before(COLUMNS) == 1
    exe, plain = refxla.compile(COLUMNS), refxla.compile(COLUMNS, without="while-loop-invariant-code-motion")
    np.testing.assert_array_equal(exe(x, total), plain(x, total))
    late = COLUMNS.replace("first = s32[] constant(0)", "first = s32[] constant(4)").replace(
        "n = s32[] constant(8)", "n = s32[] constant(12)"
    )  # numbers of columns that lie outside are clamped
    exe, plain = refxla.compile(late), refxla.compile(late, without="while-loop-invariant-code-motion")
    np.testing.assert_array_equal(exe(x, total), plain(x, total))


@pytest.mark.parametrize(
    ("part", "other"),
    [
        ("n = s32[] constant(8)", "n = s32[] constant(7)"),  # reads fewer elements than there are
        ("[20", "[12"),  # columns are short
        ("dynamic-slice(x, zero, i)", "dynamic-slice(y, zero, i)"),  # the array changes
    ],
)
def test_columns_that_are_not_worth_a_transpose(part, other):
    text = COLUMNS.replace(part, other).replace("sizes={20,1}", "sizes={12,1}" if other == "[12" else "sizes={20,1}")
    if "(y" in other:
        text = text.replace(
            "column =", "t = f32[20,8] broadcast(total), dimensions={0}\n y = f32[20,8] add(x, t)\n column ="
        )
    assert transposes_before(text) == 0
