"""Long sums of which there are few, each of operands that no other result shares: gradients of depthwise filters.

A tile of a matrix product has little to reuse there, and an item for each result leaves most of a GPU idle. So an item
adds one segment (contraction_order.py) of a few adjacent rows, which share the right side's terms:

    scratch[segment, g, m] = sum over the terms k of the segment of left[g, m, k] * right[g, k]

and a second kernel adds those in order, as it does for the products in tiles (gemm.py). Neighbouring items take
neighbouring groups, or rows, whichever lie side by side in memory.
"""

from __future__ import annotations

from contextlib import ExitStack

from refxla_spec.module import Instruction

from ...analysis.access_patterns import AccessPattern
from ...analysis.index_expression import constant, delinearize, variable
from ...ir.plan import Kernel
from ..c_block import Block
from ..element_builder import type_name
from ..elemental_ir_emitter import ElementalIrEmitter
from ..elemental_rules import converted
from ..index_printer import c_of, scope_if
from ..kernel_arguments import input_argument, inputs_of
from ..products.packing import VECTORS
from ..sums import multiply_add
from .gemm import Indices, MatrixProduct, scratch_argument, segments_added
from .tiles import MOST_SPLIT_BYTES
from .work_groups import each_unit, group_size, kernel_of_units

GROUPS_PER_UNIT = 8  # work-groups of results that keep a compute unit busy
AT_A_TIME = 8  # terms that an item loads together
MOST_ROWS = 5  # of an item


def applies(p: MatrixProduct) -> bool:
    """Whether a product of one column has so few results, and so long sums, that items share the segments."""
    results = p.groups * p.m
    few = results < GROUPS_PER_UNIT * group_size(p.target) * p.target.compute_units
    return p.n == 1 and few and p.segment > 0 and p.segments * results * p.element_bytes <= MOST_SPLIT_BYTES


def kernels(p: MatrixProduct) -> tuple[Kernel, ...]:
    """The kernel of the segments, and the one that adds them."""
    return _segments(p), segments_added(p)


def reads(p: MatrixProduct) -> tuple[int, int]:
    """The elements that the items load of the left side, and of the right side."""
    terms = p.groups * p.k * p.m
    return terms, terms // _rows(p)


def adjacent_reads(p: MatrixProduct, count: int) -> tuple[list[Indices], list[Indices]]:
    """The indices of the elements that so many adjacent items load at once of the left side, and of the right side."""
    rows, k = _rows(p), constant(p.k // p.segment // 2 * p.segment)
    left, right = [], []
    for unit in range(min(count, p.groups * p.m // rows)):
        if _groups_are_neighbours(p):
            row, g = divmod(unit, p.groups)
        else:
            g, row = divmod(unit, p.m // rows)
        left.append(p.left(constant(g), constant(row * rows), k))
        right.append(p.right(constant(g), k, constant(0)))
    return left, right


def _segments(p: MatrixProduct) -> Kernel:
    fusion, operands, block = p.fusion, (p.left_operand, p.right_operand), Block()
    inputs = [i for i in fusion.inputs if i in inputs_of(fusion, list(operands))]
    e = ElementalIrEmitter(fusion, p.target, {i: f"a{n}" for n, i in enumerate(inputs)})
    rows = _rows(p)
    units = p.segments * p.groups * (p.m // rows)
    with each_unit(block, p.target, units):
        unit = variable("unit", 0, units - 1)
        if _groups_are_neighbours(p):
            segment, row, g = delinearize(unit, (p.segments, p.m // rows, p.groups))
        else:
            segment, g, row = delinearize(unit, (p.segments, p.groups, p.m // rows))
        block.line(f"const int first = {c_of(segment * p.segment)}, g = {c_of(g)}, row = {c_of(row)};")
        block.line(f"const int end = {p.k} - first < {p.segment} ? {p.k} : first + {p.segment};")
        for n in range(rows):
            block.line(f"{VECTORS[p.name][0]} sum{n} = 0;")
        g, k = variable("g", 0, p.groups - 1), variable("k", 0, p.k - 1)
        each = [variable("row", 0, p.m // rows - 1) * rows + n for n in range(rows)]
        with ExitStack() as scopes:
            scopes.enter_context(block.scope(f"for (int t = first; t < end; t += {AT_A_TIME})"))
            block.line("#pragma unroll")
            scopes.enter_context(block.scope(f"for (int u = 0; u < {AT_A_TIME}; ++u)"))
            block.line("const int k = t + u;")
            scopes.enter_context(block.scope(f"if (k < {p.k})" if p.k % AT_A_TIME else ""))
            right = _term(p, e, block, p.right_operand, p.right(g, k, constant(0)))
            for n, m in enumerate(each):
                with scope_if(block, p.left_exists(g, m, k)):
                    left = _term(p, e, block, p.left_operand, p.left(g, m, k))
                    block.line(f"sum{n} = {multiply_add(p.name, f'sum{n}', left, right)};")
        for n, m in enumerate(each):
            place = (variable("first", 0, p.k - 1) // p.segment * p.groups + g) * p.m + m
            block.line(f"a{len(inputs)}[{c_of(place)}] = sum{n};")
    arguments = (*map(input_argument, inputs), scratch_argument(p))
    return kernel_of_units(f"{fusion.name}.segments", block, arguments, p.target, units)


def _term(p: MatrixProduct, e: ElementalIrEmitter, block: Block, operand: Instruction, at: Indices) -> str:
    """An element of an operand, in the accumulation type."""
    return converted(e, e.value(operand, at, block), type_name(operand), p.name, block)


def _rows(p: MatrixProduct) -> int:
    """The rows of an item: as many as leave each compute unit a work-group; one if neighbouring items take neighbouring
    rows, which share the sectors of memory."""
    if not _groups_are_neighbours(p):
        return 1
    most = p.segments * p.groups * p.m // (group_size(p.target) * p.target.compute_units)
    return max((n for n in range(1, MOST_ROWS + 1) if p.m % n == 0 and n <= most), default=1)


def _groups_are_neighbours(p: MatrixProduct) -> bool:
    """Whether the elements of the left side of groups that follow each other lie side by side."""
    g, m, k = variable("g", 0, p.groups - 1), variable("m", 0, p.m - 1), variable("k", 0, p.k - 1)
    pattern = AccessPattern(p.fusion)
    pattern.value(p.left_operand, p.left(g, m, k))
    return any(a.position.factor("g") == 1 for a in pattern.accesses)
