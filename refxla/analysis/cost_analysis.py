"""The cost model: the bytes that kernels move and the operations that they execute, and from these their time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from refxla_spec.module import Instruction

from ..device.description import Costs
from ..ir.library_calls import LibraryRoutine, is_batched
from ..ir.op_table import ELEMENTWISE, FUNCTIONS, HERO, ROWS, flops_of, overwritten, row
from ..ir.plan import Fusion, Plan

_TAKES = ("slice", "dynamic-slice", "gather")
ONE_BY_ONE = 100.0  # additions in vectors that take as long as one step of a reducer of several values


@dataclass(frozen=True)
class Cost:
    """The work of one call: bytes read and written by all kernels; bytes of the values that are computed within a
    fusion and kept out of memory, each counted as one write and one read (values that only move or repeat others are
    not counted); arithmetic operations.
    """

    bytes_read: int
    bytes_written: int
    bytes_saved: int
    operations: int

    def __str__(self) -> str:
        return (
            f"reads {bytes_text(self.bytes_read)}, writes {bytes_text(self.bytes_written)}, "
            f"saves {bytes_text(self.bytes_saved)}, {count_text(self.operations)} operations"
        )


def cost_of(plan: Plan) -> Cost:
    """The sum over a plan's fusions and their tiles; the body of a loop counts once."""
    each = [(fusion_cost(f), f.trip_count) for f in plan.fusions]
    return Cost(
        sum(c.bytes_read * n for c, n in each),
        sum(c.bytes_written * n for c, n in each),
        sum(c.bytes_saved * n for c, n in each),
        sum(c.operations * n for c, n in each),
    )


def fusion_cost(fusion: Fusion) -> Cost:
    """Bytes and operations of one run of a fusion's kernel."""
    outputs = set(fusion.outputs)
    inside = _counted(fusion)
    saved = sum(2 * i.shape.bytes for i in inside if i not in outputs and i.shape.is_array)
    operations = sum(row(i).work(i) for i in inside)
    return Cost(_read_by(fusion), sum(_written(i) for i in fusion.outputs), saved, operations)


def element_ns(fusion: Fusion, size: int, costs: Costs) -> float:
    """The nanoseconds that one core takes for each of the `size` elements of a fusion's loop."""
    return _operations_ns(fusion, costs) / max(1, size)


def _operations_ns(fusion: Fusion, costs: Costs) -> float:
    """The nanoseconds that one core takes for the operations of one run of a fusion's kernel."""
    total = 0.0
    for i in _counted(fusion):
        operation = costs.function_flop if i.opcode in FUNCTIONS else costs.flop
        total += row(i).work(i) * (ONE_BY_ONE if i.shape.is_tuple else flops_of(i)) * operation
    return total


def _counted(fusion: Fusion) -> list[Instruction]:
    """The instructions that do arithmetic."""
    return [i for i in fusion.instructions if i.opcode in ROWS and row(i).op_class in (ELEMENTWISE, HERO)]


def _read_by(fusion: Fusion) -> int:
    """The bytes that a fusion reads."""
    users: dict[Instruction, list[Instruction]] = {i: [] for i in fusion.inputs}
    for u in fusion.instructions:
        for o in dict.fromkeys(u.operands):
            if o in users:
                users[o].append(u)
    return sum(_read(i, users[i]) for i in fusion.inputs)


def _read(i: Instruction, users: Sequence[Instruction]) -> int:
    """The bytes read of an input. If it is only sliced, gathered from or updated in place, these are the bytes that are
    taken, or combined with the update."""
    if not all(i in u.operands[: overwritten(u)] or u.operands[0] is i and u.opcode in _TAKES for u in users):
        return i.shape.bytes
    taken = sum(u.shape.bytes for u in users if u.opcode in _TAKES)
    combined = sum(_written(u) for u in users if overwritten(u) and row(u).op_class == HERO)
    return min(i.shape.bytes, taken + combined) if users else i.shape.bytes


def _written(i: Instruction) -> int:
    """The bytes written of an output; if it is an operand that is updated in place, the bytes of the update. (A copy of
    that operand is a step of its own.)"""
    if not overwritten(i):
        return i.shape.bytes
    updates = i.operands[1:2] if i.opcode == "dynamic-update-slice" else i.operands[overwritten(i) + 1 :]
    return min(i.shape.bytes, sum(u.shape.bytes for u in updates))


def kernel_us(fusion: Fusion, costs: Costs) -> float:
    """The microseconds that a fusion's kernel takes on one core, by the cost model."""
    moved = _read_by(fusion) + sum(_written(i) for i in fusion.outputs)
    # Small inputs are mostly still in the core's own cache, which is twice as fast.
    byte = costs.byte / 2 if moved <= costs.caches.second // 4 else costs.byte
    return (_operations_ns(fusion, costs) + moved * byte) / 1e3


def library_call_us(i: Instruction, call: LibraryRoutine, costs: Costs) -> float:
    """An estimate of the microseconds that a routine takes for one matrix on one core."""
    return ((0.0 if is_batched(i, call) else costs.library_call) + call.operations * costs.library_flop) / 1e3


def bytes_text(n: float) -> str:
    """A number of bytes in its unit: "12.5 KiB"."""
    for unit in ("bytes", "KiB", "MiB"):
        if n < 1024:
            return f"{n:.0f} {unit}" if unit == "bytes" else f"{n:.1f} {unit}"
        n /= 1024
    return f"{n:.1f} GiB"


def count_text(n: float) -> str:
    """A number in short form: "12 million"."""
    for unit in ("", "thousand", "million"):
        if n < 10000:
            return f"{n:.0f} {unit}".rstrip()
        n /= 1000
    return f"{n:.1f} billion"
