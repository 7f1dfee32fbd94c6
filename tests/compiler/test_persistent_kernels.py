"""Launches whose items go through phases together: no two sections of a phase meet in memory, the bits stay, and nobody
waits for who is not there."""

import re
import threading
from dataclasses import replace

import numpy as np
import pytest
from refxla_conformance.fuzz.generate import generate
from refxla_spec.errors import UnsupportedError
from refxla_spec.text import parse

import refxla
from refxla.compiler.explanation import Explanation
from refxla.compiler.planning import plan_module
from refxla.device.description import DEFAULT_CPU
from refxla.ir import plan as p
from refxla.ir.merged_body import NestedPhases, SharedPhase, TiledPhase
from refxla.runtime.executable import choose_cores
from refxla.scheduling.merged_kernel import MOST_ARGUMENTS

PERSISTENT = replace(DEFAULT_CPU, persistent=True)

CHAIN = """HloModule chain
    ENTRY e {{ x = f32[{n},{n}] parameter(0)
        a = f32[{n},{n}] dot(x, x), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
        t = f32[{n},{n}] tanh(a)
        b = f32[{n},{n}] dot(t, x), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}
        c = f32[{n},{n}] dot(b, a), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}
        ROOT r = (f32[{n},{n}], f32[{n},{n}]) tuple(b, c) }}"""

LOOP = """HloModule l
    body {{ s = (s32[], f32[{n},{n}], f32[7,{n},{n}], f32[{n},{n}]) parameter(0)
        i = s32[] get-tuple-element(s), index=0
        x = f32[{n},{n}] get-tuple-element(s), index=1
        seen = f32[7,{n},{n}] get-tuple-element(s), index=2
        w = f32[{n},{n}] get-tuple-element(s), index=3
        one = s32[] constant(1)
        zero = s32[] constant(0)
        next = s32[] add(i, one)
        y = f32[{n},{n}] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}
        c = f32[{n},{n}] cosine(y)
        u = f32[1,{n},{n}] reshape(c)
        kept = f32[7,{n},{n}] dynamic-update-slice(seen, u, i, zero, zero)
        ROOT r = (s32[], f32[{n},{n}], f32[7,{n},{n}], f32[{n},{n}]) tuple(next, c, kept, w) }}
    test {{ s = (s32[], f32[{n},{n}], f32[7,{n},{n}], f32[{n},{n}]) parameter(0)
        i = s32[] get-tuple-element(s), index=0
        x = f32[{n},{n}] get-tuple-element(s), index=1
        {limit} }}
    ENTRY e {{ x = f32[{n},{n}] parameter(0)
        w = f32[{n},{n}] parameter(1)
        zero = s32[] constant({first})
        none = f32[] constant(3)
        seen = f32[7,{n},{n}] broadcast(none), dimensions={{}}
        begin = (s32[], f32[{n},{n}], f32[7,{n},{n}], f32[{n},{n}]) tuple(zero, x, seen, w)
        loop = (s32[], f32[{n},{n}], f32[7,{n},{n}], f32[{n},{n}]) while(begin), condition=test, body=body
        last = f32[{n},{n}] get-tuple-element(loop), index=1
        all = f32[7,{n},{n}] get-tuple-element(loop), index=2
        ROOT r = (f32[{n},{n}], f32[7,{n},{n}]) tuple(last, all) }}"""
KNOWN = "n = s32[] constant(7)\n ROOT p = pred[] compare(i, n), direction=LT"
FOUND = """first = f32[1,1] slice(x), slice={[0:1], [0:1]}
    value = f32[] reshape(first)
    low = f32[] constant(-2)
    n = s32[] constant(7)
    a = pred[] compare(value, low), direction=GT
    b = pred[] compare(i, n), direction=LT
    ROOT p = pred[] and(a, b)"""


def phases_of(kernel: p.Kernel) -> list[list[list[tuple[p.Kernel, tuple[int, ...]]]]]:
    """The sections of each phase of a persistent kernel: each part with the arguments that it takes."""
    phases = []
    for phase in kernel.body.phases:
        match phase:
            case SharedPhase(sections):
                phases.append([section.calls for section in sections])
            case NestedPhases(call):
                phases.append([(call,)])
            case TiledPhase(_, once, each):
                phases.append([(*once, *each)])
    return [[[(kernel.calls[c.kernel], c.arguments) for c in section] for section in phase] for phase in phases]


