"""Liars: implementations of HLO that are wrong on purpose. Every tool that is to tell right from wrong must catch them.

    refxla-conformance liars                       put each liar to the suite, to --check and to the fuzzer
    refxla-conformance --target liar:sevens        put one to the suite, as any other target

A liar is the reference with one short function in its way, which stands for a class of bugs; liar.py has the registry.
The functions stand in results.py (lies about whole results), elementwise.py, movement.py, sums.py (reductions, windows,
products), arrays.py (sorting, random numbers, linear algebra, devices) and programs.py (control flow, several
instructions together, several calls, the verifier). `trial.py` puts liars to the tools, `command.py` is the command,
`caught.json` keeps what came of it.
"""

from __future__ import annotations

from refxla_spec.errors import InputError
from refxla_spec.lexer import suggestion

from . import arrays, elementwise, movement, programs, results, sums  # noqa: F401  (they enter their liars)
from .liar import LIARS, Liar

__all__ = ["LIARS", "Liar", "find"]


def find(name: str) -> Liar:
    """The liar of that name. Raises InputError if there is none."""
    if name not in LIARS:
        raise InputError(f"no liar is called {name!r}{suggestion(name, LIARS)}; there are: {', '.join(LIARS)}")
    return LIARS[name]
