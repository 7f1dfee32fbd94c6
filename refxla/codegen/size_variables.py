"""Sizes as variables: kernels of different shapes that share their compiled code.

Outside of `jit`, JAX has each operation compiled for each shape, and the kernels of most of these programs differ in
nothing but numbers: trip counts, strides and offsets. Where the variables of machine code can be set after it is
loaded (runtime/pocl/kernel_library.py), the function of such a kernel reads these numbers from a table, and the program
part has their values (ProgramPart.size_values). Two such programs have one source, so it is compiled once, and loaded
for each of them with a table of its own.

Numbers stay in the text where code that is specialized for them is faster: bounds of loops that are unrolled or have a
vector width, short loops, divisors, strides of the innermost loop, sizes of arrays, and whatever is in a function that
is long or has arrays of its own, whose loops are written for their sizes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

_LONGEST = 4_000  # characters of a function: others are seldom compiled for several shapes
_LARGEST = (1 << 31) - 1  # an int
_SHORT_LOOP = 8  # iterations that the compiler unrolls, or computes in one vector
_LOOP = re.compile(r"( *)for \(int (\w+) = 0; \2 < (\d+); \+\+\2\) \{")
_ANY_LOOP = re.compile(r"( *)for \(\w+ (\w+) = .*\{$")
_SPECIALIZED = re.compile(r" *#pragma .*(unroll|vectorize_width)")
_ARRAY = re.compile(r"^ +\w+ \w+\[\d+\]", re.MULTILINE)
_INDEX = re.compile(r"\[[^][]+\]")
_FACTOR = re.compile(r"(?<!/ )(?<!% )(?<![\w.])(\d+)( \* (\w+))")
_OFFSET = re.compile(r"(?<=\+ )(\d+)(?=\])")
_PARAMETERS = ") {\n"
_NAME = "size_table"  # of the function that returns the address of the table
SYMBOL = "address_of_sizes"  # of the table


def with_size_variables(text: str) -> tuple[str, tuple[int, ...]]:
    """A kernel's function, from its parameters on, which reads its sizes from the table; and their values. The text as
    it is and () if there are none, or if it is specialized for its sizes."""
    head, opening, body = text.partition(_PARAMETERS)
    if len(text) > _LONGEST or not opening or _ARRAY.search(body):
        return text, ()
    values: dict[int, None] = {}

    def variable(number: str) -> str:
        if int(number) > _LARGEST:
            return number
        values.setdefault(int(number))
        return f"size{list(values).index(int(number))}"

    lines = body.split("\n")
    innermost = _innermost(lines)
    for n, line in enumerate(lines):
        loop = _LOOP.fullmatch(line)
        if loop is not None:
            if int(loop[3]) > _SHORT_LOOP and not _SPECIALIZED.match(lines[n - 1]):
                lines[n] = line[: loop.start(3)] + variable(loop[3]) + line[loop.end(3) :]
            continue
        lines[n] = _INDEX.sub(lambda index: _with_variables(index[0], innermost, variable), line)
    if not values:
        return text, ()
    reads = [f"    const int size{n} = sizes[{n}];\n" for n in range(len(values))]
    table = f"    __global const int* sizes = {_NAME}();\n"
    return "".join([head, opening, table, *reads, "\n".join(lines)]), tuple(values)


def _innermost(lines: Sequence[str]) -> frozenset[str]:
    """The variables of loops that contain no other loop but unrolled ones: their iterations become vectors, if the
    strides of their accesses are known."""
    found = set()
    for n, line in enumerate(lines):
        loop = _ANY_LOOP.match(line)
        if loop is not None:
            end = lines.index(f"{loop[1]}}}", n)
            if not any("for (" in lines[k] and not _SPECIALIZED.match(lines[k - 1]) for k in range(n + 1, end)):
                found.add(loop[2])
    return frozenset(found)


def _with_variables(index: str, innermost: frozenset[str], variable: Callable[[str], str]) -> str:
    """An index of an element in brackets, with variables for factors and for an offset at its end."""
    index = _FACTOR.sub(lambda m: m[0] if m[3] in innermost else f"{variable(m[1])}{m[2]}", index)
    return _OFFSET.sub(lambda m: variable(m[1]), index)


def table(values: Sequence[int]) -> str:
    """The function that returns the address of a table of sizes with these values."""
    lines = (
        f"leaq own_{SYMBOL}(%%rip), %%rax",
        "ret",
        ".pushsection .data",
        ".balign 8",
        f".globl {SYMBOL}",
        f"{SYMBOL}:",
        f"own_{SYMBOL}: .long {', '.join(map(str, values))}",
        ".popsection",
    )
    code = "\\n".join(lines)
    attributes = '__attribute__((naked, noinline, weak, visibility("hidden")))'
    return f'{attributes} __global const int* {_NAME}(void) {{ __asm__ volatile("{code}" ::: "memory"); }}\n'
