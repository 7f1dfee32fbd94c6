"""Runs tests of a checkout of JAX in child processes, with which a crash or a hang costs one test."""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

RECORDER = Path(__file__).with_name("pytest_recorder.py")


OUTCOMES = ("passed", "failed", "skipped", "crashed", "hung")
STACKS_TIME = 10  # seconds that a process which hangs has to write its stacks


class Outcome(NamedTuple):
    """How a test ended: passed, failed, skipped, crashed or hung; of one that failed or was skipped, also why.

    Of one that crashed or hung, `stacks` are those of all of its process's threads.
    """

    ended: str
    reason: str = ""
    stacks: str = ""


class Runner:
    """Runs tests of a checkout on a platform.

    `limit` is how many seconds a child may be silent, not counting those in which this process was stopped, too;
    `deadline` is the time (`time.monotonic()`) at which a child is ended, and its current test and those after it have
    no outcome; `devices` how many devices refxla has, and `cases` how many cases
    JAX generates for each of its parametrized tests. `posing` is the platform on which the tests are told they run:
    many name the JAX platforms that they are for, and are skipped elsewhere.
    """

    def __init__(
        self,
        checkout: Path,
        platform: str,
        limit: float,
        devices: int,
        cases: int,
        posing: str = "",
        deadline: float = math.inf,
    ) -> None:
        self.checkout, self.limit, self.posing, self.deadline = checkout, limit, posing, deadline
        self.environment = {
            **os.environ,
            "JAX_PLATFORMS": platform,
            "REFXLA_DEVICES": str(devices),
            "JAX_NUM_CPU_DEVICES": str(devices),
            "JAX_NUM_GENERATED_CASES": str(cases),
            "JAX_SKIP_SLOW_TESTS": "1",
        }

    def collect(self, file: str, expression: str) -> tuple[list[str], str]:
        """The names of a file's tests; or none, and why not."""
        with tempfile.TemporaryDirectory() as directory:
            record = Path(directory, "record.jsonl")
            arguments = ["--collect-only", "-q", *(["-k", expression] if expression else []), file]
            process = subprocess.run(
                self._command(record, arguments),
                cwd=self.checkout,
                env=self._environment(directory),
                capture_output=True,
                text=True,
            )
            names = [name for event, name, _ in _events(record) if event == "found"]
        if process.returncode not in (0, 5) or not names:
            words = [line for line in process.stdout.splitlines() if line.startswith("E ")] or ["no test"]
            return [], words[-1].removeprefix("E").strip()
        return names, ""

    def run(self, names: Sequence[str], at_once: int = 100) -> Iterator[tuple[str, Outcome]]:
        """Each test with its outcome; those that the deadline leaves out have none."""
        waiting = list(names)
        while waiting and time.monotonic() < self.deadline:
            outcomes = self._child(waiting[:at_once])
            yield from outcomes.items()
            if not outcomes and time.monotonic() < self.deadline:  # not even the first one began
                outcomes = {waiting[0]: Outcome("crashed")}
                yield from outcomes.items()
            waiting = [name for name in waiting if name not in outcomes]

    def _child(self, names: Sequence[str]) -> dict[str, Outcome]:
        """The outcomes of tests that a child reached."""
        with tempfile.TemporaryDirectory() as directory:
            listed, record, stacks = (Path(directory, name) for name in ("names.json", "record.jsonl", "stacks.txt"))
            listed.write_text(json.dumps(names))
            record.touch()
            files = dict.fromkeys(name.partition("::")[0] for name in names)
            child = subprocess.Popen(
                self._command(record, ["-q", f"--names={listed}", f"--stacks={stacks}", *files]),
                cwd=self.checkout,
                env=self._environment(directory),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            try:
                ended = self._wait(child, record)
                if ended == "hung":
                    _write_stacks(child, stacks)
            finally:
                if child.returncode is None:
                    os.killpg(child.pid, signal.SIGKILL)  # with the processes that its tests have started
                    child.wait()
            outcomes = {name: Outcome(event, reason) for event, name, reason in _events(record)}
            died = Outcome(ended, stacks=stacks.read_text(errors="replace") if stacks.exists() else "")
        if ended == "late":
            return {name: outcome for name, outcome in outcomes.items() if outcome.ended != "begun"}
        return {name: died if outcome.ended == "begun" else outcome for name, outcome in outcomes.items()}

    def _wait(self, child: subprocess.Popen[bytes], record: Path) -> str:
        """Waits for a child; what its current test is when it returns: crashed, hung (the child still runs) or late.

        Seconds are counted one by one: in a process that was stopped and goes on, a clock would say that the child,
        which was stopped with it, has been silent all the time.
        """
        size, silent = -1, 0
        while silent < self.limit:
            try:
                child.wait(min(1, self.limit))
                return "crashed"
            except subprocess.TimeoutExpired:
                if time.monotonic() >= self.deadline:
                    return "late"
                silent = silent + 1 if record.stat().st_size == size else 0
                size = record.stat().st_size
        return "hung"

    def _command(self, record: Path, arguments: Sequence[str]) -> list[str]:
        plugins = ["no:cacheprovider", "no:faulthandler", RECORDER.stem]  # the recorder has its own use of faulthandler
        options = [f"--record={record}", f"--posing={self.posing}", "--tb=line"]
        return [sys.executable, "-m", "pytest", *(f"-p{plugin}" for plugin in plugins), *options, *arguments]

    def _environment(self, directory: str) -> dict[str, str]:
        """The environment in which Python finds of this package the recorder alone, of which the directory gets a
        copy."""
        shutil.copy(RECORDER, directory)
        path = os.pathsep.join([directory, *filter(None, [os.environ.get("PYTHONPATH")])])
        return {**self.environment, "PYTHONPATH": path}


def _write_stacks(child: subprocess.Popen[bytes], stacks: Path) -> None:
    """Has a child write the Python stacks of its threads, and adds what its native threads wait for, where /proc says.

    The handler is in C: it also runs in a process whose threads wait for each other.
    """
    size = stacks.stat().st_size if stacks.exists() else None
    if size is None:  # it hangs before the recorder has begun, and the signal would end it
        return
    child.send_signal(signal.SIGUSR1)
    for _ in range(10 * STACKS_TIME):
        time.sleep(0.1)
        if 0 < size == (size := stacks.stat().st_size):
            break
    with stacks.open("a") as file:
        for task in sorted(Path(f"/proc/{child.pid}/task").glob("*"), key=lambda path: int(path.name)):
            with contextlib.suppress(OSError):  # a thread that has just ended
                name, where = ((task / fact).read_text().strip() for fact in ("comm", "wchan"))
                print(f"thread {task.name} ({name}): {'runs' if where == '0' else f'waits in {where}'}", file=file)


def _events(record: Path) -> list[tuple[str, str, str]]:
    """The output of a child; the last line may be incomplete, if it died."""
    lines = record.read_text().split("\n")[:-1] if record.exists() else []
    return [tuple(json.loads(line)) for line in lines]
