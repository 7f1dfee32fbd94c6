"""The watchdog: which time of a child process counts, and which does not."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from refxla.runtime import watchdog
from refxla.runtime.watchdog import ProcessClock, Watchdog

SPINS = "while True: pass"
SLEEPS = "import time; time.sleep(1000)"
HAS_A_CHILD = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {SPINS!r}])"


@pytest.fixture
def start():
    """A function from the text of a program to a child that has begun to run it."""
    children = []

    def started(text: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", f"print(flush=True)\n{text}"]
        children.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True))
        assert children[-1].stdout.readline() == "\n"
        return children[-1]

    yield started
    for child in children:
        with contextlib.suppress(ProcessLookupError):  # it has ended, and left no child of its own
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        child.stdout.close()


@pytest.mark.parametrize("text", [SLEEPS, SPINS, HAS_A_CHILD])
def test_a_silent_child_is_killed(start, text):
    child = start(text)
    with Watchdog(child, 1.0) as dog:
        assert child.wait(60) == -signal.SIGKILL
    assert dog.expired


def test_signs_of_life_keep_a_child_alive(start):
    child = start(SLEEPS)
    with Watchdog(child, 1.5) as dog:
        for _ in range(5):
            time.sleep(0.5)
            dog.restart(1.5)
        assert child.poll() is None and not dog.expired


def test_a_stopped_child_is_not_silent(start):
    child = start(SPINS)
    child.send_signal(signal.SIGSTOP)
    with Watchdog(child, 1.0) as dog:
        time.sleep(2.5)
        assert child.poll() is None and not dog.expired
        child.send_signal(signal.SIGCONT)
        assert child.wait(60) == -signal.SIGKILL
    assert dog.expired


def test_descendants_count(start):
    clock = ProcessClock(start(HAS_A_CHILD).pid)
    deadline = time.perf_counter() + 60
    ran = 0.0
    while ran < 0.5 and time.perf_counter() < deadline:
        time.sleep(0.1)
        ran += clock.lap()[0]
    assert ran >= 0.5


def clock_at(monkeypatch, folder: Path, *times: float) -> ProcessClock:
    """A clock of process 7 in a /proc of the test's own, made at the first of these times; the others are its laps'."""
    monkeypatch.setattr(watchdog, "_PROC", folder)
    seconds = iter(times)
    monkeypatch.setattr(watchdog.time, "perf_counter", lambda: next(seconds))
    return ProcessClock(7)


def proc(folder, state: str, ticks: int) -> None:
    """The files of /proc for a process with the number 7 and one thread."""
    (folder / "7/task/7").mkdir(parents=True, exist_ok=True)
    text = f"7 (a) b) {state} " + " ".join(["0"] * 10) + f" {ticks} 0 0 0 20"
    (folder / "7/stat").write_text(text)
    (folder / "7/task/7/stat").write_text(text)
    (folder / "7/task/7/children").write_text("")


@pytest.mark.parametrize(
    ("state", "slept"), [("R", 0.0), ("T", 0.0), ("t", 0.0), ("S", 0.4), ("D", 0.4)], ids=lambda x: str(x)
)
def test_waiting_for_a_processor_is_not_counted(monkeypatch, tmp_path, state, slept):
    """Half of a second passes, in which the process runs for a tenth."""
    monkeypatch.setattr(watchdog.os, "sysconf", lambda _: 100)
    clock = clock_at(monkeypatch, tmp_path, 100.0, 101.0, 101.5)
    proc(tmp_path, state, 30)
    clock.lap()
    proc(tmp_path, state, 40)
    assert clock.lap() == (pytest.approx(0.1), pytest.approx(slept))


def test_all_threads_count_where_the_kernel_lists_no_children(monkeypatch, tmp_path):
    """One sleeps, and the other one waits for a processor."""
    clock = clock_at(monkeypatch, tmp_path, 100.0, 100.5)
    proc(tmp_path, "S", 0)
    (tmp_path / "7/task/8").mkdir()
    (tmp_path / "7/task/8/stat").write_text((tmp_path / "7/stat").read_text().replace(" S ", " R "))
    (tmp_path / "7/task/7/children").unlink()
    assert clock.lap() == (0.0, 0.0)


def test_time_in_which_the_caller_did_not_run_counts_as_one_second_at_most(monkeypatch, tmp_path):
    clock = clock_at(monkeypatch, tmp_path, 100.0, 1100.0)
    proc(tmp_path, "S", 0)
    assert clock.lap() == (0.0, 1.0)


def test_without_proc_all_time_counts(monkeypatch, tmp_path):
    monkeypatch.setattr(watchdog, "_PROC", tmp_path)
    times = iter([100.0, 100.5])
    monkeypatch.setattr(watchdog.time, "perf_counter", lambda: next(times))
    assert ProcessClock(7).lap() == (0.0, 0.5)
