"""Wrong programs, as people write them: each says what to write instead, and on which line."""

from __future__ import annotations

import copy
import functools
import math
import pickle

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


class Counter:
    def __init__(self):
        self.count, self.sums = 0, [0.0]

    def step(self, x):
        y = x * 2
        self.count += 1
        return y

    def note(self, x):
        self.sums.append(x.sum())
        return x


COUNTER = Counter()


def asserted(x):
    assert x.min() > 0
    return x


class Box:
    pass


def boxed(x):
    box = Box()
    box.content = [x]
    return box


CASES = [
    (asserted, "`assert`.*return a condition to assert it outside.*asserted: assert x.min"),
    (lambda x: {x[0]: 1}, r"hash\(\), a key of a dict.*asks for the value"),
    (lambda x: functools.lru_cache(lambda v: v * 2)(x[1]), r"a function that caches its results asks for the value"),
    (lambda x: pickle.dumps(x), "pickle asks for the value.*write it to a file outside"),
    (lambda x: lambda: x, "returns a function that holds an array.*return the array itself"),
    (lambda x: functools.partial(np.add, x), "returns a partial that holds an array"),
    (boxed, "boxed returns a Box that holds an array"),
    (COUNTER.step, r"assigns self.count.*test_numpy_advice.py:\d+, in step: self.count \+= 1"),
    (COUNTER.note, r"assigns self.sums.*test_numpy_advice.py:\d+, in note: self.sums.append\(x.sum\(\)\)"),
    (lambda x: x[x > 0] @ x[x > 0], r"x\[mask\] is an argument of np.matmul"),
    (lambda x: np.vecdot(x[x > 0], x[x > 0]), r"x\[mask\] is an argument of np.vecdot"),
    (lambda x: np.frompyfunc(lambda v: v + 1, 1, 1)(x), r"calls a Python function for each element: refxla.vmap"),
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
    (lambda x: x.reshape(1, -1)[x[:1] > 0, np.argsort(x)], "mask beside other indices.*y = x"),
    (lambda x: x.reshape(1, -1)[x[:1] > 0, x.argmax() :], "mask beside other indices.*y = x"),
    (global_sum, "assigns TABLE.*return the new value.*in global_sum: TABLE = TABLE"),
    (of_a_library, r"begin with a = np.array\(a\).*of_a_library: a\[1\] = x\[0\]"),
    (remembered, "assigns HISTORY.*return the new value.*in remembered: HISTORY.append"),
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
    (
        lambda x: np.lib.stride_tricks.as_strided(x, (2, 2), (8, 8)),
        r"np.lib.stride_tricks.as_strided asks.*sliding_window_view",
    ),
    (lambda x: np.random.normal(size=3) + x, r"refxla.random.normal\(key, shape\)"),
    (lambda x: x * np.float64(x[0]), r"np.float64 asks.*x.astype\(np.float64\) converts"),
    (lambda x: x * np.int64(x.sum()), r"np.int64 asks.*x.astype\(np.int64\) converts"),
    (lambda x: np.arange(x.argmax()), r"np.arange asks.*a size must be known.*i = np.arange\(largest\)"),
    (lambda x: [y for y in np.nditer(x)], "np.nditer asks.*refxla.fori_loop"),
    (lambda x: np.random.default_rng(0).permutation(x), r"default_rng\(0\).permutation asks.*refxla.random.permut"),
    (lambda x: np.polynomial.polynomial.polyfit(x, x, 1), "np.polynomial.polynomial.polyfit asks.*np.polyfit has one"),
    (lambda x: np.poly1d(x)(1.0), "np.poly1d calls np.trim_zeros, which has no compiled form: np.polyval"),
    (lambda x: np.ma.array(x, mask=x > 1), "np.ma.array asks.*keep the mask as an array of its own"),
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
    if isinstance(caught.value, refxla.Error) and not any(
        w in str(caught.value) for w in ("is returned", "that holds")
    ):
        assert "test_numpy_advice.py:" in str(caught.value)
    assert (TABLE == before).all() and kept == HISTORY


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.astype(np.longdouble), lambda x: np.sum(x, dtype=np.longdouble), lambda x: x.astype(str),
        lambda x: x.astype("M8[s]"), lambda x: np.array(x, dtype=object),
        lambda x: np.zeros_like(x, dtype=np.longdouble),
        lambda x: np.cumsum(x, dtype=np.longdouble), lambda x: x + np.longdouble(1), lambda x: x + None,
        lambda x: "a" + x, lambda x: x % "a", lambda x: x < np.array(["a", "b", "c"]), lambda x: np.add(x, b"a"),
        lambda x: x - np.datetime64("2026-01-01"),
    ],
)  # fmt: skip
def test_types_that_hlo_does_not_have_are_refused_where_they_appear(function):
    with pytest.raises(refxla.InputError, match=r"(?s)of the type .*, which HLO does not have: there are bool, int8 to"
                       ".*test_numpy_advice.py:.*in <lambda>: lambda x"):  # fmt: skip
        refxla.compile(function)(X)


