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
    with pytest.raises(InputError, match="f takes PyTreeDef"):
        made(*arguments)
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
    with pytest.raises(UnsupportedError, match="callback"):
        refxla.compile(f.lower(X))


def test_a_lowering_for_a_device_by_name_and_the_reference():
    lowered = jax.jit(lambda x: x @ x.T).lower(X)
    np.testing.assert_allclose(refxla.compile(lowered, device="reference")(X), X @ X.T)
    with pytest.raises(InputError, match="the reference has no kernels"):
        refxla.compile(lowered, device="reference").save("nowhere")
