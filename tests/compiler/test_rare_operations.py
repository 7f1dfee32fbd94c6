"""rng and its state, stochastic-convert, scan, ragged-dot and scaled-dot: compiled and held against the reference."""

import ml_dtypes
import numpy as np
import pytest
from agreement import flat
from refxla_spec.bounds import run_with_bounds
from refxla_spec.compare import distance
from refxla_spec.errors import UnsupportedError
from refxla_spec.interpreter import run
from refxla_spec.text import parse
from refxla_spec.types import ELEMENT_TYPES

import refxla
from refxla.passes import pipeline


def check(text: str, *arguments: np.ndarray) -> list[np.ndarray]:
    """The compiled results, each within the bound of the reference's; they are the same in a second call."""
    module = parse(text if text.startswith("HloModule") else f"HloModule m\nENTRY main {{\n{text}\n}}")
    compiled = refxla.compile(module)
    got, again = flat(compiled(*arguments)), flat(compiled(*arguments))
    value, bound = run_with_bounds(module, arguments)
    for a, b, v, e in zip(got, again, flat(value), flat(bound), strict=True):
        assert a.dtype == v.dtype and a.shape == v.shape
        assert np.isfinite(e).all(), "the bound decides nothing"
        np.testing.assert_array_equal(a.view(np.uint8) if a.ndim else a, b.view(np.uint8) if b.ndim else b)
        assert (distance(a, v) <= e).all(), f"off by {distance(a, v).max()}, the bound is {e.max()}"
    return got


@pytest.mark.parametrize("name", ["f32", "f64", "f16", "bf16", "f8e5m2", "s32", "u8", "s64", "s4"])
def test_uniform_numbers(name):
    dtype, integer = ELEMENT_TYPES[name].dtype, ELEMENT_TYPES[name].is_integer
    low, high = (np.asarray(v).astype(dtype) for v in ((1, 5) if integer else (-2.5, 1)))
    text = f"""a = {name}[] parameter(0)
    b = {name}[] parameter(1)
    ROOT r = {name}[40,25] rng(a, b), distribution=rng_uniform"""
    (got,) = check(text, low, high)
    wide = got.astype(np.float64)
    assert (wide >= low.astype(np.float64)).all() and (wide < high.astype(np.float64)).all()
    # of 1000 numbers, the mean is within six of its deviations, (high - low) / sqrt(12 * 1000), and grids' half steps
    middle = 2.5 if integer else -0.75
    assert abs(wide.mean() - middle) < 6 * 4 / np.sqrt(12000) + (0.25 if name == "f8e5m2" else 0)


@pytest.mark.parametrize("name", ["f32", "f64", "bf16"])
def test_normal_numbers(name):
    dtype = ELEMENT_TYPES[name].dtype
    text = f"""a = {name}[] parameter(0)
    b = {name}[] parameter(1)
    ROOT r = {name}[999] rng(a, b), distribution=rng_normal"""
    (got,) = check(text, np.asarray(10).astype(dtype), np.asarray(2).astype(dtype))
    wide = got.astype(np.float64)
    assert abs(wide.mean() - 10) < 6 * 2 / np.sqrt(999) and abs(wide.std() - 2) < 6 * 2 / np.sqrt(2 * 999)


STATE = """HloModule order
draw { a = f32[] parameter(0)
       b = f32[] parameter(1)
       ROOT r = f32[3] rng(a, b), distribution=rng_uniform }
turn { s = (s32[], f32[3]) parameter(0)
       n = s32[] get-tuple-element(s), index=0
       x = f32[3] get-tuple-element(s), index=1
       one = s32[] constant(1)
       zero = f32[] constant(0)
       high = f32[] constant(1)
       y = f32[3] call(zero, high), to_apply=draw
       z = f32[3] add(x, y)
       m = s32[] add(n, one)
       ROOT t = (s32[], f32[3]) tuple(m, z) }
more { s = (s32[], f32[3]) parameter(0)
       n = s32[] get-tuple-element(s), index=0
       limit = s32[] constant(4)
       ROOT r = pred[] compare(n, limit), direction=LT }
plain { x = f32[3] parameter(0)
        ROOT y = f32[3] negate(x) }
counts { x = f32[3] parameter(0)
         unused = u64[2] rng-get-and-update-state(), delta=-3
         ROOT y = f32[3] copy(x) }
ENTRY main { p = pred[] parameter(0)
             n = s32[] constant(0)
             x = f32[3] constant({0, 0, 0})
             dead = u64[2] rng-get-and-update-state(), delta=1000
             s = (s32[], f32[3]) tuple(n, x)
             loop = (s32[], f32[3]) while(s), condition=more, body=turn
             sum = f32[3] get-tuple-element(loop), index=1
             c = f32[3] conditional(p, sum, sum), true_computation=counts, false_computation=plain
             after = u64[2] rng-get-and-update-state(), delta=-2
             last = u64[2] rng-get-and-update-state(), delta=18446744073709551615
             end = u64[2] rng-get-and-update-state(), delta=0
             ROOT r = (f32[3], f32[3], u64[2], u64[2], u64[2]) tuple(sum, c, after, last, end) }"""


