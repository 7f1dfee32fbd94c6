"""A matrix times a vector, where the matrix is contiguous along the contraction: its rows are streamed from memory
once.

The order in which the terms of a row are added is fixed (contraction_order.py), so the lanes of a vector are rows:
square blocks of the matrix are transposed in registers, and each resulting column is multiplied by one element of the
vector and added for all rows at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from refxla_spec.module import Instruction

from ...analysis.contraction_order import segment_terms
from ...analysis.index_expression import Index, constant, variable
from ...device.description import Target
from ...ir.plan import Fusion, Kernel
from ..c_block import Block
from ..element_builder import type_name
from ..elemental_ir_emitter import ElementalIrEmitter
from ..index_printer import c_of
from ..kernel_arguments import hero_of, input_argument, inputs_of, output_argument
from ..sums import SegmentedSum
from .epilogue import store_outputs
from .packing import VECTORS, DirectRead, direct_read, from_accumulation, open_columns, vector_type
from .product import Indices

BEHIND = 16  # cache lines by which a strip is behind the previous one, if they would compete for cache sets
LONGEST_COMPUTED = 2048  # elements of a vector that is not read in place


@dataclass(frozen=True)
class MatrixVector:
    """result[g, m] = sum over k of matrix[g, m, k] * vector[g, k]; indices of the operands and the result."""

    fusion: Fusion
    target: Target
    name: str
    groups: int
    m: int
    k: int
    matrix_operand: Instruction
    vector_operand: Instruction
    matrix: Callable[[Index, Index, Index], Indices]
    vector: Callable[[Index, Index], Indices]
    result: Callable[[Index, Index], Indices]

    def matrix_read(self, g: Index, m: Index, k: Index) -> DirectRead | None:
        """The load of an element of the matrix; None if it is computed."""
        return direct_read(self.fusion, self.matrix_operand, self.matrix(g, m, k), self.name, ("g",))

    def vector_read(self, g: Index, k: Index) -> DirectRead | None:
        """The load of an element of the vector; None if it is computed."""
        return direct_read(self.fusion, self.vector_operand, self.vector(g, k), self.name, ("g",))

    def applies(self) -> bool:
        """Whether the matrix is read in place, along k, and there are enough rows for a vector; and the vector is also
        read in place, or short enough for each item to compute it first."""
        if self.name not in ("f32", "f64") or self.m < VECTORS[self.name][1] or self.k < 16:
            return False
        g, m, k = (variable(c, 0, n - 1) for c, n in (("g", self.groups), ("m", self.m), ("k", self.k)))
        matrix = self.matrix_read(g, m, k)
        if matrix is None or (self.vector_step() is None and not self._can_compute_vector()):
            return False
        position = matrix.access.position
        return position.factor("k") == 1 and position.factor("m") is not None

    def vector_step(self) -> int | None:
        """The distance of the vector's elements in memory; None if it is computed."""
        g, k = variable("g", 0, self.groups - 1), variable("k", 0, self.k - 1)
        read = self.vector_read(g, k)
        return None if read is None else read.access.position.factor("k")

    def _can_compute_vector(self) -> bool:
        return self.k <= LONGEST_COMPUTED and type_name(self.vector_operand) == self.name

    def kernel(self) -> Kernel:
        """The kernel, in which an item computes some vectors of rows. `applies` must hold."""
        return _KernelEmitter(self).kernel()


