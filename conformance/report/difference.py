"""What changed from one report to another: `refxla-conformance --diff a.json b.json`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from refxla_spec.errors import InputError
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..case_check import Outcome, Verdict
from . import Results

# How a case changed, in the order of the output; those of BAD are why the status is 1.
CHANGES = {
    "broken": "passed, and does no longer",
    "failing": "did not pass and did not fail, and fails now",
    "new fail": "is new, and fails",
    "gone": "is not there any more",
    "fixed": "failed, and does no longer (what becomes undecided has only changed)",
    "gained": "was unsupported, undecided or excused, and passes now",
    "changed": "was unsupported, undecided or excused, and is another of these",
    "new": "is new, and does not fail",
    "bits": "came out the same way, with other bits",
}
BAD = ("broken", "failing", "new fail")


@dataclass(frozen=True)
class Change:
    """A case with different outcomes on a target; `before` or `after` is None if it was not run."""

    change: str
    case: str
    target: str
    before: Verdict | None
    after: Verdict | None


def diff(a: Results, b: Results) -> list[Change]:
    """The changes in b, in the order of CHANGES and then of the cases.

    Targets are compared by name; if each report has just one, these two are compared whatever their names.
    """
    changes = []
    for name in {**a.rows, **b.rows}:
        for before_name, after_name in _pairs(a, b):
            before = a.rows[name].results.get(before_name) if name in a.rows else None
            after = b.rows[name].results.get(after_name) if name in b.rows else None
            change = _change(before.outcome if before else None, after.outcome if after else None)
            if before and after and not change and before.bits and after.bits and before.bits != after.bits:
                change = "bits"
            if change:
                changes.append(Change(change, name, after_name, before, after))
    return sorted(changes, key=lambda c: list(CHANGES).index(c.change))


def _pairs(a: Results, b: Results) -> list[tuple[str, str]]:
    """The targets that are compared, by their names there and here."""
    if len(a.targets) == len(b.targets) == 1:
        return [(next(iter(a.targets)), next(iter(b.targets)))]
    return [(t, t) for t in b.targets if t in a.targets]


def _change(before: Outcome | None, after: Outcome | None) -> str:
    if before is after:
        return ""
    if before is None:
        return "new fail" if after is Outcome.FAIL else "new"
    if after is None:
        return "gone"
    if before is Outcome.PASS:
        return "broken"
    if after is Outcome.FAIL:
        return "failing"
    if before is Outcome.FAIL and after is not Outcome.UNDECIDED:
        return "fixed"
    return "gained" if after is Outcome.PASS else "changed"


def show(console: Console, first: str, second: str) -> int:
    """Prints the changes between two files and how many there are of each; returns the exit status: 1 if any is of BAD,
    otherwise 0."""
    a, b = (Results.read(Path(file)) for file in (first, second))
    if not _pairs(a, b):
        targets = [f"{file} has {', '.join(r.targets) or 'none'}" for file, r in ((first, a), (second, b))]
        raise InputError(f"no target in common: {'; '.join(targets)}")
    changes = diff(a, b)
    table = Table(box=None, pad_edge=False)
    for column in ("change", "case", "before", "after", "why"):
        table.add_column(column, overflow="fold", no_wrap=column == "change")
    for c in changes:
        style = "red" if c.change in BAD else "yellow" if c.change == "gone" else "green"
        why = c.after.reason if c.after is not None and c.after.outcome is not Outcome.PASS else ""
        case = c.case if len(b.targets) == 1 else f"{c.case} ({c.target})"
        outcomes = ["" if v is None else v.outcome.value for v in (c.before, c.after)]
        table.add_row(Text(c.change, style), Text(case), *outcomes, Text(why.split("\n")[0][:200]))
    if changes:
        console.print(table)
    counts = {name: sum(c.change == name for c in changes) for name in CHANGES}
    told = [f"{count} {name}" for name, count in counts.items() if count]
    console.print(", ".join(told) or "nothing has changed")
    for name, report in (("first", a), ("second", b)):
        if not report.complete:
            console.print(f"The {name} report is of a run that was interrupted: cases are missing.", style="yellow")
    return 1 if any(counts[name] for name in BAD) else 0
