"""Wrong programs, as people write them: each says what to write instead, and on which line."""

from __future__ import annotations

import math

import numpy as np
import pytest

import refxla

X = np.array([0.5, -1.0, 2.0])
TABLE = np.zeros(4)
HISTORY: list = []


def branch(x):
    if x[0] > 0:
        return x
    return -x


def loop_while(x):
    while np.abs(x).max() > 1e-3:
        x = x / 2
    return x


def chained(x):
    return np.where(0 < x < 1, x, 0)


def counted(x):
    total = 0.0
    for _ in range(x.argmax()):
        total = total + x
    return total


def text(x):
    name = f"the mean is {x.mean():.3f}"
    return x, name


def printed(x):
    print("mean:", str(x.mean()))
    return x


def as_float(x):
    return float(x.sum()) * x


def as_int(x):
    return x[int(x.argmax())]


def of_math(x):
    return x * math.sqrt(x[0])


def largest(x):
    return max(x[0], x[1])


def item(x):
    return x * x[0].item()


def a_list(x):
    return sum(x.tolist())


def sliced(x):
    i = x.argmax()
    return x[i : i + 1]


def of_a_list(x):
    layers = [x, x * 2, x * 3]
    return layers[x.argmax()]


def global_sum(x):
    global TABLE
    TABLE = TABLE + 1.0
    return TABLE[: len(x)] + x


def of_a_library(x):
    import numpy  # not the module that a traced function sees

    a = numpy.random.default_rng(3).normal(size=4)
    a[1] = x[0]
    return a


def remembered(x):
    HISTORY.append(x.sum())
    return x


def appended_in_loop(x):
    kept = []
    refxla.fori_loop(0, 3, lambda i, s: (kept.append(s), s + x)[1], x)
    return kept[0] + 1


def masked_rows(x):
    return x[x > 0]


def masked_length(x):
    return x.sum() / len(x[x > 0])


def two_masks(x):
    return np.sum(x[x > 0] * x[x < 1])


CASES = [
    (branch, "`if`.*refxla.cond.*branch: if x"),
    (loop_while, "refxla.while_loop"),
    (chained, "& and"),
    (counted, "refxla.fori_loop"),
    (text, "f-string.*format it outside"),
    (printed, "print it outside"),
    (as_float, r"float\(\).*x.astype\(float\)"),
    (as_int, r"int\(\).*an array can be an index as it is"),
    (of_math, "math.*np.sqrt"),
    (largest, "np.minimum and np.maximum"),
    (item, r"item\(\).*the array itself"),
    (a_list, r"tolist\(\)"),
    (sliced, r"x\[i \+ np.arange\(size\)\]"),
    (of_a_list, r"np.stack\(a_list\)\[i\]"),
    (global_sum, "assigns TABLE.*return the new value"),
    (of_a_library, r"begin with a = np.array\(a\).*of_a_library: a\[1\] = x\[0\]"),
    (remembered, "assigns HISTORY.*return the new value"),
    (appended_in_loop, "leaves an array behind.*return it"),
    (masked_rows, r"x\[mask\] is returned.*np.where\(mask, x, 0\)"),
    (masked_length, "asked for its length.*refxla.nonzero"),
    (two_masks, "another mask"),
    (lambda x: np.nonzero(x), r"refxla.nonzero\(x, size=n\)"),
    (lambda x: np.where(x > 0), r"np.nonzero has no compiled form.*np.where\(mask, x, 0\)"),
    (lambda x: np.argwhere(x), "refxla.nonzero"),
    (lambda x: np.unique(x), r"refxla.unique\(x, size=n\)"),
    (lambda x: np.union1d(x, x), r"refxla.unique\(np.concatenate"),
    (lambda x: np.intersect1d(x, x), "np.isin"),
    (lambda x: np.bincount(x.astype(int)), "minlength=n"),
    (lambda x: np.histogram(x, "auto"), "give a number, or the edges"),
    (lambda x: np.repeat(x, x.astype(int)), "np.repeat.*size of its result is a value"),
    (lambda x: np.linalg.eig(np.outer(x, x)), "np.linalg.eigh"),
    (lambda x: np.roots(x), "find the roots outside"),
    (lambda x: np.vectorize(lambda v: v + 1)(x), "use functions of NumPy|refxla.vmap"),
    (lambda x: np.apply_along_axis(np.sum, 0, x), "refxla.vmap"),
    (lambda x: np.random.normal(size=3) + x, r"refxla.random.normal\(key, shape\)"),
    (lambda x: x * np.float64(x[0]), "use functions of NumPy|astype"),
    (lambda x: np.divide.at(x, [0], 2.0), r"x\[i\] = np.divide\(x\[i\], v\)"),
    (lambda x: np.save("x.npy", x), "return the array, and save it outside"),
    (lambda x: np.array2string(x), "print it outside"),
    (lambda x: x.nonzero(), "refxla.nonzero"),
    (lambda x: x.tobytes(), "return the array and convert it outside"),
    (lambda x: np.delete(x, x.argmax()), "np.where keeps the shape"),
    (lambda x: x[:, 0], "too many indices"),
]


def test_a_loop_that_is_written_out_is_told(monkeypatch):
    from refxla.frontends.numpy import tracing

    monkeypatch.setattr(tracing, "WARN_INSTRUCTIONS", 50)

    def repeated(x, n):
        for _ in range(n):
            x = x * 0.5 + 1
        return x

    with pytest.warns(UserWarning, match=r"(?s)repeated has made 50 instructions.*refxla.fori_loop.*x = x \* 0.5"):
        refxla.compile(repeated, device="reference")(X, 40)


@pytest.mark.parametrize("n", range(len(CASES)))
def test_says_what_to_write_instead_and_where(n):
    function, advice = CASES[n]
    before, kept = TABLE.copy(), list(HISTORY)
    with pytest.raises((refxla.UnsupportedError, IndexError), match=f"(?s){advice}") as caught:
        refxla.compile(function)(X)
    if isinstance(caught.value, refxla.Error) and not any(w in str(caught.value) for w in ("assigns", "is returned")):
        assert "test_numpy_advice.py:" in str(caught.value)
    assert (TABLE == before).all() and kept == HISTORY


def test_a_function_that_asks_for_values_is_named():
    def apply(x):
        return np.vectorize(lambda v: v + 1)(x)

    with pytest.raises(refxla.Error, match=r"np\.vectorize asks for the value of an array.*refxla\.vmap") as problem:
        refxla.compile(apply)(X)
    assert "in apply" in str(problem.value)


def test_parameters_have_the_functions_own_names():
    def scaled(x, pair, arg7, *, options):
        return x * pair[0] + pair[1] + arg7 + options["rate"]

    compiled = refxla.compile(scaled)
    compiled(X, (X, X), X, options={"rate": X})
    names = [p.name for p in compiled.hlo.entry.parameters]
    assert names == ["x", "pair_0", "pair_1", "arg3", "options_rate"]  # arg7 would be the eighth
