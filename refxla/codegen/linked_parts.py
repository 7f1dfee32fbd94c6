"""How the functions of a program are distributed over parts that call each other.

Where machine code can be linked after it is compiled (runtime/pocl/kernel_library.py), even one merged kernel is
compiled in several parts at the same time. A function of another part is called through a *stub* (program_part.py). So
each function is compiled only once, whichever kernels call it.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from .kernel_dispatcher import Dispatcher
from .kernel_functions import KernelFunction, KernelFunctions
from .program_part import EXTERNAL

_LEAST_LINKED = 1_500  # characters of one of several linked parts, on average
_KERNEL = 2_000  # characters that take as long as a __kernel does
_LEAST_SAVED = 1_000  # characters that the largest of them has fewer than all together
_LEAST_EXPORTED = 400  # characters of a function and its helpers, from which on a stub and a case of a switch pay


@dataclass(frozen=True)
class LinkedPart:
    """A part that is to be compiled by itself: its dispatchers, its own functions, callees first, and the external
    names of the functions of others that it calls and of its own that others call, by their names in the program."""

    dispatchers: list[Dispatcher]
    functions: list[KernelFunction]
    imports: Mapping[str, str]
    exports: Mapping[str, str]


@dataclass(frozen=True)
class _Unit:
    """Functions that stay together: `functions` of a dispatcher, or of one function that may be exported. `calls` has
    the functions of other units that they call, `sizes` the characters of the functions and of what else is compiled
    with them, each by its name or text: units have some in common."""

    dispatcher: Dispatcher | None
    export: str
    functions: frozenset[str]
    calls: frozenset[str]
    sizes: Mapping[str, int]


def linked_parts(functions: KernelFunctions, dispatchers: Sequence[Dispatcher], most: int) -> list[LinkedPart]:
    """At most so many parts of about equal length with these dispatchers and all functions that they need; [] if there
    would be only one, or the largest would be nearly as long as one."""
    needed = functions.with_called(name for d in dispatchers for name, _, _ in d.functions)
    whole = sum(functions.compiled_sizes(needed).values()) + _KERNEL * (len(dispatchers) - 1)
    count = min(most, whole // _LEAST_LINKED)
    parts = [] if count < 2 else _distributed(_units(functions, dispatchers, needed), count)
    if len(parts) < 2 or max(map(_size, parts)) > whole - _LEAST_SAVED:
        return []
    assignment = repr([sorted(unit.functions) for part in parts for unit in part])
    # A digest of all parts: a part is linked to the same others, whichever program it is loaded for.
    digest = hashlib.sha256("".join([assignment, *(f.text for f in needed)]).encode()).hexdigest()[:16]
    users = Counter(name for part in parts for unit in part for name in unit.calls)
    calls = [{name for unit in part for name in unit.calls} for part in parts]
    exports = [  # of each part: those of its functions that others call, or several of its own kernels
        {
            unit.export: f"{EXTERNAL}{unit.export}_{digest}"
            for unit in part
            if unit.export and (users[unit.export] > 1 or unit.export not in called)
        }
        for part, called in zip(parts, calls, strict=True)
    ]
    linked = []
    for part, called, own_exports in zip(parts, calls, exports, strict=True):
        own = {name for unit in part for name in unit.functions}
        imports = {name: external for each in exports for name, external in each.items() if name in called}
        launched = [unit.dispatcher for unit in part if unit.dispatcher]
        linked.append(LinkedPart(launched, [f for f in needed if f.name in own], imports, own_exports))
    return linked


def _units(
    functions: KernelFunctions, dispatchers: Sequence[Dispatcher], needed: Sequence[KernelFunction]
) -> list[_Unit]:
    """The units of these dispatchers, which need these functions."""
    launched = {name for d in dispatchers for name, _, _ in d.functions}
    exportable = frozenset(
        f.name
        for f in needed
        if f.pointers is not None and f.name not in launched and f.size + sum(map(len, f.helpers)) >= _LEAST_EXPORTED
    )

    def unit(dispatcher: Dispatcher | None, export: str, roots: Iterable[str]) -> _Unit:
        own = functions.with_called(roots, exportable)
        calls = exportable.intersection(name for f in own for name in f.calls)
        return _Unit(dispatcher, export, frozenset(f.name for f in own), calls, functions.compiled_sizes(own))

    units = [unit(d, "", [name for name, _, _ in d.functions]) for d in dispatchers]
    return units + [unit(None, f.name, [f.name]) for f in needed if f.name in exportable]


def _distributed(units: Sequence[_Unit], count: int) -> list[list[_Unit]]:
    """The units in so many parts of about equal length, or fewer if there are few units: the largest unit first, each
    where it makes the shortest part."""
    parts: list[list[_Unit]] = [[] for _ in range(count)]
    contents: list[dict[str, int]] = [{} for _ in range(count)]
    totals = [0] * count
    for each in sorted(units, key=lambda u: -sum(u.sizes.values())):
        more = [sum(size for key, size in each.sizes.items() if key not in content) for content in contents]
        if each.dispatcher:  # one of a part that has a __kernel already; every part has one
            more = [m + _KERNEL * any(u.dispatcher for u in part) for m, part in zip(more, parts, strict=True)]
        smallest = min(range(count), key=lambda n: totals[n] + more[n])
        parts[smallest].append(each)
        contents[smallest] |= each.sizes
        totals[smallest] += more[smallest]
    return [part for part in parts if part]


def _size(units: Collection[_Unit]) -> int:
    """The characters of all that is compiled with these units in one part, and of its __kernels but one."""
    sizes: dict[str, int] = {}
    for unit in units:
        sizes |= unit.sizes
    return sum(sizes.values()) + _KERNEL * max(0, sum(unit.dispatcher is not None for unit in units) - 1)
