"""Reduction kernels: values against the interpreter, bits against another fusion or another number of items."""

import functools
import re
from dataclasses import replace

import numpy as np
import pytest
from kernel_driver import Compiled, check, fusion_of
from refxla_spec.errors import UnsupportedError
from refxla_spec.text import parse
from refxla_spec.types import ELEMENT_TYPES

import refxla
from refxla.analysis.reduction_order import columns_fit, panel_columns, reduction_order
from refxla.analysis.sign_analysis import form
from refxla.codegen.emitter_registry import emit
from refxla.compiler.planning import plan_module
from refxla.device.capabilities import GPU, OPENCL_CPU
from refxla.device.description import DEFAULT_CPU, Caches
from refxla.runtime.devices import choose

rng = np.random.default_rng(2)
MASKED = replace(DEFAULT_CPU, features="avx512f,avx512vl,avx512dq,avx512bw")  # a processor with masks


def f32(*sizes):
    return rng.standard_normal(sizes).astype(np.float32)


def reducer(name: str, opcode: str, element: str = "f32") -> str:
    e = element
    return f"{name} {{ a = {e}[] parameter(0)  b = {e}[] parameter(1)  ROOT c = {e}[] {opcode}(a, b) }}\n"


ADD, MAX = reducer("add", "add"), reducer("max", "maximum")
ARGMAX = """argmax { a = f32[] parameter(0)  i = s32[] parameter(1)  b = f32[] parameter(2)  j = s32[] parameter(3)
    gt = pred[] compare(a, b), direction=GT
    ne = pred[] compare(a, a), direction=NE
    first = pred[] or(gt, ne)
    eq = pred[] compare(a, b), direction=EQ
    lower = pred[] compare(i, j), direction=LT
    tie = pred[] and(eq, lower)
    keep = pred[] or(first, tie)
    v = f32[] select(first, a, b)
    k = s32[] select(keep, i, j)
    ROOT r = (f32[], s32[]) tuple(v, k) }
"""


def entry(lines: str, computations: str = ADD + MAX) -> str:
    return f"HloModule m\n{computations}\nENTRY main {{\n{lines}\n}}"


def dims(sizes) -> str:
    return ",".join(map(str, sizes))


def reduce_text(sizes, reduced, opcode="add", element="f32", init="0") -> str:
    kept = [n for d, n in enumerate(sizes) if d not in reduced]
    return entry(
        f"""x = {element}[{dims(sizes)}] parameter(0)
        z = {element}[] constant({init})
        ROOT r = {element}[{dims(kept)}] reduce(x, z), dimensions={{{dims(reduced)}}}, to_apply=f""",
        reducer("f", opcode, element),
    )


SHAPES = [
    ((), ()),
    ((1,), (0,)),
    ((5,), (0,)),
    ((1000,), (0,)),
    ((7, 300), (1,)),
    ((300, 7), (0,)),
    ((7, 300), (0,)),
    ((33, 600), (0,)),
    ((6, 9, 40), (0, 2)),
    ((6, 9, 40), (1,)),
    ((4, 5, 6, 7), (1, 3)),
    ((1, 5, 66, 4), (0, 3)),
    ((5, 66, 4, 1), (2, 3)),
    ((1, 3, 33, 1, 2, 1), (0, 3, 4, 5)),
    ((4, 5, 6, 7), (0, 2)),
    ((4, 1, 6, 1), (1, 2)),
    ((3, 4), ()),
    ((3, 1), (1,)),
    ((0, 4), (0,)),
    ((0, 4), (1,)),
    ((4, 0), (1,)),
    ((2, 200_000), (1,)),
    ((200_003,), (0,)),
    ((3001, 70), (0,)),
    ((20, 30, 300), (0, 1)),
    ((40, 2, 5000), (0, 2)),
]


@pytest.mark.parametrize("sizes, reduced", SHAPES, ids=str)
def test_sum(sizes, reduced):
    numbers = f32(*sizes) + np.float32(0.5)  # so that sums grow with the terms, as their rounding errors do
    check(reduce_text(sizes, reduced, init="3"), numbers, kind="reduction", exact=False)


