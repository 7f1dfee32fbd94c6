"""Names as XLA reads them: what is printed for the names of modules, computations and instructions.

A name consists of letters, digits, `_`, `.` and `-`, and begins with a letter or `_`. It is not an element type, and
does not begin with `__` (except `__xla_`, XLA's own). XLA's parser refuses instructions with other names and renames
such computations. Here a program may use any name; where XLA does not read it, another one is printed, such as XLA's
NameUniquer would choose. Likewise where two computations of a module, or two instructions of a computation, have the
same name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from .module import Computation, Instruction, Module
from .types import ELEMENT_TYPES, TUPLE

_LEGAL = re.compile(r"(?!__(?!xla_))[A-Za-z_][A-Za-z0-9_.\-]*")
_OTHER = re.compile(r"[^A-Za-z0-9_.\-]")
_TYPES = frozenset(ELEMENT_TYPES) - {TUPLE.name}
KEYWORDS = frozenset(
    "true false inf nan HloModule ENTRY ROOT FileLocations FileNames FunctionNames StackFrames maximal replicated "
    "manual last_tile_dim_replicate shard_as shard_like unknown unreduced".split()
)  # names to XLA's lexer only with a % in front


def is_legal(name: str) -> bool:
    """Whether XLA's parser takes it as the name of an instruction."""
    return _LEGAL.fullmatch(name) is not None and name not in _TYPES


def legal(name: str) -> str:
    """The name itself, or the nearest one that XLA's parser takes: `s1_` for s1, `_3x` for 3x, `a_b` for __b."""
    if is_legal(name):
        return name
    name = _OTHER.sub("_", name) or "_"
    if not re.match(r"[A-Za-z_]", name):
        name = "_" + name
    if name in _TYPES:
        name += "_"
    return name if is_legal(name) else "a" + name[1:]


class Names:
    """The names that are printed for the computations and instructions of a module: legal ones, each once in its scope.

    What has a name already that is legal keeps it; of several with the same one, the first.
    """

    def __init__(self, module: Module) -> None:
        self.changed: dict[Computation | Instruction, str] = _changed(module.computations)
        for computation in module.computations:
            self.changed |= _changed(computation.instructions)

    def __call__(self, item: Computation | Instruction) -> str:
        return self.changed.get(item, item.name)


def _changed(scope: Iterable[Computation | Instruction]) -> dict[Computation | Instruction, str]:
    """Those of a scope that cannot be printed by their names, with what is printed instead."""
    names: set[str] = set()
    others: list[Computation | Instruction] = []
    for item in scope:
        if item.name in names or not is_legal(item.name):
            others.append(item)
        else:
            names.add(item.name)
    changes = {}
    for item in others:
        stem = name = legal(item.name)
        n = 0
        while name in names:
            n += 1
            name = f"{stem}.{n}"
        names.add(name)
        changes[item] = name
    return changes


def as_printed(item: Computation | Instruction) -> str:
    """The name that is printed for what is printed alone."""
    return legal(item.name)


def make_unique(module: Module) -> None:
    """Give the computations and instructions of a module the names under which they are printed."""
    for item, name in Names(module).changed.items():
        item.name = name
