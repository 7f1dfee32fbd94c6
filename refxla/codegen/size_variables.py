"""Sizes as variables: kernels of different shapes that share their compiled code.

Outside of `jit`, JAX has each operation compiled for each shape, and the kernels of most of these programs differ in
nothing but numbers: trip counts, strides and offsets. Where the variables of machine code can be set after it is
loaded (runtime/pocl/kernel_library.py), the function of such a kernel reads these numbers from a table, and the program
part has their values (ProgramPart.size_values). Two such programs have one source, so it is compiled once, and loaded
for each of them with a table of its own.

A function has such variables only if all of its sizes can be: if another number is left than small ones and powers of
two, as widths of vectors and blocks are, no other shape has the same text, and constants are faster.

Numbers stay in the text where code that is specialized for them is faster: bounds of loops that are unrolled or have a
vector width, short loops, divisors, strides of the innermost loop and offsets smaller than these, the function's own
arrays, and whatever is in a function that is long or has loops that are written for the width of a vector, as
reductions are.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_LONGEST = 4_000  # characters of a function: others are seldom compiled for several shapes
_LARGEST = (1 << 31) - 1  # an int
_SHORT_LOOP = 8  # iterations that the compiler unrolls, or computes in one vector
_LOOP = re.compile(r"( *)for \(int (\w+) = 0; \2 < (\d+); (?:\+\+\2|\2 \+= \d+)\) \{")
_END_OF_STRIP = re.compile(r"(.* = (\w+) \+ (\d+) < )(\d+)( \? \2 \+ \3 : )\4;")  # an end of a part of the iterations
_ANY_LOOP = re.compile(r"( *)for \(\w+ (\w+) = .*\{$")
_SPECIALIZED = re.compile(r" *#pragma .*(unroll|vectorize_width)")
_ARRAY = re.compile(r"^ +\w+ (\w+)\[\d+\]", re.MULTILINE)
_INDEX = re.compile(r"(\w+)(\[[^][]+\])")
_FACTOR = re.compile(r"(?<!/ )(?<!% )(?<![\w.])(\d+)( \* (\w+))")
_OFFSET = re.compile(r"(?<=\+ )(\d+)(?=\])")
_NUMBER = re.compile(r"(?<![\w.])(\d+)[ul]*(?![\w.])")  # an integer
_SMALL = 8  # numbers that functions of different shapes have in common
_WIDTH = "vectorize_width"
_PARAMETERS = ") {\n"
_NAME = "size_table"  # of the function that returns the address of the table
SYMBOL = "address_of_sizes"  # of the table


def with_size_variables(text: str) -> tuple[str, tuple[int, ...]]:
    """A kernel's function, from its parameters on, which reads its sizes from the table; and their values. The text as
    it is and () if there are none, or if it is specialized for its sizes."""
    head, opening, body = text.partition(_PARAMETERS)
    if len(text) > _LONGEST or not opening or _WIDTH in body:
        return text, ()
    values: dict[int, None] = {}

    def variable(number: str) -> str:
        if int(number) > _LARGEST:
            return number
        values.setdefault(int(number))
        return f"size{list(values).index(int(number))}"

    lines = body.split("\n")
    innermost, arrays = _innermost(lines), frozenset(_ARRAY.findall(body))

    def with_variables(element: re.Match[str]) -> str:
        if element[1] in arrays:
            return element[0]
        strides = [int(m[1]) for m in _FACTOR.finditer(element[2]) if m[3] in innermost]
        index = _FACTOR.sub(lambda m: m[0] if m[3] in innermost else f"{variable(m[1])}{m[2]}", element[2])
        within = max(strides, default=0)
        return element[1] + _OFFSET.sub(lambda m: m[1] if int(m[1]) < within else variable(m[1]), index)

    for n, line in enumerate(lines):
        loop = _LOOP.fullmatch(line)
        if loop is not None:
            if int(loop[3]) > _SHORT_LOOP and not _SPECIALIZED.match(lines[n - 1]):
                lines[n] = line[: loop.start(3)] + variable(loop[3]) + line[loop.end(3) :]
            continue
        line = _END_OF_STRIP.sub(lambda m: f"{m[1]}{(v := variable(m[4]))}{m[5]}{v};", line)
        lines[n] = _INDEX.sub(with_variables, line)
    if not values or any(map(_is_a_size, _NUMBER.findall("\n".join(lines)))):
        return text, ()
    reads = [f"    const int size{n} = sizes[{n}];\n" for n in range(len(values))]
    table = f"    __global const int* sizes = {_NAME}();\n"
    return "".join([head, opening, table, *reads, "\n".join(lines)]), tuple(values)


def _is_a_size(number: str) -> bool:
    """Whether a number depends on the shape, as far as can be seen of it."""
    return int(number) > _SMALL and int(number).bit_count() > 1


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
