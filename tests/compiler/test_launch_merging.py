"""Merged launches: what may share a launch, no bit changes, and loops with small bodies are launches."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from refxla_conformance.fuzz.generate import generate
from refxla_spec.errors import UnsupportedError
from refxla_spec.text import parse

import refxla
from refxla.compiler.explanation import _sharing
from refxla.compiler.planning import plan_module
from refxla.device.description import DEFAULT_CPU
from refxla.ir import plan as p
from refxla.ir.merged_body import ConditionalBody, CountedLoopBody, FrameBody, MergedBody, WhileLoopBody
from refxla.scheduling.merged_kernel import MOST_ARGUMENTS, SIZES, MergedLaunch
from refxla.scheduling.serial_control_flow import LAUNCH_US, iterations_per_launch


def updates(count: int, size: int) -> str:
    """x - 0.1 * g for so many pairs of arrays of different sizes."""
    lines, results = ["c = f32[] constant(0.1)"], []
    for n in range(count):
        shape = f"f32[{size + n}]"
        lines += [f"x{n} = {shape} parameter({2 * n})", f"g{n} = {shape} parameter({2 * n + 1})"]
        lines += [f"c{n} = {shape} broadcast(c), dimensions={{}}", f"s{n} = {shape} multiply(g{n}, c{n})"]
        lines.append(f"r{n} = {shape} subtract(x{n}, s{n})")
        results.append(f"{shape} r{n}")
    shapes = ", ".join(r.split()[0] for r in results)
    names = ", ".join(r.split()[1] for r in results)
    return "HloModule updates\nENTRY e {\n" + "\n".join(lines) + f"\nROOT t = ({shapes}) tuple({names})\n}}"


def ranges(plan: p.Plan, launch: p.Launch, part: p.Kernel, numbers: Sequence[int]):
    """(written, space, begin, end) of each argument of a part of a merged kernel."""
    for argument, number in zip(part.arguments, numbers, strict=True):
        b = plan.buffers[launch.buffers[number]]
        yield argument.role != "input", (b.space, b.index), b.offset, b.offset + b.bytes


def sections_of(kernel: p.Kernel) -> list[list[tuple[p.Kernel, tuple[int, ...]]]]:
    """The sections of a merged kernel, or what it does one after the other as one: each part with its arguments."""
    match kernel.body:
        case MergedBody(sections):
            calls = [section.calls for section in sections]
        case CountedLoopBody() as body:
            calls = [body.calls]
        case WhileLoopBody() as body:
            calls = [(*body.test, *body.calls)]
        case FrameBody(call):
            calls = [(call,)]
        case ConditionalBody() as body:
            calls = [tuple(call for branch in body.branches for call in branch)]
        case _:
            raise TypeError(f"{kernel.name} is no merged kernel")
    return [[(kernel.calls[call.kernel], call.arguments) for call in section] for section in calls]


def check(plan: p.Plan) -> int:
    """No section of any launch touches memory that another one writes; the number of sections that share a launch."""
    count = 0
    for launch in p.launches(plan.steps):
        kernel = plan.kernels[launch.kernel]
        assert len(kernel.arguments) == len(launch.buffers)
        if not kernel.calls:
            continue
        sections = sections_of(kernel)
        assert len(kernel.arguments) in SIZES and sum(map(len, sections)) == len(kernel.calls)
        used = [[r for part in section for r in ranges(plan, launch, *part)] for section in sections]
        for n, mine in enumerate(used):
            for other in (r for section in used[n + 1 :] for r in section):
                for written, space, begin, end in mine:
                    if space == other[1] and space[0] != p.CONSTANT and begin < other[3] and other[2] < end:
                        assert not written and not other[0], kernel.name
        count += len(sections) * (len(sections) > 1)
    return count


def test_an_optimiser_is_a_few_launches():
    text = updates(30, 5000)
    _, planned = plan_module(parse(text), DEFAULT_CPU)
    assert len(planned.plan.kernels) <= 2 and len(planned.plan.fusions) == 30
    assert max(len(k.arguments) for k in planned.plan.kernels) <= MOST_ARGUMENTS
    assert check(planned.plan) > 1
    random = np.random.default_rng(0)
    given = [random.random(5000 + n // 2, np.float32) for n in range(60)]
    for x, g, r in zip(given[::2], given[1::2], refxla.compile(text)(*given), strict=True):
        assert np.array_equal(r, x - g * np.float32(0.1))


def test_what_is_large_has_a_launch_of_its_own():
    plan = plan_module(parse(updates(3, 1 << 24)), DEFAULT_CPU)[1].plan
    assert len(plan.kernels) == 3 and not any(k.calls for k in plan.kernels)


@pytest.mark.parametrize("order", [(100, 1 << 22, 70_000), (70_000, 1 << 22, 100)])
def test_on_one_core_what_writes_much_stays_where_it_is(order):
    shapes = [f"f32[{n}]" for n in order]
    lines = [f"x{n} = {s} parameter({n})\ny{n} = {s} negate(x{n})" for n, s in enumerate(shapes)]
    text = "\n".join(["HloModule m", "ENTRY e {", *lines, f"ROOT t = ({', '.join(shapes)}) tuple(y0, y1, y2)", "}"])
    check(plan_module(parse(text), replace(DEFAULT_CPU, compute_units=1))[1].plan)


def test_small_kernels_that_need_each_other_are_one_launch():
    text = """HloModule m
    add { a = f32[] parameter(0)
          b = f32[] parameter(1)
          ROOT c = f32[] add(a, b) }
    ENTRY e { x = f32[8,8] parameter(0)
        y = f32[8,8] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        z = f32[8,8] dot(y, x), lhs_contracting_dims={1}, rhs_contracting_dims={1}
        zero = f32[] constant(0)
        s = f32[8] reduce(z, zero), dimensions={0}, to_apply=add
        w = f32[8,8] broadcast(s), dimensions={0}
        ROOT r = f32[8,8] dot(w, z), lhs_contracting_dims={1}, rhs_contracting_dims={0} }"""
    planned = plan_module(parse(text), DEFAULT_CPU)[1]
    assert len(planned.plan.fusions) >= 3 and len(planned.plan.kernels) == 1
    x = np.random.default_rng(1).random((8, 8), np.float32)
    want = refxla.compile(text, without=("fusion",))
    assert not any(k.calls for k in want.plan.kernels)
    assert np.array_equal(refxla.compile(text)(x), want(x))
    assert f"of {len(planned.merged_launches[0].sections[0])} in sequence" in str(refxla.compile(text).explain())


def loop(limit: str, size: int) -> str:
    return f"""HloModule l
    body {{ s = (s32[], f32[{size}], f32[{size},7]) parameter(0)
        i = s32[] get-tuple-element(s), index=0
        x = f32[{size}] get-tuple-element(s), index=1
        seen = f32[{size},7] get-tuple-element(s), index=2
        one = s32[] constant(1)
        zero = s32[] constant(0)
        next = s32[] add(i, one)
        f = f32[] convert(i)
        fs = f32[{size}] broadcast(f), dimensions={{}}
        y = f32[{size}] add(x, fs)
        c = f32[{size}] cosine(y)
        u = f32[{size},1] reshape(c)
        kept = f32[{size},7] dynamic-update-slice(seen, u, zero, i)
        ROOT r = (s32[], f32[{size}], f32[{size},7]) tuple(next, c, kept) }}
    test {{ s = (s32[], f32[{size}], f32[{size},7]) parameter(0)
        i = s32[] get-tuple-element(s), index=0
        x = f32[{size}] get-tuple-element(s), index=1
        {limit} }}
    ENTRY e {{ x = f32[{size}] parameter(0)
        zero = s32[] constant(0)
        none = f32[] constant(0)
        seen = f32[{size},7] broadcast(none), dimensions={{}}
        begin = (s32[], f32[{size}], f32[{size},7]) tuple(zero, x, seen)
        ROOT w = (s32[], f32[{size}], f32[{size},7]) while(begin), condition=test, body=body }}"""


KNOWN = "n = s32[] constant(7)\n ROOT p = pred[] compare(i, n), direction=LT"
FOUND = """first = f32[1] slice(x), slice={[0:1]}
    value = f32[] reshape(first)
    low = f32[] constant(0.3)
    n = s32[] constant(7)
    a = pred[] compare(value, low), direction=GT
    b = pred[] compare(i, n), direction=LT
    ROOT p = pred[] and(a, b)"""


@pytest.mark.parametrize("size", [3, 100_000])
@pytest.mark.parametrize("limit", [KNOWN, FOUND])
def test_a_loop_of_small_iterations_is_one_launch(limit, size):
    text = loop(limit, size)
    executable = refxla.compile(text)
    persistent = executable.device.target.persistent
    x = np.linspace(0.9, 0.1, size, dtype=np.float32)
    for got, want in zip(executable(x), refxla.compile(text, without=("fusion",))(x), strict=True):
        assert got.tobytes() == want.tobytes()
    loops = [s for s in executable.plan.steps if isinstance(s, p.Loop | p.Repeat)]
    if limit is KNOWN and (size == 3 or persistent):
        assert not loops
    elif size == 3 or persistent:
        assert len(loops) == 1 and len(loops[0].condition) == 1 and not loops[0].body
    else:
        assert len(loops) == 1 and loops[0].body


def test_a_long_loop_can_be_interrupted():
    """Its iterations are not all in one launch: one that takes too long leaves, and says that there is more."""
    text = loop("n = s32[] constant(2000000000)\n ROOT p = pred[] compare(i, n), direction=LT", 3)
    (step,) = [s for s in plan_module(parse(text), DEFAULT_CPU)[1].plan.steps if isinstance(s, p.Loop)]
    assert len(step.condition) == 1 and not step.body


def test_a_launch_of_long_iterations_has_one():
    """With none, the loop would never get to its end."""
    plan = plan_module(parse(loop(FOUND, 20_000_000)), replace(DEFAULT_CPU, compute_units=1))[1].plan
    (step,) = (s for s in plan.steps if isinstance(s, p.Loop))
    (launch,) = step.condition
    kernel = plan.kernels[launch.kernel]
    assert kernel.us > LAUNCH_US and not step.body
    assert isinstance(kernel.body, FrameBody)
    (called,) = kernel.calls
    assert isinstance(called.body, WhileLoopBody) and 0 < called.body.limit_ns < called.body.iteration_ns
    assert iterations_per_launch(2 * LAUNCH_US) == 1 and iterations_per_launch(LAUNCH_US / 7.5) == 7


@pytest.mark.parametrize("seed", range(0, 60))
def test_sections_of_random_programs_do_not_meet(seed):
    try:
        planned = plan_module(generate(seed).module, DEFAULT_CPU)[1]
    except UnsupportedError as problem:
        pytest.skip(str(problem))
    check(planned.plan)


def test_a_kernel_that_stands_twice_in_a_launch_is_explained():
    merged = MergedLaunch("merged.1", (("a", "b"), ("c", "a")), 1, 2.0, 3.0)
    told = "merged.1: number 1 of 2 in sequence, 2 times in all, in parallel with 1 other"
    assert _sharing(merged, "a") == f"{told} (2.0 us of work; launches saved: 3.0 us)"
