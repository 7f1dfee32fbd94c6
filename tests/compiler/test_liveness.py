"""Live ranges follow from the steps of a plan: which buffers may lie in one place, and which may not."""

from dataclasses import replace

import numpy as np
import pytest
from refxla_conformance.fuzz.generate import generate
from refxla_spec.errors import UnsupportedError

from refxla.analysis.liveness import live_ranges
from refxla.compiler.planning import plan_module
from refxla.device.description import DEFAULT_CPU
from refxla.ir import merged_body as m
from refxla.ir import plan as p

MAP = p.Kernel("map", "", (p.Argument("input", "float"), p.Argument("output", "float")), 4)


def kernel(body: m.StructuredBody, arguments: int, calls: int) -> p.Kernel:
    """A kernel that calls MAP so many times."""
    return p.Kernel("merged", body, (p.Argument("output", "uchar"),) * arguments, 1, (MAP,) * calls)


def meet(ranges: dict[int, tuple[int, int]], a: int, b: int) -> bool:
    """Whether two buffers are live at the same time."""
    return ranges[a][0] <= ranges[b][1] and ranges[b][0] <= ranges[a][1]


def chain(*buffers: int) -> tuple[p.Launch, ...]:
    """Launches of MAP, each from one buffer to the next."""
    return tuple(p.Launch(0, pair) for pair in zip(buffers, buffers[1:], strict=False))


def test_a_value_lives_until_it_is_read():
    ranges = live_ranges(chain(0, 1, 2, 3), [MAP])
    assert meet(ranges, 0, 1) and meet(ranges, 1, 2)
    assert not meet(ranges, 0, 2) and not meet(ranges, 1, 3)


def test_what_an_iteration_reads_first_lives_throughout_the_loop():
    """1 -> 2 -> 3 -> 1: the state 1 is carried over, 2 and 3 are not; 0, which comes from outside, is read again."""
    loop = p.Loop(chain(0, 9), 9, chain(1, 2, 3, 1))
    ranges = live_ranges((*chain(8, 0), *chain(8, 1), loop, *chain(1, 7)), [MAP])
    assert all(meet(ranges, state, b) for state in (0, 1) for b in (2, 3, 9))
    assert meet(ranges, 2, 3) and not meet(ranges, 9, 3) and not meet(ranges, 8, 2)


def test_what_is_carried_over_needs_no_first_value():
    """2 is used in the loop alone, and read before it is written: its value is that of the iteration before."""
    ranges = live_ranges((p.Repeat(3, chain(2, 3, 4, 5, 2)),), [MAP])
    assert all(meet(ranges, 2, b) for b in (3, 4, 5)) and not meet(ranges, 3, 5)


def test_an_update_in_place_does_not_overwrite():
    update = p.Kernel("update", "", (MAP.arguments[0], p.Argument("output", "float", updates=object())), 1)
    steps = p.Repeat(3, (*chain(1, 2, 3), p.Launch(1, (3, 4))))
    ranges = live_ranges((steps,), [MAP, update])
    assert meet(ranges, 4, 2) and not meet(live_ranges((p.Repeat(3, chain(1, 2, 3, 4)),), [MAP]), 4, 2)


def test_branches_share_memory():
    ranges = live_ranges((p.Branch(0, (chain(1, 2, 3), chain(1, 4, 3))), *chain(3, 5)), [MAP])
    assert not meet(ranges, 2, 4) and meet(ranges, 1, 2) and meet(ranges, 1, 4) and meet(ranges, 3, 4)


def calls(*buffers: int) -> tuple[m.KernelCall, ...]:
    """The same chain as calls."""
    return tuple(m.KernelCall(n, pair) for n, pair in enumerate(zip(buffers, buffers[1:], strict=False)))


