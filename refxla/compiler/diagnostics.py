"""Errors about programs that the compiler cannot run: values that no kernel takes, and operations without an
emitter."""

from __future__ import annotations

from math import prod

from refxla_spec.errors import Error, UnsupportedError, in_file
from refxla_spec.lexer import excerpt
from refxla_spec.module import Module
from refxla_spec.types import leaves

from ..codegen import emitter_registry as emitters
from ..device.description import Target
from ..ir.plan import Fusion, Kernel

LARGEST = 1 << 62  # bytes; the core counts them in 63 bits


def check_values(module: Module) -> None:
    """UnsupportedError for a module after the passes with values that are not arrays (tokens, opaque ones), or with
    arrays too large to count."""
    for i in module.instructions():
        for shape in leaves(i.shape):
            if not shape.is_array:
                raise UnsupportedError(
                    f"{i.name}: a value of type {shape.element_type} is no array, and kernels compute arrays; leave it "
                    "out, or run the program on the reference with device='reference'"
                )
            if prod(max(1, d) for d in shape.dimensions) * shape.element_type.bytes >= LARGEST:
                raise UnsupportedError(f"{i.name}: {shape.without_layout()} is larger than any memory")


def emit(fusion: Fusion, target: Target) -> tuple[Kernel, ...]:
    """The kernels of a fusion. Raises UnsupportedError with a message that begins with the name of an instruction."""
    try:
        return emitters.emit(fusion, target)
    except UnsupportedError as problem:
        if any(str(problem).startswith(f"{i.name}: ") for i in fusion.instructions):
            raise
        i = fusion.hero or fusion.outputs[0]
        raise type(problem)(f"{i.name}: {i.opcode}: {problem}") from None


def with_source_location(problem: UnsupportedError, module: Module) -> Error:
    """The error with the file from which the module was read, and the line of the instruction with which its message
    begins, if exactly one instruction of that name was parsed from a text."""
    name = str(problem).split(": ")[0]
    places = [i.position for i in module.instructions() if i.name == name and i.position is not None]
    if len(places) == 1 and module.source is not None:
        place = places[0]
        problem = type(problem)(f"line {place.line}, column {place.column}: {problem}\n{excerpt(module.source, place)}")
    return in_file(problem, module.file)
