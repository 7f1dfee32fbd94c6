"""The body of a reduction kernel that is being written, which the parts of both emitters share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from refxla_spec.module import Instruction

from ...analysis.index_expression import Index, constant, variable
from ..c_block import Block
from ..elemental_ir_emitter import ElementalIrEmitter
from .schedule import UNSPECIFIED, Schedule, Vector


class KernelBody:
    """A schedule, the statements written so far, and the values of the fusion's members.

    `pointers` are the C names of inputs and outputs, `workspace` that of the partial results. The kernel loops over the
    units `first_unit` ... `last_unit` - 1, both C expressions.
    """

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        arrays = (*schedule.inputs, *schedule.dataflow.fusion.outputs)
        self.pointers: dict[Instruction, str] = {i: f"a{n}" for n, i in enumerate(arrays)}
        self.workspace = f"a{len(arrays)}"
        self.elements = ElementalIrEmitter(schedule.dataflow.fusion, schedule.target, self.pointers)
        self.block = Block()
        self.global_only = False  # see Kernel: set when a pointer into an argument is declared
        units, count = schedule.units, schedule.units_per_item
        self.first_unit, self.last_unit = "unit", "unit + 1"
        if count > 1:
            self.first_unit, self.last_unit = f"item * {count}", f"item * {count} + {count}"
            if units % count:
                self.last_unit = f"({self.last_unit} < {units} ? {self.last_unit} : {units})"

    def fresh(self, prefix: str) -> str:
        """A C name that is not used yet."""
        return self.elements.names.fresh(prefix)

    @contextmanager
    def loop(self, group: int, bounds: tuple[str, str] | None = None) -> Iterator[Index]:
        """A loop over the indices of a group, or over a range of them; gives the index."""
        name, size = self.fresh("r"), self.schedule.order.groups[group].size
        low, high = bounds or ("0", str(size))
        with self.block.scope(f"for (int {name} = {low}; {name} < {high}; ++{name})"):
            yield variable(name, 0, size - 1)

    @contextmanager
    def vector_loop(
        self, first: str, end: str, size: int, vector: Vector = UNSPECIFIED, c_type: str = "int", low: int = 0
    ) -> Iterator[Index]:
        """A loop over first..end-1, within low..size-1, that clang should vectorize; gives the index.

        Clang is asked not to unroll the loop before it vectorizes it. With a `c_type` of long, clang need not consider
        overflow in the computation of indices that a mask leaves out.
        """
        name = self.fresh("l")
        head = "" if end == "1" else f"for ({c_type} {name} = {first}; {name} < {end}; ++{name})"
        if self.schedule.target.capabilities.loop_pragmas and head:
            hints = f"vectorize_width({vector.width}) interleave_count({vector.count})" if vector.width else ""
            self.block.line(f"#pragma clang loop unroll(disable) {hints}".rstrip())
        with self.block.scope(head):
            yield variable(name, low, size - 1) if head else constant(0)

    def lanes(self, count: int, vector: Vector = UNSPECIFIED) -> AbstractContextManager[Index]:
        """A vector loop over so many accumulators."""
        return self.vector_loop("0", str(count), count, vector, "long" if vector.width else "int")

    def padded_lanes(self, size: int, vector: Vector = UNSPECIFIED) -> AbstractContextManager[Index]:
        """A vector loop over all accumulators, padded to whole vectors; lanes from `size` on have no element."""
        return self.vector_loop("0", str(self.schedule.accumulators), size, vector, "long")
