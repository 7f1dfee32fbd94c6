"""What the results of decompositions must satisfy, whose elements cannot be compared one by one.

A decomposition leaves things open (the sign of an eigenvector, the basis of a space of several), and where it does not,
its elements may be far more sensitive than its product is. So it is held to what defines it, as libraries of linear
algebra are tested: that the factors make up the matrix again, that what is to be orthonormal or ordered is, and that
numbers which a matrix determines well (singular values, eigenvalues of Hermitian matrices) are near the reference's.

`decided(module, arguments)` finds the custom calls of a program whose results are the program's own; each of these is a
`Decomposition`, whose `broken(results)` says for each matrix of a batch what does not hold. A residual may be as large
as STEPS * n * u times the size of the matrix, n the larger of its dimensions and u the unit roundoff of the type that
accuracy.py says: the bound of backward error analysis for Householder's and Jacobi's methods (Higham, Accuracy and
Stability, theorem 19.4), with a constant for the sums inside a step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from .accuracy import computed_in
from .custom_calls import TARGETS, Evaluate, eigen, factors, householder, letter
from .interpreter import Interpreter
from .module import Instruction, Module
from .numerics import type_of
from .types import Array, Value, leaves

Rule = tuple[str, Array, Array]  # what is to hold, how far each matrix is from it, how far it may be

STEPS = 16.0


@dataclass(frozen=True, eq=False)
class Decomposition:
    """One custom call on known operands. `places` says which of the program's results its own are, in order; -1 is one
    that the program does not give, and that nothing is said about."""

    instruction: Instruction
    operands: tuple[Array, ...]
    expected: tuple[Array, ...]
    places: tuple[int, ...]

    @property
    def decides(self) -> tuple[int, ...]:
        """The results, as numbered among the program's, that the rules are about."""
        return tuple(place for k, place in enumerate(self.places) if k not in _open(self.instruction))

    @property
    def batch(self) -> tuple[int, ...]:
        """The dimensions that count matrices."""
        return max((o.shape for o in self.operands), key=len)[:-2]

    def broken(self, results: Sequence[Array]) -> tuple[Array, str]:
        """(for each matrix of the batch whether a rule is broken, a sentence about the first). The results are the
        program's, with the types and dimensions that they should have."""
        outputs = tuple(results[k] if k >= 0 else np.zeros(()) for k in self.places)
        batch = self.batch
        wrong, told = np.zeros(batch, bool), ""
        with np.errstate(all="ignore"):
            for what, apart, allowed in RULES[TARGETS[self.instruction.custom_call_target]](self, outputs):
                outside = np.broadcast_to(~(apart <= allowed), batch)
                if outside.any() and not told:
                    at = tuple(int(k) for k in np.argwhere(outside)[0])
                    which = f" of matrix {list(at)}" if at else ""
                    far, most = (float(np.broadcast_to(a, batch)[at]) for a in (apart, allowed))
                    told = f"{what}{which}: off by {far:.3g}, and it may be by {most:.3g}"
                wrong = wrong | outside
        return wrong, told


def decided(module: Module, arguments: Sequence[Value]) -> list[Decomposition]:
    """The decompositions in a program that are the root, or whose every result is one of the root's tuple, and whose
    operands are parameters and constants, finite throughout."""
    root = module.entry.root
    shown = list(root.operands) if root.opcode == "tuple" else [root]
    places: dict[Instruction, dict[int, int]] = {}
    at = 0
    for value in shown:
        call, index = (value.operands[0], value.index) if value.opcode == "get-tuple-element" else (value, None)
        count = len(leaves(value.shape))
        if call.opcode == "custom-call" and TARGETS.get(call.custom_call_target) in RULES:
            for k in range(count):
                places.setdefault(call, {})[k if index is None else index] = at + k
        at += count
    decompositions = []
    for call, where in places.items():
        known = all(o.opcode in ("parameter", "constant") for o in call.operands)
        every = range(len(leaves(call.shape)))
        if not known or not {*where, *_open(call)}.issuperset(every):
            continue
        operands = tuple(
            np.asarray(o.literal if o.opcode == "constant" else arguments[o.attributes["number"]])
            for o in call.operands
        )
        if all(np.isfinite(np.abs(o)).all() for o in operands if type_of(o).is_float or type_of(o).is_complex):
            value = Interpreter().evaluate(call, list(operands))
            expected = value if isinstance(value, tuple) else (value,)
            decompositions.append(Decomposition(call, operands, expected, tuple(where.get(k, -1) for k in every)))
    return decompositions


