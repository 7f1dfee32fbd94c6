"""Sums of many terms: as accurate as two chains of about the square root of their number, and the same bits however a
product is cut."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from products import SAME, agrees_with_loop, convolution_text, dot_text, random
from refxla_spec.text import parse

import refxla
from refxla.analysis.contraction_order import ONE_CHAIN, SEGMENT, segment_terms
from refxla.codegen.gpu.cumulative_rows import LEAST_ROWS, MOST_ROWS, TILE
from refxla.compiler.driver import Request, compile_request
from refxla.compiler.planning import plan_module
from refxla.device.tile_configurations import TileConfiguration, signature
from refxla.ir.fingerprint import Source
from refxla.runtime.devices import find

EPS = float(np.finfo(np.float32).eps)
# Of the gradient of a filter, whose window is the image: (lhs, rhs, window, labels) as in test_convolution.
FILTER = (
    {"b": 8, "f": 16, "0": 28, "1": 28}, {"i": 16, "o": 16, "0": 28, "1": 28},
    [{"size": 28, "low": 1, "high": 1}] * 2, "f01b_i01o->01bf",
)  # fmt: skip


def test_the_length_of_a_segment_is_a_power_of_two_of_about_the_square_root():
    assert segment_terms(ONE_CHAIN, "f32") == 0
    assert segment_terms(10**6, "s32") == segment_terms(10**6, "u64") == segment_terms(10**6, "pred") == 0
    for terms in (ONE_CHAIN + 1, 5000, 10**5, 10**6, 10**8):
        for name in ("f32", "f64", "c64"):
            length = segment_terms(terms, name)
            assert length >= SEGMENT and length & (length - 1) == 0
            assert max(length, terms / length) <= max(4 * terms**0.5, 4 * SEGMENT)


def test_segments_begin_where_tiles_of_a_gpu_do():
    """A work-group looks for the beginning of a segment of a cumulative sum between two tiles."""
    assert all(SEGMENT % (TILE // rows) == 0 for rows in (LEAST_ROWS, MOST_ROWS))


def test_the_order_is_the_one_that_is_written_down():
    """A chain from zero for each segment; the segments' sums in order, from zero."""
    k = 2 * SEGMENT + 77
    a, b = random("f32", (16, k)), random("f32", (k, 16), 1)
    got = refxla.compile(dot_text((16, k), (k, 16), lc=(1,), rc=(0,)))(a, b)
    total = np.zeros((16, 16), np.float32)
    for first in range(0, k, SEGMENT):
        chain = np.zeros((16, 16), np.float32)
        for n in range(first, min(k, first + SEGMENT)):  # a product of f32 is exact in longdouble, a sum all but so
            product = a[:, n, None].astype(np.longdouble) * b[n].astype(np.longdouble)
            chain = (chain.astype(np.longdouble) + product).astype(np.float32)
        total = total + chain
    np.testing.assert_array_equal(got, total)


def rms(got: np.ndarray, exact: np.ndarray) -> float:
    """The error in units of eps, both as roots of mean squares."""
    return float(np.sqrt((abs(got - exact) ** 2).mean() / (abs(exact) ** 2).mean())) / EPS


@pytest.mark.parametrize(
    ("m", "k", "n", "name"),
    [(32, 50_000, 32, "f32"), (2, 50_000, 64, "f32"), (64, 50_000, 1, "f32"), (8, 50_000, 8, "c64"),
     (8, 400_000, 8, "f32")],
)  # fmt: skip
def test_a_dot_of_many_terms_keeps_its_digits(m, k, n, name):
    """One chain of 50,000 terms is off by 30 to 50, of 400,000 by 100."""
    a, b = random(name, (m, k)), random(name, (k, n), 1)
    got = refxla.compile(dot_text((m, k), (k, n), lc=(1,), rc=(0,), name=name))(a, b)
    wide = np.complex128 if name == "c64" else np.float64
    assert rms(got, a.astype(wide) @ b.astype(wide)) < 8


def test_positive_terms_keep_their_digits():
    a, b = abs(random("f32", (16, 50_000))), abs(random("f32", (50_000, 16), 1))
    got = refxla.compile(dot_text(a.shape, b.shape, lc=(1,), rc=(0,)))(a, b)
    assert rms(got, a.astype(np.float64) @ b) < 4


@pytest.mark.parametrize("result", ["bf16", "f16"])
def test_narrow_results_are_rounded_once(result):
    """Of terms that are all positive, one chain of f32 loses so much that some results are the neighbour's."""
    k = 60_000
    a, b = abs(random(result, (16, k))), abs(random(result, (k, 16), 1))
    a, b = a / 64, b / 64
    got = refxla.compile(dot_text(a.shape, b.shape, lc=(1,), rc=(0,), name=result))(a, b)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    assert (got == exact.astype(a.dtype)).mean() > 0.99


