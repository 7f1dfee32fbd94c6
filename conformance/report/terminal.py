"""A run on the terminal: progress during the run, then a table, and the fails."""

from __future__ import annotations

import re
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from refxla_spec.errors import plural
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from ..case_check import Outcome, Verdict
from . import Results

STYLES = {
    Outcome.PASS: "green",
    Outcome.FAIL: "bold red",
    Outcome.UNDECIDED: "magenta",
    Outcome.EXCUSED: "yellow",
    Outcome.UNSUPPORTED: "blue",
}
LETTERS = {Outcome.FAIL: "F", Outcome.UNDECIDED: "?", Outcome.EXCUSED: "e", Outcome.UNSUPPORTED: "u"}
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
LONGEST = 600  # characters of the reason of a fail; reports have all of them
REASONS = 5  # reasons shown for unsupported cases
EVERY = 15.0  # seconds between two lines of progress if there is no terminal


def track(verdicts: Iterable[Verdict], total: int, console: Console) -> Iterator[Verdict]:
    """The verdicts, with a progress bar; if the output is not a terminal, a line from time to time on standard error,
    which the output stays free of. `total` is the number of verdicts: one for each case on each target."""
    failed = 0
    if not console.is_terminal:
        last = time.monotonic()
        for number, verdict in enumerate(verdicts, 1):
            failed += verdict.outcome is Outcome.FAIL
            yield verdict
            if time.monotonic() - last > EVERY:
                last = time.monotonic()
                print(f"{number} of {total} checks done, {failed} failed", file=sys.stderr, flush=True)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=total)
        for verdict in verdicts:
            failed += verdict.outcome is Outcome.FAIL
            description = f"[red]{failed} failed[/]  " if failed else ""
            progress.update(task, advance=1, description=description + verdict.opcode)
            yield verdict


def show(console: Console, results: Results, every: bool = False) -> None:
    """The table, and a summary for each target.

    An operation that passes all its cases on every target is only counted, unless `every`.
    """
    counts: dict[str, dict[str, Counter[Outcome]]] = defaultdict(lambda: defaultdict(Counter))
    for row in results.rows.values():
        for target, verdict in row.results.items():
            counts[row.opcode][target][verdict.outcome] += 1
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("operation")
    several = len(results.targets) > 1
    outcomes = list(STYLES)
    if several:
        for target in results.targets:
            table.add_column(target, justify="right")
    else:
        for outcome in outcomes:
            table.add_column(outcome.value, justify="right")
    whole = 0
    for opcode, by_target in sorted(counts.items()):
        if not every and all(set(by_target[target]) <= {Outcome.PASS} for target in results.targets):
            whole += 1
            continue
        if several:
            table.add_row(opcode, *(cell(by_target[target]) for target in results.targets))
        else:
            only = by_target[next(iter(results.targets))]
            table.add_row(opcode, *(Text(str(only[o] or ""), STYLES[o]) for o in outcomes))
    if table.row_count:
        console.print(table)
        met = {o for by_target in counts.values() for count in by_target.values() for o in count}
        told = ", ".join(f"{letter} = {o.value}" for o, letter in LETTERS.items() if o in met)
        if several and told:
            console.print(f"In each column: how many cases pass, then {told}.", style="dim")
    if whole:
        rest = "other " if table.row_count else ""
        everywhere = " on every target" if several else ""
        ran = "" if results.complete else " that were run"
        console.print(
            f"{whole} {rest}operation{'s pass all their' if whole > 1 else ' passes all its'} cases{ran}{everywhere}"
        )
    for target in results.targets:
        total = results.count(target)
        text = Text(f"{target}: ")
        for n, outcome in enumerate(outcomes):
            text.append(", " if n else "")
            text.append(f"{total[outcome]} {outcome.value}", STYLES[outcome] if total[outcome] else "dim")
        console.print(text)
        partly = [v for v in (row.results.get(target) for row in results.rows.values()) if v and v.undecided]
        if partly:
            elements = sum(v.undecided for v in partly)
            console.print(f"  {elements} elements of {len(partly)} cases are undecided", style="dim")
        _show_reasons(console, results, target)
    names = Counter(n for row in results.rows.values() for v in row.results.values() for n in v.differences)
    for name, count in names.most_common():
        console.print(Text(f"  excused {_times(count)}: {name}", STYLES[Outcome.EXCUSED]))
    if not results.complete:
        console.print("The run was interrupted: cases are missing.", style="yellow")


def _show_reasons(console: Console, results: Results, target: str) -> None:
    """A target's reasons for unsupported cases, the most frequent first."""
    verdicts = (row.results[target] for row in results.rows.values() if target in row.results)
    reasons = Counter(" ".join(v.reason.split()) for v in verdicts if v.outcome is Outcome.UNSUPPORTED)
    for reason, count in reasons.most_common(REASONS):
        console.print(Text(f"  unsupported {_times(count)}: {_cut(reason, LONGEST // 4)}", STYLES[Outcome.UNSUPPORTED]))
    if len(reasons) > REASONS:
        others = plural(len(reasons) - REASONS, "other reason")
        console.print(Text(f"  unsupported for {others}, which --json has", STYLES[Outcome.UNSUPPORTED]))


def _cut(text: str, most: int) -> str:
    """The text as far as it fits, without characters that change the terminal's colours or move its cursor."""
    text = CONTROL.sub("?", text)
    return text if len(text) <= most else f"{text[:most]} ... ({len(text)} characters)"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def cell(counts: Counter[Outcome]) -> Text:
    """The counts of one operation on one target in short: passes, then other outcomes, each with its letter."""
    text = Text(str(counts[Outcome.PASS]), STYLES[Outcome.PASS])
    for outcome, letter in LETTERS.items():
        if counts[outcome]:
            text.append(f" {counts[outcome]}{letter}", STYLES[outcome])
    return text


def show_failure(console: Console, verdict: Verdict, whole: bool = False) -> None:
    """One line (or a few) on a fail; long texts are truncated, unless `whole`."""
    text = Text(f"{verdict.case} on {verdict.target}: ", "bold")
    text.append(verdict.reason if whole else _cut(verdict.reason, LONGEST), "not bold")
    console.print(text)
