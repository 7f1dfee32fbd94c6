"""Liars: implementations of HLO that are wrong on purpose. Every tool that distinguishes right from wrong must catch
them.

    refxla-conformance liars                       put each liar to the suite, to --check and to the fuzzer
    refxla-conformance --target liar:sevens        put one to the suite, as any other target

A liar is the reference with one short function that changes it and represents a class of bugs; liar.py has the
registry. The functions are in results.py (lies about whole results), elementwise.py, movement.py, sums.py (reductions,
windows, products), arrays.py (sorting, random numbers, linear algebra, devices), programs.py (control flow, several
instructions together, several calls, the verifier), rare.py (lies that show only on rare operands), forms.py (lies that
show in one form of a program, one result or one call), middling.py (lies that show in arrays of some thousand elements,
or among more than two of a kind), tiles.py (lies that show at the end of such arrays of several dimensions) and
whole_rows.py (contiguous copies, and widths of elements). `trial.py` runs liars through the tools, `command.py` is the
command, `caught.json` has the results.
"""

from __future__ import annotations

from difflib import get_close_matches

from refxla_spec.errors import InputError

from . import (  # noqa: F401  (they enter their liars)
    arrays,
    elementwise,
    forms,
    middling,
    movement,
    programs,
    rare,
    results,
    sums,
    tiles,
    whole_rows,
)
from .liar import LIARS, Liar

__all__ = ["LIARS", "Liar", "find"]


def find(name: str) -> Liar:
    """The liar of that name. Raises InputError, which names a few similar ones, if there is none."""
    if name not in LIARS:
        alike = get_close_matches(name, LIARS, n=5, cutoff=0.5) or [n for n in LIARS if name and name in n][:5]
        hint = f"; did you mean {' or '.join(map(repr, alike))}?" if alike else ""
        raise InputError(f"no liar is called {name!r}{hint} (`refxla-conformance liars --list` shows all {len(LIARS)})")
    return LIARS[name]
