"""What is promised of an operation's results, by element type: the accuracy section of its page."""

from __future__ import annotations

import inspect
from math import log2

from refxla_spec import accuracy
from refxla_spec.bounds import unit_roundoff
from refxla_spec.bounds_others import RULES
from refxla_spec.elementwise import is_elementwise
from refxla_spec.operation import Operation
from refxla_spec.types import ELEMENT_TYPES

from . import element_types
from .markup import code, escaped, table

_SUMMED = """The largest error is a part of the sum of the sizes of the n terms; a product of complex numbers counts as
four. A result narrower than f32 is that, rounded once."""
_COMBINED = """Where the computation adds n terms, the largest error is a part of the sum of their sizes; where it takes
the largest or the smallest of them, the result is exact. A result narrower than f32 is rounded once."""


def promised(opcode: str, element_type: str, unit: str = " ULP") -> str:
    """The bound of an elementwise operation, "exact", or "—" for a type that the operation does not take."""
    if element_type not in element_types.accepted(opcode):
        return "—"
    bound = accuracy.max_ulp(opcode, element_type)
    return f"{bound:g}{unit}" if bound else "exact"


def section(o: Operation, types: tuple[str, ...]) -> str:
    """The section of an operation's page, for the element types that it takes."""
    contract = "See [](../accuracy.md) for what the bounds mean.\n"
    if is_elementwise(o.opcode):
        bounds = {t: promised(o.opcode, t) for t in types}
        rows = [(code(t), bound) for t, bound in bounds.items() if bound != "exact"]
        if "exact" in bounds.values():
            rows.append(("all others" if rows else "all types", "exact: the same bits"))
        return table(("element type", "largest error"), rows) + "\n" + contract
    rule = RULES.get(o.opcode)
    if rule is not None and rule.__qualname__.startswith("_moves"):
        return "Exact: elements are moved, and none is changed.\n"
    if rule is not None and rule.__qualname__.startswith(_SUMS):
        combines = "to_apply" in o.attributes or "scatter" in o.attributes
        text = _COMBINED if combines else _SUMMED
        return f"{text}\n\n" + table(("element type", "largest error / ∑ |terms|"), _sum_rows(types)) + "\n" + contract
    sentence = " ".join((inspect.getdoc(rule) or "").split()) if rule is not None else ""
    return (escaped(sentence) or "It follows from the operations that it is made of.") + f"\n\n{contract}"


_SUMS = ("_products", "_reduce", "_scatter", "_select_and_scatter", "_fft")  # the rules that bound sums of n terms


def _sum_rows(types: tuple[str, ...]) -> list[tuple[str, str]]:
    """One row for each unit roundoff u; types whose numbers are not rounded come last."""
    by_roundoff: dict[float, list[str]] = {}
    for t in (ELEMENT_TYPES[t] for t in types):
        if t.is_float or t.is_complex:
            by_roundoff.setdefault(unit_roundoff(accuracy.computed_in(t)), []).append(code(t.name))
    rows = [(", ".join(names), f"n · 2<sup>{round(log2(u))}</sup>") for u, names in sorted(by_roundoff.items())]
    rounded = sum(map(len, by_roundoff.values()))
    return rows + [("all others", "exact: the same bits")] * (rounded < len(types))
