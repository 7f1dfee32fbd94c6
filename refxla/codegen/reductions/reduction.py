"""The kernel of kind "reduction": one or more reduces over the same dimensions, with their producers and consumers."""

from __future__ import annotations

from contextlib import nullcontext

from ...analysis.index_expression import constant, variable
from ...device.description import Target
from ...ir.plan import Argument, Fusion, Kernel
from ..kernel_arguments import input_argument, output_argument
from ..loops import fast_path_math
from .column_reduction import ColumnReduction
from .interleaved_rows import InterleavedRowReduction
from .kernel_body import KernelBody
from .partial_reductions import workspace_bytes
from .row_reduction import RowReduction
from .schedule import Schedule
from .schedule_rules import schedule
from .unit_emitter import UnitEmitter, clipped


def emit(fusion: Fusion, target: Target) -> tuple[Kernel, ...]:
    """The kernel of a fusion around reduces of operands with the same dimensions over the same dimensions.

    Raises UnsupportedError for fusions that have no schedule (see `schedule`).
    """
    s = schedule(fusion, target)
    body = KernelBody(s)
    arguments = [input_argument(i) for i in s.inputs] + [output_argument(o) for o in fusion.outputs]
    if s.partials > 1 and s.units:
        arguments.append(Argument("workspace", "uchar", bytes=workspace_bytes(s)))
    if s.units:
        _emit_units(body, _emitter(s)(body))
    return (
        Kernel(
            fusion.name,
            body.block.text(),
            tuple(arguments),
            s.items,
            wide_vectors=s.wide_vectors,
            global_only=body.global_only,
            library_functions=fast_path_math.library_functions(body.elements),
        ),
    )


def _emitter(s: Schedule) -> type[UnitEmitter]:
    if not s.order.is_row:
        return ColumnReduction
    return InterleavedRowReduction if s.interleaved_rows > 1 else RowReduction


def _emit_units(body: KernelBody, emitter: UnitEmitter) -> None:
    """All units of a work item, one after the other; or one partial result of a unit."""
    s, block = body.schedule, body.block
    emitter.declare_arrays()
    if s.partials > 1 or s.units_per_item == 1:
        partial = constant(0)
        if s.partials > 1:
            block.line(f"const int partial = item % {s.partials};")
            partial = variable("partial", 0, s.partials - 1)
        block.line(f"const int unit = item{f' / {s.partials}' if s.partials > 1 else ''};")
        ranges = emitter.unit_ranges()
        for low, high in ranges:
            scope = block.scope(f"if (unit >= {low} && unit <= {high})") if len(ranges) > 1 else nullcontext()
            with scope, emitter.within((low, high), s.units):
                emitter.emit_unit(variable("unit", low, high), partial)
    elif s.inner_units > 1:
        n = s.inner_units
        rows, columns = variable("row", 0, s.units // n - 1), variable("column", 0, n - 1)
        block.line(f"const int first = {body.first_unit}, last = {body.last_unit};")
        # Of type long, or clang would check each row for overflow of its indices.
        with block.scope(f"for (long row = first / {n}; row * {n} < last; ++row)"):
            block.line(f"const long begin = first > row * {n} ? first - row * {n} : 0;")
            block.line(f"const long end = last - row * {n} < {n} ? last - row * {n} : {n};")
            with block.scope("for (long column = begin; column < end; ++column)"):
                emitter.emit_unit(rows * n + columns, constant(0))
    else:
        ranges = emitter.unit_ranges()
        for low, high in ranges:
            first, last = body.first_unit, body.last_unit
            if len(ranges) > 1:
                first, last = clipped(first, last, (low, high))
            scope = block.scope(f"for (int unit = {first}; unit < {last}; ++unit)")
            with scope, emitter.within((low, high), s.units):
                emitter.emit_unit(variable("unit", low, high), constant(0))
    if s.non_temporal:
        block.line("RX_FENCE();")
