"""Reduce-window and select-and-scatter: the fast forms bit for bit against the elementwise ones, and the reference."""

import ml_dtypes
import numpy as np
import pytest
from cache_sizes import set_caches
from hypothesis import Phase, given
from hypothesis import strategies as st
from kernel_driver import Compiled, fusion_of
from refxla_spec import interpreter
from refxla_spec.text import parse
from search import examples

import refxla
from refxla.analysis.contraction_order import segment_terms
from refxla.codegen.loops import non_temporal_stores
from refxla.codegen.windows import reduce_window, select_and_scatter, window_lanes
from refxla.device.description import DEFAULT_CPU

TYPES = {
    "f32": np.float32,
    "f64": np.float64,
    "bf16": ml_dtypes.bfloat16,
    "f16": np.float16,
    "s32": np.int32,
    "u8": np.uint8,
}
INIT = {"add": "0", "multiply": "1", "maximum": "-inf", "minimum": "inf"}


def values(name: str, *sizes: int, seed: int = 0) -> np.ndarray:
    """Small integers and halves, with repeats: ties are frequent, and sums of them are exact."""
    rng = np.random.default_rng((seed, *sizes))
    low = 0 if name.startswith("u") else -6
    return (rng.integers(low, 7, sizes) / (1 if name[0] in "su" else 2)).astype(TYPES[name])


def rough(*sizes: int, seed: int = 0) -> np.ndarray:
    """Numbers whose sums depend on the order."""
    return (np.random.default_rng((seed, *sizes)).standard_normal(sizes) * 1e3).astype(np.float32)


def field(window: list[dict], key: str, default: int) -> str:
    return "x".join(str(w.get(key, default)) for w in window)


def window_text(window: list[dict]) -> str:
    pad = "x".join(f"{w.get('low', 0)}_{w.get('high', 0)}" for w in window)
    dilations = f"lhs_dilate={field(window, 'base', 1)} rhs_dilate={field(window, 'dilation', 1)}"
    return f"window={{size={field(window, 'size', 1)} stride={field(window, 'stride', 1)} pad={pad} {dilations}}}"


def count(size: int, w: dict) -> int:
    """The placings of a window in one dimension."""
    dilated = ((size - 1) * w.get("base", 1) + 1 if size else 0) + w.get("low", 0) + w.get("high", 0)
    needed = (w.get("size", 1) - 1) * w.get("dilation", 1) + 1
    return 0 if dilated < needed else (dilated - needed) // w.get("stride", 1) + 1


def dims(sizes) -> str:
    return ",".join(map(str, sizes))


def pooling(sizes, window, opcode="add", name="f32", init=None) -> str:
    init = init or INIT[opcode]
    if name[0] in "su" and "inf" in init:
        init = "0" if name[0] == "u" else init.replace("inf", "2147483647")
    out = dims(count(s, w) for s, w in zip(sizes, window, strict=True))
    return f"""HloModule m
    reducer {{ a = {name}[] parameter(0)
              b = {name}[] parameter(1)
              ROOT r = {name}[] {opcode}(a, b) }}
    ENTRY main {{ x = {name}[{dims(sizes)}] parameter(0)
                 i = {name}[] constant({init})
                 ROOT r = {name}[{out}] reduce-window(x, i), {window_text(window)}, to_apply=reducer }}"""


def same_bits(text: str, *args: np.ndarray, kind: str = "reduce-window") -> tuple[Compiled, tuple[np.ndarray, ...]]:
    """Runs both forms of the program and compares their bits."""
    module = parse(text)
    fast, plain = Compiled(fusion_of(module, kind)), Compiled(fusion_of(module, "loop"))
    results = fast(*args)
    for got, want in zip(results, plain(*args), strict=True):
        np.testing.assert_array_equal(got.view(np.uint8), want.view(np.uint8))
    return fast, results


def check(text: str, *args: np.ndarray, kind: str = "reduce-window") -> Compiled:
    """As same_bits, and equal to the reference, which the arguments make exact."""
    fast, results = same_bits(text, *args, kind=kind)
    wanted = interpreter.run(parse(text), args)
    for got, want in zip(results, wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got.astype(np.float64), want.astype(np.float64))
    return fast


