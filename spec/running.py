"""Numbers that carry a bound of their error: a formula written with them bounds the error of whoever computes it.

`Running(value, error, u)` stands for all that a computation may have in place of an exact array, when each of its
operations is rounded with the unit roundoff u: numbers within `error` of `value`. The operators compute the value in
f64 (or a wider type that it has), carry the operands' errors on, and add what the operation itself may round off, which
is ROUNDINGS times u: a quotient may be a product with a rounded reciprocal, a square root one with a rounded rsqrt.
Sums of n terms add n u sum |terms|, in whatever order they are added. Nothing is known of what overflows the type that
is computed in, which the order of the steps decides, whatever becomes of it: another order may have no infinity, or no
NaN, where this one has. What is below its normal numbers is off by its smallest one, too.

bounds_matrices.py states the operations that take several steps (batch-norm, cholesky, triangular-solve) in these.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from .types import Array

ROUNDINGS = 3.0  # of one operation that is not a sum: of x / y as x * rsqrt(y)^2, the rounding of each factor


@dataclass(frozen=True, eq=False)
class Running:
    """An array of f64 or c128 (or wider), for each element a bound of the error, and the unit roundoff computed with.

    Dimensions broadcast, as NumPy's do. An error of inf says that nothing is known of a finite number. `overflow` says
    of which elements nothing is known at all: something on the way to them is finite, but not in the type computed in.
    """

    value: Array
    error: Array
    u: float
    overflow: Array = field(default_factory=lambda: np.array(False))

    @property
    def size(self) -> Array:
        """The largest modulus that an element may have."""
        return np.abs(self.value).astype(np.float64) + self.error

    def unless_overflow(self, *sizes: Array) -> Running:
        """The same, but nothing is known where one of these sizes is no finite number of the type computed in."""
        largest = float(_info(self.u).max)
        within = np.array(True)
        for size in sizes:
            within = within & (size <= largest)
        return replace(self, error=np.where(within | ~np.isfinite(self.value), self.error, np.inf))

    def __getitem__(self, index: Any) -> Running:
        overflow = np.broadcast_to(self.overflow, self.value.shape)
        return Running(self.value[index], self.error[index], self.u, overflow[index])

    def __add__(self, other: Running) -> Running:
        return self._rounded(other, self.value + other.value, self.error + other.error, self.size + other.size)

    def __sub__(self, other: Running) -> Running:
        return self._rounded(other, self.value - other.value, self.error + other.error, self.size + other.size)

    def __mul__(self, other: Running) -> Running:
        return self._rounded(other, self.value * other.value, self._of_product(other), self.size * other.size)

    def __truediv__(self, other: Running) -> Running:
        divisor = np.abs(other.value).astype(np.float64)
        value = self.value / other.value
        error = (self.error + np.abs(value).astype(np.float64) * other.error) / (divisor - other.error)
        error = np.where(divisor > other.error, error, np.inf)
        return self._rounded(other, value, error, np.abs(value) + error)

    def sqrt(self) -> Running:
        """Of real numbers; where they may be below zero nothing is known."""
        value = np.sqrt(self.value)
        error = self.error / (value.astype(np.float64) + np.sqrt(np.maximum(self.value - self.error, 0)))
        error = np.where(self.error == 0, 0, np.where(self.value > self.error, error, np.inf))
        return self._rounded(self, value, error, value + error)

    def conj(self) -> Running:
        return replace(self, value=self.value.conj())

    def sum(self, axes: int | tuple[int, ...]) -> Running:
        """The sum along dimensions, which stay with size 1."""
        value, error, size = (a.sum(axes, keepdims=True) for a in (self.value, self.error, self.size))
        terms = self.value.size / max(1, value.size)
        error = error + terms * self.u * np.where(size > 0, size, 0)
        finite = np.isfinite(self.value).all(axes, keepdims=True)
        earlier = np.broadcast_to(self.overflow, self.value.shape).any(axes, keepdims=True)
        return Running(value, error, self.u, earlier | finite & self._beyond(size)).unless_overflow(size)

    def dot(self, other: Running) -> Running:
        """The product of matrices, in the last two dimensions."""
        value, size = self.value @ other.value, self.size @ other.size
        magnitude = np.abs(self.value).astype(np.float64) @ np.abs(other.value).astype(np.float64)
        terms = (self.value.shape[-1] + 2) * (4 if np.iscomplexobj(value) else 1)
        error = np.maximum(size - magnitude, 0) + terms * self.u * size
        left, right = (np.broadcast_to(x.overflow, x.value.shape) for x in (self, other))
        earlier = left.any(-1, keepdims=True) | right.any(-2, keepdims=True)
        return Running(value, error, self.u, np.broadcast_to(earlier, value.shape)).unless_overflow(size)

    def _of_product(self, other: Running) -> Array:
        return np.abs(self.value) * other.error + self.error * np.abs(other.value) + self.error * other.error

    def _beyond(self, size: Array) -> Array:
        return ~(size <= float(_info(self.u).max))

    def _rounded(self, other: Running, value: Array, error: Array, size: Array) -> Running:
        each = ROUNDINGS * (4 if np.iscomplexobj(value) else 1) * self.u
        info = _info(self.u)
        below = np.where((size > 0) & (size < float(info.smallest_normal)), float(info.smallest_subnormal), 0)
        error = np.asarray(error + each * size + below, np.float64)
        finite = np.isfinite(self.value) & np.isfinite(other.value)
        overflow = self.overflow | other.overflow | finite & self._beyond(size)
        return Running(value, error, self.u, overflow).unless_overflow(size)


def _info(u: float) -> np.finfo:
    """What is known of the type that has this unit roundoff: f32, or f64."""
    return np.finfo(np.float32 if u > 2.0**-40 else np.float64)
