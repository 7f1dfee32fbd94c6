"""The rules of bounds.py for what takes many steps: the batch norms, cholesky, triangular-solve.

Each is its formula once more, as its file in ops/ has it, in `Running` numbers: these carry what operands may be off,
and what an implementation rounds that computes the same steps in the type that accuracy.py says.

    batch norms         Sums of n terms, then a sum of products for each element, however these are put together:
                        x * (scale / sqrt(v)) + (offset - mean * scale / sqrt(v)) is within the bound as well as the
                        formula is. The variance may be found in one reading, as the mean square of the distances from
                        any value that the feature has, less the square of their mean.
    triangular-solve    Substitution, in any order of its sums (Higham, Accuracy and Stability, section 8.1).
    cholesky            Column by column, likewise (section 10.1).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .accuracy import computed_in
from .bounds import Bounds, Error, filled, outwards, rounded, unit_roundoff
from .compare import ulp
from .module import Instruction
from .numerics import type_of
from .running import Running
from .types import Array


def _operand(value: Array, error: Error, like: Array) -> Running:
    """An operand of an operation whose result is of the type of `like`."""
    wide = np.complex128 if np.iscomplexobj(value) else np.float64
    return Running(value.astype(wide), filled(value, error), unit_roundoff(computed_in(type_of(like))))


def _bound(result: Array, computed: Running, certain: bool) -> Array:
    """Of a result that is `computed`, then rounded to its own type; the reference's rounding counts, too."""
    error = np.broadcast_to(computed.error, result.shape)
    if type_of(result).is_float and type_of(result).bits < 32:
        bound = rounded(np.broadcast_to(computed.value, result.shape), error, result, certain)
    else:
        bound = outwards(np.where(np.isfinite(np.abs(result)), error + ulp(result), 0 if certain else np.inf))
    return np.where(computed.overflow, np.inf, bound)


def _exactly(errors: list[Error]) -> bool:
    return all(e is None or not np.any(e) for e in errors)


