"""Kernels into one OpenCL C program.

Each kernel's body becomes a function; equal bodies with equal argument types are one function. The functions with the
same number of arguments stand behind a `switch` in one `__kernel`: a device compiles one kernel with fifty cases much
faster than fifty kernels. On a CPU the functions are not inlined there, which halves the time to compile them; a call
for each item costs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..plan import Argument, Kernel
from . import prelude
from .target import Target


@dataclass(frozen=True)
class Program:
    """OpenCL C and, for each kernel given, its (name of the __kernel, value of its argument `which`).

    A __kernel takes `which` and `base` (both int), then the pointers; item = base + get_global_id(0).
    """

    source: str
    entries: tuple[tuple[str, int], ...]


def program(kernels: Sequence[Kernel], target: Target) -> Program:
    """The program of all kernels for a target."""
    functions: dict[str, tuple[str, int, list[str]]] = {}  # text without its name -> name, which, pointer types
    cases: dict[int, int] = {}  # number of arguments -> number of functions
    entries = []
    for kernel in kernels:
        types = [_pointer(a) for a in kernel.arguments]
        parameters = ", ".join(f"{t} restrict a{n}" for n, t in enumerate(types))
        text = f"(const int item, {parameters}) {{\n{kernel.body}}}\n"
        if text not in functions:
            count = len(types)
            which = cases.get(count, 0)
            cases[count] = which + 1
            functions[text] = (f"k{count}_{which}", which, types)
        entries.append((f"refxla_{len(types)}", functions[text][1]))
    qualifier = "__attribute__((noinline)) static" if target.kind == "cpu" and target.clang else "static inline"
    bodies = [f"{qualifier} void {name}{text}" for text, (name, _, _) in functions.items()]
    dispatchers = [_dispatcher(count, list(functions.values())) for count in cases]
    source = "\n".join([*bodies, *dispatchers])
    return Program(target.primitives() + prelude.functions(source, target) + "\n" + source, tuple(entries))


def _pointer(argument: Argument) -> str:
    return f"__global {'const ' if argument.role == 'input' else ''}{argument.ctype}*"


def _dispatcher(count: int, functions: list[tuple[str, int, list[str]]]) -> str:
    pointers = "".join(f", __global void* p{n}" for n in range(count))
    lines = [f"__kernel void refxla_{count}(const int which, const int base{pointers}) {{"]
    lines.append("    const int item = base + (int)get_global_id(0);")
    lines.append("    switch (which) {")
    for name, which, types in functions:
        if len(types) == count:
            args = "".join(f", ({t})p{n}" for n, t in enumerate(types))
            lines.append(f"    case {which}: {name}(item{args}); break;")
    lines += ["    }", "}", ""]
    return "\n".join(lines)
