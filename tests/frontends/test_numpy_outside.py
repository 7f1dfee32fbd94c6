"""What a NumPy function takes from outside: Python numbers, globals, closures, attributes, random numbers. The compiled
one gives what the function gives now, or says that it cannot."""

from __future__ import annotations

import collections
import dataclasses
import functools
import gc
import random
import threading
import types
import warnings
import weakref

import numpy as np
import pytest
import scipy.sparse
from numpy.random import randn

import refxla
from refxla.frontends.traced import RecompilationWarning

X = np.linspace(-2, 3, 6, dtype=np.float32)
WEIGHTS = np.arange(6, dtype=np.float32)
SCALE = 2.0
LAYERS = {"dense": [np.full(6, 2, np.float32), (np.ones(6, np.float32), 3)], "name": "first"}
RNG = np.random.default_rng(0)
SPACE = types.SimpleNamespace(w=np.ones(6, np.float32))


def kinds(compiled) -> int:
    return len(compiled._compiled)


def agrees(compiled, function, *args, **kwargs):
    got, wanted = compiled(*args, **kwargs), function(*args, **kwargs)
    if isinstance(wanted, (np.ndarray, np.generic)):
        assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_allclose(got, wanted, 1e-6)
    else:
        assert type(got) is type(wanted) and got == wanted


# Python numbers.

