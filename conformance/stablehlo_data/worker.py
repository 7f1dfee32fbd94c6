"""A process that runs the tests of one file after another; MLIR, and some targets, may end it."""

from __future__ import annotations

import functools
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from refxla_spec.bounds import run_with_bounds
from refxla_spec.compare import bits_equal, compare
from refxla_spec.devices import device_counts
from refxla_spec.errors import Error, UnsupportedError, is_refusal, plural
from refxla_spec.interpreter import run
from refxla_spec.module import Module
from refxla_spec.verify import verify

from refxla.frontends.stablehlo import Converter

from ..targets import Target, leaves, make_target, result_arrays
from ..targets.child import serve
from ..targets.reference import Reference
from .extract import Test, segments, tests

PASS, WITHIN, FAIL, UNSUPPORTED, NO_DATA = "pass", "within bounds", "fail", "unsupported", "no data"
OUTCOMES = (PASS, WITHIN, FAIL, UNSUPPORTED, NO_DATA)


@dataclass
class Row:
    """The outcome of one test.

    `outcome`: "pass" if the check of the test holds; "within bounds" if it does not, but the results and the expected
    values are both within the bounds of the numeric contract, which are wider there than the tolerance of the test;
    otherwise "fail"; or "unsupported", or "no data" for a file without checks. `stage` says where an outcome other than
    a pass arose: "mlir" (jaxlib's MLIR rejects the text, or the test cannot be split), "converter" (no HLO for it),
    "verifier", "target", or "check". `contract` relates the data of the test to the numeric contract: "same bits" as
    the reference's, "within" its bounds, "undecided" if some element has no certain bound, "outside", or "" if it was
    not checked.
    """

    file: str
    test: str
    outcome: str
    stage: str = ""
    reason: str = ""
    contract: str = ""
    operations: tuple[str, ...] = ()
    seconds: float = 0.0


@functools.cache
def _converter() -> Converter:
    return Converter()


@functools.cache
def _target(name: str) -> Target:
    return make_target(name)


def run_file(path: str, shown: str, target: str, only: int | None = None) -> list[dict[str, Any]]:
    """The rows of a file's tests, or of the tests in its module number `only`."""
    rows: list[Row] = []
    pieces = segments(Path(path).read_text(encoding="utf-8"))
    for number, segment in enumerate(pieces):
        if only not in (None, number):
            continue
        prefix = f"{number}:" if len(pieces) > 1 else ""
        start = time.perf_counter()
        try:
            for test in tests(segment):
                if isinstance(test, Test):
                    row = run_test(test, shown, _target(target))
                else:
                    row = Row(shown, test[0], UNSUPPORTED, "mlir", str(test[1]))
                row.test, row.seconds = prefix + row.test, time.perf_counter() - start
                rows.append(row)
                start = time.perf_counter()
        except UnsupportedError as problem:
            rows.append(Row(shown, prefix, UNSUPPORTED, "mlir", str(problem)))
    if not rows and only is None:
        rows.append(Row(shown, "", NO_DATA, "", "the file has no inputs and no expected values"))
    return [asdict(row) for row in rows]


def run_test(test: Test, file: str, target: Target) -> Row:
    """Runs one test on a target: converts, verifies, runs, checks."""
    row = Row(file, test.name, PASS, operations=test.operations)
    try:
        inputs, main, answers = (_converter()(program) for program in (test.inputs, test.main, test.expected))
    except Error as problem:
        row.outcome, row.stage, row.reason = UNSUPPORTED, "converter", _line(problem)
        return row
    if test.devices is not None:
        main.attributes |= {"replica_count": str(test.devices[0]), "num_partitions": str(test.devices[1])}
    try:
        verify(main)
        arguments, expected = leaves(run(inputs, [])), leaves(run(answers, []))
    except UnsupportedError as problem:
        row.outcome, row.stage, row.reason = UNSUPPORTED, "verifier", _line(problem)
        return row
    except Error as problem:
        row.outcome, row.stage, row.reason = FAIL, "verifier", _line(problem)
        return row
    try:
        results = result_arrays(target, "run", main, target.run(main, arguments))
    except Exception as problem:  # whatever a target does, the other tests must still run
        row.stage = "target"
        if is_refusal(problem):
            row.outcome, row.reason = UNSUPPORTED, _line(problem)
        else:
            row.outcome, row.reason = FAIL, f"{type(problem).__name__}: {_line(problem)}"
        return row
    if len(results) <= max(c.place for c in test.checks):
        row.outcome, row.stage, row.reason = (
            FAIL,
            "target",
            f"{plural(len(results), 'result')} for {plural(len(test.checks), 'check')}",
        )
        return row
    pairs = [(c, results[c.place], e) for c, e in zip(test.checks, expected, strict=True)]
    wrong = [w for c, r, e in pairs if (w := c.difference(np.asarray(r), np.asarray(e)))]
    if wrong:
        row.outcome, row.stage, row.reason = FAIL, "check", wrong[0]
    row.contract, within = _contract(main, arguments, pairs)
    if row.outcome == FAIL and within:
        row.outcome = WITHIN
    return row


def _contract(main: Module, arguments: list[Any], pairs: list[tuple[Any, Any, Any]]) -> tuple[str, bool]:
    """How the expected values relate to the reference and its bounds; and whether they and the results are within them,
    in every element."""
    try:
        value = Reference().run(main, arguments)
        if all(bits_equal(value[c.place], e) for c, _, e in pairs):
            return "same bits", False
        if device_counts(main) != (1, 1):
            return "outside", False
        value, bounds = (leaves(v) for v in run_with_bounds(main, arguments))
        data = [x for c, _, e in pairs for x in compare(e, value[c.place], bounds[c.place])]
        ours = [x for c, r, _ in pairs for x in compare(r, value[c.place], bounds[c.place])]
    except (Error, IndexError) as problem:
        return f"not compared: {_line(problem)}", False
    if any(c.outside for c in data):
        return "outside", False
    if any(c.undecided for c in data):
        return "undecided", False
    return "within", not any(c.outside for c in ours)


def _line(problem: Exception) -> str:
    return next((line.strip() for line in str(problem).splitlines() if line.strip()), type(problem).__name__)


if __name__ == "__main__":
    serve({"run_file": run_file})
