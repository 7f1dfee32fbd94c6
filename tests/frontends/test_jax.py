"""Functions of JAX: pytrees in and out, what decides about a compilation, and what is refused."""

import functools
import random
import sys
import threading
import warnings

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from agreement import assert_agree  # noqa: E402
from jax.experimental import io_callback  # noqa: E402
from jax_models import MODELS  # noqa: E402

import refxla  # noqa: E402
from refxla.frontends.traced import RecompilationWarning  # noqa: E402

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def agree(got, wanted):
    """The same tree with the same arrays; of random keys the same words."""
    assert jax.tree.structure(got) == jax.tree.structure(wanted)

    def plain(leaf):
        is_key = jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        return np.asarray(jax.random.key_data(leaf) if is_key else leaf)

    assert [leaf.dtype for leaf in jax.tree.leaves(got)] == [leaf.dtype for leaf in jax.tree.leaves(wanted)]
    assert_agree([plain(leaf) for leaf in jax.tree.leaves(got)], [plain(leaf) for leaf in jax.tree.leaves(wanted)])


def check(function, *args, **kwargs):
    function = function if hasattr(function, "trace") else jax.jit(function)
    compiled = refxla.compile(function)
    agree(compiled(*args, **kwargs), function(*args, **kwargs))
    return compiled


@pytest.mark.parametrize("name", MODELS)
def test_models(name):
    function, arguments = MODELS[name]
    check(function, *arguments)


# Arguments and results.


def test_arguments_of_all_kinds():
    def f(a, b, c, d, e, nothing, *, scale):
        return {"sum": a + b, "rest": (c * scale, d & True, [e, ()]), "nothing": nothing, "first": a}

    check(f, X, jnp.ones((2, 3)), 2.5, True, 3, None, scale=np.float32(4))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int8", "uint8", "bool", "float8_e4m3fn", "complex64"])
def test_element_types(dtype):
    check(lambda a, b: (a.T, b == a, jnp.flip(b)), jnp.asarray(X).astype(dtype), X.astype(dtype))


def test_wide_numbers_of_numpy_become_what_jax_makes_of_them():
    check(lambda a, b, c: (a * 2, b + 1, c + 1j), X.astype(np.float64), X.astype(np.int64), X.astype(np.complex128))


def test_numpy_scalars_and_wide_integers():
    check(lambda a, b, c: (a * 2, b + 1, c), np.float64(1.5), np.int64(2**40), np.bool_(True))


def test_wide_types_when_jax_has_them():
    f = check(lambda a: a * 2, X.astype(np.float64))
    with jax.enable_x64(True):
        agree(f(X.astype(np.float64)), jnp.asarray(X, jnp.float64) * 2)
    assert f(X.astype(np.float64)).dtype == np.float32


def test_precision_is_part_of_the_program():
    f = check(lambda a: a @ a.T, X)
    with jax.default_matmul_precision("float32"):
        f(X)
        assert "highest" in str(f.hlo)


def test_weak_types_promote_as_in_jax():
    narrow = X.astype(jnp.bfloat16)
    f = check(lambda a, b: a * b, narrow, 2.0)
    assert f(narrow, 2.0).dtype == jnp.bfloat16
    assert f(narrow, np.float32(2)).dtype == np.float32


def test_random_keys_of_both_kinds():
    def f(key):
        return jax.random.bits(key, (5,)), jax.random.split(key)

    check(f, jax.random.key(3))
    check(f, jax.random.PRNGKey(3))
    check(f, jax.random.key(3, impl="rbg"))


def test_unused_arguments_and_results_that_are_arguments():
    f = check(lambda a, unused, c: (c, a, a + 1), X, np.ones(7), 3)
    assert len(f.hlo.entry.parameters) == 2


def test_no_arguments_and_no_results():
    check(lambda: jnp.arange(3))
    check(lambda a: (), X)
    check(lambda a: {"a": None, "b": []}, X)


def test_gradient_of_an_integer():
    f = refxla.compile(jax.jit(lambda n: jax.grad(lambda n: 2.0 * n, allow_int=True)(n)))
    assert f(3).dtype == jax.dtypes.float0


def test_constants_of_a_closure():
    large = jnp.asarray(np.random.default_rng(0).random((50, 40)), jnp.float32)
    check(lambda a: a + large, 1.0)


