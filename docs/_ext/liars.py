"""The directive `liar-table`: which tool catches which implementation that is wrong on purpose, and by what."""

from __future__ import annotations

from docutils import nodes
from docutils.parsers.rst import Directive
from refxla_conformance.liars.table import lines, read
from tables import table


class LiarTable(Directive):
    """A row for each liar."""

    def run(self) -> list[nodes.Node]:
        head = ("Liar", "What is wrong", "The suite, by", "`--check`, by", "The fuzzer, by")
        return [table(head, list(lines(read()["liars"])), (16, 36, 18, 18, 12))]


def setup(app) -> dict[str, bool]:
    app.add_directive("liar-table", LiarTable)
    return {"parallel_read_safe": True}