@pytest.mark.parametrize("p", [False, True])
def test_the_state_goes_through_loops_calls_and_branches(p):
    text = STATE.replace("18446744073709551615", "9223372036854775807")
    _, _, after, last, end = check(text, np.array(p))
    first = 0x7012395 + 1000 + 4 - (3 if p else 0)  # one block of the cipher in each of four turns
    assert after.tolist() == [first, 0] and last.tolist() == [first - 2, 0]
    assert end.tolist() == [(first - 2 + 2**63 - 1) % 2**64, 0]


def test_random_numbers_in_the_condition_of_a_loop():
    text = """HloModule m
    turn { s = (s32[], f32[2]) parameter(0)
           n = s32[] get-tuple-element(s), index=0
           x = f32[2] get-tuple-element(s), index=1
           one = s32[] constant(1)
           m = s32[] add(n, one)
           ROOT t = (s32[], f32[2]) tuple(m, x) }
    more { s = (s32[], f32[2]) parameter(0)
           zero = f32[] constant(0)
           one = f32[] constant(1)
           drawn = f32[] rng(zero, one), distribution=rng_uniform
           limit = f32[] constant(0.9)
           ROOT r = pred[] compare(drawn, limit), direction=LT }
    ENTRY main { x = f32[2] parameter(0)
                 n = s32[] constant(0)
                 s = (s32[], f32[2]) tuple(n, x)
                 first = (s32[], f32[2]) while(s), condition=more, body=turn
                 second = (s32[], f32[2]) while(first), condition=more, body=turn
                 k = s32[] get-tuple-element(first), index=0
                 l = s32[] get-tuple-element(second), index=0
                 end = u64[2] rng-get-and-update-state(), delta=1
                 ROOT r = (s32[], s32[], u64[2]) tuple(k, l, end) }"""
    first, second, _ = check(text, np.ones(2, np.float32))
    assert 0 < first < second


def test_a_state_below_zero_wraps_at_128_bits():
    text = """a = u64[2] rng-get-and-update-state(), delta=-117515158
    b = u64[2] rng-get-and-update-state(), delta=5
    c = u64[2] rng-get-and-update-state(), delta=0
    ROOT r = (u64[2], u64[2]) tuple(b, c)"""
    b, c = check(text)
    assert b.tolist() == [2**64 - 1, 2**64 - 1] and c.tolist() == [4, 0]


def test_random_numbers_for_each_element_are_refused():
    text = """HloModule m
    draw { x = f32[] parameter(0)
           one = f32[] constant(1)
           ROOT r = f32[] rng(x, one), distribution=rng_uniform }
    ENTRY main { x = f32[3] parameter(0)
                 ROOT r = f32[3] map(x), dimensions={0}, to_apply=draw }"""
    with pytest.raises(UnsupportedError, match="r: map applies draw.*as an array"):
        refxla.compile(text)


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_stochastic_convert(bits):
    rng = np.random.default_rng(bits)
    x = rng.uniform(-140, 140, 300).astype(f"f{bits // 8}")
    x[:8] = [0, -0.0, np.inf, -np.inf, np.nan, 127.5, -128.5, 0.999]
    random = rng.integers(0, 2**bits - 1, 300, dtype=f"u{bits // 8}", endpoint=True)
    for name in ("s8", "s4", "s32"):
        text = f"""x = f{bits}[300] parameter(0)
        random = u{bits}[300] parameter(1)
        ROOT r = {name}[300] stochastic-convert(x, random)"""
        check(text, x, random)