def check(plan: p.Plan) -> int:
    """No section of any phase touches memory that another one writes; the number of persistent kernels."""
    found = 0
    for launch in p.launches(plan.steps):
        kernel = plan.kernels[launch.kernel]
        if not kernel.persistent:
            continue
        found += 1
        assert len(kernel.arguments) == len(launch.buffers) <= MOST_ARGUMENTS
        assert kernel.items == PERSISTENT.compute_units and 0 < kernel.persistent_us
        phases = phases_of(kernel)
        assert sum(len(section) for sections in phases for section in sections) == len(kernel.calls)
        for sections in phases:
            used = [[r for part in section for r in ranges(plan, launch, *part)] for section in sections]
            for n, mine in enumerate(used):
                for other in (r for section in used[n + 1 :] for r in section):
                    for written, space, begin, end in mine:
                        if space == other[1] and begin < other[3] and other[2] < end:
                            assert not written and not other[0], kernel.name
    return found


def ranges(plan, launch, part, numbers):
    """(written, space, begin, end) of each argument of a part."""
    for argument, number in zip(part.arguments, numbers, strict=True):
        b = plan.buffers[launch.buffers[number]]
        yield argument.role != "input", (b.space, b.index), b.offset, b.offset + b.bytes


def test_launches_that_need_each_other_are_one():
    plan = plan_module(parse(CHAIN.format(n=200)), PERSISTENT)[1].plan
    assert len(plan.kernels) == 1 and check(plan) == 1
    assert len(phases_of(plan.kernels[0])) > 2
    apart = plan_module(parse(CHAIN.format(n=200)), DEFAULT_CPU)[1].plan
    assert not any(k.persistent for k in apart.kernels) and len(apart.kernels) > 2


def test_plan_and_explanation_name_the_phases_alike():
    text = """HloModule m
        add { a = f32[] parameter(0)
          b = f32[] parameter(1)
          ROOT c = f32[] add(a, b) }
        ENTRY e { x = f32[200,200] parameter(0)
          a = f32[200,200] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
          zero = f32[] constant(0)
          s = f32[200] reduce(a, zero), dimensions={1}, to_apply=add
          t = f32[200] reduce(a, zero), dimensions={0}, to_apply=add
          b = f32[200,200] dot(a, x), lhs_contracting_dims={1}, rhs_contracting_dims={1}
          ROOT r = (f32[200], f32[200], f32[200,200]) tuple(s, t, b) }"""
    planned = plan_module(parse(text), PERSISTENT)[1]
    shown, explained = str(planned.plan), str(Explanation(planned))
    (whole,) = [m for m in planned.merged_launches if m.persistent]
    count = len(whole.sections[0])
    phases = re.findall(r"^ +phase (\d+) of (\d+)(?:, (.*))?$", shown, re.M)
    assert [(int(n), int(of)) for n, of, _ in phases] == [(n + 1, count) for n in range(count)] and count > 1
    named = {name for _, _, name in phases if name}
    assert named and named == {m.name for m in planned.merged_launches if m.name in whole.sections[0]}
    assert any(f"in {name}: " in explained for name in named)
    assert not re.search(r"^ += ", shown, re.M)  # what packs an operand writes something, too
    assert f"{whole.name}: phase {count} of {count} of a persistent kernel" in explained


