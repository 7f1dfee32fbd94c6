"""Function libraries: functions that are compiled once for a device, not with each program.

To compile the functions by which a persistent kernel takes work costs more than the kernel of a small program, and that
of the sines of an array takes as long as several such kernels. Where machine code can be linked after it is compiled
(runtime/pocl/kernel_library.py), they are parts of their own, which are the same for all programs of a target: each is
compiled for the first program that calls it, kept on disk, and loaded once in a process. Elsewhere a program has their
text.

Those of the prelude are in sections of its files that are marked as libraries: one that is not worth optimizing in a
program (RX_UNOPTIMIZED) is optimized here. The others are the library functions of kernels (Kernel.library_functions).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from ..device.description import Target
from . import prelude
from .primitives import build_options, primitives, with_target_features
from .program_part import EFFECTFUL, EXTERNAL, ProgramPart, stub


@dataclass(frozen=True)
class FunctionLibrary:
    """`part` exports the functions; `stubs` has, for each by its name in programs, its external name and the stub
    through which a program calls it."""

    part: ProgramPart
    stubs: dict[str, tuple[str, str]]


@cache
def of_prelude(target: Target, library: str) -> FunctionLibrary:
    """The library of that name in the prelude (prelude.libraries) for a target, whose device links parts."""
    names = sorted(name for name, own in prelude.libraries().items() if own == library)
    text = prelude.functions("\n".join(names))
    for name in names:
        own = prelude.function(name).text
        exported = re.sub("static inline (?:RX_UNOPTIMIZED )?", "RX_NOINLINE ", own, count=1)
        text = text.replace(own, exported.replace("{\n", EFFECTFUL, 1))
    return _library(target, text, {name: prelude.function(name).text for name in names})


@cache
def of_function(target: Target, function: str, attribute: str) -> FunctionLibrary:
    """The library of one library function of kernels, with this attribute, for such a target."""
    match = re.search(r"void (\w+)\(", function)
    assert match is not None  # all library functions are written so
    text = f"{prelude.functions(function, inlining=True)}\nRX_NOINLINE{attribute} {function}"
    return _library(target, text, {match[1]: function})


def _library(target: Target, text: str, functions: Mapping[str, str]) -> FunctionLibrary:
    """The library of `functions`, each with its text by its name; `text` has them with what they call."""
    head = [*build_options(target), primitives(target), text]
    digest = hashlib.sha256("\n".join(head).encode()).hexdigest()[:16]
    external = {name: f"{EXTERNAL}{name}_{digest}" for name in functions}
    signatures = {name: _signature(name, function) for name, function in functions.items()}
    text = re.sub(rf"\b(?:{'|'.join(functions)})\b", lambda m: external[m[0]], text)
    # PoCL drops functions that no __kernel calls. No launch has a `which` with a case.
    kernel = f"refxla_library_{digest}"
    lines = [f"__kernel void {kernel}(const int which, const int base, __global void* p0) {{"]
    lines.append("    const int item = base + (int)get_global_id(0);")
    lines.append("    switch (which) {")
    for n, name in enumerate(functions):
        arguments = ", ".join(map(_placeholder, signatures[name][1]))
        lines.append(f"    case {n}: {external[name]}({arguments}); break;")
    lines += ["    }", "}", ""]
    source = primitives(target) + with_target_features("\n".join([text, *lines]), target)
    stubs = {}
    for name, (result, types) in signatures.items():
        parameters = ", ".join(f"{each} a{n}" for n, each in enumerate(types))
        stubs[name] = external[name], stub(result, name, f"({parameters})", external[name])
    return FunctionLibrary(ProgramPart(source, (kernel,), exports=tuple(external.values()), shared=True), stubs)


def _signature(name: str, function: str) -> tuple[str, list[str]]:
    """The types of a function's result and of its parameters, without what a caller need not know."""
    match = re.search(rf"(\w+) {name}\(([^)]*)\) {{", function)
    assert match is not None  # all such functions are written so
    parameters = (" ".join(each.replace("restrict const ", "").split()) for each in match[2].split(","))
    return match[1], [each.removeprefix("const ").rpartition(" ")[0] for each in parameters]


def _placeholder(ctype: str) -> str:
    """An argument of this type, for a call that is compiled but never made."""
    return f"({ctype})(size_t)p0" if ctype.endswith("*") else f"({ctype})item"