# What the rules are made of. Matrices are the last two dimensions; sizes are Frobenius norms.


def _wide(a: Array) -> Array:
    return a.astype(np.complex128 if np.iscomplexobj(a) else np.float64)


def _adjoint(a: Array) -> Array:
    return a.conj().swapaxes(-1, -2)


def _norm(a: Array) -> Array:
    return np.sqrt((np.abs(a) ** 2).sum((-1, -2)))


def _allowed(a: Array) -> Array:
    """STEPS n u, of the type that the matrices a have."""
    u = float(np.finfo(computed_in(type_of(a)).dtype).eps) / 2
    return np.float64(STEPS * max(a.shape[-2:], default=1) * u)


def _makes(what: str, a: Array, product: Array) -> Rule:
    return f"{what} is the matrix", _norm(_wide(a) - product), _allowed(a) * _norm(_wide(a))


def _orthonormal(what: str, a: Array, q: Array) -> Rule:
    """The columns of q, which comes of the matrices a."""
    n = q.shape[-1]
    return f"{what} is orthonormal", _norm(_adjoint(q) @ q - np.eye(n)), _allowed(a) * max(1.0, np.sqrt(n))


def _none(what: str, wrong: Array, axes: int | tuple[int, ...] = ()) -> Rule:
    """No element is wrong, of those along some dimensions."""
    return what, wrong.astype(np.float64).sum(axes), np.float64(0)


def _info(d: Decomposition, info: Array) -> Rule:
    return _none("info is right", info != d.expected[-1])


def _close(what: str, actual: Array, expected: Array, a: Array) -> Rule:
    """Values in vectors that move no more than the matrix a does (Weyl)."""
    apart = np.abs(actual.astype(np.float64) - expected.astype(np.float64))
    return f"{what} are near", apart.max(-1, initial=0), _allowed(a) * _norm(a)


def _ordered(what: str, values: Array) -> Rule:
    """Ascending."""
    return what, np.maximum(values[..., :-1].astype(np.float64) - values[..., 1:], 0).max(-1, initial=0), np.float64(0)


def _reflected(packed: Array, tau: Array) -> Array:
    """The square Q of reflectors, in the wide type."""
    m = packed.shape[-2]
    square = np.zeros((*packed.shape[:-1], m), packed.dtype)
    k = min(packed.shape[-2:])
    square[..., :k] = packed[..., :k]
    q = np.broadcast_to(np.eye(m, dtype=packed.dtype), square.shape).copy()
    for j in reversed(range(tau.shape[-1])):
        householder.reflect(q[..., j:, :], square[..., j + 1 :, j], tau[..., j])
    return q


# The rules, by the function that gives a target its meaning.


def _qr(d: Decomposition, results: Sequence[Array]) -> Iterator[Rule]:
    (a,), (packed, tau) = d.operands, map(_wide, results)
    q = _reflected(packed, tau)
    yield _makes("Q R", a, q @ np.triu(packed))
    yield _orthonormal("Q", a, q)