def test_a_jax_array_is_read_where_it_lies():
    f = refxla.compile(jax.jit(lambda a: a + 1), jax.ShapeDtypeStruct((64,), jnp.float32))
    a = jnp.ones(64)
    program = f.executable.program
    assert program.signature.check(a, 0).ctypes.data == a.unsafe_buffer_pointer()
    assert f(a).sum() == 128


def test_donation_is_taken_for_the_hint_it_is(recwarn):
    a = jnp.asarray(X)
    f = refxla.compile(jax.jit(lambda a: a * 2, donate_argnums=0), a)
    assert np.array_equal(f(a), X * 2) and not a.is_deleted()
    assert not [w for w in recwarn if "donated" in str(w.message)]


def test_sharding_marks_change_nothing():
    mesh = jax.make_mesh((1,), ("a",), axis_types=(jax.sharding.AxisType.Auto,))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("a"))
    check(lambda a: jax.lax.with_sharding_constraint(a, sharding) * 2, X)


# When it is compiled.


def test_compiled_once_for_each_kind_of_arguments():
    f = refxla.compile(jax.jit(lambda tree: tree["a"] * 2), {"a": X})
    first = f.executable
    f({"a": X + 1})
    f({"a": jnp.asarray(X)})
    assert f.executable is first
    f({"a": X[:1]})
    assert f.executable is not first
    f({"a": X})
    assert f.executable is first and "2 kinds" in repr(f)


def test_static_arguments_take_part_by_value():
    f = jax.jit(lambda a, axis, times=1: a.sum(axis) * times, static_argnums=1, static_argnames="times")
    compiled = refxla.compile(f, X, 0)
    for arguments in ((X, 0), (X, 1), (X, (0, 1))):
        agree(compiled(*arguments), f(*arguments))
        agree(compiled(*arguments, times=3), f(*arguments, times=3))
    assert "6 kinds" in repr(compiled)
    named = jax.jit(lambda a, axis: a.sum(axis), static_argnums=1)
    agree(refxla.compile(named)(X, axis=1), named(X, axis=1))
    last = jax.jit(lambda a, axis: a.sum(axis), static_argnums=-1)
    agree(refxla.compile(last, X, 1)(X, 1), last(X, 1))
    with pytest.raises(refxla.InputError, match="static argument.*unhashable"):
        compiled(X, [0])


def test_as_a_decorator():
    @refxla.compile
    @jax.jit
    def double(a):
        """Twice."""
        return a * 2

    assert double.__name__ == "double" and double.__doc__ == "Twice."
    with pytest.raises(AttributeError, match="compiled when it is first called"):
        _ = double.hlo
    for _ in range(2):  # before and after it is compiled
        with pytest.raises(AttributeError, match="has no lower; what it was compiled from has: f.function.lower"):
            _ = double.lower
        assert np.array_equal(double(X), X * 2)
    assert len(double.plan.kernels) == 1 and "multiply" in str(double.explain())


def test_jax_arrays_as_examples_say_that_a_function_is_of_jax():
    f = refxla.compile(lambda a: jnp.sin(a["x"]), {"x": jnp.asarray(X)})
    agree(f({"x": X}), jnp.sin(jnp.asarray(X)))
    with pytest.raises(AttributeError):
        _ = f.function_of_numpy


