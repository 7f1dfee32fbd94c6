"""Merged kernels of GPUs: a work-group makes the calls one after the other. On PoCL, which runs work-groups with local
memory and barriers, they give the CPU's bits; in small programs Oclgrind finds no race and no barrier that some items
miss."""

import os
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyopencl as cl
import pytest
from kernel_driver import queue
from refxla_spec.text import parse

import refxla
from refxla.codegen import prelude
from refxla.codegen.opencl_program import program
from refxla.codegen.primitives import primitives
from refxla.compiler.planning import plan_module
from refxla.device.description import Costs
from refxla.device.gpu_models import EMULATED, MODELS
from refxla.ir import plan as p
from refxla.scheduling.launch_costs import MergingOptions
from refxla.scheduling.launch_merging import LaunchMerger

HEAD = """HloModule m
    add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
"""

# A loop of scalars, which one item runs: Newton's method for a square root.
SCALARS = (
    HEAD
    + """
    body { t = (s32[], f32[], f32[]) parameter(0)
        i = s32[] get-tuple-element(t), index=0
        x = f32[] get-tuple-element(t), index=1
        a = f32[] get-tuple-element(t), index=2
        one = s32[] constant(1)
        half = f32[] constant(0.5)
        q = f32[] divide(a, x)
        s = f32[] add(x, q)
        h = f32[] multiply(s, half)
        j = s32[] add(i, one)
        ROOT r = (s32[], f32[], f32[]) tuple(j, h, a) }
    condition { t = (s32[], f32[], f32[]) parameter(0)
        i = s32[] get-tuple-element(t), index=0
        x = f32[] get-tuple-element(t), index=1
        a = f32[] get-tuple-element(t), index=2
        n = s32[] constant(30)
        l = pred[] compare(i, n), direction=LT
        y = f32[] multiply(x, x)
        d = f32[] subtract(y, a)
        e = f32[] abs(d)
        eps = f32[] constant(1e-5)
        g = pred[] compare(e, eps), direction=GT
        ROOT r = pred[] and(l, g) }
    ENTRY main { a = f32[] parameter(0)
        z = s32[] constant(0)
        t = (s32[], f32[], f32[]) tuple(z, a, a)
        w = (s32[], f32[], f32[]) while(t), condition=condition, body=body
        i = s32[] get-tuple-element(w), index=0
        x = f32[] get-tuple-element(w), index=1
        ROOT r = (s32[], f32[]) tuple(i, x) }"""
)

# A loop of small arrays: a product, a sum that all items read, an update of a row.
ARRAYS = (
    HEAD
    + """
    body { t = (s32[], f32[12,12], f32[40,12]) parameter(0)
        i = s32[] get-tuple-element(t), index=0
        x = f32[12,12] get-tuple-element(t), index=1
        log = f32[40,12] get-tuple-element(t), index=2
        one = s32[] constant(1)
        zero = s32[] constant(0)
        z = f32[] constant(0)
        y = f32[12,12] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        row = f32[12] reduce(y, z), dimensions={1}, to_apply=add
        all = f32[] reduce(row, z), dimensions={0}, to_apply=add
        allb = f32[12,12] broadcast(all), dimensions={}
        c = f32[] constant(0.1)
        cb = f32[12,12] broadcast(c), dimensions={}
        s = f32[12,12] multiply(allb, cb)
        d = f32[12,12] subtract(y, s)
        n = f32[12,12] tanh(d)
        line = f32[1,12] reshape(row)
        logged = f32[40,12] dynamic-update-slice(log, line, i, zero)
        j = s32[] add(i, one)
        ROOT r = (s32[], f32[12,12], f32[40,12]) tuple(j, n, logged) }
    condition { t = (s32[], f32[12,12], f32[40,12]) parameter(0)
        i = s32[] get-tuple-element(t), index=0
        n = s32[] constant(TIMES)
        ROOT r = pred[] compare(i, n), direction=LT }
    ENTRY main { x = f32[12,12] parameter(0)
        z = f32[] constant(0)
        log = f32[40,12] broadcast(z), dimensions={}
        i = s32[] constant(0)
        t = (s32[], f32[12,12], f32[40,12]) tuple(i, x, log)
        w = (s32[], f32[12,12], f32[40,12]) while(t), condition=condition, body=body
        y = f32[12,12] get-tuple-element(w), index=1
        l = f32[40,12] get-tuple-element(w), index=2
        ROOT r = (f32[12,12], f32[40,12]) tuple(y, l) }"""
)