@st.composite
def windows(draw, dilations=True):
    """(sizes, window) of a small array and any window on it."""
    sizes, window = [], []
    for _ in range(draw(st.integers(1, 4))):
        size, w = draw(st.integers(1, 7)), {}
        if draw(st.booleans()):
            w = {"size": draw(st.integers(1, 4)), "stride": draw(st.integers(1, 3))}
            if dilations:
                w |= {"base": draw(st.sampled_from([1, 1, 1, 2])), "dilation": draw(st.sampled_from([1, 1, 2]))}
            w |= {"low": draw(st.integers(-1, 3)), "high": draw(st.integers(-1, 3))}
        while count(size, w) == 0:
            size += 1
        sizes.append(size)
        window.append(w)
    return sizes, window


@examples(16, phases=[Phase.generate])
@given(windows(), st.sampled_from(["add", "maximum", "minimum", "multiply"]), st.sampled_from(["f32", "bf16", "s32"]))
def test_any_window(case, opcode, name):
    sizes, window = case
    x = values(name, *sizes)
    if opcode == "multiply":
        x = np.sign(x)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(window_lanes, "STRIP_LANES", 4)
        patch.setattr(reduce_window, "CHUNK", 16)
        check(pooling(sizes, window, opcode, name), x)


ROOM = {"size": 3, "stride": 2, "low": 1, "high": 1}
POOLS = {
    "NHWC": ([2, 9, 10, 40], [{}, ROOM, ROOM, {}]),
    "NCHW": ([2, 5, 9, 70], [{}, {}, ROOM, ROOM]),
    "1d": ([3000], [{"size": 7, "low": 3, "high": 3}]),
    "rows": ([12, 4, 700], [{"size": 4, "stride": 4}, {}, {}]),
    "one channel": ([2, 9, 10, 1], [{}, ROOM, ROOM, {}]),
    "all": ([2, 7, 8, 16], [{}, {"size": 7}, {"size": 8}, {}]),
}


@pytest.mark.parametrize("opcode", ["add", "maximum"])
@pytest.mark.parametrize("case", POOLS)
def test_pooling_has_the_bits_of_the_elementwise_form(case, opcode):
    sizes, window = POOLS[case]
    x = rough(*sizes)
    x.reshape(-1)[::97] = np.nan
    fast, _ = same_bits(pooling(sizes, window, opcode), x)
    assert "acc" in fast.kernels[0].body


@pytest.mark.parametrize(
    ("sizes", "window", "inner"),
    [
        ([2, 9, 20, 3], [{"size": 1}, {"size": 3}, {"size": 4}, {"size": 1}], 3),
        ([2, 9, 20, 3], [{"size": 1}, {"size": 3, "low": 2}, {"size": 4, "low": 3, "high": 2}, {"size": 1}], 3),
        ([5, 600, 2], [{"size": 1}, {"size": 5, "low": 2, "high": 2, "dilation": 3}, {"size": 1}], 2),
        ([30, 3, 2], [{"size": 4, "low": 1}, {"size": 1}, {"size": 1}], 6),
    ],
)
@pytest.mark.parametrize("opcode", ["add", "maximum"])
def test_a_window_slides_along_few_channels_too(sizes, window, inner, opcode):
    """Three colours alone would be a vector of three: with the width they are a stretch of memory."""
    text = pooling(sizes, window, opcode)
    root = parse(text).entry.root
    lanes = window_lanes.Lanes(root.window, sizes, root.shape.dimensions, joins=True)
    assert lanes.slides is not None and lanes.inner == inner
    check(text, values("f32", *sizes))


def test_a_pool_with_what_is_before_and_after_it():
    check(
        """HloModule m
    add { a = f32[] parameter(0)
          b = f32[] parameter(1)
          ROOT r = f32[] add(a, b) }
    ENTRY main { x = f32[2,8,8,24] parameter(0)
                 y = f32[2,4,4,24] parameter(1)
                 n = f32[2,8,8,24] negate(x)
                 z = f32[] constant(0)
                 p = f32[2,4,4,24] reduce-window(n, z), window={size=1x2x2x1 stride=1x2x2x1}, to_apply=add
                 s = f32[2,4,4,24] subtract(p, y)
                 ROOT r = f32[32,24] reshape(s) }""",
        values("f32", 2, 8, 8, 24), values("f32", 2, 4, 4, 24),
    )  # fmt: skip


