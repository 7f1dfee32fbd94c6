"""A convolution as a matrix product: the numbering of its rows, and the indices of operands and result."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, prod
from typing import TypeVar

import numpy as np
from refxla_spec.module import Instruction

from ...analysis.index_expression import Index, constant, delinearize
from ...analysis.index_maps import Condition
from ..index_printer import c_of_conditions
from .convolution_dimensions import ConvolutionDimensions
from .product import Indices

T = TypeVar("T", Index, np.ndarray)


class ImplicitGemm(ConvolutionDimensions):
    """A convolution as a matrix product: its sizes, and the indices of operands and result for g, m, n and k.

    g counts the phases of each group, `phases` of them. `periods[d]` is the number of phases of spatial dimension d,
    `placings[d]` of placings in one phase, at most. m runs over the batch and the placings in their order in the
    result or, with `batch_last`, over the batch within each placing, so that all those rows use the same elements of
    the window.
    """

    def __init__(self, hero: Instruction, batch_last: bool = False) -> None:
        super().__init__(hero)
        self.periods = tuple(w.base_dilation // gcd(w.base_dilation, w.stride) for w in self.window)
        self.placings = tuple(-(-c // p) for c, p in zip(self.counts, self.periods, strict=True))
        self.phases: int = prod(self.periods)
        self.order = self.row_order(batch_last)
        self.m_sizes = [self.batch if s is None else self.placings[s] for s in self.order]
        self.m = prod(self.m_sizes)
        self.alike = self.batch if batch_last else 1  # so many rows, from each multiple of it on, have the same placing

    def left(self, g: Index, m: Index, k: Index) -> Indices:
        """The indices of lhs, if the whole window lies inside."""
        batch, placing = self.row(m)
        *elements, feature = delinearize(k, self.terms)
        return self._left_element(self.group(g), batch, placing, elements, feature)

    def left_matrix(self, value: np.ndarray) -> np.ndarray:
        """The value of lhs as [g, m, k], if the whole window lies inside (`is_plain`)."""
        sizes = (self.groups, *self.m_sizes, *self.terms)
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
        *elements, feature = delinearize(k, self.terms)
        return self.right_element(elements, feature, self.group(g) * self.n + n)

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
