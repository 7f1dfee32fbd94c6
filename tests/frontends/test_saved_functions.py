"""Compiled functions in files: called as before, without the framework that they came from."""

import collections
import os
import subprocess
import sys

import numpy as np
import pytest

import refxla
from refxla import InputError, UnsupportedError

Pair = collections.namedtuple("Pair", "first second")
X = np.arange(6, dtype=np.float32).reshape(2, 3)
SCALE = np.array([1, 2, 3], np.float32)


def saved(function, path, *args, **kwargs):
    """What the file of a compiled function gives."""
    function(*args, **kwargs)
    function.save(path)
    return refxla.load(path)


def equal(found, wanted):
    """Whether two results are the same: their nesting, types and bits."""
    if isinstance(wanted, dict):
        return list(found) == list(wanted) and all(equal(found[k], wanted[k]) for k in wanted)
    if isinstance(wanted, (tuple, list)):
        kinds = [(type(v).__name__, getattr(v, "_fields", None)) for v in (found, wanted)]
        return kinds[0] == kinds[1] and len(found) == len(wanted) and all(map(equal, found, wanted))
    if isinstance(wanted, np.ndarray):
        return isinstance(found, np.ndarray) and found.dtype == wanted.dtype and found.tobytes() == wanted.tobytes()
    return type(found) is type(wanted) and found == wanted


# NumPy ---------------------------------------------------------------------------------------------------------------


def tree(params, batch, mode, rate=0.5, axis=None):
    total = params["w"] * batch[0] + params["b"]
    total = np.sum(total, axis) * (rate * 2) if mode == "sum" else total
    return {"total": total, "pair": Pair(total + 1, [batch[1], None, "x"]), "n": rate + 1}


ARGUMENTS = ({"w": X, "b": SCALE}, (X, [X + 1, X]), "sum")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "f.refxla"


def test_a_function_of_numpy_keeps_its_tree(path):
    compiled = refxla.compile(tree)
    loaded = saved(compiled, path, *ARGUMENTS, rate=3.0, axis=0)
    for rate in (3.0, -0.25):
        assert equal(loaded(*ARGUMENTS, rate=rate, axis=0), compiled(*ARGUMENTS, rate=rate, axis=0))
    assert repr(loaded) == "<SavedFunction tree(params, batch, mode, rate=, axis=)>"
    assert loaded.plan.kernels and "add" in str(loaded.hlo)


def test_positional_arguments_may_be_named(path):
    loaded = saved(refxla.compile(tree), path, *ARGUMENTS)
    params, batch, mode = ARGUMENTS
    assert equal(loaded(params, mode=mode, batch=batch), loaded(*ARGUMENTS))


@pytest.mark.parametrize(
    "args, kwargs, message",
    [
        ((ARGUMENTS[0], ARGUMENTS[1]), {}, r"tree takes \(params, batch, mode\), and mode is missing"),
        ((*ARGUMENTS, 2.0), {}, "4 and .* were given"),
        (ARGUMENTS, {"depth": 1}, "'depth'"),
        ((*ARGUMENTS[:2], "mean"), {}, "mode is 'mean', and the function was saved for 'sum'"),
        (({"w": X}, *ARGUMENTS[1:]), {}, "params is a dict with the keys 'w', and .* the keys 'w', 'b'"),
        ((ARGUMENTS[0], (X, (X, X)), "sum"), {}, r"batch\[1\] is a tuple of 2, and .* a list of 2"),
        ((ARGUMENTS[0], X, "sum"), {}, r"batch is an array \(float32\[2, 3\]\), and .* a tuple of 2"),
        ((ARGUMENTS[0], (X, [X, None]), "sum"), {}, "is a NoneType"),
        (({"w": X.astype(np.float64), "b": SCALE}, *ARGUMENTS[1:]), {}, "f64"),
        (({"w": X[:1], "b": SCALE}, *ARGUMENTS[1:]), {}, r"f32\[1,3\]"),
    ],
)
def test_other_arguments_are_refused(path, args, kwargs, message):
    loaded = saved(refxla.compile(tree), path, *ARGUMENTS)
    with pytest.raises(InputError, match=message):
        loaded(*args, **kwargs)