def test_argmax_pooling():
    fast = check(
        """HloModule m
    larger { a = f32[] parameter(0)
             i = s32[] parameter(1)
             b = f32[] parameter(2)
             j = s32[] parameter(3)
             p = pred[] compare(a, b), direction=GE
             v = f32[] select(p, a, b)
             n = s32[] select(p, i, j)
             ROOT r = (f32[], s32[]) tuple(v, n) }
    ENTRY main { x = f32[2,8,9,20] parameter(0)
                 n = s32[2,8,9,20] iota(), iota_dimension=2
                 l = f32[] constant(-inf)
                 z = s32[] constant(-1)
                 p = (f32[2,4,5,20], s32[2,4,5,20]) reduce-window(x, n, l, z), to_apply=larger,
                   window={size=1x3x3x1 stride=1x2x2x1 pad=0_0x0_1x1_1x0_0}
                 v = f32[2,4,5,20] get-tuple-element(p), index=0
                 i = s32[2,4,5,20] get-tuple-element(p), index=1
                 ROOT r = (f32[2,4,5,20], s32[2,4,5,20]) tuple(v, i) }""",
        values("f32", 2, 8, 9, 20),
    )
    assert "acc" in fast.kernels[0].body


CUMULATIVE = [([50], 0), ([3, 50], 1), ([19, 30], 1), ([30, 600], 0), ([2, 9, 21], 1), ([2, 9, 1], 1),
              ([9, 600], 1), ([600, 3], 0)]  # fmt: skip


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("sizes,dimension", CUMULATIVE)
@pytest.mark.parametrize("opcode,name", [("add", "f32"), ("maximum", "f32"), ("add", "bf16"), ("multiply", "s32")])
def test_cumulative(sizes, dimension, backward, opcode, name):
    n = sizes[dimension]
    w = {"size": n, "high": n - 1} if backward else {"size": n, "low": n - 1}
    window = [w if d == dimension else {} for d in range(len(sizes))]
    x = values(name, *sizes)
    if opcode == "multiply":
        x = np.sign(x)
    text = pooling(sizes, window, opcode, name)
    fast = check(text, x)
    assert "k0" not in fast.kernels[0].body, "this goes through the windows"
    if (opcode, name) == ("add", "f32"):
        same_bits(text, rough(*sizes))


@pytest.mark.parametrize("past_caches", [False, True])
@pytest.mark.parametrize("sizes,dimension", [([19, 130], 1), ([8, 128], 1), ([70, 600], 0)])
@pytest.mark.parametrize(
    "opcode,name,backward",
    [("add", "f32", False), ("add", "f32", True), ("multiply", "s32", False), ("add", "bf16", False)],
)
def test_cumulative_in_blocks(sizes, dimension, opcode, name, backward, past_caches, monkeypatch):
    """Rows that are turned in registers, and strips of columns, in caches and past them."""
    set_caches(monkeypatch, last=1 if past_caches else 1 << 40)
    monkeypatch.setattr(non_temporal_stores, "LEAST_RUN", 1)
    n = sizes[dimension]
    w = {"size": n, "high": n - 1} if backward else {"size": n, "low": n - 1}
    text = pooling(sizes, [w if d == dimension else {} for d in range(len(sizes))], opcode, name)
    x = values(name, *sizes)
    fast = check(text, np.sign(x) if opcode == "multiply" else x)
    assert ("rx_cumulative" in fast.kernels[0].body) == (dimension == 1)
    assert ("RX_FENCE" in fast.kernels[0].body) == (past_caches and not (backward and dimension == 1))
    if (opcode, name) == ("add", "f32"):
        same_bits(text, rough(*sizes))