ARITHMETIC = [
    lambda x, n: x * n,
    lambda x, n: n - x,
    lambda x, n: (x + n / 3, n / 3),
    lambda x, n: x * (n // 2) + n % 3,
    lambda x, n: np.where(x > n, x, n),
    lambda x, n: np.maximum(x, -abs(n)) ** 2,
    lambda x, n: np.sin(n) + x,
    lambda x, n: np.full_like(x, n) + np.clip(x, 0, n),
    lambda x, n: n * 2,
    lambda x, n: x[0] < n,
    lambda x, n: np.float32(2) * (n + 0.5) + x,
    lambda x, n: (n**2) * x + 2**-1,
]
TYPES = [np.float32, np.float64, np.int32, np.uint8, np.int64, np.bool_]


@pytest.mark.parametrize("n", range(len(ARITHMETIC)))
def test_a_number_gives_what_numpy_gives_and_one_program(n):
    function = ARITHMETIC[n]
    for dtype in TYPES:
        for values in ((1, 3, 7), (0.5, 2.5, -1.25)):
            compiled = refxla.compile(function)
            for value in values:
                x = np.abs(X).astype(dtype)
                try:
                    wanted = function(x, value)
                except (TypeError, OverflowError) as problem:
                    with pytest.raises((type(problem), refxla.Error)):
                        compiled(x, value)
                    continue
                got = compiled(x, value)
                for a, b in zip(*(v if isinstance(v, tuple) else (v,) for v in (got, wanted)), strict=True):
                    assert type(b) is type(a) or isinstance(a, np.ndarray)
                    if isinstance(b, (np.ndarray, np.generic)):
                        assert (a.dtype, a.shape) == (b.dtype, b.shape), (dtype, value)
                    np.testing.assert_allclose(a, b, 1e-6)
            assert kinds(compiled) <= 1


ALONE = [  # NumPy gives a Python number a type of its own here
    lambda x, n: np.searchsorted(x, n),
    lambda x, n: x.searchsorted(n, "right"),
    lambda x, n: np.digitize(n, x),
    lambda x, n: np.array_equal(x[0], n),
    lambda x, n: np.array_equiv(x[:1], n),
    lambda x, n: np.inner(x, n),
    lambda x, n: np.tensordot(x, n, 0),
    lambda x, n: np.outer(x, n),
    lambda x, n: np.kron(n, x),
    lambda x, n: np.convolve(x, n),
    lambda x, n: np.vdot(x[:1], n),
    lambda x, n: np.geomspace(x + 1, abs(n) + 1, 3),
    lambda x, n: np.pad(x, 1, constant_values=n),
    # An array of a number alone, which is not weak beside the other one.
    lambda x, n: np.negative(n) + x,
    lambda x, n: np.abs(n) + x,
    lambda x, n: np.add(n, 1) * x,
    lambda x, n: np.real(n) + x,
    lambda x, n: np.round(n, 1) + x,
    lambda x, n: np.broadcast_to(n, (2, 1)) + x,
    lambda x, n: np.ones_like(n) + x,
    lambda x, n: np.sum(n) + x,
    lambda x, n: np.ravel(n) + x,
    lambda x, n: np.atleast_1d(n) + x,
    lambda x, n: np.angle(n) + x,
    lambda x, n: np.nan_to_num(n) + x,
    lambda x, n: np.geomspace(abs(n), 8, 4) + x[:1],
    lambda x, n: np.geomspace(x[0] + 1, x[1], 4),
    # And not here.
    lambda x, n: np.linspace(n, x, 3),
    lambda x, n: np.logspace(n, x[:1], 2, base=2),
    lambda x, n: np.var(x, mean=np.full(1, n)),
    lambda x, n: np.std(x, mean=n / 2, keepdims=True),
    lambda x, n: np.isclose(x, n, rtol=0, atol=0),
    lambda x, n: np.allclose(n, x[:1], 0, 0),
    lambda x, n: np.clip(x, n, 7),
    lambda x, n: x.clip(2, n),
    lambda x, n: np.clip(x, n, x),
    # NumPy's errors.
    lambda x, n: np.histogram(x, [0, n, 1])[0],
    lambda x, n: np.histogram2d(x, x, [[0, n, 1], [0, 1]])[0],
    lambda x, n: np.histogram(x, x[::-1] * n)[0],
    lambda x, n: np.histogram(x, 3, (x[1], x[0] * n)),
    lambda x, n: np.searchsorted(x, n, sorter=[0]),
    # Types.
    lambda x, n: np.zeros(2, np.result_type(x, n)),
    lambda x, n: np.zeros(2, np.result_type(n, np.int32)),
    lambda x, n: np.zeros(2, np.result_type(x, "f4", np.int8)),
]


@pytest.mark.parametrize("function", ALONE)
@pytest.mark.parametrize("is_static", [False, True])
def test_a_number_has_a_type_of_its_own_where_numpy_gives_it_one(function, is_static):
    compiled = refxla.compile(function, device="reference", static_argnames=["n"] if is_static else [])
    for x in np.array([0.1, 0.7], np.float32), np.array([0, 5, 9], np.uint8):
        for n in (0.1, -1) if x.dtype.kind == "f" else (300, -1, 5, 2.5):
            try:
                wanted = function(x, n)
            except (ValueError, OverflowError) as problem:
                with pytest.raises(type(problem)):
                    compiled(x, n)
                continue
            got = compiled(x, n)
            for a, b in zip(*(v if isinstance(v, tuple) else (v,) for v in (got, wanted)), strict=True):
                assert (np.asarray(a).dtype, np.shape(a)) == (np.asarray(b).dtype, np.shape(b)), (x.dtype, n)
                np.testing.assert_allclose(a, b, 1e-6)


def test_twenty_learning_rates_are_one_program_and_the_bits_are_numpys():
    def step(w, g, rate, decay=0.9):
        return w - rate * decay * g

    compiled = refxla.compile(step)
    for n in range(1, 21):
        np.testing.assert_array_equal(compiled(X, WEIGHTS, 0.1 / n), step(X, WEIGHTS, 0.1 / n))
        np.testing.assert_array_equal(compiled(X, WEIGHTS, 0.1 / n, decay=n / 20), step(X, WEIGHTS, 0.1 / n, n / 20))
    assert kinds(compiled) == 2


def test_a_number_that_its_type_does_not_hold_is_numpys_error():
    compiled = refxla.compile(lambda x, n: x + n)
    small = np.arange(3, dtype=np.int8)
    for _ in range(3):
        np.testing.assert_array_equal(compiled(small, 5), small + 5)
    with pytest.raises(OverflowError):
        compiled(small, 300)
    with pytest.raises(OverflowError):
        compiled(small.astype(np.int64), 2**70)
    agrees(compiled, lambda x, n: x + n, X, 2**70)
    assert kinds(compiled) >= 1


STATIC = {
    "shape": (lambda x, n: x.reshape(n, -1), (2, 3)),
    "axis": (lambda x, n: x.reshape(2, 3).sum(axis=n), (0, 1)),
    "if": (lambda x, n: x if n > 2 else -x, (1, 3)),
    "loop": (lambda x, n: functools.reduce(np.add, [x] * n), (1, 3)),
    "size": (lambda x, n: x + np.zeros(n, np.float32).sum(), (2, 3)),
    "key": (lambda x, n: x * {1: 2.0, 2: 5.0}[n], (1, 2)),
    "type": (lambda x, n: x + 1 if isinstance(n, int) else x - 1, (1, 2)),
    "text": (lambda x, n: {"1": x, "2": -x}[f"{n}"], (1, 2)),
    "power": (lambda x, n: x * 2**n, (3, -1)),
}


@pytest.mark.parametrize("name", STATIC)
def test_a_number_whose_value_is_needed_is_part_of_the_program(name):
    function, values = STATIC[name]
    for options in ({}, {"static_argnames": "n"}, {"static_argnums": 1}, {"static_argnums": (-1,)}):
        compiled = refxla.compile(function, **options)
        for value in (*values, *values):
            agrees(compiled, function, X, value)
            agrees(compiled, function, X, n=value)
        assert name == "type" or kinds(compiled) == 4


def test_a_number_chooses_an_element():
    def f(x, i):
        return x[1:, i] + x[i, None, ::-1][..., -i, None] + x[i, i]

    compiled, x = refxla.compile(f), X.reshape(2, 3)
    x = np.concatenate([x, x + 1])
    for i in (0, 1, 2, -1, -2):
        agrees(compiled, f, x, i)
    assert kinds(compiled) == 1
    for i in (3, -4):
        with pytest.raises(IndexError):
            f(x, i)
        with pytest.raises(IndexError, match="out of bounds"):
            compiled(x, i)


def test_a_number_that_is_mixed_with_arrays_has_no_value():
    with pytest.raises(refxla.UnsupportedError, match="asks for the value"):
        refxla.compile(lambda x, n: x if n * x[0] > 2 else -x)(X, 3)


def test_static_arguments_that_are_not_there():
    with pytest.raises(refxla.InputError, match="'axes' is no parameter"):
        refxla.compile(lambda x, axis: x, static_argnames="axes")
    with pytest.raises(refxla.InputError, match="no place"):
        refxla.compile(lambda x, axis: x, static_argnums=2)
    with pytest.raises(refxla.InputError, match="static argument"):
        refxla.compile(lambda x, w: x, static_argnames="w")(X, X)


def test_many_compilations_are_told_once_with_the_argument():
    compiled = refxla.compile(lambda x, size: x[:size] * SCALE)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for n in range(1, 5):
            compiled(X, n)
        assert not caught
        for n in range(5, 15):
            compiled(np.ones(20, np.float32), n)
    (warning,) = caught
    assert warning.category is RecompilationWarning and "size changed" in str(warning.message)
    assert warning.filename == __file__
    with pytest.warns(RecompilationWarning, match=r"x changed.*pad"):
        for n in range(1, 12):
            compiled(np.ones(30 + n, np.float32), 3)


# Globals, closures, attributes.


def reading():
    return WEIGHTS * SCALE


def nested(x):
    return x * LAYERS["dense"][0] + LAYERS["dense"][1][0] * LAYERS["dense"][1][1] + SPACE.w + reading()


def test_globals_are_read_at_each_call(monkeypatch, request):
    compiled = refxla.compile(nested)
    for _ in range(3):
        agrees(compiled, nested, X)
    assert kinds(compiled) == 1
    change = functools.partial(monkeypatch.setitem, globals())
    change("WEIGHTS", WEIGHTS + 1)  # another array
    agrees(compiled, nested, X)
    WEIGHTS[2] = 50  # another value in it
    agrees(compiled, nested, X)
    monkeypatch.setitem(LAYERS, "dense", [LAYERS["dense"][0] * 3, LAYERS["dense"][1]])
    agrees(compiled, nested, X)
    LAYERS["dense"][1] = (np.full(6, 9, np.float32), 3)
    agrees(compiled, nested, X)
    monkeypatch.setattr(SPACE, "w", SPACE.w * 7)
    agrees(compiled, nested, X)
    assert kinds(compiled) == 1
    change("SCALE", 3.0)  # a number is part of the program
    agrees(compiled, nested, X)
    change("reading", lambda: np.float32(1))
    agrees(compiled, nested, X)
    change("WEIGHTS", np.float64(2))
    agrees(compiled, nested, X)
    assert kinds(compiled) == 3


def test_closures_and_defaults():
    w, factor = np.ones(6, np.float32), 2

    def f(x, bias=WEIGHTS):
        return x * w * factor + bias

    compiled = refxla.compile(f)
    for _ in range(3):
        agrees(compiled, f, X)
    w[1] = 5
    agrees(compiled, f, X)
    w = np.full(6, 4, np.float32)
    agrees(compiled, f, X)
    assert kinds(compiled) == 1
    factor = 3
    agrees(compiled, f, X)
    agrees(compiled, f, X, X)
    f.__defaults__ = (X,)
    agrees(compiled, f, X)


def test_values_of_captured_arrays_that_are_needed():
    sizes, matrix, mask = np.array([2, 3]), np.eye(3, dtype=np.float32) * 2, np.ones(6, bool)

    def f(x):
        return x[mask].reshape(sizes[0], int(sizes[1])) @ np.linalg.inv(matrix)

    compiled = refxla.compile(f)
    agrees(compiled, f, X)
    matrix[0, 0] = 4
    agrees(compiled, f, X)
    sizes[:] = 3, 2
    matrix = matrix[:2, :2].copy()
    agrees(compiled, f, X)
    agrees(compiled, f, X)


def test_tables_of_types_that_hlo_does_not_have():
    table = np.zeros(2, [("w", np.float32), ("n", "U3")])
    table["w"] = 3

    def f(x):
        return x * table["w"][0]

    compiled = refxla.compile(f)
    agrees(compiled, f, X)
    table["w"][0] = 5
    agrees(compiled, f, X)


def test_what_the_function_writes_is_refused_and_nothing_is_left_behind():
    state = {"w": np.ones(6, np.float32), "t": (np.ones(6, np.float32),)}
    before = dict(state)

    def assign(x):
        state["w"] = state["w"] + x
        return x

    for function, message in ((assign, r"assigns state\['w'\]"),):
        with pytest.raises(refxla.UnsupportedError, match=message):
            refxla.compile(function)(X)
        assert all(state[k] is before[k] for k in state)
    with pytest.raises(ZeroDivisionError):
        refxla.compile(lambda x: state["w"] * (1 // 0))(X)
    assert all(state[k] is before[k] for k in state)


def test_what_the_function_changes_in_place_is_changed():
    def make():
        state = {"w": np.ones(6, np.float32), "t": (np.ones(6, np.float32),)}

        class Body:
            def __init__(self):
                self.place, self.speed = np.zeros(6, np.float32), np.arange(6, dtype=np.float32)

            def move(self, force):
                self.speed += force
                self.place += self.speed * 0.5
                self.place[self.place > 9] -= 10
                state["w"] += self.place
                state["t"][0][1:3] = self.speed[:2]
                return self.place.sum()

        return state, Body()

    (state, body), (own_state, own) = make(), make()
    move = refxla.compile(body.move)
    place = body.place
    for _ in range(4):
        np.testing.assert_allclose(move(X), own.move(X), 1e-6)
        for got, wanted in ((body.place, own.place), (body.speed, own.speed), (state["w"], own_state["w"])):
            np.testing.assert_allclose(got, wanted, 1e-6)
        np.testing.assert_allclose(state["t"][0], own_state["t"][0], 1e-6)
    assert body.place is place and kinds(move) == 1
    body.speed = body.place
    with pytest.raises(refxla.InputError, match=r"speed, which shares memory with .*place"):
        move(X)


def test_nothing_of_a_trace_is_kept():
    w, log, memo = np.ones(6, np.float32), [], {}

    @functools.lru_cache
    def table(n):
        return w * n

    class Lazy:
        @functools.cached_property
        def twice(self):
            return w * 2

        def f(self, x):
            return x * self.twice + table(3)

    lazy = Lazy()
    compiled = refxla.compile(lazy.f)
    np.testing.assert_allclose(compiled(X), X * 2 + 3)
    assert table.cache_info().currsize == 0 and not vars(lazy)
    agrees(compiled, lazy.f, X)
    agrees(compiled, lazy.f, X)
    for function in (lambda x: (log.append(x * w), x)[1], lambda x: (memo.update(a=[x]), x)[1]):
        with pytest.raises(refxla.UnsupportedError, match="assigns"):
            refxla.compile(function)(X)
        assert not log and not memo


def test_containers_that_a_function_changes_are_refused_and_stay():
    """They would change when the function is traced, and at no other call."""
    log, table, seen, queue = [], {"a": 1, "w": np.ones(6, np.float32)}, {1, 2}, collections.deque((1, 2))

    def default(x, kept=[]):  # noqa: B006 - it is what is tested
        kept.append(1)
        return x * len(kept)

    changes = [
        (default, r"default.__defaults__\[0\]"),
        (lambda x: log.append(1), "log"),
        (lambda x: table.pop("a"), r"table\['a'\]"),
        (lambda x: table.clear(), r"table\['w'\]"),
        (lambda x: seen.discard(1), "the set seen"),
        (lambda x: queue.rotate(), "queue"),
        (lambda x: queue.append(x), "queue"),
    ]
    for function, name in changes:
        with pytest.raises(refxla.UnsupportedError, match=f"assigns {name}.*return the new value"):
            refxla.compile(function)(X)
    with pytest.raises(refxla.UnsupportedError, match="assigns the set s,"):
        refxla.compile(lambda x, s: s.add(3))(X, seen)
    assert (log, table.keys(), seen, list(queue)) == ([], {"a", "w"}, {1, 2}, [1, 2])
    assert default.__defaults__ == ([],)


def test_constants_that_a_function_keeps_are_no_error():
    known, seen, w = {"w": np.ones(6, np.float32)}, set(), np.ones(6, np.float32)

    def remember(x, n):
        if n not in known:
            known[n] = len(n) * 2
        seen.add(n)
        return x * known[n] * known["w"] * w

    compiled = refxla.compile(remember)
    for _ in range(2):
        np.testing.assert_array_equal(compiled(X, "text"), X * 8)
    assert known["text"] == 8 and seen == {"text"}


def test_the_advice_for_what_is_no_number_does_not_ask_for_an_array():
    compiled = refxla.compile(lambda x, mode: x * len(mode))
    with pytest.warns(RecompilationWarning, match="mode changed, .* to 'aaaaa': each value is .* use a few of them"):
        for n in range(8):
            compiled(X, mode="a" * n)


def test_long_lists_of_numbers():
    values = list(range(30_000))
    compiled = refxla.compile(lambda x: x * values[2] + len(values))
    for _ in range(2):
        np.testing.assert_allclose(compiled(X), X * values[2] + len(values))
        values[2] = 7
    values.append(3)
    np.testing.assert_allclose(compiled(X), X * values[2] + len(values))


def test_a_number_of_an_object_that_changes_is_named():
    model = types.SimpleNamespace(rate=1.0)
    compiled = refxla.compile(lambda x: x * model.rate)
    with pytest.warns(RecompilationWarning, match="model.rate changed, the last time from 2.0 to 2.5"):
        for n in range(8):
            model.rate = n / 2
            np.testing.assert_allclose(compiled(X), X * model.rate)


def test_compiled_functions_that_call_compiled_ones():
    w = np.ones(6, np.float32)
    inner = refxla.compile(lambda x, n: x * w + n)
    outer = refxla.compile(lambda x: inner(x, 2.0) + inner(w, 1))
    for _ in range(3):
        np.testing.assert_allclose(outer(X), X * w + 2 + w * w + 1, 1e-6)
        np.testing.assert_allclose(inner(X, 2.0), X * w + 2, 1e-6)
        w += 1


# Methods and objects.


class Model:
    rate = 0.5

    def __init__(self, n):
        self.w = np.full(6, n, np.float32)
        self.layers = [np.ones(6, np.float32)]

    def helper(self, x):
        return x * self.w * self.rate

    def plain(self, x, scale=1.0):
        return self.helper(x) * scale + self.layers[0]

    call = refxla.compile(plain)

    @refxla.compile
    def decorated(self, x):
        return x + self.w

    @staticmethod
    @refxla.compile
    def inner_static(x):
        return x * 2

    @refxla.compile
    @staticmethod
    def outer_static(x):
        return x * 3

    @classmethod
    @refxla.compile
    def inner_class(cls, x):
        return x * cls.rate

    @refxla.compile
    @classmethod
    def outer_class(cls, x):
        return x * cls.rate

    @property
    @refxla.compile
    def total(self):
        return np.sum(self.w * 1)


def test_methods():
    one, two = Model(1), Model(2)
    for _ in range(3):
        for model in (one, two):
            agrees(model.call, model.plain, X)
            agrees(model.call, model.plain, X, 3.0)
            np.testing.assert_allclose(model.decorated(X), X + model.w)
            assert model.total == model.w.sum()
            np.testing.assert_allclose(model.inner_static(X), X * 2)
            np.testing.assert_allclose(model.outer_static(X), X * 3)
            np.testing.assert_allclose(model.inner_class(X), X * model.rate)
            np.testing.assert_allclose(type(model).outer_class(X), X * model.rate)
        one.w = one.w + 1
        two.w[3] = 9
        two.layers[0] = two.layers[0] * 2
    assert kinds(Model.call) == 2  # one program for all objects; another one with a scale
    one.rate = 0.25
    agrees(one.call, one.plain, X)
    two.layers.append(X)
    agrees(two.call, two.plain, X)
    assert one.call.plan.kernels


@dataclasses.dataclass(frozen=True)
class Frozen:
    w: np.ndarray
    n: int = 2


class Slots:
    __slots__ = ("w", "empty")

    def __init__(self):
        self.w = np.ones(6, np.float32)


def test_objects_among_the_arguments():
    def f(model, x):
        return x * model.w

    compiled = refxla.compile(f)
    for model in (Frozen(WEIGHTS), Frozen(X), Slots(), Model(3)):
        for _ in range(2):
            agrees(compiled, f, model, X)
            model.w[1] += 1
    assert kinds(compiled) == 3


@pytest.mark.parametrize("how", ["in place", "replaced"])
@pytest.mark.parametrize("where", ["argument", "closure"])
def test_arrays_of_objects_of_libraries_are_compared(how, where):
    """SciPy computes the sum when the function is traced."""
    matrix = scipy.sparse.csr_array(np.diag([1, 2, 3]).astype(np.float32))
    f = (lambda m, x: x * m.sum()) if where == "argument" else (lambda _, x: x * matrix.sum())
    compiled = refxla.compile(f)
    for n in range(3):
        for _ in range(2):
            agrees(compiled, f, matrix if where == "argument" else 0, X)
        if how == "in place":
            matrix.data[2] += 1
        else:
            matrix.data = matrix.data + np.float32(n + 1)
    assert kinds(compiled) == 3


def test_an_object_may_end():
    compiled = refxla.compile(lambda model, x: x * model.w)
    for n in range(3):
        model = Model(n)
        alive = weakref.ref(model)
        for _ in range(3):
            np.testing.assert_array_equal(compiled(model, X), X * n)
            model.w = np.full(6, n, np.float32)
        del model
        gc.collect()
        assert alive() is None and not compiled._objects


def test_threads_that_trace_what_they_share():
    w, wrong = np.ones(6, np.float32), []

    def work(n):
        function = refxla.compile(lambda x: x * w + n)
        for size in (1, 6):
            if not np.allclose(function(X[:size].repeat(6 // size)), X[:size].repeat(6 // size) * w + n):
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


# Random numbers.

LEGACY, PYTHONS = np.random.RandomState(1), random.Random(1)
DRAWS = {
    "randn": (lambda x: x + np.random.randn(6), r"np\.random\.randn"),
    "seeded": (lambda x: (np.random.seed(0), x)[1], r"np\.random\.seed"),
    "imported": (lambda x: x + randn(6), "randn"),
    "choice": (lambda x: x * np.random.choice(3), r"np\.random\.choice"),
    "captured": (lambda x: x + RNG.standard_normal(6), r"RNG\.standard_normal"),
    "legacy": (lambda x: x + LEGACY.rand(6), r"LEGACY\.rand"),
    "new": (lambda x: x + np.random.default_rng().normal(size=6), "without a seed"),
    "new legacy": (lambda x: x + np.random.RandomState().rand(6), "without a seed"),
    "python": (lambda x: x * random.random(), r"random\.random"),
    "gauss": (lambda x: x * random.gauss(0, 1), r"random\.gauss"),
    "pythons": (lambda x: x * PYTHONS.random(), r"PYTHONS\.random"),
    "python new": (lambda x: x * random.Random().random(), r"random\.Random"),
    "system": (lambda x: x * random.SystemRandom().random(), "urandom|random"),
    "through a library": (lambda x: x + LIBRARY(6), "global generator of np.random"),
}
LIBRARY = types.FunctionType(compile("lambda n: draw(n)", "library", "eval").co_consts[0], {"draw": None})
LIBRARY.__globals__["draw"], LIBRARY.__module__ = np.random.mtrand._rand.rand, "scipy.stats"


@pytest.mark.parametrize("name", DRAWS)
def test_random_numbers_that_would_stay_the_same_are_refused(name):
    function, called = DRAWS[name]
    for _ in range(2):
        with pytest.raises(refxla.UnsupportedError, match=f"{called}.*random numbers.*as an argument"):
            refxla.compile(function)(X)
    function(X)  # all is as it was


@pytest.mark.parametrize("rng", [np.random.default_rng(0), np.random.RandomState(0)])
def test_a_generator_as_an_argument_or_in_one_is_refused(rng):
    with pytest.raises(refxla.UnsupportedError, match=r"an argument, a \w+\.normal draws random numbers"):
        refxla.compile(lambda x, rng: x + rng.normal(size=6))(X, rng)
    with pytest.raises(refxla.UnsupportedError, match=r"a \w+\.normal draws"):
        refxla.compile(lambda x, rng: x + rng["a"][0].normal(size=6), static_argnums=1)(X, {"a": (rng,)})
    with pytest.raises(refxla.UnsupportedError, match=r"model\.rng\.normal draws"):
        refxla.compile(lambda model, x: x + model.rng.normal(size=6))(types.SimpleNamespace(rng=rng), X)


def test_random_numbers_of_a_fixed_seed_are_constants():
    def f(x):
        return x + np.random.default_rng(3).standard_normal(6).astype(np.float32)

    compiled = refxla.compile(f)
    for _ in range(2):
        agrees(compiled, f, X)


COUNT = 0


def test_a_number_that_a_function_assigns_is_refused_and_stays():
    """It would be assigned when the function is traced, and at no other call."""

    class Model:
        step = 2.5

        def __init__(self):
            self.calls = 0

        def run(self, x):
            self.calls += 1
            return x * self.calls

    def count(x):
        global COUNT
        COUNT += 1
        return x + COUNT

    factor = 1.5

    def scaled(x):
        nonlocal factor
        factor *= 2
        return x * factor

    table = {"a": 1}

    def element(x):
        table["a"] += 1
        return x * table["a"]

    model = Model()
    for function, name in ((count, "COUNT"), (scaled, "factor"), (element, r"table\['a'\]"), (model.run, "self.calls")):
        for _ in range(2):
            with pytest.raises(refxla.UnsupportedError, match=f"assigns {name}, .*return the new value"):
                refxla.compile(function)(np.ones(3))
    assert (COUNT, factor, table, model.calls) == (0, 1.5, {"a": 1}, 0)


def test_no_symbol_stays_in_a_new_global():
    def keep(x):
        global KEPT_SUM
        KEPT_SUM = x.sum()
        return x

    with pytest.raises(refxla.UnsupportedError, match=r"assigns KEPT_SUM, "):
        refxla.compile(keep)(np.ones(3))
    assert "KEPT_SUM" not in globals()


async def _later(x):
    return x * 2


def _one_by_one(x):
    yield x


@pytest.mark.parametrize("function", [_later, _one_by_one, lambda x: (x * i for i in range(3)), lambda x: map(abs, x)])
def test_a_function_that_computes_later_is_refused(function):
    with pytest.raises(refxla.InputError, match="gives an? .*, which computes when it is asked for values"):
        refxla.compile(function)(np.ones(3, np.float32))
