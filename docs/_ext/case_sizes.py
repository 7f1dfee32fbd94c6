"""The directive `case-sizes`: how large the arrays of the conformance suite's cases are, by operation and rank."""

from __future__ import annotations

from docutils import nodes
from docutils.parsers.rst import Directive
from refxla_conformance.cases import collect
from refxla_conformance.cases.sizes import MOST, rows
from tables import table


class CaseSizes(Directive):
    """A row for each structured operation."""

    def run(self) -> list[nodes.Node]:
        ranks = [str(rank) for rank in range(1, MOST)]
        cases = collect(kinds=("structured",))
        return [table(("Operation", *ranks, f"{MOST} and more"), rows(cases), (20, *[13] * MOST))]


def setup(app) -> dict[str, bool]:
    app.add_directive("case-sizes", CaseSizes)
    return {"parallel_read_safe": True}
