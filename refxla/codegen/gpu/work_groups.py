"""Work-groups: their size, and arrays in local memory, for all emitters for GPUs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from ...device.description import Target
from ...ir.plan import Argument, Kernel
from ..c_block import Block

BARRIER = "barrier(CLK_LOCAL_MEM_FENCE);"
_ALIGNMENT = 16  # of arrays in local memory, in bytes


def group_size(target: Target) -> int:
    """The work items of a work-group, a power of two: enough to hide latencies, and registers for any kernel."""
    return min(256, 1 << (target.group_size.bit_length() - 1))


@contextmanager
def each_unit(block: Block, target: Target, count: int) -> Iterator[None]:
    """The statements of an item of `kernel_of_units`: `unit` (C) is the number of its own."""
    group = group_size(target)
    block.line(f"const int unit = group * {group} + item;")
    with block.scope(f"if (unit < {count})" if count % group else ""):
        yield


def kernel_of_units(name: str, block: Block, arguments: Sequence[Argument], target: Target, count: int) -> Kernel:
    """The kernel with an item for each of `count` units, in as many work-groups as these fill."""
    group = group_size(target)
    return Kernel(name, block.text(), tuple(arguments), -(-count // group) * group, work_group=group)


@dataclass
class LocalMemory:
    """Contiguous arrays in a kernel's local memory; `bytes` of it so far."""

    bytes: int = field(default=0)

    def declare(self, block: Block, name: str, ctype: str, bytes_each: int, count: int) -> str:
        """Declares a pointer to a new array; returns its name."""
        block.line(f"__local {ctype}* const {name} = (__local {ctype}*)(local_memory + {self.bytes});")
        self.bytes += -(-count * bytes_each // _ALIGNMENT) * _ALIGNMENT
        return name


def register_bytes(name: str) -> int:
    """The bytes of a variable that holds an element of an HLO type."""
    return {"c128": 16, "c64": 8, "f64": 8, "s64": 8, "u64": 8}.get(name, 4)
