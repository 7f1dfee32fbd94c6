"""Liars: implementations of HLO that are wrong on purpose. Every tool that is to tell right from wrong must catch them.

    refxla-conformance liars                       put each liar to the suite, to --check and to the fuzzer
    refxla-conformance --target liar:sevens        put one to the suite, as any other target

A liar is the reference with one short function in its way, which stands for a class of bugs; liar.py has the registry.
The functions stand in results.py (lies about whole results), elementwise.py, movement.py, sums.py (reductions, windows,
products), arrays.py (sorting, random numbers, linear algebra, devices), programs.py (control flow, several instructions
together, several calls, the verifier), rare.py (what shows on rare operands alone), forms.py (what shows in one form
of a program, one result or one call), middling.py (what shows in arrays of some thousand elements, or among more than
two of a thing), tiles.py (what shows at the end of such arrays of several dimensions) and whole_rows.py (what is moved
in one piece, and widths of elements). `trial.py` puts liars to the tools, `command.py` is the command, `caught.json`
keeps what came of it.
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
    """The liar of that name. Raises InputError, which names a few that are called alike, if there is none."""
    if name not in LIARS:
        alike = get_close_matches(name, LIARS, n=5, cutoff=0.5) or [n for n in LIARS if name and name in n][:5]
        hint = f"; did you mean {' or '.join(map(repr, alike))}?" if alike else ""
        raise InputError(f"no liar is called {name!r}{hint} (`refxla-conformance liars --list` shows all {len(LIARS)})")
    return LIARS[name]
