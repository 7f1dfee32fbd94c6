"""The dimension numbers and sizes of a convolution, as all its emitters use them."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from refxla_spec.module import Instruction

from ...analysis.index_expression import Index, constant
from .product import Indices


class ConvolutionDimensions:
    """What each dimension of a convolution's operands and result counts, and how much. A term of a sum is an element of
    the window and an input feature of the group."""

    def __init__(self, hero: Instruction) -> None:
        a = hero.attributes
        self.left_operand, self.right_operand = hero.operands
        self.lhs, self.rhs = hero.operands[0].shape.dimensions, hero.operands[1].shape.dimensions
        self.out = hero.shape.dimensions
        self.dims = a["dim_labels"]
        # The groups, of features or of the batch.
        self.feature_groups = a.get("feature_group_count", 1)
        self.batch_groups = a.get("batch_group_count", 1)
        self.groups = self.feature_groups * self.batch_groups  # one of them is 1
        self.batch = self.out[self.dims.output_batch]
        self.features = self.rhs[self.dims.kernel_input_feature]  # of the input, in a group
        self.n = self.rhs[self.dims.kernel_output_feature] // self.groups
        # The spatial dimensions.
        self.window = tuple(a.get("window", ()))
        self.sizes = tuple(self.lhs[d] for d in self.dims.input_spatial)
        self.counts = tuple(self.out[d] for d in self.dims.output_spatial)
        self.elements: tuple[int, ...] = tuple(w.size for w in self.window)
        self.terms = (*self.elements, self.features)
        self.k = prod(self.terms)

    def row_order(self, batch_last: bool = False) -> list[int | None]:
        """The spatial dimensions, and None for the batch, in their order in the result, or with the batch last."""
        spatial = {d: s for s, d in enumerate(self.dims.output_spatial)}
        order = [spatial.get(d) for d in range(len(self.out)) if d != self.dims.output_feature]
        return [*(s for s in order if s is not None), None] if batch_last else order

    @property
    def outside(self) -> float:
        """The share of the products that are left out because an element of the window lies before or after lhs."""
        inside = 1.0
        for w, count, size in zip(self.window, self.counts, self.sizes, strict=True):
            meets = 0
            for element in range(w.size):
                # Placings whose element lies at or after the first element of lhs, and at or before the last.
                offset = element * w.window_dilation - w.padding_low
                first = max(0, -(offset // w.stride))
                last = min(count - 1, ((size - 1) * w.base_dilation - offset) // w.stride)
                meets += max(0, last - first + 1)
            inside *= meets / (count * w.size)
        return 1 - inside

    @property
    def is_plain(self) -> bool:
        """Whether every element of the window meets an element of lhs, so that the rows are those of a matrix."""
        last = (
            (c - 1) * w.stride + (w.size - 1) * w.window_dilation - w.padding_low
            for c, w in zip(self.counts, self.window, strict=True)
        )
        inside = all(at < size for at, size in zip(last, self.sizes, strict=True))
        return inside and all(w.base_dilation == 1 and w.padding_low <= 0 for w in self.window)

    def right_element(self, elements: Sequence[Index], feature: Index, output: Index) -> Indices:
        """The indices of rhs for an element of the window, an input feature of the group and an output feature."""
        indices: list[Index] = [constant(0)] * len(self.rhs)
        indices[self.dims.kernel_input_feature] = feature
        indices[self.dims.kernel_output_feature] = output
        for d, element, w in zip(self.dims.kernel_spatial, elements, self.window, strict=True):
            indices[d] = w.size - 1 - element if w.reversal else element
        return tuple(indices)

    def right_matrix(self, value: np.ndarray) -> np.ndarray:
        """The value of rhs as [group of features or of the batch, k, n]."""
        d = self.dims
        reversed_ = tuple(s for s, w in zip(d.kernel_spatial, self.window, strict=True) if w.reversal)
        order = (*d.kernel_spatial, d.kernel_input_feature, d.kernel_output_feature)
        matrix: np.ndarray = np.flip(value, reversed_).transpose(order)
        groups: np.ndarray = matrix.reshape(self.k, self.groups, self.n).transpose(1, 0, 2)
        return groups
