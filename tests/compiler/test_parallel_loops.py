"""Parallel loops: which loops' iterations cores, or items of a GPU, run apart from each other, and that no bit changes
by that."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from refxla_spec.text import parse

import refxla
from refxla.analysis.batch_dimensions import BatchDimensions, waits_for_all
from refxla.analysis.while_loop_analysis import counter_of, has_independent_iterations
from refxla.codegen.opencl_program import program
from refxla.compiler import driver, planning
from refxla.device.description import DEFAULT_CPU
from refxla.device.gpu_models import EMULATED, MODELS
from refxla.ir import merged_body as m
from refxla.ir import plan as p
from refxla.passes.pipeline import optimize
from refxla.runtime.devices import choose
from refxla.scheduling import computation_cost, loop_parallelization, parallel_loop, serial_control_flow
from refxla.scheduling.launch_costs import MergingOptions
from refxla.scheduling.scheduling_options import SchedulingOptions

SUM = "sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }"
ANY = "any { a = pred[] parameter(0) b = pred[] parameter(1) ROOT r = pred[] or(a, b) }"


def mapped(rows, body, shape="f32[16]", count=None):
    """A loop that computes each row of a result from a row of x."""
    inner = shape[shape.index("[") + 1 : -1]
    of, one = f"f32[{rows},{inner}]", f"f32[1,{inner}]"
    return f"""HloModule m
    {SUM}
    step {{ s = (f32[], {shape}) parameter(0)
        n = f32[] get-tuple-element(s), index=0
        v = {shape} get-tuple-element(s), index=1
        one = f32[] constant(1)
        next = f32[] add(n, one)
        w = {shape} sine(v)
        ROOT r = (f32[], {shape}) tuple(next, w) }}
    small {{ s = (f32[], {shape}) parameter(0)
        n = f32[] get-tuple-element(s), index=0
        v = {shape} get-tuple-element(s), index=1
        zero = f32[] constant(0)
        total = f32[] reduce(v, zero), dimensions={{0}}, to_apply=sum
        low = f32[] constant(9)
        big = pred[] compare(total, low), direction=GT
        end = f32[] constant(400)
        early = pred[] compare(n, end), direction=LT
        ROOT r = pred[] and(big, early) }}
    body {{ s = (s32[], {of}, {of}) parameter(0)
        k = s32[] get-tuple-element(s), index=0
        x = {of} get-tuple-element(s), index=1
        y = {of} get-tuple-element(s), index=2
        one = s32[] constant(1)
        zero = s32[] constant(0)
        next = s32[] add(k, one)
        row = {one} dynamic-slice(x, k, zero), dynamic_slice_sizes={{1,{inner}}}
        v = {shape} reshape(row)
        {body}
        back = {one} reshape(w)
        z = {of} dynamic-update-slice(y, back, k, zero)
        ROOT r = (s32[], {of}, {of}) tuple(next, x, z) }}
    more {{ s = (s32[], {of}, {of}) parameter(0)
        k = s32[] get-tuple-element(s), index=0
        n = s32[] constant({rows if count is None else count})
        ROOT r = pred[] compare(k, n), direction=LT }}
    ENTRY e {{ x = {of} parameter(0)
        zero = s32[] constant(0)
        none = f32[] constant(-5)
        y = {of} broadcast(none), dimensions={{}}
        init = (s32[], {of}, {of}) tuple(zero, x, y)
        loop = (s32[], {of}, {of}) while(init), condition=more, body=body
        ROOT z = {of} get-tuple-element(loop), index=2 }}"""


STRAIGHT = f"e = {'f32[16]'} exponential(v)\n w = f32[16] multiply(e, e)"
SEARCH = """start = f32[] constant(0)
        init = (f32[], f32[16]) tuple(start, v)
        inner = (f32[], f32[16]) while(init), condition=small, body=step
        w = f32[16] get-tuple-element(inner), index=1"""

# A batch of 12 sequences. The batch is not the first dimension of what is read and written in each step, an iota and a
# constant differ along it, and there is a conditional.
SEQUENCES = f"""HloModule m
    {SUM}
    up {{ p = (f32[12,4]) parameter(0)
        x = f32[12,4] get-tuple-element(p), index=0
        n = f32[12] iota(), iota_dimension=0
        w = f32[12,4] broadcast(n), dimensions={{0}}
        z = f32[12,4] add(x, w)
        ROOT r = (f32[12,4]) tuple(z) }}
    down {{ p = (f32[12,4]) parameter(0)
        x = f32[12,4] get-tuple-element(p), index=0
        z = f32[12,4] tanh(x)
        ROOT r = (f32[12,4]) tuple(z) }}
    body {{ s = (s32[], f32[12,4], f32[30,12,4], f32[30,12,4], f32[4,4]) parameter(0)
        k = s32[] get-tuple-element(s), index=0
        h = f32[12,4] get-tuple-element(s), index=1
        xs = f32[30,12,4] get-tuple-element(s), index=2
        ys = f32[30,12,4] get-tuple-element(s), index=3
        a = f32[4,4] get-tuple-element(s), index=4
        one = s32[] constant(1)
        zero = s32[] constant(0)
        next = s32[] add(k, one)
        x1 = f32[1,12,4] dynamic-slice(xs, k, zero, zero), dynamic_slice_sizes={{1,12,4}}
        x = f32[12,4] reshape(x1)
        c = f32[12] constant({{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}})
        cs = f32[12,4] broadcast(c), dimensions={{0}}
        d = f32[12,4] dot(h, a), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
        f0 = f32[] constant(0)
        t = f32[12] reduce(d, f0), dimensions={{1}}, to_apply=sum
        ts = f32[12,4] broadcast(t), dimensions={{0}}
        u = f32[12,4] add(d, x)
        v = f32[12,4] divide(u, cs)
        w = f32[12,4] subtract(v, ts)
        half = s32[] constant(15)
        early = pred[] compare(k, half), direction=LT
        given = (f32[12,4]) tuple(w)
        chosen = (f32[12,4]) conditional(early, given, given), true_computation=up, false_computation=down
        g = f32[12,4] get-tuple-element(chosen), index=0
        i = f32[12,4] sine(g)
        i1 = f32[1,12,4] reshape(i)
        zs = f32[30,12,4] dynamic-update-slice(ys, i1, k, zero, zero)
        ROOT r = (s32[], f32[12,4], f32[30,12,4], f32[30,12,4], f32[4,4]) tuple(next, i, xs, zs, a) }}
    more {{ s = (s32[], f32[12,4], f32[30,12,4], f32[30,12,4], f32[4,4]) parameter(0)
        k = s32[] get-tuple-element(s), index=0
        n = s32[] constant(30)
        ROOT r = pred[] compare(k, n), direction=LT }}
    ENTRY e {{ h = f32[12,4] parameter(0)
        xs = f32[30,12,4] parameter(1)
        a = f32[4,4] parameter(2)
        zero = s32[] constant(0)
        none = f32[] constant(0)
        ys = f32[30,12,4] broadcast(none), dimensions={{}}
        init = (s32[], f32[12,4], f32[30,12,4], f32[30,12,4], f32[4,4]) tuple(zero, h, xs, ys, a)
        loop = (s32[], f32[12,4], f32[30,12,4], f32[30,12,4], f32[4,4]) while(init), condition=more, body=body
        last = f32[12,4] get-tuple-element(loop), index=1
        all = f32[30,12,4] get-tuple-element(loop), index=3
        ROOT r = (f32[12,4], f32[30,12,4]) tuple(last, all) }}"""


def searches(limit="4", kept="x", other="x"):
    """A batch of searches, each of which ends by itself: x grows until it exceeds a limit. An element for which the
    search has ended keeps the value `kept`; the body tests `other`, the condition x."""
    return f"""HloModule m
    {ANY}
    body {{ s = (f32[24], s32[24]) parameter(0)
        x = f32[24] get-tuple-element(s), index=0
        n = s32[24] get-tuple-element(s), index=1
        limit = f32[] constant({limit})
        limits = f32[24] broadcast(limit), dimensions={{}}
        half = f32[] constant(1.25)
        halves = f32[24] broadcast(half), dimensions={{}}
        y = f32[24] multiply(x, halves)
        on = pred[24] compare({other}, limits), direction=LT
        z = f32[24] select(on, y, {kept})
        one = s32[] constant(1)
        ones = s32[24] broadcast(one), dimensions={{}}
        m = s32[24] add(n, ones)
        o = s32[24] select(on, m, n)
        ROOT r = (f32[24], s32[24]) tuple(z, o) }}
    more {{ s = (f32[24], s32[24]) parameter(0)
        x = f32[24] get-tuple-element(s), index=0
        limit = f32[] constant(4)
        limits = f32[24] broadcast(limit), dimensions={{}}
        on = pred[24] compare(x, limits), direction=LT
        no = pred[] constant(false)
        ROOT r = pred[] reduce(on, no), dimensions={{0}}, to_apply=any }}
    ENTRY e {{ x = f32[24] parameter(0)
        zero = s32[] constant(0)
        n = s32[24] broadcast(zero), dimensions={{}}
        init = (f32[24], s32[24]) tuple(x, n)
        ROOT loop = (f32[24], s32[24]) while(init), condition=more, body=body }}"""


PROGRAMS = {
    "rows": mapped(11, STRAIGHT),
    "rows with searches": mapped(11, SEARCH),
    "sequences": SEQUENCES,
    "searches": searches(),
}


def given(text, seed):
    random = np.random.default_rng(seed)
    return [random.random(p.shape.dimensions, np.float32) + 0.5 for p in parse(text).entry.parameters]


@pytest.fixture
def always(monkeypatch):
    """Whatever can be a parallel loop is one, and nothing is kept on disk: the plan depends on what a test changes."""
    monkeypatch.setattr(driver.compilation_cache, "load", lambda name: None)
    monkeypatch.setattr(driver.compilation_cache, "save", lambda name, made: None)
    monkeypatch.setattr(loop_parallelization, "GAIN", 1e9)
    monkeypatch.setattr(loop_parallelization, "START_US", 0.0)


def needs_persistent_kernels():
    if not choose(None)[0].target.persistent:
        pytest.skip("the device has no persistent kernels")


def tiles(plan):
    """The numbers of iterations of a plan's parallel loops."""
    bodies = [k.body for k in plan.kernels if isinstance(k.body, m.PersistentBody)]
    return [phase.axes[0].count for body in bodies for phase in body.phases if isinstance(phase, m.TiledPhase)]