def test_sections_run_at_the_same_time_and_their_calls_do_not():
    serial = m.SectionBody(1, calls(0, 1, 2, 3), serial=True)
    other = m.SectionBody(1, (m.KernelCall(3, (4, 5)),), serial=True)
    alone = live_ranges((p.Launch(0, tuple(range(6))),), [kernel(m.MergedBody((serial,)), 6, 3)])
    assert not meet(alone, 0, 2) and not meet(alone, 1, 3)
    both = live_ranges((p.Launch(0, tuple(range(6))),), [kernel(m.MergedBody((serial, other)), 6, 4)])
    assert meet(both, 0, 2) and meet(both, 0, 5)


def test_phases_follow_each_other():
    phases = [m.SharedPhase((m.SectionBody(4, (call,), serial=False),)) for call in calls(1, 2, 3, 4)]
    once = kernel(m.PersistentBody(tuple(phases)), 5, 3)
    ranges = live_ranges((p.Launch(0, tuple(range(5))),), [once])
    assert meet(ranges, 2, 3) and not meet(ranges, 1, 3) and not meet(ranges, 2, 4)
    again = kernel(
        m.PersistentBody((*phases, m.SharedPhase((m.SectionBody(4, (m.KernelCall(3, (4, 1)),), False),))), 9), 5, 4
    )
    ranges = live_ranges((p.Launch(0, tuple(range(5))),), [again])
    assert meet(ranges, 1, 3) and not meet(ranges, 2, 4)  # 1 is carried over


def test_what_a_kernel_copies_back_has_its_memory_to_itself():
    """What lies in private memory, and a frame, is live from the beginning of a kernel to its end."""
    calls = m.KernelCall(0, (0, 1)), m.KernelCall(1, (1, 2)), m.KernelCall(2, (2, 3))
    inner = kernel(m.MergedBody((m.SectionBody(1, calls, True),)), 4, 3)

    def ranges(promoted: tuple[int, ...], parts: tuple[tuple[int, m.Offset], ...] = ()) -> dict[int, tuple[int, int]]:
        body = m.FrameBody(m.KernelCall(0, (0, 1, 2, 3), parts), promoted)
        return live_ranges((p.Launch(0, (0, 1, 2, 3)),), [replace(kernel(body, 4, 0), calls=(inner,))])

    assert not meet(ranges(()), 0, 2) and not meet(ranges(()), 1, 3)
    assert meet(ranges((2,)), 0, 2) and meet(ranges((1,)), 1, 3) and not meet(ranges((1,)), 0, 2)
    assert meet(ranges((), ((2, m.FrameOffset(0)),)), 0, 2)


def test_the_predicate_of_a_loop_outlives_the_launch():
    """A kernel of several iterations ends after a body, and the host then reads what the test before that found."""
    body = m.WhileLoopBody((m.KernelCall(0, (0, 1)),), 1, (m.KernelCall(1, (0, 2)), m.KernelCall(2, (2, 0))), 3, 1, 9)
    ranges = live_ranges((p.Loop((p.Launch(0, (0, 1, 2, 3)),), 1, ()),), [kernel(body, 4, 3)])
    assert meet(ranges, 1, 2) and meet(ranges, 0, 2) and meet(ranges, 3, 2)


@pytest.mark.parametrize("seed", range(0, 40))
def test_buffers_of_random_programs_that_are_live_together_lie_apart(seed):
    try:
        plan = plan_module(generate(seed).module, DEFAULT_CPU)[1].plan
    except UnsupportedError as problem:
        pytest.skip(str(problem))
    ranges = live_ranges(plan.steps, plan.kernels)
    arena = [(b, ranges[n]) for n, b in enumerate(plan.buffers) if b.space == p.ARENA and b.bytes and n in ranges]
    used = np.zeros(plan.arena_bytes, np.int64)
    for point in sorted({begin for _, (begin, _) in arena}):  # no two begin to meet elsewhere
        used[:] = 0
        for b, (begin, end) in arena:
            if begin <= point <= end:
                used[b.offset : b.offset + b.bytes] += 1
        assert used.max(initial=0) <= 1