@pytest.mark.parametrize("chained", [False, True])
def test_loops_that_do_not_need_each_other_run_side_by_side(chained):
    """Each loop is too long to share a launch, and runs on one core: it has no batch that could be cut."""
    x, y = "q" if chained else "y", "x"
    text = f"""HloModule m
        body {{ p = (s32[], f32[8,300]) parameter(0)
          i = s32[] get-tuple-element(p), index=0
          v = f32[8,300] get-tuple-element(p), index=1
          one = s32[] constant(1)
          next = s32[] add(i, one)
          s = f32[8,300] exponential(v)
          n = f32[8,300] reverse(s), dimensions={{0,1}}
          ROOT r = (s32[], f32[8,300]) tuple(next, n) }}
        condition {{ p = (s32[], f32[8,300]) parameter(0)
          i = s32[] get-tuple-element(p), index=0
          n = s32[] constant(400)
          ROOT c = pred[] compare(i, n), direction=LT }}
        ENTRY e {{ x = f32[8,300] parameter(0)
          y = f32[8,300] parameter(1)
          zero = s32[] constant(0)
          a = (s32[], f32[8,300]) tuple(zero, {y})
          first = (s32[], f32[8,300]) while(a), condition=condition, body=body
          q = f32[8,300] get-tuple-element(first), index=1
          b = (s32[], f32[8,300]) tuple(zero, {x})
          second = (s32[], f32[8,300]) while(b), condition=condition, body=body
          w = f32[8,300] get-tuple-element(second), index=1
          ROOT r = (f32[8,300], f32[8,300]) tuple(q, w) }}"""
    plan = plan_module(parse(text), PERSISTENT)[1].plan
    check(plan)
    together = [k for k in plan.kernels if k.persistent and any(len(sections) > 1 for sections in phases_of(k))]
    loops = [c for k in together for sections in phases_of(k) if len(sections) > 1 for c in sections if c[0][0].calls]
    assert len(loops) == (0 if chained else 2)


def test_a_single_kernel_is_not_persistent():
    text = "HloModule m\nENTRY e { x = f32[9000000] parameter(0)\n ROOT y = f32[9000000] negate(x) }"
    plan = plan_module(parse(text), PERSISTENT)[1].plan
    assert [k.persistent for k in plan.kernels] == [False]


def test_small_kernels_are_cut_for_all_cores_of_a_persistent_kernel():
    text = """HloModule m
        ENTRY e { x = f32[4096] parameter(0)
            y = f32[4096] exponential(x)
            ROOT z = f32[4096] tanh(y) }"""
    items = [plan_module(parse(text), t)[1].plan.kernels[0].items for t in (DEFAULT_CPU, PERSISTENT)]
    assert items == [1, PERSISTENT.compute_units]
    product = """HloModule m
        ENTRY e { x = f32[1,1024] parameter(0)
            w = f32[1024,256] parameter(1)
            ROOT z = f32[1,256] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0} }"""
    assert plan_module(parse(product), PERSISTENT)[1].plan.kernels[-1].items % PERSISTENT.compute_units == 0


EXPONENTIALS = """HloModule m
    add {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }}
    largest {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] maximum(a, b) }}
    ENTRY e {{ x = f32[{rows},{columns}] parameter(0)
        zero = f32[] constant(0)
        least = f32[] constant(-inf)
        m = f32[{kept}] reduce(x, least), dimensions={{{reduced}}}, to_apply=largest
        b = f32[{rows},{columns}] broadcast(m), dimensions={{{other}}}
        d = f32[{rows},{columns}] subtract(x, b)
        e = f32[{rows},{columns}] {function}(d)
        ROOT s = f32[{kept}] reduce(e, zero), dimensions={{{reduced}}}, to_apply=add }}"""


@pytest.mark.parametrize("reduced", [0, 1])
def test_reductions_that_take_long_are_cut_for_all_cores_of_a_persistent_kernel(reduced):
    """Those of few elements by the time of their functions, also where all columns fit in one strip."""

    def items(function, rows=100, columns=120, target=PERSISTENT):
        kept = (columns, rows)[reduced]
        text = EXPONENTIALS.format(
            rows=rows, columns=columns, kept=kept, reduced=reduced, other=1 - reduced, function=function
        )
        return plan_module(parse(text), target)[1].plan.kernels[-1].items

    three = replace(PERSISTENT, compute_units=3)
    assert [items("exponential", target=t) for t in (DEFAULT_CPU, PERSISTENT)] == [1, 2]
    assert items("exponential", columns=288, target=three) == 3
    assert items("negate") == items("exponential", 30, 40) == 1


