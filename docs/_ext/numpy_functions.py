"""The directive `numpy-functions`: what of NumPy has a compiled form, from the tables that compile it."""

from __future__ import annotations

from typing import Any

import numpy as np
from docutils import nodes
from docutils.parsers.rst import Directive

from refxla.frontends.numpy.advice import name_of
from refxla.frontends.numpy.creation import MAKERS
from refxla.frontends.numpy.dispatch import FUNCTIONS, METHODS
from refxla.frontends.numpy.ufuncs import UFUNCS


class NumpyFunctions(Directive):
    """`numpy-functions`, without arguments."""

    def run(self) -> list[nodes.Node]:
        """A paragraph of the ufuncs, one of the functions that make arrays, one of others and one of the methods, by
        their names."""
        ufuncs = {ufunc.__name__ for ufunc in UFUNCS}
        others = {name_of(f) for f in FUNCTIONS if not isinstance(f, np.ufunc) and f is not np.ufunc.at}
        methods = {name for name in METHODS if not name.startswith("_")}
        return [
            _listed("Universal functions (also reduce, accumulate, outer and at, of those that are sums, products, "
                    "extremes or logical): ", ufuncs),
            _listed("What makes arrays: ", set(MAKERS) - others),
            _listed("Others: ", others - ufuncs),
            _listed("Methods of arrays: ", methods),
        ]  # fmt: skip


def _listed(title: str, names: set[str]) -> nodes.paragraph:
    paragraph = nodes.paragraph(text=title)
    ordered = sorted(names)
    for n, name in enumerate(ordered):
        paragraph += [nodes.literal(text=name), nodes.Text(", " if n + 1 < len(ordered) else ".")]
    return paragraph


def setup(app: Any) -> dict[str, Any]:
    """Register the directive."""
    app.add_directive("numpy-functions", NumpyFunctions)
    return {"version": "1", "parallel_read_safe": True}
