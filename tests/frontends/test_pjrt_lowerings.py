"""What JAX lowers for its own platforms alone: decompositions of matrices, and callbacks of Python."""

import pytest
from jax_programs import run

pytest.importorskip("jax")


def test_decompositions():
    run("""
        import jax.scipy.linalg as js
        random = np.random.RandomState(0)
        def near(a, b):
            np.testing.assert_allclose(a, b, atol=2e-5)
        a = random.randn(3, 3).astype(np.float32)
        h, x, c = a @ a.T, jnp.asarray(a), a + 1j * random.randn(3, 3).astype(np.float32)
        for b in (a, c):
            w, v = map(np.asarray, jnp.linalg.eig(b))
            near(b @ v, v * w)
        w, v = map(np.asarray, jnp.linalg.eigh(h))
        near(h @ v, v * w)
        u, s, vh = map(np.asarray, jnp.linalg.svd(x))
        near((u * s) @ vh, a)
        t, z = map(np.asarray, js.schur(c))
        near(z @ t @ z.conj().T, c)
        packed, taus = map(np.asarray, jax.lax.linalg.hessenberg(x))
        near(np.trace(packed), np.trace(a))
        q, r, p = map(np.asarray, js.qr(x, pivoting=True))
        near(q @ r, a[:, p])
        assert jax.lax.linalg.tridiagonal(jnp.asarray(h))[1].shape == (3,)
        x = jax.scipy.linalg.solve_triangular(jnp.asarray(h), jnp.ones(len(h)), lower=1)  # a flag that is a number
        np.testing.assert_allclose(np.tril(h) @ x, np.ones(len(h)), rtol=1e-4)
        assert np.isnan(jnp.linalg.eigvals(jnp.full((2, 2), jnp.nan))).all()
    """)


def test_what_only_a_cpu_has_a_rule_for():
    """Sparse systems are solved by SciPy, called in this process."""
    pytest.importorskip("scipy")
    run("""
        from jax.experimental import sparse
        from jax.experimental.sparse.linalg import spsolve
        a = np.diag(np.full(9, 4, np.float32)) + np.diag(np.ones(8, np.float32), 1)
        s = sparse.BCSR.fromdense(a)
        solve = jax.jit(lambda b: spsolve(s.data, s.indices, s.indptr, b))
        np.testing.assert_allclose(a @ solve(jnp.arange(9.0)), np.arange(9), rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(a.T @ jax.grad(lambda b: solve(b).sum())(jnp.arange(9.0)), np.ones(9), rtol=1e-5)
    """)


def test_callbacks():
    """They are called once each, in order, within loops and branches, and what they raise is raised."""
    out = run("""
        from jax.experimental import io_callback
        f32 = jax.ShapeDtypeStruct((3,), jnp.float32)
        twice = jax.jit(lambda x: jax.pure_callback(lambda a: np.asarray(a) * 2, f32, x))
        assert twice(jnp.ones(3)).tolist() == [2, 2, 2]
        def step(c, _):
            jax.debug.print("c={c}", c=c)
            return c + 1, c
        jax.jit(lambda n: lax.scan(step, n, None, length=3))(5)
        def ordered(i, c):
            jax.debug.callback(lambda i: print("i", i), i, ordered=True)
            return c * 2
        jax.jit(lambda n: lax.fori_loop(0, n, ordered, 1.0))(2)
        jax.jit(lambda p: lax.cond(p, lambda: jax.debug.print("yes"), lambda: jax.debug.print("no")))(True)
        seen = []
        count = jax.jit(lambda x: (io_callback(lambda a: seen.append(int(a)), None, x), jnp.sin(x))[1])
        for n in range(3):
            count(n)
        jax.effects_barrier()
        assert seen == [0, 1, 2]
        import logging
        logging.disable(logging.CRITICAL)
        def wrong(a):
            raise TypeError("not this one")
        for function, text in ((wrong, "not this one"), (lambda a: np.ones(4, np.float32), "Incorrect output shape")):
            try:
                jax.block_until_ready(jax.jit(lambda x: jax.pure_callback(function, f32, x))(jnp.ones(3)))
            except RuntimeError as problem:
                assert text in str(problem)
            else:
                raise AssertionError("no error")
    """)
    assert out.split("\n") == ["c=5", "c=6", "c=7", "i 0", "i 1", "yes", ""]


