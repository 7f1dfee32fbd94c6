"""Software prefetch: brings what a pass will need into a cache."""

from __future__ import annotations

from ...analysis.index_expression import linearize
from ...device.description import LINE
from ..index_printer import c_of
from .kernel_body import KernelBody
from .schedule import Position, ReductionPass


def prefetch(body: KernelBody, step: ReductionPass, at: Position, count: int) -> None:
    """Emits the prefetches of a pass for so many elements from a position on."""
    if not step.prefetches:
        return
    position = linearize(body.schedule.operand_indices(at), body.schedule.dataflow.dimensions)
    for p in step.prefetches:
        function = "RX_PREFETCH_FOR_WRITE" if p.for_write else "RX_PREFETCH"
        line = LINE * 8 // p.instruction.shape.element_type.bits
        offsets = list(range(0, count, line))
        if body.schedule.order.has_strips:  # otherwise the next prefetch begins where the last line ends
            offsets.append(count - 1)
        for n in offsets:
            body.block.line(f"{function}({body.pointers[p.instruction]} + ({c_of(position + p.distance + n)}));")
