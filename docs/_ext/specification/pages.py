"""Every page that is made from the specification: which there are, and the ones that are not about one operation."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

from refxla_spec import (
    accuracy,
    attributes,
    bounds,
    grammar,
    interpreter,
    left_out,
    lexer,
    literals,
    parser,
    printer,
    verify,
)
from refxla_spec.operation import operations
from refxla_spec.types import ELEMENT_TYPES

from . import element_types, operation_page, promises
from .groups import GROUPS
from .markup import code, escaped, fence, inline, link, prose, table

OPS = "ops/"


def pages() -> Iterator[tuple[str, str]]:
    """The name of each page, without .md, and its Markdown."""
    for o in operations().values():
        yield OPS + o.opcode, operation_page.page(o)
    yield "operations", _operations()
    yield "types", _types()
    yield "grammar", _grammar()
    yield "verifier", _verifier()
    yield "accuracy", _accuracy()
    yield "interpreter", _interpreter()
    yield "left_out", _left_out()


def _operations() -> str:
    every, absent = operations(), {n.name: n.reason for n in left_out.LEFT_OUT}
    parts = [
        "# Operations\n",
        f"HLO has {len(grammar.OPCODES)} opcodes. Each page has the meaning, the constraints with a program that "
        "breaks each of them, examples that run, and the Python that defines it.\n",
    ]
    for title, opcodes in GROUPS.items():
        rows = []
        for opcode in opcodes.split():
            if opcode in every:
                rows.append((link(opcode, OPS), inline(every[opcode].summary, (), every, OPS)))
            else:
                rows.append((code(opcode), escaped(absent.get(opcode, "not in the specification yet"))))
        parts += [f"## {title}\n", table(("opcode", "what it gives"), rows, css="opcodes")]
    return "\n".join([*parts, "```{toctree}\n:hidden:\n:glob:\n\nops/*\n```\n"])


def _types() -> str:
    arrays = [t for t in ELEMENT_TYPES.values() if t.is_array]
    others = [t for t in ELEMENT_TYPES.values() if not t.is_array]
    floats = [t for t in arrays if t.is_float]
    return "\n".join(
        [
            "# Element types\n",
            prose(_about(ELEMENT_TYPES, "types")),
            table(element_types.COLUMNS, map(element_types.row, [*arrays, *others])),
            "## Floating-point formats\n",
            table(element_types.FLOAT_COLUMNS, map(element_types.float_row, floats)),
        ]
    )


def _about(_: object, name: str) -> str:
    """The docstring of a module of the specification."""
    import importlib

    return inspect.getdoc(importlib.import_module(f"refxla_spec.{name}")) or ""


def _grammar() -> str:
    parts = ["# The text form\n"]
    for title, module in (
        ("The grammar", parser),
        ("The lexical level", lexer),
        ("Values", literals),
        ("The printed form", printer),
        ("Names", grammar),
    ):
        parts += [f"## {title}\n", prose(inspect.getdoc(module) or "", blocks="text")]
    forms = re.findall(r'^[A-Z_]+ = "(\w+)"  # (.*?)\s{2,}(.+)$', inspect.getsource(attributes), re.M)
    parts += [
        "## Kinds of attributes\n",
        table(("kind", "Python value", "in text"), ((k, code(p), code(t)) for k, p, t in forms)),
    ]
    takers: dict[str, list[str]] = {}
    for o in operations().values():
        for name in o.attributes:
            takers.setdefault(name, []).append(o.opcode)
    rows = []
    for name, kind in grammar.ATTRIBUTE_KINDS.items():
        by = takers.get(name, [])
        shown = ", ".join(link(n, OPS) for n in by[:6]) + (f" and {len(by) - 6} more" if len(by) > 6 else "")
        rows.append((code(name), kind, shown or "any, as a note that has no meaning"))
    parts += ["## Attributes\n", table(("name", "kind", "of"), rows)]
    parts += [
        "## Every instruction's own\n",
        "Each instruction may have " + ", ".join(map(code, grammar.COMMON)) + ".\n",
    ]
    return "\n".join(parts)


def _verifier() -> str:
    text = inspect.getdoc(verify) or ""
    rules = re.findall(r"^    (S\d+)  (.+)$", text, re.M)
    before, _, after = re.sub(r"^    S\d+ .*\n", "", text, flags=re.M).partition("\n\n")
    parts = ["# The verifier\n", prose(before), "## Structure\n"]
    parts += [f"({label.lower()})=\n**{label}** {inline(rule)}\n" for label, rule in rules]
    behind = after.split("\n\n")
    parts += ["## Operations\n", prose("\n\n".join(p for p in behind if not p.startswith("Structure")))]
    return "\n".join(parts)


def _accuracy() -> str:
    types = ("f16", "bf16", "f32", "f64", "c64", "c128")
    rows = []
    for opcode in sorted({o for o, _ in accuracy.ULP}):
        if opcode in operations():
            rows.append((link(opcode, OPS), *(promises.promised(opcode, t, "") for t in types)))
    return "\n".join(
        [
            "# Accuracy\n",
            prose(inspect.getdoc(accuracy) or ""),
            "## Largest errors of elementwise operations, in ULP\n",
            "An elementwise operation that is not in this table is exact for every type that it takes; — is a "
            "type that it does not take. The pages of the other operations, such as reduce and dot, say how far "
            "they are off.\n",
            table(("", *map(code, types)), rows),
            "## The bound of a whole program\n",
            prose(inspect.getdoc(bounds) or "", blocks="list"),
        ]
    )


def _interpreter() -> str:
    parts = ["# The interpreter\n", prose(inspect.getdoc(interpreter) or "", blocks="list")]
    parts += ["An example:\n", fence(operation_page.snippet(operations()["add"].examples[0]), "python")]
    parts += [
        "```{eval-rst}\n.. autofunction:: refxla_spec.interpreter.run\n"
        ".. autofunction:: refxla_spec.interpreter.steps\n```\n"
    ]
    parts += ["## How it runs\n", fence(inspect.getsource(interpreter.Interpreter), "python")]
    return "\n".join(parts)


def _left_out() -> str:
    rows = []
    for n in left_out.LEFT_OUT:
        name = code(n.name) if n.kind in ("opcode", "element type") else inline(n.name)
        rows.append((name, n.kind, inline(n.reason)))
    return "\n".join(["# Left out\n", prose(inspect.getdoc(left_out) or ""), table(("what", "in", "why"), rows)])
