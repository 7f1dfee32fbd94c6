"""The page of one operation: everything that its file in `spec/ops/` says, and what its code says when it is asked."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from functools import cache
from math import prod

from refxla_spec.attributes import REQUIRED
from refxla_spec.devices import device_counts
from refxla_spec.errors import Error
from refxla_spec.operation import Example, Operation, operations
from refxla_spec.text import parse
from refxla_spec.types import ELEMENT_TYPES
from refxla_spec.verify import verify

from . import compiled, element_types, promises
from .groups import GROUPS, group_of
from .markup import code, details, escaped, fence, html, inline, link, prose, table


def anchor(opcode: str, label: str) -> str:
    """The anchor of a constraint: what the verifier's errors call it, with `-`."""
    return f"{opcode}-{label.lower()}"


def page(operation: Operation) -> str:
    """The page, in Markdown."""
    o, parts = operation, []
    names = (*o.inputs, *o.attributes)
    signature = f"{o.opcode}({', '.join(('…' if n.startswith('*') else '') + n.lstrip('*') for n in o.inputs)})"
    parts += [
        f"# {o.opcode}\n",
        inline(o.summary, names, operations()) + "\n",
        html(f'<p class="sig-hlo">{signature}</p>'),
    ]
    if o.semantics:
        parts += ["## Semantics\n", prose(o.semantics, names, operations())]
    parts += ["## Inputs\n", _inputs(o)]
    if o.attributes:
        parts += ["## Attributes\n", _attributes(o)]
    parts += ["## Constraints\n", *(_constraint(o, label) for label in o.constraints)]
    types = element_types.accepted(o.opcode)
    if types:
        parts += ["## Element types\n", _types(types)]
    parts += ["## Examples\n", *map(_example, o.examples)]
    parts += ["## Accuracy\n", promises.section(o, types)]
    parts += ["## Definition\n", _definition(o)]
    parts += ["## In the compiler\n", compiled.how(o.opcode) + "\n"]
    parts += ["## Related\n", _related(o)]
    return "\n".join(parts)


def _inputs(o: Operation) -> str:
    if not o.inputs:
        return "None.\n"
    rows = []
    for n, (name, meaning) in enumerate(o.inputs.items()):
        many = " (any number)" if name.startswith("*") else ""
        rows.append((f"I{n + 1}", code(name.lstrip("*")) + many, inline(meaning, o.attributes, operations())))
    return table(("", "name", "what it may be"), rows)


def _attributes(o: Operation) -> str:
    rows = []
    for name, a in o.attributes.items():
        default = "required" if a.default is REQUIRED else code(_written(a.default))
        rows.append((code(name), a.kind, default, inline(a.meaning, o.inputs, operations())))
    return table(("name", "kind", "default", "meaning"), rows)


def _written(default: object) -> str:
    """A default as HLO text has it."""
    if default is None or default == "":
        return "none"
    if isinstance(default, bool):
        return str(default).lower()
    return "{" + ",".join(map(str, default)) + "}" if isinstance(default, tuple) else str(default)


def _constraint(o: Operation, label: str) -> str:
    rule = inline(o.constraints[label], (*o.inputs, *o.attributes), operations())
    text = inspect.cleandoc(o.counterexamples[label])
    shown = fence(_dedented(text), "hlo") + "\nThe verifier says:\n\n" + fence(refusal(text), "text")
    return f"({anchor(o.opcode, label)})=\n**{label}** {rule}\n\n" + details(f"a program that breaks {label}", shown)


def refusal(text: str) -> str:
    """What the verifier says about a program that breaks a rule. ValueError if it says nothing."""
    try:
        verify(parse(text))
    except Error as problem:
        return str(problem)
    raise ValueError(f"this is a valid program, and it should not be:\n{text}")


def _dedented(text: str) -> str:
    """An example's text as it is read best: what is indented to match Python's source is moved left."""
    first, _, rest = text.partition("\n")
    return (first + "\n" + textwrap.dedent(rest)).rstrip()


def _types(types: tuple[str, ...]) -> str:
    marks = " ".join(
        f'<span class="{"takes" if t.name in types else "refuses"}">{t.name}</span>'
        for t in ELEMENT_TYPES.values()
        if t.is_array
    )
    return (
        html(f'<p class="element-types">{marks}</p>')
        + "\nThose with which one of the examples stays valid; see [](../types.md).\n"
    )


def _example(e: Example) -> str:
    text = _dedented(e.hlo)
    note = escaped(e.note[0].upper() + e.note[1:]) + ".\n\n" if e.note else ""
    rows = [*_values("input", e.inputs, e), *_values("infeed", e.infeed), *_values("**result**", e.expected, e)]
    rows += _values("**outfeed**", e.outfed)
    shown = table((), rows, css="values") if rows else ""
    return f"{note}{fence(text, 'hlo')}\n{shown}\n" + details("run it", fence(snippet(e), "python"))


