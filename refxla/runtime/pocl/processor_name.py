"""The name of the processor that PoCL compiles for.

PoCL asks LLVM for the name of this machine's processor, and passes it to clang. LLVM answers "generic" for processors
that it does not know: newer ones, and those of some makers. PoCL 3 has LLVM 14, of 2022, and AMD's family 26 (Zen 5) is
of 2024. But on x86-64, clang knows no processor named "generic", and compiles nothing.

There is no setting for it. However, PoCL keeps the name of each of its devices in an internal structure, as a pointer
to text after the pointer to the name of the machine:

    const char* llvm_target_triplet;    x86_64-unknown-linux-gnu
    const char* llvm_cpu;               generic

The version of a device ends with both names, so the field is found by its contents. `settle` points it to the name of a
processor that LLVM 14 knows and whose instructions this one has. The further instructions that a function may use are
found by trying (device_probe.py), as on processors that LLVM knows.
"""

from __future__ import annotations

import os
import re
import struct
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from ..processor import instruction_sets
from .compile_worker import name_processor

_UNKNOWN = "generic"
_VERSION = re.compile(r"\b(x86_64-\w+-\w+-\w+)-(\S+)")  # the machine's name and the processor's, in a device's version
_STRUCTURE = 4096  # bytes searched: more than the structure of any PoCL; that of PoCL 3 has some 1,300

_V2 = {"cx16", "lahf_lm", "sse4_1", "sse4_2", "ssse3"}
_V3 = {*_V2, "abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe", "xsave"}
_ZEN_3 = {*_V3, "adx", "aes", "pclmulqdq", "sha_ni", "sse4a", "vaes", "vpclmulqdq"}  # only AMD has sse4a
# The names, best first, and the instructions that code for them may contain. (They are the levels of the x86-64 psABI,
# without level 4, for which LLVM prefers vectors of half the width.)
_PROCESSORS = {"znver3": _ZEN_3, "x86-64-v3": _V3, "x86-64-v2": _V2, "x86-64": set()}


@dataclass(frozen=True)
class Substitute:
    """A name to store `offset` bytes into PoCL's device structures."""

    offset: int
    name: str


_substitute: Substitute | None = None


def substitute() -> Substitute | None:
    """The name that PoCL's devices were given in this process; None if they have LLVM's."""
    return _substitute


def settle(raws: Sequence[Any]) -> None:
    """Gives PoCL's devices, as pyopencl has them, the name of a processor that clang knows, if LLVM has none."""
    global _substitute
    for raw in raws:
        found = _VERSION.search(raw.version)
        offset = name_offset(raw) if found and found[2] == _UNKNOWN else None
        if offset is not None:
            _substitute = Substitute(offset, closest_processor(instruction_sets()))
            name_processor(raw.int_ptr, _substitute.offset, _substitute.name)


def closest_processor(sets: Collection[str]) -> str:
    """The best processor that LLVM 14 knows and that has only these instruction sets, under Linux's names."""
    return next(name for name, needs in _PROCESSORS.items() if needs <= set(sets))


def version(raw: Any) -> str:
    """The version of one of PoCL's devices, with the name of the processor that it compiles for."""
    text: str = raw.version
    return text if _substitute is None else text.replace(f"-{_UNKNOWN}", f"-{_substitute.name}")


def name_offset(raw: Any) -> int | None:
    """The offset in bytes of the pointer to the processor's name in the structure of a PoCL device on x86-64; None if
    it is not found."""
    names = _VERSION.search(raw.version)
    if names is None or sys.platform != "linux":
        return None
    triple, name = (f"{names[n]}\0".encode() for n in (1, 2))
    content = _memory(raw.int_ptr, _STRUCTURE)
    pointers = [pointer for (pointer,) in struct.iter_unpack("@P", content[: len(content) // 8 * 8])]
    for n, pair in enumerate(zip(pointers, pointers[1:], strict=False), 1):
        if all(_memory(pointer, len(text)) == text for pointer, text in zip(pair, (triple, name), strict=True)):
            return 8 * n
    return None


def _memory(address: int, size: int) -> bytes:
    """The memory at an address of this process, as far as it is readable: no address raises an error."""
    try:
        with open("/proc/self/mem", "rb", buffering=0) as memory:
            return os.pread(memory.fileno(), size, address)
    except (OSError, OverflowError):
        return b""