# A loop that ends by the values of an array, and holds a conditional.
CONDITIONAL = (
    HEAD
    + """
    doubled { x = f32[50] parameter(0)  ROOT r = f32[50] add(x, x) }
    less { x = f32[50] parameter(0)  c = f32[] constant(1.5)  cb = f32[50] broadcast(c), dimensions={}
           n = f32[50] negate(x)  ROOT r = f32[50] subtract(n, cb) }
    body { x = f32[50] parameter(0)
        z = f32[] constant(0)
        s = f32[] reduce(x, z), dimensions={0}, to_apply=add
        g = pred[] compare(s, z), direction=LT
        ROOT r = f32[50] conditional(g, x, x), true_computation=less, false_computation=doubled }
    condition { x = f32[50] parameter(0)
        z = f32[] constant(0)
        a = f32[50] abs(x)
        s = f32[] reduce(a, z), dimensions={0}, to_apply=add
        m = f32[] constant(3000)
        ROOT r = pred[] compare(s, m), direction=LT }
    ENTRY main { x = f32[50] parameter(0)
        ROOT w = f32[50] while(x), condition=condition, body=body }"""
)

# A loop that ends by the values of an array, and holds a counted one, whose results one item copies.
NESTED = (
    HEAD
    + """
    max { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] maximum(a, b) }
    inner { t = (s32[], f32[4,4]) parameter(0)
        i = s32[] get-tuple-element(t), index=0
        x = f32[4,4] get-tuple-element(t), index=1
        one = s32[] constant(1)
        j = s32[] add(i, one)
        c = f32[] constant(0.9)
        cb = f32[4,4] broadcast(c), dimensions={}
        d = f32[] constant(0.1)
        db = f32[4,4] broadcast(d), dimensions={}
        y = f32[4,4] transpose(x), dimensions={1,0}
        cy = f32[4,4] multiply(y, cb)
        dx = f32[4,4] multiply(x, db)
        s = f32[4,4] add(cy, dx)
        last = f32[1,4] slice(s), slice={[3:4], [0:4]}
        first = f32[3,4] slice(s), slice={[0:3], [0:4]}
        n = f32[4,4] concatenate(last, first), dimensions={0}
        ROOT r = (s32[], f32[4,4]) tuple(j, n) }
    thrice { t = (s32[], f32[4,4]) parameter(0)
        i = s32[] get-tuple-element(t), index=0
        n = s32[] constant(3)
        ROOT r = pred[] compare(i, n), direction=LT }
    body { t = (s32[], f32[4,4]) parameter(0)
        i = s32[] get-tuple-element(t), index=0
        x = f32[4,4] get-tuple-element(t), index=1
        z = s32[] constant(0)
        u = (s32[], f32[4,4]) tuple(z, x)
        w = (s32[], f32[4,4]) while(u), condition=thrice, body=inner
        y = f32[4,4] get-tuple-element(w), index=1
        one = s32[] constant(1)
        j = s32[] add(i, one)
        ROOT r = (s32[], f32[4,4]) tuple(j, y) }
    condition { t = (s32[], f32[4,4]) parameter(0)
        i = s32[] get-tuple-element(t), index=0
        x = f32[4,4] get-tuple-element(t), index=1
        z = f32[] constant(0)
        a = f32[4,4] abs(x)
        most = f32[] reduce(a, z), dimensions={0,1}, to_apply=max
        g = pred[] compare(most, z), direction=GT
        n = s32[] constant(5)
        l = pred[] compare(i, n), direction=LT
        ROOT r = pred[] and(l, g) }
    ENTRY main { x = f32[4,4] parameter(0)
        z = s32[] constant(0)
        t = (s32[], f32[4,4]) tuple(z, x)
        w = (s32[], f32[4,4]) while(t), condition=condition, body=body
        ROOT y = f32[4,4] get-tuple-element(w), index=1 }"""
)

# Kernels side by side, some of which need what others make: copies, updates, sums.
SIDE_BY_SIDE = (
    HEAD
    + """
    ENTRY main { x = f32[5,6] parameter(0)  u = f32[2,3] parameter(1)
        i = s32[] parameter(2)  j = s32[] parameter(3)  k = s32[] parameter(4)
        z = f32[] constant(0)
        a = f32[5,6] dynamic-update-slice(x, u, i, j)
        b = f32[5,6] dynamic-update-slice(x, u, j, k)
        c = f32[5,6] dynamic-update-slice(x, u, k, i)
        d = f32[5,6] dynamic-update-slice(x, u, k, k)
        s = f32[] reduce(a, z), dimensions={0,1}, to_apply=add
        t = f32[5] reduce(b, z), dimensions={1}, to_apply=add
        ROOT r = (f32[5,6], f32[5,6], f32[5,6], f32[5,6], f32[], f32[5]) tuple(a, b, c, d, s, t) }"""
)

