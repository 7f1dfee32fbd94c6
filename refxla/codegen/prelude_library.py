"""The prelude library: functions of the prelude that are compiled once for a device, not with each program.

To compile the functions by which a persistent kernel takes work costs more than the kernel of a small program. Where
machine code can be linked after it is compiled (runtime/pocl/kernel_library.py), they are a part of their own, which is
the same for all programs of a target: it is compiled for the first one, kept on disk, and loaded once in a process.
Elsewhere a program has their text. They are those that the prelude marks RX_UNOPTIMIZED, whose calls are not worth
optimizing; in the library they are optimized.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cache

from ..device.description import Target
from . import prelude
from .primitives import build_options, primitives, with_target_features
from .program_part import EXTERNAL, ProgramPart, stub


@dataclass(frozen=True)
class PreludeLibrary:
    """`part` exports the functions; `stubs` has, for each by its name in the prelude, its external name and the stub
    through which a program calls it."""

    part: ProgramPart
    stubs: dict[str, tuple[str, str]]


@cache
def library(target: Target) -> PreludeLibrary:
    """The library for a target, whose device links parts."""
    names = sorted(prelude.unoptimized_names())
    text = prelude.functions("\n".join(names)).replace("static inline RX_UNOPTIMIZED ", "RX_NOINLINE ")
    head = [*build_options(target), primitives(target), text]
    digest = hashlib.sha256("\n".join(head).encode()).hexdigest()[:16]
    external = {name: f"{EXTERNAL}{name}_{digest}" for name in names}
    signatures = {name: _signature(name) for name in names}
    text = re.sub(rf"\b(?:{'|'.join(names)})\b", lambda m: external[m[0]], text)
    # PoCL drops functions that no __kernel calls. No launch has a `which` with a case.
    kernel = f"refxla_prelude_{digest}"
    lines = [f"__kernel void {kernel}(const int which, const int base, __global void* p0) {{"]
    lines.append("    const int item = base + (int)get_global_id(0);")
    lines.append("    switch (which) {")
    for n, name in enumerate(names):
        arguments = ", ".join(map(_placeholder, signatures[name][1]))
        lines.append(f"    case {n}: {external[name]}({arguments}); break;")
    lines += ["    }", "}", ""]
    source = primitives(target) + with_target_features("\n".join([text, *lines]), target)
    stubs = {}
    for name, (result, types) in signatures.items():
        parameters = ", ".join(f"{each} a{n}" for n, each in enumerate(types))
        stubs[name] = external[name], stub(result, name, f"({parameters})", external[name])
    return PreludeLibrary(ProgramPart(source, (kernel,), exports=tuple(external.values()), shared=True), stubs)


def _signature(name: str) -> tuple[str, list[str]]:
    """The types of a function's result and of its parameters."""
    match = re.search(rf"(\w+) {name}\(([^)]*)\) {{", prelude.function(name).text)
    assert match is not None  # all functions of the prelude are written so
    parameters = (" ".join(each.split()) for each in match[2].split(","))
    return match[1], [each.removeprefix("const ").rpartition(" ")[0] for each in parameters]


def _placeholder(ctype: str) -> str:
    """An argument of this type, for a call that is compiled but never made."""
    return f"({ctype})(size_t)p0" if ctype.endswith("*") else f"({ctype})item"
