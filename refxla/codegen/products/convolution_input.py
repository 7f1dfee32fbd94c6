"""Where lhs, the input of a convolution, lies: in place, or in a copy that a kernel makes."""

from __future__ import annotations

from math import prod

from refxla_spec.module import Instruction

from ...analysis.index_expression import constant, delinearize, variable
from ...device.description import Target
from ...ir.plan import Argument, Fusion, Kernel
from .. import work_items
from ..c_block import Block
from ..elemental_ir_emitter import ElementalIrEmitter
from ..index_printer import c_of
from ..kernel_arguments import hero_of, input_argument, inputs_of
from .convolution_dimensions import ConvolutionDimensions
from .packing import VECTORS, direct_access, scratch_argument, to_accumulation

SMALL = 4096  # elements of lhs that are read in place even where features are not contiguous


class ConvolutionInput:
    """lhs, with elements of the accumulation type `name`, read in place if features are contiguous.

    The layout of a copy is [batch][spatial...][feature]. Where the batch is the last dimension of lhs, as in the
    gradient of the filter, it is [spatial...][feature][batch], so that the copy reads and writes contiguous memory.

    `access` is the Access in place (None: lhs is copied), `strides` the distances of elements by dimension of lhs,
    `base` the position of element 0.
    """

    def __init__(self, fusion: Fusion, target: Target, dimensions: ConvolutionDimensions, name: str) -> None:
        self.fusion, self.target, self.dimensions, self.name = fusion, target, dimensions, name
        self.operand = hero_of(fusion).operands[0]
        self.element = VECTORS[name][0]
        self.strides: dict[int, int] = {}
        n = dimensions
        labels = [variable(f"d{d}", 0, size - 1) for d, size in enumerate(n.lhs)]
        self.access = direct_access(fusion, self.operand, labels, name)
        if self.access is not None:
            position = self.access.position
            steps = {d: position.factor(f"d{d}") if size > 1 else 0 for d, size in enumerate(n.lhs)}
            feature, features = n.dims.input_feature, n.features * n.feature_groups
            together = steps[feature] == 1 or features == 1 or prod(n.lhs) <= SMALL
            self.strides = {d: step for d, step in steps.items() if step is not None}
            self.base = position.constant
            if len(self.strides) < len(steps) or not together:
                self.access = None
        if self.access is None:
            step, self.base = 1, 0
            for d in reversed(self._layout):
                self.strides[d] = step
                step *= n.lhs[d]

    @property
    def _layout(self) -> tuple[int, ...]:
        """The dimensions of lhs in the order of a copy."""
        dims = self.dimensions.dims
        batch, feature, spatial = dims.input_batch, dims.input_feature, dims.input_spatial
        last = batch == len(self.dimensions.lhs) - 1
        return (*spatial, feature, batch) if last else (batch, *spatial, feature)

    def pointer(self) -> Instruction | Argument:
        """The input that is read as lhs, or the argument with its copy."""
        return self.copy() if self.access is None else self.access.instruction

    def copy(self) -> Argument:
        """The argument with the copy of lhs."""
        return scratch_argument(self.fusion, "left", self.name, prod(self.dimensions.lhs))

    def stage(self) -> Kernel | None:
        """The kernel that copies lhs, if it is copied."""
        if self.access is not None:
            return None
        sizes = [self.dimensions.lhs[d] for d in self._layout]
        inputs = inputs_of(self.fusion, [self.operand])
        e = ElementalIrEmitter(self.fusion, self.target, {i: f"a{j}" for j, i in enumerate(inputs)})
        *outer, inner = sizes
        rows = prod(outer)
        per_item = max(1, work_items.ELEMENTS // inner)
        block = Block()
        with block.scope(f"for (int s = item * {per_item}; s < {per_item} * (item + 1) && s < {rows}; ++s)"):
            with block.scope(f"for (int u = 0; u < {inner}; ++u)"):
                s, u = variable("s", 0, rows - 1), variable("u", 0, inner - 1)
                indices = [constant(0)] * len(sizes)
                for d, index in zip(self._layout, (*delinearize(s, outer), u), strict=True):
                    indices[d] = index
                value = to_accumulation(e, self.operand, indices, self.name, block)
                block.line(f"a{len(inputs)}[{c_of(s * inner + u)}] = {value};")
        arguments = (*map(input_argument, inputs), self.copy())
        return Kernel(f"{self.fusion.name}.left", block.text(), arguments, -(-rows // per_item))