def test_the_gradient_of_a_filter_keeps_its_digits():
    text = convolution_text(*FILTER)
    x, y = random("f32", (16, 28, 28, 8)), random("f32", (16, 28, 28, 16), 1)
    got = refxla.compile(text)(x, y)
    wide = np.pad(x.astype(np.float64), ((0, 0), (1, 1), (1, 1), (0, 0)))
    places = itertools.product(range(3), repeat=2)
    exact = [np.einsum("bhwc,bhwf->cf", wide[:, i : i + 28, j : j + 28], y.astype(np.float64)) for i, j in places]
    assert rms(got, np.reshape(exact, got.shape)) < 5  # one chain of its 12,544 terms: 17


# (m, k, n, transposed sides): blocks of k of all lengths, sides read where they lie, copied and in panels.
LONG = [
    (3, 1000, 70, ""), (1, 700, 40, ""), (12, 2 * SEGMENT + 1, 300, "r"), (300, 3 * SEGMENT, 20, ""),
    (300, 1100, 70, "l"), (40, 1537, 33, "lr"), (64, 1024, 1, ""), (100, 4097, 1, ""), (1, 900, 64, "r"),
    (2, 3000, 1, ""),
]  # fmt: skip


@pytest.mark.parametrize(
    ("m", "k", "n", "turned", "name"), [(*case, "f32") for case in LONG] + [(*case, "c64") for case in LONG[2:5]]
)
def test_all_forms_have_the_bits_of_the_elementwise_one(m, k, n, turned, name):
    lhs, lc = ((k, m), 0) if "l" in turned else ((m, k), 1)
    rhs, rc = ((n, k), 1) if "r" in turned else ((k, n), 0)
    agrees_with_loop(dot_text(lhs, rhs, lc=(lc,), rc=(rc,), name=name), random(name, lhs), random(name, rhs, 1))


CONVOLUTIONS = {
    "forward": ({"b": 1, "f": 96, "0": 9, "1": 10}, {"i": 96, "o": 20, "0": 3, "1": 3}, [SAME] * 2, "b01f_01io->b01f"),
    "many features": ({"b": 2, "f": 600, "0": 3}, {"i": 600, "o": 8, "0": 1}, [{"size": 1}], "b0f_0io->b0f"),
    "in blocks": ({"b": 6, "f": 50, "0": 9, "1": 10}, {"i": 50, "o": 8, "0": 10, "1": 11},
                  [{"size": 10, "low": 4, "high": 5}, {"size": 11, "low": 5, "high": 5}], "b01f_01io->b01f"),
    "rows of whole segments but the last": (
        {"b": 5, "f": 64, "0": 3, "1": 29}, {"i": 64, "o": 8, "0": 3, "1": 29},
        [{"size": 3, "low": 1, "high": 1}, {"size": 29, "low": 1, "high": 1}], "f01b_i01o->01bf"),
    "gradient of a filter": FILTER,
    "strided gradient": ({"b": 1, "f": 90, "0": 5, "1": 5}, {"i": 90, "o": 9, "0": 4, "1": 3},
                         [{"size": 4, "low": 2, "high": 2, "base": 2}, {"size": 3, "low": 1, "high": 2, "base": 2}],
                         "b01f_01oi->b01f"),
}  # fmt: skip


def programs() -> dict[str, str]:
    dots = {f"dot {m} {k} {n}": dot_text((m, k), (k, n), lc=(1,), rc=(0,)) for m, k, n, turned in LONG if not turned}
    depthwise = convolution_text(
        {"b": 1, "f": 32, "0": 40, "1": 41}, {"i": 1, "o": 32, "0": 30, "1": 31},
        [{"size": 30, "low": 1}, {"size": 31, "high": 2}], "b01f_01io->b01f", groups=32,
    )  # fmt: skip
    gradient = convolution_text(
        {"b": 32, "f": 5, "0": 14, "1": 15}, {"i": 5, "o": 32, "0": 14, "1": 15},
        [{"size": 14, "low": 1, "high": 1}, {"size": 15, "low": 1, "high": 1}], "f01b_i01o->01bf", batch_groups=32,
    )  # fmt: skip
    return (
        dots
        | {name: convolution_text(*case) for name, case in CONVOLUTIONS.items()}
        | {
            "depthwise": depthwise,
            "gradient of a depthwise filter": gradient,
        }
    )


@pytest.mark.parametrize("name", programs())
def test_the_bits_do_not_depend_on_how_a_product_is_cut(name):
    module = parse(programs()[name])
    device = find("pocl")
    names = [signature(f) for f in plan_module(module, device.target)[1].plan.fusions]
    arguments = [random("f32", p.shape.dimensions, n) for n, p in enumerate(module.entry.parameters)]
    wanted = agrees_with_loop(
        programs()[name], *arguments, kind="convolution" if "convolution(" in str(module) else "dot"
    )
    for configuration in (
        TileConfiguration(),
        TileConfiguration(terms=128, panels="local"),
        TileConfiguration(tile=(4, 3), terms=96),
        TileConfiguration(terms=512),
        TileConfiguration(terms=4096, rows=12),
    ):
        target = replace(device.target, tile_configurations=dict.fromkeys(names, configuration))
        got = compile_request(Request(Source.of(module), device, (), target))(*arguments)
        np.testing.assert_array_equal(got, wanted, err_msg=str(configuration))
