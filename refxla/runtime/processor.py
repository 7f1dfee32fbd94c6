"""The processor of this machine, as far as machine code depends on it."""

from __future__ import annotations

import platform
from functools import cache
from pathlib import Path

_CPUINFO = Path("/proc/cpuinfo")
# Linux's names of the instruction sets of x86-64, by their beginnings; the other flags in its list concern kernels.
_X86 = (
    "abm", "adx", "aes", "amx", "avx", "bmi", "cx16", "f16c", "fma", "gfni", "lahf_lm", "mmx", "movbe", "pclmulqdq",
    "popc", "sha", "sse", "ssse", "vaes", "vpclmulqdq", "xsave",
)  # fmt: skip


def architecture() -> str:
    """The system's name of it: "x86_64", "aarch64"."""
    return platform.machine()


@cache
def instruction_sets() -> tuple[str, ...]:
    """The instruction sets that every core has, sorted; () if the system does not list them."""
    try:
        lines = _CPUINFO.read_text(errors="replace").splitlines()
    except OSError:
        return ()
    each = [
        set(line.partition(":")[2].split()) for line in lines if line.split(":")[0].strip() in ("flags", "Features")
    ]
    common = set.intersection(*each) if each else set()
    return tuple(sorted(f for f in common if architecture() != "x86_64" or f.startswith(_X86)))
