"""Loops and branches of compiled NumPy functions, and vmap: what the Python loops that they stand for give."""

from __future__ import annotations

import numpy as np
import pytest

import refxla
from refxla.frontends.numpy.trees import leaves

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def same(got, wanted, tolerance=1e-5):
    for a, b in zip(leaves(got), leaves(wanted), strict=True):
        if b is None:
            assert a is None
            continue
        assert (np.asarray(a).dtype, np.shape(a)) == (np.asarray(b).dtype, np.shape(b))
        np.testing.assert_allclose(a, b, tolerance, tolerance)


def newton(x):
    def body(state):
        k, root = state
        return k + 1, (root + x / root) / 2

    return refxla.while_loop(
        lambda s: np.any(np.abs(s[1] ** 2 - x) > 1e-4) & (s[0] < 50), body, (np.int64(0), np.ones_like(x) + 1)
    )


def counted(x):
    weights = np.ones(3, np.float32)

    def body(i, a):
        a[i % 2] += weights * i
        return a

    return refxla.fori_loop(0, 5, body, x.copy())


def bounds(x):
    n = (x > 2).sum()
    return refxla.fori_loop(n - 2, n + 1, lambda i, s: {"a": s["a"] + x[0, 0] * i, "b": s["b"] * 2}, {"a": x, "b": X})


def started_with_a_number(x):
    return refxla.fori_loop(0, 3, lambda i, s: s + x[0, i], 0.0)


def scanned(x):
    def f(carry, row):
        carry = carry + row.sum()
        return carry, {"a": row * carry, "b": None}

    return refxla.scan(f, np.float32(0), x)


def scanned_backwards(x):
    return refxla.scan(lambda c, r: (c * 2 + r[0], (r[1], c)), np.float32(1), (x[0], x[1] * 3), reverse=True)


def repeated(x):
    return refxla.scan(lambda c, _: (c * 2, None), x, length=4)


def branched(x):
    return refxla.cond(x.sum() > 3, lambda y, z: (y * 2, z), lambda y, z: (np.zeros_like(y), z - 1), x, X[0])


def branch_that_assigns(x):
    def first(y):
        y[0] = 5
        return y

    return refxla.cond(x[0, 0] >= 0, first, lambda y: y + 0, x)


def nested(x):
    def body(i, a):
        def inner(j, b):
            return b + refxla.cond(b[0, 0] > 10, lambda: x * i, lambda: x + j)

        return refxla.fori_loop(0, i + 1, inner, a)

    return refxla.fori_loop(0, 3, body, x * 0)


FUNCTIONS = [newton, counted, bounds, started_with_a_number, scanned, scanned_backwards, repeated, branched,
             branch_that_assigns, nested]  # fmt: skip


@pytest.mark.parametrize("function", FUNCTIONS, ids=[f.__name__ for f in FUNCTIONS])
def test_gives_what_the_python_loop_gives(function):
    compiled = refxla.compile(function)
    for x in (X, X + 1, -X - 1 if function is not newton else X + 3):
        same(compiled(x), function(x.copy()))


def test_another_number_of_iterations_is_the_same_program():
    def f(x, n):
        return refxla.fori_loop(0, n, lambda i, s: s + x * i, np.zeros_like(x))

    compiled = refxla.compile(f)
    for n in range(5):
        same(compiled(X, n), f(X, n))
    assert len(compiled._compiled) == 1


def test_what_raises_in_a_body_raises_at_the_call():
    over = refxla.compile(lambda x, n: refxla.fori_loop(0, n, lambda i, s: s + x[0, i], 0.0), device="reference")
    same(over(X, 3), np.float32(3))
    with pytest.raises(IndexError, match="out of bounds for axis 1 with size 3"):
        over(X, 4)
    chosen = refxla.compile(
        lambda x, i: refxla.cond(i > 5, lambda: x[0, 0], lambda: x[0, i]), device="reference"
    )  # fmt: skip
    same(chosen(X, 9), X[0, 0])
    with pytest.raises(IndexError):
        chosen(X, 4)
    searched = refxla.compile(
        lambda x: refxla.while_loop(lambda i: x[0, i] < 9, lambda i: i + 1, np.int64(0)), device="reference"
    )
    same(searched(X * 5), np.int64(2))
    with pytest.raises(IndexError):
        searched(X)


