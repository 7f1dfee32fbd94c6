"""The custom-call targets that are known: what JAX and TensorFlow leave in programs that are for no particular device.

Each takes the custom-call instruction and the operands' values and gives the result's value.
"""

from __future__ import annotations

import numpy as np

from .accumulate import narrow, wide_type, widen
from .errors import UnsupportedError
from .module import Instruction
from .numerics import type_of
from .types import Shape, Value


def identity(instruction: Instruction, operand: Value) -> Value:
    """A remark about where a value lives. Where it changes the shape, it divides a value among devices."""
    if not Shape.of(operand).compatible(instruction.shape):
        raise UnsupportedError(
            f"{instruction.name}: {instruction.custom_call_target} makes {instruction.shape} of {Shape.of(operand)}: "
            f"a program for several devices; compile it for one"
        )
    return operand


def qr(instruction: Instruction, a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
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
            reflect = (rest != 0) | (alpha.imag != 0)
            beta = np.where(reflect, -np.copysign(np.sqrt(np.abs(alpha) ** 2 + rest), alpha.real), alpha)
            tau[..., j] = np.where(reflect, (beta - alpha) / np.where(reflect, beta, 1), 0)
            v = below / np.where(reflect, alpha - beta, 1)[..., None]
            _reflect(packed[..., j:, j + 1 :], v, tau[..., j].conj())
            packed[..., j, j], packed[..., j + 1 :, j] = beta, v
    return narrow(packed, element_type), narrow(tau, element_type)


def product_of_householder_reflectors(instruction: Instruction, packed: np.ndarray, tau: np.ndarray) -> np.ndarray:
    """The first n columns of Q = H(0) H(1) ... from what `qr` gives: packed[.., m, n], tau[.., k]."""
    element_type = type_of(packed)
    wide = wide_type(element_type)
    vectors, tau = widen(packed, wide), widen(tau, wide)
    q = np.broadcast_to(np.eye(*packed.shape[-2:], dtype=wide), packed.shape).copy()
    with np.errstate(all="ignore"):
        for j in reversed(range(tau.shape[-1])):
            _reflect(q[..., j:, :], vectors[..., j + 1 :, j], tau[..., j])
    return narrow(q, element_type)


def _reflect(matrix: np.ndarray, v: np.ndarray, tau: np.ndarray) -> None:
    """matrix -= tau * v * adjoint(v) * matrix, in place, where v has a leading 1 that is left out."""
    product = matrix[..., 0, :] + (v.conj()[..., :, None] * matrix[..., 1:, :]).sum(-2)
    product = tau[..., None] * product
    matrix[..., 0, :] -= product
    matrix[..., 1:, :] -= v[..., :, None] * product[..., None, :]


def top_k(instruction: Instruction, operand: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The k largest along the last dimension and where they stand, as `topk`; the result's shape says k."""
    from .ops.topk import top  # here, since operations are defined in terms of this file

    return top(operand, instruction.shape.elements[0].dimensions[-1], largest=True)


TARGETS = {
    "LayoutConstraint": identity,
    "MoveToDevice": identity,
    "MoveToHost": identity,
    "ProductOfElementaryHouseholderReflectors": product_of_householder_reflectors,
    "Qr": qr,
    "SPMDFullToShardShape": identity,
    "SPMDShardToFullShape": identity,
    "Sharding": identity,
    "TopK": top_k,
    "annotate_device_placement": identity,
    "xla.sdy.FuncResultSharding": identity,
}