SCAN = """HloModule affine
step { x = f32[2] parameter(0)
       k = s32[] parameter(1)
       total = f32[2] parameter(2)
       count = s32[] parameter(3)
       new = f32[2] add(x, total)
       half = f32[2] constant({0.5, 0.25})
       faded = f32[2] multiply(new, half)
       more = s32[] add(k, count)
       first = f32[1] slice(faded), slice={[0:1]}
       ROOT r = (f32[2], f32[1], f32[2], s32[]) tuple(new, first, faded, more) }
ENTRY main { x = f32[2,SIZE] parameter(0)
             k = s32[SIZE] parameter(1)
             DIMENSIONS
             init = f32[2] constant({1, 2})
             zero = s32[] constant(0)
             ROOT r = (f32[SIZE,2], f32[SIZE,1], f32[2], s32[]) scan(y, k, init, zero), dimensions={0}, num_carries=2,
                      is_reverse=REVERSE, to_apply=step }"""


@pytest.mark.parametrize("size", [0, 1, 7])
@pytest.mark.parametrize("reverse", ["true", "false"])
def test_scan(size, reverse):
    text = SCAN.replace("DIMENSIONS", "y = f32[SIZE,2] transpose(x), dimensions={1,0}")
    text = text.replace("SIZE", str(size)).replace("REVERSE", reverse)
    rng = np.random.default_rng(size)
    check(text, rng.standard_normal((2, size)).astype(np.float32), np.arange(size, dtype=np.int32))


@pytest.mark.parametrize("sizes", ["s32[3]", "u8[3]", "s32[2,3]"])
@pytest.mark.parametrize("name", ["f32", "s8", "c64"])
def test_ragged_rows(sizes, name):
    rng = np.random.default_rng(1)
    lhs, rhs = (rng.integers(-5, 5, s).astype(ELEMENT_TYPES[name].dtype) for s in ((2, 5, 4), (4, 3, 2, 3)))
    groups = np.array([[2, 1, 1], [0, 5, 9]]) if "2," in sizes else np.array([1, 0, 3])
    text = f"""x = {name}[2,5,4] parameter(0)
    w = {name}[4,3,2,3] parameter(1)
    sizes = {sizes} parameter(2)
    ROOT r = {name}[2,5,3] ragged-dot(x, w, sizes), lhs_batch_dims={{0}}, rhs_batch_dims={{2}},
             lhs_contracting_dims={{2}}, rhs_contracting_dims={{0}}, lhs_ragged_dims={{1}}, rhs_group_dims={{1}}"""
    check(text, lhs, rhs, groups.astype("uint8" if sizes[0] == "u" else "int32"))


# Sizes of groups of 100 rows: with rows that no group holds, empty groups, sizes that count as 0 or go beyond the rows.
GROUPS = ([30, 0, 17, 1, 40], [100, 0, 0, 0, 0], [-5, 64, -1, 0, 3], [0, 0, 0, 0, 0], [9, 90, 90, 1, 2])


@pytest.mark.parametrize("name", ["f32", "f64", "bf16", "s8", "s32", "c64"])
def test_ragged_rows_by_blocks(name):
    text = f"""x = {name}[9,100,40] parameter(0)
    w = {name}[40,5,30] parameter(1)
    sizes = s32[5] parameter(2)
    ROOT r = {name}[9,100,30] ragged-dot(x, w, sizes), lhs_contracting_dims={{2}}, rhs_contracting_dims={{0}},
             lhs_ragged_dims={{1}}, rhs_group_dims={{1}}"""
    assert loops_of(text) == 1
    rng = np.random.default_rng(3)
    lhs, rhs = (rng.integers(-5, 5, s).astype(ELEMENT_TYPES[name].dtype) for s in ((9, 100, 40), (40, 5, 30)))
    for sizes in GROUPS:
        check(text, lhs, rhs, np.array(sizes, np.int32))


@pytest.mark.parametrize("name", ["f32", "f64", "f16", "bf16", "s8", "s32", "c64"])
def test_ragged_sums_by_blocks(name):
    text = f"""x = {name}[3,100,60] parameter(0)
    w = {name}[60,100,3] parameter(1)
    sizes = s64[5] parameter(2)
    ROOT r = {name}[5,60,60] ragged-dot(x, w, sizes), lhs_contracting_dims={{1,0}}, rhs_contracting_dims={{1,2}},
             lhs_ragged_dims={{1}}"""
    assert loops_of(text) == 1
    rng = np.random.default_rng(4)
    lhs, rhs = (rng.integers(-5, 5, s).astype(ELEMENT_TYPES[name].dtype) for s in ((3, 100, 60), (60, 100, 3)))
    for sizes in GROUPS:
        check(text, lhs, rhs, np.array(sizes))