def numbers(x, n, c, k):
    y = x[:, k] * (n**2 - 7 // n) + abs(-n) % 5 + (n > 2) + np.full_like(x[:, 0], n)
    return y * c.real, (n & 6) | 1, c.conjugate(), np.float32(1.5) * x


def test_what_is_computed_of_numbers_is_computed_at_each_call(path):
    compiled = refxla.compile(numbers)
    loaded = saved(compiled, path, X, 3, 2 + 1j, 1)
    for n, c, k in ((3, 2 + 1j, 1), (5, -0.5j, -1)):
        assert equal(loaded(X, n, c, k), compiled(X, n, c, k))
    with pytest.raises(IndexError, match="index 3 is out of bounds for axis 1 with size 3"):
        loaded(X, 3, 1j, 3)


def test_a_number_whose_value_was_asked_for_is_part_of_the_file(path):
    loaded = saved(refxla.compile(lambda x, n: np.sum(x, axis=n) + n), path, X, 1)
    assert equal(loaded(X, 1), np.sum(X, axis=1) + np.float32(1))
    with pytest.raises(InputError, match="n is 0, and the function was saved for 1"):
        loaded(X, 0)


def test_arrays_that_a_function_reads_are_saved_as_they_are_now(path, monkeypatch):
    compiled = refxla.compile(lambda x: x * SCALE)
    loaded = saved(compiled, path, X)
    monkeypatch.setitem(globals(), "SCALE", SCALE + 1)
    assert equal(loaded(X), X * np.array([1, 2, 3], np.float32)) and equal(compiled(X), X * SCALE)
    compiled.save(path)
    assert equal(refxla.load(path)(X), X * SCALE)


def test_static_arguments_are_part_of_the_file(path):
    loaded = saved(refxla.compile(lambda x, how: x + how, static_argnums=1), path, X, 2)
    assert equal(loaded(X, 2), X + 2)
    with pytest.raises(InputError, match="how is 2.0, and the function was saved for 2"):
        loaded(X, 2.0)


def test_arguments_are_written_into_and_indices_checked(path):
    def put(x, rows, value):
        x[rows] = value
        return x, np.sum(x)

    compiled = refxla.compile(put)
    loaded = saved(compiled, path, X.copy(), np.array([0, 1]), np.float32(9))
    for call in (compiled, loaded):
        x = X.copy()
        result, total = call(x, np.array([1, 1]), np.float32(5))
        assert result is x and np.array_equal(x, [X[0], [5, 5, 5]]) and total == x.sum()
        with pytest.raises(IndexError, match="out of bounds"):
            call(x, np.array([0, 2]), np.float32(5))
        with pytest.raises(InputError, match="shares memory"):
            call(x, np.array([0, 1]), x[0, 0:1].view()[0:1])
        x.flags.writeable = False
        with pytest.raises(ValueError, match="read-only"):
            call(x, np.array([0, 1]), np.float32(5))


def test_what_no_file_can_hold(path):
    with pytest.raises(UnsupportedError, match="cannot be saved: a value of type object has no form in a file"):
        saved(refxla.compile(lambda x, o: x + 1), path, X, object())
    with pytest.raises(InputError, match="is compiled when it is first called, or with example arguments"):
        refxla.compile(tree).save(path)
    with pytest.raises(InputError, match="runs on the reference"):
        saved(refxla.compile(lambda x: x + 1, device="reference"), path, X)
    assert not path.exists()


def test_a_saved_function_is_saved_again(path, tmp_path):
    loaded = saved(refxla.compile(tree), path, *ARGUMENTS)
    loaded.save(tmp_path / "again.refxla")
    assert equal(refxla.load(tmp_path / "again.refxla")(*ARGUMENTS), loaded(*ARGUMENTS))


# JAX -----------------------------------------------------------------------------------------------------------------

CHILD = """
import sys
sys.modules["jax"] = sys.modules["jaxlib"] = None
import numpy as np, refxla
step = refxla.load(sys.argv[1])
w = {"w": np.ones((3, 2), np.float32), "b": np.zeros(2, np.float32)}
for _ in range(3):
    w, loss = step(w, np.ones((4, 3)), rate=0.1)
print(loss.dtype, float(loss), sorted(w))
"""


def test_a_training_step_of_jax_runs_without_jax(path, tmp_path):
    jax = pytest.importorskip("jax")
    jnp = jax.numpy

    @jax.jit
    def step(params, x, rate):
        loss = lambda p: jnp.mean((jnp.tanh(x @ p["w"] + p["b"]) - 0.5) ** 2)  # noqa: E731
        value, gradient = jax.value_and_grad(loss)(params)
        return jax.tree.map(lambda p, g: p - rate * g, params, gradient), value

    compiled = refxla.compile(step)
    params = {"w": np.ones((3, 2), np.float32), "b": np.zeros(2, np.float32)}
    loaded = saved(compiled, path, params, np.ones((4, 3)), rate=0.1)
    assert equal(loaded(params, np.ones((4, 3)), rate=0.1), compiled(params, np.ones((4, 3)), rate=0.1))
    for _ in range(3):
        params, value = compiled(params, np.ones((4, 3)), rate=0.1)
    environment = {**os.environ, "REFXLA_CACHE_DIR": str(tmp_path / "none")}
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(path)], env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.stdout == f"float32 {float(value)} ['b', 'w']\n", done.stderr


