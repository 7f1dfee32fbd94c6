"""Outputs of a column reduction's epilogue pass, which are written past the caches by way of buffers.

A unit computes its rows of an output in a buffer, which also holds the values cached by earlier passes, and writes a
few rows at a time. Elements that do not fill the last cache line of a row are moved in front of the elements that
follow in memory: those of the next row, if a unit has all columns, otherwise those of the same row in the next strip,
if it is the same item's.
"""

from __future__ import annotations

from refxla_spec.module import Instruction

from ...analysis.access_patterns import Store
from ...analysis.index_expression import Index
from ...device.description import LINE
from ..index_printer import c_of
from ..loops import non_temporal_stores
from .kernel_body import KernelBody
from .schedule import buffer_pitch


class OutputBuffers:
    """The buffers of all epilogue outputs; there are none unless the schedule asks for them."""

    def __init__(self, body: KernelBody) -> None:
        self._body = body
        self._names: dict[Instruction, str] = {}

    def __contains__(self, output: Instruction) -> bool:
        return output in self._names

    def declare(self) -> None:
        """Declares the buffers."""
        schedule = self._body.schedule
        for o in schedule.dataflow.epilogue_outputs if schedule.non_temporal else ():
            name = self._names[o] = self._body.fresh("gathered")
            size = (schedule.order.reduced_size + 1) * buffer_pitch(schedule.order, o)
            c_type = non_temporal_stores.storage(o)
            self._body.block.line(f"{c_type} {name}[{size}] __attribute__((aligned({LINE})));")

    def place(self, output: Instruction, row: Index, column: Index) -> str:
        """The C lvalue of an element, in a row and column of the unit."""
        line = LINE // non_temporal_stores.size_of(output)
        return f"{self._names[output]}[{c_of(row * buffer_pitch(self._body.schedule.order, output) + column + line)}]"

    def redirect(self, row: Index, column: Index) -> None:
        """Redirects stores of the outputs to the buffers, at that row and column."""
        for o in self._names:
            self._body.elements.gather(o, self.place(o, row, column))

    def restore(self) -> None:
        """Redirects stores of the outputs back to memory."""
        for o in self._names:
            self._body.elements.gather(o, None)

    def write(self, store: Store, row: Index, starts: str, ends: str) -> None:
        """Writes a row of a buffer to memory; `starts` and `ends`, C conditions, say whether this item does not write
        the elements directly before it, and directly after it."""
        output, schedule = store.instruction, self._body.schedule
        pitch, name = buffer_pitch(schedule.order, output), self._names[output]
        next_row = row if schedule.order.has_strips else row + 1
        lines, rest = (f"(ulong)({name} + {c_of(x * pitch)})" for x in (row, next_row))
        count, bits = non_temporal_stores.words(output, str(schedule.order.strip))
        to = f"(ulong)({non_temporal_stores.place(self._body.elements, store)})"
        self._body.block.line(f"rx_store_strip_u{bits}({to}, {lines}, {rest}, {count}, {starts}, {ends});")
