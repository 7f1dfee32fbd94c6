"""A convolution as a matrix product: its sizes, and the indices of operands and result."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, prod
from typing import TypeVar

import numpy as np
from refxla_spec.module import Instruction

from ...analysis.index_expression import Index, constant, delinearize
from ...analysis.index_maps import Condition
from ..index_printer import c_of_conditions
from .product import Indices

T = TypeVar("T", Index, np.ndarray)


class ImplicitGemm:
    """A convolution as a matrix product: its sizes, and the indices of operands and result for g, m, n and k.

    `periods[d]` is the number of phases of spatial dimension d, `placings[d]` of placings in one phase, at most.
    """

    def __init__(self, hero: Instruction) -> None:
        a = hero.attributes
        self.left_operand, self.right_operand = hero.operands
        self.lhs, self.rhs = hero.operands[0].shape.dimensions, hero.operands[1].shape.dimensions
        self.out = hero.shape.dimensions
        self.dims = a["dim_labels"]
        self.window = tuple(a.get("window", ()))
        self.feature_groups = a.get("feature_group_count", 1)
        self.batch_groups = a.get("batch_group_count", 1)
        self.groups = self.feature_groups * self.batch_groups  # one of them is 1
        self.batch = self.out[self.dims.output_batch]
        self.features = self.rhs[self.dims.kernel_input_feature]  # of the input, in a group
        self.n = self.rhs[self.dims.kernel_output_feature] // self.groups
        self.sizes = tuple(self.lhs[d] for d in self.dims.input_spatial)
        self.counts = tuple(self.out[d] for d in self.dims.output_spatial)
        self.elements = tuple(w.size for w in self.window)
        self.terms = (*self.elements, self.features)
        self.k = prod(self.terms)
        self.periods = tuple(w.base_dilation // gcd(w.base_dilation, w.stride) for w in self.window)
        self.placings = tuple(-(-c // p) for c, p in zip(self.counts, self.periods, strict=True))
        self.phases: int = prod(self.periods)
        # m runs over the batch (None) and the spatial dimensions in their order in the result.
        spatial = {d: s for s, d in enumerate(self.dims.output_spatial)}
        self.order = [spatial.get(d) for d in range(len(self.out)) if d != self.dims.output_feature]
        self.m_sizes = [self.batch if s is None else self.placings[s] for s in self.order]
        self.m = prod(self.m_sizes)
        self.alike = 1  # so many rows, from each multiple of it on, have the same placing

    def put_batch_last(self) -> None:
        """Lets m run over the batch within each placing: all those rows use the same elements of the window."""
        self.order = [s for s in self.order if s is not None] + [None]
        self.m_sizes = [self.batch if s is None else self.placings[s] for s in self.order]
        self.alike = self.batch

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

    def left(self, g: Index, m: Index, k: Index) -> Indices:
        """The indices of lhs, if the whole window lies inside."""
        batch, placing = self.row(m)
        *elements, feature = delinearize(k, (*self.elements, self.features))
        return self._left_element(self.group(g), batch, placing, elements, feature)

    def left_matrix(self, value: np.ndarray) -> np.ndarray:
        """The value of lhs as [g, m, k], if the whole window lies inside (`is_plain`)."""
        sizes = (self.groups, *self.m_sizes, *self.elements, self.features)
        g, *parts, feature = np.ogrid[tuple(slice(size) for size in sizes)]
        rows = dict(zip(self.order, parts, strict=False))
        placing, elements = [rows[s] for s in range(len(self.window))], parts[len(self.order) :]
        matrix: np.ndarray = value[self._left_element(g, rows[None], placing, elements, feature)]
        return matrix.reshape(self.groups, self.m, self.k)

    def _left_element(
        self, group: T, batch: T, placing: Sequence[T], elements: Sequence[T], feature: T
    ) -> tuple[T, ...]:
        """The indices of lhs for a group, a row and a term."""
        indices = {
            self.dims.input_batch: group * self.batch + batch if self.batch_groups > 1 else batch,
            self.dims.input_feature: group * self.features + feature if self.feature_groups > 1 else feature,
        }
        for d, place, element, w in zip(self.dims.input_spatial, placing, elements, self.window, strict=True):
            indices[d] = place * w.stride + element * w.window_dilation - w.padding_low
        return tuple(indices[d] for d in range(len(self.lhs)))

    def row(self, m: Index) -> tuple[Index, tuple[Index, ...]]:
        """The batch and the placing, within its phase, of row m."""
        parts = dict(zip(self.order, delinearize(m, self.m_sizes), strict=True))
        return parts[None], tuple(parts[s] for s in range(len(self.window)))

    def phase(self, g: Index) -> tuple[Index, ...]:
        """The phase of each spatial dimension."""
        return delinearize(g % self.phases, self.periods)

    def group(self, g: Index) -> Index:
        """The group of features or of the batch."""
        return g // self.phases

    def right(self, g: Index, k: Index, n: Index) -> Indices:
        """The indices of rhs."""
        *elements, feature = delinearize(k, (*self.elements, self.features))
        return self.right_element(elements, feature, self.group(g) * self.n + n)

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

    def result(self, g: Index, m: Index, n: Index) -> tuple[Indices, bool | str]:
        """The indices of the convolution itself, and the condition that the element exists."""
        batch, placing = self.row(m)
        indices: list[Index] = [constant(0)] * len(self.out)
        indices[self.dims.output_batch] = batch
        indices[self.dims.output_feature] = self.group(g) * self.n + n
        exists = []
        for d, place, phase, period, count in zip(
            self.dims.output_spatial, placing, self.phase(g), self.periods, self.counts, strict=True
        ):
            indices[d] = place * period + phase
            exists.append(Condition(indices[d], "<", count))
        return tuple(indices), c_of_conditions(exists)