@pytest.mark.parametrize("past_caches", [False, True])
def test_a_cumulative_sum_between_others(past_caches, monkeypatch):
    """What is computed before it and after it, of other types, and some rows that fill no vector."""
    set_caches(monkeypatch, last=1 if past_caches else 1 << 40)
    monkeypatch.setattr(non_temporal_stores, "LEAST_RUN", 1)
    same_bits(
        """HloModule m
    sum { a = f32[] parameter(0)
          b = f32[] parameter(1)
          ROOT r = f32[] add(a, b) }
    ENTRY main { x = f32[3,7,150] parameter(0)
                 y = f32[3,7,150] parameter(1)
                 n = f32[3,7,150] multiply(x, y)
                 z = f32[] constant(0.5)
                 c = f32[3,7,150] reduce-window(n, z), window={size=1x1x150 pad=0_0x0_0x149_0}, to_apply=sum
                 s = f32[3,7,150] subtract(c, y)
                 h = bf16[3,7,150] convert(s)
                 ROOT r = (f32[3,7,150], bf16[3,7,150]) tuple(s, h) }""",
        rough(3, 7, 150), rough(3, 7, 150),
    )  # fmt: skip


@pytest.mark.parametrize("sizes,dimension", [([1 << 20], 0), ([9, 5000], 1), ([2, 5000, 3], 1)])
def test_a_long_cumulative_sum_goes_by_segments(sizes, dimension):
    """Each result is the sum of the segments before its own and the chain of its own, as contraction_order.py says."""
    n = sizes[dimension]
    text = pooling(sizes, [{"size": n, "low": n - 1} if d == dimension else {} for d in range(len(sizes))])
    x = rough(*sizes)
    (got,) = Compiled(fusion_of(parse(text), "reduce-window"))(x)
    expected, before = [], np.float32(0)
    for part in np.array_split(x, range(length := segment_terms(n, "f32"), n, length), axis=dimension):
        expected.append(before + np.cumsum(part, dimension))
        before = np.take(expected[-1], [-1], dimension)
    np.testing.assert_array_equal(got, np.concatenate(expected, dimension))
    exact = np.cumsum(x.astype(np.float64), dimension)
    chain = np.cumsum(x, dimension)
    assert abs(got - exact).max() < abs(chain - exact).max() / 2


def test_units_are_split_among_items():
    sizes, window = [16, 32, 32, 64], [{}, ROOM, ROOM, {}]
    fast, _ = same_bits(pooling(sizes, window, "maximum"), rough(*sizes))
    assert fast.kernels[0].items >= 4 * DEFAULT_CPU.compute_units


def scattering(sizes, window, select="GE", scatter="add", name="f32") -> str:
    out = dims(count(s, w) for s, w in zip(sizes, window, strict=True))
    return f"""HloModule m
    pick {{ a = {name}[] parameter(0)
           b = {name}[] parameter(1)
           ROOT r = pred[] compare(a, b), direction={select} }}
    reducer {{ a = {name}[] parameter(0)
              b = {name}[] parameter(1)
              ROOT r = {name}[] {scatter}(a, b) }}
    ENTRY main {{ x = {name}[{dims(sizes)}] parameter(0)
                 s = {name}[{out}] parameter(1)
                 i = {name}[] constant({INIT[scatter] if name == "f32" else 1})
                 ROOT r = {name}[{dims(sizes)}] select-and-scatter(x, s, i), {window_text(window)},
                   select=pick, scatter=reducer }}"""


def source_of(sizes, window):
    return [count(s, w) for s, w in zip(sizes, window, strict=True)]


@examples(16, phases=[Phase.generate])
@given(
    windows(dilations=False),
    st.sampled_from(["GE", "GT", "LE", "LT", "NE"]),
    st.sampled_from(["add", "maximum"]),
    st.sampled_from(["f32", "bf16", "s32"]),
)
def test_any_scattering(case, select, scatter, name):
    sizes, window = case
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(window_lanes, "STRIP_LANES", 4)
        patch.setattr(select_and_scatter, "LITTLE", 16)
        text = scattering(sizes, window, select, scatter, name)
        check(text, values(name, *sizes), values(name, *source_of(sizes, window), seed=1), kind="select-and-scatter")


@pytest.mark.parametrize("case", POOLS)
@pytest.mark.parametrize("name", ["f32", "bf16"])
def test_gradient_of_pooling_has_the_bits_of_the_elementwise_form(case, name):
    sizes, window = POOLS[case]
    x, s = values("f32", *sizes), rough(*source_of(sizes, window))
    x.reshape(-1)[::97] = np.nan
    text = scattering(sizes, window, name=name)
    args = [a.astype(TYPES[name]) for a in (x, s)]
    fast, _ = same_bits(text, *args, kind="select-and-scatter")
    assert "place[" in fast.kernels[0].body


