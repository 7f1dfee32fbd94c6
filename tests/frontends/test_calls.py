"""Calls that take a shortcut, and those that must not."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from refxla_spec.errors import InputError

import refxla
from refxla.frontends.traced import TracedFunction

X = np.arange(6, dtype=np.float32)


@pytest.fixture
def shortened(monkeypatch):
    """Whether a call takes a shortcut: one that does is not described."""

    def check(function, *arguments, **keywords):
        described = []
        real = type(function)._describe
        with monkeypatch.context() as patch:
            patch.setattr(type(function), "_describe", lambda *a: described.append(1) or real(*a))
            function(*arguments, **keywords)
        return not described

    return check


def twice(function, *arguments):
    function(*arguments)
    return function(*arguments)


def test_the_next_call_is_short_and_gives_the_same(shortened):
    f = refxla.compile(lambda x, y: x * y + x)
    first = f(X, X)
    assert np.array_equal(twice(f, X, X), first) and shortened(f, X, X)
    assert np.array_equal(f(X + 1, X), (X + 1) * X + (X + 1))


def test_other_types_shapes_and_structures_take_no_shortcut(shortened):
    f = refxla.compile(lambda x: x + x)
    twice(f, X)
    wide, whole, less = X.astype(np.float64), X.astype(np.int32), X[:5]
    for other in (wide, whole, less, X.reshape(2, 3), np.float32(3)):
        assert not shortened(f, other)
        found = f(other)
        assert np.array_equal(found, other + other) and found.dtype == other.dtype
    assert f(X).dtype == np.float32 and shortened(f, X)
    assert f(wide).dtype == np.float64 and shortened(f, wide)


def test_the_executable_is_the_one_used_last():
    f = refxla.compile(lambda x: x + x)
    for _ in range(3):
        f(X)
        f(X[:2])
        assert f.plan.results[0].dimensions == (2,)
        f(X)
        assert f.plan.results[0].dimensions == (6,)


def test_more_kinds_than_shortcuts(shortened):
    f = refxla.compile(lambda x: x + x)
    for _ in range(3):
        for n in range(1, 12):
            assert np.array_equal(f(X[:1].repeat(n)), X[:1].repeat(n) * 2)
    assert shortened(f, X[:1].repeat(11)) and not shortened(f, X[:1])


def test_values_that_are_part_of_the_program(shortened):
    f = refxla.compile(lambda x, n: x * n)
    for n in (2, 3, True, 1, 2.0):
        assert np.array_equal(twice(f, X, n), X * n)
    assert shortened(f, X, 2) and shortened(f, X, True)
    assert not np.signbit(twice(f, X, 0.0)).any() and np.signbit(twice(f, X, -0.0)).all()


def test_a_subclass_is_described_and_arrays_that_are_not_dense_are_copied(shortened):
    f = refxla.compile(lambda x: x + x)
    twice(f, X)
    assert not shortened(f, X.view(type("Mine", (np.ndarray,), {})))
    assert np.array_equal(f(np.arange(12, dtype=np.float32)[::2]), np.arange(12)[::2] * 2)
    assert shortened(f, np.arange(12, dtype=np.float32)[::2])
    assert not shortened(f, x=X)


@pytest.mark.parametrize(
    "result",
    [lambda x: (x, x + x), lambda x: [x + x], lambda x: {"a": x + x, "b": (x, 7)}, lambda x: (x + x,), lambda x: ()],
    ids=["tuple", "list", "dict", "one", "none"],
)
def test_structures_of_results(result, shortened):
    f = refxla.compile(result)
    first = f(X)
    assert shortened(f, X)
    assert repr(f(X)) == repr(first) == repr(result(X))


def test_errors_come_as_before():
    f = refxla.compile(lambda x, y: x + y)
    twice(f, X, X)
    with pytest.raises(TypeError):
        f(X)
    with pytest.raises(InputError):
        f(X, [{1}])


def test_threads():
    f = refxla.compile(lambda x: x * x)
    f(X)
    wrong = []

    def work(n):
        given = X[: 2 + n % 3] + n
        for _ in range(200):
            if not np.array_equal(f(given), given * given):
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


# JAX -----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def jax():
    return pytest.importorskip("jax")


def test_arrays_of_jax(jax, shortened):
    f = refxla.compile(jax.jit(lambda x, y: x * 2 + y))
    given = jax.device_put(X)
    assert np.array_equal(twice(f, given, X), X * 3) and shortened(f, given, X)
    assert shortened(f, X, given) and shortened(f, given, given)
    assert np.array_equal(f(X, given + 1), X * 3 + 1)
    assert not shortened(f, given.astype("int32"), X)
    assert f(given.astype("int32"), given.astype("int32")).dtype == np.int32


def test_a_type_that_buffers_do_not_have(jax, shortened):
    f = refxla.compile(jax.jit(lambda x: x + x))
    given = jax.numpy.asarray(X, jax.numpy.bfloat16)
    assert np.array_equal(twice(f, given), np.asarray(given) * 2) and shortened(f, given)


def test_weak_types_are_told_apart(jax, shortened):
    f = refxla.compile(jax.jit(lambda x, y: x + y))
    weak, strong, half = jax.numpy.asarray(1.5), jax.numpy.float32(1.5), np.ones(3, np.float16)
    assert weak.weak_type and not strong.weak_type
    assert twice(f, weak, half).dtype == np.float16 and shortened(f, weak, half)
    assert not shortened(f, strong, half)
    assert f(strong, half).dtype == np.float32
    assert twice(f, 1.5, half).dtype == np.float16 and shortened(f, 2.5, half) and not shortened(f, 2, half)
    assert np.array_equal(f(2.5, half), half + 2.5)


def test_settings_of_jax(jax, shortened):
    f = refxla.compile(jax.jit(lambda x: x + 1))
    wide = X.astype(np.float64)
    assert twice(f, wide).dtype == np.float32
    twice(f, X)
    assert shortened(f, X)
    with jax.enable_x64(True):
        assert not shortened(f, X)
        assert twice(f, wide).dtype == np.float64 and shortened(f, wide)
    assert f(wide).dtype == np.float32 and shortened(f, X)


def test_trees(jax, shortened):
    f = refxla.compile(jax.jit(lambda p, x: {"y": p["w"] * x + p["b"][0], "p": p}))
    given = {"w": X, "b": [X, jax.device_put(X)]}
    expected = f(given, X)
    assert jax.tree.all(jax.tree.map(np.array_equal, twice(f, given, X), expected)) and shortened(f, given, X)
    other = {"w": X, "b": (X, X)}
    assert not shortened(f, other, X) and isinstance(f(other, X)["p"]["b"], tuple)
    with pytest.raises(KeyError):
        f({"v": X, "b": [X, X]}, X)


def test_arguments_that_the_program_does_not_need_and_constants_that_it_does(jax, shortened):
    table = jax.numpy.asarray(np.arange(1000, dtype=np.float32))
    f = refxla.compile(jax.jit(lambda unused, x: (x + table[:6], x)))
    assert np.array_equal(twice(f, X, X)[0], X * 2) and shortened(f, X, X)
    assert not shortened(f, X[:2], X) and np.array_equal(f(X[:2], X)[0], X * 2)


def test_keys_static_arguments_and_arrays_that_are_gone(jax, shortened):
    f = refxla.compile(jax.jit(lambda k, x: jax.random.bits(k, (2,)) + x))
    key, number = jax.random.key(1), np.uint32(0)
    assert np.array_equal(twice(f, key, number), jax.random.bits(key, (2,)))
    g = refxla.compile(jax.jit(lambda x, n: x * n, static_argnums=1))
    assert np.array_equal(twice(g, X, 2), X * 2) and np.array_equal(g(X, 3), X * 3)
    h = refxla.compile(jax.jit(lambda x: x + 1))
    gone = jax.device_put(X)
    twice(h, gone)
    gone.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        h(gone)


def test_a_version_of_jax_that_shows_less(jax, monkeypatch, shortened):
    from refxla.frontends import jax as frontend

    monkeypatch.setattr(frontend, "_SETTINGS", (*frontend._SETTINGS, "jax_no_such_setting"))
    f = refxla.compile(jax.jit(lambda x: x + 1))
    assert np.array_equal(twice(f, X), X + 1) and not shortened(f, X)
    assert issubclass(type(f), TracedFunction)
