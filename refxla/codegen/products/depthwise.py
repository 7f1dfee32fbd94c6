"""Convolutions in which each group has one output feature: depthwise ones, and the gradients of their filters.

The groups lie next to each other in memory, so they are the lanes of vectors. An item walks over pairs of a placing of
the window and a strip of groups; every term is then one vector multiply-add, with the terms in the same order as
everywhere. Elements of the window that miss lhs are left out.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from math import prod

from ...analysis.access_patterns import Access
from ...analysis.contraction_order import segment_terms
from ...analysis.index_expression import Index, constant, delinearize, linearize, variable
from ...device.description import Target
from ...ir.plan import Argument, Fusion, Kernel
from .. import work_items
from ..c_block import Block
from ..element_builder import type_name
from ..elemental_ir_emitter import ElementalIrEmitter
from ..index_printer import c_of
from ..kernel_arguments import hero_of, input_argument, inputs_of, output_argument
from ..sums import SegmentedSum
from .convolution_dimensions import ConvolutionDimensions
from .epilogue import store_outputs
from .implicit_gemm_rows import WindowRows
from .packing import VECTORS, direct_access, from_accumulation, scratch_argument, to_accumulation, vector_type
from .prepacked_constants import can_prepack, constant_value, prepacked_argument

ITEM_TERMS = 1 << 19  # multiply-adds that an item should have


def applies(numbers: ConvolutionDimensions, rows: WindowRows, name: str) -> bool:
    """Whether the groups can be lanes: one output feature each, neighbours in memory, whole vectors of them."""
    lanes = VECTORS[name][1]
    if numbers.n != 1 or numbers.groups % lanes or (numbers.batch_groups > 1 and numbers.batch != 1):
        return False
    return _lane_step(numbers, rows) == 1


def _lane_step(numbers: ConvolutionDimensions, rows: WindowRows) -> int:
    if numbers.batch_groups > 1:
        return rows.strides[numbers.dims.input_batch]
    step: int = numbers.features * rows.strides[numbers.dims.input_feature]
    return step


def kernels(
    fusion: Fusion, target: Target, numbers: ConvolutionDimensions, rows: WindowRows, name: str
) -> tuple[Kernel, ...]:
    """The kernels of such a convolution; `rows` says where lhs lies."""
    d = _Depthwise(fusion, target, numbers, rows, name)
    return tuple(k for k in (rows.stage(), d.stage(), d.kernel()) if k is not None)


class _Depthwise:
    def __init__(
        self, fusion: Fusion, target: Target, numbers: ConvolutionDimensions, rows: WindowRows, name: str
    ) -> None:
        self.fusion, self.target, self.numbers, self.rows, self.name = fusion, target, numbers, rows, name
        self.element, self.lanes = VECTORS[name]
        self.vectors = next(v for v in (4, 2, 1) if numbers.groups % (v * self.lanes) == 0)
        self.width = self.vectors * self.lanes
        self.right = hero_of(fusion).operands[1]
        self.elements = [variable(f"e{d}", 0, size - 1) for d, size in enumerate(numbers.elements)]
        self.feature = variable("f", 0, numbers.features - 1)
        indices = self._right(self.elements, self.feature, variable("c", 0, numbers.groups - 1))
        access = direct_access(fusion, self.right, indices, name)
        self.access = access if access is not None and access.position.factor("c") == 1 else None
        self.prepacked = self.access is None and can_prepack(fusion, self.right, name)

    def _right(self, elements: list[Index], feature: Index, c: Index) -> tuple[Index, ...]:
        n = self.numbers
        return n.right_element(elements, feature, c)

    def stage(self) -> Kernel | None:
        """The kernel that copies rhs to scratch[element of the window][feature][group], unless it lies so already or is
        a constant."""
        if self.access is not None or self.prepacked:
            return None
        n = self.numbers
        inputs = inputs_of(self.fusion, [self.right])
        e = ElementalIrEmitter(self.fusion, self.target, {i: f"a{j}" for j, i in enumerate(inputs)})
        per_item = max(1, work_items.ELEMENTS // n.groups)
        block = Block()
        with block.scope(f"for (int k = item * {per_item}; k < {per_item} * (item + 1) && k < {n.k}; ++k)"):
            with block.scope(f"for (int c = 0; c < {n.groups}; ++c)"):
                *elements, feature = delinearize(variable("k", 0, n.k - 1), (*n.elements, n.features))
                c = variable("c", 0, n.groups - 1)
                value = to_accumulation(e, self.right, self._right(elements, feature, c), self.name, block)
                block.line(f"a{len(inputs)}[{c_of(variable('k', 0, n.k - 1) * n.groups + c)}] = {value};")
        arguments = (*map(input_argument, inputs), self._copy())
        return Kernel(f"{self.fusion.name}.right", block.text(), arguments, -(-n.k // per_item))

    def _copy(self) -> Argument:
        """The copy of rhs: a constant, or scratch memory that the stage fills."""
        n = self.numbers
        if not self.prepacked:
            return scratch_argument(self.fusion, "right", self.name, n.k * n.groups)
        matrix = n.right_matrix(constant_value(self.fusion, self.right, self.name))  # [group, k, 1]
        return prepacked_argument(self.fusion, "right", matrix.transpose(1, 0, 2))

    def kernel(self) -> Kernel:
        n, block, hero = self.numbers, Block(), hero_of(self.fusion)
        inputs = set(inputs_of(self.fusion, self.fusion.outputs, hero))
        accesses = [self.rows.access, self.access]
        inputs |= {a.instruction for a in accesses if a is not None}
        reads = [i for i in self.fusion.inputs if i in inputs]
        values = [*reads, *self.fusion.outputs]
        arguments = [*map(input_argument, reads), *map(output_argument, self.fusion.outputs)]
        e = ElementalIrEmitter(self.fusion, self.target, {i: f"a{j}" for j, i in enumerate(values)})

        def pointer(access: Access | None, copy: Callable[[], Argument]) -> str:
            """The C pointer to an operand where it lies, or to its copy."""
            if access is not None:
                return f"((__global const {self.element}*)a{values.index(access.instruction)})"
            arguments.append(copy())
            return f"a{len(arguments) - 1}"

        left, right = pointer(self.rows.access, self.rows.copy), pointer(self.access, self._copy)
        strips = n.groups // self.width
        order = [n.batch if s is None else n.counts[s] for s in n.order]
        pairs = prod(order) * strips
        per_item = max(1, min(-(-pairs // (4 * self.target.compute_units)), ITEM_TERMS // (n.k * self.width)))
        block.line(f"typedef {vector_type(self.name)} __attribute__((aligned(sizeof({self.element})))) vector;")
        with block.scope(f"for (int p = item * {per_item}; p < {per_item} * (item + 1) && p < {pairs}; ++p)"):
            pair = variable("p", 0, pairs - 1)
            block.line(f"const int strip = {c_of(pair % strips)} * {self.width};")
            parts = dict(zip(n.order, delinearize(pair // strips, order), strict=True))
            self._sums(block, left, right, parts)
            block.line(f"{self.element} sum[{self.width}];")
            for v in range(self.vectors):
                block.line(f"*(vector*)(sum + {v * self.lanes}) = c{v};")
            with block.scope(f"for (int j = 0; j < {self.width}; ++j)"):
                block.line("const int c = strip + j;")
                indices = [constant(0)] * len(n.out)
                indices[n.dims.output_batch] = parts[None]
                indices[n.dims.output_feature] = variable("c", 0, n.groups - 1)
                for s, d in enumerate(n.dims.output_spatial):
                    indices[d] = parts[s]
                e.bind(hero, indices, from_accumulation(e, type_name(hero), self.name, "sum[j]", block))
                store_outputs(self.fusion, e, indices, block)
        return Kernel(self.fusion.name, block.text(), tuple(arguments), -(-pairs // per_item), global_only=True)

    def _sums(self, block: Block, left: str, right: str, parts: dict[int | None, Index]) -> None:
        """Declares the sums c0, c1, ... of the strip, and adds all terms to them."""
        n, strides, vector = self.numbers, self.rows.strides, vector_type(self.name)
        segment = segment_terms(n.k, self.name)
        sums = [SegmentedSum.of_vectors(vector, f"t{v}", f"c{v}") for v in range(self.vectors)]
        for v in range(self.vectors):
            block.line(f"{vector} c{v} = ({vector})(0);")
        if segment:
            block.line(f"{vector} {', '.join(f't{v} = ({vector})(0)' for v in range(self.vectors))};")
            block.line("int segment = 0;")
        position = variable("strip", 0, n.groups - 1) + self.rows.base
        if n.batch_groups == 1:
            position = position + parts[None] * strides[n.dims.input_batch]
        for d in range(len(n.window)):
            block.line(
                f"const int o{d} = {c_of(parts[d])} * {n.window[d].stride} - {n.window[d].padding_low};".replace(
                    "- -", "+ "
                )
            )
        with ExitStack() as scopes:
            for d, w in enumerate(n.window):
                scopes.enter_context(block.scope(f"for (int e{d} = 0; e{d} < {w.size}; ++e{d})"))
                block.line(f"const int at{d} = o{d} + e{d} * {w.window_dilation};")
                dilated = f" || at{d} % {w.base_dilation} != 0" if w.base_dilation > 1 else ""
                limit = (n.sizes[d] - 1) * w.base_dilation
                block.line(f"if (at{d} < 0 || at{d} > {limit}{dilated}) continue;")
                block.line(f"const int s{d} = at{d} / {w.base_dilation};")
                position = position + variable(f"s{d}", 0, n.sizes[d] - 1) * strides[n.dims.input_spatial[d]]
            first = linearize((*self.elements, constant(0)), n.terms)  # number of the first term of the element
            if segment and n.features > 1:
                scopes.enter_context(block.scope(f"for (int f0 = 0, f1; f0 < {n.features}; f0 = f1)"))
                first = first + variable("f0", 0, n.features - 1)
            if segment:
                with block.scope(f"if ({c_of(first // segment)} != segment)"):
                    for sum in sums:
                        sum.close(block)
                    block.line(f"segment = {c_of(first // segment)};")
            if segment and n.features > 1:
                block.line(f"const int rest = (segment + 1) * {segment} - ({c_of(first)});")
                block.line(f"f1 = rest < {n.features} - f0 ? f0 + rest : {n.features};")
                scopes.enter_context(block.scope("for (int f = f0; f < f1; ++f)"))
            elif n.features > 1:
                scopes.enter_context(block.scope(f"for (int f = 0; f < {n.features}; ++f)"))
            if n.features > 1:
                position = position + self.feature * strides[n.dims.input_feature]
            strip = variable("strip", 0, n.groups - 1)
            if self.access is not None:
                at = self._right(self.elements, self.feature, strip)
                direct = direct_access(self.fusion, self.right, at, self.name)
                assert direct is not None  # as `access` is not
                where = direct.position
            else:
                where = linearize((*self.elements, self.feature, strip), (*n.elements, n.features, n.groups))
            block.line(f"__global const {self.element}* const x = {left} + ({c_of(position)});")
            block.line(f"__global const {self.element}* const y = {right} + ({c_of(where)});")
            for v in range(self.vectors):
                a, b = (f"*(__global const vector*)({p} + {v * self.lanes})" for p in "xy")
                block.line(f"c{v} = rx_multiply_add_vector_{self.name}({a}, {b}, c{v});")
        if segment:
            for sum in sums:
                block.line(f"{sum.chain} = {sum.value};")