@pytest.mark.parametrize(
    "opcode, element, init",
    [
        ("add", "s32", "1"),
        ("multiply", "s8", "1"),
        ("maximum", "s16", "-32768"),
        ("minimum", "u8", "255"),
        ("and", "s32", "-1"),
        ("or", "u16", "0"),
        ("xor", "s64", "0"),
        ("or", "pred", "false"),
        ("and", "pred", "true"),
        ("maximum", "f32", "-inf"),
        ("minimum", "f64", "inf"),
        ("maximum", "bf16", "-inf"),
    ],
)
@pytest.mark.parametrize("sizes, reduced", [((5, 333), (1,)), ((333, 5), (0,)), ((400_000,), (0,))], ids=str)
def test_exact_reducers(opcode, element, init, sizes, reduced):
    text = reduce_text(sizes, reduced, opcode, element, init)
    dtype = parse(text).entry.parameters[0].shape.element_type.dtype
    x = rng.integers(0, 2, sizes) if element == "pred" else rng.integers(-9, 9, sizes)
    x = x.astype(dtype)
    check(text, x, kind="reduction")
    if element in ("f32", "f64", "bf16"):
        x.reshape(-1)[x.size // 3] = np.nan
        check(text, x, kind="reduction")


@pytest.mark.parametrize("element", ["f16", "bf16"])
@pytest.mark.parametrize("sizes, reduced", [((3, 5000), (1,)), ((5000, 3), (0,))], ids=str)
def test_narrow_sums_round_once(element, sizes, reduced):
    text = reduce_text(sizes, reduced, element=element)
    dtype = parse(text).entry.parameters[0].shape.element_type.dtype
    x = rng.random(sizes).astype(dtype)
    compiled = Compiled(fusion_of(parse(text), "reduction"))
    want = x.astype(np.float64).sum(axis=reduced)
    (got,) = compiled(x)
    ulp = np.abs(want) * 2.0 ** (-11 if element == "f16" else -8)
    assert (np.abs(got.astype(np.float64) - want) <= ulp).all()


@pytest.mark.parametrize("sizes", [(7, 500), (3, 200_000), (600_001,)])
def test_argmax(sizes):
    axis = len(sizes) - 1
    text = entry(
        f"""x = f32[{dims(sizes)}] parameter(0)
        at = s32[{dims(sizes)}] iota(), iota_dimension={axis}
        inf = f32[] constant(-inf)
        zero = s32[] constant(0)
        r = (f32[{dims(sizes[:-1])}], s32[{dims(sizes[:-1])}]) reduce(x, at, inf, zero), dimensions={{{axis}}},
            to_apply=argmax
        v = f32[{dims(sizes[:-1])}] get-tuple-element(r), index=0
        k = s32[{dims(sizes[:-1])}] get-tuple-element(r), index=1
        ROOT t = (f32[{dims(sizes[:-1])}], s32[{dims(sizes[:-1])}]) tuple(v, k)""",
        ARGMAX,
    )
    x = rng.integers(-50, 50, sizes).astype(np.float32)
    compiled = Compiled(fusion_of(parse(text), "reduction"))
    value, place = compiled(x)
    np.testing.assert_array_equal(value, x.max(axis=-1))
    np.testing.assert_array_equal(place, x.argmax(axis=-1))


@pytest.mark.parametrize("sizes", [(70, 5), (3001, 70), (1201, 1030)])
def test_argmax_of_columns(sizes):
    text = entry(
        f"""x = f32[{dims(sizes)}] parameter(0)
        at = s32[{dims(sizes)}] iota(), iota_dimension=0
        inf = f32[] constant(-inf)
        zero = s32[] constant(0)
        r = (f32[{sizes[1]}], s32[{sizes[1]}]) reduce(x, at, inf, zero), dimensions={{0}}, to_apply=argmax
        v = f32[{sizes[1]}] get-tuple-element(r), index=0
        k = s32[{sizes[1]}] get-tuple-element(r), index=1
        ROOT t = (f32[{sizes[1]}], s32[{sizes[1]}]) tuple(v, k)""",
        ARGMAX,
    )
    x = rng.integers(-50, 50, sizes).astype(np.float32)
    compiled = Compiled(fusion_of(parse(text), "reduction"))
    np.testing.assert_array_equal(compiled(x)[0], x.max(axis=0))
    np.testing.assert_array_equal(compiled(x)[1], x.argmax(axis=0))
    assert " long c" in compiled.kernels[0].body


@pytest.mark.parametrize("n", [1, 33, 1024, 1 << 17, 2_000_003])
def test_the_fused_sum_is_one_launch_without_memory(n):
    text = entry(
        f"""x = f32[{n}] parameter(0)
        y = f32[{n}] parameter(1)
        z = f32[{n}] parameter(2)
        m = f32[{n}] multiply(y, z)
        a = f32[{n}] add(x, m)
        zero = f32[] constant(0)
        ROOT r = f32[] reduce(a, zero), dimensions={{0}}, to_apply=add"""
    )
    compiled = check(text, abs(f32(n)), abs(f32(n)), abs(f32(n)), kind="reduction", exact=False)
    assert len(compiled.kernels) == 1
    assert not any(a.role == "scratch" for a in compiled.kernels[0].arguments)
    # Again, on what the first runs left in the workspace.
    args = f32(n), f32(n), f32(n)
    first, second = compiled(*args)[0], compiled(*args)[0]
    assert first.tobytes() == second.tobytes()


@pytest.mark.parametrize(
    "sizes, reduced", [((700_000,), (0,)), ((9, 1000), (1,)), ((5000, 64), (0,)), ((70, 90), (0,))]
)
def test_bits_do_not_depend_on_fusion(sizes, reduced):
    """sum(x*y) with the product fused, and the sum of a product computed before."""
    size, kept = dims(sizes), dims(n for d, n in enumerate(sizes) if d not in reduced)
    fused = entry(
        f"""x = f32[{size}] parameter(0)
        y = f32[{size}] parameter(1)
        m = f32[{size}] multiply(x, y)
        e = f32[{size}] exponential(m)
        zero = f32[] constant(0)
        s = f32[{kept}] reduce(m, zero), dimensions={{{dims(reduced)}}}, to_apply=add
        t = f32[{kept}] reduce(x, zero), dimensions={{{dims(reduced)}}}, to_apply=add
        u = f32[{kept}] multiply(s, t)
        ROOT r = (f32[{kept}], f32[{kept}], f32[{kept}], f32[{size}]) tuple(s, t, u, e)"""
    )
    x, y = f32(*sizes), f32(*sizes)
    s, t, u, e = Compiled(fusion_of(parse(fused), "reduction"))(x, y)
    alone = Compiled(fusion_of(parse(reduce_text(sizes, reduced)), "reduction"))
    assert s.tobytes() == alone(x * y)[0].tobytes()
    assert t.tobytes() == alone(x)[0].tobytes()
    assert u.tobytes() == (s * t).tobytes()
    np.testing.assert_allclose(e, np.exp(x * y), rtol=1e-6)


def softmax(sizes, axis) -> str:
    kept = [n for d, n in enumerate(sizes) if d != axis]
    size, small = dims(sizes), dims(kept)
    along = dims(d for d in range(len(sizes)) if d != axis)
    return entry(
        f"""x = f32[{size}] parameter(0)
        inf = f32[] constant(-inf)
        zero = f32[] constant(0)
        m = f32[{small}] reduce(x, inf), dimensions={{{axis}}}, to_apply=max
        mb = f32[{size}] broadcast(m), dimensions={{{along}}}
        d = f32[{size}] subtract(x, mb)
        e = f32[{size}] exponential(d)
        s = f32[{small}] reduce(e, zero), dimensions={{{axis}}}, to_apply=add
        sb = f32[{size}] broadcast(s), dimensions={{{along}}}
        ROOT r = f32[{size}] divide(e, sb)"""
    )


@pytest.mark.parametrize(
    "sizes, axis", [((50, 100), 1), ((9, 5001), 1), ((2, 3, 7), 2), ((40, 30), 0), ((5, 20, 300), 1)]
)
def test_softmax(sizes, axis):
    compiled = check(softmax(sizes, axis), f32(*sizes), kind="reduction", exact=False)
    assert len(compiled.kernels) == 1


def test_softmax_of_what_is_not_finite():
    """Softmax has the bits of its operations alone, though its exponential is that of what is at most 0."""
    x = 30 * f32(40, 70)
    x[3, 5], x[4, 6:8], x[5, ::3], x[6], x[7], x[8] = np.nan, np.inf, -np.inf, -np.inf, -0.0, np.float32(-3e38)
    x[9, 1], x[10, 2], x[11] = -104.5, 3e38, x[11] * np.float32(1e-42)
    text = softmax(x.shape, 1)
    got, want = (refxla.compile(text, without=w)(x) for w in ((), ("fusion",)))
    assert np.isnan(want).any(1).sum() == 3
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    assert np.nan_to_num(got).tobytes() == np.nan_to_num(want).tobytes()


@pytest.mark.parametrize(
    "change",
    [
        None,
        ("reduce(x, inf), dimensions={1}", "reduce(y, inf), dimensions={1}"),
        ("reduce(x, inf), dimensions={1}", "reduce(x, inf), dimensions={0}"),
        ("reduce(x, inf), dimensions={1}, to_apply=max", "reduce(x, inf), dimensions={1}, to_apply=add"),
        ("subtract(x, mb)", "subtract(y, mb)"),
        ("subtract(x, mb)", "subtract(mb, x)"),
        ("subtract(x, mb)", "add(x, mb)"),
        ("broadcast(m), dimensions={0}", "broadcast(m), dimensions={1}"),
    ],
    ids=str,
)
def test_the_exponential_knows_what_is_not_above_zero_and_nothing_else(change):
    text = softmax((40, 40), 1).replace("inf = f32[]", "y = f32[40,40] parameter(1)\ninf = f32[]")
    changed = text.replace(*change) if change else text
    assert (changed == text) == (change is None)
    fusion = fusion_of(parse(changed), "reduction")
    e = next(i for i in fusion.instructions if i.opcode == "exponential")
    assert form(e, fusion.instructions) == ("exponential" if change else "exponential-below")
    apart = [i for i in fusion.instructions if i.opcode != "reduce"]  # another kernel's result, which says nothing
    assert form(e, apart) == "exponential"


def test_the_next_row_is_fetched_while_one_is_computed_with():
    def fetches(rows: int, size: int, **other) -> list[int]:
        (kernel,) = emit(fusion_of(parse(softmax((rows, size), 1)), "reduction"), replace(DEFAULT_CPU, **other))
        return [kernel.body.count(f"{name}(") for name in ("RX_PREFETCH", "RX_PREFETCH_FOR_WRITE")]

    assert fetches(1024, 1024) == [2, 2]
    assert fetches(64, 1024) == [0, 0]  # which a cache has
    assert fetches(16, 1 << 17) == [0, 0]  # which no cache has when it is gone through again
    assert fetches(1024, 1024, capabilities=OPENCL_CPU) == fetches(1024, 1024, capabilities=GPU) == [0, 0]
    x = f32(1030, 1025)
    got, want = (refxla.compile(softmax(x.shape, 1), without=w)(x) for w in ((), ("fusion",)))
    assert got.tobytes() == want.tobytes()


def test_short_rows_are_fetched_before_columns_are_summed():
    def fetches(sizes, **other) -> int:
        (kernel,) = emit(fusion_of(parse(reduce_text(sizes, (1,))), "reduction"), replace(DEFAULT_CPU, **other))
        return kernel.body.count("RX_PREFETCH(")

    assert fetches((80, 513, 127)) == -(-4 * 127 // 16)  # four rows, a line of 16 elements each
    assert fetches((80, 51, 127)) == 0  # too little to be worth compiling
    assert fetches((8, 513, 1027)) == 0  # long rows
    assert fetches((80, 513, 127), capabilities=GPU) == 0
    check(reduce_text((80, 513, 127), (1,)), f32(80, 513, 127), kind="reduction", exact=False)


def test_layer_norm():
    text = entry(
        """x = f32[20,3,64] parameter(0)
        g = f32[64] parameter(1)
        zero = f32[] constant(0)
        n = f32[] constant(0.015625)
        s = f32[20,3] reduce(x, zero), dimensions={2}, to_apply=add
        nb = f32[20,3] broadcast(n), dimensions={}
        mean = f32[20,3] multiply(s, nb)
        mr = f32[20,3,1] reshape(mean)
        mk = f32[20,3] reshape(mr)
        mb = f32[20,3,64] broadcast(mk), dimensions={0,1}
        d = f32[20,3,64] subtract(x, mb)
        q = f32[20,3,64] multiply(d, d)
        v = f32[20,3] reduce(q, zero), dimensions={2}, to_apply=add
        var = f32[20,3] multiply(v, nb)
        rs = f32[20,3] rsqrt(var)
        rb = f32[20,3,64] broadcast(rs), dimensions={0,1}
        y = f32[20,3,64] multiply(d, rb)
        gb = f32[20,3,64] broadcast(g), dimensions={2}
        w = f32[20,3,64] multiply(y, gb)
        ROOT r = (f32[20,3,64], f32[20,3,1]) tuple(w, mr)"""
    )
    check(text, f32(20, 3, 64), f32(64), kind="reduction", exact=False)


def test_batch_statistics():
    text = entry(
        """x = f32[8,30,30,24] parameter(0)
        zero = f32[] constant(0)
        s = f32[24] reduce(x, zero), dimensions={0,1,2}, to_apply=add
        q = f32[8,30,30,24] multiply(x, x)
        t = f32[24] reduce(q, zero), dimensions={0,1,2}, to_apply=add
        n = f32[] constant(7200)
        nb = f32[24] broadcast(n), dimensions={}
        mean = f32[24] divide(s, nb)
        ROOT r = (f32[24], f32[24]) tuple(mean, t)"""
    )
    compiled = check(text, f32(8, 30, 30, 24), kind="reduction", exact=False)
    assert compiled.kernels[0].items > 1


def test_transposed_operand():
    text = entry(
        """x = f32[40,50] parameter(0)
        zero = f32[] constant(0)
        t = f32[50,40] transpose(x), dimensions={1,0}
        ROOT r = f32[50] reduce(t, zero), dimensions={1}, to_apply=add"""
    )
    check(text, f32(40, 50), kind="reduction", exact=False)


def test_rows_with_partial_results_are_read_again_in_the_same_order():
    assert reduction_order((2, 500_000), (1,)).partials > 1
    assert reduction_order((64, 1024), (1,)).partials == 1
    check(softmax((2, 500_000), 1), f32(2, 500_000), kind="reduction", exact=False)


def test_strips_are_wide_where_that_leaves_work_for_all():
    assert reduction_order((500, 5000), (0,)).strip == 1024
    assert reduction_order((50_000, 5000), (0,)).strip == 4096
    assert reduction_order((50_000, 3000), (0,)).strip == 3000
    check(
        entry(
            """x = f32[8200,2500] parameter(0)
            zero = f32[] constant(0)
            ROOT r = f32[2500] reduce(x, zero), dimensions={0}, to_apply=add"""
        ),
        f32(8200, 2500),
        kind="reduction",
        exact=False,
    )


@pytest.mark.parametrize("size", [64, 67, 5000])
def test_lanes_that_are_one_step(size):
    """Sums and several results of rows are computed for all lanes at once; of dear values, too, where 32 lanes are four
    vectors."""
    head = f"x = f32[7,{size}] parameter(0)\nzero = f32[] constant(0)\n"
    cheap = "s = f32[7] reduce(x, zero), dimensions={1}, to_apply=add\n"
    some = f"e = f32[7,{size}] exponential(x)\nt = f32[7] reduce(e, zero), dimensions={{1}}, to_apply=add\n"
    dear = some.replace("exponential", "log-plus-one")
    cases = ((cheap, ["s"], 1), (some, ["t"], 1), (dear, ["t"], 1), (cheap + some, ["s", "t"], 1))
    for lines, results, asked in (*cases, (cheap + dear, ["s", "t"], 1)):
        shape = ", ".join(["f32[7]"] * len(results))
        text = entry(f"{head}{lines}ROOT r = ({shape}) tuple({', '.join(results)})")
        (kernel,) = check(text, f32(7, size), kind="reduction", exact=False).kernels
        loops = 1 if size % 32 == 0 else 2  # the second over what fills no vector
        assert kernel.body.count("vectorize_width(8) interleave_count(4)") == asked * loops


@pytest.mark.parametrize(
    "sizes, reduced",
    [
        ((50, 13), (1,)),
        ((9, 300, 127), (1,)),
        ((300, 20), (0,)),
        ((6, 16), (0,)),
        ((5, 37, 63), (0, 2)),
        ((5, 130, 33), (0, 2)),
        ((3, 5, 130, 9), (1, 3)),
        ((7, 321), (1,)),
        ((300, 3), (0,)),
        ((4, 70, 2), (1,)),
        ((2, 130, 13), (0, 1)),
    ],
    ids=str,
)
@pytest.mark.parametrize("reducer", ["sum", "argmax"])
def test_masks_and_rows_together_change_no_bit(sizes, reduced, reducer):
    """The last vector of a row or of columns that has fewer elements, and rows that are gone through together."""
    kept = dims(n for d, n in enumerate(sizes) if d not in reduced)
    size, over = dims(sizes), dims(reduced)
    text = entry(
        f"""x = f32[{size}] parameter(0)
        zero = f32[] constant(0)
        e = f32[{size}] negate(x)
        r = f32[{kept}] reduce(x, zero), dimensions={{{over}}}, to_apply=add
        ROOT t = (f32[{kept}], f32[{size}]) tuple(r, e)"""
    )
    if reducer == "argmax":
        text = entry(
            f"""x = f32[{size}] parameter(0)
            at = s32[{size}] iota(), iota_dimension={reduced[-1]}
            inf = f32[] constant(-inf)
            zero = s32[] constant(0)
            r = (f32[{kept}], s32[{kept}]) reduce(x, at, inf, zero), dimensions={{{over}}}, to_apply=argmax
            v = f32[{kept}] get-tuple-element(r), index=0
            k = s32[{kept}] get-tuple-element(r), index=1
            ROOT t = (f32[{kept}], s32[{kept}]) tuple(v, k)""",
            ARGMAX,
        )
    x, fusion = np.round(f32(*sizes), 1), fusion_of(parse(text), "reduction")
    plain = Compiled(fusion, replace(DEFAULT_CPU, vector_bytes=16))(x)
    for target in (DEFAULT_CPU, replace(DEFAULT_CPU, features=choose()[0].target.features)):
        for a, b in zip(Compiled(fusion, target)(x), plain, strict=True):
            assert a.tobytes() == b.tobytes()
    masked = sizes[-1] % 8 > 1 and len(reduced) == 1 and sizes[-1] != 321
    if masked and (sizes != (300, 3) or reducer == "sum") and sizes != (4, 70, 2):
        assert "if (l" in emit(fusion, MASKED)[0].body


@pytest.mark.parametrize("element, size", [("f32", 8), ("f32", 17), ("f32", 67), ("f64", 8), ("f64", 40)])
@pytest.mark.parametrize("opcode", ["add", "multiply", "maximum", "minimum"])
def test_vectors_of_lanes_and_loops_over_them_give_the_same_bits(opcode, element, size):
    init = {"add": "0", "multiply": "1", "maximum": "-inf", "minimum": "inf"}[opcode]
    fusion = fusion_of(parse(reduce_text((60, size), (1,), opcode, element, init)), "reduction")
    x = rng.standard_normal((60, size)).astype({"f32": np.float32, "f64": np.float64}[element])
    x[20:40] = np.where(x[20:40] > 0, 0.0, -0.0)
    x[np.arange(40, 60), np.arange(20) % size] = np.nan
    vectors, loops = Compiled(fusion, DEFAULT_CPU), Compiled(fusion, replace(DEFAULT_CPU, max_vector=1))
    asked = "(float8*)" if element == "f32" else "(double4*)"
    assert [asked in c.kernels[0].body for c in (vectors, loops)] == [True, False]
    assert vectors(x)[0].tobytes() == loops(x)[0].tobytes()
    filled = f"{asked[1:-2]})(" in vectors.kernels[0].body
    assert filled == (size >= 64)  # lanes that are used once before the last elements begin with their values


@pytest.mark.parametrize("sizes, copied", [((5000, 320), False), ((5000, 70), True)])
def test_totals_of_wide_leaves_are_made_where_the_last_one_finds_them(sizes, copied):
    """Those of narrow ones would share lines of a cache. What comes after the sum is told of an initial value once."""
    text = entry(
        f"""x = f32[{dims(sizes)}] parameter(0)
        three = f32[] constant(3)
        s = f32[{sizes[1]}] reduce(x, three), dimensions={{0}}, to_apply=add
        ROOT r = f32[{sizes[1]}] multiply(s, s)"""
    )
    (kernel,) = check(text, f32(*sizes), kind="reduction", exact=False).kernels
    assert ("partial * 320 " in kernel.body, "acc" in kernel.body.split("RX_ARRIVE")[1]) == (not copied, copied)
    assert kernel.body.count("0x1.8p+1f +") == 1


def test_vectors_of_32_bytes_are_masked_where_words_are_read_and_nothing_is_written():
    def masked(text: str, **other) -> bool:
        (kernel,) = emit(fusion_of(parse(text), "reduction"), replace(DEFAULT_CPU, **other))
        return "if (l" in kernel.body

    assert masked(reduce_text((9, 127), (1,)))
    assert masked(reduce_text((9, 127), (1,)).replace("f32", "f64"))
    assert not masked(reduce_text((9, 128), (1,)))
    assert not masked(reduce_text((9, 127), (1,)), vector_bytes=16)
    assert not masked(reduce_text((9, 127), (1,), element="bf16"))
    assert softmax((9, 127), 1).count("reduce(") == 2  # of which the second keeps what it computes
    (kernel,) = emit(fusion_of(parse(softmax((9, 127), 1)), "reduction"), DEFAULT_CPU)
    assert kernel.body.count("if (l") == 1


def test_rows_whose_parts_lie_far_apart_are_gone_through_together():
    assert (
        "first"
        in check(reduce_text((4, 130, 33), (0, 2)), f32(4, 130, 33), kind="reduction", exact=False).kernels[0].body
    )


@pytest.mark.parametrize(
    "sizes, count", [((257, 513, 127), 2), ((1000, 1000, 17), 0), ((31, 513, 1027), 0), ((5, 40, 127), 0)], ids=str
)
def test_the_next_part_of_rows_that_go_together_is_fetched(sizes, count):
    """The lines of 32 lanes, where the memory is large and rows are long."""
    (kernel,) = emit(fusion_of(parse(reduce_text(sizes, (0, 2))), "reduction"), DEFAULT_CPU)
    assert kernel.body.count("RX_PREFETCH(") == count
    assert count == 0 or f"+ {sizes[1] * sizes[2]}));" in kernel.body


@pytest.mark.parametrize("sizes, axis", [((3, 70, 21), 1), ((40, 5, 600), 1), ((2, 30, 1037), 1), ((3, 5001), 1)])
def test_what_is_needed_again_waits_in_the_memory_of_the_result(sizes, axis):
    """Columns, and rows too long for an array; with masks and without, in panels and not, the bits are the same."""
    text = softmax(sizes, axis)
    x, fusion = f32(*sizes), fusion_of(parse(text), "reduction")
    (kernel,) = check(text, x, kind="reduction", exact=False).kernels
    once = sizes[-1] % 32 == 0 or axis == 1 == len(sizes) - 2
    assert kernel.body.count("rx_exponential_below_f32") == (1 if once else 2)
    masked = Compiled(fusion, replace(DEFAULT_CPU, features=choose()[0].target.features))
    assert masked(x)[0].tobytes() == Compiled(fusion)(x)[0].tobytes()


def test_panels_of_columns_are_gone_over_again_where_they_fit():
    assert columns_fit((257, 513, 127), (0, 2), 4, Caches()) == 2
    assert columns_fit((9, 16, 100_000), (0, 2), 4, Caches()) == 2
    assert columns_fit((1500, 8001), (1,), 4, Caches()) == 1  # short pieces of far rows
    assert columns_fit((4099, 4001), (1,), 4, Caches()) == 1
    assert columns_fit((4099, 4001), (1,), 8, Caches()) == 0
    assert columns_fit((8191, 4001), (1,), 4, Caches()) == 0
    assert columns_fit((61, 59, 37, 127), (3,), 4, Caches()) == 0
    assert columns_fit((5, 6, 7), (0, 1), 4, Caches()) == 0
    assert panel_columns(reduction_order((9, 16, 100_000), (1,)), 4, Caches()) == 4096
    assert panel_columns(reduction_order((4099, 4001), (0,)), 4, Caches()) == 64
    check(softmax((2, 200, 1000), 1), f32(2, 200, 1000), kind="reduction", exact=False)


@pytest.mark.parametrize("sizes", [(0, 5, 6), (5, 0, 6), (5, 6, 0), (0, 5, 0), (3, 0, 3)])
def test_no_elements(sizes):
    """Reductions over each set of dimensions, alone and gone over again, where a dimension is 0."""
    x = np.zeros(sizes, np.float32)
    for reduced in [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)]:
        got = refxla.compile(reduce_text(sizes, reduced))(x)
        np.testing.assert_array_equal(got, x.sum(reduced), strict=True)
    for axis in range(3):
        got = refxla.compile(softmax(sizes, axis))(x)
        np.testing.assert_array_equal(got, x, strict=True)


@pytest.mark.parametrize(
    ("sizes", "axis", "element", "vectors"),
    [
        ((200, 50, 16), 1, "f32", "vectorize_width(8) interleave_count(2)"),
        ((100_000, 8), 0, "f64", "vectorize_width(4) interleave_count(2)"),
        ((9, 12, 4), 1, "f32", "vectorize_width(4) interleave_count(1)"),
        ((200, 50, 17), 1, "f32", ""),  # which masks would have to fill
    ],
)
def test_columns_that_fill_a_few_vectors_are_accumulated_in_registers(sizes, axis, element, vectors):
    """They were in memory, and each row waited for what the one before had stored."""
    text = reduce_text(sizes, (axis,), element=element)
    (kernel,) = emit(fusion_of(parse(text), "reduction"), DEFAULT_CPU)
    assert vectors in kernel.body and ("interleave_count" in kernel.body) == bool(vectors)
    x = f32(*sizes).astype(element.replace("f", "float"))
    got = refxla.compile(text)(x)
    np.testing.assert_allclose(got, x.sum(axis), 2e-4, 1e-3)
    if len(sizes) == 3:
        rows = x.swapaxes(0, 1)
        assert got.tobytes() == functools.reduce(np.add, rows).tobytes()  # row after row


@pytest.mark.parametrize(
    ("rows", "columns", "opcode", "element", "width"),
    [
        (64, 3, "maximum", "f32", 4),
        (50, 2, "minimum", "f64", 4),  # clang does not vectorize two
        (30, 5, "maximum", "s32", 8),
        (600, 2, "maximum", "bf16", 4),
        (50, 2, "minimum", "s32", 2),
        (64, 3, "or", "s32", 4),
        (9, 20, "maximum", "f32", 16),
        (600, 3, "or", "s32", 0),  # vectors along the rows
    ],
)
def test_few_columns_are_a_vector(rows, columns, opcode, element, width):
    """Maxima of a few columns were compared one by one; neutral elements are read where there is none."""
    sizes, neutral = (40, rows, columns), {"or": 0, "maximum": "-inf", "minimum": "inf"}[opcode]
    if element == "s32":
        neutral = {"maximum": -(2**31), "minimum": 2**31 - 1}.get(opcode, 0)
    text = reduce_text(sizes, (1,), opcode, element, neutral)
    (kernel,) = emit(fusion_of(parse(text), "reduction"), MASKED)
    assert (f"vectorize_width({width})" in kernel.body) == bool(width)
    assert ("vectorize_width" in kernel.body) == bool(width)
    x = rng.integers(-4, 4, sizes).astype(ELEMENT_TYPES[element].dtype)
    if ELEMENT_TYPES[element].is_float:
        x[3] *= 0  # zeros of both signs
        x[5, rows // 2, 1] = x[6, -1, 0] = np.nan
    expected = np.asarray(refxla.compile(text, device="reference")(x))
    assert np.asarray(refxla.compile(text)(x)).tobytes() == expected.tobytes()


def test_columns_of_many_leaves_say_so():
    with pytest.raises(UnsupportedError, match="too long"):
        Compiled(fusion_of(parse(softmax((500_000, 2), 0)), "reduction"))


@pytest.mark.parametrize("opcode", ["add", "maximum"])
@pytest.mark.parametrize(("rows", "columns", "terms"), [(40, 300, 3), (5, 17, 7), (2, 20000, 2), (129, 200, 4)])
def test_short_rows_for_pairs_are_loops_over_both_sides(rows, columns, terms, opcode):
    """Distances of points to points: no index is divided for each of them."""
    lines = f"""x = f32[{rows},{terms}] parameter(0)
    y = f32[{columns},{terms}] parameter(1)
    a = f32[{rows},{columns},{terms}] broadcast(x), dimensions={{0,2}}
    b = f32[{rows},{columns},{terms}] broadcast(y), dimensions={{1,2}}
    d = f32[{rows},{columns},{terms}] subtract(a, b)
    s = f32[{rows},{columns},{terms}] multiply(d, d)
    zero = f32[] constant(0)
    n = f32[{rows},{columns}] reduce(s, zero), dimensions={{2}}, to_apply=of
    ROOT r = f32[{rows},{columns}] sqrt(n)"""
    text = entry(lines, reducer("of", opcode))
    (kernel,) = emit(fusion_of(parse(text), "reduction"), DEFAULT_CPU)
    assert "row" in kernel.body and f"(uint){columns}" not in kernel.body and f" {columns}u" not in kernel.body
    x, y = f32(rows, terms), f32(columns, terms)
    got = refxla.compile(text)(x, y)
    np.testing.assert_array_equal(got, refxla.compile(text, without=("fusion",))(x, y))
    d = (x[:, None] - y).astype(np.float64) ** 2
    np.testing.assert_allclose(got, np.sqrt(d.sum(-1) if opcode == "add" else d.max(-1)), rtol=1e-5)


@pytest.mark.parametrize("columns", [8, 9, 11, 15])
@pytest.mark.parametrize("element", ["f32", "f64", "s32", "bf16"])
@pytest.mark.parametrize("kind", ["maximum", "argmax", "log-sum-exp"])
def test_rows_of_few_lanes_are_written_out_where_there_are_many(columns, element, kind):
    """With the same bits: the lanes of a row are combined in the same order."""
    first = "-2147483648" if element == "s32" else "-inf"

    def program(rows: int) -> str:
        shape, lines = f"{element}[{rows},{columns}]", f"x = {element}[{rows},{columns}] parameter(0)\n"
        lines += f"low = {element}[] constant({first})\n"
        if kind == "argmax":
            of = ARGMAX.replace("f32", element)
            lines += f"""n = s32[] constant(0)
            at = s32[{rows},{columns}] iota(), iota_dimension=1
            r = ({element}[{rows}], s32[{rows}]) reduce(x, at, low, n), dimensions={{1}}, to_apply=argmax
            ROOT k = s32[{rows}] get-tuple-element(r), index=1"""
            return entry(lines, of)
        both = reducer("sum", "add", element) + reducer("most", "maximum", element)
        root = "ROOT " if kind == "maximum" else ""
        lines += f"{root}m = {element}[{rows}] reduce(x, low), dimensions={{1}}, to_apply=most\n"
        if kind != "maximum":
            lines += f"""w = {shape} broadcast(m), dimensions={{0}}
            d = {shape} subtract(x, w)
            e = {shape} {"exponential" if element != "s32" else "negate"}(d)
            zero = {element}[] constant(0)
            s = {element}[{rows}] reduce(e, zero), dimensions={{1}}, to_apply=sum
            ROOT r = {element}[{rows}] add(s, m)"""
        return entry(lines, both)

    many, few = program(9001), program(301)
    (kernel,) = emit(fusion_of(parse(many), "reduction"), DEFAULT_CPU)
    (loop,) = emit(fusion_of(parse(few), "reduction"), DEFAULT_CPU)
    assert kernel.body.count("for (") == 1 < loop.body.count("for (")
    x = (f32(9001, columns) * 3).astype(parse(few).entry.parameters[0].shape.element_type.dtype)
    x[7, 3:5] = x[8, 2] = x[7].max()
    if element != "s32" and kind == "argmax":
        x[5, 4] = np.nan
    got, alone = (np.asarray(refxla.compile(t)(a)) for t, a in ((many, x), (few, x[:301])))
    assert got[:301].tobytes() == alone.tobytes()
    check(few, x[:301], kind="reduction", exact=False, rtol=0.05 if element == "bf16" else 1e-5)
    if kind == "argmax":
        np.testing.assert_array_equal(got, np.argmax(x.astype(np.float64), axis=1))


def test_short_rows_for_pairs_are_gone_over_again_without_an_array():
    """Directions from points to points."""
    lines = """x = f32[40,3] parameter(0)
    y = f32[300,3] parameter(1)
    a = f32[40,300,3] broadcast(x), dimensions={0,2}
    b = f32[40,300,3] broadcast(y), dimensions={1,2}
    d = f32[40,300,3] subtract(a, b)
    s = f32[40,300,3] multiply(d, d)
    zero = f32[] constant(0)
    n = f32[40,300] reduce(s, zero), dimensions={2}, to_apply=of
    w = f32[40,300,3] broadcast(n), dimensions={0,1}
    ROOT r = f32[40,300,3] divide(d, w)"""
    text = entry(lines, reducer("of", "add"))
    (kernel,) = emit(fusion_of(parse(text), "reduction"), DEFAULT_CPU)
    assert kernel.body.count("for (") == 2  # of both sides, and none over the three terms
    x, y = f32(40, 3), f32(300, 3)
    got = refxla.compile(text)(x, y)
    np.testing.assert_array_equal(got, refxla.compile(text, without=("fusion",))(x, y))
    d = x[:, None] - y
    np.testing.assert_allclose(got, d / (d * d).sum(-1, keepdims=True), rtol=1e-5)


@pytest.mark.parametrize("opcode", ["add", "maximum"])
def test_a_few_joined_rows_are_reduced_without_asking_which_is_which(opcode):
    """Neighbours on a board, stacked."""
    lines = """x = f32[42,52] parameter(0)
    a = f32[1,40,50] reshape(n)
    b = f32[1,40,50] reshape(s)
    c = f32[1,40,50] reshape(w)
    j = f32[3,40,50] concatenate(a, b, c), dimensions={0}
    zero = f32[] constant(0)
    ROOT r = f32[40,50] reduce(j, zero), dimensions={0}, to_apply=of"""
    slices = """n = f32[40,50] slice(x), slice={[0:40], [1:51]}
    s = f32[40,50] slice(x), slice={[2:42], [1:51]}
    w = f32[40,50] slice(x), slice={[1:41], [0:50]}
    """
    head, tail = lines.split("\n", 1)
    text = entry(f"{head}\n{slices}{tail}", reducer("of", opcode))
    (kernel,) = emit(fusion_of(parse(text), "reduction"), DEFAULT_CPU)
    assert "if (" not in kernel.body
    x = f32(42, 52)
    got = refxla.compile(text)(x)
    np.testing.assert_array_equal(got, refxla.compile(text, without=("fusion",))(x))
    parts = np.stack([x[:40, 1:51], x[2:, 1:51], x[1:41, :50]])
    wanted = parts.sum(0) if opcode == "add" else np.maximum(parts.max(0), 0)
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("opcode", ["add", "maximum"])
def test_a_few_joined_rows_fall_into_ranges(opcode):
    """A row beside its neighbours, as programs that go down an image stack them: the borders are apart."""
    text = entry(
        """x = f32[120] parameter(0)
        edge = f32[] constant(1e9)
        a = f32[120] pad(x, edge), padding=1_-1
        b = f32[120] pad(x, edge), padding=-1_1
        p = f32[1,120] reshape(a)
        q = f32[1,120] reshape(x)
        r = f32[1,120] reshape(b)
        j = f32[3,120] concatenate(p, q, r), dimensions={0}
        zero = f32[] constant(0)
        ROOT s = f32[120] reduce(j, zero), dimensions={0}, to_apply=of""",
        reducer("of", opcode),
    )
    (kernel,) = emit(fusion_of(parse(text), "reduction"), DEFAULT_CPU)
    assert "if (" not in kernel.body and "rx_hidden_s32(1)" in kernel.body
    x = f32(120)
    got = refxla.compile(text)(x)
    np.testing.assert_array_equal(got, refxla.compile(text, without=("fusion",))(x))
    parts = np.stack([np.append(1e9, x[:-1]), x, np.append(x[1:], 1e9)]).astype(np.float32)
    wanted = parts.sum(0) if opcode == "add" else np.maximum(parts.max(0), 0)
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)


def test_few_joined_rows_with_functions_fall_into_ranges():
    """A cell of a table and its neighbours, as alignments of sequences add up probabilities: with a test for the border
    in each of a hundred rows, exponentials were computed one by one."""
    text = entry(
        """x = f32[110] parameter(0)
        edge = f32[] constant(-1e9)
        a = f32[110] pad(x, edge), padding=1_-1
        b = f32[110] pad(x, edge), padding=-1_1
        c = f32[110] add(a, b)
        p = f32[110,1] reshape(c)
        q = f32[110,1] reshape(x)
        j = f32[110,2] concatenate(p, q), dimensions={1}
        e = f32[110,2] exponential(j)
        zero = f32[] constant(0)
        ROOT s = f32[110] reduce(e, zero), dimensions={1}, to_apply=add"""
    )
    (kernel,) = emit(fusion_of(parse(text), "reduction"), DEFAULT_CPU)
    assert "if (" not in kernel.body
    x = f32(110)
    got = refxla.compile(text)(x)
    np.testing.assert_array_equal(got, refxla.compile(text, without=("fusion",))(x))
    neighbours = np.append(-1e9, x[:-1]) + np.append(x[1:], -1e9)
    np.testing.assert_allclose(got, np.exp(neighbours) + np.exp(x), rtol=1e-5)


@pytest.mark.parametrize("starts", [range(12), (0, 3, 4, 9, 1, 7, 2, 8, 0, 5)])
def test_windows_that_are_stacked_are_read_without_asking_which_is_which(starts):
    """A bilateral filter: a vector of exponentials where each element asked which of many pieces it comes from is none.
    Where there is no formula for the places of the windows, a variable has them."""
    lines = ["x = f32[60,52] parameter(0)"]
    for n, start in enumerate(starts):
        lines.append(f"s{n} = f32[40,50] slice(x), slice={{[{start}:{start + 40}], [{n % 3}:{n % 3 + 50}]}}")
        lines.append(f"p{n} = f32[1,40,50] reshape(s{n})")
    count = len(starts)
    lines += [
        f"j = f32[{count},40,50] concatenate({', '.join(f'p{n}' for n in range(count))}), dimensions={{0}}",
        f"e = f32[{count},40,50] exponential(j)",
        "zero = f32[] constant(0)",
        "ROOT r = f32[40,50] reduce(e, zero), dimensions={0}, to_apply=add",
    ]
    text = entry("\n".join(lines))
    (kernel,) = emit(fusion_of(parse(text), "reduction"), DEFAULT_CPU)
    assert "if (" not in kernel.body and "else" not in kernel.body, kernel.body
    x = f32(60, 52)
    got = refxla.compile(text)(x)
    np.testing.assert_array_equal(got, refxla.compile(text, without=("fusion",))(x))
    windows = np.stack([x[start : start + 40, n % 3 : n % 3 + 50] for n, start in enumerate(starts)])
    np.testing.assert_allclose(got, np.exp(windows).sum(0), rtol=1e-5)


@pytest.mark.parametrize("reduced", [0, 1])
def test_complex_accumulators_are_read_and_written_by_parts(reduced):
    """Clang makes no vectors of a loop that loads vectors of two: sums of exponentials took four times as long."""
    sizes = (70, 300)
    text = entry(
        f"""x = c64[70,300] parameter(0)
        e = c64[70,300] exponential(x)
        zero = c64[] constant((0, 0))
        ROOT r = c64[{sizes[1 - reduced]}] reduce(e, zero), dimensions={{{reduced}}}, to_apply=of""",
        reducer("of", "add", "c64"),
    )
    plan = plan_module(parse(text), DEFAULT_CPU)[1].plan
    bodies = [kernel.body for fusion in plan.fusions for kernel in emit(fusion, DEFAULT_CPU)]
    assert not any(re.search(r"= acc\d+\[\w+( - \w+)?\];", body) for body in bodies), bodies
    x = f32(*sizes) + 1j * f32(*sizes)
    np.testing.assert_allclose(refxla.compile(text)(x), np.exp(x).sum(reduced), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("columns", [128, 255])
def test_accumulators_of_few_chunks_are_not_filled(columns):
    """Where clang sees with what they are filled, it makes no vectors of the one iteration over the chunks."""
    text = reduce_text((1 << 14, columns), (1,), "maximum", init="-inf")
    (kernel,) = emit(fusion_of(parse(text), "reduction"), DEFAULT_CPU)
    filled = re.search(r"\*\(float8\*\)\(acc\d+ \+ 8\) = ", kernel.body)
    assert not filled, kernel.body
    x = f32(1 << 14, columns)
    x[3, 5], x[4, columns - 1], x[5, 40] = np.nan, np.inf, -np.inf
    np.testing.assert_array_equal(refxla.compile(text)(x), x.max(1))


def test_columns_of_short_rows_are_read_without_divisions():
    """Vectors by matrices of twelve columns, one of several matrices for each: the loop over columns is two."""
    text = entry(
        """v = f32[64,12] parameter(0)
        m = f32[12,2,12] parameter(1)
        which = s32[64,1] parameter(2)
        g = f32[64,12,12] gather(m, which), offset_dims={1,2}, collapsed_slice_dims={1}, start_index_map={1},
            index_vector_dim=1, slice_sizes={12,1,12}
        b = f32[64,12,12] broadcast(v), dimensions={0,1}
        p = f32[64,12,12] multiply(b, g)
        zero = f32[] constant(0)
        ROOT s = f32[64,12] reduce(p, zero), dimensions={1}, to_apply=add"""
    )
    (kernel,) = emit(fusion_of(parse(text), "reduction"), DEFAULT_CPU)
    assert not re.search(r" [/%] 12u", kernel.body), kernel.body
    v, m, which = f32(64, 12), f32(12, 2, 12), np.arange(64, dtype=np.int32)[:, None] % 2
    got = refxla.compile(text)(v, m, which)
    np.testing.assert_array_equal(got, refxla.compile(text, without=("fusion",))(v, m, which))
    wanted = np.einsum("bi,ibj->bj", v, m[:, which[:, 0]])
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shift", [1, 3, -2])
def test_a_short_rotation_is_one_load(shift):
    """Boards of a few fields, each compared with its neighbours: lanes do not ask where a row ends."""
    cut = -shift % 7
    text = entry(
        f"""a = s32[20,6,7] parameter(0)
        p = s32[20,6,{7 - cut}] slice(a), slice={{[0:20], [0:6], [{cut}:7]}}
        q = s32[20,6,{cut}] slice(a), slice={{[0:20], [0:6], [0:{cut}]}}
        j = s32[20,6,7] concatenate(p, q), dimensions={{2}}
        m = s32[20,6,7] multiply(a, j)
        zero = s32[] constant(0)
        ROOT s = s32[20] reduce(m, zero), dimensions={{1,2}}, to_apply=of""",
        reducer("of", "add", "s32"),
    )
    (kernel,) = emit(fusion_of(parse(text), "reduction"), DEFAULT_CPU)
    assert "else" not in kernel.body, kernel.body
    a = np.random.default_rng(0).integers(0, 99, (20, 6, 7)).astype(np.int32)
    np.testing.assert_array_equal(refxla.compile(text)(a), (a * np.roll(a, shift, 2)).sum((1, 2)))


@pytest.mark.parametrize("sizes", [(3, 50, 49), (4, 2, 70, 40), (90, 3, 33), (2000, 9, 17)])
def test_columns_of_rows_that_lie_apart_are_read_without_divisions(sizes):
    """A window of an array: its rows end where a loop over columns does, also where strips begin and end within them;
    sums of many terms are split in partial results, too."""
    whole = tuple(n + 3 for n in sizes)
    window = ", ".join(f"[2:{2 + n}]" for n in sizes)
    text = entry(
        f"""x = f32[{dims(whole)}] parameter(0)
        w = f32[{dims(sizes)}] slice(x), slice={{{window}}}
        zero = f32[] constant(0)
        ROOT s = f32[{dims(sizes[1:])}] reduce(w, zero), dimensions={{0}}, to_apply=add"""
    )
    x = f32(*whole)
    compiled = check(text, x, kind="reduction", exact=False)
    assert f" % {sizes[-1]}u" not in compiled.kernels[0].body
    dense = Compiled(fusion_of(parse(reduce_text(sizes, (0,))), "reduction"))
    inner = np.ascontiguousarray(x[tuple(slice(2, 2 + n) for n in sizes)])
    np.testing.assert_array_equal(compiled(x)[0], dense(inner)[0])


@pytest.mark.parametrize("opcode", ["add", "max"])
@pytest.mark.parametrize(("columns", "low"), [(280, 1), (2000, 1), (2000, 700), (63, 1)])
def test_rows_that_a_concatenate_or_a_pad_joins_fall_into_ranges(columns, low, opcode):
    """Only the chunk with the border asks on which side an element lies; the order of the sum stays."""
    reads = columns - low - 1
    text = entry(
        f"""x = f32[4,{reads}] parameter(0)
        y = f32[4,1] parameter(1)
        z = f32[] constant(0.5)
        p = f32[4,{columns - 1}] pad(x, z), padding=0_0x{low}_0
        c = f32[4,{columns}] concatenate(y, p), dimensions={{1}}
        e = f32[4,{columns}] multiply(c, c)
        zero = f32[] constant(0)
        s = f32[4] reduce(e, zero), dimensions={{1}}, to_apply={opcode}
        ROOT r = (f32[4], f32[4,{columns}]) tuple(s, e)"""
    )
    arguments = f32(4, reads), f32(4, 1)
    compiled = check(text, *arguments, kind="reduction", exact=False)
    for got, wanted in zip(compiled(*arguments), refxla.compile(text, without=("fusion",))(*arguments), strict=True):
        np.testing.assert_array_equal(got, wanted)
    (kernel,) = emit(fusion_of(parse(text), "reduction"), DEFAULT_CPU)
    if columns > 100:
        assert "if (" in kernel.body
        assert "if (" not in kernel.body[kernel.body.rindex("for (; c") :], kernel.body


@pytest.mark.parametrize("parts", [(40, 56), (1, 95), (30, 30, 36)])
@pytest.mark.parametrize(
    "sizes, axis, reduced",
    [
        ((96, 40, 64), 0, (2,)),  # rows are units
        ((40, 96, 64), 1, (0,)),  # the columns change along a strip
        ((96, 40, 64), 0, (1,)),  # so do units of columns
        ((96, 2100), 0, (0,)),  # rows of several strips
        ((96, 200_000), 0, (1,)),  # a row is an item's
        ((96, 5), 0, (0,)),
    ],
)
def test_no_load_of_a_concatenate_is_under_a_mask(sizes, axis, reduced, parts):
    shapes = [[n if d == axis else size for d, size in enumerate(sizes)] for n in parts]
    kept = dims(n for d, n in enumerate(sizes) if d not in reduced)
    lines = [f"p{n} = f32[{dims(shape)}] parameter({n})" for n, shape in enumerate(shapes)]
    lines += [f"q{n} = f32[{dims(shape)}] multiply(p{n}, p{n})" for n, shape in enumerate(shapes)]
    lines += [
        f"j = f32[{dims(sizes)}] concatenate({', '.join(f'q{n}' for n in range(len(parts)))}), dimensions={{{axis}}}",
        "zero = f32[] constant(0)",
        f"ROOT r = f32[{kept}] reduce(j, zero), dimensions={{{dims(reduced)}}}, to_apply=add",
    ]
    text, arguments = entry("\n".join(lines)), [f32(*shape) for shape in shapes]
    (kernel,) = emit(fusion_of(parse(text), "reduction"), DEFAULT_CPU)
    assert not re.search(r"float (\w+);\s+if \(.*\n.* = a\d", kernel.body), kernel.body
    got = refxla.compile(text)(*arguments)
    np.testing.assert_array_equal(got, refxla.compile(text, without=("fusion",))(*arguments))
    joined = np.concatenate(arguments, axis).astype(np.float64)
    np.testing.assert_allclose(got, (joined * joined).sum(reduced), rtol=1e-4)


@pytest.mark.parametrize(
    "sizes, reduced",
    [
        ((300_000,), (0,)),
        ((9, 1001), (1,)),
        ((5000, 64), (0,)),
        ((70, 90), (0,)),
        ((6, 50, 40), (0, 2)),
        ((40, 70), (1,)),
    ],
)
@pytest.mark.parametrize("scale", [1, 100, 1e6])
def test_functions_with_a_fast_path_go_in_pieces(sizes, reduced, scale):
    """The bits are those of the function computed before, be some of its operands large or none."""
    size, kept = dims(sizes), dims(n for d, n in enumerate(sizes) if d not in reduced)
    head = f"x = f32[{size}] parameter(0)\nm = f32[{size}] multiply(x, x)\ns = f32[{size}] sine(m)\n"
    total = (
        f"zero = f32[] constant(0)\nROOT r = f32[{kept}] reduce(s, zero), dimensions={{{dims(reduced)}}}, to_apply=add"
    )
    fused = Compiled(fusion_of(parse(entry(head + total)), "reduction"))
    (kernel,) = fused.kernels
    assert "fast_shifted_sine_f32(" in kernel.body and len(kernel.library_functions) == 1
    x = f32(*sizes)
    x.reshape(-1)[:: max(7, x.size // 40)] *= np.float32(scale)
    before = Compiled(fusion_of(parse(entry(head.replace("s = ", "ROOT s = ")))))
    alone = Compiled(fusion_of(parse(reduce_text(sizes, reduced)), "reduction"))
    assert fused(x)[0].tobytes() == alone(before(x)[0])[0].tobytes()


@pytest.mark.parametrize("reduced", [0, 1])
def test_pieces_of_a_pass_read_the_results_of_passes_before(reduced):
    """The sine of how far each element of a column, or row, is below the largest one."""
    check(
        entry(f"""
        x = f32[70,90] parameter(0)
        zero = f32[] constant(0)
        least = f32[] constant(-inf)
        s = f32[{(90, 70)[reduced]}] reduce(x, least), dimensions={{{reduced}}}, to_apply=max
        b = f32[70,90] broadcast(s), dimensions={{{1 - reduced}}}
        m = f32[70,90] subtract(x, b)
        f = f32[70,90] sine(m)
        ROOT r = f32[{(90, 70)[reduced]}] reduce(f, zero), dimensions={{{reduced}}}, to_apply=add
        """),
        f32(70, 90),
        kind="reduction",
        exact=False,
        rtol=1e-5,
    )


def test_pieces_of_what_a_pad_joins_and_what_passes_cache():
    """A softmax of sines: the second pass reads what the first one has computed, in ranges of the rows."""
    check(
        softmax((30, 500), 1).replace(
            "x = f32[30,500] parameter(0)",
            "y = f32[30,400] parameter(0)\nnil = f32[] constant(0)\n"
            "p = f32[30,500] pad(y, nil), padding=0_0x60_40\nx = f32[30,500] sine(p)",
        ),
        100 * f32(30, 400),
        kind="reduction",
        exact=False,
    )


@pytest.mark.parametrize("operation", ["log-plus-one(m)", "power(m, x)"])
def test_functions_of_several_vectors_are_computed_alternately(operation):
    """The bits are those of the function computed before."""
    head = f"x = f32[50,1003] parameter(0)\nm = f32[50,1003] exponential(x)\nf = f32[50,1003] {operation}\n"
    total = "zero = f32[] constant(0)\nROOT r = f32[50] reduce(f, zero), dimensions={1}, to_apply=add"
    fused = Compiled(fusion_of(parse(entry(head + total)), "reduction"))
    assert "interleave_count(4)" in fused.kernels[0].body
    x = f32(50, 1003)
    before = Compiled(fusion_of(parse(entry(head.replace("f = ", "ROOT f = ")))))
    alone = Compiled(fusion_of(parse(reduce_text((50, 1003), (1,))), "reduction"))
    assert fused(x)[0].tobytes() == alone(before(x)[0])[0].tobytes()


@pytest.mark.parametrize("columns", [16, 17, 23, 24, 25, 31, 32, 39, 40, 45, 63, 64, 71, 72])
@pytest.mark.parametrize("element", ["f32", "f64"])
def test_functions_after_the_only_chunk_of_a_row_are_added_to_it(columns, element):
    """The first chunk of lanes becomes the accumulators. What is left of a row must not, also where its functions are
    computed in pieces: sums of cosines over 25 columns were those of their last elements."""
    text = f"""HloModule m
{reducer("add", "add", element)}
ENTRY main {{
  x = {element}[5,{columns}] parameter(0)
  y = {element}[5,{columns}] cosine(x)
  z = {element}[] constant(0)
  ROOT r = {element}[5] reduce(y, z), dimensions={{1}}, to_apply=add
}}"""
    x = rng.uniform(0.0, 1.0, (5, columns)).astype(ELEMENT_TYPES[element].dtype)
    check(text, x, kind="reduction", exact=False, rtol=1e-5)
