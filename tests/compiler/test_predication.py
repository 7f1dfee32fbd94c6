"""Predication: a GPU finds out by itself which launches of a loop or conditional have something to do. The results have
the bits of a CPU, and the host reads few of the predicates; Oclgrind finds no fault."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from refxla_spec.text import parse

import refxla
from refxla.analysis.liveness import live_ranges
from refxla.compiler.planning import plan_module
from refxla.device.gpu_models import MODELS
from refxla.ir import merged_body as m
from refxla.ir import plan as p

HEAD = """HloModule m
    add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
"""

# Each iteration copies the state back, since its kernel reads the old one elsewhere. It ends when an element is LIMIT.
GROWING = (
    HEAD
    + """
    body { x = f32[9,70] parameter(0)
        c = f32[] constant(0.55)
        cb = f32[9,70] broadcast(c), dimensions={}
        y = f32[9,70] multiply(x, cb)
        r = f32[9,70] reverse(y), dimensions={1}
        ROOT s = f32[9,70] add(y, r) }
    condition { x = f32[9,70] parameter(0)
        f = f32[1,1] slice(x), slice={[0:1], [0:1]}
        s = f32[] reshape(f)
        m = f32[] constant(LIMIT)
        ROOT l = pred[] compare(s, m), direction=LT }
    ENTRY main { x = f32[9,70] parameter(0)
        w = f32[9,70] while(x), condition=condition, body=body
        ROOT n = f32[9,70] negate(w) }"""
)

# The body computes the predicate, too: it is a part of the state. An inner loop is counted.
OWN_PREDICATE = (
    HEAD
    + """
    inner { t = (s32[], f32[600]) parameter(0)
        i = s32[] get-tuple-element(t), index=0
        x = f32[600] get-tuple-element(t), index=1
        one = s32[] constant(1)
        j = s32[] add(i, one)
        f = f32[] convert(i)
        fb = f32[600] broadcast(f), dimensions={}
        r = f32[600] reverse(x), dimensions={0}
        y = f32[600] add(r, fb)
        ROOT s = (s32[], f32[600]) tuple(j, y) }
    three { t = (s32[], f32[600]) parameter(0)
        i = s32[] get-tuple-element(t), index=0
        n = s32[] constant(3)
        ROOT l = pred[] compare(i, n), direction=LT }
    body { t = (pred[], f32[600], s32[]) parameter(0)
        x = f32[600] get-tuple-element(t), index=1
        k = s32[] get-tuple-element(t), index=2
        zero = s32[] constant(0)
        u = (s32[], f32[600]) tuple(zero, x)
        w = (s32[], f32[600]) while(u), condition=three, body=inner
        y = f32[600] get-tuple-element(w), index=1
        e = f32[1] slice(y), slice={[0:1]}
        s = f32[] reshape(e)
        m = f32[] constant(150)
        l = pred[] compare(s, m), direction=LT
        one = s32[] constant(1)
        j = s32[] add(k, one)
        ROOT v = (pred[], f32[600], s32[]) tuple(l, y, j) }
    condition { t = (pred[], f32[600], s32[]) parameter(0)
        ROOT l = pred[] get-tuple-element(t), index=0 }
    ENTRY main { x = f32[600] parameter(0)
        yes = pred[] constant(true)
        zero = s32[] constant(0)
        t = (pred[], f32[600], s32[]) tuple(yes, x, zero)
        w = (pred[], f32[600], s32[]) while(t), condition=condition, body=body
        y = f32[600] get-tuple-element(w), index=1
        k = s32[] get-tuple-element(w), index=2
        ROOT r = (f32[600], s32[]) tuple(y, k) }"""
)

# Three branches, one of which changes nothing, by an index that may be out of range, in a loop that ends by an element.
BRANCHES = (
    HEAD
    + """
    same { x = f32[300] parameter(0)  ROOT r = f32[300] copy(x) }
    doubled { x = f32[300] parameter(0)  ROOT r = f32[300] add(x, x) }
    turned { x = f32[300] parameter(0)
        z = f32[] constant(0)
        s = f32[] reduce(x, z), dimensions={0}, to_apply=add
        g = f32[] constant(100)
        l = pred[] compare(s, g), direction=GT
        ROOT r = f32[300] conditional(l, x, x), true_computation=halved, false_computation=raised }
    halved { x = f32[300] parameter(0)  c = f32[] constant(0.9)  cb = f32[300] broadcast(c), dimensions={}
        y = f32[300] multiply(x, cb)  ROOT r = f32[300] reverse(y), dimensions={0} }
    raised { x = f32[300] parameter(0)  c = f32[] constant(1)  cb = f32[300] broadcast(c), dimensions={}
        ROOT r = f32[300] add(x, cb) }
    body { t = (f32[300], s32[]) parameter(0)
        x = f32[300] get-tuple-element(t), index=0
        i = s32[] get-tuple-element(t), index=1
        one = s32[] constant(1)
        five = s32[] constant(5)
        j = s32[] add(i, one)
        k = s32[] remainder(i, five)
        l = s32[] subtract(k, one)
        y = f32[300] conditional(l, x, x, x), branch_computations={same, doubled, turned}
        ROOT r = (f32[300], s32[]) tuple(y, j) }
    condition { t = (f32[300], s32[]) parameter(0)
        x = f32[300] get-tuple-element(t), index=0
        e = f32[1] slice(x), slice={[3:4]}
        s = f32[] reshape(e)
        m = f32[] constant(20)
        ROOT l = pred[] compare(s, m), direction=LT }
    ENTRY main { x = f32[300] parameter(0)
        zero = s32[] constant(0)
        t = (f32[300], s32[]) tuple(x, zero)
        w = (f32[300], s32[]) while(t), condition=condition, body=body
        y = f32[300] get-tuple-element(w), index=0
        i = s32[] get-tuple-element(w), index=1
        ROOT r = (f32[300], s32[]) tuple(y, i) }"""
)

# The name of a program, its text, the shape of its argument, and the reads of the host that it needs at most.
PROGRAMS = {
    "copies": (GROWING.replace("LIMIT", "50"), (9, 70), 20),
    "no iteration": (GROWING.replace("LIMIT", "-50"), (9, 70), 1),
    "own predicate": (OWN_PREDICATE, (600,), 20),
    "branches": (BRANCHES, (300,), 30),
}
# Each launch of a kernel is a step, whatever the launches would be merged to.
ALONE = ("launch-merging",)


def argument(name: str) -> np.ndarray:
    return np.random.default_rng(3).uniform(0.01, 0.1, PROGRAMS[name][1]).astype(np.float32)


def bits(results: object) -> list[bytes]:
    return [np.asarray(x).tobytes() for x in (results if isinstance(results, tuple) else (results,))]


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_bits_are_those_of_the_cpu_and_the_host_reads_few_predicates(name):
    text, _, most = PROGRAMS[name]
    value = argument(name)
    ahead = refxla.compile(text, device="pocl:gpu", without=ALONE)
    behind = refxla.compile(text, device="pocl:gpu", without=(*ALONE, "predication"))
    wanted = bits(refxla.compile(text)(value))
    for _ in range(2):  # the first call leaves nothing behind that the second one sees
        assert bits(ahead(value)) == wanted
    assert bits(behind(value)) == wanted
    assert ahead.reads <= most
    assert ahead.reads < behind.reads or name == "no iteration"


def steps_of(text: str, without: tuple[str, ...] = ALONE) -> p.Plan:
    return plan_module(parse(text), MODELS["gpu:nvidia-sm90"].target, without)[1].plan


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_launch_of_a_body_has_the_predicate(name):
    plan = steps_of(PROGRAMS[name][0])
    (loop,) = (s for s in plan.steps if isinstance(s, p.Loop))
    assert loop.is_predicated
    assert not any(isinstance(s, p.Copy | p.Branch) for s in p.all_steps(loop.body))
    for launch in p.launches(loop.body):
        kernel = plan.kernels[launch.kernel]
        assert kernel.predicates[0] == p.Predicate(kernel.predicates[0].argument, True, 0, 2)
        assert launch.buffers[kernel.predicates[0].argument] == loop.predicate
        written = {b for b, a in zip(launch.buffers, kernel.arguments, strict=True) if a.role != "input"}
        assert loop.predicate not in written


@pytest.mark.parametrize("name", PROGRAMS)
def test_nothing_in_the_body_shares_memory_with_the_predicate(name):
    plan = steps_of(PROGRAMS[name][0])
    (loop,) = (s for s in plan.steps if isinstance(s, p.Loop))
    counters = {s.counter for s in p.all_steps(loop.body) if isinstance(s, p.Repeat)} - {None}
    used = counters.union(b for launch in p.launches(loop.body) for b in launch.buffers) - {loop.predicate}
    place = plan.buffers[loop.predicate].offset
    for buffer in (plan.buffers[b] for b in used):
        assert buffer.space != p.ARENA or not buffer.offset <= place < buffer.offset + buffer.bytes


def test_a_merged_kernel_reads_its_predicate_when_it_begins():
    """The buffer is live until then, although none of the calls takes it."""
    inner = p.Kernel("inner", "", (p.Argument("input", "float"), p.Argument("output", "float")), 1)
    body = m.MergedBody((m.SectionBody(1, (m.KernelCall(0, (0, 1)),), True),))
    arguments = (*inner.arguments, p.Argument("input", "uchar"))
    merged = p.Kernel("merged", body, arguments, 1, (inner,), predicates=(p.Predicate(2, True, 0, 2),))
    assert live_ranges([p.Launch(0, (5, 6, 7))], [merged]).keys() == {5, 6, 7}


def test_what_the_host_has_to_know_is_read_in_each_iteration():
    """An inner loop that ends by a predicate runs ahead of the host; the one around it cannot."""
    inner = GROWING.replace("ENTRY main", "grown").replace("LIMIT", "5").removeprefix("HloModule m")
    text = f"""HloModule m
    {inner}
    outer {{ x = f32[9,70] parameter(0)
        y = f32[9,70] call(x), to_apply=grown
        c = f32[] constant(-0.015)
        cb = f32[9,70] broadcast(c), dimensions={{}}
        ROOT z = f32[9,70] multiply(y, cb) }}
    less {{ x = f32[9,70] parameter(0)
        f = f32[1,1] slice(x), slice={{[0:1], [0:1]}}
        s = f32[] reshape(f)
        m = f32[] constant(0.07)
        ROOT l = pred[] compare(s, m), direction=LT }}
    ENTRY entry {{ x = f32[9,70] parameter(0)
        ROOT w = f32[9,70] while(x), condition=less, body=outer }}"""
    loops = [s for s in p.all_steps(steps_of(text).steps) if isinstance(s, p.Loop)]
    assert [loop.is_predicated for loop in loops] == [False, True]
    value = argument("copies")
    compiled = refxla.compile(text, device="pocl:gpu", without=ALONE)
    assert bits(compiled(value)) == bits(refxla.compile(text)(value))


def test_branches_of_many_launches_are_chosen_by_the_host():
    """Those that are not taken would take longer than to read the index."""
    few, many = p.READ_LAUNCHES, p.READ_LAUNCHES + 1

    def text(count: int) -> str:
        sorts = "".join(f" s{n + 1} = f32[99] reverse(s{n}), dimensions={{0}}" for n in range(count))
        return f"""HloModule m
        many {{ s0 = f32[99] parameter(0) {sorts} ROOT r = f32[99] copy(s{count}) }}
        none {{ x = f32[99] parameter(0)  ROOT r = f32[99] copy(x) }}
        ENTRY main {{ c = pred[] parameter(0)  x = f32[99] parameter(1)
            ROOT r = f32[99] conditional(c, x, x), true_computation=many, false_computation=none }}"""

    def branches(count: int) -> list[p.Step]:
        without = (*ALONE, "fusion", "algebraic-simplifier", "while-loop-invariant-code-motion")
        steps = steps_of(text(count), without).steps
        return [s for s in steps if isinstance(s, p.Branch)]

    counts = [p.launch_count(branches(many)[0].branches[0]), p.launch_count(branches(many)[0].branches[1])]
    assert sum(counts) - min(counts) > p.READ_LAUNCHES
    assert not branches(few - 3)


def test_a_loop_without_end_is_interrupted():
    """The host goes on without the predicates, and answers signals nevertheless."""
    text = GROWING.replace("LIMIT", "inf").replace("constant(0.55)", "constant(0.5)")
    compiled = refxla.compile(text, device="pocl:gpu", without=ALONE)
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 1)
        with pytest.raises(KeyboardInterrupt):
            compiled(argument("copies"))
        reads = compiled.reads
        assert reads > 0
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    again = refxla.compile(PROGRAMS["copies"][0], device="pocl:gpu", without=ALONE)
    assert bits(again(argument("copies"))) == bits(refxla.compile(PROGRAMS["copies"][0])(argument("copies")))


CHECKED = """
import sys
from dataclasses import replace
from refxla.device.gpu_models import EMULATED
from refxla.runtime import devices
usual = devices.Device.target.fget
def target(device):
    own = usual(device)
    return replace(EMULATED, fp64=own.fp64, offsets=own.offsets) if device.kind == "simulator" else own
devices.Device.target = property(target)
import refxla
from test_predication import ALONE, PROGRAMS, argument, bits
for name in sys.argv[1:]:
    compiled = refxla.compile(PROGRAMS[name][0], device="oclgrind", without=ALONE)
    print(name, bits(compiled(argument(name))) == bits(refxla.compile(PROGRAMS[name][0])(argument(name))))
"""


@pytest.mark.skipif("oclgrind" not in [d.name for d in refxla.devices()], reason="Oclgrind is not installed")
def test_oclgrind_finds_nothing():
    here = Path(__file__).parent
    environment = {**os.environ, "OCLGRIND_DATA_RACES": "1", "PYTHONPATH": f"{here}{os.pathsep}{here.parent}"}
    if paths := os.environ.get("PYTHONPATH"):
        environment["PYTHONPATH"] += f"{os.pathsep}{paths}"
    done = subprocess.run(
        [sys.executable, "-c", CHECKED, *PROGRAMS], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stdout.splitlines() if line.endswith("True")] == [f"{n} True" for n in PROGRAMS]
    for word in ("race", "Invalid", "Uninitialized", "divergence", "barrier"):
        assert word not in done.stderr + done.stdout, done.stderr + done.stdout
