"""Kernels into one OpenCL C program.

Each kernel's body becomes a function; equal bodies with equal argument types are one function. The functions with the
same number of arguments stand behind a `switch` in one `__kernel`: a device compiles one kernel with fifty cases much
faster than fifty kernels. On a CPU the functions are not inlined there, which halves the time to compile them; a call
for each item costs nothing. The functions that a merged kernel calls are not inlined either, so that what one writes is
read by the next although each takes its own pointers to be `restrict`.

What takes long to compile may be cut into parts, each a program of its own, so that two processors can do it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..plan import Argument, Kernel
from . import prelude
from .target import Target


@dataclass(frozen=True)
class Part:
    """A program to compile: OpenCL C and the names of its __kernels, which no other part has."""

    source: str
    functions: tuple[str, ...]


@dataclass(frozen=True)
class Program:
    """OpenCL C in parts and, for each kernel given, its (name of the __kernel, value of its argument `which`).

    A __kernel takes `which` and `base` (both int), then the pointers; item = base + get_global_id(0).
    """

    parts: tuple[Part, ...]
    entries: tuple[tuple[str, int], ...]

    @property
    def source(self) -> str:
        """The source of all parts, to be read; only a single part can be compiled so."""
        return "\n".join(part.source for part in self.parts)


class _Dispatcher:
    """A __kernel and the functions behind it, which take `count` pointers each: (name, pointer types, whether it is
    a team's, which takes the number of items and the phase, too)."""

    def __init__(self, name: str, count: int) -> None:
        self.name, self.count, self.size = name, count, 0
        self.functions: list[tuple[str, list[str], bool]] = []

    def text(self) -> str:
        pointers = "".join(f", __global void* p{n}" for n in range(self.count))
        lines = [f"__kernel void {self.name}(const int which, const int base{pointers}) {{"]
        lines.append("    const int item = base + (int)get_global_id(0);")
        lines.append("    switch (which) {")
        for which, (name, types, team) in enumerate(self.functions):
            args = "".join(f", ({t})p{n}" for n, t in enumerate(types))
            if not team:
                lines.append(f"    case {which}: {name}(item{args}); break;")
                continue
            lines += [
                f"    case {which}: {{",
                "        const int team = (int)get_global_size(0);",
                "        int phase = 0;",
                f"        {name}(item, team, &phase{args});",
                "        rx_leave_s32((__global long*)p0, team);",
                "        break;",
                "    }",
            ]
        lines += ["    }", "}", ""]
        return "\n".join(lines)


def program(kernels: Sequence[Kernel], target: Target, part: int | None = None) -> Program:
    """The program of all kernels for a target: one part, or parts of at least about `part` characters."""
    functions = _Functions(target)
    launched: dict[str, tuple[str, int]] = {}  # entries of those that are launched and not only called by others
    dispatchers: dict[int, list[_Dispatcher]] = {}  # number of arguments -> dispatchers, of which the last one grows
    entries = []
    for kernel in kernels:
        name = functions.of(kernel)
        types = [_pointer(a) for a in kernel.arguments]
        if name not in launched:
            same = dispatchers.setdefault(len(types), [])
            if not same or (part is not None and same[-1].size >= part):
                same.append(_Dispatcher(f"refxla_{len(types)}" + (f"_{len(same)}" if same else ""), len(types)))
            launched[name] = (same[-1].name, len(same[-1].functions))
            same[-1].functions.append((name, types, kernel.team))
            same[-1].size += sum(len(text) for _, text in functions.with_called([name]))
        entries.append(launched[name])
    every = [d for same in dispatchers.values() for d in same]
    parts = [every] if part is None else _packed(every, part)
    return Program(tuple(_part(p, functions, target) for p in parts), tuple(entries))


def _packed(dispatchers: Iterable[_Dispatcher], least: int) -> list[list[_Dispatcher]]:
    """Dispatchers in parts: the largest alone, small ones together until they have the least size."""
    parts: list[list[_Dispatcher]] = []
    room = 0
    for dispatcher in sorted(dispatchers, key=lambda d: -d.size):
        if room <= 0:
            parts.append([])
            room = least
        parts[-1].append(dispatcher)
        room -= dispatcher.size
    if len(parts) > 1 and room > least // 2:
        last = parts.pop()
        parts[-1].extend(last)
    return parts or [[]]


def _part(dispatchers: Sequence[_Dispatcher], functions: _Functions, target: Target) -> Part:
    qualifier = "__attribute__((noinline)) static" if target.kind == "cpu" and target.clang else "static inline"
    needed = functions.with_called(name for d in dispatchers for name, _, _ in d.functions)
    bodies = [f"{qualifier}{functions.attributes[name]} void {name}{text}" for name, text in needed]
    source = "\n".join([*bodies, *(d.text() for d in dispatchers)])
    text = target.primitives() + prelude.functions(source, target) + "\n" + source
    return Part(text, tuple(d.name for d in dispatchers))


class _Functions:
    """The functions of all parts: `names` has the name of each by its attribute and its text."""

    def __init__(self, target: Target) -> None:
        wide = target.features and target.kind == "cpu" and target.clang
        self.wide = f' __attribute__((target("{target.features}")))' if wide else ""
        self.names: dict[tuple[str, str], str] = {}
        self.attributes: dict[str, str] = {}
        self.texts: dict[str, str] = {}
        self.called: dict[str, list[str]] = {}
        self.counts: dict[int, int] = {}

    def of(self, kernel: Kernel) -> str:
        """The name of a kernel's function, which is entered if there is no equal one."""
        called = [self.of(k) for k in kernel.calls]
        restrict = "" if called else " restrict"  # two arguments of a merged kernel may be one value
        parameters = ", ".join(f"{_pointer(a)}{restrict} a{n}" for n, a in enumerate(kernel.arguments))
        body = re.sub(r"\bcall_(\d+)\(", lambda m: f"{called[int(m[1])]}(", kernel.body) if called else kernel.body
        size = "const int team, __private int* phase, " if kernel.team else ""
        text = f"(const int item, {size}{parameters}) {{\n{body}}}\n"
        key = (self.wide if kernel.registers else "", text)
        if key not in self.names:
            count = len(kernel.arguments)
            self.counts[count] = self.counts.get(count, 0) + 1
            name = self.names[key] = f"k{count}_{self.counts[count] - 1}"
            self.texts[name], self.called[name], self.attributes[name] = text, called, key[0]
        return self.names[key]

    def with_called(self, names: Iterable[str]) -> list[tuple[str, str]]:
        """(name, text) of these functions and of those that they call, which come before them."""
        found: dict[str, str] = {}

        def visit(name: str) -> None:
            if name not in found:
                for other in self.called[name]:
                    visit(other)
                found[name] = self.texts[name]

        for name in names:
            visit(name)
        return list(found.items())


def _pointer(argument: Argument) -> str:
    return f"__global {'const ' if argument.role == 'input' else ''}{argument.ctype}*"