def keeps_something(x):
    kept = []
    refxla.fori_loop(0, 3, lambda i, s: (kept.append(s * 2), s)[1], 1.0)
    return kept[-1] + x


def assigns_outside(x):
    a = np.zeros(3)

    def body(i, s):
        a[i] = s
        return s

    return refxla.fori_loop(0, 3, body, 1.0)


WRONG = [
    (lambda x: refxla.fori_loop(0, 3, lambda i, s: s * 1.5, np.zeros(3, np.int32)), "given int32.* returns float64"),
    (lambda x: refxla.fori_loop(0, 3, lambda i, s: s[:2], x[0]), r"given float32\[3\] and returns float32\[2\]"),
    (lambda x: refxla.fori_loop(0, 2.5, lambda i, s: s, x), "bounds of refxla.fori_loop are integers"),
    (lambda x: refxla.fori_loop(0, 2, lambda i, s: s, "text"), "state of refxla.fori_loop holds a str"),
    (lambda x: refxla.while_loop(lambda s: s > 0, lambda s: s - 1, x), "must be one boolean: np.any"),
    (lambda x: refxla.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1,), (0, x)), "of the same structure"),
    (lambda x: refxla.cond(x[0, 0] > 0, lambda: x, lambda: x[0]), r"float32\[2, 3\] and float32\[3\]"),
    (lambda x: refxla.cond(x[0, 0] > 0, lambda: x, lambda: x > 0), r"convert one by x.astype\(np.float32\)"),
    (lambda x: refxla.cond(x[0, 0] > 0, lambda: x, lambda: (x, x)), "same structure"),
    (lambda x: refxla.cond(x > 0, lambda: 1, lambda: 2), "must be one boolean"),
    (lambda x: refxla.scan(lambda c, r: c, 0.0, x), "return the carry and a result"),
    (lambda x: refxla.scan(lambda c, r: (c, r), 0.0, (x, x[0])), "lengths"),
    (lambda x: refxla.scan(lambda c, r: (c, r), 0.0), "length=n"),
    (keeps_something, "leaves an array behind"),
    (assigns_outside, "part of the state"),
    (lambda x: refxla.vmap(lambda a, b: a)(x, x.T), "sizes \\[2, 3\\]"),
    (lambda x: refxla.vmap(lambda a, b: a, in_axes=(0,))(x, x), "1 axis for 2 arguments"),
    (lambda x: refxla.vmap(lambda a: a, in_axes=2)(x), "along dimension 2 of an argument of shape"),
    (lambda x: refxla.vmap(lambda a: a, out_axes=None)(x), "out_axes"),
]


@pytest.mark.parametrize("n", range(len(WRONG)))
def test_what_is_wrong_is_said(n):
    function, message = WRONG[n]
    with pytest.raises(
        (refxla.InputError, refxla.UnsupportedError), match=f"(?s){message}.*test_numpy_control_flow.py:"
    ):
        refxla.compile(function)(X)


# -- vmap

RANDOM = np.random.default_rng(0)
T = RANDOM.standard_normal((3, 4, 5)).astype(np.float32)
V = RANDOM.standard_normal((3, 5)).astype(np.float32)
K = RANDOM.integers(0, 4, 3)
SQUARES = RANDOM.standard_normal((3, 4, 4))


WEIGHTS = np.ones(5, np.float32)