def _pivoted_qr(d: Decomposition, results: Sequence[Array]) -> Iterator[Rule]:
    a, (packed, columns, tau) = d.operands[0], results
    packed, tau, n = _wide(packed), _wide(tau), a.shape[-1]
    q, r = _reflected(packed, tau), np.triu(packed)
    yield _none("columns is a permutation", np.sort(columns, -1) != np.arange(1, n + 1), -1)
    order = np.clip(columns - 1, 0, n - 1)[..., None, :]
    yield _makes("Q R", np.take_along_axis(a, order, -1), q @ r)
    yield _orthonormal("Q", a, q)
    diagonal = np.abs(np.einsum("...ii->...i", r[..., : tau.shape[-1], : tau.shape[-1]]))
    rise = np.maximum(diagonal[..., 1:] - diagonal[..., :-1], 0).max(-1, initial=0)
    yield "the diagonal of R does not grow", rise, _allowed(a) * _norm(_wide(a))


def _product(d: Decomposition, results: Sequence[Array]) -> Iterator[Rule]:
    """Each reflector moves a column by no more than 1 + |tau| |v|^2 times its size."""
    (packed, tau), (actual,) = d.operands, results
    expected = householder.product_of_householder_reflectors(d.instruction, _wide(packed), _wide(tau))
    k = tau.shape[-1]
    lengths = 1 + (np.abs(np.tril(_wide(packed), -1)) ** 2).sum(-2)[..., :k]
    growth = np.prod(np.maximum(np.abs(1 - _wide(tau) * lengths), 1), axis=-1)
    size = growth * np.sqrt(max(1, packed.shape[-1]))
    yield "the product of the reflectors", _norm(_wide(actual) - expected), _allowed(packed) * max(1, k) * size


def _lu(a: Array, packed: Array, pivots: Array) -> Iterator[Rule]:
    """Pivots count from 0 on. Each element of P A is as near as its own sum of products has it."""
    (m, _), k = a.shape[-2:], pivots.shape[-1]
    packed = _wide(packed)
    inside = (pivots >= np.arange(k)) & (pivots < max(1, m))
    yield _none("pivots name rows further down", ~inside, -1)
    rows = _exchanged(a, pivots)
    lower = np.tril(packed, -1)[..., :k] + np.eye(m, k)
    upper = np.triu(packed)[..., :k, :]
    apart = np.abs(np.take_along_axis(_wide(a), rows[..., None], -2) - lower @ upper)
    allowed = _allowed(a) * (np.abs(lower) @ np.abs(upper))
    yield _none("L U is the matrix, its rows exchanged", ~(apart <= allowed), (-1, -2))
    below = np.tril(packed, -1)[..., :k]
    most = (np.sqrt(2) if np.iscomplexobj(a) else 1) + _allowed(a)
    yield "no element of L is larger than a pivot", np.abs(below).max((-1, -2), initial=0), most


def _exchanged(a: Array, pivots: Array) -> Array:
    """Which row of each matrix comes where, when row k changes places with row pivots[k] in turn."""
    m = a.shape[-2]
    rows = np.broadcast_to(np.arange(m), a.shape[:-1]).copy()
    for index in np.ndindex(*a.shape[:-2]):
        for k, p in enumerate(np.clip(pivots[index], 0, max(0, m - 1))):
            rows[index][[k, p]] = rows[index][[p, k]]
    return rows


def _lu_decomposition(d: Decomposition, results: Sequence[Array]) -> Iterator[Rule]:
    (a,), (packed, pivots, permutation) = d.operands, results
    yield from _lu(a, packed, pivots)
    yield _none("the permutation is that of the pivots", permutation != _exchanged(a, pivots), -1)


def _getrf(d: Decomposition, results: Sequence[Array]) -> Iterator[Rule]:
    (a,), (packed, pivots, info) = d.operands, results
    yield from _lu(a, packed, pivots - 1)
    yield _info(d, info)


