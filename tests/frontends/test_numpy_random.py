"""Random numbers from a key, and functions whose results have a size that is given."""

from __future__ import annotations

import numpy as np
import pytest

import refxla

KEY = refxla.random.key(42)


def drawn(key, n):
    r = refxla.random
    a, b, c, d, e = r.split(key, 5)
    return (
        r.normal(a, (200,)), r.normal(a, 3, np.float32, 1.0, 2.0), r.uniform(b, (5,), np.float32, -1.0, 2.0),
        r.integers(c, 3, 9, (50,)), r.integers(c, 7), r.permutation(d, 10), r.permutation(d, np.eye(3), axis=1),
        r.choice(e, np.arange(5.0), (2, 2), False), r.choice(e, 3, (40,), p=[0.1, 0.2, 0.7]),
        r.choice(e, 4, (3,), False, [0.1, 0.4, 0.4, 0.1]), r.bernoulli(e, 0.3, (9,)), r.bernoulli(e, np.full(3, 0.5)),
        r.fold_in(key, n), r.exponential(a, (3,)), r.gumbel(a, (2,)), r.laplace(a, (2,)), r.bits(b, (3,), np.uint8),
    )  # fmt: skip


def test_compiled_gives_what_is_given_outside():
    got, wanted = refxla.compile(drawn)(KEY, 3), drawn(KEY, 3)
    for a, b in zip(got, wanted, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, np.shape(b))
        np.testing.assert_allclose(a, b, 1e-6, 1e-6)


def test_the_bits_are_those_of_the_cipher():
    """Known answers of Threefry-2x32 with 20 rounds, from the generator's own test vectors."""
    from refxla.frontends.numpy.random import _threefry

    for words, key, answer in (
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
        ((0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344), (0xC4923A9C, 0x483DF7A0)),
    ):
        found = _threefry(tuple(map(np.uint32, key)), tuple(map(np.uint32, words)))
        assert tuple(map(int, found)) == answer


def test_distributions():
    n = 100_000
    normal = refxla.random.normal(KEY, (n,))
    assert abs(normal.mean()) < 0.02 and abs(normal.std() - 1) < 0.02 and abs((normal**3).mean()) < 0.05
    uniform = refxla.random.uniform(KEY, (n,), np.float32)
    assert 0 <= uniform.min() and uniform.max() < 1 and abs(uniform.var() - 1 / 12) < 0.01
    counts = np.bincount(refxla.random.integers(KEY, 0, 6, (n,)))
    assert len(counts) == 6 and abs(counts / n * 6 - 1).max() < 0.05
    chosen = np.bincount(refxla.random.choice(KEY, 3, (n,), p=[0.1, 0.2, 0.7])) / n
    np.testing.assert_allclose(chosen, [0.1, 0.2, 0.7], atol=0.01)
    assert abs(refxla.random.exponential(KEY, (n,)).mean() - 1) < 0.02
    assert sorted(refxla.random.permutation(KEY, 50)) == list(range(50))


def test_keys_differ_and_are_checked():
    keys = refxla.random.split(KEY, 100)
    assert len({tuple(k) for k in keys}) == 100
    assert tuple(refxla.random.fold_in(KEY, 1)) != tuple(refxla.random.fold_in(KEY, 2))
    assert not np.array_equal(refxla.random.key(0), refxla.random.key(2**33))
    for wrong in (np.zeros(2), keys, 3):
        with pytest.raises(refxla.InputError, match="a key of refxla.random is u32"):
            refxla.random.normal(wrong)
    with pytest.raises(refxla.InputError, match="takes an integer"):
        refxla.random.key(1.5)
    with pytest.raises(refxla.InputError, match="taken from 3, none twice"):
        refxla.random.choice(KEY, 3, (4,), replace=False)
    with pytest.raises(refxla.InputError, match="floating-point"):
        refxla.random.normal(KEY, 3, np.int32)


def test_keys_in_loops_and_for_many():
    def walk(key):
        def step(place, k):
            return place + refxla.random.normal(k), place

        return refxla.scan(step, np.float64(0), refxla.random.split(key, 20))

    got, wanted = refxla.compile(walk)(KEY), walk(KEY)
    np.testing.assert_allclose(got[1], wanted[1], 1e-6)
    many = refxla.vmap(lambda k: refxla.random.uniform(k, 3))(refxla.random.split(KEY, 4))
    np.testing.assert_array_equal(many, [refxla.random.uniform(k, 3) for k in refxla.random.split(KEY, 4)])


def test_jax_gives_the_same_bits():
    jax = pytest.importorskip("jax")
    theirs = jax.random.PRNGKey(42)
    if not jax.config.jax_threefry_partitionable:
        pytest.skip("an older order of JAX's bits")
    np.testing.assert_array_equal(KEY, theirs)
    np.testing.assert_array_equal(refxla.random.split(KEY, 3), jax.random.split(theirs, 3))
    np.testing.assert_array_equal(refxla.random.fold_in(KEY, 7), jax.random.fold_in(theirs, 7))
    np.testing.assert_array_equal(refxla.random.bits(KEY, (2, 3)), jax.random.bits(theirs, (2, 3), np.uint32))
    np.testing.assert_array_equal(
        refxla.random.uniform(KEY, (4,), np.float32), jax.random.uniform(theirs, (4,), np.float32)
    )


# -- sizes that are given


@pytest.mark.parametrize("compiles", [False, True])
def test_unique_and_nonzero_of_a_size(compiles):
    def f(x):
        more = {"return_index": True, "return_inverse": True, "return_counts": True}
        return (*refxla.unique(x, 4, **more), refxla.unique(x, 5, fill_value=-1), *refxla.nonzero(x > 1, 7, -1))

    run = refxla.compile(f) if compiles else f
    for x in (np.array([[3, 1], [3, 2]]), np.array([[0.5, np.nan], [np.nan, 9]]), np.zeros((2, 2), np.int32)):
        values, index, inverse, counts = np.unique(x, return_index=True, return_inverse=True, return_counts=True)
        n = len(values)
        got = run(x)
        np.testing.assert_array_equal(got[0][:n], values)
        np.testing.assert_array_equal(got[0][n:], np.full(4 - n, values[-1]))
        np.testing.assert_array_equal(got[1][:n], index)
        np.testing.assert_array_equal(got[2], inverse)
        np.testing.assert_array_equal(got[3], np.pad(counts, (0, 4 - n)))
        np.testing.assert_array_equal(got[4][:n], values)
        assert (got[4][n:] == -1).all()
        places = np.nonzero(x > 1)
        for a, b in zip(got[5:], places, strict=True):
            np.testing.assert_array_equal(a, np.pad(b, (0, 7 - len(b)), constant_values=-1))
    with pytest.raises(refxla.InputError, match="more than size=4 elements differ"):
        run(np.arange(6).reshape(2, 3))