def test_log_sum_exps_of_a_loop_are_shared_by_all_cores():
    """One core would take 13 us for an iteration."""
    text = """HloModule m
        add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
        largest { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] maximum(a, b) }
        body { s = (s32[], f32[100], f32[120], f32[100,120]) parameter(0)
            i = s32[] get-tuple-element(s), index=0
            f = f32[100] get-tuple-element(s), index=1
            g = f32[120] get-tuple-element(s), index=2
            c = f32[100,120] get-tuple-element(s), index=3
            one = s32[] constant(1)
            zero = f32[] constant(0)
            least = f32[] constant(-inf)
            next = s32[] add(i, one)
            gs = f32[100,120] broadcast(g), dimensions={1}
            x = f32[100,120] subtract(gs, c)
            xm = f32[100] reduce(x, least), dimensions={1}, to_apply=largest
            xb = f32[100,120] broadcast(xm), dimensions={0}
            xd = f32[100,120] subtract(x, xb)
            xe = f32[100,120] exponential(xd)
            xs = f32[100] reduce(xe, zero), dimensions={1}, to_apply=add
            xl = f32[100] log(xs)
            fs = f32[100,120] broadcast(xl), dimensions={0}
            y = f32[100,120] subtract(fs, c)
            ym = f32[120] reduce(y, least), dimensions={0}, to_apply=largest
            yb = f32[100,120] broadcast(ym), dimensions={1}
            yd = f32[100,120] subtract(y, yb)
            ye = f32[100,120] exponential(yd)
            ys = f32[120] reduce(ye, zero), dimensions={0}, to_apply=add
            yl = f32[120] log(ys)
            ROOT r = (s32[], f32[100], f32[120], f32[100,120]) tuple(next, xl, yl, c) }
        test { s = (s32[], f32[100], f32[120], f32[100,120]) parameter(0)
            i = s32[] get-tuple-element(s), index=0
            n = s32[] constant(50)
            ROOT p = pred[] compare(i, n), direction=LT }
        ENTRY e { f = f32[100] parameter(0)
            g = f32[120] parameter(1)
            c = f32[100,120] parameter(2)
            zero = s32[] constant(0)
            begin = (s32[], f32[100], f32[120], f32[100,120]) tuple(zero, f, g, c)
            loop = (s32[], f32[100], f32[120], f32[100,120]) while(begin), condition=test, body=body
            last = f32[100] get-tuple-element(loop), index=1
            also = f32[120] get-tuple-element(loop), index=2
            ROOT r = (f32[100], f32[120]) tuple(last, also) }"""
    (loop,) = (k for k in plan_module(parse(text), PERSISTENT)[1].plan.kernels if k.persistent)
    phases = phases_of(loop)
    assert any(part.items == PERSISTENT.compute_units for phase in phases for section in phase for part, _ in section)
    random = np.random.default_rng(0)
    given = [random.standard_normal(s).astype(np.float32) for s in ((100,), (120,), (100, 120))]
    for got, want in zip(refxla.compile(text)(*given), refxla.compile(text, without=("fusion",))(*given), strict=True):
        assert np.asarray(got).tobytes() == np.asarray(want).tobytes()


SUMS = """HloModule m
    add {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }}
    body {{ s = (s32[], f32[{n}], f32[]) parameter(0)
        i = s32[] get-tuple-element(s), index=0
        x = f32[{n}] get-tuple-element(s), index=1
        one = s32[] constant(1)
        zero = f32[] constant(0)
        next = s32[] add(i, one)
        y = f32[{n}] add(x, x)
        sum = f32[] reduce(y, zero), dimensions={{0}}, to_apply=add
        ROOT r = (s32[], f32[{n}], f32[]) tuple(next, y, sum) }}
    test {{ s = (s32[], f32[{n}], f32[]) parameter(0)
        sum = f32[] get-tuple-element(s), index=2
        most = f32[] constant(1e30)
        ROOT p = pred[] compare(sum, most), direction=LT }}
    ENTRY e {{ x = f32[{n}] parameter(0)
        i = s32[] constant(0)
        zero = f32[] constant(0)
        begin = (s32[], f32[{n}], f32[]) tuple(i, x, zero)
        ROOT loop = (s32[], f32[{n}], f32[]) while(begin), condition=test, body=body }}"""