@pytest.mark.parametrize("pieces", ["whole", "in pieces"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_parallel_loops_change_no_bit(name, pieces, monkeypatch, always):
    """Also if iterations are left and resumed many times, and if a loop takes several launches."""
    needs_persistent_kernels()
    text = PROGRAMS[name]
    want = refxla.compile(text, without=("parallel-loops",))
    if pieces == "in pieces":
        monkeypatch.setattr(serial_control_flow, "LAUNCH_NS", 1)
        monkeypatch.setattr(serial_control_flow, "LEAST_NS", 1)
        monkeypatch.setattr(parallel_loop, "PERSISTENT_US", 1e-9)
        monkeypatch.setattr(parallel_loop, "RESUMED_TILES", 1)
    made = refxla.compile(text)
    assert tiles(made.plan) and not tiles(want.plan)
    for seed in range(3):  # later ones find what the first one left in memory
        one, two = (driver.flatten(e(*given(text, seed))) for e in (want, made))
        assert [a.tobytes() for a in one] == [a.tobytes() for a in two]


def tiled_calls(plan):
    """Each call that an iteration of a parallel loop makes: the calling kernel, and the call."""
    for kernel in plan.kernels:
        if isinstance(kernel.body, m.IterationsBody):
            yield kernel, kernel.body.call
        for phase in kernel.body.phases if isinstance(kernel.body, m.PersistentBody) else ():
            if isinstance(phase, m.TiledPhase):
                yield from ((kernel, call) for call in phase.each)


@pytest.mark.parametrize("kind", ["cores", "items"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_no_iteration_copies_whole_results_to_private_memory_and_back(name, kind, always):
    """Others write their parts at the same time."""
    target = many(8) if kind == "cores" else EMULATED
    calls = list(tiled_calls(planning.plan_module(parse(PROGRAMS[name]), target)[1].plan))
    assert calls
    for caller, call in calls:
        kernel, parts = caller.calls[call.kernel], dict(call.offsets)
        if isinstance(kernel.body, m.FrameBody):
            own = set(parts) | {n for n, a in enumerate(kernel.arguments) if a.role == "input"}
            assert {kernel.body.call.arguments[n] for n in kernel.body.promoted} <= own


def test_small_results_of_iterations_that_take_different_times(monkeypatch):
    """The sums of 16 rows, whose loops have 3 to 48 iterations: 64 bytes, which cores write at the same time."""
    needs_persistent_kernels()
    text = f"""HloModule m
    {SUM}
    step {{ s = (s32[], s32[], f32[2000]) parameter(0)
        k = s32[] get-tuple-element(s), index=0
        n = s32[] get-tuple-element(s), index=1
        v = f32[2000] get-tuple-element(s), index=2
        one = s32[] constant(1)
        next = s32[] add(k, one)
        w = f32[2000] sine(v)
        ROOT r = (s32[], s32[], f32[2000]) tuple(next, n, w) }}
    small {{ s = (s32[], s32[], f32[2000]) parameter(0)
        k = s32[] get-tuple-element(s), index=0
        n = s32[] get-tuple-element(s), index=1
        ROOT r = pred[] compare(k, n), direction=LT }}
    body {{ s = (s32[], f32[16,2000], s32[16], f32[16]) parameter(0)
        k = s32[] get-tuple-element(s), index=0
        x = f32[16,2000] get-tuple-element(s), index=1
        n = s32[16] get-tuple-element(s), index=2
        y = f32[16] get-tuple-element(s), index=3
        one = s32[] constant(1)
        zero = s32[] constant(0)
        next = s32[] add(k, one)
        row = f32[1,2000] dynamic-slice(x, k, zero), dynamic_slice_sizes={{1,2000}}
        v = f32[2000] reshape(row)
        own = s32[1] dynamic-slice(n, k), dynamic_slice_sizes={{1}}
        count = s32[] reshape(own)
        init = (s32[], s32[], f32[2000]) tuple(zero, count, v)
        inner = (s32[], s32[], f32[2000]) while(init), condition=small, body=step
        w = f32[2000] get-tuple-element(inner), index=2
        z = f32[] constant(0)
        total = f32[] reduce(w, z), dimensions={{0}}, to_apply=sum
        back = f32[1] reshape(total)
        ys = f32[16] dynamic-update-slice(y, back, k)
        ROOT r = (s32[], f32[16,2000], s32[16], f32[16]) tuple(next, x, n, ys) }}
    more {{ s = (s32[], f32[16,2000], s32[16], f32[16]) parameter(0)
        k = s32[] get-tuple-element(s), index=0
        n = s32[] constant(16)
        ROOT r = pred[] compare(k, n), direction=LT }}
    ENTRY e {{ x = f32[16,2000] parameter(0)
        n = s32[16] parameter(1)
        zero = s32[] constant(0)
        none = f32[] constant(0)
        y = f32[16] broadcast(none), dimensions={{}}
        init = (s32[], f32[16,2000], s32[16], f32[16]) tuple(zero, x, n, y)
        loop = (s32[], f32[16,2000], s32[16], f32[16]) while(init), condition=more, body=body
        ROOT z = f32[16] get-tuple-element(loop), index=3 }}"""
    random = np.random.default_rng(3)
    x = random.standard_normal((16, 2000)).astype(np.float32)
    made = refxla.compile(text)
    assert tiles(made.plan)
    wanted = refxla.compile(text, without=("parallel-loops",))
    for _ in range(100):
        counts = random.permutation(16).astype(np.int32) * 3 + 3
        assert made(x, counts).tobytes() == wanted(x, counts).tobytes()


def items(plan):
    """The numbers of iterations that items of a GPU run."""
    return [k.body.count for k in plan.kernels if isinstance(k.body, m.IterationsBody)]


@pytest.mark.parametrize("pieces", ["whole", "in pieces"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_items_of_a_gpu_change_no_bit(name, pieces, monkeypatch, always):
    text = PROGRAMS[name]
    want = refxla.compile(text, without=("parallel-loops",))
    if pieces == "in pieces":
        monkeypatch.setattr(serial_control_flow, "LAUNCH_NS", 1)
        monkeypatch.setattr(serial_control_flow, "LEAST_NS", 1)
    made = refxla.compile(text, device="pocl:gpu")
    assert items(made.plan) and not tiles(made.plan)
    for seed in range(3):
        one, two = (driver.flatten(e(*given(text, seed))) for e in (want, made))
        assert [a.tobytes() for a in one] == [a.tobytes() for a in two]


@pytest.mark.parametrize("handover", [True, False])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_batch_is_a_launch_of_an_item_for_each_element_without_a_barrier(name, handover, always):
    target = replace(EMULATED, handover=handover)
    plan = planning.plan_module(parse(PROGRAMS[name]), target)[1].plan
    (kernel,) = [k for k in plan.kernels if isinstance(k.body, m.IterationsBody)]
    count = {"rows": 11, "rows with searches": 11, "sequences": 12, "searches": 24}[name]
    assert (kernel.body.count, kernel.items, kernel.work_group) == (count, 256, 256)
    assert f"in each of {count} work items" in str(plan)
    source = program([kernel], target).source
    code = source[source.index(" static inline void k") :]
    assert "barrier(" not in code and f"if (t0 < {count}" in code


def test_many_elements_of_a_batch_are_rounds_or_parts():
    merging = MergingOptions(units=100, group=256)
    costs = computation_cost.ComputationCosts(SchedulingOptions(merging=merging))
    sizes = (1, 1000, 1 << 16, 1 << 20, 9 << 14)
    assert [loop_parallelization._parts(n, costs) for n in sizes] == [1, 1000, 1 << 16, 1 << 16, 3 << 14]
    cheap, most = computation_cost.ComputationCost(1000.0, 0.0, 64), 100 * loop_parallelization.RESIDENT_ITEMS
    assert loop_parallelization._gains(cheap, most, 1500.0, costs)
    assert not loop_parallelization._gains(cheap, most + 1, 1500.0, costs)  # two rounds
    assert not loop_parallelization._gains(replace(cheap, bytes=1 << 20), 10, 1500.0, costs)


def test_an_item_runs_short_iterations_alone():
    """A launch takes longer than what an item computes of 16 elements, but not than its product with a large matrix."""

    def sequences(size):
        text = SEQUENCES.replace("4]", f"{size}]").replace("f32[4,", f"f32[{size},").replace(",12,4}", f",12,{size}}}")
        target = replace(MODELS["gpu:nvidia-sm90"].target, handover=False)
        return planning.plan_module(parse(text), target)[1].plan

    def launches(plan):
        return sum(isinstance(s, p.Repeat) and s.trip_count == 30 for s in plan.steps)

    assert items(sequences(4)) == [12] and not launches(sequences(4))
    assert not items(sequences(256)) and launches(sequences(256)) == 1


CHECKED = """
import sys
from dataclasses import replace
from refxla.device.gpu_models import EMULATED
from refxla.runtime import devices
usual = devices.Device.target.fget
devices.Device.target = property(lambda d: replace(EMULATED, fp64=usual(d).fp64, offsets=usual(d).offsets))
import refxla
from refxla.scheduling import loop_parallelization
loop_parallelization.GAIN, loop_parallelization.START_US = 1e9, 0.0
from test_parallel_loops import PROGRAMS, driver, given, items
for name in sys.argv[1:]:
    made = refxla.compile(PROGRAMS[name], device="oclgrind")
    assert items(made.plan)
    print(name, [a.tobytes().hex() for a in driver.flatten(made(*given(PROGRAMS[name], 0)))])
"""


@pytest.mark.skipif("oclgrind" not in [d.name for d in refxla.devices()], reason="Oclgrind is not installed")
def test_oclgrind_finds_nothing_in_items_that_run_iterations():
    here, names = Path(__file__).parent, ["rows", "searches"]
    environment = {**os.environ, "OCLGRIND_DATA_RACES": "1"}
    environment["PYTHONPATH"] = os.pathsep.join(map(str, (here, here.parent, *sys.path)))
    done = subprocess.run(
        [sys.executable, "-c", CHECKED, *names], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    for name, line in zip(names, done.stdout.splitlines(), strict=True):
        wanted = driver.flatten(refxla.compile(PROGRAMS[name])(*given(PROGRAMS[name], 0)))
        assert line == f"{name} {[a.tobytes().hex() for a in wanted]}"
    for word in ("race", "Invalid", "Uninitialized", "divergence", "barrier"):
        assert word not in done.stderr


def planned(text, cores=8):
    return planning.plan_module(parse(text), many(cores))[1]


def many(cores):
    return replace(DEFAULT_CPU, compute_units=cores, bare=True, persistent=True)


def test_a_batch_has_a_part_for_each_core(always):
    assert tiles(planned(SEQUENCES, 2).plan) == [2] and tiles(planned(SEQUENCES, 4).plan) == [4]
    assert tiles(planned(SEQUENCES, 96).plan) == [12]
    assert tiles(planned(mapped(11, STRAIGHT), 4).plan) == [11]


NESTED = """HloModule m
    body { s = (s32[], f32[64,3]) parameter(0)
        k = s32[] get-tuple-element(s), index=0
        v = f32[64,3] get-tuple-element(s), index=1
        one = s32[] constant(1)
        next = s32[] add(k, one)
        w = f32[64,3] sine(v)
        ROOT r = (s32[], f32[64,3]) tuple(next, w) }
    more { s = (s32[], f32[64,3]) parameter(0)
        k = s32[] get-tuple-element(s), index=0
        end = s32[] constant(5)
        ROOT r = pred[] compare(k, end), direction=LT }
    outer { s = (f32[], f32[64,3]) parameter(0)
        n = f32[] get-tuple-element(s), index=0
        v = f32[64,3] get-tuple-element(s), index=1
        one = f32[] constant(1)
        next = f32[] add(n, one)
        zero = s32[] constant(0)
        before = (s32[], f32[64,3]) tuple(zero, v)
        loop = (s32[], f32[64,3]) while(before), condition=more, body=body
        w = f32[64,3] get-tuple-element(loop), index=1
        ROOT r = (f32[], f32[64,3]) tuple(next, w) }
    again { s = (f32[], f32[64,3]) parameter(0)
        n = f32[] get-tuple-element(s), index=0
        end = f32[] constant(400)
        ROOT r = pred[] compare(n, end), direction=LT }
    ENTRY e { n = f32[] parameter(0)
        v = f32[64,3] parameter(1)
        before = (f32[], f32[64,3]) tuple(n, v)
        ROOT loop = (f32[], f32[64,3]) while(before), condition=again, body=outer }"""


def test_the_cost_of_a_computation_is_estimated_once(monkeypatch):
    """The scheduler of a loop's body asks again for the loops in it."""
    monkeypatch.setattr(loop_parallelization, "GAIN", 0.0)
    estimated = []
    estimate = computation_cost.ComputationCosts._estimate
    monkeypatch.setattr(
        computation_cost.ComputationCosts, "_estimate", lambda self, c: estimated.append(c) or estimate(self, c)
    )
    planned(NESTED)
    names = [c.name for c in estimated if not c.name.endswith(".part")]  # of the program itself
    assert sorted(names) == ["again", "body", "outer"]


def loop_of(text):
    (loop,) = [i for i in optimize(parse(text)).entry.instructions if i.opcode == "while"]
    return loop


def test_iterations_that_need_each_other_are_no_parallel_loop():
    independent = loop_of(mapped(11, STRAIGHT))
    assert has_independent_iterations(independent, counter_of(independent))
    before = "r1 = f32[1,16] dynamic-slice(y, k, zero), dynamic_slice_sizes={1,16}\n r2 = f32[16] reshape(r1)"
    reads = mapped(11, f"{before}\n w = f32[16] add(v, r2)")
    assert not has_independent_iterations(loop_of(reads), counter_of(loop_of(reads)))
    # The last two iterations write the same row, as the start of a slice is clamped.
    twice = mapped(11, STRAIGHT, count=12)
    assert not has_independent_iterations(loop_of(twice), counter_of(loop_of(twice)))


def test_a_search_that_has_ended_must_keep_its_value():
    assert waits_for_all(loop_of(searches()))
    assert not waits_for_all(loop_of(searches(kept="y")))  # it goes on
    assert not waits_for_all(loop_of(searches(limit="5")))  # the body tests something else
    assert not waits_for_all(loop_of(searches(other="y")))
    assert not BatchDimensions(loop_of(searches(kept="y"))).candidates()


def test_what_combines_elements_of_a_batch_keeps_it_whole():
    """A mean over the batch, a sort along it, and rows taken from all of it."""
    assert len(BatchDimensions(loop_of(SEQUENCES)).candidates()) == 1
    for line in (
        "o = f32[4] reduce(g, f0), dimensions={0}, to_apply=sum\n os = f32[12,4] broadcast(o), dimensions={1}",
        "os = f32[12,4] reverse(g), dimensions={0}",
        "o1 = f32[6,4] slice(g), slice={[0:6], [0:4]}\n os = f32[12,4] concatenate(o1, o1), dimensions={0}",
        "o1 = f32[1,4] dynamic-slice(g, k, zero), dynamic_slice_sizes={1,4}\n o2 = f32[4] reshape(o1)\n"
        "os = f32[12,4] broadcast(o2), dimensions={1}",
    ):
        text = SEQUENCES.replace("i = f32[12,4] sine(g)", f"{line}\n i = f32[12,4] subtract(g, os)")
        assert text != SEQUENCES
        assert not BatchDimensions(loop_of(text)).candidates(), line


def test_explain_says_that_cores_run_iterations_apart(always):
    needs_persistent_kernels()
    text = str(refxla.compile(mapped(11, SEARCH)).explain())
    assert re.search(r"in each of (11|8|3) iterations, which cores run apart from each other", text), text
