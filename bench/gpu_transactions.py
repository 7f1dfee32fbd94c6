"""How many sectors of memory the accesses of a sub-group touch: a kernel's addresses, traced on the CPU.

clang compiles the kernel for the CPU and calls a function at each load and store (-fsanitize-coverage=trace-loads,
trace-stores). The items of one sub-group run one after the other, without barriers: addresses do not depend on values,
except those of gathers, whose indices are all 0 here. What the items access by the n-th execution of an instruction is
one access of the sub-group; it moves whole sectors of 32 bytes. Items that take another branch have no part in it.
"""

from __future__ import annotations

import _ctypes
import ctypes
import platform
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .gpu_compilers import OPENCL, clang, run

MOST = 2048  # accesses of an item that are examined
_HEADER = """
extern unsigned long rx_group, rx_item;
#define get_local_id(d) ((size_t)rx_item)
#define get_group_id(d) ((size_t)rx_group)
#define get_global_id(d) ((size_t)rx_item)
#define barrier(flags)
#define atomic_inc(p) ((*(p))++)
#define atomic_or(p, v) (*(p) |= (v))
"""
_RUNTIME = """
#include <stdint.h>
unsigned long rx_group, rx_item;
static uintptr_t begins[ARRAYS], ends[ARRAYS];
static int arrays;
static uint64_t* noted;
static int most, count, steps;
void rx_array(uintptr_t begin, uintptr_t bytes) { begins[arrays] = begin; ends[arrays++] = begin + bytes; }
void rx_begin(uint64_t* to, int n) { noted = to; most = n; count = steps = 0; }
int rx_count(void) { return count; }
int rx_steps(void) { return steps; }
static void note(uintptr_t p, int bytes, uintptr_t instruction) {
    ++steps;
    for (int n = 0; n < arrays; ++n)
        if (p >= begins[n] && p < ends[n] && count < most) {
            uint64_t* to = noted + 3 * count++;
            to[0] = p;
            to[1] = bytes;
            to[2] = instruction - (uintptr_t)rx_begin;  // the library is loaded elsewhere each time
        }
}
#define FROM ((uintptr_t)__builtin_return_address(0))
#define BOTH(bytes) \\
    void __sanitizer_cov_load##bytes(void* p) { note((uintptr_t)p, bytes, FROM); } \\
    void __sanitizer_cov_store##bytes(void* p) { note((uintptr_t)p, bytes, FROM); }
BOTH(1) BOTH(2) BOTH(4) BOTH(8) BOTH(16)
"""


@dataclass(frozen=True)
class Transactions:
    """For the traced accesses of a sub-group of `items`: the `sectors` they touch, the minimum number that would hold
    the same bytes, and the `bytes` that the items request."""

    items: int
    accesses: int
    sectors: int
    least: int
    bytes: int

    @property
    def excess(self) -> float:
        """Sectors touched for each that is needed."""
        return self.sectors / self.least if self.least else 1.0


def traced(source: str, function: str, sizes: list[int], group: int, items: int, sector: int = 32) -> Transactions:
    """The transactions of `items` adjacent items of work-group number `group` of a program's __kernel, whose arrays
    have so many bytes. Raises Refused with the compiler's message."""
    return _counted(
        [trace for trace, _ in _traces(source, function, sizes, [(group, i) for i in range(items)])], sector
    )


@dataclass(frozen=True)
class ItemAccesses:
    """The accesses of an item: the `bytes` of arrays that it requests, and `steps`, the loads and stores of any memory,
    local and private included."""

    bytes: int
    steps: int


def accesses_of_items(
    source: str, function: str, sizes: list[int], items: Sequence[tuple[int, int]]
) -> list[ItemAccesses]:
    """What items, (work-group, item of it), of a program's __kernel access. Raises Refused."""
    traces = _traces(source, function, sizes, items, 1 << 16)
    return [ItemAccesses(int(trace[:, 1].sum()), steps) for trace, steps in traces]


def _traces(
    source: str, function: str, sizes: list[int], items: Sequence[tuple[int, int]], most: int = MOST
) -> Iterator[tuple[np.ndarray, int]]:
    """For each item, (work-group, item of it): its first accesses to arrays, rows of (address, bytes, instruction), and
    the number of all its accesses."""
    with tempfile.TemporaryDirectory(prefix="gpu-trace-") as folder:
        built = _built(source, Path(folder), len(sizes))
        arrays = [np.zeros(max(size, 64) + 64, np.uint8) for size in sizes]
        places = [a.ctypes.data + -a.ctypes.data % 64 for a in arrays]
        for group, item in items:
            # Loaded again for each item, so that local memory is zero, and contains nothing of another item's.
            library = ctypes.CDLL(built)
            for place, size in zip(places, sizes, strict=True):
                library.rx_array(ctypes.c_size_t(place), ctypes.c_size_t(max(size, 64)))
            notes = np.zeros((most, 3), np.uint64)
            ctypes.c_ulong.in_dll(library, "rx_group").value = group
            ctypes.c_ulong.in_dll(library, "rx_item").value = item
            library.rx_begin(ctypes.c_void_p(notes.ctypes.data), most)
            library[function](0, 0, *map(ctypes.c_void_p, places), *[ctypes.c_long(0)] * len(places))
            yield notes[: library.rx_count()].astype(np.int64), library.rx_steps()
            _ctypes.dlclose(library._handle)


def _counted(traces: list[np.ndarray], sector: int) -> Transactions:
    together: dict[tuple[int, int], list[tuple[int, int]]] = {}  # (instruction, its execution): addresses and sizes
    for trace in traces:
        executions: Counter[int] = Counter()
        for place, size, instruction in trace.tolist():
            together.setdefault((instruction, executions[instruction]), []).append((place, size))
            executions[instruction] += 1
    sectors = least = demand = 0
    for accesses in together.values():
        touched: set[int] = set()
        addresses: set[int] = set()
        for place, size in accesses:
            touched.update(range(place // sector, (place + size - 1) // sector + 1))
            addresses.update(range(place, place + size))
        sectors, demand = sectors + len(touched), demand + sum(size for _, size in accesses)
        least += -(-len(addresses) // sector)
    return Transactions(len(traces), len(together), sectors, least, demand)


def _built(source: str, folder: Path, arrays: int) -> str:
    """The shared library of a program that records its accesses to so many arrays."""
    (folder / "device.h").write_text(_HEADER)
    (folder / "kernel.cl").write_text(source)
    (folder / "runtime.c").write_text(_RUNTIME)
    plain = ("-target", f"{platform.machine()}-linux-gnu", "-O1", "-fPIC", "-c", "-w")
    traces = ("-fno-vectorize", "-fno-slp-vectorize", "-fsanitize-coverage=func,trace-loads,trace-stores")
    header, kernel, code = (str(folder / name) for name in ("device.h", "kernel.cl", "kernel.o"))
    run([*clang(), *plain, *OPENCL, *traces, "-include", header, kernel, "-o", code])
    to = str(folder / "kernel.so")
    run(
        ["cc", "-shared", "-O1", "-fPIC", "-w", f"-DARRAYS={max(arrays, 1)}", code, str(folder / "runtime.c"), "-o", to]
    )
    return to