class _KernelEmitter:
    """The kernel of a product p. An item has some strips of rows, each as many as a vector has lanes: strip s begins at
    row m{s}, at x{s} in memory; its sums are the vector c{s}, and t{s} for complete segments."""

    def __init__(self, p: MatrixVector) -> None:
        self.p = p
        self.element, self.lanes = VECTORS[p.name]
        self.vector = vector_type(p.name)
        self.line = 2 * self.lanes  # the elements of a cache line: read at once, before other rows evict it
        g, m, k = (variable(c, 0, n - 1) for c, n in (("g", p.groups), ("m", p.m), ("k", p.k)))
        self.g, self.m = g, m
        row_step = _required(p.matrix_read(g, m, k)).access.position.factor("m")
        assert row_step is not None
        self.row_step = row_step
        inputs = set(inputs_of(p.fusion, p.fusion.outputs, p.fusion.hero))
        inputs |= set(inputs_of(p.fusion, [p.matrix_operand, p.vector_operand]))
        self.reads = [i for i in p.fusion.inputs if i in inputs]
        self.pointers = {i: f"a{n}" for n, i in enumerate((*self.reads, *p.fusion.outputs))}
        self.e, self.block = ElementalIrEmitter(p.fusion, p.target, self.pointers), Block()
        # The chains of several strips overlap: one alone would wait four cycles for each term. Rows that fall on the
        # same few sets of the first cache, as those a power of two apart do, would push each other out: there it is
        # two strips, one some lines after the other.
        enough = p.groups * p.m // (4 * p.target.compute_units * self.lanes)
        alike = row_step * (32 // self.lanes) % 2048 == 0
        self.strips = max(1, min(2 if alike else p.target.registers // 8, enough, -(-p.m // self.lanes)))
        self.behind = min(BEHIND, p.k // (4 * self.line)) * self.line if alike else 0  # terms
        # A segment is a multiple of a line, so none begins within one.
        self.segment = segment_terms(p.k, p.name)
        self.sums = [SegmentedSum.of_vectors(self.vector, f"t{s}", f"c{s}") for s in range(self.strips)]

    def kernel(self) -> Kernel:
        p, block, per_item = self.p, self.block, self.strips * self.lanes
        parts = -(-p.m // per_item)
        block.line(f"typedef {self.vector} __attribute__((aligned(sizeof({self.element})))) vector;")
        block.line(f"const int g = item / {parts};")
        block.line(f"const int first = item % {parts} * {per_item};")
        step = self._open_vector()
        self._open_strips()
        whole = p.k // self.line * self.line
        self._add_lines(whole, step)
        if self.segment and whole < p.k and whole % self.segment == 0:
            self._close_segments()
        if whole < p.k:
            self._add_rest(whole, step)
        self._store(per_item)
        arguments = (*map(input_argument, self.reads), *map(output_argument, p.fusion.outputs))
        return Kernel(p.fusion.name, block.text(), arguments, p.groups * parts, wide_vectors=True, global_only=True)

    def _open_vector(self) -> int:
        """Declares y, the vector of the group; returns the step between its elements."""
        p, block, step = self.p, self.block, self.p.vector_step()
        if step is not None:
            access = _required(p.vector_read(self.g, constant(0))).opened(self.e, block)
            at = f"{self.pointers[access.instruction]} + ({c_of(access.position)})"
            block.line(f"__global const {self.element}* const y = {at};")
            return step
        block.line(f"{self.element} y[{p.k}];")
        k, scope = self.e.loop(p.k, block)
        with scope:
            block.line(f"y[{c_of(k)}] = {self.e.value(p.vector_operand, p.vector(self.g, k), block)};")
        return 1

    def _open_strips(self) -> None:
        """Declares the starts of the strips, and their sums."""
        p, block, vector = self.p, self.block, self.vector
        for s in range(self.strips):
            # If there were rows beyond the last, the strip begins early, and only its own rows are stored.
            start = f"first + {s * self.lanes}"
            block.line(f"const int m{s} = {start} < {p.m - self.lanes} ? {start} : {p.m - self.lanes};")
            read = _required(p.matrix_read(self.g, variable(f"m{s}", 0, p.m - 1), constant(0)))
            access = read.opened(self.e, block)
            at = f"{self.pointers[access.instruction]} + ({c_of(access.position)})"
            block.line(f"__global const {self.element}* const x{s} = {at};")
            block.line(f"{vector} c{s} = ({vector})(0);")
        if self.segment:
            block.line(f"{vector} {', '.join(f't{s} = ({vector})(0)' for s in range(self.strips))};")

    def _add_lines(self, whole: int, step: int) -> None:
        """Adds the first `whole` terms, a line of each row at a time."""
        block, last = self.block, (self.strips - 1) * self.behind
        with block.scope(f"for (int at = 0; at < {whole + last}; at += {self.line})"):
            for s, sum in enumerate(self.sums):
                delay = s * self.behind
                with block.scope(f"if (at >= {delay} && at < {whole + delay})" if last else ""):
                    block.line(f"const int k = at - {delay};")
                    if self.segment:
                        with block.scope(f"if ((k & {self.segment - 1}) == 0)"):
                            sum.close(block)
                    for first in range(0, self.line, self.lanes // 2):
                        with block.scope():
                            open_columns(block, self.p.name, f"x{s} + k + {first}", self.row_step, "r")
                            for u in range(self.lanes // 2):
                                self._add(s, f"r[{u}]", f"y[(k + {first + u}) * {step}]")

    def _add_rest(self, whole: int, step: int) -> None:
        """Adds the terms from number `whole` on, which do not fill a line."""
        with self.block.scope(f"for (int k = {whole}; k < {self.p.k}; ++k)"):
            for s in range(self.strips):
                column = ", ".join(f"x{s}[{i * self.row_step} + k]" for i in range(self.lanes))
                self._add(s, f"({self.vector})({column})", f"y[k * {step}]")

    def _add(self, s: int, column: str, element: str) -> None:
        """Adds a column of strip s times an element of the vector to its sums."""
        y = f"({self.vector})({element})"
        self.block.line(f"c{s} = rx_multiply_add_vector_{self.p.name}({column}, {y}, c{s});")

    def _close_segments(self) -> None:
        for sum in self.sums:
            sum.close(self.block)

    def _store(self, per_item: int) -> None:
        """Stores what is computed from the sums of an item's rows."""
        p, e, block, hero = self.p, self.e, self.block, hero_of(self.p.fusion)
        block.line(f"{self.element} sum[{per_item}];")
        for s, sum in enumerate(self.sums):
            block.line(f"*(vector*)(sum + {s * self.lanes}) = {sum.value if self.segment else sum.chain};")
        with block.scope(f"for (int j = 0; j < {per_item} && first + j < {p.m}; ++j)"):
            block.line("const int m = first + j;")
            # Where the strip began early, the row lies further back in it.
            shifts = [f"first + {s * self.lanes} - m{s}" for s in range(self.strips)]
            shift = shifts[-1]
            for s in reversed(range(self.strips - 1)):
                shift = f"(j < {(s + 1) * self.lanes} ? {shifts[s]} : {shift})"
            value = from_accumulation(e, type_name(hero), p.name, f"sum[j + {shift}]", block)
            indices = p.result(self.g, self.m)
            e.bind(hero, indices, value)
            store_outputs(p.fusion, e, indices, block)


def _required(read: DirectRead | None) -> DirectRead:
    assert read is not None, "what is not read where it lies has no such kernel"
    return read