def _potrf(d: Decomposition, results: Sequence[Array]) -> Iterator[Rule]:
    """Of positive definite matrices; of others there is only info."""
    (a,), (factor, info) = d.operands, results
    yield _info(d, info)
    lower = letter(d.instruction, "uplo", "L") == "L"
    triangle = np.tril(_wide(a)) if lower else _adjoint(np.triu(_wide(a)))
    strict = np.tril(triangle, -1)
    whole = strict + _adjoint(strict) + np.eye(a.shape[-1]) * np.einsum("...ii->...i", triangle).real[..., None]
    part = np.tril(_wide(factor)) if lower else _adjoint(np.triu(_wide(factor)))
    square, definite = part @ _adjoint(part), d.expected[1] == 0
    yield (
        "the factor's square is the matrix",
        _norm(whole - square),
        np.where(definite, _allowed(a) * _norm(whole), np.inf),
    )
    least = np.einsum("...ii->...i", part).real.min(-1, initial=np.inf)
    yield _none("the diagonal is positive", definite & ~(least > 0))
    other = np.triu(factor, 1) != np.triu(a, 1) if lower else np.tril(factor, -1) != np.tril(a, -1)
    yield _none("the other triangle is the matrix's", other, (-1, -2))


def _trsm(d: Decomposition, results: Sequence[Array]) -> Iterator[Rule]:
    """Each element of op(A) x is as near b's as its own sum of products has it."""
    (a, b), (x,) = d.operands, map(_wide, results)
    attributes = factors.triangular_solve_attributes(d.instruction)
    part = np.tril(_wide(a)) if attributes["lower"] else np.triu(_wide(a))
    if attributes["unit_diagonal"]:
        part = part - np.eye(a.shape[-1]) * part + np.eye(a.shape[-1])
    if attributes["transpose_a"] != "NO_TRANSPOSE":
        part = part.swapaxes(-1, -2)
    if attributes["transpose_a"] == "ADJOINT":
        part = part.conj()
    left = attributes["left_side"]
    product, size = ((p @ y if left else y @ p) for p, y in ((part, x), (np.abs(part), np.abs(x))))
    outside = ~(np.abs(product - _wide(b)) <= _allowed(a) * (size + np.abs(_wide(b))))
    yield _none("the solution solves the equations", outside, (-1, -2))


def _hermitian(a: Array, lower: bool) -> Array:
    strict = np.tril(_wide(a), -1) if lower else np.triu(_wide(a), 1)
    return strict + _adjoint(strict) + np.eye(a.shape[-1]) * np.einsum("...ii->...i", a).real[..., None]


def _eigen(a: Array, lower: bool, vectors: Array | None, values: Array, expected: Array) -> Iterator[Rule]:
    whole = _hermitian(a, lower).astype(_wide(a).dtype)
    wide = values.astype(np.float64)
    yield _close("the eigenvalues", values, expected, whole.astype(a.dtype))
    yield _ordered("eigenvalues ascend", values)
    if vectors is not None:
        v = _wide(vectors)
        apart = _norm(whole @ v - v * wide[..., None, :])
        yield "A V is V diag(w)", apart, _allowed(a) * _norm(whole)
        yield _orthonormal("V", a, v)


def _eigh(d: Decomposition, results: Sequence[Array]) -> Iterator[Rule]:
    config = (d.instruction.backend_config or "1").strip('"').split(",")
    vectors, values = results
    yield from _eigen(d.operands[0], config[0].strip() != "0", vectors, values, d.expected[1])


def _syevd(d: Decomposition, results: Sequence[Array]) -> Iterator[Rule]:
    (a,), (vectors, values, info) = d.operands, results
    with_vectors = letter(d.instruction, "mode", "V") == "V"
    lower = letter(d.instruction, "uplo", "L") == "L"
    yield from _eigen(a, lower, vectors if with_vectors else None, values, d.expected[1])
    yield _info(d, info)


