"""cholesky, triangular-solve, fft and the three batch normalisations."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
from refxla_spec.operation import Violation
from refxla_spec.types import ELEMENT_TYPES, ElementType

from .. import Case, seeded
from ..building import array_types, braces, not_finite, random_values, several, shape, structured

MATRICES = ((1, 1), (4, 4), (9, 9), (3, 5, 5), (2, 0, 2, 2), (0, 0), (2, 3, 2, 2))


def cases(thorough: bool) -> Iterator[Case]:
    """The factorisation, the solutions, the transforms, then the normalisations."""
    yield from _choleskys(thorough)
    yield from _solves(thorough)
    yield from _ffts(thorough)
    yield from _norms(thorough)
    yield from _far_from_zero()


def _fields() -> list[ElementType]:
    return [t for t in array_types("float", "complex") if t.bits >= 16]


def positive(rng: np.random.Generator, element_type: ElementType | str, dims: tuple[int, ...]) -> np.ndarray:
    """Well-conditioned Hermitian matrices, the last two of the dimensions."""
    t = ELEMENT_TYPES[element_type] if isinstance(element_type, str) else element_type
    a = random_values(rng, "c128" if t.is_complex else "f64", dims)
    square = a @ np.conj(np.swapaxes(a, -1, -2)) + dims[-1] * np.eye(dims[-1])
    return np.asarray((square if t.is_complex else square.real).astype(t.dtype))


def _choleskys(thorough: bool) -> Iterator[Case]:
    """Only the selected triangle is compared: the other one of the result is not specified."""
    for t in _fields():
        for n, dims in enumerate(MATRICES if thorough or t.name == "f32" else MATRICES[3:4]):
            a = positive(seeded(f"cholesky/{t}_{n}"), t, dims)
            for lower in ("true", "false"):
                try:
                    case = structured("cholesky", f"{t}_{n}_{lower}", _triangle(t, dims, lower), a)
                except Violation:
                    break
                yield case
                if n == 3 and t.name == "f32":
                    yield from not_finite(case)


def _triangle(t: ElementType, dims: tuple[int, ...], lower: str) -> str:
    """The factor with the other triangle made zero."""
    rank = len(dims)
    rows, columns = ("GE", "LE")[lower == "false"], shape("s32", dims)
    zero = "(0,0)" if t.is_complex else "0"
    return f"""l = _ cholesky(p0), lower={lower}
               i = {columns} iota(), iota_dimension={rank - 2}
               j = {columns} iota(), iota_dimension={rank - 1}
               inside = {shape("pred", dims)} compare(i, j), direction={rows}
               z = {t}[] constant({zero})
               zeros = {shape(t, dims)} broadcast(z), dimensions={{}}
               ROOT r = _ select(inside, l, zeros)"""


def _solves(thorough: bool) -> Iterator[Case]:
    """All flags; then sizes and types."""
    truth = ("true", "false")
    flags = list(product(truth, truth, truth, ("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT")))
    for t in _fields():
        chosen = flags if thorough or t.name in ("f32", "c64") else flags[::7]
        for left, lower, unit, transpose in chosen:
            rng = seeded(f"triangular-solve/{t}")
            a = positive(rng, t, (2, 4, 4))
            b = random_values(rng, t, (2, 4, 3) if left == "true" else (2, 3, 4))
            attributes = f"left_side={left}, lower={lower}, unit_diagonal={unit}, transpose_a={transpose}"
            name = f"{t}_{'left' if left == 'true' else 'right'}_{'lower' if lower == 'true' else 'upper'}"
            name += f"{'_unit' if unit == 'true' else ''}_{transpose.lower()}"
            if t.is_complex:  # those of `positive` are Hermitian except for their triangles: real on the diagonal
                a = (a + 1j * np.triu(random_values(rng, "f64", a.shape)) + 1j * np.eye(4)).astype(t.dtype)
            yield structured("triangular-solve", name, f"ROOT r = _ triangular-solve(p0, p1), {attributes}", a, b)
    for n, (a_dims, b_dims) in enumerate(
        (((1, 1), (1, 5)), ((0, 0), (0, 3)), ((3, 3), (3, 0)), ((12, 12), (12, 2)), ((5, 5), (5, 5)))
    ):
        rng = seeded(f"triangular-solve/size_{n}")
        t = array_types("float")[2]
        a, b = positive(rng, t, a_dims), random_values(rng, t, b_dims)
        line = "ROOT r = _ triangular-solve(p0, p1), left_side=true, lower=true, transpose_a=NO_TRANSPOSE"
        case = structured("triangular-solve", f"size_{n}", line, a, b)
        yield case
        if n == 3:
            yield from not_finite(case)


def _ffts(thorough: bool) -> Iterator[Case]:
    """The four kinds, one to three dimensions, lengths with large and small prime factors, batches."""
    lengths = [(1,), (2,), (3,), (8,), (12,), (7,), (31,), (4, 6), (3, 5), (2, 3, 4), (16, 1)]
    if thorough:
        lengths += [(64,), (100,), (97,), (128, 3), (5, 7, 9), (0,), (3, 0)]
    for n, length in enumerate(lengths):
        for wide in ("f64", "f32"):
            if wide == "f64" and not thorough and n % 3:
                continue
            field = "c128" if wide == "f64" else "c64"
            rng = seeded(f"fft/{n}_{wide}")
            batch = ((), (3,), (2, 2))[n % 3]
            half = (*length[:-1], length[-1] // 2 + 1 if length[-1] else 0)
            z = random_values(rng, field, (*batch, *length))
            x = random_values(rng, wide, (*batch, *length))
            h = random_values(rng, field, (*batch, *half))
            suffix = f"fft_length={braces(length)}"
            lines = [
                f"_{field} fft(p0), fft_type=FFT, {suffix}",
                f"_{field} fft(p0), fft_type=IFFT, {suffix}",
                f"_{field} fft(p1), fft_type=RFFT, {suffix}",
                f"_{wide} fft(p2), fft_type=IRFFT, {suffix}",
            ]
            case = several("fft", f"{'x'.join(map(str, length))}_{wide}", lines, z, x, h)
            yield case
            if length in ((8,), (12,), (4, 6)):
                yield from not_finite(case, ("nan",))  # results for infinities depend on the algorithm


def _norms(thorough: bool) -> Iterator[Case]:
    """The feature in each place, sizes of one and zero, several types and epsilons."""
    forms = (((2, 3, 4, 5), 3), ((2, 3, 4, 5), 1), ((6, 4), 0), ((5,), 0), ((1, 3), 1), ((3, 2, 2), 2), ((2, 2, 0), 1))
    for t in [t for t in array_types("float") if t.bits >= 16]:
        for n, (dims, feature) in enumerate(forms if t.name == "f32" or thorough else forms[:2]):
            rng = seeded(f"batch-norm/{t}_{n}")
            x, g = random_values(rng, t, dims), random_values(rng, t, dims)
            scale, offset, mean = (random_values(rng, t, dims[feature : feature + 1]) for _ in range(3))
            variance = np.abs(random_values(rng, t, dims[feature : feature + 1])) + np.asarray(0.5).astype(t.dtype)
            variance = variance.astype(t.dtype)
            norms: list[Case] = []
            suffix = f"epsilon={(0.001, 0.1)[n % 2]}, feature_index={feature}"
            line = f"ROOT r = _ batch-norm-training(p0, p1, p2), {suffix}"
            norms.append(structured("batch-norm-training", f"{t}_{n}", line, x, scale, offset))
            line = f"ROOT r = _ batch-norm-inference(p0, p1, p2, p3, p4), {suffix}"
            norms.append(structured("batch-norm-inference", f"{t}_{n}", line, x, scale, offset, mean, variance))
            line = f"ROOT r = _ batch-norm-grad(p0, p1, p2, p3, p4), {suffix}"
            norms.append(structured("batch-norm-grad", f"{t}_{n}", line, x, scale, mean, variance, g))
            for case in norms:
                yield case
                if n == 1 or (n == 0 and t.name == "f32"):
                    yield from not_finite(case)


def _far_from_zero() -> Iterator[Case]:
    """Features whose means are far larger than their deviations: the mean of the squares minus the square of the mean
    is nothing like the variance, and combining scale and offset first loses all digits."""
    for t, mean in (("f32", 1e4), ("f64", 1e8)):
        for n, (dims, feature) in enumerate((((8, 5, 7, 6), 3), ((2, 3, 9, 11), 1), ((131, 5), 1))):
            rng, features = seeded(f"batch-norm/far_{t}_{n}"), dims[feature : feature + 1]
            means = mean * rng.choice((-1, 1), features)
            spread = means.reshape([-1 if d == feature else 1 for d in range(len(dims))])
            x = (rng.standard_normal(dims) + spread).astype(ELEMENT_TYPES[t].dtype)
            g, means = random_values(rng, t, dims), means.astype(x.dtype)
            scale, offset = random_values(rng, t, features), random_values(rng, t, features)
            variance = np.abs(random_values(rng, t, features)) + x.dtype.type(0.5)
            suffix, name = f"epsilon=0.001, feature_index={feature}", f"far_{t}_{n}"
            line = f"ROOT r = _ batch-norm-training(p0, p1, p2), {suffix}"
            yield structured("batch-norm-training", name, line, x, scale, offset)
            line = f"ROOT r = _ batch-norm-inference(p0, p1, p2, p3, p4), {suffix}"
            yield structured("batch-norm-inference", name, line, x, scale, offset, means, variance)
            line = f"ROOT r = _ batch-norm-grad(p0, p1, p2, p3, p4), {suffix}"
            yield structured("batch-norm-grad", name, line, x, scale, means, variance, g)
