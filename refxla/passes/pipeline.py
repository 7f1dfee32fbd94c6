"""The order of the passes: from a module as it comes to one the planner takes.

The first ones give the module its form (calls inlined, tuples plain, operations without an emitter expanded) and
always run; the others make it faster, change no bit of any result, and can be left out one by one, which is how a
fault is found.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from refxla_spec.errors import Error, InputError
from refxla_spec.module import Module

from .._core import shapes
from . import (
    canonicalize,
    cse,
    dead_code,
    devices,
    dynamic,
    expand,
    fold,
    hoist,
    initial_values,
    inline,
    layouts,
    own_fills,
    random_state,
    simplify,
    transposed_dots,
    tuples,
)

Pass = Callable[[Module], int]
PASSES: tuple[tuple[str, Pass], ...] = (
    ("devices", devices.run),
    ("random-state", random_state.run),
    ("layouts", layouts.run),
    ("inline", inline.run),
    ("canonicalize", canonicalize.run),
    ("initial-values", initial_values.run),
    ("dynamic", dynamic.run),
    ("expand", expand.run),
    ("tuples", tuples.run),
    ("simplify", simplify.run),
    ("fold", fold.run),
    ("simplify-folded", simplify.run),
    ("transposed-dots", transposed_dots.run),
    ("hoist", hoist.run),
    ("cse", cse.run),
    ("own-fills", own_fills.run),
    ("dead-code", dead_code.run),
)
FUSION, BANDS = (
    "fusion",
    "bands",
)  # the scheduler and what follows it are no passes, but can be left out in the same way
OPTIONAL = ("simplify", "fold", "simplify-folded", "transposed-dots", "hoist", "cse", "own-fills", FUSION, BANDS)


def optimize(module: Module, without: Collection[str] = (), after: str | None = None) -> Module:
    """A new module, the passes applied; the one given stays as it is.

    `without` names passes of OPTIONAL to leave out; `after` names the pass behind which to stop. Raises InputError for
    a name that is no such pass, Error for a pass that left a wrong shape, UnsupportedError for an operation that has
    neither emitter nor expansion.
    """
    without = (without,) if isinstance(without, str) else without
    names = [*(name for name, _ in PASSES), FUSION, BANDS]
    for name in (*without, *([after] if after else [])):
        if name not in names:
            raise InputError(f"there is no pass {name!r}; the passes are {', '.join(names)}")
    wrong = [name for name in without if name not in OPTIONAL]
    if wrong:
        raise InputError(f"pass {wrong[0]!r} cannot be left out; those that can are {', '.join(OPTIONAL)}")
    made = _apply(module, without, after, each=False)
    try:
        shapes.check(made)
    except Error:
        _apply(module, without, after, each=True)  # again, to find out which pass it was
        raise
    return made


def _apply(module: Module, without: Collection[str], after: str | None, each: bool) -> Module:
    """A new module with the passes applied; with `each`, shapes are checked behind each of them."""
    module = module.clone()
    for name, run in PASSES:
        if name not in without:
            run(module)
            if each:
                _check_behind(name, module)
        if name == after:
            break
    return module


def _check_behind(name: str, module: Module) -> None:
    try:
        shapes.check(module)
    except Error as problem:
        advice = f"leave it out with without=({name!r},) and " if name in OPTIONAL else ""
        raise Error(f"pass {name!r} is at fault, {advice}report this: {problem}") from problem