@pytest.mark.parametrize(
    ("array", "advice"),
    [
        (np.array(["a", "b"]), "<U1.*np.unique"), (np.array([b"a"]), r"\|S1.*np.unique"),
        (np.array([1, None]), "object.*astype"), (np.array(["2026-01-01"], "M8[D]"), r"datetime64\[D\].*np.int64"),
        (np.zeros(2, [("k", int), ("x", float)]), "'k'.*pass its fields"),
        (np.ones(2, np.longdouble), "float128.*np.float64"), (np.ones(2, ">f8"), ">f8.*newbyteorder"),
    ],
)  # fmt: skip
@pytest.mark.whole
def test_an_argument_of_a_type_that_hlo_does_not_have_is_named_with_its_conversion(array, advice):
    def double(table):
        return 2 * table["x"]

    with pytest.raises(refxla.InputError, match=rf"argument table\['x'\] of double is of NumPy's type .*{advice}"):
        refxla.compile(double)({"x": array})


def test_copies_share_no_memory():
    def of(copied):
        def apply(x):
            y = copied(x)
            y[0] = 9
            return x, y

        return apply

    for copied in (copy.copy, copy.deepcopy, lambda x: copy.deepcopy({"x": [x]})["x"][0]):
        x, y = refxla.compile(of(copied), device="reference")(X)
        assert x.tolist() == X.tolist() and y.tolist() == [9, *X[1:]]


def test_a_key_of_a_known_scalar_and_an_array_that_cannot_be_one():
    assert refxla.compile(lambda x: x * {1: 5.0}[np.arange(3)[1]], device="reference")(X).tolist() == (X * 5).tolist()
    with pytest.raises(TypeError, match="unhashable type: 'numpy.ndarray'"):
        refxla.compile(lambda x: {x: 1})(X)
    with pytest.raises(ValueError, match="cannot delete array elements"):
        refxla.compile(lambda x: x.__delitem__(0))(X)


def test_functions_with_two_results_of_a_selection():
    def sums(x):
        whole, part = np.divmod(x[x > 0], 2)
        return np.sum(whole), np.sum(part), np.sum(np.modf(x[x > 0])[0])

    x = np.array([5.5, -1.0, 2.0])
    assert [float(v) for v in refxla.compile(sums, device="reference")(x)] == [float(v) for v in sums(x)]


def test_a_function_that_asks_for_values_is_named():
    def apply(x):
        return np.vectorize(lambda v: v + 1)(x)

    with pytest.raises(refxla.Error, match=r"np\.vectorize asks for the value of an array.*refxla\.vmap") as problem:
        refxla.compile(apply)(X)
    assert "in apply" in str(problem.value)


@pytest.mark.parametrize("given", [np.vectorize(lambda v: v + 1), np.frompyfunc(lambda v: v + 1, 1, 1)])
def test_a_loop_over_elements_of_numpys_is_named(given):
    with pytest.raises(refxla.Error, match=r"has no compiled form.*Python function for each element: refxla\.vmap"):
        refxla.compile(given)(X)


class Metres(np.ndarray):
    def __add__(self, other):
        return super().__add__(other * 1000)


class Labelled(np.ndarray):
    """An array that prints in its own way, and computes as others do."""

    label = "x"

    def __repr__(self):
        return self.label


MASKED = np.ma.array([0.5, -1.0, 2.0], mask=[0, 1, 0])


@pytest.mark.parametrize(
    ("array", "advice"),
    [
        (MASKED, r"is a MaskedArray.*MaskedArray\..*x\.filled"),
        (np.ones((2, 2)).view(np.matrix), "is a matrix.*np.asarray.*@"),
        (X.view(Metres), r"is a Metres.*Metres\.__add__.*np.asarray"),
    ],
)
def test_arrays_that_compute_in_their_own_way_are_refused(array, advice):
    for function, given in ((lambda x: x + x, array), (lambda x: x + array, np.ones(array.shape))):
        with pytest.raises(refxla.InputError, match=f"(?s){advice}"):
            refxla.compile(function)(given)
    with pytest.raises(refxla.InputError, match=advice):
        refxla.compile(lambda pair: pair[0] * 2)((array, X))
    with pytest.raises(refxla.InputError, match=advice):
        refxla.compile(lambda x: np.add(x, MASKED if array is MASKED else array.copy()))(np.ones(array.shape))


def test_arrays_that_are_only_stored_in_their_own_way_are_taken(tmp_path):
    stored = np.memmap(tmp_path / "x", float, "w+", shape=3)
    stored[:] = X
    for array in (stored, X.view(Labelled)):
        assert (refxla.compile(lambda x: x * 2)(array) == X * 2).all()


def test_an_array_does_not_become_one_of_another_class():
    for function in (lambda x: np.asmatrix(x) * 2, lambda x: x.view(np.recarray), lambda x: x.view(type=np.matrix)):
        with pytest.raises(refxla.UnsupportedError, match="becomes a (matrix|recarray)"):
            refxla.compile(function)(X)
    assert (refxla.compile(lambda x: x.view(np.ndarray) + 1)(X) == X + 1).all()


def test_parameters_have_the_functions_own_names():
    def scaled(x, pair, arg7, *, options):
        return x * pair[0] + pair[1] + arg7 + options["rate"]

    compiled = refxla.compile(scaled)
    compiled(X, (X, X), X, options={"rate": X})
    names = [p.name for p in compiled.hlo.entry.parameters]
    assert names == ["x", "pair_0", "pair_1", "arg3", "options_rate"]  # arg7 would be the eighth
