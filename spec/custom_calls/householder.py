"""Householder's reflectors: QR with and without pivoting, products of reflectors, Hessenberg and tridiagonal form."""

from __future__ import annotations

import numpy as np

from ..accumulate import narrow, wide_type, widen
from ..errors import UnsupportedError
from ..module import Instruction
from ..numerics import type_of
from ..types import Array
from .backend_config import options


def qr(instruction: Instruction, a: Array) -> tuple[Array, Array]:
    """Householder's decomposition of matrices a[.., m, n], packed as LAPACK's geqrf does: (packed, tau[.., min(m, n)]).

    On and above the diagonal, packed holds R. Below it, column j holds what follows the leading 1 of the vector v of
    the reflector H(j) = I - tau[j] * v * adjoint(v); Q = H(0) H(1) ... The diagonal of R is real.
    """
    element_type = type_of(a)
    packed = widen(a, wide_type(element_type)).copy()
    m, n = a.shape[-2:]
    tau = np.zeros((*a.shape[:-2], min(m, n)), packed.dtype)
    with np.errstate(all="ignore"):
        for j in range(min(m, n)):
            alpha, below = packed[..., j, j], packed[..., j + 1 :, j]
            rest = (np.abs(below) ** 2).sum(-1)
            turned = (rest != 0) | (alpha.imag != 0)
            beta = np.where(turned, -np.copysign(np.sqrt(np.abs(alpha) ** 2 + rest), alpha.real), alpha)
            tau[..., j] = np.where(turned, (beta - alpha) / np.where(turned, beta, 1), 0)
            v = below / np.where(turned, alpha - beta, 1)[..., None]
            reflect(packed[..., j:, j + 1 :], v, tau[..., j].conj())
            packed[..., j, j], packed[..., j + 1 :, j] = beta, v
    return narrow(packed, element_type), narrow(tau, element_type)


def product_of_householder_reflectors(instruction: Instruction, packed: Array, tau: Array) -> Array:
    """The first n columns of Q = H(0) H(1) ... from what `qr` gives: packed[.., m, n], tau[.., k]."""
    element_type = type_of(packed)
    wide = wide_type(element_type)
    vectors, tau = widen(packed, wide), widen(tau, wide)
    q = np.broadcast_to(np.eye(*packed.shape[-2:], dtype=wide), packed.shape).copy()
    with np.errstate(all="ignore"):
        for j in reversed(range(tau.shape[-1])):
            reflect(q[..., j:, :], vectors[..., j + 1 :, j], tau[..., j])
    return narrow(q, element_type)


def reflect(matrix: Array, v: Array, tau: Array) -> None:
    """matrix -= tau * v * adjoint(v) * matrix, in place, where v has a leading 1 that is left out."""
    product = matrix[..., 0, :] + (v.conj()[..., :, None] * matrix[..., 1:, :]).sum(-2)
    product = tau[..., None] * product
    matrix[..., 0, :] -= product
    matrix[..., 1:, :] -= v[..., :, None] * product[..., None, :]


def pivoted_qr(instruction: Instruction, a: Array, fixed: Array) -> tuple[Array, Array, Array]:
    """LAPACK's geqp3: (packed, columns, tau) of a with its columns exchanged; columns count from 1.

    In each step the column with the largest norm, of what is left of it, comes first; the first such one if several are
    equal. `fixed` is zero for columns that are free to move, and only that is supported.
    """
    if np.any(fixed):
        raise UnsupportedError(f"{instruction.name}: columns fixed in front are not supported; give zeros")
    element_type = type_of(a)
    packed = widen(a, wide_type(element_type)).copy()
    *batch, m, n = packed.shape
    tau, order = np.zeros((*batch, min(m, n)), packed.dtype), np.zeros((*batch, n), np.int32)
    for index in np.ndindex(*batch):
        matrix, columns = packed[index], np.arange(n)
        for j in range(min(m, n)):
            best = j + int(np.argmax((np.abs(matrix[j:, j:]) ** 2).sum(0)))
            matrix[:, [j, best]], columns[[j, best]] = matrix[:, [best, j]], columns[[best, j]]
            v, tau[index][j], beta = reflector(matrix[j:, j])
            reflect(matrix[j:, j + 1 :], v, tau[index][j].conj())
            matrix[j, j], matrix[j + 1 :, j] = beta, v
        order[index] = columns + 1
    return narrow(packed, element_type), order, narrow(tau, element_type)


