"""The `__kernel` functions of a program, which call the functions of kernels.

On a CPU, functions with similar numbers of arguments are cases of a `switch` in one `__kernel`: a device compiles one
kernel with fifty cases much faster than fifty kernels. On a GPU each function has a __kernel of its own, with its own
registers and local memory.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.plan import Argument


class Dispatcher:
    """A __kernel, whose name is whole when its part is, and the functions behind it: (name, pointer types, the
    items of a persistent kernel, which also takes the number of workers and its place in the phases; else 0)."""

    def __init__(self, name: str, offsets: bool) -> None:
        self.name, self.items, self.offsets = name, 1, offsets
        self.functions: list[tuple[str, list[str], int]] = []
        self.sizes: dict[str, int] = {}  # of the functions and of those that they call

    @property
    def size(self) -> int:
        """Characters of the functions, and of those that they call."""
        return sum(self.sizes.values())

    @property
    def count(self) -> int:
        """The number of its pointers."""
        return max(len(types) for _, types, _ in self.functions)

    def parameters(self) -> str:
        """Its parameters, as C."""
        pointers = "".join(f", __global void* p{n}" for n in range(self.count))
        offsets = "".join(f", const long o{n}" for n in range(self.count)) if self.offsets else ""
        return f"const int which, const int base{pointers}{offsets}"

    def arguments(self, types: Sequence[str]) -> str:
        """Its first pointers as a function's arguments, as C."""
        if not self.offsets:
            return "".join(f", ({t})p{n}" for n, t in enumerate(types))
        return "".join(f", ({t})((__global uchar*)p{n} + o{n})" for n, t in enumerate(types))

    def text(self) -> str:
        lines = [f"__kernel void {self.name}({self.parameters()}) {{"]
        lines.append("    const int item = base + (int)get_global_id(0);")
        lines.append("    switch (which) {")
        for which, (name, types, workers) in enumerate(self.functions):
            args = self.arguments(types)
            if not workers:
                lines.append(f"    case {which}: {name}(item{args}); break;")
                continue
            lines += [
                f"    case {which}: {{",
                "        int phase[3] = {0, 0, 0};",
                f"        {name}(item, {workers}, phase{args});",
                f"        rx_leave_s32({self.arguments(['__global long*'])[2:]}, {workers});",
                "        break;",
                "    }",
            ]
        lines += ["    }", "}", ""]
        return "\n".join(lines)


class WorkGroupDispatcher(Dispatcher):
    """A __kernel of one function, with work-groups of `size` items."""

    def __init__(self, name: str, offsets: bool, size: int, local_bytes: int) -> None:
        super().__init__(name, offsets)
        self.work_group, self.local_bytes = size, local_bytes

    def text(self) -> str:
        ((name, types, _),) = self.functions
        lines = [f"__kernel __attribute__((reqd_work_group_size({self.work_group}, 1, 1)))"]
        lines.append(f"void {self.name}({self.parameters()}) {{")
        local = "0"
        if self.local_bytes:
            local = "(__local uchar*)local_memory"
            lines.append(f"    __local float4 local_memory[{-(-self.local_bytes // 16)}];")
        lines.append(f"    {name}((int)get_group_id(0), (int)get_local_id(0), {local}{self.arguments(types)});")
        return "\n".join([*lines, "}", ""])


def pointer_type(argument: Argument) -> str:
    """The type of a kernel's argument as the parameter of a function, in C."""
    return f"__global {'const ' if argument.role == 'input' else ''}{argument.ctype}*"