def test_trees_of_jax(path):
    jax = pytest.importorskip("jax")
    jnp = jax.numpy
    pair = Pair(X, (SCALE, None))

    @jax.jit
    def f(given, unused, flags):
        gradient = jax.grad(lambda x, n: (x * n).sum(), argnums=1, allow_int=True)(given.first, jnp.arange(3))
        constant = jnp.asarray(np.arange(3.0))
        return Pair(given.second[0] * constant, [flags["b"], {"z": flags["a"]}]), gradient, None

    compiled = refxla.compile(f)
    arguments = (pair, {"not": X}, {"b": np.int32(1), "a": True})
    loaded = saved(compiled, path, *arguments)
    found, wanted = loaded(*arguments), compiled(*arguments)
    assert equal(found[0], wanted[0]) and found[2] is None
    assert found[1].dtype == wanted[1].dtype == jax.dtypes.float0 and found[1].shape == (3,)
    with pytest.raises(InputError, match="flags is a dict with the keys 'b', and"):
        loaded(*arguments[:2], {"b": np.int32(1)})


def test_static_arguments_of_jax_and_wide_arrays(path):
    jax = pytest.importorskip("jax")
    compiled = refxla.compile(jax.jit(lambda n, x, axis=0: x.sum(axis) * n, static_argnums=0, static_argnames="axis"))
    loaded = saved(compiled, path, 2, X.astype(np.float64), axis=1)
    assert equal(loaded(2, X.astype(np.float64), axis=1), X.sum(1) * 2) and equal(loaded(2, X, axis=1), X.sum(1) * 2)
    for args, axis in (((3, X), 1), ((2, X), 0), ((2, X.astype(np.int64)), 1)):
        with pytest.raises(InputError):
            loaded(*args, axis=axis)


def test_random_keys_are_their_words(path):
    jax = pytest.importorskip("jax")
    compiled = refxla.compile(jax.jit(lambda key: (jax.random.split(key)[0], jax.random.normal(key, (3,)))))
    key = jax.random.key(7)
    loaded = saved(compiled, path, key)
    wanted, (words, noise) = compiled(key), loaded(np.asarray(jax.random.key_data(key)))
    assert equal(noise, wanted[1]) and equal(words, np.asarray(jax.random.key_data(wanted[0])))


def test_classes_of_the_user_are_refused_by_name(path):
    jax = pytest.importorskip("jax")

    @jax.tree_util.register_dataclass
    @__import__("dataclasses").dataclass
    class State:
        x: object

    for function, argument in ((lambda s: s.x + 1, State(X)), (lambda x: {"state": State(x)}, X)):
        with pytest.raises(UnsupportedError, match="holds a State, a class that a file does not know"):
            saved(refxla.compile(jax.jit(function)), path, argument)


def test_a_named_tuple_that_jax_takes_apart_in_another_way_is_refused(path):
    jax = pytest.importorskip("jax")
    from jax.example_libraries import optimizers

    start, update, get = optimizers.adam(0.1)
    step = jax.jit(lambda state: update(0, get(state), state))
    with pytest.raises(UnsupportedError, match="holds an? OptimizerState, a class that a file does not know"):
        saved(refxla.compile(step), path, start({"w": X}))


def test_an_exported_function(path):
    jax = pytest.importorskip("jax")
    pytest.importorskip("flatbuffers")
    exported = jax.export.export(jax.jit(lambda x, *, y: {"z": x + y["a"]}))(X, y={"a": X})
    made = refxla.compile(exported)
    made.save(path)
    assert equal(refxla.load(path)(X, y={"a": X}), {"z": X + X})
