"""python -m refxla_conformance: puts every example of the specification to an implementation; status 1 on failure."""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict

from rich.console import Console
from rich.progress import track
from rich.table import Table

from .cases import cases
from .check import Outcome, Verdict, check
from .implementations import IMPLEMENTATIONS, compiled, reference


def main(arguments: list[str] | None = None) -> int:
    """The command; returns its exit status: 0 if nothing failed, 1 if anything did."""
    parser = argparse.ArgumentParser(prog="refxla-conformance", description=__doc__.split(": ", 1)[1])
    parser.add_argument("opcodes", nargs="*", metavar="OPCODE", help="operations to check; all if none is named")
    parser.add_argument("--implementation", choices=IMPLEMENTATIONS, default="refxla")
    parser.add_argument("--device", help="the compiler's device; the default one if left out")
    options = parser.parse_args(arguments)
    implementation = reference if options.implementation == "reference" else compiled(options.device)
    try:
        chosen = list(cases(options.opcodes))
    except KeyError as error:
        parser.error(f"{error} is not an operation of the specification")

    console = Console()
    verdicts = [check(case, implementation) for case in track(chosen, console=console, transient=True)]
    console.print(table(verdicts))
    for verdict in verdicts:
        if verdict.outcome is Outcome.FAILED:
            console.print(f"{verdict.case.name}: {verdict.reason}", markup=False, highlight=False)
    total = Counter(verdict.outcome for verdict in verdicts)
    console.print(", ".join(f"{total[outcome]} {outcome.value}" for outcome in Outcome))
    return 1 if total[Outcome.FAILED] else 0


def table(verdicts: list[Verdict]) -> Table:
    """One row for each operation: how many of its cases passed, failed, and were not taken."""
    counts: dict[str, Counter[Outcome]] = defaultdict(Counter)
    for verdict in verdicts:
        counts[verdict.case.opcode][verdict.outcome] += 1
    made = Table("operation", *(outcome.value for outcome in Outcome), box=None)
    for opcode, count in counts.items():
        made.add_row(opcode, *(str(count[outcome] or "") for outcome in Outcome))
    return made


if __name__ == "__main__":
    sys.exit(main())