class _Norm:
    """The operands of a batch norm: x, features along it, the dimensions summed over."""

    def __init__(self, i: Instruction, values: list[Array], errors: list[Error]) -> None:
        self.x = _operand(values[0], errors[0], values[0])
        along = [1] * values[0].ndim
        along[i.feature_index] = -1
        self.shape = tuple(along)
        self.features = [
            replace(f, value=f.value.reshape(along), error=f.error.reshape(along))
            for f in (_operand(v, e, values[0]) for v, e in zip(values[1:], errors[1:], strict=True) if v.ndim == 1)
        ]
        self.axes = tuple(d for d in range(values[0].ndim) if d != i.feature_index)
        self.count = self.exactly(values[0].size // max(1, values[1].size))
        self.epsilon = self.exactly(i.epsilon, unit_roundoff(computed_in(type_of(values[0]))) * abs(i.epsilon))

    def exactly(self, number: float, error: float = 0.0) -> Running:
        return Running(np.float64(number), np.float64(error), self.x.u)

    def sum(self, x: Running) -> Running:
        return x.sum(self.axes)


def _training(
    self: Bounds, i: Instruction, values: list[Array], errors: list[Error], result: tuple[Array, ...]
) -> Error:
    """Of mean and variance what their sums may round off, the variance found in one reading or in two; of the output
    what follows, and the roundings of a sum of products."""
    n = _Norm(i, values, errors)
    scale, offset = n.features
    if not values[0].size:
        return tuple(np.zeros(r.shape) for r in result)
    x, u = n.x, n.x.u
    count = float(n.count.value)
    mean = n.sum(x) / n.count
    # Beside the rounding of the sum that of its distance from another value of the feature, which may be the largest.
    largest = x.size.max(n.axes, keepdims=True)
    mean = replace(mean, error=mean.error + (count + 4) * u * largest)
    mean = mean.unless_overflow((x.size + largest).sum(n.axes, keepdims=True))
    centered = x - mean
    distances = np.abs(x.value - mean.value) + x.error + mean.error
    farthest = distances + distances.max(n.axes, keepdims=True)
    value = (np.abs(x.value - mean.value) ** 2).sum(n.axes, keepdims=True) / count
    carried = ((2 * distances * (x.error + mean.error)).sum(n.axes, keepdims=True)) / count
    own = (count + 8) * u * (farthest**2 + 2 * farthest * np.abs(largest) * u).sum(n.axes, keepdims=True) / count * 2
    variance = Running(value, carried + own, u).unless_overflow((farthest**2).sum(n.axes, keepdims=True))
    output = _normalized(n, scale, centered, mean, (variance + n.epsilon).sqrt(), offset)
    certain = _exactly(errors)
    return tuple(_bound(r, c, certain) for r, c in zip(result, (output, _flat(mean), _flat(variance)), strict=True))


def _flat(x: Running) -> Running:
    """Of arrays with one value for each feature these values."""
    overflow = np.broadcast_to(x.overflow, x.value.shape)
    return Running(x.value.reshape(-1), x.error.reshape(-1), x.u, overflow.reshape(-1))


def _normalized(
    n: _Norm, scale: Running, centered: Running, mean: Running, deviation: Running, offset: Running
) -> Running:
    """scale * centered / deviation + offset, or the same with its products apart."""
    factor = scale / deviation
    output = centered * factor + offset
    apart = (n.x.size + mean.size) * factor.size + offset.size
    overflow = output.overflow
    for step in (scale * centered, n.x * factor - mean * factor + offset, offset - mean * factor):
        overflow = overflow | step.overflow
    output = replace(output, error=output.error + 6 * n.x.u * apart, overflow=overflow)
    return output.unless_overflow(apart, scale.size * centered.size)


def _inference(self: Bounds, i: Instruction, values: list[Array], errors: list[Error], result: Array) -> Error:
    """The roundings of the formula, or of the same sum of products put together in another way."""
    n = _Norm(i, values, errors)
    scale, offset, mean, variance = n.features
    output = _normalized(n, scale, n.x - mean, mean, (variance + n.epsilon).sqrt(), offset)
    return _bound(result, output, _exactly(errors))


def _gradient(
    self: Bounds, i: Instruction, values: list[Array], errors: list[Error], result: tuple[Array, ...]
) -> Error:
    """What its sums over a feature may round off, and the roundings of the formulas."""
    n = _Norm(i, values[:4], errors[:4])
    scale, mean, variance = n.features
    if not values[0].size:
        return tuple(np.zeros(r.shape) for r in result)
    g, d, v = _operand(values[4], errors[4], values[0]), n.x - mean, variance + n.epsilon
    # sum (g * (x - mean)) may be sum (g * x) - mean * sum g
    sum_g, products = n.sum(g), n.sum(g * d)
    apart = (g.size * (n.x.size + mean.size)).sum(n.axes, keepdims=True)
    sum_gd = replace(products, error=products.error + (float(n.count.value) + 4) * n.x.u * apart)
    deviation = v.sqrt()
    operand = scale / deviation * (g - sum_g / n.count - d * sum_gd / (n.count * v))
    certain = _exactly(errors)
    features = (_flat(sum_gd / deviation), _flat(sum_g))
    return tuple(_bound(r, c, certain) for r, c in zip(result, (operand, *features), strict=True))


def _triangular_solve(self: Bounds, i: Instruction, values: list[Array], errors: list[Error], result: Array) -> Error:
    """What substitution may round off, step by step: each sum of n terms n u times the sum of their sizes."""
    if not result.size:
        return np.zeros(result.shape)
    a, b = (_operand(v, e, result) for v, e in zip(values, errors, strict=True))
    lower = i.lower
    if i.transpose_a != "NO_TRANSPOSE":
        a, lower = _transposed(a), not lower
    if i.transpose_a == "ADJOINT":
        a = a.conj()
    if not i.left_side:  # x a = b is transpose(a) transpose(x) = transpose(b)
        a, b, lower = _transposed(a), _transposed(b), not lower
    n = a.value.shape[-1]
    x = Running(np.zeros_like(b.value), np.zeros(b.error.shape), b.u, np.zeros(b.error.shape, bool))
    for row in range(n) if lower else reversed(range(n)):
        rows = slice(0, row) if lower else slice(row + 1, n)
        here = slice(row, row + 1)
        solution = b[..., here, :] - a[..., here, rows].dot(x[..., rows, :])
        if not i.unit_diagonal:
            solution = solution / a[..., here, here]
        x.value[..., here, :], x.error[..., here, :] = solution.value, solution.error
        x.overflow[..., here, :] = solution.overflow
    return _bound(result, x if i.left_side else _transposed(x), _exactly(errors))


def _transposed(x: Running) -> Running:
    overflow = np.broadcast_to(x.overflow, x.value.shape)
    return Running(x.value.swapaxes(-1, -2), x.error.swapaxes(-1, -2), x.u, overflow.swapaxes(-1, -2))


def _cholesky(self: Bounds, i: Instruction, values: list[Array], errors: list[Error], result: Array) -> Error:
    """What the factorisation may round off, column by column: each sum of n terms n u times the sum of their sizes.

    The other triangle is not specified. The result for a matrix that is not positive definite is NaN, but which ones
    are not is a matter of rounding: decided are those with a NaN, or an infinity beside the diagonal, where it is read.
    """
    a = _operand(values[0], errors[0], result)
    if not i.lower:
        a = _transposed(a).conj()
    n = result.shape[-1]
    factor = Running(np.zeros_like(a.value), np.zeros(a.error.shape), a.u)
    for j in range(n):
        before, here, below = slice(0, j), slice(j, j + 1), slice(j, n)
        rest = a[..., below, here] - factor[..., below, before].dot(_transposed(factor[..., here, before].conj()))
        pivot = rest[..., :1, :]
        root = replace(pivot, value=pivot.value.real).sqrt()
        column = rest / root
        value, error = (np.array(part) for part in (column.value, column.error))
        value[..., :1, :], error[..., :1, :] = root.value, root.error
        factor.value[..., below, here], factor.error[..., below, here] = value, error
    bound = _bound(result, factor if i.lower else _transposed(factor).conj(), _exactly(errors))
    triangle = np.tri(n, dtype=bool)
    bound = np.where(np.isfinite(np.abs(result)), bound, np.inf)
    if _exactly(errors):
        beside = np.isinf(a.value) & ~np.eye(n, dtype=bool)
        indefinite = ((np.isnan(a.value) | beside) & triangle).any(axis=(-2, -1), keepdims=True)
        bound = np.where(indefinite, 0, bound)
    return np.where(triangle if i.lower else triangle.T, bound, np.inf)


RULES = {
    "batch-norm-training": _training,
    "batch-norm-inference": _inference,
    "batch-norm-grad": _gradient,
    "cholesky": _cholesky,
    "triangular-solve": _triangular_solve,
}
