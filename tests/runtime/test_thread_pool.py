"""The threads that share out the items of a launch."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from refxla_spec.errors import DeviceError

from refxla._core.executor import Executor
from refxla.codegen.opencl_program import program
from refxla.runtime.program_build import build

# Item 0 and item 1 wait for each other, though not for ever; the result says of each whether the other came.
MEET = """
    __atomic_store_n(a1 + item, *a0, __ATOMIC_SEQ_CST);
    int met = 0;
    for (long n = 0; n < 200000000 && !met; ++n) met = __atomic_load_n(a1 + 1 - item, __ATOMIC_SEQ_CST) == *a0;
    a2[item] = met;
"""
COUNT = "a1[item] = a0[item] + 1;"
LARGE = """
    volatile int own[100000];
    for (int n = 0; n < 100000; ++n) own[n] = n + item;
    int sum = 0;
    for (int n = 0; n < 100000; ++n) sum += own[n] & 1;
    a0[item] = sum;
"""


@pytest.fixture
def pool(device):
    """(plan, how many members) -> Executor; more arguments are the Executor's."""

    def make(plan, members: int = 2, **arguments) -> Executor:
        text = program(plan.kernels, device.target)
        built = build(device, text)
        queue, *others = (device.queue(device.small) for _ in range(members))
        run = Executor(plan, queue, device.context, others=others, **arguments)
        run.assemble(text.entries, built)
        return run

    return make


def counting(maker, items: int):
    x, y = maker.parameter("s32", items), maker.result("s32", items)
    return maker.plan(maker.launch(COUNT, [x], [y], items))


def test_two_members_work_at_the_same_time(maker, pool):
    now, flags, met = maker.parameter("s32"), maker.inside("workspace", "s32", 2), maker.result("s32", 2)
    run = pool(maker.plan(maker.launch(MEET, [now], [flags, met], 2)))
    for n in range(1, 20):
        np.testing.assert_array_equal(run(np.int32(n)), [[1, 1]])
        if n % 5 == 0:
            time.sleep(0.02)  # the worker goes to sleep


@pytest.mark.parametrize("members", [1, 2, 3, 7])
def test_each_item_is_done_once(pool, maker, members):
    for items in (1, 2, 3, 5, 16, 63, 1000):
        plan = counting(type(maker)(), items)
        run, x = pool(plan, members), np.zeros(items, np.int32)
        for n in range(50):
            (x,) = run(x)
            np.testing.assert_array_equal(x, n + 1)


def test_who_finds_the_pool_at_work_does_all_alone(maker, pool):
    runs = [pool(counting(type(maker)(), items)) for items in (64, 100, 128, 2)]
    wrong = []

    def work(run, items):
        x = np.zeros(items, np.int32)
        for n in range(3000):
            (x,) = run(x)
            if (x != n + 1).any():
                wrong.append((items, n))

    threads = [threading.Thread(target=work, args=a, daemon=True) for a in zip(runs, (64, 100, 128, 2), strict=True)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(300)
    assert not any(t.is_alive() for t in threads) and not wrong


def test_a_launch_that_a_member_is_refused(maker, pool):
    run = pool(counting(maker, 8), local=1 << 20)
    for _ in range(3):
        with pytest.raises(DeviceError, match="kernel0 of handmade failed on the device: INVALID_WORK_GROUP_SIZE"):
            run(np.zeros(8, np.int32))


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system does not say which cores threads use")
def test_workers_keep_out_of_the_callers_way(maker, pool):
    cores = os.sched_getaffinity(0)
    if len(cores) == 1:
        pytest.skip("there is one core")
    run = pool(counting(maker, 64), len(cores))
    run(np.zeros(64, np.int32))
    try:
        for core in (*cores, *cores):
            os.sched_setaffinity(0, {core})
            run(np.zeros(64, np.int32))
            tasks = [t for t in Path("/proc/self/task").iterdir() if (t / "comm").read_text() == "refxla\n"]
            kept = [c for c in (os.sched_getaffinity(int(t.name)) for t in tasks) if len(c) == 1]
            assert len(kept) >= len(cores) - 1 and {core} not in kept
    finally:
        os.sched_setaffinity(0, cores)


def test_a_forked_process_has_workers_of_its_own(maker, pool):
    now, flags, met = maker.parameter("s32"), maker.inside("workspace", "s32", 2), maker.result("s32", 2)
    run = pool(maker.plan(maker.launch(MEET, [now], [flags, met], 2)))
    run(np.int32(1))
    child = os.fork()
    if child == 0:
        os._exit(int(run(np.int32(2))[0].sum()))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2


@pytest.mark.parametrize("members", [1, 2])
def test_a_thread_with_a_small_stack(maker, pool, members):
    """What items keep to themselves, more than such a thread has room for, lies in others."""
    run = pool(maker.plan(maker.launch(LARGE, [], [maker.result("s32", 4)], 4)), members)
    found = []
    before = threading.stack_size(128 << 10)
    try:
        thread = threading.Thread(target=lambda: found.extend(run()))
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
    np.testing.assert_array_equal(found, [[50000] * 4])