def loops_of(text: str) -> int:
    module = pipeline.optimize(parse(f"HloModule m\nENTRY main {{\n{text}\n}}"))
    return sum(i.opcode == "while" for i in module.instructions())


def test_rows_of_other_groups_do_not_spoil_a_block():
    """Not even those that are NaN, or that meet an infinite weight."""
    text = """x = f32[100,40] parameter(0)
    y = f32[100,50] parameter(1)
    w = f32[5,40,50] parameter(2)
    sizes = s32[5] parameter(3)
    r = f32[100,50] ragged-dot(x, w, sizes), lhs_contracting_dims={1}, rhs_contracting_dims={1},
        lhs_ragged_dims={0}, rhs_group_dims={0}
    s = f32[5,40,50] ragged-dot(x, y, sizes), lhs_contracting_dims={0}, rhs_contracting_dims={0}, lhs_ragged_dims={0}
    ROOT t = (f32[100,50], f32[5,40,50]) tuple(r, s)"""
    rng = np.random.default_rng(5)
    x, y, w = (rng.integers(-5, 5, s).astype(np.float32) for s in ((100, 40), (100, 50), (5, 40, 50)))
    x[30], y[90], w[3] = np.nan, np.inf, np.inf
    rows, sums = refxla.compile(f"HloModule m\nENTRY main {{\n{text}\n}}")(
        x, y, w, np.array([30, 0, 17, 1, 40], np.int32)
    )
    assert np.flatnonzero(~np.isfinite(rows).all(1)).tolist() == [30, 47]
    assert np.isfinite(sums[[0, 1, 3, 4]]).all() and np.isnan(sums[2]).all()


@pytest.mark.parametrize("sizes", ["s32[3]", "s32[2,3]"])
def test_ragged_sums(sizes):
    rng = np.random.default_rng(2)
    lhs, rhs = (rng.standard_normal(s).astype(np.float32) for s in ((5, 2, 4), (2, 3, 4)))
    groups = np.array([[2, 1, 1], [0, 1, 9]]) if "2," in sizes else np.array([1, -2, 2])
    text = f"""x = f32[5,2,4] parameter(0)
    w = f32[2,3,4] parameter(1)
    sizes = {sizes} parameter(2)
    ROOT r = f32[3,2,5,3] ragged-dot(x, w, sizes), lhs_batch_dims={{1}}, rhs_batch_dims={{0}},
             lhs_contracting_dims={{2}}, rhs_contracting_dims={{2}}, lhs_ragged_dims={{2}}"""
    check(text, lhs, rhs, groups.astype(np.int32))


def test_what_no_group_holds_does_not_spoil_the_rest():
    text = """x = f32[3,1] parameter(0)
    w = f32[2,1,1] parameter(1)
    sizes = s32[2] parameter(2)
    ROOT r = f32[3,1] ragged-dot(x, w, sizes), lhs_contracting_dims={1}, rhs_contracting_dims={1},
             lhs_ragged_dims={0}, rhs_group_dims={0}"""
    rhs = np.array([[[3]], [[np.nan]]], np.float32)
    (got,) = check(text, np.array([[2], [-1], [1]], np.float32), rhs, np.array([2, 0], np.int32))
    assert got.tolist() == [[6], [-3], [0]]


@pytest.mark.parametrize("lhs", ["f8e4m3fn", "f4e2m1fn", "f6e3m2fn", "bf16"])
@pytest.mark.parametrize("scale", ["f8e8m0fnu[4,2]", "f32[2,1]", "bf16[]"])
def test_scaled_dot(lhs, scale):
    rng = np.random.default_rng(3)
    name, sizes = scale.rstrip("]").split("[")
    dims = tuple(int(d) for d in sizes.split(",") if d)
    x = rng.integers(-4, 5, (4, 64)).astype(np.float32).astype(ELEMENT_TYPES[lhs].dtype)
    y = rng.standard_normal((64, 3)).astype(ml_dtypes.float8_e5m2)
    s = np.exp2(rng.integers(-3, 4, dims)).astype(np.float32).astype(ELEMENT_TYPES[name].dtype)
    t = np.exp2(rng.integers(-3, 4, (2, 3))).astype(np.float32).astype(ml_dtypes.float8_e8m0fnu)
    text = f"""x = {lhs}[4,64] parameter(0)
    y = f8e5m2[64,3] parameter(1)
    s = {scale} parameter(2)
    t = f8e8m0fnu[2,3] parameter(3)
    ROOT r = f32[4,3] scaled-dot(x, y, s, t), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"""
    check(text, x, y, s, t)