def test_what_takes_long_comes_first_in_a_phase():
    """So a thing of little work does not shift what a core takes, iteration after iteration, to another."""
    plan = plan_module(parse(SUMS.format(n=1 << 18)), PERSISTENT)[1].plan
    persistent = [c for k in plan.kernels for c in (k, *k.calls) if c.persistent]
    shared = [sections for k in persistent for sections in phases_of(k) if len(sections) > 1]
    assert shared
    for sections in shared:
        each = [sum(k.us for k, _ in section) / section[0][0].items for section in sections]
        assert each == sorted(each, reverse=True)


def test_a_large_part_does_not_follow_what_it_does_not_need():
    """Two updates of large arrays, after a kernel that neither needs."""
    lines = [
        f"b{n} = f32[300000] broadcast(c{n}), dimensions={{}}\n u{n} = f32[300000] dynamic-update-slice(b{n}, y, zero)"
        for n in range(2)
    ]
    text = (
        "HloModule m\nENTRY e { y = f32[2000] parameter(0)\n z = f32[9000] parameter(1)\n zero = s32[] constant(0)\n"
        "c0 = f32[] constant(1)\n c1 = f32[] constant(2)\n" + "\n".join(lines) + "\n v = f32[9000] sine(z)\n"
        "ROOT r = (f32[300000], f32[9000], f32[300000]) tuple(u0, v, u1) }"
    )
    for target in (DEFAULT_CPU, PERSISTENT):
        check(plan_module(parse(text), target)[1].plan)


@pytest.mark.parametrize("n", [3, 33, 200])
def test_bits_are_the_same(n):
    x = np.random.default_rng(n).standard_normal((n, n)).astype(np.float32)
    text = CHAIN.format(n=n)
    for got, want in zip(refxla.compile(text)(x), refxla.compile(text, without=("fusion",))(x), strict=True):
        assert got.tobytes() == want.tobytes()


@pytest.mark.parametrize("n", [3, 150])
@pytest.mark.parametrize("limit", [KNOWN, FOUND])
@pytest.mark.parametrize("first", [0, 3])
def test_iterations_of_a_loop_are_phases(limit, n, first):
    """Also where the iterations do not write all of an array, whose first value then shows."""
    text = LOOP.format(limit=limit, n=n, first=first)
    plan = plan_module(parse(text), PERSISTENT)[1].plan
    check(plan)
    assert any(k.persistent for k in plan.kernels) == (n == 150)
    random = np.random.default_rng(n)
    x, w = (random.standard_normal((n, n)).astype(np.float32) / 20 for _ in range(2))
    compiled = refxla.compile(text)
    for got, want in zip(compiled(x, w), refxla.compile(text, without=("fusion",))(x, w), strict=True):
        assert got.tobytes() == want.tobytes()
    for got, want in zip(compiled(x, w), refxla.compile(text, device="reference")(x, w), strict=True):
        assert np.allclose(got, want, atol=1e-3)


@pytest.mark.parametrize("seed", range(0, 60))
def test_phases_of_random_programs(seed):
    try:
        check(plan_module(generate(seed).module, PERSISTENT)[1].plan)
    except UnsupportedError as problem:
        pytest.skip(str(problem))


def test_persistent_kernels_of_several_threads():
    executables = [refxla.compile(CHAIN.format(n=n)) for n in (150, 160, 170)]
    if not executables[0].device.target.persistent:
        pytest.skip("the device has no persistent kernels")
    assert all(any(k.persistent for k in e.plan.kernels) for e in executables)
    inputs = [np.random.default_rng(n).random((n, n), np.float32) for n in (150, 160, 170)]
    want = [e(x)[1].tobytes() for e, x in zip(executables, inputs, strict=True)]
    wrong = []

    def work(e, x, bits):
        for _ in range(30):
            if e(x)[1].tobytes() != bits:
                wrong.append(e)

    threads = [threading.Thread(target=work, args=a, daemon=True) for a in zip(executables, inputs, want, strict=True)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(600)
    assert not any(t.is_alive() for t in threads) and not wrong


def test_where_a_persistent_kernel_runs_is_decided_by_cost():
    """By what it saves: a chain of small products is not worth waking other threads for."""

    class Two:
        compute_units, small, target = 2, "one", PERSISTENT

    cores = [choose_cores(plan_module(parse(CHAIN.format(n=n)), PERSISTENT)[1].plan, Two)[0] for n in (8, 300)]
    assert cores == [1, 2]
