"""What JAX made of a function (traced, lowered, compiled, exported), compiled and called as the function was."""

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax import export  # noqa: E402
from refxla_spec.errors import InputError, UnsupportedError  # noqa: E402

import refxla  # noqa: E402

X = np.arange(12, dtype=np.float32).reshape(3, 4)
LARGE = np.arange(1000, dtype=np.float32)
STAGES = {
    "traced": lambda f, *args, **kwargs: f.trace(*args, **kwargs),
    "lowered": lambda f, *args, **kwargs: f.lower(*args, **kwargs),
    "compiled": lambda f, *args, **kwargs: f.lower(*args, **kwargs).compile(),
    "exported": lambda f, *args, **kwargs: export.export(f)(*args, **kwargs),
}


@pytest.fixture(params=STAGES)
def staged(request):
    return STAGES[request.param]


def test_trees_keywords_and_arguments_that_are_not_used(staged):
    @jax.jit
    def f(d, unused, *, y):
        return {"s": jnp.sin(d["x"]) @ y, "n": (y.sum(),)}

    arguments = ({"x": X}, 1.0)
    made = refxla.compile(staged(f, *arguments, y=X[0]))
    got, wanted = made(*arguments, y=X[0]), f(*arguments, y=X[0])
    assert jax.tree.structure(got) == jax.tree.structure(wanted)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)
    for args, kwargs, words in (
        (arguments[:1], {"y": X[0]}, "for 2 positional arguments, and was given 1"),
        (arguments, {}, "keyword argument 'y', which is missing"),
        (arguments, {"y": X[0], "z": 1}, "without the keyword argument 'z'"),
        (({"z": X}, 1.0), {"y": X[0]}, r"takes PyTreeDef\({'x': \*}\) as argument 0, and was given"),
    ):
        with pytest.raises(InputError, match=words):
            made(*args, **kwargs)
    assert made.name == "f" and "f32[3,4]" in str(made.hlo)


def test_random_keys_and_linear_algebra(staged):
    @jax.jit
    def f(key, x):
        return jax.random.split(key), jnp.linalg.qr(x)[1], jax.random.bits(key, (3,))

    arguments = (jax.random.key(0), np.eye(3, dtype=np.float32) + X[:, :3])
    keys, r, bits = refxla.compile(staged(f, *arguments))(*arguments)
    wanted = f(*arguments)
    assert (keys == wanted[0]).all()
    np.testing.assert_allclose(r, wanted[1], rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(bits, wanted[2])


def test_gradients_of_integers(staged):
    f = jax.jit(jax.grad(lambda n, x: (n * x).sum(), argnums=(0, 1), allow_int=True))
    try:
        stage = staged(f, 3, X)
    except (NotImplementedError, ValueError) as problem:
        pytest.skip(f"JAX: {problem}")
    got = refxla.compile(stage)(3, X)
    assert got[0].dtype == jax.dtypes.float0 and (got[1] == 3).all()


def test_constants_that_jax_passes_as_arguments(staged, tmp_path):
    made = refxla.compile(staged(jax.jit(lambda x: x + LARGE), LARGE))
    made.save(tmp_path / "f.refxla")
    for each in (made, refxla.load(tmp_path / "f.refxla")):
        np.testing.assert_array_equal(each(LARGE), LARGE * 2)


def test_one_that_gives_arguments_in_another_shape(staged):
    made = refxla.compile(staged(jax.jit(lambda x: x * 2), X))
    with pytest.raises(InputError, match=r"f32\[3,4\]"):
        made(X.T)


def test_example_arguments_and_static_ones_are_refused(staged):
    stage = staged(jax.jit(jnp.sin), X)
    with pytest.raises(InputError, match="sin says its own shapes: compile it alone"):
        refxla.compile(stage, X)
    with pytest.raises(InputError, match="to jax.jit"):
        refxla.compile(stage, static_argnums=0)


def test_callbacks():
    f = jax.jit(lambda x: jax.pure_callback(lambda a: np.asarray(a) * 2, jax.ShapeDtypeStruct((3, 4), np.float32), x))
    np.testing.assert_array_equal(refxla.compile(f.trace(X))(X), X * 2)
    for stage in (f.lower(X), f.lower(X).compile()):
        with pytest.raises(UnsupportedError, match=r"compile what was traced, .*\.trace\("):
            refxla.compile(stage)


def test_a_lowering_for_a_device_by_name_and_the_reference():
    lowered = jax.jit(lambda x: x @ x.T).lower(X)
    np.testing.assert_allclose(refxla.compile(lowered, device="reference")(X), X @ X.T)
    with pytest.raises(InputError, match="the reference has no kernels"):
        refxla.compile(lowered, device="reference").save("nowhere")


def test_keys_and_words_of_keys_are_not_mistaken_for_each_other(tmp_path):
    f = jax.jit(lambda k: jax.random.bits(k, (2,)))
    key, words = jax.random.key(0), jax.random.PRNGKey(0)
    for lowered_for, given in ((key, words), (words, key), (key, jax.random.key(0, impl="rbg"))):
        with pytest.raises(InputError, match="jax.random.key_data gives their words"):
            refxla.compile(f.lower(lowered_for))(given)
    made = refxla.compile(f, key)
    made.save(tmp_path / "f.refxla")
    with pytest.raises(InputError, match=r"by its words: jax.random.key_data\("):
        refxla.load(tmp_path / "f.refxla")(key)
    np.testing.assert_array_equal(refxla.load(tmp_path / "f.refxla")(jax.random.key_data(key)), made(key))


def test_what_is_no_stage_and_no_function():
    for value in (jax.make_jaxpr(jnp.sin)(X), jax.jit(jnp.sin).lower(X).compiler_ir()):
        with pytest.raises(InputError, match="of JAX give a function"):
            refxla.compile(value)
