"""Kernels into one OpenCL C program.

Each kernel's body becomes a function; equal bodies with equal argument types are one function. The functions with the
same number of arguments stand behind a `switch` in one `__kernel`: a device compiles one kernel with fifty cases much
faster than fifty kernels. On a CPU the functions are not inlined there, which halves the time to compile them; a call
for each item costs nothing. The functions that a merged kernel calls are not inlined either, so that what one writes is
read by the next although each takes its own pointers to be `restrict`.
"""

from __future__ import annotations

import re
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
    functions = _Functions()
    launched: dict[str, int] = {}  # name -> which, of those that are launched and not only called by others
    cases: dict[int, list[tuple[str, int, list[str]]]] = {}  # number of arguments -> functions
    entries = []
    for kernel in kernels:
        name = functions.of(kernel)
        types = [_pointer(a) for a in kernel.arguments]
        mine = cases.setdefault(len(types), [])
        if name not in launched:
            launched[name] = len(mine)
            mine.append((name, launched[name], types))
        entries.append((f"refxla_{len(types)}", launched[name]))
    qualifier = "__attribute__((noinline)) static" if target.kind == "cpu" and target.clang else "static inline"
    bodies = [f"{qualifier} void {name}{text}" for text, name in functions.names.items()]
    dispatchers = [_dispatcher(count, mine) for count, mine in cases.items()]
    source = "\n".join([*bodies, *dispatchers])
    return Program(target.primitives() + prelude.functions(source, target) + "\n" + source, tuple(entries))


class _Functions:
    """The functions of a program: `names` has the name of each by its text, those that it calls before it."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self.counts: dict[int, int] = {}

    def of(self, kernel: Kernel) -> str:
        """The name of a kernel's function, which is entered if there is no equal one."""
        called = [self.of(k) for k in kernel.calls]
        restrict = "" if called else " restrict"  # two arguments of a merged kernel may be one value
        parameters = ", ".join(f"{_pointer(a)}{restrict} a{n}" for n, a in enumerate(kernel.arguments))
        body = re.sub(r"\bcall_(\d+)\(", lambda m: f"{called[int(m[1])]}(", kernel.body) if called else kernel.body
        text = f"(const int item, {parameters}) {{\n{body}}}\n"
        if text not in self.names:
            count = len(kernel.arguments)
            self.counts[count] = self.counts.get(count, 0) + 1
            self.names[text] = f"k{count}_{self.counts[count] - 1}"
        return self.names[text]


def _pointer(argument: Argument) -> str:
    return f"__global {'const ' if argument.role == 'input' else ''}{argument.ctype}*"


def _dispatcher(count: int, functions: list[tuple[str, int, list[str]]]) -> str:
    pointers = "".join(f", __global void* p{n}" for n in range(count))
    lines = [f"__kernel void refxla_{count}(const int which, const int base{pointers}) {{"]
    lines.append("    const int item = base + (int)get_global_id(0);")
    lines.append("    switch (which) {")
    for name, which, types in functions:
        args = "".join(f", ({t})p{n}" for n, t in enumerate(types))
        lines.append(f"    case {which}: {name}(item{args}); break;")
    lines += ["    }", "}", ""]
    return "\n".join(lines)