# Products of which the last one does not need the first, whose memory nobody reads any more then.
PRODUCTS = (
    HEAD
    + """
    ENTRY main { x = f32[14,14] parameter(0)  y = f32[14,14] parameter(1)
        a = f32[14,14] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        b = f32[14,14] dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        c = f32[14,14] dot(y, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        d = f32[14,14] dot(b, c), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        e = f32[14,14] dot(d, c), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        ROOT r = f32[14,14] dot(e, d), lhs_contracting_dims={1}, rhs_contracting_dims={0} }"""
)

# Each: the text, the shapes of its parameters (None: a small integer), and how many launches its plan has at most.
PROGRAMS = {
    "scalars": (SCALARS, [()], 2),
    "arrays": (ARRAYS.replace("TIMES", "9"), [(12, 12)], 2),
    "arrays, many times": (ARRAYS.replace("TIMES", "39"), [(12, 12)], 2),
    "a conditional": (CONDITIONAL, [(50,)], 4),
    "a loop in a loop": (NESTED, [(4, 4)], 4),
    "side by side": (SIDE_BY_SIDE, [(5, 6), (2, 3), None, None, None], 4),
    "products": (PRODUCTS, [(14, 14), (14, 14)], 3),
}


def arguments(name: str) -> list[np.ndarray]:
    rng = np.random.default_rng(len(name))
    shapes = PROGRAMS[name][1]
    return [np.int32(n) if s is None else rng.uniform(0.1, 1, s).astype(np.float32) for n, s in enumerate(shapes)]


def launches(steps: tuple[p.Step, ...]) -> int:
    """The launches and copies that there are in steps, each loop's once."""
    count = 0
    for step in steps:
        match step:
            case p.Loop(condition, _, body):
                count += launches((*condition, *body))
            case p.Repeat(_, body):
                count += launches(body)
            case p.Branch(_, branches):
                count += sum(map(launches, branches))
            case _:
                count += 1
    return count


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_merged_program_has_the_bits_of_the_cpu(name):
    text, _, most = PROGRAMS[name]
    values = arguments(name)
    wanted = refxla.compile(text)(*values)
    merged = refxla.compile(text, device="pocl:gpu")
    assert launches(merged.plan.steps) <= most
    alone = refxla.compile(text, device="pocl:gpu", without=["launch-merging"])
    assert launches(alone.plan.steps) > launches(merged.plan.steps)
    for compiled in (merged, alone):
        for got, want in zip(*(x if isinstance(x, tuple) else (x,) for x in (compiled(*values), wanted)), strict=True):
            np.testing.assert_array_equal(np.asarray(got).view(np.int32), np.asarray(want).view(np.int32))


# All items compute, and one copies, between barriers in a loop that ends by a condition (codegen/primitives.py).
COPIED = """
#define WAIT barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)
__kernel __attribute__((reqd_work_group_size(64, 1, 1)))
void copied(__global int* a, __global int* b, __global int* count) {
    const int item = (int)get_local_id(0);
    for (;;) {
        if (*count >= 5) break;
        WAIT;
        if (item == 0) *count += 1;
        WAIT;
        for (int n = 0; n < 2; ++n) {
            if (item < 4) b[item] = a[3 - item] * 2 + 1;
            WAIT;
            if (item == 0)
                for (int m = 0; m < 4; ++m) a[m] = b[m];
            WAIT;
        }
        WAIT;
    }
}
"""


def test_what_one_item_does_between_barriers_in_a_loop_is_done():
    q = queue()
    kernel = cl.Kernel(cl.Program(q.context, primitives(EMULATED) + COPIED).build(["-w"]), "copied")
    values = [np.arange(4, dtype=np.int32), np.zeros(4, np.int32), np.zeros(1, np.int32)]
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    buffers = [cl.Buffer(q.context, flags, hostbuf=v) for v in values]
    kernel(q, (64,), (64,), *buffers)
    got, want = np.empty(4, np.int32), values[0]
    cl.enqueue_copy(q, got, buffers[0])
    for _ in range(10):
        want = want[::-1] * 2 + 1
    assert got.tolist() == want.tolist()


@pytest.mark.parametrize("name", MODELS)
def test_the_attribute_of_functions_that_are_not_inlined_is_defined_for_every_gpu(name):
    """Those that reduce large arguments of sines and tangents have it."""
    assert "RX_NOINLINE float rx_shifted_sine_apart_f32" in prelude.functions("rx_shifted_sine_apart_f32(x, 0)")
    assert "#define RX_NOINLINE" in primitives(MODELS[name].target)


