"""The custom calls of linear algebra, as JAX writes them for a CPU: well-conditioned matrices, in batches and of each
form that a routine takes, with well-separated eigenvalues."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from refxla_spec.types import ELEMENT_TYPES, ElementType, Shape

from .. import Case, seeded
from ..building import array_types, random_values, structured

LETTER = {"f32": "s", "f64": "d", "c64": "c", "c128": "z"}
REAL = {"c64": "f32", "c128": "f64"}
COMPLEX = {"f32": "c64", "f64": "c128"}
SQUARE = ((1, 1), (6, 6), (2, 4, 4))
ANY = ((5, 3), (3, 5), (2, 4, 4))


def cases(thorough: bool) -> Iterator[Case]:
    """Each routine in each type that it has, for each form of matrix."""
    for t in array_types("float", "complex"):
        if t.name in (LETTER if thorough else ("f32", "c128")):
            yield from _of_hermitian(t, thorough)
            yield from _of_square(t, thorough)
            yield from _of_any(t, thorough)


def _call(
    t: ElementType,
    target: str,
    variant: str,
    results: Sequence[Shape],
    *operands: np.ndarray,
    options: Mapping[str, int | str] | None = None,
    without: Sequence[int] = (),
) -> Case:
    """A case of one call; letters among the options are written as their character codes. The results numbered
    `without`, which are unspecified, are not results of the program."""
    if target.islower():
        numbers = ", ".join(
            f"{name} = {ord(o) if isinstance(o, str) else o} : {'ui8' if isinstance(o, str) else 'i32'}"
            for name, o in (options or {}).items()
        )
        target = f"lapack_{LETTER[t.name]}{target}_ffi"
        more = f", api_version=API_VERSION_TYPED_FFI, backend_config={{{numbers}}}"
    else:
        more = ""
    rank = max(o.ndim for o in operands)  # of matrices; vectors have one dimension less
    shapes = [_by_columns(s, s.rank == rank) for s in results]
    result = f"({', '.join(shapes)})" if len(results) > 1 else shapes[0]
    layouts = ", ".join(_by_columns(Shape.of(o), o.ndim == rank) for o in operands)
    names = ", ".join(f"p{n}" for n in range(len(operands)))
    line = (
        f'{result} custom-call({names}), custom_call_target="{target}", operand_layout_constraints={{{layouts}}}{more}'
    )
    if without:
        indices = [n for n in range(len(results)) if n not in without]
        parts = [f"e{n} = {results[n]} get-tuple-element(c), index={n}" for n in indices]
        line = "\n".join([f"c = {line}", *parts, f"ROOT r = _ tuple({', '.join(f'e{n}' for n in indices)})"])
    else:
        line = f"ROOT r = {line}"
    return structured("custom-call", f"{target}_{t}_{variant}", line, *operands, type=t.name)


def _by_columns(shape: Shape, matrices: bool) -> str:
    """The shape with LAPACK's layout: columns of matrices are contiguous."""
    rank = shape.rank
    order = [rank - 2, rank - 1, *reversed(range(rank - 2))] if matrices else list(reversed(range(rank)))
    if not rank:
        return str(shape)
    return f"{shape.without_layout()}{{{','.join(map(str, order))}}}"


def _array(t: ElementType | str, *dimensions: int) -> Shape:
    return Shape(ELEMENT_TYPES[t] if isinstance(t, str) else t, dimensions)


def _adjoint(a: np.ndarray) -> np.ndarray:
    return np.asarray(a.swapaxes(-1, -2).conj())


def _hermitian(t: ElementType, name: str, dims: tuple[int, ...], least: float) -> np.ndarray:
    """Of eigenvalues `least`, least + 1, ..."""
    rng = seeded(name)
    q, _ = np.linalg.qr(random_values(rng, "c128" if t.is_complex else "f64", dims))
    return np.asarray(((q * (least + np.arange(dims[-1]))) @ _adjoint(q)).astype(t.dtype))


def _of_hermitian(t: ElementType, thorough: bool) -> Iterator[Case]:
    real, heevd = REAL.get(t.name, t.name), "heevd" if t.is_complex else "syevd"
    for n, dims in enumerate(SQUARE if thorough else SQUARE[2:]):
        batch, size = dims[:-2], dims[-1]
        a = _hermitian(t, f"hermitian/{t}_{n}", dims, -1.5)
        vectors, values, info = _array(t, *dims), _array(real, *batch, size), _array("s32", *batch)
        for uplo, mode in (("L", "V"), ("U", "V"), ("L", "N")):
            options = {"mode": mode, "uplo": uplo}
            unknown = (0,) if mode == "N" else ()
            results = (vectors, values, info)
            yield _call(t, heevd, f"{uplo}{mode}_{n}", results, a, options=options, without=unknown)
        yield _call(t, "Eigh", f"{n}", (vectors, values), a)
        beside, reflectors = _array(real, *batch, size - 1), _array(t, *batch, size - 1)
        tridiagonal = "hetrd" if t.is_complex else "sytrd"
        parts = (vectors, values, beside, reflectors, info)
        yield _call(t, tridiagonal, f"{n}", parts, a, options={"uplo": "L"})
        positive = _hermitian(t, f"positive/{t}_{n}", dims, 1.0)
        for uplo in "LU":
            yield _call(t, "potrf", f"{uplo}_{n}", (vectors, info), positive, options={"uplo": uplo})


