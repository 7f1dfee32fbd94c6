"""The directive `known-differences`: the table of how the oracles differ from the specification, made from the data."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive
from refxla_conformance.differences import rows
from tables import table

WIDTHS = (18, 34, 10, 38)
HEAD = ("What", "What the target does", "Right", "By which sentence")


class KnownDifferences(Directive):
    """`known-differences` with the name of a target as its argument."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """One table, a row for each difference."""
        found = [row[1:] for row in rows() if row[0] == self.arguments[0]]
        if not found:
            raise self.error(f"no differences of a target {self.arguments[0]!r}")
        return [table(HEAD, found, WIDTHS)]


def setup(app: Any) -> dict[str, Any]:
    """What Sphinx calls."""
    app.add_directive("known-differences", KnownDifferences)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
