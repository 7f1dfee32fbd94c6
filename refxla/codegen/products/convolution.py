"""The kernels of kind "convolution": windows as the rows of a matrix product, with what is computed before and after.

    result[g, m, n] = sum over k of left[g, m, k] * right[g, k, n]

g counts the groups of features or of the batch, n the output features of a group, m the placings of the window in the
order in which the result has them in memory, k the elements of the window, row by row, and within each the input
features. The rows of the left side are never written out: row m at element k of the window is a stretch of lhs that
begins where that placing puts that element. Elements that miss lhs are left out of the sum.

Forward, gradient of the input and gradient of the filter are all this one form. With a base dilation d, as the
gradient of a strided convolution has it, only every d-th element of the window meets lhs, and which depends on the
placing modulo d: the placings are counted phase by phase (phases are part of g), so that all rows of a tile agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, prod

import numpy as np
from refxla_spec.module import Instruction

from ...analysis.index_expression import Index, all_of, below, constant, delinearize
from ...device.description import Target
from ...ir.plan import Fusion, Kernel
from ..elemental_rules import type_name
from ..loops import elementwise
from . import depthwise
from .dot import DotRows
from .gemm import Indices, Product, kernels
from .implicit_gemm_rows import WindowRows
from .packing import accumulation_type

TINY = 2048  # products up to which plain loops are as quick


def emit(fusion: Fusion, target: Target) -> tuple[Kernel, ...]:
    """The kernels of a convolution with its producers and consumers.

    The outputs are elementwise in the convolution, or reshapes of what is. Types without vectors of their own, and tiny
    convolutions, become plain loops.
    """
    hero = fusion.hero
    numbers = ConvolutionNumbers(hero)
    name = accumulation_type(type_name(hero))
    small = hero.shape.size * numbers.k <= max(TINY, 0) or 0 in numbers.lhs
    if name is None or small or target.kind != "cpu" or (name == "f64" and not target.fp64):
        return elementwise.emit(fusion, target)
    windows = WindowRows(fusion, target, numbers, name)
    if depthwise.applies(numbers, windows, name):
        return depthwise.kernels(fusion, target, numbers, windows, name)
    rows = DotRows(fusion, target, numbers, name) if numbers.is_plain else windows
    if not (numbers.is_plain and (rows.local or rows.access is not None)):
        rows = windows
    return kernels(
        Product(
            fusion, target, name, numbers.groups * numbers.phases, numbers.m, numbers.n, numbers.k,
            rows, hero.operands[1], numbers.right, numbers.result, numbers.terms, numbers.right_matrix, numbers.phases,
        )
    )  # fmt: skip


class ConvolutionNumbers:
    """A convolution as a matrix product: its sizes, and the indices of operands and result for g, m, n and k.

    `periods[d]` is the number of phases of spatial dimension d, `placings[d]` of placings in one phase, at most.
    """

    def __init__(self, hero: Instruction) -> None:
        a = hero.attributes
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
        self.phases = prod(self.periods)
        # m runs over the batch (None) and the spatial dimensions as they follow each other in the result.
        spatial = {d: s for s, d in enumerate(self.dims.output_spatial)}
        self.order = [spatial.get(d) for d in range(len(self.out)) if d != self.dims.output_feature]
        self.m_sizes = [self.batch if s is None else self.placings[s] for s in self.order]
        self.m = prod(self.m_sizes)

    @property
    def is_plain(self) -> bool:
        """Whether every element of the window meets an element of lhs, so that a row is one of a matrix."""
        last = (
            (c - 1) * w.stride + (w.size - 1) * w.window_dilation - w.padding_low
            for c, w in zip(self.counts, self.window, strict=True)
        )
        inside = all(at < size for at, size in zip(last, self.sizes, strict=True))
        return inside and all(w.base_dilation == 1 and w.padding_low <= 0 for w in self.window)

    def left(self, g: Index, m: Index, k: Index) -> Indices:
        """The indices of lhs, if all of the window lies inside."""
        batch, placing = self.row(m)
        *elements, feature = delinearize(k, (*self.elements, self.features))
        indices: list[Index] = [constant(0)] * len(self.lhs)
        group = self.group(g)
        indices[self.dims.input_batch] = group * self.batch + batch if self.batch_groups > 1 else batch
        indices[self.dims.input_feature] = group * self.features + feature if self.feature_groups > 1 else feature
        for d, place, element, w in zip(self.dims.input_spatial, placing, elements, self.window, strict=True):
            indices[d] = place * w.stride + element * w.window_dilation - w.padding_low
        return tuple(indices)

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
        value = np.flip(value, reversed_).transpose(*d.kernel_spatial, d.kernel_input_feature, d.kernel_output_feature)
        return value.reshape(self.k, self.groups, self.n).transpose(1, 0, 2)

    def result(self, g: Index, m: Index, n: Index) -> tuple[Indices, bool | str]:
        """The indices of the convolution itself, and the condition under which that element exists."""
        batch, placing = self.row(m)
        indices: list[Index] = [constant(0)] * len(self.out)
        indices[self.dims.output_batch] = batch
        indices[self.dims.output_feature] = self.group(g) * self.n + n
        exists = []
        for d, place, phase, period, count in zip(
            self.dims.output_spatial, placing, self.phase(g), self.periods, self.counts, strict=True
        ):
            indices[d] = place * period + phase
            exists.append(below(indices[d], count))
        return tuple(indices), all_of(*exists)
