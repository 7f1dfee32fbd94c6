"""The command `python -m refxla_conformance.xla_corpus`; status 1 if something is not judged."""

from __future__ import annotations

import argparse
import fnmatch
import json
import queue
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.progress import track
from rich.table import Column, Table

from refxla.cli.argument_parser import Parser
from refxla.cli.failures import guarded

from ..arguments import positive, whole
from ..console import standard_output
from ..targets.child import Child, ChildDied, ChildError
from . import __doc__ as description
from .extract import Text, corpus
from .judged import judge, listed, read, write
from .worker import FAULT, NOT_ASKED, OUTCOMES, PLAIN, Row

BATCH = 32  # texts that a process gets at a time
WORKER = "refxla_conformance.xla_corpus.worker"


def main(arguments: list[str] | None = None) -> int:
    """The command; returns its exit status: 0 if everything is right or judged, 1 if not, 2 for a wrong argument."""
    return guarded(lambda: _command(arguments), "refxla-conformance")


def _command(arguments: list[str] | None) -> int:
    parser = Parser(
        prog="python -m refxla_conformance.xla_corpus",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("checkout", metavar="CHECKOUT", type=Path, help="a checkout of github.com/openxla/xla")
    parser.add_argument("--only", metavar="GLOB", default="*", help="files whose path in the checkout matches")
    parser.add_argument("--no-run", dest="running", action="store_false", help="read, print and verify alone")
    parser.add_argument(
        "--rows", metavar="FILE", type=Path, help="keep a line of JSON for each text there, and skip those it has"
    )
    parser.add_argument("--again", action="store_true", help="ask again for the rows of --rows that are not agreed")
    parser.add_argument("--list", action="store_true", help="bring the texts that judged.json lists up to date")
    parser.add_argument("-j", "--jobs", metavar="N", type=whole(1), default=2, help="processes (2)")
    parser.add_argument("--limit", metavar="SECONDS", type=positive, default=60.0, help="for one text (60)")
    options = parser.parse_args(arguments)
    collection = corpus(options.checkout)
    texts = [t for t in collection.texts if fnmatch.fnmatch(t.file, options.only)]
    by_key = _rows_by_key(options.rows, {t.key for t in texts})
    if options.again:
        by_key = {key: row for key, row in by_key.items() if row["outcome"] in PLAIN}
    if options.running:
        by_key = {key: row for key, row in by_key.items() if row["reason"] != NOT_ASKED}
    waiting = [t for t in texts if t.key not in by_key]
    console = standard_output(highlight=True)
    results = run(waiting, options.running, options.jobs, options.limit)
    with _lines(options.rows, by_key) as lines:
        for row in track(results, "running", len(waiting), console=console, transient=True):
            by_key[row["key"]] = row
            lines(row)
    rows = [by_key[t.key] for t in texts]
    judgements = read()
    if options.list:
        judgements = listed(judgements, rows)
        write(judgements)
    judged = judge(rows, judgements)
    console.print(
        f"{len(texts)} texts ({collection.doubled} more were there twice, {collection.holes} are completed by code); "
        + "compared on "
        + ", ".join(f"{name}: {n}" for name, n in Counter(name for r in rows for name in r["ran"]).items())
    )
    for table in (by_outcome(rows), by_judgement(judged), unjudged(judged.get("", []))):
        console.print(table)
    return 1 if judged.get("") else 0


def run(texts: list[Text], running: bool, jobs: int, limit: float) -> Iterator[dict[str, Any]]:
    """The row of each text, in the order in which they finish."""
    waiting: queue.SimpleQueue[list[Text]] = queue.SimpleQueue()
    results: queue.SimpleQueue[list[dict[str, Any]] | BaseException] = queue.SimpleQueue()
    for n in range(0, len(texts), BATCH):
        waiting.put(texts[n : n + BATCH])

    def work(child: Child) -> None:
        while True:
            try:
                batch = waiting.get_nowait()
            except queue.Empty:
                return
            try:
                results.put(_ask(child, batch, running, limit))
            except BaseException as problem:  # an error of the thread is one of the command
                results.put(problem)
                return

    count = waiting.qsize()
    children = [Child(WORKER) for _ in range(max(1, min(jobs, count)))]
    for child in children:
        threading.Thread(target=work, args=(child,), daemon=True).start()
    try:
        for _ in range(count):
            rows = results.get()
            if isinstance(rows, BaseException):
                raise rows
            yield from rows
    finally:
        for child in children:
            child.close()


def _ask(child: Child, batch: list[Text], running: bool, limit: float) -> list[dict[str, Any]]:
    """The rows of some texts; if the process dies on them, those of each separately."""
    try:
        texts = [(t.file, t.test, t.key, t.text) for t in batch]
        rows: list[dict[str, Any]] = child.ask("run_texts", texts, running, limit=limit * len(batch) ** 0.5)
        return rows
    except (ChildDied, ChildError) as problem:
        reason = str(problem).split("\n")[0][:300]
    if len(batch) > 1:
        return [row for text in batch for row in _ask(child, [text], running, limit)]
    return [asdict(Row(batch[0].file, batch[0].test, batch[0].key, FAULT, reason, seconds=limit))]


def _rows_by_key(path: Path | None, keys: set[str]) -> dict[str, dict[str, Any]]:
    """The rows of a file about known texts, by their keys."""
    if path is None or not path.exists():
        return {}
    rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return {row["key"]: row for row in rows if row["key"] in keys}


class _lines:
    """A file to which rows are written as they come, beginning with those that are kept; or none."""

    def __init__(self, path: Path | None, rows: dict[str, dict[str, Any]]) -> None:
        self._file = None if path is None else path.open("w", encoding="utf-8")
        for row in rows.values():
            self(row)

    def __call__(self, row: dict[str, Any]) -> None:
        if self._file is not None:
            self._file.write(json.dumps(row) + "\n")
            self._file.flush()

    def __enter__(self) -> _lines:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()


# What is printed ---------------------------------------------------------------------------------------------------


def by_outcome(rows: list[dict[str, Any]]) -> Table:
    """How many texts had which outcome; for those that ran, the outcome of XLA:CPU."""
    counts = Counter(r["outcome"] for r in rows)
    table = Table("texts", Column("outcome", no_wrap=True), "XLA:CPU", box=None)
    for outcome in OUTCOMES:
        if counts[outcome]:
            beside = Counter(r["xla"] or "not asked" for r in rows if r["outcome"] == outcome)
            table.add_row(str(counts[outcome]), outcome, ", ".join(f"{n} {what}" for what, n in beside.most_common()))
    return table


def by_judgement(judged: dict[str, list[dict[str, Any]]]) -> Table:
    """How many rows each judgement covers."""
    table = Table("texts", "outcome", Column("judged", no_wrap=True), box=None)
    for name, rows in sorted(judged.items(), key=lambda item: -len(item[1])):
        if name:
            table.add_row(str(len(rows)), rows[0]["outcome"], name)
    return table


def unjudged(rows: list[dict[str, Any]]) -> Table:
    """The rows that no judgement covers."""
    table = Table("not judged", "outcome", "reason", box=None)
    for row in rows:
        table.add_row(f"{row['file']} {row['test']} {row['key']}", row["outcome"], row["reason"])
    return table


if __name__ == "__main__":
    sys.exit(main())
