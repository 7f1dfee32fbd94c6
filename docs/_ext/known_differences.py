"""The directives `known-differences`, the table of how the oracles differ from the specification, made from the data,
and `suite-outcomes`, the table of what came of the suite on each target."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive
from refxla_conformance.case_check import FLUSHED
from refxla_conformance.differences import rows
from refxla_conformance.differences.counts import read
from tables import table

WIDTHS = (17, 32, 9, 34, 8)
HEAD = ("What", "What the target does", "Right", "By which sentence", "Cases")
OUTCOMES = ("pass", "excused", "unsupported", "undecided", "fail")


class KnownDifferences(Directive):
    """`known-differences` with the name of a target as its argument."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """One table, a row for each difference, with the cases of the run that is kept in which it takes part."""
        (target,) = self.arguments
        run = read()[target]
        differences = [(*row[1:], str(run["excused"].get(row[1], 0))) for row in rows() if row[0] == target]
        if not differences:
            raise self.error(f"no differences of a target {target!r}")
        versions = ", ".join(f"{name} {version}" for name, version in run["target"].items())
        flushed = run["excused"].get(FLUSHED, 0)
        more = f" {flushed} more are excused since {FLUSHED}, by the target at run time." if flushed else ""
        text = (
            f"Cases: those in whose excuse the difference takes part, of {run['cases']:,} put to {versions} on "
            f"{run['started'][:10]}, at commit {run['versions'].get('commit', 'unknown')[:12]}, on "
            f"{run['machine']['processor']}, Python {run['machine']['python']}. Those of 0 are of random programs, of "
            f"the long set of cases, or of older releases.{more}"
        )
        return [nodes.paragraph(text=text), table(HEAD, differences, WIDTHS)]


class SuiteOutcomes(Directive):
    """`suite-outcomes`: a row for each target of which a run is kept."""

    def run(self) -> list[nodes.Node]:
        """One table."""
        lines = [
            (
                target,
                " ".join((*run["target"].values(), f"on {run['started'][:10]}")),
                f"{run['cases']:,}",
                *(f"{run['outcomes'][outcome]:,}" for outcome in OUTCOMES),
            )
            for target, run in sorted(read().items())
        ]
        return [table(("Target", "Version", "Cases", *OUTCOMES), lines, (16, 24, 10, 10, 10, 10, 10, 10))]


def setup(app: Any) -> dict[str, Any]:
    """What Sphinx calls."""
    app.add_directive("known-differences", KnownDifferences)
    app.add_directive("suite-outcomes", SuiteOutcomes)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
