"""Runs tests of a checkout of JAX in child processes, with which a crash or a hang costs one test."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

RECORDER = Path(__file__).with_name("pytest_recorder.py")


class Outcome(NamedTuple):
    """How a test ended: passed, failed, skipped, crashed or hung; of one that failed or was skipped, also why."""

    ended: str
    reason: str = ""


class Runner:
    """Runs tests of a checkout on a platform.

    `limit` is how many seconds a child may be silent; `devices` how many devices refxla has, and `cases` how many cases
    JAX generates for each of its parametrized tests. `posing` is the platform on which the tests are told they run:
    many name the JAX platforms that they are for, and are skipped elsewhere.
    """

    def __init__(self, checkout: Path, platform: str, limit: float, devices: int, cases: int, posing: str = "") -> None:
        self.checkout, self.limit, self.posing = checkout, limit, posing
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
                self._command(record, arguments), **self._where(directory), capture_output=True, text=True
            )
            names = [name for event, name, _ in _events(record) if event == "found"]
        if process.returncode not in (0, 5) or not names:
            words = [line for line in process.stdout.splitlines() if line.startswith("E ")] or ["no test"]
            return [], words[-1].removeprefix("E").strip()
        return names, ""

    def run(self, names: Sequence[str], at_once: int = 100) -> Iterator[tuple[str, Outcome]]:
        """Each test with its outcome."""
        waiting = list(names)
        while waiting:
            outcomes = self._child(waiting[:at_once])
            yield from outcomes.items()
            if not outcomes:  # not even the first one began
                outcomes = {waiting[0]: Outcome("crashed")}
                yield from outcomes.items()
            waiting = [name for name in waiting if name not in outcomes]

    def _child(self, names: Sequence[str]) -> dict[str, Outcome]:
        """The outcomes of tests that a child reached."""
        with tempfile.TemporaryDirectory() as directory:
            listed, record = Path(directory, "names.json"), Path(directory, "record.jsonl")
            listed.write_text(json.dumps(names))
            record.touch()
            files = dict.fromkeys(name.partition("::")[0] for name in names)
            child = subprocess.Popen(
                self._command(record, ["-q", f"--names={listed}", *files]), **self._where(directory),
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
            hung = not self._ends(child, record)
            outcomes = {name: Outcome(event, reason) for event, name, reason in _events(record)}
        died = Outcome("hung" if hung else "crashed")
        return {name: died if outcome.ended == "begun" else outcome for name, outcome in outcomes.items()}

    def _ends(self, child: subprocess.Popen, record: Path) -> bool:
        """Waits for a child; one that is silent for too long is ended."""
        size = -1
        while True:
            try:
                child.wait(self.limit)
                return True
            except subprocess.TimeoutExpired:
                if record.stat().st_size == size:
                    child.kill()
                    child.wait()
                    return False
                size = record.stat().st_size
            except BaseException:
                child.kill()
                child.wait()
                raise

    def _command(self, record: Path, arguments: Sequence[str]) -> list[str]:
        options = ["-p", "no:cacheprovider", "-p", RECORDER.stem, f"--record={record}", f"--posing={self.posing}"]
        return [sys.executable, "-X", "faulthandler", "-m", "pytest", *options, "--tb=line", *arguments]

    def _where(self, directory: str) -> dict:
        """In the checkout, with only the recorder of this package, from a directory."""
        shutil.copy(RECORDER, directory)
        path = os.pathsep.join([directory, *filter(None, [os.environ.get("PYTHONPATH")])])
        return {"cwd": self.checkout, "env": {**self.environment, "PYTHONPATH": path}}


def _events(record: Path) -> list[tuple[str, str, str]]:
    """The output of a child; the last line may be incomplete, if it died."""
    lines = record.read_text().split("\n")[:-1] if record.exists() else []
    return [tuple(json.loads(line)) for line in lines]
