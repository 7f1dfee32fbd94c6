"""LU, Cholesky, singular values, and systems of linear equations, as LAPACK's calls give them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..accumulate import narrow, wide_type, widen
from ..module import Instruction
from ..numerics import component_type, round_to, type_of
from ..types import Array
from .backend_config import letter


def lu(a: Array) -> tuple[Array, Array]:
    """(packed, pivots) of matrices a[.., m, n]: P a = L U by columns, L below the diagonal without its ones.

    In step k, row k changes places with row pivots[k], the one with the largest element in column k from row k on (the
    first, of several). A complex number is as large as the sum of its parts' sizes. A column of zeros is left alone.
    """
    packed = widen(a, wide_type(type_of(a))).copy()
    *batch, m, n = packed.shape
    pivots = np.zeros((*batch, min(m, n)), np.int32)
    with np.errstate(all="ignore"):
        for index in np.ndindex(*batch):
            matrix = packed[index]
            for k in range(min(m, n)):
                column = matrix[k:, k]
                best = k + int(np.argmax(np.abs(column.real) + np.abs(column.imag)))
                pivots[index][k] = best
                matrix[[k, best]] = matrix[[best, k]]
                if matrix[k, k] != 0:
                    matrix[k + 1 :, k] /= matrix[k, k]
                matrix[k + 1 :, k + 1 :] -= matrix[k + 1 :, k, None] * matrix[k, k + 1 :]
    return narrow(packed, type_of(a)), pivots


def lu_decomposition(instruction: Instruction, a: Array) -> tuple[Array, Array, Array]:
    """LuDecomposition: (packed, pivots, permutation); row i of P a is row permutation[i] of a. All count from 0."""
    packed, pivots = lu(a)
    permutation = np.empty((*a.shape[:-2], a.shape[-2]), np.int32)
    for index in np.ndindex(*a.shape[:-2]):
        order = np.arange(a.shape[-2])
        for k, p in enumerate(pivots[index]):
            order[[k, p]] = order[[p, k]]
        permutation[index] = order
    return packed, pivots, permutation


def getrf(instruction: Instruction, a: Array) -> tuple[Array, Array, Array]:
    """LAPACK's getrf: (packed, pivots from 1 on, info: the first row with a zero on the diagonal of U, or 0)."""
    packed, pivots = lu(a)
    zeros = np.einsum("...ii->...i", packed[..., : pivots.shape[-1], : pivots.shape[-1]]) == 0
    info = np.where(zeros.any(-1), zeros.argmax(-1) + 1, 0) if zeros.shape[-1] else np.zeros(zeros.shape[:-1])
    return packed, pivots + np.int32(1), info.astype(np.int32)


def potrf(instruction: Instruction, a: Array) -> tuple[Array, Array]:
    """LAPACK's potrf: (cholesky of a, its other triangle as in a; info: the first row that is not positive, or 0)."""
    from ..ops import cholesky  # here, since operations are defined in terms of these files

    lower = letter(instruction, "uplo", "L") == "L"
    factor = narrow(cholesky.factor_of(a, lower), type_of(a))
    triangle = np.tri(a.shape[-1], dtype=bool)
    wrong = cholesky.wrong_pivots(factor)
    info = np.where(wrong.any(-1), wrong.argmax(-1) + 1, 0) if a.shape[-1] else np.zeros(a.shape[:-2])
    return np.where(triangle if lower else triangle.T, factor, a), info.astype(np.int32)


def trsm(instruction: Instruction, a: Array, b: Array) -> Array:
    """BLAS's trsm: triangular-solve, its attributes among the options."""
    from ..ops import triangular_solve

    attributes = triangular_solve_attributes(instruction)
    return triangular_solve.evaluate(replace(instruction, opcode="triangular-solve", attributes=attributes), a, b)


def triangular_solve_attributes(instruction: Instruction) -> dict[str, Any]:
    """What a triangular-solve is that means the same as a trsm."""
    turned = {"N": "NO_TRANSPOSE", "T": "TRANSPOSE", "C": "ADJOINT"}
    return {
        "left_side": letter(instruction, "side", "L") == "L",
        "lower": letter(instruction, "uplo", "L") == "L",
        "unit_diagonal": letter(instruction, "diag", "N") == "U",
        "transpose_a": turned[letter(instruction, "trans_x", "N")],
    }


def gesdd(instruction: Instruction, a: Array) -> tuple[Array, ...]:
    """LAPACK's gesdd and gesvd: (.., s, u, vh, info) with a = u diag(s) vh, s descending, u and vh orthonormal.

    Mode A gives square u and vh, S those columns and rows that s has, N none (zeros here). The first result is what the
    library leaves in a's memory, and is a itself here. Signs (phases) are open, as for eigenvectors.
    """
    mode, element_type = letter(instruction, "mode", "A"), type_of(a)
    finite = np.isfinite(a).all((-1, -2))
    wide = np.where(finite[..., None, None], a.astype(np.complex128 if element_type.is_complex else np.float64), 0)
    u, s, vh = np.linalg.svd(wide, full_matrices=mode == "A")
    shapes = [e.dimensions for e in instruction.shape.elements[2:4]]
    if mode == "N":
        u, vh = (np.zeros(shape, wide.dtype) for shape in shapes)
    s = np.where(finite[..., None], s, np.nan)
    info = (~finite).astype(np.int32)
    parts = round_to(s, component_type(element_type)), round_to(u, element_type), round_to(vh, element_type)
    return a, *parts, info


def gtsv(instruction: Instruction, below: Array, diagonal: Array, above: Array, b: Array) -> tuple[Array, ...]:
    """LAPACK's gtsv: (.., .., .., x, info), the solution of a tridiagonal system; info is 1 where it is singular.

    The first three results, where the library leaves its factors, are the operands here.
    """
    element_type, n = type_of(b), diagonal.shape[-1]
    # LAPACK's diagonals have n - 1 elements; JAX gives n of each, the first below and the last above unused.
    lower, upper = below[..., below.shape[-1] - n + 1 :], above[..., : n - 1]
    wide = np.complex128 if element_type.is_complex else np.float64
    matrix = np.zeros((*diagonal.shape, n), wide)
    rows = np.arange(n)
    matrix[..., rows, rows] = diagonal
    matrix[..., rows[1:], rows[:-1]], matrix[..., rows[:-1], rows[1:]] = lower, upper
    x, info = np.full(b.shape, np.nan, wide), np.zeros(b.shape[:-2], np.int32)
    for index in np.ndindex(*b.shape[:-2]):
        try:
            x[index] = np.linalg.solve(matrix[index], b[index].astype(wide))
        except np.linalg.LinAlgError:
            info[index] = 1
    return below, diagonal, above, round_to(x, element_type), info