def test_the_reference_and_the_compiled_program_draw_the_same_bits():
    text = """HloModule m
    ENTRY main { a = f32[] constant(0)
                 b = f32[] constant(1)
                 ROOT r = f32[1000] rng(a, b), distribution=rng_uniform }"""
    got = refxla.compile(text, without=("constant-folding", "fusion"))()
    np.testing.assert_array_equal(got.view(np.int32), run(parse(text), []).view(np.int32))


@pytest.mark.parametrize(
    "text",
    [
        "x = f16[2,3]{1,0} parameter(0)\nb = f16[3,2]{0,1} bitcast(x)\nc = f16[6]{0} bitcast(b)\n"
        "ROOT y = f16[3,2]{1,0} bitcast(c)",
        "HloModule m\nf { p = f16[2,3]{0,1} parameter(0)\n ROOT b = f16[6]{0} bitcast(p) }\n"
        "ENTRY e { x = f16[2,3]{1,0} parameter(0)\n ROOT y = f16[6] fusion(x), kind=kLoop, calls=f }",
        "x = f16[2,3]{1,0} parameter(0)\nc = f16[2,3]{0,1} convert(x)\nROOT y = f16[6]{0} bitcast(c)",
    ],
    ids=["of a bitcast", "of a parameter of a fusion", "of what other passes take away"],
)
def test_a_bitcast_reads_the_layout_that_its_operand_had(text):
    x = np.arange(6, dtype=np.float16).reshape(2, 3)
    wanted = refxla.compile(text, device="reference")(x)
    assert np.array_equal(refxla.compile(text)(x), wanted)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("s8[3,5,2]{2,1,0}", "s16[3,5]{1,0}"),
        ("s8[2]", "s16[]"),
        ("s4[4,2]{1,0:E(4)}", "s8[4]"),
        ("f64[2,3]{0,1}", "u8[48]{0}"),
        ("s32[3]", "f16[2,3]{0,1}"),
        ("s16[0,3]", "s8[0]"),
        ("pred[4]", "u32[]"),
        ("s64[]", "u8[2,4]{0,1}"),
    ],
)
def test_a_bitcast_to_another_width_reads_the_same_bytes(given, wanted):
    text = f"x = {given} parameter(0)\nROOT y = {wanted} bitcast(x)"
    shape = parse(text).entry.parameters[0].shape
    low, high = (0, 2) if given.startswith("pred") else (-8, 8) if given.startswith("s4") else (-100, 100)
    x = np.random.default_rng(7).integers(low, high, shape.dimensions).astype(shape.element_type.dtype)
    got, expected = refxla.compile(text)(x), run(parse(text), [x])
    assert np.asarray(got).tobytes() == np.asarray(expected).tobytes() and np.shape(got) == np.shape(expected)


@pytest.mark.parametrize(("given", "wanted"), [("u8[8]", "c64[1]"), ("c64[2]", "f32[4]"), ("u8[3]", "f6e2m3fn[4]")])
def test_a_bitcast_that_is_not_compiled_says_so(given, wanted):
    with pytest.raises(UnsupportedError, match="is not compiled; take complex numbers apart"):
        refxla.compile(f"x = {given} parameter(0)\nROOT y = {wanted} bitcast(x)")


def test_a_map_may_have_a_fusion_of_several_results_inside():
    text = """HloModule m
    fused { p = f32[] parameter(0)
            m = f32[] multiply(p, p)
            l = pred[] compare(p, m), direction=LT
            ROOT t = (pred[], f32[]) tuple(l, m) }
    mapped { p = f32[] parameter(0)
             f = (pred[], f32[]) fusion(p), kind=kLoop, calls=fused
             a = pred[] get-tuple-element(f), index=0
             b = f32[] get-tuple-element(f), index=1
             z = f32[] constant(0)
             ROOT s = f32[] select(a, b, z) }
    ENTRY e { x = f32[3] parameter(0)
              ROOT r = f32[3] map(x), to_apply=mapped }"""
    check(text, np.float32([2, 0.5, -3]))
