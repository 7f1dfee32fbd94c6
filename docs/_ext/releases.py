"""The directive `releases`: what each release of JAX writes differently, made from the specification's data."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive
from refxla_spec.releases import CHANGES
from tables import table

WIDTHS = (10, 22, 38, 30)
HEAD = ("Since JAX", "What", "Is written", "Releases before")


class Releases(Directive):
    """One table, a row for each change."""

    def run(self) -> list[nodes.Node]:
        rows = [
            (c.release, f"{c.opcode}, {c.attribute}" if c.attribute else c.opcode, c.written, c.before) for c in CHANGES
        ]
        return [table(HEAD, rows, WIDTHS)]


def setup(app: Any) -> dict[str, Any]:
    """What Sphinx calls."""
    app.add_directive("releases", Releases)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