def test_zeros_and_unselected_elements_keep_their_sign():
    text = scattering([1, 4, 4, 8], [{}, {"size": 2, "stride": 2}, {"size": 2, "stride": 2}, {}])
    text = text.replace("constant(0)", "constant(-0.0)")
    x, s = values("f32", 1, 4, 4, 8), np.full((1, 2, 2, 8), -0.0, np.float32)
    (got,) = same_bits(text, x, s, kind="select-and-scatter")[1]
    assert np.signbit(got).all()


PAIRS, ROW_OF_THREE = {"size": 2, "stride": 2}, {"size": 3, "stride": 3}


@pytest.mark.parametrize(
    ("sizes", "window"),
    [
        ([2, 8, 6, 16], [{}, PAIRS, PAIRS, {}]),
        ([2, 7, 9, 32], [{}, ROW_OF_THREE, PAIRS, {}]),  # with a row and a column that no window contains
        ([5, 16], [{"size": 4, "stride": 4}, {}]),
        ([3, 6, 16], [PAIRS, {"size": 3, "stride": 3, "high": -1}, {}]),
    ],
)
@pytest.mark.parametrize("select", ["GE", "LT", "NE"])
@pytest.mark.parametrize(("name", "scatter"), [("f32", "add"), ("f32", "maximum"), ("bf16", "add"), ("s32", "add")])
def test_windows_that_do_not_overlap_scatter_elementwise(sizes, window, select, name, scatter):
    text = scattering(sizes, window, select, scatter, name)
    x, s = values(name, *sizes), values(name, *source_of(sizes, window), seed=1)
    if name == "f32":
        x.reshape(-1)[::7], s.reshape(-1)[::5] = np.nan, -0.0
    exe = refxla.compile(text)
    assert "select-and-scatter(" not in str(exe.optimized_hlo)
    got, want = exe(x, s), interpreter.run(parse(text), (x, s))
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got.view(np.uint8), want.view(np.uint8))


@pytest.mark.parametrize(
    ("sizes", "window"),
    [
        ([2, 6, 6, 12], [{}, PAIRS, PAIRS, {}]),  # rows with partial vectors
        ([16, 6, 16], [{}, PAIRS, PAIRS]),  # windows along the last dimension
        ([7, 16], [{"size": 3, "stride": 2}, {}]),
        ([8, 16], [{"size": 2, "stride": 4}, {}]),
        ([7, 16], [{"size": 2, "stride": 2, "high": 1}, {}]),
        ([16, 16, 16], [{"size": 4, "stride": 4}, {"size": 4, "stride": 4}, {}]),
    ],
)
def test_other_windows_scatter_in_a_kernel_of_their_own(sizes, window):
    text = scattering(sizes, window)
    exe = refxla.compile(text)
    assert "select-and-scatter(" in str(exe.optimized_hlo)
    x, s = values("f32", *sizes), values("f32", *source_of(sizes, window), seed=1)
    np.testing.assert_array_equal(exe(x, s), interpreter.run(parse(text), (x, s)))


def test_the_gradients_of_pooling_relu_and_bias_are_one_kernel():
    sizes, window = [4, 12, 12, 32], [{}, PAIRS, PAIRS, {}]
    text = scattering(sizes, window).replace("constant(1)", "constant(0)")
    head, _, tail = text.partition("ROOT r = f32[4,12,12,32]")
    text = (
        f"{head}r = f32[4,12,12,32]{tail.rstrip().rstrip('}')}"
        """
        zeros = f32[4,12,12,32] broadcast(i), dimensions={}
        positive = pred[4,12,12,32] compare(x, zeros), direction=GT
        relu = f32[4,12,12,32] select(positive, r, zeros)
        bias = f32[32] reduce(relu, i), dimensions={0,1,2}, to_apply=reducer
        ROOT t = (f32[4,12,12,32], f32[32]) tuple(relu, bias) }"""
    )
    exe = refxla.compile(text)
    assert len(exe.plan.steps) == 1, exe.explain()
    args = values("f32", *sizes), values("f32", 4, 6, 6, 32, seed=1)
    for got, want in zip(exe(*args), interpreter.run(parse(text), args), strict=True):
        np.testing.assert_array_equal(got, want)
