"""The command `python -m refxla_conformance.stablehlo_data`; status 1 if a test fails."""

from __future__ import annotations

import argparse
import fnmatch
import json
import queue
import re
import sys
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from refxla_spec.errors import InputError
from rich.progress import track
from rich.table import Column, Table

from refxla.cli.argument_parser import Parser
from refxla.cli.failures import guarded
from refxla.files import write_whole

from ..arguments import output_file, positive, whole
from ..console import standard_output
from ..targets import make_target
from ..targets.child import Child, ChildDied, ChildError
from . import __doc__ as description
from .extract import segments
from .worker import FAIL, OUTCOMES, UNSUPPORTED, Row

FOLDERS = ("stablehlo/testdata", "stablehlo/tests/interpret", "stablehlo/tests/math")
WORKER = "refxla_conformance.stablehlo_data.worker"


def main(arguments: list[str] | None = None) -> int:
    """The command; returns its exit status: 0 if nothing failed, 1 if anything did, 2 for a wrong argument."""
    return guarded(lambda: _command(arguments), "refxla-conformance")


def _command(arguments: list[str] | None) -> int:
    parser = Parser(
        prog="python -m refxla_conformance.stablehlo_data",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("checkout", metavar="CHECKOUT", type=Path, help="a checkout of github.com/openxla/stablehlo")
    parser.add_argument("--target", default="reference", help="reference, compiled, xla-cpu, stablehlo, ...")
    parser.add_argument("--only", metavar="GLOB", default="*", help="files whose path in the checkout matches")
    parser.add_argument(
        "--json", metavar="OUT", type=output_file, help="write every test with its outcome and reason there"
    )
    parser.add_argument("-j", "--jobs", metavar="N", type=whole(1), default=2, help="processes (2)")
    parser.add_argument("--limit", metavar="SECONDS", type=positive, default=120.0, help="for one file (120)")
    parser.add_argument("--reasons", metavar="N", type=whole(0), default=30, help="how many reasons to print (30)")
    options = parser.parse_args(arguments)
    versions = make_target(options.target).versions()
    paths = files(options.checkout, options.only)
    console = standard_output(highlight=True)
    results = run(options.checkout, paths, options.target, options.jobs, options.limit)
    rows = sorted(
        (row for batch in track(results, "running", len(paths), console=console, transient=True) for row in batch),
        key=lambda row: (row["file"], row["test"]),
    )
    if options.json:
        report = {"target": options.target, "versions": versions, "tests": rows}
        write_whole(options.json, json.dumps(report, indent=1).encode())
    for table in (by_folder(rows), by_operation(rows), by_reason(rows, options.reasons)):
        console.print(table)
    return 1 if any(row["outcome"] == FAIL for row in rows) else 0


def files(checkout: Path, only: str = "*") -> list[Path]:
    """The files with tests, largest first, so that none is left for the end. Raises InputError if there are none."""
    paths = [p for folder in FOLDERS for p in (checkout / folder).rglob("*.mlir")]
    if not paths:
        raise InputError(f"{checkout} is no checkout of StableHLO: it has no {FOLDERS[0]} with .mlir files")
    chosen = [p for p in paths if fnmatch.fnmatch(p.relative_to(checkout).as_posix(), only)]
    if not chosen:
        raise InputError(f"no file of {checkout} matches {only!r}")
    return sorted(chosen, key=lambda p: (-p.stat().st_size, p))


def run(checkout: Path, paths: list[Path], target: str, jobs: int, limit: float) -> Iterator[list[dict[str, Any]]]:
    """The rows of each file, in the order in which they finish."""
    waiting: queue.SimpleQueue[Path] = queue.SimpleQueue()
    results: queue.SimpleQueue[list[dict[str, Any]] | BaseException] = queue.SimpleQueue()
    for path in paths:
        waiting.put(path)

    def work(child: Child) -> None:
        while True:
            try:
                path = waiting.get_nowait()
            except queue.Empty:
                return
            try:
                results.put(_ask(child, path, path.relative_to(checkout).as_posix(), target, limit))
            except BaseException as problem:  # an error of the thread is one of the command
                results.put(problem)
                return

    children = [Child(WORKER) for _ in range(max(1, min(jobs, len(paths))))]
    for child in children:
        threading.Thread(target=work, args=(child,), daemon=True).start()
    try:
        for _ in paths:
            rows = results.get()
            if isinstance(rows, BaseException):
                raise rows
            yield rows
    finally:
        for child in children:
            child.close()


def _ask(child: Child, path: Path, shown: str, target: str, limit: float) -> list[dict[str, Any]]:
    """The rows of a file; if a process dies on it, those of each of its modules separately."""
    try:
        answer: list[dict[str, Any]] = child.ask("run_file", str(path), shown, target, limit=limit)
        return answer
    except ChildDied:
        pass
    rows = []
    for number in range(len(segments(path.read_text(encoding="utf-8")))):
        try:
            rows += child.ask("run_file", str(path), shown, target, number, limit=limit)
        except (ChildDied, ChildError) as problem:
            rows.append(asdict(Row(shown, f"{number}:", FAIL, "target", str(problem).split("\n")[0][:300])))
    return rows


# What is printed ---------------------------------------------------------------------------------------------------


def by_folder(rows: list[dict[str, Any]]) -> Table:
    """How many tests of each folder had which outcome."""
    return _counted("folder", [(str(Path(r["file"]).parent), r["outcome"]) for r in rows], total=True)


def by_operation(rows: list[dict[str, Any]]) -> Table:
    """The same for each operation that tests have."""
    return _counted("operation", [(name, r["outcome"]) for r in rows for name in r["operations"]])


def by_reason(rows: list[dict[str, Any]], most: int) -> Table:
    """The most frequent reasons for outcomes other than a pass, without names and numbers."""
    counts = Counter(
        (r["outcome"], r["stage"], shortened(r["reason"])) for r in rows if r["outcome"] in (FAIL, UNSUPPORTED)
    )
    table = Table("tests", "outcome", "where", "reason", box=None)
    for (outcome, stage, reason), count in counts.most_common(most):
        table.add_row(str(count), outcome, stage, reason)
    return table


def shortened(reason: str) -> str:
    """A reason without what differs between tests."""
    reason = re.sub(r"^line \d+, column \d+: |^error: \S+ ", "", reason)
    reason = re.sub(r"\b\d+ of \d+ elements differ, at .*", "elements differ", reason)
    return re.sub(r"'tensor<[^']*'|\b[\w-]+\.\d+\b: ?", "", reason)[:160]


def _counted(head: str, pairs: list[tuple[str, str]], total: bool = False) -> Table:
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for name, outcome in pairs:
        counts[name][outcome] += 1
    table = Table(Column(head, no_wrap=True), *OUTCOMES, box=None)
    for name in sorted(counts):
        table.add_row(name, *(str(counts[name][o] or "") for o in OUTCOMES))
    if total:
        everything = sum(counts.values(), Counter())
        table.add_row("all", *(str(everything[o]) for o in OUTCOMES), style="bold")
    return table


if __name__ == "__main__":
    sys.exit(main())