def test_threads_compile_once():
    f = refxla.compile(jax.jit(lambda a: jnp.sin(a) * 3))
    found, programs = [], set()

    def call():
        found.append(f(X))
        programs.add(id(f.executable))

    threads = [threading.Thread(target=call) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(found) == 4 and len(programs) == 1 and all(np.array_equal(a, found[0]) for a in found)


def test_the_reference_runs_functions_too():
    f = refxla.compile(jax.jit(lambda a: (jnp.sin(a), a.sum())), X, device="reference")
    agree(f(X), (jnp.sin(X), jnp.asarray(X).sum()))


def test_linear_algebra_that_jax_lowers_for_a_cpu_alone():
    a = np.random.default_rng(0).standard_normal((5, 3)).astype(np.float32)
    values, vectors = refxla.compile(jax.jit(lambda a: jnp.linalg.eigh(a.T @ a)))(a)
    u, s, vh = refxla.compile(jax.jit(lambda a: jnp.linalg.svd(a, full_matrices=False)))(a)
    bound = 40 * np.finfo(np.float32).eps * np.linalg.norm(a) ** 2  # backward stability, a few roundings a column
    assert np.abs(a.T @ a @ vectors - vectors * values).max() <= bound
    assert np.abs((u * s) @ vh - a).max() <= bound
    for device in (None, "reference"):
        t, q = refxla.compile(jax.jit(jax.scipy.linalg.schur), device=device)(a[:3])
        assert np.abs(q @ t @ q.T - a[:3]).max() <= bound
    w, v = refxla.compile(jax.jit(jnp.linalg.eig))(a[:3])
    assert np.abs(a[:3] @ v - v * w).max() <= bound


def test_linear_algebra_calls_the_library_unless_it_is_to_be_expanded():
    rng = np.random.default_rng(0)
    a, d = rng.standard_normal((5, 5)).astype(np.float32), np.full(5, 4, np.float32)
    solve, tridiagonal = jax.jit(jnp.linalg.solve), jax.jit(jax.lax.linalg.tridiagonal_solve)
    for f, arguments, routine in ((solve, (a, a[:, :2]), "sgetrf"), (tridiagonal, (a[0], d, a[1], a[:, :2]), "sgtsv")):
        library = refxla.compile(f, *arguments)
        expanded = refxla.compile(f, *arguments, linear_algebra="expanded")
        assert routine in str(library.plan) and " call " not in str(expanded.plan)
        wanted = f(*arguments)
        for made in (library, expanded):
            np.testing.assert_allclose(made(*arguments), wanted, rtol=2e-5, atol=2e-5)


def test_callbacks(capsys):
    seen = []

    def steps(a):
        jax.debug.print("sum {s}", s=a.sum())

        def step(carry, n):
            io_callback(lambda i: seen.append(int(i)), None, n)
            return jax.pure_callback(lambda x: np.sin(x), jax.ShapeDtypeStruct(a.shape, a.dtype), carry), n

        return jax.lax.scan(step, a, jnp.arange(3))[0]

    f = refxla.compile(jax.jit(steps))
    for calls in (1, 2):
        np.testing.assert_allclose(f(X), np.sin(np.sin(np.sin(X))), rtol=1e-6)
        assert sorted(seen) == sorted([0, 1, 2] * calls)
    assert capsys.readouterr().out.count("sum ") == 2


def test_what_a_callback_raises_ends_the_call():
    def fails(a):
        raise KeyError("no such thing")

    f = refxla.compile(jax.jit(lambda a: jax.pure_callback(fails, jax.ShapeDtypeStruct(a.shape, a.dtype), a)))
    with pytest.raises(KeyError, match="no such thing"):
        f(X)


# What is refused.


REFUSED = {
    "ordered": (lambda a: jax.debug.print("{}", a, ordered=True), "orders calls: OrderedDebug.*ordered=True"),
    "foreign": (lambda a: jax.ffi.ffi_call("my_call", jax.ShapeDtypeStruct(a.shape, a.dtype))(a), "my_call"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    function, reason = REFUSED[name]
    with pytest.raises(refxla.UnsupportedError, match=reason) as caught:
        refxla.compile(jax.jit(function), X)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("draw", [lambda: np.random.randn(3), lambda: random.random()], ids=["numpy", "python"])
def test_noise_that_would_be_the_same_at_every_call_is_refused(draw):
    with pytest.raises(refxla.UnsupportedError, match="random numbers.*as an argument"):
        refxla.compile(jax.jit(lambda a: a + draw()))(X)


def test_python_numbers_and_static_arguments():
    with warnings.catch_warnings():
        warnings.simplefilter("error", RecompilationWarning)
        f = refxla.compile(jax.jit(lambda a, rate: a * rate))
        for n in range(20):
            np.testing.assert_allclose(f(X, 0.1 * n), X * np.float32(0.1 * n))
        assert len(f._compiled) == 1
    g = refxla.compile(jax.jit(lambda a, n: a * n, static_argnames="n"))
    with pytest.warns(RecompilationWarning, match="n changed, the last time from 4 to 5.*static"):
        for n in range(8):
            g(X, n=n)
    h = refxla.compile(lambda a, n: a.reshape(n, -1), jnp.asarray(X), 2, static_argnums=1)
    assert h(X, 1).shape == (1, X.size)
    with pytest.raises(refxla.InputError, match="to jax.jit"):
        refxla.compile(jax.jit(lambda a: a), static_argnums=0)


def test_methods():
    class Model:
        def __init__(self, n):
            self.n = n

        @refxla.compile
        @functools.partial(jax.jit, static_argnums=0)
        def scaled(self, a):
            return a * self.n

    for model in (Model(2), Model(3)):
        for _ in range(2):
            np.testing.assert_allclose(model.scaled(X), X * model.n)


def test_inside_of_a_transformation():
    f = refxla.compile(jax.jit(lambda a: (a * 2).sum()))
    for transform in (jax.jit, jax.grad, jax.vmap):
        with pytest.raises(refxla.InputError, match="compile the outermost"):
            transform(f)(X)
        f(X[0] if transform is jax.vmap else X)  # once compiled, too
        with pytest.raises(refxla.InputError, match="compile the outermost"):
            transform(f)(X)


def test_inside_of_another_compiled_function():
    """It is a part of that one, also under transformations there, and whether it was compiled before or not."""
    square = refxla.compile(jax.jit(lambda a: (a * a).sum()))
    for _ in range(2):
        outer = refxla.compile(jax.jit(lambda a: jax.grad(square)(a) + jax.vmap(square)(a)[:, None]))
        np.testing.assert_allclose(outer(X), 2 * X + (X * X).sum(1, keepdims=True), rtol=1e-6)
        np.testing.assert_allclose(square(X), (X * X).sum(), rtol=1e-6)
    with pytest.raises(refxla.InputError, match="compile the outermost"):
        jax.grad(square)(X)


def test_errors_of_the_function_itself_pass_through():
    def broken(a):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        refxla.compile(jax.jit(broken), X)
    with pytest.raises(TypeError, match="abstract array"):
        refxla.compile(jax.jit(lambda a: a))("text")


def test_without_jax(monkeypatch):
    f = jax.jit(lambda a: a)
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(refxla.InputError, match="pip install"):
        refxla.compile(f, X)


def test_a_module_that_is_imported_while_tracing_may_draw(tmp_path, monkeypatch):
    """It draws once, with and without a compiler; and what it takes of `random` works after the trace."""
    (tmp_path / "drawing_module.py").write_text(
        "from random import getrandbits\nimport numpy as np\nFIRST = getrandbits(8), np.random.rand()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)

    def f(x):
        import drawing_module

        return x + len(drawing_module.FIRST)

    def g(x):
        import drawing_module

        return x + drawing_module.getrandbits(8)

    assert refxla.compile(jax.jit(f), np.float32(1))(np.float32(1)) == 3
    import drawing_module

    assert 0 <= drawing_module.getrandbits(8) < 256
    with pytest.raises(refxla.UnsupportedError, match="random"):
        refxla.compile(jax.jit(g), np.float32(1))
    with pytest.raises(refxla.UnsupportedError, match=r"random\.getrandbits"):
        refxla.compile(jax.jit(lambda x: x + random.getrandbits(8)), np.float32(1))


@pytest.mark.parametrize("shape", [(2, 4), (3, 5)])
def test_functions_of_large_angles_stay_in_the_loops_inside_an_element(shape):
    x = np.linspace(-1, 1, shape[0] * shape[1]).astype(np.float32)
    hessian = jax.jit(jax.hessian(lambda v: jnp.sin(v.reshape(shape) @ v.reshape(shape).T).sum()))
    np.testing.assert_allclose(refxla.compile(hessian, x)(x), hessian(x), rtol=1e-4, atol=1e-5)


def test_example_arguments_may_be_keywords():
    x = np.arange(4, dtype=np.float32)
    compiled = refxla.compile(jax.jit(lambda x, y: x - y), x, y=x)
    np.testing.assert_array_equal(compiled(2 * x, y=x), x)
    assert len(compiled._compiled) == 1
    with pytest.raises(refxla.InputError, match="'devise' is neither an option"):
        refxla.compile(jax.jit(lambda x: x), x, devise="pocl")
    with pytest.raises(refxla.InputError, match="says its own shapes"):
        refxla.compile(jax.jit(lambda x: x).lower(x), x=x)