def _of_square(t: ElementType, thorough: bool) -> Iterator[Case]:
    complex_ = COMPLEX.get(t.name, t.name)
    for n, dims in enumerate(SQUARE if thorough else SQUARE[2:]):
        batch, size = dims[:-2], dims[-1]
        rng = seeded(f"square/{t}_{n}")
        a, b = random_values(rng, t, dims), random_values(rng, t, (*batch, size, 3))
        whole, info = _array(t, *dims), _array("s32", *batch)
        values = (_array(t, *batch, size),) * (1 if t.is_complex else 2)
        both = {"compute_left": "V", "compute_right": "V"}
        vectors = _array(complex_, *dims)
        yield _call(t, "geev", f"{n}", (*values, vectors, vectors, info), a, options=both)
        schur = {"mode": "V", "sort": "N"}
        yield _call(t, "gees", f"{n}", (whole, whole, *values, info, info), a, options=schur)
        reflectors = _array(t, *batch, size - 1)
        yield _call(t, "gehrd", f"{n}", (whole, reflectors, info), a, options={"low": 1, "high": size})
        triangle = a + 4 * np.eye(size, dtype=t.dtype)
        for k, letters in enumerate(("LLNN", "LUNT", "LLUN", "LLNC")):
            options = dict(zip(("side", "uplo", "diag", "trans_x"), letters, strict=True))
            yield _call(t, "trsm", f"{k}_{n}", (_array(t, *b.shape),), triangle, b, options=options)
        diagonals = [random_values(rng, t, (*batch, size)) for _ in range(3)]
        diagonals[1] = (diagonals[1] + 4).astype(t.dtype)
        diagonals[0][..., 0] = diagonals[2][..., -1] = 0
        shapes = [_array(t, *d.shape) for d in (*diagonals, b)]
        yield _call(t, "gtsv", f"{n}", (*shapes, info), *diagonals, b, without=(0, 1, 2))


def _of_any(t: ElementType, thorough: bool) -> Iterator[Case]:
    real = REAL.get(t.name, t.name)
    for n, dims in enumerate(ANY if thorough else ANY[:2]):
        (*batch, rows, columns), k = dims, min(dims[-2:])
        a = random_values(seeded(f"any/{t}_{n}"), t, dims)
        whole, reflectors, info = _array(t, *dims), _array(t, *batch, k), _array("s32", *batch)
        pivots = _array("s32", *batch, k)
        yield _call(t, "geqrf", f"{n}", (whole, reflectors), a)
        if t.name == "f32" or thorough:
            yield _call(t, "Qr", f"{n}", (whole, reflectors), a)
            yield _call(t, "LuDecomposition", f"{n}", (whole, pivots, _array("s32", *batch, rows)), a)
        yield _call(t, "getrf", f"{n}", (whole, pivots, info), a)
        order = np.zeros((*batch, columns), np.int32)
        yield _call(t, "geqp3", f"{n}", (whole, _array("s32", *batch, columns), reflectors), a, order)
        for mode in ("A", "S", "N"):
            left = _array(t, *batch, rows, rows if mode == "A" else k)
            right = _array(t, *batch, columns if mode == "A" else k, columns)
            results = (whole, _array(real, *batch, k), left, right, info)
            unknown = (0, 2, 3) if mode == "N" else (0,)
            yield _call(t, "gesdd", f"{mode}_{n}", results, a, options={"mode": mode}, without=unknown)
        if rows >= columns:
            packed, tau = _reflectors(a)
            product = "ungqr" if t.is_complex else "orgqr"
            yield _call(t, product, f"{n}", (whole,), packed, tau)
            if t.name == "f32" or thorough:
                yield _call(t, "ProductOfElementaryHouseholderReflectors", f"{n}", (whole,), packed, tau)


def _reflectors(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Vectors below the diagonal, and for each the factor that makes its reflector unitary."""
    below = np.tril(a, -1)[..., : min(a.shape[-2:])]
    tau = 2 / (1 + (np.abs(below.astype(np.complex128)) ** 2).sum(-2))
    return a, tau.astype(a.dtype)
