"""The common part of convolutions whose groups have one output feature each, so that packing for a matrix product does
not pay: vectors of result elements are summed term by term, in tiles.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from ...analysis.access_patterns import Access
from ...analysis.contraction_order import segment_terms
from ...analysis.index_expression import Index, delinearize, linearize, variable
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
from .convolution_input import ConvolutionInput
from .epilogue import store_outputs
from .packing import VECTORS, direct_access, from_accumulation, scratch_argument, to_accumulation, vector_type
from .prepacked_constants import can_prepack, constant_value, prepacked_argument

ITEM_TERMS = 1 << 19  # multiply-adds that an item should have


class GroupFilters:
    """The filters, by element of the window, input feature and group: `elements`, `feature` and `group` are variables
    for these, named e0, e1, ..., f and c. They are read in place if they are a plain input whose neighbours along the
    variable named `lane` are at a constant distance, which is `step` if given; otherwise from a copy.

    `access` is None where they are copied.
    """

    def __init__(
        self, fusion: Fusion, target: Target, numbers: ConvolutionDimensions, name: str, lane: str, step: int | None
    ) -> None:
        self.fusion, self.target, self.numbers, self.name = fusion, target, numbers, name
        self.operand = hero_of(fusion).operands[1]
        self.elements = [variable(f"e{d}", 0, size - 1) for d, size in enumerate(numbers.elements)]
        self.feature = variable("f", 0, numbers.features - 1)
        self.group = variable("c", 0, numbers.groups - 1)
        place = numbers.right_element(self.elements, self.feature, self.group)
        access = direct_access(fusion, self.operand, place, name)
        apart = None if access is None else access.position.factor(lane)
        self.access = access if apart is not None and step in (None, apart) else None
        self.prepacked = self.access is None and can_prepack(fusion, self.operand, name)

    def position(self, elements: Sequence[Index], feature: Index, group: Index) -> Index:
        """The position of an element in memory."""
        n = self.numbers
        if self.access is None:
            return linearize((*elements, feature, group), (*n.elements, n.features, n.groups))
        direct = direct_access(self.fusion, self.operand, n.right_element(elements, feature, group), self.name)
        assert direct is not None  # as `access` is not
        return direct.position

    def stage(self) -> Kernel | None:
        """The kernel that copies rhs to scratch[element of the window][feature][group], unless it has this layout
        already or is a constant."""
        if self.access is not None or self.prepacked:
            return None
        n = self.numbers
        inputs = inputs_of(self.fusion, [self.operand])
        e = ElementalIrEmitter(self.fusion, self.target, {i: f"a{j}" for j, i in enumerate(inputs)})
        per_item = max(1, work_items.ELEMENTS // n.groups)
        block = Block()
        with block.scope(f"for (int k = item * {per_item}; k < {per_item} * (item + 1) && k < {n.k}; ++k)"):
            with block.scope(f"for (int c = 0; c < {n.groups}; ++c)"):
                *elements, feature = delinearize(variable("k", 0, n.k - 1), (*n.elements, n.features))
                place = n.right_element(elements, feature, self.group)
                value = to_accumulation(e, self.operand, place, self.name, block)
                block.line(f"a{len(inputs)}[{c_of(variable('k', 0, n.k - 1) * n.groups + self.group)}] = {value};")
        arguments = (*map(input_argument, inputs), self.copy())
        return Kernel(f"{self.fusion.name}.right", block.text(), arguments, -(-n.k // per_item))

    def copy(self) -> Argument:
        """The copy of rhs: a constant, or scratch memory that the stage fills."""
        n = self.numbers
        if not self.prepacked:
            return scratch_argument(self.fusion, "right", self.name, n.k * n.groups)
        matrix = n.right_matrix(constant_value(self.fusion, self.operand, self.name))  # [group, k, 1]
        return prepacked_argument(self.fusion, "right", matrix.transpose(1, 0, 2))


class GroupConvolution(ABC):
    """The kernels of such a convolution. A tile is `vectors` vectors of elements of the result; `input` gives the
    position of lhs."""

    def __init__(
        self,
        fusion: Fusion,
        target: Target,
        numbers: ConvolutionDimensions,
        input: ConvolutionInput,
        name: str,
        vectors: int,
        filters: GroupFilters,
    ) -> None:
        self.fusion, self.target, self.numbers, self.input, self.name = fusion, target, numbers, input, name
        self.element, self.lanes = VECTORS[name]
        self.vectors, self.width, self.filters = vectors, vectors * self.lanes, filters
        self.segment = segment_terms(numbers.k, name)
        self.sums = [SegmentedSum.of_vectors(vector_type(name), f"t{v}", f"c{v}") for v in range(vectors)]

    @property
    @abstractmethod
    def tiles(self) -> int:
        """How many there are."""

    @abstractmethod
    def add_terms(self, left: str, right: str, tile: Index, block: Block) -> None:
        """Add all terms of a tile to the sums c0, c1, ...; `left` and `right` are pointers to lhs and rhs."""

    @abstractmethod
    def result(self, tile: Index) -> tuple[str, list[Index]]:
        """The number of valid elements of a tile, as C, and the indices of element j."""

    def kernels(self) -> tuple[Kernel, ...]:
        """All kernels: those that copy an operand, and the convolution."""
        return tuple(k for k in (self.input.stage(), self.filters.stage(), self._kernel()) if k is not None)

    def _kernel(self) -> Kernel:
        block, hero = Block(), hero_of(self.fusion)
        inputs = set(inputs_of(self.fusion, self.fusion.outputs, hero))
        accesses = [self.input.access, self.filters.access]
        inputs |= {a.instruction for a in accesses if a is not None}
        reads = [i for i in self.fusion.inputs if i in inputs]
        values = [*reads, *self.fusion.outputs]
        arguments = [*map(input_argument, reads), *map(output_argument, self.fusion.outputs)]
        e = ElementalIrEmitter(self.fusion, self.target, {i: f"a{j}" for j, i in enumerate(values)})

        def pointer(access: Access | None, copy: Callable[[], Argument]) -> str:
            """The C pointer to an operand, in place or copied."""
            if access is not None:
                return f"((__global const {self.element}*)a{values.index(access.instruction)})"
            arguments.append(copy())
            return f"a{len(arguments) - 1}"

        left, right = pointer(self.input.access, self.input.copy), pointer(self.filters.access, self.filters.copy)
        tiles, terms = self.tiles, self.numbers.k * self.width
        per_item = max(1, min(-(-tiles // (4 * self.target.compute_units)), ITEM_TERMS // terms))
        block.line(f"typedef {vector_type(self.name)} __attribute__((aligned(sizeof({self.element})))) vector;")
        with block.scope(f"for (int p = item * {per_item}; p < {per_item} * (item + 1) && p < {tiles}; ++p)"):
            tile = variable("p", 0, tiles - 1)
            self._declare_sums(block)
            self.add_terms(left, right, tile, block)
            if self.segment:
                for sum in self.sums:
                    block.line(f"{sum.chain} = {sum.value};")
            block.line(f"{self.element} sum[{self.width}];")
            for v in range(self.vectors):
                block.line(f"*(vector*)(sum + {v * self.lanes}) = c{v};")
            count, indices = self.result(tile)
            with block.scope(f"for (int j = 0; j < {count}; ++j)"):
                e.bind(hero, indices, from_accumulation(e, type_name(hero), self.name, "sum[j]", block))
                store_outputs(self.fusion, e, indices, block)
        return Kernel(self.fusion.name, block.text(), tuple(arguments), -(-tiles // per_item), global_only=True)

    def _declare_sums(self, block: Block) -> None:
        vector = vector_type(self.name)
        for v in range(self.vectors):
            block.line(f"{vector} c{v} = ({vector})(0);")
        if self.segment:
            block.line(f"{vector} {', '.join(f't{v} = ({vector})(0)' for v in range(self.vectors))};")
            block.line("int segment = 0;")

    def open_segment(self, first: Index, block: Block) -> None:
        """The statements that end a segment before term number `first`, if that is in a later one."""
        with block.scope(f"if ({c_of(first // self.segment)} != segment)"):
            for sum in self.sums:
                sum.close(block)
            block.line(f"segment = {c_of(first // self.segment)};")
