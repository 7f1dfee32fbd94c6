"""Kernels that are built while the program that wants them goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import Future

import numpy as np
import pytest
from refxla_spec.errors import DeviceError

import refxla
from refxla._core.execution import in_flight
from refxla.codegen.opencl_program import program
from refxla.runtime import background_builds, executable, program_build
from refxla.runtime.background_builds import BackgroundBuilds
from refxla.runtime.cores import Cores
from refxla.runtime.executable import Executable
from refxla.runtime.pocl import parallel_build
from refxla.runtime.pocl.parallel_build import ParallelBuild

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="PoCL has a process beside it on Linux only")
PATIENCE_S = 60


@pytest.fixture(autouse=True)
def two_processors(monkeypatch, tmp_path, device):
    _ = device.properties  # kept in the cache that all tests share
    for module in (parallel_build, program_build, background_builds):
        monkeypatch.setattr(module, "cores", lambda: Cores(2))
    monkeypatch.setenv("REFXLA_CACHE_DIR", str(tmp_path))


def nothing() -> None:
    """What cancels a build that cannot be cancelled."""


@pytest.fixture
def gate(monkeypatch):
    """An event without which no build begins."""
    event, builds = threading.Event(), BackgroundBuilds()

    def submit(build, cancel) -> Future[None]:
        return builds.submit(lambda: build() if event.wait(PATIENCE_S) else pytest.fail("stays closed"), cancel)

    monkeypatch.setattr(executable.BUILDS, "submit", submit)
    yield event
    event.set()
    builds.hold()
    builds.release()


def in_background(maker, device, formula: str) -> Executable:
    """y = x `formula`, for 8 numbers, built in the background."""
    x, y = maker.parameter("f32", 8), maker.result("f32", 8)
    plan = maker.plan(maker.launch(f"for (int i = 0; i < 8; ++i) a1[i] = a0[i] {formula};", [x], [y]))
    build = ParallelBuild(device)
    build.expect(1)
    assert build.has_workers
    return Executable(plan, program(plan.kernels, device.target), device, 0, build, in_background=True)


def test_calls_with_arrays_return_before_the_kernels_are_there(maker, device, gate):
    run = in_background(maker, device, "+ 41.0f")
    x = refxla.device_put(np.arange(8, dtype=np.float32))
    (y,) = run(x)
    (z,) = run(y)
    assert in_flight() == 2 and not y.is_ready() and not z.is_ready()
    gate.set()
    np.testing.assert_array_equal(z, np.arange(8) + 82)
    run.wait_until_assembled()
    np.testing.assert_array_equal(run(z)[0], np.arange(8) + 123)


def test_a_call_with_numpy_arrays_waits(maker, device, gate):
    run = in_background(maker, device, "+ 42.0f")
    timer = threading.Timer(0.2, gate.set)
    timer.start()
    np.testing.assert_array_equal(run(np.zeros(8, np.float32))[0], np.full(8, 42))
    assert gate.is_set()
    timer.join()


def test_an_error_of_the_compiler_is_that_of_each_call(maker, device, gate):
    run = in_background(maker, device, "is not C")
    x = refxla.device_put(np.zeros(8, np.float32))
    (y,) = run(x)
    gate.set()
    for wait in (lambda: np.asarray(y), lambda: np.asarray(run(x)[0]), lambda: run(np.zeros(8, np.float32))):
        with pytest.raises(DeviceError, match="refuses a generated program"):
            wait()
    with pytest.raises(DeviceError, match="refuses a generated program"):
        run.wait_until_assembled()


def test_programs_share_what_is_being_compiled(maker, device, gate, monkeypatch):
    """Two programs of one part, which is compiled once."""
    asked = []
    put = ParallelBuild._put
    monkeypatch.setattr(ParallelBuild, "_put", lambda self, part: (asked.append(part.source), put(self, part))[1])
    x, y = maker.parameter("f32", 8), maker.result("f32", 8)
    plan = maker.plan(maker.launch("for (int i = 0; i < 8; ++i) a1[i] = a0[i] + 43.0f;", [x], [y]))
    runs = []
    for _ in range(2):
        build, text = ParallelBuild(device), program(plan.kernels, device.target)
        build.expect(1)
        for part in text.parts:
            build.take(part)
        runs.append(Executable(plan, text, device, 0, build, in_background=True))
    gate.set()
    for run in runs:
        np.testing.assert_array_equal(run(np.zeros(8, np.float32))[0], np.full(8, 43))
    assert len(asked) == 1


def test_builds_are_bounded_and_in_order():
    builds, event, done = BackgroundBuilds(), threading.Event(), []
    first = builds.submit(lambda: (event.wait(PATIENCE_S), done.append(1))[1], nothing)
    builds.submit(lambda: done.append(2), nothing)
    third = threading.Thread(target=lambda: builds.submit(lambda: done.append(3), nothing))
    third.start()
    third.join(0.1)
    assert third.is_alive() and not first.done() and not done  # two are in progress on two cores
    event.set()
    third.join(PATIENCE_S)
    builds.hold()  # as a fork does
    assert done == [1, 2, 3]
    fourth = threading.Thread(target=lambda: builds.submit(lambda: done.append(4), nothing))
    fourth.start()
    fourth.join(0.1)
    assert fourth.is_alive() and done == [1, 2, 3]
    builds.release()
    fourth.join(PATIENCE_S)
    builds.hold()
    builds.release()
    builds.end()
    assert builds.submit(lambda: done.append(5), nothing).done() and done == [1, 2, 3, 4, 5]


def test_without_a_thread_the_caller_builds(monkeypatch):
    """The system allows no more threads; once it does, builds are in the background."""
    builds, done = BackgroundBuilds(), []

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        for n in range(3):
            assert builds.submit(lambda n=n: done.append(n), nothing).done()
    builds.submit(lambda: done.append(3), nothing).result(PATIENCE_S)
    assert done == [0, 1, 2, 3]


def test_a_program_compiles_without_threads(maker, device, monkeypatch):
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        run = in_background(maker, device, "+ 48.0f")
        np.testing.assert_array_equal(run(np.zeros(8, np.float32))[0], np.full(8, 48))


def test_a_fork_waits_for_the_builds(maker, device):
    run = in_background(maker, device, "+ 44.0f")
    child = os.fork()
    if child == 0:
        right = np.array_equal(run(np.zeros(8, np.float32))[0], np.full(8, 44))
        os._exit(0 if right else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_a_forked_child_does_not_wait_for_calls_of_its_parent(maker, device, gate):
    run = in_background(maker, device, "+ 46.0f")
    (y,) = run(refxla.device_put(np.zeros(8, np.float32)))
    child = os.fork()
    if child == 0:
        signal.alarm(5)
        try:
            np.asarray(y)
        except DeviceError as problem:
            os._exit(0 if "when the process was forked" in str(problem) else 1)
        os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    gate.set()
    np.testing.assert_array_equal(y, np.full(8, 46))


def test_results_of_pending_calls_are_there_after_a_fork(maker, device):
    run = in_background(maker, device, "+ 47.0f")
    (y,) = run(refxla.device_put(np.zeros(8, np.float32)))
    child = os.fork()
    if child == 0:
        signal.alarm(5)
        os._exit(0 if np.array_equal(y, np.full(8, 47)) else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_a_forked_child_calls_programs_of_its_own(maker, device):
    """The thread of the queue waits at the fork: the child, which does not have it, must not expect it to wake up."""
    x = refxla.device_put(np.zeros(8, np.float32))
    np.testing.assert_array_equal(in_background(maker, device, "+ 49.0f")(x)[0], np.full(8, 49))
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        for n in range(3):
            (y,) = in_background(type(maker)(), device, f"+ {n}.5f")(x)
            if not np.array_equal(y, np.full(8, n + 0.5)):
                os._exit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


def test_python_may_end_while_kernels_are_built(tmp_path):
    script = """
import numpy as np, refxla, sys
from refxla.compiler.driver import compile_module
from refxla_spec.text import parse
text = "HloModule m\\nENTRY e {\\n  x = f32[8] parameter(0)\\n  ROOT y = f32[8] sine(x)\\n}\\n"
run = compile_module(parse(text), in_background=True)
y = run(refxla.device_put(np.zeros(8, np.float32)))
"""
    environment = {**os.environ, "REFXLA_CACHE_DIR": str(tmp_path)}
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment)
    assert result.returncode == 0 and not result.stderr, result.stderr


def test_a_build_that_is_cancelled_compiles_nothing(maker, device, monkeypatch):
    """Python ends while a worker compiles: this process does not do its work."""
    x, y = maker.parameter("f32", 8), maker.result("f32", 8)
    plan = maker.plan(maker.launch("for (int i = 0; i < 8; ++i) a1[i] = a0[i] + 45.0f;", [x], [y]))
    monkeypatch.setattr(parallel_build.built_parts, "compiled_here", lambda *_: pytest.fail("compiled here"))
    build = ParallelBuild(device)
    build.expect(1)
    build.cancel()
    with pytest.raises(DeviceError, match="the process ends"):
        Executable(plan, program(plan.kernels, device.target), device, 0, build)
