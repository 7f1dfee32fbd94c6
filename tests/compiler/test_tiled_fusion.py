"""Tiled fusion: which ones, that no bit changes, what memory they take, and what is said about it."""

from __future__ import annotations

import numpy as np
import pytest
from refxla_spec.text import parse

import refxla
from refxla.analysis import tiling_analysis
from refxla.compiler import driver, planning
from refxla.ir.merged_body import Axis
from refxla.ir.plan import Launch
from refxla.runtime.devices import choose
from refxla.scheduling import tiled_fusion

ADD = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }"
LARGEST = "largest { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] maximum(a, b) }"


def attention(heads, queries, keys, size, batch=2, also=False):
    """softmax(q k' / 8, masked by index) v, and `also` the softmax itself."""
    s, r = f"f32[{batch},{heads},{queries},{keys}]", f"f32[{batch},{heads},{queries}]"
    q, k = f"f32[{batch},{heads},{queries},{size}]", f"f32[{batch},{heads},{keys},{size}]"
    batches = "lhs_batch_dims={0,1}, rhs_batch_dims={0,1}, lhs_contracting_dims={3}"
    root = f"t = ({q}, {s}) tuple(o, p)" if also else f"out = {q} copy(o)"
    return f"""HloModule m
    {ADD}
    {LARGEST}
    ENTRY e {{ q = {q} parameter(0)
        k = {k} parameter(1)
        v = {k} parameter(2)
        d = {s} dot(q, k), {batches}, rhs_contracting_dims={{3}}
        c = f32[] constant(0.125)
        cs = {s} broadcast(c), dimensions={{}}
        scaled = {s} multiply(d, cs)
        i = s32[{queries},{keys}] iota(), iota_dimension=0
        j = s32[{queries},{keys}] iota(), iota_dimension=1
        seen = pred[{queries},{keys}] compare(i, j), direction=GE
        mask = pred[{batch},{heads},{queries},{keys}] broadcast(seen), dimensions={{2,3}}
        low = f32[] constant(-1e30)
        lows = {s} broadcast(low), dimensions={{}}
        x = {s} select(mask, scaled, lows)
        inf = f32[] constant(-inf)
        m = {r} reduce(x, inf), dimensions={{3}}, to_apply=largest
        ms = {s} broadcast(m), dimensions={{0,1,2}}
        y = {s} subtract(x, ms)
        z = {s} exponential(y)
        zero = f32[] constant(0)
        n = {r} reduce(z, zero), dimensions={{3}}, to_apply=add
        ns = {s} broadcast(n), dimensions={{0,1,2}}
        p = {s} divide(z, ns)
        o = {q} dot(p, v), {batches}, rhs_contracting_dims={{2}}
        ROOT {root} }}"""


MLP = """HloModule m
    ENTRY e { x = f32[200,24] parameter(0)
        w = f32[24,96] parameter(1)
        u = f32[96,24] parameter(2)
        h = f32[200,96] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        t = f32[200,96] tanh(h)
        o = f32[200,24] dot(t, u), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        ROOT r = f32[200,24] add(o, x) }"""

# Heads in the middle, and the queries a part of a wider array: what a tile reads lies in pieces.
APART = """HloModule m
    ENTRY e { x = f32[2,40,144] parameter(0)
        k = f32[2,30,3,16] parameter(1)
        part = f32[2,40,48] slice(x), slice={[0:2], [0:40], [48:96]}
        heads = f32[2,40,3,16] reshape(part)
        q = f32[2,3,40,16] transpose(heads), dimensions={0,2,1,3}
        s = f32[2,3,40,30] dot(q, k), lhs_batch_dims={0,1}, rhs_batch_dims={0,2}, lhs_contracting_dims={3},
            rhs_contracting_dims={3}
        t = f32[2,3,40,30] tanh(s)
        ROOT o = f32[2,3,40,16] dot(t, k), lhs_batch_dims={0,1}, rhs_batch_dims={0,2}, lhs_contracting_dims={3},
            rhs_contracting_dims={1} }"""

PROGRAMS = {
    "attention": attention(3, 64, 40, 16),
    "attention of a prime": attention(3, 61, 37, 16),
    "attention with its softmax": attention(2, 61, 40, 8, also=True),
    "layers": MLP,
    "pieces": APART,
}


def cut(monkeypatch, which):
    """Everything is worth it, and is cut in way number `which` of those that there are."""
    ways = tiled_fusion.TilingSearch._axes
    monkeypatch.setattr(tiled_fusion, "LEAST_PART", 1 << 25)
    monkeypatch.setattr(tiled_fusion, "LEAST_ROWS", 8)
    monkeypatch.setattr(tiled_fusion._Candidate, "gain", property(lambda self: len(self.groups)))

    def one(found, classes):
        all_ways = list(ways(found, classes))
        return iter([all_ways[which % len(all_ways)]])

    monkeypatch.setattr(tiled_fusion.TilingSearch, "_axes", staticmethod(one))


def given(text, seed=0):
    random = np.random.default_rng(seed)
    return [random.standard_normal(p.shape.dimensions).astype(np.float32) for p in parse(text).entry.parameters]


