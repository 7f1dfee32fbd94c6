"""The fast convolution bit for bit against its elementwise form, and against the reference by the bound of a sum."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernel_driver import OCLGRIND, Compiled, fusion_of, reports, text_of
from products import SAME, convolution_text, count
from refxla_spec import interpreter
from refxla_spec.text import parse
from search import examples

from refxla.analysis import contraction_order
from refxla.codegen.products import (
    blocking,
    convolution,
    gemm,
    implicit_gemm_rows,
    small_products,
    stencil,
    tile_epilogue,
)
from refxla.codegen.products.implicit_gemm import ImplicitGemm
from refxla.device.capabilities import OPENCL_CPU
from refxla.device.description import DEFAULT_CPU, Costs


def f32(*sizes, seed=0):
    return np.random.default_rng(seed).standard_normal(sizes).astype(np.float32)


def compare_bits(text: str, *args: np.ndarray, fast: str = "rx_multiply_add_vector") -> Compiled:
    """The fast form has the bits of the elementwise one. Returns the fast one."""
    module = parse(text)
    ours, plain = Compiled(fusion_of(module, "convolution")), Compiled(fusion_of(module, "loop"))
    assert fast in text_of(ours), "this is not the fast form"
    for got, want in zip(ours(*args), plain(*args), strict=True):
        np.testing.assert_array_equal(got.view(np.uint8), want.view(np.uint8))
    return ours


def compare(text: str, *args: np.ndarray, fast: str = "rx_multiply_add_vector") -> None:
    """The same, and it is as near the reference as its sums allow."""
    module, ours = parse(text), compare_bits(text, *args, fast=fast)
    root = module.entry.root
    if root.opcode == "convolution" and root.shape.element_type.name == "f32":
        exact = interpreter.run(parse(text.replace("f32", "f64")), [a.astype(np.float64) for a in args])
        terms = interpreter.run(parse(text.replace("f32", "f64")), [abs(a).astype(np.float64) for a in args])
        bound = (args[1].size + 1) * np.finfo(np.float32).eps * terms
        assert (abs(ours(*args)[0] - exact) <= bound).all()


@st.composite
def convolutions(draw):
    """(lhs, rhs, window, labels, groups, batch groups) of a small convolution with any window."""
    rank = draw(st.integers(0, 3))
    window, lhs, rhs = [], {}, {}
    for d in range(rank):
        w = {
            "size": draw(st.integers(1, 4)),
            "stride": draw(st.integers(1, 3)),
            "base": draw(st.sampled_from([1, 1, 2, 3])),
            "dilation": draw(st.sampled_from([1, 1, 2])),
            "reversal": draw(st.integers(0, 1)),
        }
        w["low"], w["high"] = draw(st.integers(-1, 3)), draw(st.integers(-1, 3))
        size = draw(st.integers(1, 7))
        while count(size, w) == 0:
            size += 1
        lhs[str(d)], rhs[str(d)] = size, w["size"]
        window.append(w)
    groups = draw(st.sampled_from([1, 1, 2, 3]))
    of_batch = draw(st.booleans()) and groups > 1
    features = draw(st.sampled_from([1, 2, 3, 4, 5, 8, 16, 24]))
    lhs["b"], lhs["f"] = draw(st.integers(1, 4)) * (groups if of_batch else 1), features * (1 if of_batch else groups)
    rhs["i"], rhs["o"] = features, draw(st.integers(1, 9)) * groups
    spatial = "".join(map(str, range(rank)))
    labels = ["".join(draw(st.permutations(letters + spatial))) for letters in ("bf", "io", "bf")]
    return lhs, rhs, window, f"{labels[0]}_{labels[1]}->{labels[2]}", groups, of_batch


def go_through_the_batch(patch: pytest.MonkeyPatch) -> None:
    """Whatever it costs, rows go through the batch, where it has more than one."""
    patch.setattr(blocking, "ALIKE", range(2, 13))
    patch.setattr(convolution, "_goes_through_batch", lambda numbers, costs: blocking.alike_rows(numbers.batch))


@examples(20)
@given(convolutions(), *[st.booleans()] * 4)
def test_any_window_gives_the_bits_of_the_elementwise_form(case, small_blocks, shared_loops, segmented, alike):
    lhs, rhs, window, labels, groups, of_batch = case
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(small_products, "MOST_WORK", 0)
        if segmented:
            patch.setattr(contraction_order, "ONE_CHAIN", 2)
            patch.setattr(contraction_order, "SEGMENT", 4)
        if shared_loops:
            patch.setattr(gemm, "SHARED_TERMS", 0)
        if alike:
            go_through_the_batch(patch)
        if small_blocks:
            patch.setattr(tile_epilogue, "LEAST_RUN", 1)
            patch.setattr(tile_epilogue, "TRANSPOSED_ROWS", 8)
            patch.setattr(blocking, "MAX_ROWS", 12)
            patch.setattr(implicit_gemm_rows, "BLOCK_TERMS", 3)
            patch.setattr(implicit_gemm_rows, "LOCAL_TERMS", 2)
        text = convolution_text(
            lhs, rhs, window, labels, groups=1 if of_batch else groups, batch_groups=groups if of_batch else 1
        )
        left, rest = labels.split("_")
        compare(text, f32(*(lhs[c] for c in left)), f32(*(rhs[c] for c in rest.split("->")[0]), seed=1), fast="")


# name -> (lhs, rhs, window, labels)
CASES = {
    "forward": ({"b": 2, "f": 8, "0": 9, "1": 10}, {"i": 8, "o": 20, "0": 3, "1": 3}, [SAME, SAME], "b01f_01io->b01f"),
    "stem": (
        {"b": 2, "f": 3, "0": 20, "1": 20}, {"i": 3, "o": 16, "0": 7, "1": 7},
        [{"size": 7, "stride": 2, "low": 3, "high": 3}] * 2, "b01f_01io->b01f",
    ),
    "pointwise, strided": (
        {"b": 1, "f": 24, "0": 14, "1": 14}, {"i": 24, "o": 40, "0": 1, "1": 1},
        [{"size": 1, "stride": 2}] * 2, "b01f_01io->b01f",
    ),
    "gradient of the input": (
        {"b": 2, "f": 20, "0": 9, "1": 10}, {"i": 20, "o": 8, "0": 3, "1": 3}, [{**SAME, "reversal": 1}] * 2,
        "b01f_01oi->b01f",
    ),
    **{
        f"gradient of the input, {n} features": (
            {"b": 1, "f": n, "0": 9, "1": 10}, {"i": n, "o": 16, "0": 3, "1": 3}, [SAME] * 2, "b01f_01oi->b01f",
        )
        for n in (8, 16, 24, 40)
    },
    "gradient of the input, strided": (
        {"b": 2, "f": 20, "0": 5, "1": 5}, {"i": 20, "o": 8, "0": 3, "1": 3},
        [{"size": 3, "low": 1, "high": 2, "base": 2, "reversal": 1}] * 2, "b01f_01oi->b01f",
    ),
    "gradient of the filter": (
        {"b": 6, "f": 5, "0": 9, "1": 10}, {"i": 5, "o": 20, "0": 9, "1": 10},
        [{"size": 9, "low": 1, "high": 1}, {"size": 10, "low": 1, "high": 1}], "f01b_i01o->01bf",
    ),
    "gradient of the filter, strided": (
        {"b": 6, "f": 5, "0": 10, "1": 10}, {"i": 5, "o": 20, "0": 5, "1": 5},
        [{"size": 5, "low": 0, "high": 1, "dilation": 2}] * 2, "f01b_i01o->01bf",
    ),
    "features first": (
        {"b": 2, "f": 8, "0": 9, "1": 10}, {"i": 8, "o": 20, "0": 3, "1": 3}, [SAME, SAME], "bf01_oi01->bf01",
    ),
    "nothing outside": (
        {"b": 2, "f": 8, "0": 9, "1": 12}, {"i": 8, "o": 20, "0": 3, "1": 3},
        [{"size": 3, "stride": 2, "base": 2}, {"size": 3}], "b01f_01io->b01f",
    ),
    "one dimension": ({"b": 2, "f": 8, "0": 50}, {"i": 8, "o": 20, "0": 5}, [{"size": 5, "low": 4}], "b0f_0io->b0f"),
    "three dimensions": (
        {"b": 1, "f": 4, "0": 5, "1": 6, "2": 7}, {"i": 4, "o": 9, "0": 3, "1": 3, "2": 3},
        [SAME] * 3, "b012f_012io->b012f",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_convolutions_of_programs(name):
    lhs, rhs, window, labels = CASES[name]
    left, rest = labels.split("_")
    a, b = f32(*(lhs[c] for c in left)), f32(*(rhs[c] for c in rest.split("->")[0]), seed=1)
    compare(convolution_text(lhs, rhs, window, labels), a, b)


# name -> (lhs, rhs, window, labels)
BATCHES = {
    "same": ({"b": 8, "f": 8, "0": 3, "1": 2}, {"i": 8, "o": 40, "0": 3, "1": 3}, [SAME, SAME], "b01f_01io->b01f"),
    "strided": (
        {"b": 12, "f": 5, "0": 5, "1": 4}, {"i": 5, "o": 20, "0": 3, "1": 3}, [{**SAME, "stride": 2}, SAME],
        "bf01_oi01->bf01",
    ),
    "gradient of the input, strided": (
        {"b": 6, "f": 20, "0": 3, "1": 3}, {"i": 20, "o": 18, "0": 3, "1": 3},
        [{"size": 3, "low": 1, "high": 2, "base": 2, "reversal": 1}] * 2, "b01f_01oi->b01f",
    ),
    "gradient of the filter": (
        {"b": 10, "f": 4, "0": 4, "1": 4}, {"i": 4, "o": 20, "0": 4, "1": 4}, [{"size": 4, "low": 1, "high": 1}] * 2,
        "fb01_io01->fb01",
    ),
    "tiles of two placings": (
        {"b": 7, "f": 8, "0": 3, "1": 2}, {"i": 8, "o": 40, "0": 3, "1": 3}, [SAME, SAME], "b01f_01io->b01f",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BATCHES)
def test_rows_may_go_through_the_batch(name, monkeypatch):
    go_through_the_batch(monkeypatch)
    lhs, rhs, window, labels = BATCHES[name]
    monkeypatch.setattr(blocking, "ALIKE", range(2, 7) if lhs["b"] == 7 else blocking.ALIKE)
    left, rest = labels.split("_")
    a, b = f32(*(lhs[c] for c in left)), f32(*(rhs[c] for c in rest.split("->")[0]), seed=1)
    compare(convolution_text(lhs, rhs, window, labels), a, b)


def test_rows_go_through_the_batch_where_many_elements_lie_outside():
    def goes(side: int, batch: int) -> bool:
        lhs, rhs = {"b": batch, "f": 64, "0": side, "1": side}, {"i": 64, "o": 64, "0": 3, "1": 3}
        text = convolution_text(lhs, rhs, [SAME, SAME], "b01f_01io->b01f")
        return convolution._goes_through_batch(ImplicitGemm(parse(text).entry.root), Costs())

    assert goes(4, 8) and goes(4, 32) and not goes(4, 1) and not goes(4, 31) and not goes(112, 8)


@pytest.mark.parametrize(
    "window", [SAME, {"size": 3, "stride": 2}, {"size": 2, "low": 2, "dilation": 3}, {**SAME, "base": 2, "high": 2}]
)
def test_the_share_of_products_outside(window):
    lhs, rhs = {"b": 1, "f": 1, "0": 5, "1": 7}, {"i": 1, "o": 1, "0": window["size"], "1": window["size"]}
    text = convolution_text(lhs, rhs, [window, window], "b01f_01io->b01f")
    n = ImplicitGemm(parse(text).entry.root)
    hits = 1
    for size, count_, w in zip(n.sizes, n.counts, n.window, strict=True):
        at = np.arange(count_)[:, None] * w.stride + np.arange(w.size) * w.window_dilation - w.padding_low
        inside = (at >= 0) & (at <= (size - 1) * w.base_dilation)
        hits *= inside.mean()
    assert n.outside == pytest.approx(1 - hits)


@pytest.mark.parametrize("labels", ["bf01_oi01->bf01", "b01f_io01->b01f"])
@pytest.mark.parametrize("reversal", [0, 1])
@pytest.mark.parametrize("way", ["packed", "local", "in parts"])
def test_filters_that_store_windows_are_turned_in_registers(labels, reversal, way, monkeypatch):
    if way == "in parts":  # of k, for which panels are made before
        monkeypatch.setattr(implicit_gemm_rows, "WHOLE_COLUMNS", 1 << 20)
        monkeypatch.setattr(implicit_gemm_rows, "LOCAL_TERMS", 18)
    else:
        monkeypatch.setattr(
            gemm, "choose_blocking", lambda p: blocking.Blocking(blocking.Tile(6, 2, "f32"), 18, 32, way)
        )
    lhs, rhs = {"b": 2, "f": 12, "0": 4, "1": 5}, {"i": 12, "o": 37, "0": 3, "1": 3}
    text = convolution_text(lhs, rhs, [{**SAME, "reversal": reversal}] * 2, labels)
    left, rest = labels.split("_")
    a, b = f32(*(lhs[c] for c in left)), f32(*(rhs[c] for c in rest.split("->")[0]), seed=1)
    compare(text, a, b, fast="panel_of_windows")


@pytest.mark.parametrize("name", ["f32", "f64", "bf16", "s32"])
def test_sums_are_turned_where_columns_lie_side_by_side(name):
    lhs, rhs = {"b": 3, "f": 5, "0": 5, "1": 7}, {"i": 5, "o": 21, "0": 3, "1": 3}
    text = convolution_text(lhs, rhs, [SAME, SAME], "bf01_oi01->bf01", name)
    dtype = parse(text).entry.root.shape.element_type.dtype
    compare(
        text, (4 * f32(3, 5, 5, 7)).astype(dtype), (4 * f32(21, 5, 3, 3, seed=1)).astype(dtype), fast="columns_of_sums"
    )


def test_what_follows_a_convolution_is_computed_from_turned_sums():
    text = """HloModule m
    ENTRY main {
      x = f32[3,5,5,7] parameter(0)
      w = f32[21,5,3,3] parameter(1)
      b = f32[21] parameter(2)
      y = f32[3,21,5,7] parameter(3)
      c = f32[3,21,5,7] convolution(x, w), window={size=3x3 pad=1_1x1_1}, dim_labels=bf01_oi01->bf01
      d = f32[3,21,5,7] broadcast(b), dimensions={1}
      s = f32[3,21,5,7] add(c, d)
      ROOT t = f32[3,21,5,7] multiply(s, y)
    }"""
    ours, plain = (Compiled(fusion_of(parse(text), kind)) for kind in ("convolution", "loop"))
    assert "columns_of_sums" in text_of(ours)
    args = f32(3, 5, 5, 7), f32(21, 5, 3, 3, seed=1), f32(21, seed=2), f32(3, 21, 5, 7, seed=3)
    for got, want in zip(ours(*args), plain(*args), strict=True):
        np.testing.assert_array_equal(got.view(np.uint8), want.view(np.uint8))


def test_convolutions_of_different_sizes_share_their_way_through_the_window():
    loops = []
    for side, features in ((9, 8), (14, 24)):
        sizes = {"b": 2, "f": features, "0": side, "1": side + 3}
        kernel = {"i": features, "o": 20, "0": 3, "1": 3}
        text = convolution_text(sizes, kernel, [SAME, SAME], "b01f_01io->b01f")
        helpers = [h for k in convolution.emit(fusion_of(parse(text), "convolution"), DEFAULT_CPU) for h in k.helpers]
        loops += [[h for h in helpers if "void window" in h]]
    assert len(loops[0]) == 1 and loops[0] == loops[1]


DEPTHWISE = {
    "forward": ({"f": 16}, {"i": 1, "o": 16, "0": 3, "1": 3}, SAME, "b01f_01io->b01f", 16, 1),
    "strided": ({"f": 8}, {"i": 1, "o": 8, "0": 3, "1": 3}, {**SAME, "stride": 2}, "b01f_01io->b01f", 8, 1),
    "gradient of the input": (
        {"f": 16}, {"i": 1, "o": 16, "0": 3, "1": 3}, {"size": 3, "low": 1, "high": 2, "base": 2, "reversal": 1},
        "b01f_01io->b01f", 16, 1,
    ),
    "gradient of the filter": (
        {"b": 16, "f": 5}, {"i": 5, "o": 16, "0": 9, "1": 9}, {"size": 9, "low": 1, "high": 1},
        "f01b_i01o->01bf", 1, 16,
    ),
    "kernel stored otherwise": ({"f": 16}, {"i": 1, "o": 16, "0": 3, "1": 3}, SAME, "b01f_oi01->b01f", 16, 1),
    "two features of each": ({"f": 12}, {"i": 1, "o": 24, "0": 3, "1": 3}, SAME, "b01f_01io->b01f", 12, 1),
    "few groups": ({"f": 12}, {"i": 1, "o": 12, "0": 3, "1": 3}, SAME, "b01f_01io->b01f", 12, 1),
}  # fmt: skip


@pytest.mark.parametrize("name", DEPTHWISE)
def test_depthwise(name):
    lhs, rhs, w, labels, groups, batch_groups = DEPTHWISE[name]
    lhs = {"b": 2, "0": 9, "1": 9} | lhs
    text = convolution_text(lhs, rhs, [w, w], labels, groups=groups, batch_groups=batch_groups)
    left, rest = labels.split("_")
    fast = "RX_FMA_F32" if name == "few groups" else "rx_multiply_add_vector"  # too few for the lanes of a vector
    compare(text, f32(*(lhs[c] for c in left)), f32(*(rhs[c] for c in rest.split("->")[0]), seed=1), fast=fast)


@pytest.mark.parametrize("size", [3, 5, 7])
@pytest.mark.parametrize("labels", ["bf01_oi01->bf01", "b01f_01io->b01f"])
def test_a_short_stencil_is_plain_loops(labels, size):
    """One feature in and out: nothing is packed for a product of one column. In a window of more than 16 elements,
    placings are the lanes."""
    lhs, rhs = {"b": 2, "f": 1, "0": 40, "1": 33}, {"i": 1, "o": 1, "0": size, "1": size}
    text = convolution_text(lhs, rhs, [{**SAME, "size": size, "low": size // 2, "high": size // 2}] * 2, labels)
    left, rest = labels.split("_")
    arrays = f32(*(lhs[c] for c in left)), f32(*(rhs[c] for c in rest.split("->")[0]), seed=1)
    compare(text, *arrays, fast="const int inside" if size > 4 else "RX_FMA_F32")


@st.composite
def stencils(draw):
    """(lhs, rhs, window, labels, groups) of a convolution with one feature in each group, and lanes along its rows."""
    rank, groups = draw(st.integers(1, 3)), draw(st.sampled_from([1, 1, 3]))
    window, lhs, rhs = [], {"b": draw(st.integers(1, 3)), "f": groups}, {"i": 1, "o": groups}
    for d in range(rank):
        last = d == rank - 1
        w = {
            "size": draw(st.integers(17, 60) if last else st.integers(1, 4)),
            "stride": 1 if last else draw(st.integers(1, 2)),
            "base": 1 if last else draw(st.sampled_from([1, 1, 2])),
            "dilation": draw(st.sampled_from([1, 1, 2, 19])) if last else draw(st.sampled_from([1, 2])),
            "reversal": draw(st.integers(0, 1)),
        }
        w["low"], w["high"] = draw(st.integers(-1, 70)), draw(st.integers(-1, 70))
        size = draw(st.integers(1, 90) if last else st.integers(1, 5))
        while count(size, w) < (8 if last else 1):
            size += 1
        lhs[str(d)], rhs[str(d)] = size, w["size"]
        window.append(w)
    spatial = "".join(map(str, range(rank)))
    labels = [f"bf{spatial}", draw(st.sampled_from([f"oi{spatial}", f"{spatial}io"])), f"bf{spatial}"]
    return lhs, rhs, window, f"{labels[0]}_{labels[1]}->{labels[2]}", groups


@examples(20)
@given(stencils(), st.booleans(), st.booleans())
def test_any_stencil_gives_the_bits_of_the_elementwise_form(case, segmented, little_at_a_time):
    lhs, rhs, window, labels, groups = case
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(small_products, "MOST_WORK", 0)
        if segmented:
            patch.setattr(contraction_order, "ONE_CHAIN", 4)
            patch.setattr(contraction_order, "SEGMENT", 8)
        if little_at_a_time:
            patch.setattr(stencil, "REACH", 20)
        text = convolution_text(lhs, rhs, window, labels, groups=groups)
        left, rest = labels.split("_")
        arrays = f32(*(lhs[c] for c in left)), f32(*(rhs[c] for c in rest.split("->")[0]), seed=1)
        arrays[1].flat[0] = np.inf  # what lies outside lhs is no term
        compare_bits(text, *arrays, fast="const int inside")


def test_a_long_filter_is_summed_in_segments():
    window = [{"size": 700, "low": 350, "high": 349}]
    text = convolution_text({"b": 2, "f": 1, "0": 900}, {"i": 1, "o": 1, "0": 700}, window, "bf0_oi0->bf0")
    compare(text, f32(2, 1, 900), f32(1, 1, 700, seed=1), fast="segment = ")


@pytest.mark.parametrize("name", ["f64", "bf16", "s32", "u64"])
def test_types_of_stencils(name):
    text = convolution_text({"b": 2, "f": 1, "0": 50}, {"i": 1, "o": 1, "0": 21}, [{"size": 21, "low": 10, "high": 10}],
                            "bf0_oi0->bf0", name)  # fmt: skip
    dtype = parse(text).entry.root.shape.element_type.dtype
    compare(text, abs(4 * f32(2, 1, 50)).astype(dtype), abs(4 * f32(1, 1, 21, seed=1)).astype(dtype), fast="inside")


@pytest.mark.parametrize("name", ["f64", "bf16", "f8e4m3fn", "s32"])
def test_types(name):
    lhs, rhs, window, labels = CASES["forward"]
    text = convolution_text(lhs, rhs, window, labels, name)
    dtype = parse(text).entry.root.shape.element_type.dtype
    compare(text, (4 * f32(2, 9, 10, 8)).astype(dtype), (4 * f32(3, 3, 8, 20, seed=1)).astype(dtype))


def test_padding_is_left_out_of_the_sum_even_for_infinities():
    lhs, rhs, window, labels = CASES["forward"]
    a, b = f32(2, 9, 10, 8), f32(3, 3, 8, 20, seed=1)
    b[0, 0, 0, 0], b[2, 2, 3, 4], a[0, 4, 4, 2] = np.inf, np.nan, -np.inf
    text = convolution_text(lhs, rhs, window, labels)
    module = parse(text)
    (got,), (want,) = (Compiled(fusion_of(module, kind))(a, b) for kind in ("convolution", "loop"))
    np.testing.assert_array_equal(got.view(np.uint8), want.view(np.uint8))
    assert np.isfinite(got[0, 0, 0, 0]), "the infinity of the kernel meets only padding here"


def test_producers_and_consumers_live_in_the_kernels_of_the_convolution():
    text = """HloModule m
    ENTRY main {
      x = bf16[2,9,10,8] parameter(0)
      w = f32[3,3,8,20] parameter(1)
      bias = f32[20] parameter(2)
      res = f32[2,9,10,20] parameter(3)
      c = f32[2,9,10,8] convert(x)
      two = f32[] constant(2)
      twos = f32[3,3,8,20] broadcast(two), dimensions={}
      ww = f32[3,3,8,20] multiply(w, twos)
      y = f32[2,9,10,20] convolution(c, ww), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f
      bb = f32[2,9,10,20] broadcast(bias), dimensions={3}
      pre = f32[2,9,10,20] add(y, bb)
      sum = f32[2,9,10,20] add(pre, res)
      zero = f32[] constant(0)
      zeros = f32[2,9,10,20] broadcast(zero), dimensions={}
      relu = f32[2,9,10,20] maximum(sum, zeros)
      flat = f32[180,20] reshape(relu)
      ROOT t = (f32[180,20], f32[2,9,10,20]) tuple(flat, pre)
    }"""
    module = parse(text)
    x = f32(2, 9, 10, 8).astype(module.entry.parameters[0].shape.element_type.dtype)
    compare(text, x, f32(3, 3, 8, 20, seed=1), f32(20, seed=2), f32(2, 9, 10, 20, seed=3))


def test_every_access_of_a_stencil_lies_inside(capfd):
    text = convolution_text({"b": 2, "f": 1, "0": 3, "1": 45}, {"i": 1, "o": 1, "0": 2, "1": 20},
                            [{"size": 2, "low": 1}, {"size": 20, "low": 9, "high": 12}], "bf01_oi01->bf01")  # fmt: skip
    assert_inside(text, f32(2, 1, 3, 45), f32(1, 1, 2, 20, seed=1), capfd)


@pytest.mark.parametrize("name", ["gradient of the input, strided", "gradient of the filter, strided", "one dimension"])
def test_every_access_lies_inside(name, capfd):
    lhs, rhs, window, labels = CASES[name]
    left, rest = labels.split("_")
    a, b = f32(*(lhs[c] for c in left)), f32(*(rhs[c] for c in rest.split("->")[0]), seed=1)
    assert_inside(convolution_text(lhs, rhs, window, labels), a, b, capfd)


def assert_inside(text, a, b, capfd):
    """Oclgrind reports nothing, and computes the same bits."""
    fusion = fusion_of(parse(text), "convolution")
    compiled = Compiled(fusion, replace(DEFAULT_CPU, capabilities=OPENCL_CPU), platform=OCLGRIND)
    (checked,) = compiled(a, b)
    assert not reports(capfd.readouterr().err, compiled)
    np.testing.assert_array_equal(checked.view(np.uint8), Compiled(fusion)(a, b)[0].view(np.uint8))
