"""A matrix times a vector, where the matrix lies along the contraction: its rows are streamed through memory once.

The terms of a row are added in an order that is fixed (contraction_order.py), so the lanes of a vector are rows: square
blocks of the matrix are transposed in registers, and each of the columns that come out is one multiply-add of all its
rows with one element of the vector.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from refxla_spec.module import Instruction

from ...analysis.access_patterns import Access
from ...analysis.contraction_order import segment_terms
from ...analysis.index_expression import Index, constant, variable
from ...device.description import Target
from ...ir.plan import Fusion, Kernel
from ..c_block import Block
from ..element_builder import type_name
from ..elemental_ir_emitter import ElementalIrEmitter
from ..index_printer import c_of
from ..kernel_arguments import hero_of, input_argument, inputs_of, output_argument
from .epilogue import store_outputs
from .packing import VECTORS, direct_access, from_accumulation, open_columns, vector_type
from .product import Indices

BEHIND = 16  # lines of the cache
LONGEST_COMPUTED = 2048  # elements of a vector that is not read where it lies


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

    def _matrix_position(self, g: Index, m: Index, k: Index) -> Access | None:
        return direct_access(self.fusion, self.matrix_operand, self.matrix(g, m, k), self.name)

    def _vector_position(self, g: Index, k: Index) -> Access | None:
        return direct_access(self.fusion, self.vector_operand, self.vector(g, k), self.name)

    def applies(self) -> bool:
        """Whether the matrix is read where it lies, along k, and there are rows enough for a vector; and the vector is
        read where it lies, too, or short enough that each item computes it first."""
        if self.name not in ("f32", "f64") or self.m < VECTORS[self.name][1] or self.k < 16:
            return False
        g, m, k = (variable(c, 0, n - 1) for c, n in (("g", self.groups), ("m", self.m), ("k", self.k)))
        matrix = self._matrix_position(g, m, k)
        if matrix is None or (self._step() is None and not self._can_compute_vector()):
            return False
        return matrix.position.factor("k") == 1 and matrix.position.factor("m") is not None

    def _step(self) -> int | None:
        """How far the vector's elements lie from each other in memory; None if it is computed."""
        g, k = variable("g", 0, self.groups - 1), variable("k", 0, self.k - 1)
        factor = self._vector_position(g, k)
        return None if factor is None else factor.position.factor("k")

    def _can_compute_vector(self) -> bool:
        return self.k <= LONGEST_COMPUTED and type_name(self.vector_operand) == self.name

    def _compute_vector(self, e: ElementalIrEmitter, g: Index, element: str, block: Block) -> int:
        """Compute the vector of a group into y; returns the step between its elements."""
        block.line(f"{element} y[{self.k}];")
        k, scope = e.loop(self.k, block)
        with scope:
            block.line(f"y[{c_of(k)}] = {e.value(self.vector_operand, self.vector(g, k), block)};")
        return 1

    def kernel(self) -> Kernel:
        """The kernel; an item computes some vectors of rows."""
        element, lanes = VECTORS[self.name]
        vector = vector_type(self.name)
        g, m, k = (variable(c, 0, n - 1) for c, n in (("g", self.groups), ("m", self.m), ("k", self.k)))
        matrix, factor, step = _required(self._matrix_position(g, m, k)), self._vector_position(g, k), self._step()
        row_step = matrix.position.factor("m")
        assert row_step is not None
        inputs = set(inputs_of(self.fusion, self.fusion.outputs, self.fusion.hero)) | {matrix.instruction}
        if step is None or factor is None:
            inputs |= set(inputs_of(self.fusion, [self.vector_operand]))
        else:
            inputs.add(factor.instruction)
        reads = [i for i in self.fusion.inputs if i in inputs]
        values = [*reads, *self.fusion.outputs]
        e = ElementalIrEmitter(self.fusion, self.target, {i: f"a{n}" for n, i in enumerate(values)})
        # The chains of several strips overlap: one alone would wait four cycles for each term. Rows that fall on the
        # same few sets of the first cache, as those a power of two apart do, would push each other out: there it is
        # two strips, one some lines after the other.
        enough = self.groups * self.m // (4 * self.target.compute_units * lanes)
        line = 2 * lanes  # the elements of a line of the cache: read at once, before other rows push it out
        alike = row_step * (32 // lanes) % 2048 == 0
        strips = max(1, min(2 if alike else self.target.registers // 8, enough, -(-self.m // lanes)))
        behind = min(BEHIND, self.k // (4 * line)) if alike else 0
        per_item = strips * lanes
        parts = -(-self.m // per_item)
        block = Block()
        block.line(f"typedef {vector} __attribute__((aligned(sizeof({element})))) vector;")
        block.line(f"const int g = item / {parts};")
        block.line(f"const int first = item % {parts} * {per_item};")
        if step is None or factor is None:
            step = self._compute_vector(e, g, element, block)
        else:
            at = _required(self._vector_position(g, constant(0))).position
            block.line(f"__global const {element}* const y = a{values.index(factor.instruction)} + ({c_of(at)});")
        for s in range(strips):
            # Rows beyond the last: the strip begins early, and its own rows alone are stored.
            start = f"first + {s * lanes}"
            block.line(f"const int m{s} = {start} < {self.m - lanes} ? {start} : {self.m - lanes};")
            at = _required(self._matrix_position(g, variable(f"m{s}", 0, self.m - 1), constant(0))).position
            block.line(f"__global const {element}* const x{s} = a{values.index(matrix.instruction)} + ({c_of(at)});")
            block.line(f"{vector} c{s} = ({vector})(0);")
        segment = segment_terms(self.k, self.name)  # a multiple of a line, of whose terms none begins a segment within
        if segment:
            block.line(f"{vector} {', '.join(f't{s} = ({vector})(0)' for s in range(strips))};")
        whole = self.k // line * line
        last = (strips - 1) * behind * line
        with block.scope(f"for (int at = 0; at < {whole + last}; at += {line})"):
            for s in range(strips):
                delay = s * behind * line
                with block.scope(f"if (at >= {delay} && at < {whole + delay})" if last else ""):
                    block.line(f"const int k = at - {delay};")
                    if segment:
                        with block.scope(f"if ((k & {segment - 1}) == 0)"):
                            block.line(f"t{s} = t{s} + c{s};")
                            block.line(f"c{s} = ({vector})(0);")
                    for first in range(0, line, lanes // 2):
                        with block.scope():
                            open_columns(block, self.name, f"x{s} + k + {first}", row_step, "r")
                            for u in range(lanes // 2):
                                y = f"({vector})(y[(k + {first + u}) * {step}])"
                                block.line(f"c{s} = rx_multiply_add_vector_{self.name}(r[{u}], {y}, c{s});")
        if segment and whole < self.k and whole % segment == 0:
            for s in range(strips):
                block.line(f"t{s} = t{s} + c{s};")
                block.line(f"c{s} = ({vector})(0);")
        if whole < self.k:
            with block.scope(f"for (int k = {whole}; k < {self.k}; ++k)"):
                for s in range(strips):
                    column = ", ".join(f"x{s}[{i * row_step} + k]" for i in range(lanes))
                    block.line(
                        f"c{s} = rx_multiply_add_vector_{self.name}(({vector})({column}), "
                        f"({vector})(y[k * {step}]), c{s});"
                    )
        block.line(f"{element} sum[{per_item}];")
        for s in range(strips):
            block.line(f"*(vector*)(sum + {s * lanes}) = {f't{s} + ' if segment else ''}c{s};")
        with block.scope(f"for (int j = 0; j < {per_item} && first + j < {self.m}; ++j)"):
            block.line("const int m = first + j;")
            # Where the strip began early, the row lies further back in it.
            shifts = [f"first + {s * lanes} - m{s}" for s in range(strips)]
            shift = shifts[-1]
            for s in reversed(range(strips - 1)):
                shift = f"(j < {(s + 1) * lanes} ? {shifts[s]} : {shift})"
            value = from_accumulation(e, type_name(hero_of(self.fusion)), self.name, f"sum[j + {shift}]", block)
            indices = self.result(g, m)
            e.bind(hero_of(self.fusion), indices, value)
            store_outputs(self.fusion, e, indices, block)
        arguments = (*map(input_argument, reads), *map(output_argument, self.fusion.outputs))
        items = self.groups * parts
        return Kernel(self.fusion.name, block.text(), arguments, items, wide_vectors=True, global_only=True)


def _required(access: Access | None) -> Access:
    assert access is not None, "what is not read where it lies has no such kernel"
    return access