@pytest.fixture
def fresh(monkeypatch):
    """Nothing is kept on disk: the plan depends on what a test has changed."""
    monkeypatch.setattr(driver.compilation_cache, "load", lambda name: None)
    monkeypatch.setattr(driver.compilation_cache, "save", lambda name, made: None)


def needs_persistent_kernels():
    if not choose(None)[0].target.persistent:
        pytest.skip("the device has no persistent kernels")


@pytest.mark.parametrize("which", [0, 2])
@pytest.mark.parametrize("name", PROGRAMS)
def test_tiling_changes_no_bit(name, which, monkeypatch, fresh):
    needs_persistent_kernels()
    text = PROGRAMS[name]
    want = refxla.compile(text, without=("tiled-fusion",))
    cut(monkeypatch, which)
    made = refxla.compile(text)
    assert any(d.axes for d in made.planned.tiled_fusions), [str(d) for d in made.planned.tiled_fusions]
    assert not want.planned.tiled_fusions
    for seed in range(2):  # the second time tile buffers hold what the first one left
        arguments = given(text, seed)
        one, two = (driver.flatten(e(*arguments)) for e in (want, made))
        assert [a.tobytes() for a in one] == [a.tobytes() for a in two]


def planned(text):
    target = choose(None)[0].target
    return planning.plan_module(parse(text), target)[1]


def test_attention_writes_no_scores():
    needs_persistent_kernels()
    found = planned(attention(8, 1024, 1024, 64, batch=4))
    assert len(found.plan.kernels) == 1 and found.plan.arena_bytes < 8 << 20
    (decision,) = found.tiled_fusions
    assert len(decision.fusions) == 3 and decision.untiled > decision.tiled
    assert [a.block for a in decision.axes[:2]] == [1, 1] and decision.axes[2].size == 1024
    (launch,) = found.plan.steps
    assert isinstance(launch, Launch) and found.plan.kernels[launch.kernel].persistent
    assert max(launch.buffers) < len(found.plan.buffers)


def test_scores_that_others_read_are_written():
    needs_persistent_kernels()
    found = planned(attention(8, 1024, 1024, 64, batch=4, also=True))
    (decision,) = found.tiled_fusions
    assert 32 << 22 <= found.plan.results[1].bytes and found.plan.arena_bytes < 16 << 20
    assert decision.bytes == 32 << 22  # the scores before the softmax are not


def test_small_values_stay_as_they_are():
    needs_persistent_kernels()
    found = planned(attention(2, 64, 64, 16))
    assert not found.tiled_fusions


def test_a_sum_over_rows_keeps_them_together(monkeypatch):
    """Of what is summed over the rows, or seen transposed, the rows are no axis."""
    needs_persistent_kernels()
    cut(monkeypatch, 0)
    text = f"""HloModule m
    {ADD}
    ENTRY e {{ x = f32[64,48] parameter(0)
        w = f32[48,64] parameter(1)
        d = f32[64,64] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
        zero = f32[] constant(0)
        s = f32[64] reduce(d, zero), dimensions={{0}}, to_apply=add
        e = f32[64,64] exponential(d)
        t = f32[64,64] transpose(e), dimensions={{1,0}}
        b = f32[64,64] broadcast(s), dimensions={{1}}
        u = f32[64,64] add(t, b)
        ROOT o = f32[64,48] dot(u, x), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}} }}"""
    found = planned(text)
    for d in found.tiled_fusions:
        assert not (d.axes and {"dot.d", "dot.o"} <= set(d.fusions)), str(d)


def test_explain_says_what_is_tiled(fresh):
    needs_persistent_kernels()
    text = str(refxla.compile(attention(8, 512, 512, 64, batch=4)).explain())
    assert "in tiles of 1 of 4 x 1 of 8 x " in text and "instead of" in text and "us untiled" in text


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        ((6, 4), (24,), [([0, 1], [0])]),
        ((6, 4), (6, 1, 4), [([0], [0]), ([1], [2])]),
        ((2, 3, 5), (6, 5), [([0, 1], [0]), ([2], [1])]),
        ((1, 8), (2, 4), [([1], [0, 1])]),
    ],
)
def test_stretches_of_a_reshape(old, new, want):
    assert tiling_analysis.runs(old, new) == want


def test_the_last_step_begins_earlier():
    axis = Axis(10, 4)
    assert axis.count == 3 and axis.starts().tolist() == [0, 4, 6]


def test_empty_values_are_left_alone(monkeypatch):
    needs_persistent_kernels()
    cut(monkeypatch, 0)
    text = """HloModule m
    ENTRY e { x = f32[4,0] parameter(0)
        y = f32[0,6] parameter(1)
        d = f32[4,6] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        none = f32[0,3] reshape(x)
        z = f32[3,6] parameter(2)
        f = f32[0,6] dot(none, z), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        t = f32[4,6] tanh(d)
        ROOT r = (f32[4,6], f32[0,6]) tuple(t, f) }"""
    assert planned(text).plan.kernels