def _gesdd(d: Decomposition, results: Sequence[Array]) -> Iterator[Rule]:
    (a,), (_, s, u, vh, info) = d.operands, results
    yield _info(d, info)
    yield _close("the singular values", s, d.expected[1], a)
    yield _ordered("singular values descend", s[..., ::-1])
    if letter(d.instruction, "mode", "A") != "N":
        u, vh = _wide(u), _wide(vh)
        k = s.shape[-1]
        yield _makes("U diag(s) Vh", a, (u[..., :k] * s[..., None, :].astype(np.float64)) @ vh[..., :k, :])
        yield _orthonormal("U", a, u)
        yield _orthonormal("Vh", a, _adjoint(vh))


def _geev(d: Decomposition, results: Sequence[Array]) -> Iterator[Rule]:
    """Each pair belongs together, and the values are all of them: their sum and the sum of their squares are traces."""
    (a,), (*parts, left, right, info) = d.operands, results
    yield _info(d, info)
    values = _wide(parts[0]) + (1j * parts[1].astype(np.float64) if len(parts) > 1 else 0)
    wide, size = _wide(a), _allowed(a) * _norm(_wide(a))
    n = a.shape[-1]
    for power in (1, 2):
        trace = np.einsum("...ii->...", wide if power == 1 else wide @ wide)
        most = size * n * np.maximum(_norm(wide), 1e-300) ** (power - 1)
        yield "the eigenvalues add up to the trace", np.abs((values**power).sum(-1) - trace), most
    for job, vectors, matrix, diagonal in (
        (letter(d.instruction, "compute_right", "V"), right, wide, values),
        (letter(d.instruction, "compute_left", "N"), left, _adjoint(wide), values.conj()),
    ):
        if job == "V":
            v = _wide(vectors)
            yield "A V is V diag(w)", _norm(matrix @ v - v * diagonal[..., None, :]), size * np.sqrt(n)
            length = np.sqrt((np.abs(v) ** 2).sum(-2))
            yield "eigenvectors have length 1", np.abs(length - 1).max(-1, initial=0), _allowed(a)


def _gees(d: Decomposition, results: Sequence[Array]) -> Iterator[Rule]:
    (a,), (t, q, *parts, sdim, info) = d.operands, results
    yield _info(d, info)
    yield _none("no eigenvalue is sorted", sdim != 0)
    wide, vectors = _wide(t), _wide(q)
    yield _makes("Q T adjoint(Q)", a, vectors @ wide @ _adjoint(vectors))
    yield _orthonormal("Q", a, vectors)
    below = np.tril(t, -1 if np.iscomplexobj(a) else -2) != 0
    if not np.iscomplexobj(a):  # no two blocks of two rows overlap
        pairs = np.einsum("...ii->...i", t[..., 1:, :-1]) != 0
        yield _none("the blocks of T have one or two rows", pairs[..., 1:] & pairs[..., :-1], -1)
    yield _none("T is triangular", below, (-1, -2))
    yield _none("the eigenvalues are T's diagonal", parts[0] != np.einsum("...ii->...i", t), -1)
    if len(parts) > 1:
        corner = _wide(np.einsum("...ii->...i", t[..., 1:, :-1])) * np.einsum("...ii->...i", t[..., :-1, 1:])
        sizes = np.sqrt(np.maximum(-corner, 0))
        expected = np.zeros(parts[1].shape)
        expected[..., :-1] += sizes
        expected[..., 1:] -= sizes
        apart = np.abs(parts[1].astype(np.float64) - expected).max(-1, initial=0)
        yield "the imaginary parts are those of T's blocks", apart, _allowed(a) * _norm(_wide(a))


def _shifted(packed: Array, tau: Array) -> Array:
    """The square Q of the reflectors that begin one row below the diagonal."""
    n = packed.shape[-1]
    q = np.broadcast_to(np.eye(n, dtype=packed.dtype), packed.shape).copy()
    q[..., 1:, 1:] = _reflected(packed[..., 1:, :-1], tau)
    return q


