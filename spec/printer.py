"""From a Module to HLO text, in the style in which XLA prints it: `%name = f32[2]{0} add(%a, %b), metadata={...}`.

What is printed parses again to an equal module, here and in XLA; layouts are printed where a shape has one, and a name
that XLA does not read, or that is there twice, is printed as another (names.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from . import attributes as kinds
from . import grammar
from .errors import InvalidProgramError
from .lexer import escape
from .literals import format_value
from .module import (
    Computation,
    Instruction,
    Metadata,
    Module,
    PaddingDimension,
    SliceDimension,
    StackFrames,
    window_text,
)
from .names import KEYWORDS, Names, as_printed, legal
from .operation import operations
from .releases import NEWEST, attributes_for
from .types import Layout, Shape, Value

Naming = Callable[[Computation | Instruction], str]
_ORDER = {name: place for place, name in enumerate(grammar.ATTRIBUTE_KINDS)}


def print_module(module: Module, *, elide: int | None = None, release: str = NEWEST) -> str:
    """The text of a module. Constants of more than `elide` elements become `{...}`, which does not parse again.

    `release` is that of JAX whose XLA shall read it, one of `releases.RELEASES`. Raises UnsupportedError for what an
    older one has no way to say.
    """
    names = Names(module)
    parts = [_header(module)]
    if module.stack_frames:
        parts.append(_tables(module.stack_frames))
    for c in module.computations:
        parts.append(format_computation(c, entry=c is module.entry, elide=elide, release=release, names=names))
    return "\n\n".join(parts) + "\n"


def format_computation(
    computation: Computation,
    *,
    entry: bool = False,
    elide: int | None = None,
    release: str = NEWEST,
    names: Naming = as_printed,
) -> str:
    """The text of one computation, from its name to the closing brace; `names` are those of the module it is in."""
    parameters = ", ".join(f"{names(p)}: {_bare(p.shape)}" for p in computation.parameters)
    lines = [f"{'ENTRY ' * entry}%{names(computation)} ({parameters}) -> {_bare(computation.root.shape)} {{"]
    for i in computation.instructions:
        text = format_instruction(i, elide=elide, release=release, names=names)
        lines.append(f"  {'ROOT ' * (i is computation.root)}{text}")
    thread = f", execution_thread={escape(computation.execution_thread)}" if computation.execution_thread else ""
    config = computation.backend_config and release == NEWEST  # a note that older ones cannot hold
    notes = thread + (f", backend_config={computation.backend_config}" if config else "")
    return "\n".join(lines) + "\n}" + notes


def format_instruction(
    i: Instruction, *, elide: int | None = None, release: str = NEWEST, names: Naming = as_printed
) -> str:
    """The text of one instruction, without ROOT and without a line's end."""
    values = i.attributes if release == NEWEST else attributes_for(i, release)
    attributes = {n: () for n in grammar.ALWAYS_WRITTEN.get(i.opcode, ())} | values
    if i.opcode == "parameter":
        inside = str(attributes.pop("number"))
    elif i.opcode == "constant":
        inside = format_value(attributes.pop("literal"), elide)
    else:
        inside = ", ".join(f"%{names(o)}" for o in i.operands)
    parts = [f"%{names(i)} = {i.shape} {i.opcode}({inside})"]
    order = sorted((n for n, v in attributes.items() if v is not None), key=lambda n: _ORDER.get(n, 0))
    parts += [f"{name}={_value(i, name, attributes[name], names)}" for name in order]
    if i.sharding is not None:
        parts.append(f"sharding={i.sharding}")
    if i.frontend_attributes:
        parts.append(f"frontend_attributes={format_frontend_attributes(i.frontend_attributes)}")
    if i.control_predecessors:
        parts.append("control-predecessors={" + ", ".join(f"%{names(p)}" for p in i.control_predecessors) + "}")
    if i.metadata is not None:
        parts.append(f"metadata={format_metadata(i.metadata)}")
    if i.backend_config is not None:
        parts.append(f"backend_config={i.backend_config}")
    return ", ".join(parts)


def _slice(s: SliceDimension) -> str:
    return f"[{s.start}:{s.limit}" + (f":{s.stride}]" if s.stride != 1 else "]")


def _padding(dims: tuple[PaddingDimension, ...]) -> str:
    interior = any(d.interior for d in dims)
    return "x".join(f"{d.low}_{d.high}" + (f"_{d.interior}" if interior else "") for d in dims)