def test_effects_keep_their_order():
    """That of the program, also around branches and loops, and with those of loops' conditions: on the way to HLO, a
    branch that nothing but its result orders comes after all that does not need it."""
    out = run("""
        def say(text, **values):
            jax.debug.print(text, ordered=True, **values)
        def branch(name, f):
            return lambda v: (say(name + " {v}", v=v), f(v))[1]
        def outer(i, x):
            say("outer {i}", i=i)
            def more(s):
                say("more {j}", j=s[0])
                return s[0] < i
            def inner(s):
                y = lax.cond(s[0] % 2 == 0, branch("even", lambda v: v + 1), branch("odd", lambda v: v * 2), s[1])
                say("after {j}", j=s[0])
                return s[0] + 1, y
            return lax.while_loop(more, inner, (0, x))[1]
        print(jax.jit(lambda x: lax.fori_loop(1, 3, outer, x))(1))
    """)
    expected = ["outer 1", "more 0", "even 1", "after 0", "more 1"]
    expected += ["outer 2", "more 0", "even 2", "after 0", "more 1", "odd 3", "after 1", "more 2", "6", ""]
    assert out.split("\n") == expected


def test_effects_in_conditions_of_loops():
    """Each happens once more than the body, under vmap as often as on JAX's CPU; what a callback raises is raised."""
    out = run("""
        from jax.experimental import io_callback
        def loop(condition):
            return jax.jit(lambda x: lax.while_loop(condition, lambda x: x + 1, x))
        def told(x):
            jax.debug.print("{x}", x=x)
            return x < 2
        print(loop(told)(0))
        seen = []
        def asked(x):
            return (seen.append(int(x)), np.asarray(x < 3))[1]
        print(loop(lambda x: io_callback(asked, jax.ShapeDtypeStruct((), bool), x))(1), seen)
        def counted(x):
            jax.debug.callback(lambda x: seen.append(int(x)), x)
            return x < 2
        told = []
        for device in (None, jax.devices("cpu")[0]):
            seen.clear()
            with jax.default_device(device):
                print(jax.vmap(loop(counted))(np.arange(3)))
            jax.effects_barrier()
            told.append(sorted(seen))
        assert told[0] == told[1] and set(told[0]) == {0, 1, 2}, told
        import logging
        logging.disable(logging.CRITICAL)
        def wrong(x):
            if x == 2:
                raise ValueError("at two")
        try:
            jax.block_until_ready(loop(lambda x: (jax.debug.callback(wrong, x), x < 5)[1])(0))
        except RuntimeError as problem:
            print("at two" in str(problem))
    """)
    assert out.split("\n") == ["0", "1", "2", "2", "3 [1, 2, 3]", *["[2 2 2]"] * 2, "True", ""]


def test_pallas():
    """Kernels run in interpret mode, and the error elsewhere says so."""
    run("""
        from jax.experimental import pallas as pl
        from jax.experimental.pallas import tpu
        def add(x, y, z):
            z[...] = x[...] + y[...]
        x = jnp.arange(8.0)
        def call(**options):
            return jax.jit(pl.pallas_call(add, out_shape=jax.ShapeDtypeStruct((8,), jnp.float32), **options))(x, x)
        assert call(interpret=True).tolist() == call(interpret=tpu.InterpretParams()).tolist() == (2 * x).tolist()
        with tpu.force_tpu_interpret_mode():
            assert call().tolist() == (2 * x).tolist()
        try:
            call()
        except ValueError as problem:
            assert "in interpret mode alone: pallas_call(..., interpret=True)" in str(problem), problem
        else:
            raise AssertionError("compiled")
    """)


