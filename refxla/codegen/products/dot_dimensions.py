"""A dot as a matrix product: its sizes, and the indices of operands and result."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from refxla_spec.module import Instruction

from ...analysis.index_expression import Index, constant, delinearize
from .product import Indices


class DotDimensions:
    """The dimension numbers of a dot as those of a matrix product: sizes, and indices for g, m, n and k."""

    def __init__(self, hero: Instruction) -> None:
        a = hero.attributes
        self.left_operand, self.right_operand = hero.operands
        self.lhs, self.rhs = hero.operands[0].shape.dimensions, hero.operands[1].shape.dimensions
        self.lhs_batch, self.rhs_batch = a.get("lhs_batch_dims", ()), a.get("rhs_batch_dims", ())
        self.lhs_contracting, self.rhs_contracting = (
            a.get("lhs_contracting_dims", ()),
            a.get("rhs_contracting_dims", ()),
        )
        self.lhs_free = [d for d in range(len(self.lhs)) if d not in (*self.lhs_batch, *self.lhs_contracting)]
        self.rhs_free = [d for d in range(len(self.rhs)) if d not in (*self.rhs_batch, *self.rhs_contracting)]
        self.groups = prod(self.lhs[d] for d in self.lhs_batch)
        self.m = prod(self.lhs[d] for d in self.lhs_free)
        self.n = prod(self.rhs[d] for d in self.rhs_free)
        self.terms = [self.lhs[d] for d in self.lhs_contracting]
        self.k = prod(self.terms)

    def left(self, g: Index, m: Index, k: Index) -> Indices:
        """The indices of lhs."""
        return _place(self.lhs, (self.lhs_batch, g), (self.lhs_free, m), (self.lhs_contracting, k))

    def right(self, g: Index, k: Index, n: Index) -> Indices:
        """The indices of rhs."""
        return _place(self.rhs, (self.rhs_batch, g), (self.rhs_free, n), (self.rhs_contracting, k))

    def left_matrix(self, value: np.ndarray) -> np.ndarray:
        """The value of lhs as [g, m, k]."""
        ordered: np.ndarray = value.transpose(*self.lhs_batch, *self.lhs_free, *self.lhs_contracting)
        return ordered.reshape(self.groups, self.m, self.k)

    def right_matrix(self, value: np.ndarray) -> np.ndarray:
        """The value of rhs as [g, k, n]."""
        ordered: np.ndarray = value.transpose(*self.rhs_batch, *self.rhs_contracting, *self.rhs_free)
        return ordered.reshape(self.groups, self.k, self.n)

    def result(self, g: Index, m: Index, n: Index) -> Indices:
        """The indices of the dot itself."""
        batch = delinearize(g, [self.lhs[d] for d in self.lhs_batch])
        rows = delinearize(m, [self.lhs[d] for d in self.lhs_free])
        return (*batch, *rows, *delinearize(n, [self.rhs[d] for d in self.rhs_free]))


class SwappedDimensions:
    """A dot with its operands swapped: result[g, n, m] = sum over k of right[g, n, k] * left[g, k, m]. Its bits are the
    same, since each term is the product of the same two numbers."""

    def __init__(self, dot: DotDimensions) -> None:
        self.dot, self.groups, self.m, self.n, self.k, self.terms = dot, dot.groups, dot.n, dot.m, dot.k, dot.terms
        self.left_operand, self.right_operand = dot.right_operand, dot.left_operand

    def left(self, g: Index, m: Index, k: Index) -> Indices:
        return self.dot.right(g, k, m)

    def right(self, g: Index, k: Index, n: Index) -> Indices:
        return self.dot.left(g, n, k)

    def left_matrix(self, value: np.ndarray) -> np.ndarray:
        transposed: np.ndarray = self.dot.right_matrix(value).transpose(0, 2, 1)
        return transposed

    def right_matrix(self, value: np.ndarray) -> np.ndarray:
        transposed: np.ndarray = self.dot.left_matrix(value).transpose(0, 2, 1)
        return transposed

    def result(self, g: Index, m: Index, n: Index) -> Indices:
        return self.dot.result(g, n, m)


def _place(sizes: tuple[int, ...], *groups: tuple[Sequence[int], Index]) -> Indices:
    indices: list[Index] = [constant(0)] * len(sizes)
    for dims, position in groups:
        for d, index in zip(dims, delinearize(position, [sizes[d] for d in dims]), strict=True):
            indices[d] = index
    return tuple(indices)
