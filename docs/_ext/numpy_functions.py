"""The directive `numpy-functions`: what of NumPy has a compiled form, from the tables that compile it."""

from __future__ import annotations

from typing import Any

import numpy as np
from docutils import nodes
from docutils.parsers.rst import Directive

from refxla.frontends.numpy.dispatch import FUNCTIONS
from refxla.frontends.numpy.ufuncs import UFUNCS


class NumpyFunctions(Directive):
    """`numpy-functions`, without arguments."""

    def run(self) -> list[nodes.Node]:
        """A paragraph of the ufuncs and one of the other functions, by their names."""
        ufuncs = sorted({ufunc.__name__ for ufunc in UFUNCS})
        others = sorted({_name(f) for f in FUNCTIONS if not isinstance(f, np.ufunc)} - set(ufuncs))
        return [_listed("Universal functions: ", ufuncs), _listed("Others: ", others)]


def _name(function: Any) -> str:
    """A function's name as a user of NumPy writes it, behind `np.`."""
    module = function.__module__.removeprefix("numpy").lstrip(".")
    return f"{module}.{function.__name__}" if module and not module.startswith("_") else function.__name__


def _listed(title: str, names: list[str]) -> nodes.paragraph:
    paragraph = nodes.paragraph(text=title)
    for n, name in enumerate(names):
        paragraph += [nodes.literal(text=name), nodes.Text(", " if n + 1 < len(names) else ".")]
    return paragraph


def setup(app: Any) -> dict[str, Any]:
    """Register the directive."""
    app.add_directive("numpy-functions", NumpyFunctions)
    return {"version": "1", "parallel_read_safe": True}