def _hessenberg(d: Decomposition, results: Sequence[Array]) -> Iterator[Rule]:
    (a,), (packed, tau, info) = d.operands, results
    yield _info(d, info)
    q = _shifted(_wide(packed), _wide(tau))
    yield _makes("Q H adjoint(Q)", a, q @ np.triu(_wide(packed), -1) @ _adjoint(q))
    yield _orthonormal("Q", a, q)


def _tridiagonal(d: Decomposition, results: Sequence[Array]) -> Iterator[Rule]:
    (a,), (packed, diagonal, beside, tau, info) = d.operands, results
    yield _info(d, info)
    whole, q, n = _hermitian(a, lower=True).astype(_wide(a).dtype), _shifted(_wide(packed), _wide(tau)), a.shape[-1]
    t = np.zeros(whole.shape, whole.dtype)
    rows = np.arange(n)
    t[..., rows, rows] = diagonal
    t[..., rows[1:], rows[:-1]] = t[..., rows[:-1], rows[1:]] = beside
    yield "Q T adjoint(Q) is the matrix", _norm(whole - q @ t @ _adjoint(q)), _allowed(a) * _norm(whole)
    yield _orthonormal("Q", a, q)
    yield _none("the upper triangle is not touched", np.triu(packed, 1) != np.triu(a, 1), (-1, -2))
    main, below = (np.einsum("...ii->...i", p).real for p in (packed, packed[..., 1:, :-1]))
    yield _none("the diagonals are those of the packed matrix", main != diagonal, -1)
    yield _none("the diagonals are those of the packed matrix", below != beside, -1)


def _gtsv(d: Decomposition, results: Sequence[Array]) -> Iterator[Rule]:
    """Of systems that have a solution."""
    (below, diagonal, above, b), (*_, x, info) = d.operands, results
    yield _info(d, info)
    n, rows = diagonal.shape[-1], np.arange(diagonal.shape[-1])
    matrix = np.zeros((*diagonal.shape, n), _wide(b).dtype)
    matrix[..., rows, rows] = diagonal
    matrix[..., rows[1:], rows[:-1]] = below[..., below.shape[-1] - n + 1 :]
    matrix[..., rows[:-1], rows[1:]] = above[..., : n - 1]
    apart, size = _norm(matrix @ _wide(x) - _wide(b)), _norm(matrix) * _norm(_wide(x)) + _norm(_wide(b))
    allowed = np.where(d.expected[-1] == 0, _allowed(matrix.astype(b.dtype)) * size, np.inf)
    yield "the solution solves the equations", apart, allowed


RULES: dict[Evaluate, Callable[[Decomposition, Sequence[Array]], Iterator[Rule]]] = {
    householder.qr: _qr,
    householder.pivoted_qr: _pivoted_qr,
    householder.product_of_householder_reflectors: _product,
    factors.lu_decomposition: _lu_decomposition,
    factors.getrf: _getrf,
    factors.potrf: _potrf,
    factors.trsm: _trsm,
    factors.gesdd: _gesdd,
    eigen.eigh: _eigh,
    eigen.syevd: _syevd,
    eigen.geev: _geev,
    eigen.gees: _gees,
    householder.hessenberg: _hessenberg,
    householder.tridiagonal: _tridiagonal,
    factors.gtsv: _gtsv,
}


def _open(i: Instruction) -> tuple[int, ...]:
    """The results that nothing is said about: what a library leaves in an operand's memory, vectors not asked for."""
    function = TARGETS[i.custom_call_target]
    if function is factors.gesdd:
        return (0, 2, 3) if letter(i, "mode", "A") == "N" else (0,)
    if function is factors.gtsv:
        return (0, 1, 2)
    if function is eigen.syevd and letter(i, "mode", "V") == "N":
        return (0,)
    if function is eigen.geev:
        first = len(i.shape.elements) - 3
        jobs = letter(i, "compute_left", "N"), letter(i, "compute_right", "V")
        return tuple(first + k for k, a in enumerate(jobs) if a != "V")
    return ()