def test_vmap_finds_what_its_function_reads(monkeypatch):
    def weighted(row):
        scale = np.ones(5, np.float32)
        scale[row.argmax()] = 2
        return row * WEIGHTS * scale

    many = refxla.vmap(weighted)
    for weights in (np.float32([1, 2, 3, 4, 5]), np.zeros(5, np.float32)):
        monkeypatch.setitem(globals(), "WEIGHTS", weights)
        for compiled in (many, refxla.compile(many)):
            np.testing.assert_array_equal(compiled(V), np.stack([weighted(row) for row in V]))


def written(a, i):
    y = a.copy()
    y[i] = 0.0
    y[1, 2] = 5
    np.add.at(y, (i, [0, 0]), 1)
    return y


VMAPPED = {
    "elements": (lambda a, b: np.sin(a @ b) + 1, T, V),
    "reductions": (lambda a: (a.sum(), a.max(0), a.mean(1), np.argmax(a), np.sort(a, axis=0), np.cumsum(a, 1)), T),
    "shapes": (lambda a: (a.T, a[::-1, 1:3], a.reshape(-1), np.concatenate([a, a]), a[None], np.tile(a, 2)), T),
    "indices": (lambda a, i: (a[i], a[:, i], a[i, i], np.take(a, [i, 0])), T, K),
    "writes": (written, T, K),
    "linear algebra": (lambda a: (np.linalg.inv(a), np.linalg.det(a), np.linalg.svd(a, compute_uv=False)), SQUARES),
    "padding": (lambda a: (np.pad(a, 1), np.pad(a, 1, constant_values=a[0, 0])), T),
    "convolutions": (lambda a: (np.convolve(a[0], a[1]), np.fft.fft(a).real, np.fft.rfft(a).imag), T),
    "einsum": (lambda a, b: (np.einsum("ij,j->i", a, b), np.outer(b, b)), T, V),
    "order": (lambda a, b: (np.median(a), np.percentile(a, 30), np.searchsorted(np.sort(b), a)), T, V),
    "while": (lambda a: refxla.while_loop(lambda s: s.sum() < 50, lambda s: s + 1 + np.abs(s), a), T),
    "cond": (lambda a, i: refxla.cond(i > 1, lambda y: y * 2, lambda y: -y[::-1], a), T, K),
    "scan": (lambda a: refxla.scan(lambda c, r: (c + r, c * r), np.zeros(5, np.float32), a), T),
    "fori": (lambda a, n: refxla.fori_loop(0, n, lambda i, s: s * 2 + i, a), T, K),
}


@pytest.mark.parametrize("name", VMAPPED)
def test_vmap_gives_the_results_for_the_elements(name):
    f, *arguments = VMAPPED[name]
    each = [leaves(f(*(a[n] for a in arguments))) for n in range(3)]
    same(leaves(refxla.vmap(f)(*arguments)), [np.stack(column) for column in zip(*each, strict=True)], 1e-4)


def test_vmap_along_other_dimensions():
    f = refxla.vmap(refxla.vmap(lambda a, b: a * b, in_axes=(0, None)), in_axes=(None, 0), out_axes=1)
    same(refxla.compile(f)(np.arange(3.0), np.arange(4.0)), np.outer(np.arange(3.0), np.arange(4.0)))
    g = refxla.vmap(lambda t, s: t["a"] @ t["b"] + s, in_axes=({"a": 2, "b": None}, None), out_axes=0)
    wanted = np.stack([T[:, :, n] @ np.ones(4, np.float32) for n in range(5)]) + np.float32(1)
    same(g({"a": T, "b": np.ones(4, np.float32)}, np.float32(1)), wanted)


def test_vmap_raises_for_the_element_that_does():
    f = refxla.vmap(lambda a, i: refxla.cond(i < 3, lambda: a[i], lambda: a[0]))
    same(f(T[:, 0, :3], np.array([0, 2, 9])), np.array([T[0, 0, 0], T[1, 0, 2], T[2, 0, 0]]))
    with pytest.raises(IndexError):
        refxla.vmap(lambda a, i: a[i])(T[:, 0, :3], np.array([0, 2, 9]))
