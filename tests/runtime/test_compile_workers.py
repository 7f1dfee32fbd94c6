"""Programs in parts, compiled by processes beside this one."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from refxla_spec.errors import DeviceError

from refxla.codegen.opencl_program import Builder, program
from refxla.codegen.program_part import ProgramPart
from refxla.runtime import program_build
from refxla.runtime.cores import Cores
from refxla.runtime.discovery import pocl_directory
from refxla.runtime.executable import Executable
from refxla.runtime.pocl import built_parts, builtins_library, compile_workers, kernels, parallel_build, platform
from refxla.runtime.pocl.compile_workers import WORKERS, CompileWorker, IdleWorkers, PartQueue, libraries
from refxla.runtime.pocl.parallel_build import ParallelBuild
from refxla.runtime.watchdog import ProcessClock

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="PoCL has a process beside it on Linux only")


@pytest.fixture(autouse=True)
def two_processors(monkeypatch, tmp_path, device):
    _ = device.properties  # kept in the cache that all tests share
    for module in (parallel_build, program_build):
        monkeypatch.setattr(module, "cores", lambda: Cores(2))
    monkeypatch.setenv("REFXLA_CACHE_DIR", str(tmp_path))


def four_steps(maker, device, salt: int):
    """y = ((x + salt) * 2 - 1) / 4 by kernels of 2, 3, 4 and 5 arguments, which are four parts."""
    x, y = maker.parameter("f32", 8), maker.result("f32", 8)
    values = [x, *(maker.inside("arena", "f32", 8) for _ in range(3)), y]
    formulas = (f"+ {salt}.0f", "* 2.0f", "- 1.0f", "* 0.25f")
    steps = []
    for n, formula in enumerate(formulas):
        inputs = [values[n], *[x] * n]  # the more arguments, the later
        body = f"for (int i = 0; i < 8; ++i) a{len(inputs)}[i] = a0[i] {formula};"
        steps.append(maker.launch(body, inputs, [values[n + 1]]))
    plan = maker.plan(*steps)
    return plan, program(plan.kernels, device.target, part=1)


def right(plan, parts, device, salt: int) -> bool:
    given = np.arange(8, dtype=np.float32)
    (found,) = Executable(plan, parts, device)(given)
    return np.array_equal(found, ((given + salt) * 2 - 1) / 4)


def test_parts(maker, device):
    plan, parts = four_steps(maker, device, 1)
    names = [name for name, _ in parts.entries]
    assert [number(name) for name in names] == [0, 1, 2, 3]
    assert sorted(p.functions for p in parts.parts) == [(name,) for name in names]
    assert parts.entries == tuple((name, 0) for name in names)
    assert parts.pointers == dict(zip(names, (2, 3, 4, 5), strict=True))
    whole = program(plan.kernels, device.target)
    assert len(whole.parts) == 1 and [(number(n), w) for n, w in whole.entries] == [(n, 0) for n in range(4)]
    assert list(whole.pointers.values()) == [2, 3, 4, 5]
    twice = program([*plan.kernels, *plan.kernels], device.target, part=1)
    assert twice.parts == parts.parts and twice.entries == 2 * parts.entries


def number(name: str) -> int:
    """Which of its program a __kernel is; the rest of its name is a digest."""
    word, count, digest = name.split("_")
    assert word == "refxla" and len(digest) == 16
    return int(count)


def test_no_two_kernels_are_called_alike_unless_they_are_the_same(maker, device):
    names = [{name for name, _ in four_steps(type(maker)(), device, salt)[1].entries} for salt in (1, 1, 2)]
    assert names[0] == names[1]  # of each step the first differs, and only it
    assert {number(name) for name in names[0] & names[2]} == {1, 2, 3}


def test_functions_of_few_arguments_share_a_kernel(maker, device):
    plan, _ = four_steps(maker, device, 1)
    together = program(plan.kernels, device.target, part=100_000)
    ((name, count),) = together.pointers.items()
    assert count == 5 and together.entries == tuple((name, n) for n in range(4))
    assert right(plan, together, device, 1)


def test_a_part_is_ready_when_it_is_full(maker, device):
    plan, parts = four_steps(maker, device, 1)
    ready: list[ProgramPart] = []
    builder = Builder(device.target, 1, ready.append)
    for n, kernel in enumerate(plan.kernels[:3]):
        assert len(ready) == n
        builder.add(kernel)
        builder.add(kernel)
    assert builder.program(plan.kernels).entries == parts.entries and set(ready) == set(parts.parts)
    assert parts.parts[0].items == 1


def test_a_large_group_is_cut_and_small_ones_are_together(maker, device):
    plan, _ = four_steps(maker, device, 1)
    one = plan.kernels[0]
    many = [type(one)(one.name, f"{one.body}// {n}\n", one.arguments, n + 1) for n in range(6)]
    cut = program([*many, plan.kernels[1]], device.target, part=len(many[0].body) + 130)
    assert {f for f, _ in cut.entries} == {f for p in cut.parts for f in p.functions}
    assert sorted(p.items for p in cut.parts) == [1, 2, 4, 6]
    for kernel, (function, which) in zip(many, cut.entries, strict=False):
        (part,) = (p for p in cut.parts if function in p.functions)
        assert kernel.body in part.source
        assert f"case {which}: " in part.source[part.source.index(f"__kernel void {function}(") :]


def parts_of(program):
    parts = PartQueue()
    for part in program.parts:
        parts.put(part)
    return parts


def test_who_waits_has_taken_a_part_when_its_maker_goes_on(monkeypatch):
    monkeypatch.setattr(compile_workers, "_HAND_S", 60.0)
    parts, taken = PartQueue(), []
    parts.put(ProgramPart("nobody waits", ()))  # and its maker neither
    thread = threading.Thread(target=lambda: taken.extend(iter(parts.take, None)))
    thread.start()
    while not (taken and parts._waiting):
        time.sleep(0.001)
    parts.put(ProgramPart("one waits", ()))
    assert not parts._left
    parts.close()
    thread.join()
    assert [part.source for part in taken] == ["nobody waits", "one waits"]


@pytest.fixture
def worker(device):
    found = CompileWorker(*libraries(), pocl_directory())
    yield found
    found.end()


def number_of(device, raw) -> int:
    return device.raw.platform.get_devices().index(raw)


def test_a_worker_compiles_into_the_directory(maker, device, worker):
    _, four = four_steps(maker, device, 2)
    before = kernels_made()
    parts = parts_of(four)
    worker.work(parts, number_of(device, device.small), device.build_options)
    parts.close()
    assert worker.wait(300) and worker.clock.lap()[0] > 0 and worker.clock.lap()[0] == 0
    made = {path.stem: path.stat().st_mtime_ns for path in kernels_made() - before}
    assert set(made) == {name for name, _ in four.entries}
    assert parts.done == {part.source for part in four.parts}
    for part in four.parts:  # and this process compiles none of it again
        kernels.compiled(device, device.small, part)
    assert made == {path.stem: path.stat().st_mtime_ns for path in kernels_made() - before}


def test_a_worker_compiles_for_several_devices(maker, device, worker):
    _, four = four_steps(maker, device, 14)
    for raw in device.raws:
        parts = parts_of(four)
        parts.close()
        worker.work(parts, number_of(device, raw), device.build_options)
        assert worker.wait(300) and parts.done == {part.source for part in four.parts}


def test_workers_read_a_library_of_a_few_lines(maker, device):
    pocl = libraries()[1]
    if builtins_library.folder(platform.directory(), pocl) is None:
        pytest.skip("this PoCL is not that of the wheel")
    assert device.properties.builtins
    with ParallelBuild(device) as begun:
        path = begun._paths[1]
    assert path != pocl and path.resolve() == pocl.resolve()
    files = (path.parent / builtins_library._FILES / "share" / "pocl").resolve()
    assert {f.read_text() for f in files.glob("kernel-*.bc")} == {builtins_library.LIBRARY}


def test_parts_come_while_others_are_taken():
    parts = PartQueue()
    one, two = ProgramPart("1", ()), ProgramPart("2", ())
    parts.put(one)
    taken = []
    thread = threading.Thread(target=lambda: taken.extend(iter(parts.take, None)))
    thread.start()
    parts.put(two)
    parts.close()
    thread.join(300)
    assert taken == [one, two] and not thread.is_alive() and parts.take() is None


def test_parts_compiled_ahead(maker, device):
    plan, four = four_steps(maker, device, 7)
    before = kernels_made()
    (salted,) = (part for part in four.parts if part.functions == (four.entries[0][0],))  # which no other test has
    with ParallelBuild(device) as begun:
        begun.expect(parallel_build.MULTI_PART_INSTRUCTIONS)
        assert len(begun._workers) == 2
        begun.take(salted)
        begun.take(salted)
        limit = time.monotonic() + 300
        while kernels_made() == before and time.monotonic() < limit:
            time.sleep(0.02)
        made = {path.stem for path in kernels_made() - before}
        assert made == set(salted.functions)  # and nothing else was asked for
        executable = Executable(plan, four, device, parallel_build=begun)
    given = np.arange(8, dtype=np.float32)
    assert np.array_equal(executable(given)[0], ((given + 7) * 2 - 1) / 4)


def kernels_made() -> set[Path]:
    """The files of kernels that PoCL has made until now, and not those that it is writing."""
    return set(pocl_directory().glob("??/*/*/*/*.so"))


def test_what_was_begun_is_ended(maker, device, monkeypatch, tmp_path):
    never_done(monkeypatch, tmp_path)
    _, four = four_steps(maker, device, 8)
    with pytest.raises(KeyboardInterrupt), ParallelBuild(device) as begun:
        begun.expect(parallel_build.MULTI_PART_INSTRUCTIONS)
        worker, thread = begun._workers[0], begun._workers[0]._thread
        begun.take(four.parts[0])
        raise KeyboardInterrupt
    assert worker._child.returncode is not None and not thread.is_alive() and not begun._workers


def test_where_no_worker_can_be_had_none_is_started(device, monkeypatch):
    monkeypatch.setattr(IdleWorkers, "take", None)
    monkeypatch.setattr(parallel_build, "cores", lambda: Cores(1))
    with ParallelBuild(device) as begun:
        begun.expect(parallel_build.MULTI_PART_INSTRUCTIONS)
        begun.take(ProgramPart("1", ()))


def test_workers_stay_for_the_next_program(maker, device, monkeypatch):
    WORKERS.end()
    started = []
    monkeypatch.setattr(compile_workers, "CompileWorker", lambda *a: started.append(CompileWorker(*a)) or started[-1])
    assert right(*four_steps(type(maker)(), device, 3), device, 3) and len(started) == 2  # there are several parts
    assert right(*four_steps(type(maker)(), device, 13), device, 13) and len(started) == 2
    assert all(worker.alive and not worker.busy for worker in started)
    for worker in started:
        worker.end()  # as one does for which nothing came for long
    # One is enough for the part that is new: the others are kept.
    assert right(*four_steps(type(maker)(), device, 15), device, 15) and len(started) == 3
    WORKERS.end()
    assert not any(worker.alive for worker in started)


@pytest.fixture
def fault(monkeypatch, tmp_path, device):
    """A compiler that ends the worker on each part whose source has some text."""
    _ = device.properties  # kept in the cache that all tests share
    monkeypatch.setenv("REFXLA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(compile_workers, "_FAULTS", {-signal.SIGKILL})  # LLVM survives others that come from outside
    compiled, faults = CompileWorker._compiled, []

    def on(text: str) -> None:
        def ended(worker, part, *others):
            if text in part.source and part.functions:
                worker._child.send_signal(signal.SIGSTOP)  # so that it dies with the job, not before it or after
                threading.Timer(0.1, worker._child.kill).start()
                faults.append(part)
            return compiled(worker, part, *others)

        monkeypatch.setattr(CompileWorker, "_compiled", ended)

    on.faults = faults
    return on


def test_a_fault_of_the_compiler_ends_a_worker_and_not_this_process(maker, device, fault):
    if not device.target.features:
        pytest.skip("the device has no instructions that are asked for")
    fault('target("avx512')
    assert right(*four_steps(maker, device, 21), device, 21)
    count = len(fault.faults)
    assert count >= 1
    assert right(*four_steps(type(maker)(), device, 21), device, 21) and len(fault.faults) == count, "it was kept"


def test_a_fault_of_the_compiler_that_stays_is_told(maker, device, fault):
    fault("")
    with pytest.raises(DeviceError, match="ends its process on a generated program"):
        right(*four_steps(maker, device, 22), device, 22)


def test_a_worker_ends_when_nothing_comes(monkeypatch, tmp_path):
    path = tmp_path / "worker.py"
    path.write_text(compile_workers._SCRIPT.read_text().replace("IDLE_S = 30.0", "IDLE_S = 0.1"))
    monkeypatch.setattr(compile_workers, "_SCRIPT", path)
    worker = CompileWorker(*libraries(), pocl_directory())
    assert worker._child.wait(300) == 0 and not worker.alive
    worker.end()


def test_a_process_that_was_forked_has_no_workers(device):
    WORKERS.give_back(CompileWorker(*libraries(), pocl_directory()))
    child = os.fork()
    if not child:
        os._exit(len(WORKERS._idle))
    assert os.waitpid(child, 0)[1] == 0 and WORKERS._idle


def test_what_a_worker_has_done_is_opened_while_it_works(maker, device, monkeypatch):
    _, parts = four_steps(maker, device, 12)
    sources = [part.source for part in parts.parts]
    compiled, opened, before = kernels.compiled, [], []

    class Other:
        busy = True

        def wait(self, seconds):
            before.extend(opened)
            self.busy = False

        def rest(self):
            return True

        clock = ProcessClock(os.getpid())

        def end(self):
            pass

    def opening(device, *more):
        opened.append(more[-1].source)
        return compiled(device, device.runner, more[-1])

    monkeypatch.setattr(built_parts, "compiled_here", opening)
    monkeypatch.setattr(built_parts, "from_directory", opening)
    with ParallelBuild(device) as work:
        work._workers, work._most = [Other()], 0
        work._parts.done.update(sources[:2])
        made = work.finish(parts.parts)
    WORKERS._idle.clear()
    assert before == sources[:2] and opened == sources and len(made) == 4


def never_done(monkeypatch, place: Path, script: str = "import time; time.sleep(1000)") -> None:
    """Workers read a line and then do what `script` says."""
    path = place / "worker.py"
    path.write_text(f"import sys\nsys.stdin.readline()\n{script}\n")
    monkeypatch.setattr(compile_workers, "_SCRIPT", path)
    WORKERS.end()


@pytest.mark.parametrize(
    "script", ["import time; time.sleep(1000)", "print('failed: no')", "raise SystemExit", "import os; os.abort()"]
)
def test_a_process_that_does_not_help(maker, device, monkeypatch, tmp_path, script):
    never_done(monkeypatch, tmp_path, script)
    monkeypatch.setattr(parallel_build, "_PATIENCE_S", 0.1)
    salt = 4 + len(script)
    assert right(*four_steps(maker, device, salt), device, salt)


def test_no_process_can_be_started(maker, device, monkeypatch):
    WORKERS.end()
    monkeypatch.setattr(sys, "executable", str(Path("/nowhere/python")))
    assert right(*four_steps(maker, device, 5), device, 5)


def test_an_error_in_any_part_is_told(maker, device):
    plan, _ = four_steps(maker, device, 6)
    broken = [type(k)(k.name, f"this is not C; {k.body}", k.arguments, k.items) for k in plan.kernels]
    with pytest.raises(DeviceError, match="refuses a generated program"):
        Executable(plan, program(broken, device.target, part=1), device)
