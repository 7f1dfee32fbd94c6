"""The directive `numpy-functions`: what of NumPy has a compiled form, from the tables that compile it."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive

from refxla.frontends.numpy.tables import covered


class NumpyFunctions(Directive):
    """`numpy-functions`, without arguments."""

    def run(self) -> list[nodes.Node]:
        """A paragraph of the ufuncs and one of the other functions, by their names."""
        ufuncs, others, _ = covered()
        return [_listed("Universal functions: ", ufuncs), _listed("Others: ", others)]


def _listed(title: str, names: list[str]) -> nodes.paragraph:
    paragraph = nodes.paragraph(text=title)
    for n, name in enumerate(names):
        paragraph += [nodes.literal(text=name), nodes.Text(", " if n + 1 < len(names) else ".")]
    return paragraph


def setup(app: Any) -> dict[str, Any]:
    """Register the directive."""
    app.add_directive("numpy-functions", NumpyFunctions)
    return {"version": "1", "parallel_read_safe": True}