def test_tridiagonal_systems_that_are_singular():
    """Pivots of zero are perturbed: inverse iteration finds the eigenvectors of matrices."""
    run("""
        import inspect
        from refxla.frontends.host_linalg import tridiagonal_solve_perturbed
        random = np.random.default_rng(0)
        for n in (1, 2, 3, 9):
            below, diagonal, above = random.normal(size=(3, 4, n)) + 1j * random.normal(size=(3, 4, n))
            b = random.normal(size=(4, n, 2)) + 0j
            (x,) = tridiagonal_solve_perturbed(below, diagonal, above, b)
            full = np.stack([np.diag(d) + np.diag(l[1:], -1) + np.diag(u[:-1], 1)
                             for l, d, u in zip(below, diagonal, above)])
            np.testing.assert_allclose(full @ x, b, atol=1e-11)
        zeros = np.zeros((1, 3))
        (x,) = tridiagonal_solve_perturbed(zeros, np.array([[1.0, 0, 2]]), zeros, np.ones((1, 3, 1)))
        assert x[0, ::2].ravel().tolist() == [1, 0.5] and 1e15 < x[0, 1] < np.inf
        if "perturb_singular" in inspect.signature(lax.linalg.tridiagonal_solve).parameters:  # since JAX 0.11
            import refxla
            d, e = np.arange(1, 7, dtype=np.float32), np.full(5, 0.3, np.float32)
            full = np.diag(d) + np.diag(e, 1) + np.diag(e, -1)
            solve = jax.jit(lambda d, e: jax.scipy.linalg.eigh_tridiagonal(d, e, eigvals_only=False))
            for f in (solve, refxla.compile(solve), refxla.compile(solve, linear_algebra="expanded")):
                w, v = map(np.asarray, f(d, e))
                np.testing.assert_allclose(full @ v, v * w, atol=1e-5)
    """)


def test_branches_for_platforms():
    """A branch for refxla, else the default, else that for a CPU; JAX's error if there is none."""
    run("""
        x = np.arange(3, dtype=np.float32)
        def chosen(**branches):
            f = lambda x: lax.platform_dependent(x, **branches)
            results = [f(x), jax.jit(f)(x), jax.vmap(f)(x), jax.jit(jax.grad(lambda x: f(x).sum()))(x) * x]
            return {float(np.asarray(r)[1]) for r in results}
        times = lambda n: lambda x: n * x
        assert chosen(cpu=times(2), tpu=times(3), refxla=times(4)) == {4}
        assert chosen(cpu=times(2), default=times(5)) == {5}
        assert chosen(tpu=times(3), cpu=times(2)) == {2}
        assert chosen(tpu=jnp.sort, cpu=times(6), cuda=times(6)) == {6}
        assert float(jax.jit(lambda x: lax.cond(x[1] > 0, times(7), times(8), x))(x)[1]) == 7
        try:
            chosen(tpu=times(3), cuda=times(2))
        except NotImplementedError as problem:
            assert "platform_index" in str(problem)
        else:
            raise AssertionError("no error")
    """)


def test_what_was_exported_for_a_cpu():
    """A program that was exported for a CPU, alone or among others, runs; one for other platforms does not."""
    run("""
        from jax import export
        def f(x):
            w = lax.platform_dependent(x, cpu=lambda x: x + 1, tpu=lambda x: x + 2)
            return jnp.linalg.eigvalsh(x @ x.T), w
        x = jnp.arange(9, dtype=jnp.float32).reshape(3, 3)
        for platforms in (["cpu"], ["tpu", "cpu"], ["cpu", "refxla"]):
            data = export.export(jax.jit(f), platforms=platforms)(x).serialize()
            values, w = jax.jit(export.deserialize(data).call)(x)
            np.testing.assert_allclose(values, np.linalg.eigvalsh(x @ x.T), rtol=1e-4, atol=1e-3)
            assert w.tolist() == (x + 1).tolist()
        size, = export.symbolic_shape("n")
        double = export.export(jax.jit(lambda x: x * x.shape[0]), platforms=["cpu"])(
            jax.ShapeDtypeStruct((size,), jnp.float32)
        )
        assert [double.call(jnp.ones(n)).tolist() for n in (1, 3)] == [[1], [3, 3, 3]]
        try:
            export.export(jax.jit(f), platforms=["tpu"])(x).call(x)
        except ValueError as problem:
            assert "exported for platforms '('tpu',)' but it is used on '('refxla',)'" in str(problem)
        else:
            raise AssertionError
    """)