def test_a_barrier_is_repeated_for_pocl_alone():
    repeated = "#define barrier(fences) (barrier(fences), barrier(fences))\n"
    assert repeated in primitives(EMULATED)
    assert not any("define barrier" in primitives(model.target) for model in MODELS.values())


@pytest.mark.parametrize("handover", [True, False])
def test_a_loop_of_scalars_is_run_by_one_item(handover):
    _, planning = plan_module(parse(SCALARS), replace(EMULATED, handover=handover))
    (loop,) = (step for step in planning.plan.steps if isinstance(step, p.Loop))
    (launch,) = loop.condition
    kernel = planning.plan.kernels[launch.kernel]
    assert not loop.body and (kernel.items, kernel.work_group) == (1, 0)
    assert "barrier(CLK" not in program([kernel], EMULATED).source


def test_work_groups_of_a_device_on_which_items_do_not_see_what_others_wrote_are_not_merged():
    apart = replace(EMULATED, handover=False)
    for name in PROGRAMS:
        _, planning = plan_module(parse(PROGRAMS[name][0]), apart)
        assert not any(k.calls and k.work_group for k in planning.plan.kernels), name


@pytest.mark.parametrize("items, work_group", [(1, 0), (6, 0), (256, 256)])
def test_without_handover_only_single_items_are_in_a_loop(items, work_group):
    kernel = p.Kernel("k", "", (p.Argument("output", "int", bytes=4),), items, us=0.01, work_group=work_group)
    for handover in (True, False):
        kernels = [kernel]
        merging = MergingOptions(2, group=256, handover=handover)
        merger = LaunchMerger(kernels, lambda b: 4, Costs(), merging, lambda *_: 1, lambda _: 2)
        (step,) = merger.counted_loop(3, [p.Launch(0, (0,))], None, None)
        assert isinstance(step, p.Launch) == (handover or items == 1)


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_a_work_group_uses_shares_no_memory(name):
    """Its items wait only where a call uses the argument of another one."""

    def of_work_groups(steps):
        for step in steps:
            match step:
                case p.Launch(number, buffers) if plan.kernels[number].calls and plan.kernels[number].work_group:
                    yield {plan.buffers[b] for b in buffers if plan.buffers[b].space == p.ARENA}
                case p.Loop(condition, _, body):
                    yield from of_work_groups((*condition, *body))
                case p.Repeat(_, body):
                    yield from of_work_groups(body)

    plan = plan_module(parse(PROGRAMS[name][0]), EMULATED)[1].plan
    for used in of_work_groups(plan.steps):
        ends = [(b.offset, b.offset + b.bytes) for b in sorted(used, key=lambda b: b.offset)]
        assert all(end <= begin for (_, end), (begin, _) in pairwise(ends)), ends


def test_no_pointer_of_a_part_is_restrict():
    _, planning = plan_module(parse(PROGRAMS["arrays"][0]), EMULATED)
    (kernel,) = (k for k in planning.plan.kernels if k.calls and k.items == k.work_group)
    source = program([kernel], EMULATED).source
    assert "restrict" not in source[source.index("__attribute__((always_inline)) static inline void k") :]


CHECKED = """
import sys
from dataclasses import replace
from refxla.device.gpu_models import EMULATED
from refxla.runtime import devices
usual = devices.Device.target.fget
devices.Device.target = property(lambda d: replace(EMULATED, fp64=usual(d).fp64, offsets=usual(d).offsets))
import refxla
from test_gpu_launch_merging import PROGRAMS, arguments
for name in sys.argv[1:]:
    print(name, [str(x) for x in refxla.compile(PROGRAMS[name][0], device="oclgrind")(*arguments(name))])
"""


@pytest.mark.skipif("oclgrind" not in [d.name for d in refxla.devices()], reason="Oclgrind is not installed")
def test_oclgrind_finds_nothing():
    here = Path(__file__).parent
    names = ["arrays", "a conditional", "side by side"]
    environment = {**os.environ, "OCLGRIND_DATA_RACES": "1", "PYTHONPATH": f"{here}{os.pathsep}{here.parent}"}
    done = subprocess.run(
        [sys.executable, "-c", CHECKED, *names], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert all(name in done.stdout for name in names)
    for word in ("race", "Invalid", "Uninitialized", "divergence", "barrier"):
        assert word not in done.stderr + done.stdout, done.stderr + done.stdout
