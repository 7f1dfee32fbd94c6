"""Long sums: segments that depend on shapes alone, few lost digits, and the same bits however the kernel is written."""

from itertools import pairwise

import numpy as np
import pytest

import refxla
from refxla.analysis.reduction_order import ONE_CHAIN, SEGMENT, reduction_order

EPS = float(np.finfo(np.float32).eps)
REDUCERS = """
    add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
    max { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] maximum(a, b) }
"""
# Operands and the dimensions that are reduced: rows, rows of several pieces, columns; split among work items or not.
FORMS = [
    ((16, 102_401), (1,)),
    ((3, 140_001), (1,)),
    ((600, 17_000), (1,)),
    ((8, 10_000, 3), (1,)),
    ((102_401, 16), (0,)),
    ((32, 64, 3136), (0, 2)),
    ((60, 40, 301), (0, 2)),
    ((3, 20, 3136, 16), (0, 2)),
    ((1500, 300), (0,)),
]


def reduction_text(shape, reduced):
    """A sum and a maximum of one array."""
    to = ",".join(str(n) for d, n in enumerate(shape) if d not in reduced)
    of, dimensions = ",".join(map(str, shape)), ",".join(map(str, reduced))
    return f"""HloModule m
        {REDUCERS}
        ENTRY e {{
            x = f32[{of}] parameter(0)
            z = f32[] constant(3)
            low = f32[] constant(-inf)
            s = f32[{to}] reduce(x, z), dimensions={{{dimensions}}}, to_apply=add
            m = f32[{to}] reduce(x, low), dimensions={{{dimensions}}}, to_apply=max
            ROOT r = (f32[{to}], f32[{to}]) tuple(s, m)
        }}"""


def random(shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def rms(got, exact):
    """The error in units of eps, both as roots of mean squares."""
    return float(np.sqrt(((np.asarray(got) - exact) ** 2).mean() / (exact**2).mean())) / EPS


def chain_of(order):
    """The elements of an accumulator in a segment."""
    return order.reduced_size / (order.lanes * order.partials * order.segments)


@pytest.mark.parametrize(("shape", "reduced"), FORMS)
def test_a_long_sum_has_short_chains(shape, reduced):
    order = reduction_order(shape, reduced)
    assert order.segments > 1 or order.partials > 1
    assert chain_of(order) <= 2 * ONE_CHAIN
    assert order.segments <= max(4 * chain_of(order), 4 * SEGMENT)


def test_a_short_sum_is_one_chain():
    assert reduction_order((64, ONE_CHAIN * 32), (1,)).segments == 1
    assert reduction_order((ONE_CHAIN, 64), (0,)).segments == 1


@pytest.mark.parametrize(("shape", "reduced"), FORMS)
def test_a_long_sum_keeps_its_digits(shape, reduced):
    """One chain loses 10 to 30; the same bits without fusion, and a maximum beside it has no segments."""
    x = random(shape)
    text = reduction_text(shape, reduced)
    total, most = refxla.compile(text)(x)
    assert rms(total, 3 + x.sum(reduced, dtype=np.float64)) < 4
    np.testing.assert_array_equal(most, x.max(reduced))
    np.testing.assert_array_equal(refxla.compile(text, without=("fusion",))(x)[0], total)


def test_a_dot_of_paired_rows_keeps_its_digits():
    """Such a dot becomes a reduction: its terms were one chain in each lane, or in all."""
    for rows, along in (((16, 102_401), 1), ((8, 10_000, 3), 1)):
        x, y = random(rows), random(rows, 1)
        batch = [d for d in range(len(rows)) if d != along]
        to, of = ",".join(str(rows[d]) for d in batch), ",".join(map(str, rows))
        sides = ", ".join(
            f"{side}_batch_dims={{{','.join(map(str, batch))}}}, {side}_contracting_dims={{{along}}}"
            for side in ("lhs", "rhs")
        )
        text = f"x = f32[{of}] parameter(0)\ny = f32[{of}] parameter(1)\nROOT d = f32[{to}] dot(x, y), {sides}"
        assert rms(refxla.compile(text)(x, y), (x.astype(np.float64) * y).sum(along)) < 4


def test_the_order_is_the_one_that_is_written_down():
    """Segments from zero in each lane, then their sums in order, then the lanes by halves, then the initial value."""
    rows, size = 2, 32 * (ONE_CHAIN + 300) + 7
    x, order = random((rows, size)), reduction_order((rows, size), (1,))
    chunks, lanes = size // order.lanes, order.lanes
    bounds = [n * chunks // order.segments for n in range(order.segments + 1)]
    total = np.zeros((rows, lanes), np.float32)
    for first, end in pairwise(bounds):
        part = np.zeros((rows, lanes), np.float32)
        for chunk in range(first, end):
            part += x[:, chunk * lanes : (chunk + 1) * lanes]
        if end == chunks:
            part[:, : size % lanes] += x[:, chunks * lanes :]
        total += part
    while lanes > 1:
        lanes //= 2
        total = total[:, :lanes] + total[:, lanes:]
    np.testing.assert_array_equal(refxla.compile(reduction_text((rows, size), (1,)))(x)[0], 3 + total[:, 0])


def test_pieces_of_a_concatenate_have_the_bits_of_the_whole():
    """A loop over a row is cut where the operand changes, in the middle of a segment."""
    pieces = [random((3, n), n) for n in (9_001, 13_000, 4_096)]
    shapes = [",".join(map(str, p.shape)) for p in pieces]
    parameters = "\n".join(f"x{n} = f32[{shape}] parameter({n})" for n, shape in enumerate(shapes))
    whole = np.concatenate(pieces, axis=1)
    text = f"""HloModule m
        {REDUCERS}
        ENTRY e {{
            {parameters}
            z = f32[] constant(3)
            x = f32[3,{whole.shape[1]}] concatenate(x0, x1, x2), dimensions={{1}}
            ROOT s = f32[3] reduce(x, z), dimensions={{1}}, to_apply=add
        }}"""
    got = refxla.compile(text)(*pieces)
    np.testing.assert_array_equal(got, refxla.compile(reduction_text(whole.shape, (1,)))(whole)[0])
