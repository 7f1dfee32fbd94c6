"""The targets: implementations of HLO that can be tested, each behind one small adapter class.

    reference           the specification's own interpreter
    compiled            the compiler, on the default device
    compiled:DEVICE     the compiler, on that device
    compiled-unfused    the compiler without fusion
    compiled-expanded   the compiler with linear algebra in its own kernels: the same bits on every device
    compiled-winograd   the compiler with convolutions of 3 x 3 computed in tiles, checked against the bounds of those
    compiled-tuned      the compiler with the fastest blocking of matrix products here, which is measured
    compiled-recut      the compiler with random blocking of matrix products, as tuning may choose it
    xla-cpu             XLA:CPU, through JAX's wheel
    stablehlo           StableHLO's own interpreter, through JAX's wheel
    liar:NAME           an implementation that is wrong on purpose (`refxla-conformance liars`)
    package.module:Name an adapter class of yours, imported from there (or from the current folder)

An installed package may offer a target under its own name, through an entry point of the group
`refxla_conformance.targets`.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any

from refxla_spec.errors import Error, InputError
from refxla_spec.lexer import suggestion

from .base import Misconduct, Target, arrays, contained, forms, leaves, loaded, result_arrays

__all__ = [
    "ENTRY_POINTS", "NAMES", "Misconduct", "Target", "arrays", "contained", "forms", "leaves", "loaded",
    "make_target", "result_arrays", "target_names",
]  # fmt: skip

ENTRY_POINTS = "refxla_conformance.targets"
NAMES = {
    "reference": ("reference", "Reference"),
    "compiled": ("compiled", "Compiled"),
    "compiled-unfused": ("compiled", "Unfused"),
    "compiled-expanded": ("compiled", "Expanded"),
    "compiled-tuned": ("compiled", "Tuned"),
    "compiled-recut": ("compiled", "Recut"),
    "compiled-winograd": ("compiled", "Tiled"),
    "xla-cpu": ("xla_cpu", "XlaCpu"),
    "stablehlo": ("stablehlo", "StableHlo"),
}


def make_target(name: str) -> Target:
    """The target of that name; see this package's docstring for the names.

    Raises InputError for an unknown name, and for a target whose package is not installed, does not load, or whose
    class cannot be instantiated.
    """
    target = _instance(name)
    target.specification = name
    target.name = target.name or name
    return target


def _instance(name: str) -> Target:
    offered = {e.name: e for e in importlib.metadata.entry_points(group=ENTRY_POINTS)}
    first, _, rest = name.partition(":")
    try:
        if name in NAMES:
            module, kind = NAMES[name]
            adapter = getattr(importlib.import_module(f"{__name__}.{module}"), kind)
        elif first == "compiled":
            from .compiled import Compiled

            return Compiled(rest)
        elif first == "liar":
            from ..liars import find

            return find(rest).target()
        elif name in offered:
            adapter = offered[name].load()
        elif rest:
            if os.getcwd() not in sys.path:
                sys.path.append(os.getcwd())  # as for a script, modules in the current folder can be imported
            adapter = getattr(importlib.import_module(first), rest)
        else:
            hint = suggestion(name, target_names())
            names = ", ".join([*target_names(), "compiled:DEVICE", "liar:NAME", "module:Class"])
            raise InputError(f"no target is called {name!r}{hint}; there are: {names}")
    except (ImportError, AttributeError, TypeError, ValueError) as error:  # for names that no module can have
        how = "" if name in NAMES or name in offered else " as module:Class"
        raise InputError(f"target {name} cannot be loaded{how}: {error}") from error
    if not (isinstance(adapter, type) and issubclass(adapter, Target)):
        raise InputError(f"target {name} is no adapter class: derive one from refxla_conformance.targets.Target")
    if adapter.run is Target.run:
        raise InputError(f"target {name}: class {adapter.__name__} has no method run(module, arguments)")
    _check_signatures(name, adapter)
    try:
        return adapter()
    except Error:
        raise
    except (Exception, SystemExit) as error:  # of any kind, from an external class
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{place.filename.rsplit('/', 1)[-1]}, line {place.lineno}"
        where = "it is made without arguments" if place.filename == __file__ else where
        raise InputError(f"target {name} cannot be made: {type(error).__name__}: {error} ({where})") from error


def _check_signatures(name: str, adapter: type[Target]) -> None:
    """Raises InputError for a class that cannot be instantiated without arguments, or a method that does not accept
    Target's arguments: otherwise a call of it would be reported as an error in the suite."""
    if not _takes(adapter):
        own = f"{adapter.__name__}{inspect.signature(adapter)}"
        raise InputError(f"target {name}: {own} asks for arguments, and an adapter is made without any")
    for method, meant in inspect.getmembers(Target, inspect.isfunction):
        _, *taken = inspect.signature(meant).parameters
        mine = inspect.getattr_static(adapter, method)
        if inspect.isfunction(mine) and not _takes(mine, "self", *taken):
            own, instead = f"{method}{inspect.signature(mine)}", f"{method}({', '.join(['self', *taken])})"
            raise InputError(f"target {name}: class {adapter.__name__} defines {own}; it has to be {instead}")


def _takes(function: Callable[..., Any], *arguments: Any) -> bool:
    """Whether a function can be called with these arguments."""
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError:
        return False
    except ValueError:  # its signature is unknown, as for some functions not written in Python
        pass
    return True


def target_names() -> list[str]:
    """The names that make_target knows, without those of devices and of classes."""
    return [*NAMES, *(e.name for e in importlib.metadata.entry_points(group=ENTRY_POINTS))]