def _literal(value: Value) -> str:
    """A value after its shape; with a layout, for XLA takes braces after a shape without one for it."""
    if isinstance(value, tuple):
        return "( " + ", ".join(map(_literal, value)) + " )"
    shape = Shape.of(value)
    order = Layout(tuple(reversed(range(shape.rank)))) if shape.rank else None
    return f"{replace(shape, layout=order)} {format_value(value)}"


# How a value of each kind of `attributes.py` is written.
_FORMATS: dict[str | None, Callable[[Any], str]] = {
    kinds.INT: str,
    kinds.INTS: lambda v: "{" + ",".join(map(str, v)) + "}",
    kinds.BOOL: lambda v: "true" if v else "false",
    kinds.FLOAT: lambda v: repr(float(v)).removesuffix(".0"),
    kinds.ENUM: str,
    kinds.ENUMS: lambda v: "{" + ",".join(v) + "}",
    kinds.STRING: escape,
    kinds.VERBATIM: str,
    kinds.GROUPS: str,
    kinds.INT_LISTS: lambda v: "{" + ",".join("{" + ",".join(map(str, part)) + "}" for part in v) + "}",
    kinds.SHAPE: str,
    kinds.SHAPES: lambda v: "{" + ", ".join(map(str, v)) + "}",
    kinds.WINDOW: window_text,
    kinds.CONVOLUTION: str,
    kinds.SLICES: lambda v: "{" + ", ".join(map(_slice, v)) + "}",
    kinds.PADDING: _padding,
    kinds.LITERAL: _literal,
}


def _value(i: Instruction, name: str, value: Any, names: Naming) -> str:
    operation = operations().get(i.opcode)
    declared = operation.attributes.get(name) if operation else None
    kind = declared.kind if declared else grammar.ATTRIBUTE_KINDS.get(name)
    if kind == kinds.COMPUTATION:
        return f"%{names(value)}"
    if kind == kinds.COMPUTATIONS:
        return "{" + ", ".join(f"%{names(c)}" for c in value) + "}"
    if kind not in _FORMATS:
        raise InvalidProgramError(f"{i.name}: {i.opcode} has no attribute {name}, so HLO text cannot say it")
    return _FORMATS[kind](value)


def format_frontend_attributes(pairs: tuple[tuple[str, str], ...]) -> str:
    """`{name="value",...}`."""
    return "{" + ",".join(f"{name}={escape(value)}" for name, value in pairs) + "}"


def format_metadata(m: Metadata) -> str:
    """`{op_name="..." source_line=3}`."""
    parts = [f"{n}={escape(getattr(m, n))}" for n in ("op_type", "op_name", "source_file") if getattr(m, n)]
    if m.source_line:
        parts.append(f"source_line={m.source_line}")
    return "{" + " ".join([*parts, *(f"{name}={text}" for name, text in m.other)]) + "}"


def _bare(shape: Shape) -> str:
    return str(shape.without_layout())


def _header(module: Module) -> str:
    name = legal(module.name)
    parts = [f"HloModule {'%' * (name in KEYWORDS)}{name}"]
    attributes = dict(module.attributes)
    if "is_scheduled" in attributes:
        parts.append(f"is_scheduled={attributes.pop('is_scheduled')}")
    if module.aliases:
        index = _FORMATS[kinds.INTS]
        entries = ", ".join(
            f"{index(a.output_index)}: ({a.parameter}, {index(a.parameter_index)}, {a.kind})" for a in module.aliases
        )
        parts.append(f"input_output_alias={{ {entries} }}")
    if module.entry_layout is not None:
        parameters, result = module.entry_layout
        parts.append(f"entry_computation_layout={{({', '.join(map(str, parameters))})->{result}}}")
    return ", ".join([*parts, *(f"{name}={text}" for name, text in attributes.items())])


def _tables(frames: StackFrames) -> str:
    def rows(fields: tuple[str, ...], entries: tuple[tuple[int, ...], ...]) -> list[str]:
        return ["{" + " ".join(f"{f}={v}" for f, v in zip(fields, e, strict=True)) + "}" for e in entries]

    tables = {
        "FileNames": [escape(f) for f in frames.files],
        "FunctionNames": [escape(f) for f in frames.functions],
        "FileLocations": rows(frames.LOCATION, frames.locations),
        "StackFrames": rows(frames.FRAME, tuple((location, parent + 1) for location, parent in frames.frames)),
    }
    return "\n\n".join("\n".join([title, *(f"{n} {r}" for n, r in enumerate(t, 1))]) for title, t in tables.items())
