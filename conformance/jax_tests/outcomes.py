"""What came of JAX's tests in a run that is kept, for the documents: outcomes.json.

    {JAX VERSION: {"machine", "files": {FILE: {"run", "versions", "options", "counts": {OUTCOME: n}, "wrong": [...]}}}}

Runs of several files at different times add up to one table; each file has the date of its run and the versions of
refxla and of what it ran on. A test that did not pass has its name, outcome, reason, and whether it passes on the CPU.
"""

from __future__ import annotations

import datetime
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from refxla.files import write_whole
from refxla.version import RELEASE, commit

from ..machine import machine
from .runner import Outcome

OUTCOMES_FILE = Path(__file__).with_name("outcomes.json")
PASSES = ("passed", "skipped")


def read(path: Path = OUTCOMES_FILE) -> dict[str, dict[str, Any]]:
    """The data of a file; none, if there is no file yet. See this module's docstring for the fields."""
    return json.loads(path.read_text()) if path.exists() else {}


def keep(
    path: Path, file: str, outcomes: Mapping[str, Outcome], also: frozenset[str], options: Mapping[str, Any]
) -> None:
    """Adds the outcomes of a file's tests to a file; those of an earlier run are replaced.

    `also` are the tests that fail on JAX's CPU, too.
    """
    counts = Counter(outcome.ended for outcome in outcomes.values())
    wrong = [
        {"test": test, "outcome": outcome.ended, "reason": outcome.reason, "cpu": test not in also}
        for test, outcome in sorted(outcomes.items())
        if outcome.ended not in PASSES
    ]
    kept = read(path)
    jax = kept.setdefault(version("jax"), {"files": {}})
    jax["machine"] = machine()
    jax["files"][file] = {
        "run": datetime.date.today().isoformat(),
        "versions": {"jaxlib": version("jaxlib"), "refxla": RELEASE, "commit": commit()},
        "options": dict(options),
        "counts": dict(sorted(counts.items())),
        "wrong": wrong,
    }
    write_whole(path, (json.dumps(kept, indent=1, sort_keys=True) + "\n").encode())


def share(files: Iterable[Mapping[str, Any]]) -> float:
    """What part of the tests that pass on JAX's CPU pass: those that JAX skips, and those that fail there, are none."""
    passed, wrong = 0, 0
    for file in files:
        passed += file["counts"].get("passed", 0)
        wrong += sum(failure["cpu"] for failure in file["wrong"])
    return passed / max(passed + wrong, 1)