def hessenberg(instruction: Instruction, a: Array) -> tuple[Array, Array, Array]:
    """LAPACK's gehrd: (packed, tau, info). On and above the subdiagonal H = adjoint(Q) a Q, below it reflectors."""
    settings = options(instruction, low=1, high=a.shape[-1])
    element_type, low, high = type_of(a), int(settings["low"]), int(settings["high"])
    packed = widen(a, wide_type(element_type)).copy()
    *batch, n, _ = packed.shape
    tau = np.zeros((*batch, max(0, n - 1)), packed.dtype)
    for index in np.ndindex(*batch):
        matrix = packed[index]
        for k in range(low - 1, high - 1):
            v, t, beta = reflector(matrix[k + 1 : high, k])
            reflect(matrix[k + 1 : high, k + 1 :], v, t.conj())
            right = matrix[:high, k + 1 : high].conj().T.copy()
            reflect(right, v, t.conj())
            matrix[:high, k + 1 : high] = right.conj().T
            matrix[k + 1, k], matrix[k + 2 : high, k] = beta, v
            tau[index][k] = t
    return narrow(packed, element_type), narrow(tau, element_type), np.zeros(batch, np.int32)


def tridiagonal(instruction: Instruction, a: Array) -> tuple[Array, ...]:
    """LAPACK's sytrd and hetrd of the lower triangle: (packed, diagonal, off the diagonal, tau, info)."""
    if chr(int(options(instruction, uplo=ord("L"))["uplo"])) != "L":
        raise UnsupportedError(f"{instruction.name}: of the upper triangle; take the lower one")
    element_type = type_of(a)
    matrix = widen(a, wide_type(element_type))
    lower = np.tril(matrix, -1)
    *batch, n, _ = matrix.shape
    diagonal = np.einsum("...ii->...i", matrix).real
    full = lower + lower.conj().swapaxes(-1, -2) + np.eye(n) * diagonal[..., None]
    packed, tau = np.tril(full), np.zeros((*batch, max(0, n - 1)), matrix.dtype)
    for index in np.ndindex(*batch):
        t = full[index]
        for k in range(n - 1):
            v, scale, beta = reflector(t[k + 1 :, k].copy())
            h = np.eye(n - k - 1) - scale * np.outer([1, *v], np.conj([1, *v]))
            t[k + 1 :, :] = h.conj().T @ t[k + 1 :, :]
            t[:, k + 1 :] = t[:, k + 1 :] @ h
            packed[index][k + 1, k], packed[index][k + 2 :, k], tau[index][k] = beta, v, scale
            packed[index][k + 1 :, k + 1 :] = np.tril(t[k + 1 :, k + 1 :])
    d = np.einsum("...ii->...i", full).real
    e = np.einsum("...ii->...i", packed[..., 1:, :-1]).real if n > 1 else d[..., :0]
    upper = np.triu(a, 1)  # not touched
    real = type_of(a.real)
    packed = narrow(packed, element_type) + upper
    return packed, narrow(d, real), narrow(e, real), narrow(tau, element_type), np.zeros(batch, np.int32)


def reflector(column: Array) -> tuple[Array, Array, Array]:
    """(v below its leading 1, tau, beta): adjoint(H) column = beta e with H = I - tau [1, v] adjoint([1, v])."""
    alpha, below = column[0], column[1:]
    rest = (np.abs(below) ** 2).sum()
    if rest == 0 and alpha.imag == 0:
        return np.zeros_like(below), column.dtype.type(0), alpha
    beta = -np.copysign(np.sqrt(np.abs(alpha) ** 2 + rest), alpha.real)
    return below / (alpha - beta), column.dtype.type((beta - alpha) / beta), column.dtype.type(beta)
