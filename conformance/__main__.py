"""python -m refxla_conformance: puts every example of the specification to an implementation; status 1 on failure."""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict

from refxla_spec.errors import InputError
from rich.console import Console
from rich.progress import track
from rich.table import Table

from .cases import collect
from .check import Outcome, Verdict, check
from .targets import make_target


def main(arguments: list[str] | None = None) -> int:
    """The command; returns its exit status: 0 if nothing failed, 1 if anything did."""
    parser = argparse.ArgumentParser(prog="refxla-conformance", description=__doc__)
    parser.add_argument("opcodes", nargs="*", metavar="OPCODE", help="operations to check; all if none is named")
    parser.add_argument("--target", default="compiled")
    options = parser.parse_args(arguments)
    try:
        target, chosen = make_target(options.target), collect(options.opcodes)
    except InputError as error:
        parser.error(str(error))

    console = Console()
    verdicts = [check(case, target) for case in track(chosen, console=console, transient=True)]
    console.print(table(verdicts))
    for verdict in verdicts:
        if verdict.outcome is Outcome.FAIL:
            console.print(f"{verdict.case}: {verdict.reason}", markup=False, highlight=False)
    total = Counter(verdict.outcome for verdict in verdicts)
    console.print(", ".join(f"{total[outcome]} {outcome.value}" for outcome in Outcome))
    return 1 if total[Outcome.FAIL] else 0


def table(verdicts: list[Verdict]) -> Table:
    """One row for each operation: how many of its cases passed, failed, and were not taken."""
    counts: dict[str, Counter[Outcome]] = defaultdict(Counter)
    for verdict in verdicts:
        counts[verdict.opcode][verdict.outcome] += 1
    made = Table("operation", *(outcome.value for outcome in Outcome), box=None)
    for opcode, count in counts.items():
        made.add_row(opcode, *(str(count[outcome] or "") for outcome in Outcome))
    return made


if __name__ == "__main__":
    sys.exit(main())
