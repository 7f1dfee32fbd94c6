"""How many cases each known difference excuses, and what came of the suite: of runs that are kept, for the documents.

    python -m refxla_conformance.differences.counts REPORT...

takes reports of whole runs (`refxla-conformance --target T --json REPORT`) into `counts.json`, one entry a target:

    {TARGET: {"started", "machine", "versions", "target", "cases", "outcomes": {OUTCOME: n}, "excused": {NAME: n}}}

`machine` and `versions` are those of the report, `target` the versions that the target reports; `excused` counts the
cases in whose excuse a difference takes part, so that a case of two differences counts for both.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from refxla_spec.errors import InputError

from refxla.cli.argument_parser import Parser
from refxla.cli.failures import guarded

from ..case_check import Outcome
from ..report import Results

COUNTS_FILE = Path(__file__).with_name("counts.json")


def read() -> dict[str, dict[str, Any]]:
    """The data that is kept; see this module's docstring for the fields."""
    counts: dict[str, dict[str, Any]] = json.loads(COUNTS_FILE.read_text())
    return counts


def counted(results: Results) -> dict[str, dict[str, Any]]:
    """The entry of each target of a run. Raises InputError for one that was interrupted."""
    if not results.complete:
        raise InputError("the run was interrupted; only whole ones are kept")
    head = {"started": results.started, "machine": results.machine, "versions": results.versions}
    return {target: {**head, **_of(results, target)} for target in results.targets}


def _of(results: Results, target: str) -> dict[str, Any]:
    outcomes = results.count(target)
    verdicts = [row.results[target] for row in results.rows.values() if target in row.results]
    excused = Counter(name for v in verdicts if v.outcome is Outcome.EXCUSED for name in v.differences)
    return {
        "target": results.targets[target],
        "cases": len(verdicts),
        "outcomes": {outcome.value: outcomes[outcome] for outcome in Outcome},
        "excused": dict(sorted(excused.items())),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Takes the reports of those names into `counts.json`."""
    return guarded(lambda: _command(arguments), "refxla-conformance")


def _command(arguments: Sequence[str] | None) -> int:
    parser = Parser(prog="python -m refxla_conformance.differences.counts", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("reports", nargs="+", metavar="REPORT", help="what `refxla-conformance --json` wrote")
    reports = parser.parse_args(arguments).reports
    counts = read() if COUNTS_FILE.exists() else {}
    for report in reports:
        counts |= counted(Results.read(Path(report)))
    COUNTS_FILE.write_text(json.dumps(counts, indent=1, sort_keys=True) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
