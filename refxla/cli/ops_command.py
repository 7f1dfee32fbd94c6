"""`refxla ops`: what is supported, for which element types, and through which front end."""

from __future__ import annotations

import argparse
import importlib.util
from fnmatch import fnmatch
from textwrap import fill

from refxla_spec.accepted_types import accepted
from refxla_spec.errors import InputError, plural
from refxla_spec.lexer import suggestion
from refxla_spec.operation import operations
from refxla_spec.types import BY_DTYPE, ELEMENT_TYPES
from rich.box import SIMPLE_HEAD
from rich.table import Table

from ..compiler.operation_support import REFERENCE_ONLY, compiled_as
from ..progress import show_progress
from .console import show, write

TYPES = tuple(t.name for t in ELEMENT_TYPES.values() if t.is_array)
_ELSEWHERE = (
    "StableHLO and TensorFlow are converted to HLO by jaxlib and by TensorFlow: what they convert is supported as the "
    "operations above are."
)


def ops(options: argparse.Namespace) -> int:
    """The command. Raises InputError for an unknown type, operation or front end."""
    if options.frontend != "hlo":
        if options.type is not None:
            raise InputError("--type is about operations of HLO; leave --frontend out")
        return _listed(options.frontend, options.names)
    if options.type is not None and options.type not in TYPES:
        raise InputError(f"there is no element type {options.type!r}{_suggested(options.type)}; there are: "
                         f"{', '.join(TYPES)}")  # fmt: skip
    opcodes = sorted(operations())
    for name in options.names:
        if not _matching([name], opcodes):
            raise InputError(f"{name!r} is not an operation of HLO{suggestion(name, opcodes)}")
    chosen = _matching(options.names, opcodes)
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for head in ("operation", "compiled as", "element types of operands"):
        table.add_column(head, overflow="fold")
    count = refused = 0
    with show_progress("looking through the tables"):
        for opcode in chosen:
            types, how = accepted(opcode), compiled_as(opcode)
            if options.type is None or options.type in types:
                count, refused = count + 1, refused + (how == REFERENCE_ONLY)
                table.add_row(opcode, how, in_short(types))
    show(table)
    of = plural(len(chosen if options.type else opcodes), "operation") + " named" * bool(options.names and options.type)
    kind = f" take{'s' * (count == 1)} {options.type}" if options.type else ""
    compiled = "all of them are compiled" if not refused else f"{count - refused} are compiled"
    run = f"; {compiled}, all run on the reference" if count else ""
    write(f"{count} of {of}{kind}{run}. {_ELSEWHERE}")
    if not options.names and options.type is None:
        write("refxla ops --frontend numpy|jax|torch lists what functions of these may use.")
    return 0


def _suggested(name: str) -> str:
    """The type that is probably meant by an unknown name, such as NumPy's float32."""
    of_numpy = next((t.name for dtype, t in BY_DTYPE.items() if dtype.name == name), None)
    return suggestion(name, TYPES) if of_numpy is None else f"; did you mean {of_numpy!r}?"


def in_short(types: tuple[str, ...]) -> str:
    """Element types, with families abbreviated: "all", "integers, f32"."""
    if not types:
        return "no arrays"
    rest, words = set(types), []
    families = {"all": TYPES} | {
        name: tuple(t for t in TYPES if ELEMENT_TYPES[t].kind in kinds)
        for name, kinds in (
            ("numbers", ("signed", "unsigned", "float", "complex")), ("integers", ("signed", "unsigned")),
            ("floats and complex", ("float", "complex")), ("floats", ("float",)), ("complex", ("complex",)),
            ("signed integers", ("signed",)), ("unsigned integers", ("unsigned",)),
        )
    }  # fmt: skip
    for name, members in families.items():
        if rest.issuperset(members):
            words.append(name)
            rest -= set(members)
    return ", ".join([*words, *(t for t in TYPES if t in rest)])


def _listed(frontend: str, patterns: list[str]) -> int:
    """The functions of a framework that have a form in HLO, by its own names."""
    groups = [(title, _matching(patterns, names)) for title, names in _frontend_names(frontend)]
    if not any(names for _, names in groups):
        raise InputError(f"{', '.join(patterns)}: {frontend} has nothing of that name with a compiled form")
    for title, names in groups:
        if names:
            write(f"{title} ({len(names)}):")
            write(fill(", ".join(names), 118, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False))
    return 0


def _frontend_names(frontend: str) -> list[tuple[str, list[str]]]:
    """For a front end: titles, each with names."""
    if frontend == "numpy":
        from ..frontends.numpy.tables import covered

        ufuncs, functions, methods = covered()
        return [("universal functions", ufuncs), ("other functions", functions), ("methods of arrays", methods)]
    package = {"jax": "jax", "torch": "torch"}[frontend]
    if importlib.util.find_spec(package) is None:
        raise InputError(f"{package} is not installed, whose operations are listed: pip install 'refxla[{frontend}]'")
    if frontend == "jax":
        from ..frontends.jax_lowerings import primitives

        return [("primitives", primitives())]
    from ..frontends.torch.graph import lowered_names

    return [("operations of ATen", lowered_names())]


def _matching(patterns: list[str], names: list[str]) -> list[str]:
    """The names that match one of the patterns; all names if there are no patterns."""
    return [n for n in names if not patterns or any(fnmatch(n, p) for p in patterns)]
