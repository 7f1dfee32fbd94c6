"""The directive `known-differences`: the table of how the oracles differ from the specification, made from the data."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive
from refxla_conformance.differences import rows

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
        group = nodes.tgroup(cols=len(WIDTHS))
        group += [nodes.colspec(colwidth=width) for width in WIDTHS]
        group += nodes.thead("", _row(HEAD))
        group += nodes.tbody("", *map(_row, found))
        return [nodes.table("", group, classes=["colwidths-given"])]


def _row(texts: tuple[str, ...]) -> nodes.row:
    return nodes.row("", *(nodes.entry("", nodes.paragraph(text=text)) for text in texts))


def setup(app: Any) -> dict[str, Any]:
    """What Sphinx calls."""
    app.add_directive("known-differences", KnownDifferences)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
