"""A part of a program, and how it calls functions of other parts."""

from __future__ import annotations

from dataclasses import dataclass, replace

from . import size_variables

EXTERNAL = "__wrap_"  # the prefix of names that PoCL leaves visible to other code
# How the body of a function begins that others call: clang takes it for one with an effect. A call of one that has none
# (a sum with an update of zero) goes, and with the last call the function.
EFFECTFUL = '{\n    __asm__ volatile("");\n'


@dataclass(frozen=True)
class ProgramPart:
    """A program to compile: OpenCL C, the names of its __kernels, which no other part of any program has, and the items
    of the largest launch; the functions that other parts call, and those of other parts that it calls; whether its
    __kernels take offsets (see Program); whether it is the same for all programs of a target; the values of the sizes
    that its only kernel reads from a table (size_variables.py), 0 in the source."""

    source: str
    functions: tuple[str, ...]
    items: int = 1
    exports: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()
    offsets: bool = False
    shared: bool = False
    size_values: tuple[int, ...] = ()

    @property
    def is_linked(self) -> bool:
        """Whether the part calls functions of others, or others call its own."""
        return bool(self.imports or self.exports)

    @property
    def specialized(self) -> ProgramPart:
        """The part with the values of its sizes in its source, for readers, and where no table can be set."""
        if not self.size_values:
            return self
        unset = size_variables.table([0] * len(self.size_values))
        source = self.source.replace(unset, size_variables.table(self.size_values))
        return replace(self, source=source, size_values=())


def stub(result: str, name: str, parameters: str, external: str) -> str:
    """A stub for a function of another part, which returns the type `result` and is called by `name` here, with its
    parameters in parentheses: it jumps to the address in the variable link_name(external), with all arguments in place.
    It is weak, so that the compiler assumes nothing about its effects."""
    lines = (
        f"jmp *at_{name}(%%rip)",
        ".pushsection .data",
        ".balign 8",
        f".globl {link_name(external)}",
        f"{link_name(external)}:",
        f"at_{name}: .quad 0",  # a name local to this module: the other one is global, and may be replaced
        ".popsection",
    )
    jump = "\\n".join(lines)
    attributes = '__attribute__((naked, noinline, weak, visibility("hidden")))'
    return f'{attributes} {result} {name}{parameters} {{ __asm__ volatile("{jump}" ::: "memory"); }}\n'


def link_name(external: str) -> str:
    """The symbol of the address of another part's function, 8 bytes that are 0 until the parts are linked."""
    return f"address_of{external}"