def _values(what: str, literals: tuple[str, ...], e: Example | None = None) -> list[tuple[str, str]]:
    """Rows of a table: each literal with its number, and its device where there are several."""
    devices = _devices(e) if e is not None else 1
    each, rows = max(len(literals) // devices, 1), []
    for n, literal in enumerate(literals):
        number = f" {n % each}" if each > 1 or what == "input" else ""
        rows.append(((f"device {n // each}: " if devices > 1 else "") + what + number, code(literal)))
    return rows


def _devices(e: Example) -> int:
    return prod(device_counts(parse(e.hlo)))


def snippet(e: Example) -> str:
    """Python that runs an example on the reference, and can be copied whole."""
    several = _devices(e) > 1 or e.infeed or e.outfed
    devices = "from refxla_spec.devices import Host, run_devices\n" if several else ""
    interpreter = "" if several else "from refxla_spec.interpreter import run\n"
    head = f"{devices}{interpreter}from refxla_spec.text import format_literal, parse, parse_literal\n\n"
    head += f'module = parse("""\n{_dedented(e.hlo)}\n""")\n'
    if not several:
        return (
            f"{head}arguments = {_parsed(e.inputs)}\n"
            "print(format_literal(run(module, arguments)))\n"
            "# compiled: import refxla; refxla.compile(module)(*arguments)\n"
        )
    count = _devices(e)
    each = len(e.inputs) // count
    per_device = ",\n".join(_parsed(e.inputs[n * each : (n + 1) * each]) for n in range(count))
    return (
        f"{head}host = Host(infeed={_parsed(e.infeed)})\n"
        f"arguments = [\n{textwrap.indent(per_device, '    ')},\n]  # of each device\n"
        f"for result in run_devices(module, arguments, hosts=[host] * {count}):\n"
        "    print(format_literal(result))\n"
    )


def _parsed(literals: tuple[str, ...]) -> str:
    """A list that Python makes of literals."""
    return "[\n" + "".join(f"    parse_literal({text!r}),\n" for text in literals) + "]" if literals else "[]"


def _definition(o: Operation) -> str:
    family = o.infer.__module__ != o.evaluate.__module__
    parts = [f"The shape of the result, and the constraints (`{compiled.path_of(o.infer)}`):\n"]
    parts += [fence(_source(o.infer), "python")]
    parts += [f"The value (`{compiled.path_of(o.evaluate)}`):\n" if family else "The value:\n"]
    parts += [fence(_source(o.evaluate), "python")]
    file = inspect.getmodule(o.evaluate)
    parts += [details(f"the whole file, {compiled.path_of(o.evaluate)}", fence(inspect.getsource(file), "python"))]
    return "\n".join(parts)


def _source(function: object) -> str:
    """The source of a function with the functions of its own file that it calls, in the order of the file."""
    module = inspect.getmodule(function)
    tree = ast.parse(inspect.getsource(module))
    local = {n.name: n for n in tree.body if isinstance(n, ast.FunctionDef)}
    if function.__name__ not in local:  # made by a family's function
        return textwrap.dedent(inspect.getsource(function))
    names, stack = set(), [function.__name__]
    while stack:
        name = stack.pop()
        if name in local and name not in names and (name in (function.__name__,) or name not in ("infer", "evaluate")):
            names.add(name)
            stack += [n.id for n in ast.walk(local[name]) if isinstance(n, ast.Name)]
    lines = inspect.getsource(module).splitlines()
    pieces = []
    for name, node in local.items():
        if name in names:
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            pieces.append("\n".join(lines[first - 1 : node.end_lineno]))
    return "\n\n\n".join(pieces)


@cache
def _mentions() -> dict[str, set[str]]:
    """Which operations each one's docstring names."""
    every = operations()
    by_opcode = {}
    for o in every.values():
        opcodes = set(re.findall(r"`([a-z0-9-]+)`", o.summary + o.semantics)) & set(every)
        words = set(re.findall(r"\b[a-z0-9]+(?:-[a-z0-9]+)+\b", o.summary + o.semantics)) & set(every)
        by_opcode[o.opcode] = (opcodes | words) - {o.opcode}
    return by_opcode


def _related(o: Operation) -> str:
    mentions = _mentions()
    near = mentions[o.opcode] | {other for other, opcodes in mentions.items() if o.opcode in opcodes}
    group = [other for other in GROUPS[group_of(o.opcode)].split() if other in operations() and other != o.opcode]
    lines = [f"Named together with it: {', '.join(link(n) for n in sorted(near))}.\n"] if near else []
    if group:
        lines.append(f"{group_of(o.opcode)}: {', '.join(link(n) for n in group)}.\n")
    return "\n".join([*lines, "[All operations](../operations.md)\n"])
