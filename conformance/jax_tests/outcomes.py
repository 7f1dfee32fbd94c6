"""What came of JAX's tests in runs that are kept, for the documents: outcomes.json.

    {JAX VERSION: {"machine", "files": {FILE: {"options", "tests", "outcomes", "wrong", "runs": [{"date", versions}]}}}}

Runs at different times add up. "outcomes" is a string with a letter for each test of the file, in the order in which
pytest collects them: the first one of its outcome, "-" if it has not run yet. "tests" is a fingerprint of their names,
and "options" what determines them: other tests are a file anew. A test that did not pass has, in "wrong", its name,
outcome, reason, and whether it passes on the CPU. A file of the time before single outcomes were kept has "counts" in
place of "tests" and "outcomes", and the sample that was run in "options".
"""

from __future__ import annotations

import datetime
import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from refxla.files import write_whole
from refxla.version import RELEASE, commit

from ..machine import machine
from .runner import OUTCOMES, Outcome

OUTCOMES_FILE = Path(__file__).with_name("outcomes.json")
PASSES = ("passed", "skipped")
LETTERS = {outcome[0]: outcome for outcome in OUTCOMES}
NOT_RUN = "-"


def read(path: Path = OUTCOMES_FILE) -> dict[str, dict[str, Any]]:
    """The data of a file; none, if there is no file yet. See this module's docstring for the fields."""
    return json.loads(path.read_text()) if path.exists() else {}


def keep(
    path: Path,
    file: str,
    tests: Sequence[str],
    outcomes: Mapping[str, Outcome],
    also: frozenset[str],
    options: Mapping[str, Any],
) -> None:
    """Adds outcomes of some of a file's tests to a JSON file; they replace earlier ones of the same tests.

    `tests` are the names of all tests of the file, `also` those that fail on JAX's CPU, too, and `options` those by
    which the tests are generated.
    """
    kept = read(path)
    jax = kept.setdefault(version("jax"), {"files": {}})
    jax["machine"] = machine()
    entry = _entry(kept, file, tests, options)
    letters = dict(zip(tests, entry["outcomes"], strict=True)) | {t: o.ended[0] for t, o in outcomes.items()}
    wrong = {failure["test"]: failure for failure in entry["wrong"] if failure["test"] not in outcomes} | {
        test: {"test": test, "outcome": outcome.ended, "reason": outcome.reason, "cpu": test not in also}
        for test, outcome in outcomes.items()
        if outcome.ended not in PASSES
    }
    versions = {"jaxlib": version("jaxlib"), "refxla": RELEASE, "commit": commit()}
    run = {"date": datetime.date.today().isoformat(), "versions": versions}
    jax["files"][file] = {
        **entry,
        "outcomes": "".join(letters.values()),
        "wrong": [failure for _, failure in sorted(wrong.items())],
        "runs": entry["runs"] if run in entry["runs"] else [*entry["runs"], run],
    }
    write_whole(path, (json.dumps(kept, indent=1, sort_keys=True) + "\n").encode())


def missing(path: Path, file: str, tests: Sequence[str], options: Mapping[str, Any]) -> list[str]:
    """Those of a file's tests that have no outcome in a JSON file yet."""
    letters = _entry(read(path), file, tests, options)["outcomes"]
    return [test for test, letter in zip(tests, letters, strict=True) if letter == NOT_RUN]


def _entry(data: Mapping[str, Any], file: str, tests: Sequence[str], options: Mapping[str, Any]) -> dict[str, Any]:
    """What is kept of these tests of a file; nothing of others."""
    names = hashlib.sha256("\0".join(tests).encode()).hexdigest()[:16]
    entry: dict[str, Any] = data.get(version("jax"), {"files": {}})["files"].get(file, {})
    if (entry.get("tests"), entry.get("options")) == (names, dict(options)):
        return entry
    return {"options": dict(options), "tests": names, "outcomes": NOT_RUN * len(tests), "wrong": [], "runs": []}


def counts(file: Mapping[str, Any]) -> Counter[str]:
    """How many tests of a file ended how."""
    if "counts" in file:
        return Counter(file["counts"])
    return Counter(LETTERS[letter] for letter in file["outcomes"] if letter != NOT_RUN)


def share(files: Iterable[Mapping[str, Any]]) -> float:
    """What part of the tests that pass on JAX's CPU pass: those that JAX skips, and those that fail there, are none."""
    passed, wrong = 0, 0
    for file in files:
        passed += counts(file)["passed"]
        wrong += sum(failure["cpu"] for failure in file["wrong"])
    return passed / max(passed + wrong, 1)
