"""NumPy's reductions by all ufuncs, extremes of complex numbers, single booleans as indices, views of other widths."""

import numpy as np
import pytest

import refxla

RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((3, 4))
HOLES = np.where(X > 1, np.nan, X)
HOLES[:, 1] = np.nan
INTEGERS = RANDOM.integers(1, 9, (3, 4)).astype(np.int32)
TRUTHS = X > 0
Z = X + 1j * X[::-1]
Z[1, 1] = Z[0, 1].real - 1j  # equal real parts
NANS = np.where(HOLES == HOLES, Z, complex(1, np.nan))
LONG = RANDOM.integers(1, 5, (300, 2))


def agrees(function, *arguments):
    with np.errstate(all="ignore"):
        wanted = np.asarray(function(*(np.copy(a) for a in arguments)))
    got = np.asarray(refxla.compile(function)(*(np.copy(a) for a in arguments)))
    assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
    np.testing.assert_allclose(got, wanted, 1e-12)


def raises_as_numpy(function, *arguments):
    with pytest.raises(Exception) as wanted:  # noqa: PT011
        function(*arguments)
    with pytest.raises(type(wanted.value)) as got:
        refxla.compile(function)(*arguments)
    assert str(wanted.value).strip() in str(got.value)


REDUCED = [
    (np.subtract, X), (np.divide, X), (np.power, INTEGERS % 3 + 1), (np.floor_divide, INTEGERS), (np.remainder, X),
    (np.hypot, X), (np.gcd, INTEGERS * 6), (np.lcm, INTEGERS), (np.left_shift, INTEGERS), (np.copysign, X),
    (np.nextafter, X), (np.heaviside, X), (np.logical_xor, TRUTHS), (np.logical_xor, X), (np.equal, TRUTHS),
    (np.fmax, HOLES), (np.fmin, HOLES), (np.fmax, NANS), (np.fmin, INTEGERS), (np.maximum, Z), (np.minimum, Z),
    (np.maximum, NANS), (np.minimum, Z.astype(np.complex64)), (np.bitwise_xor, INTEGERS), (np.floor_divide, LONG),
    (np.subtract, LONG.astype(np.int8)),
]  # fmt: skip


@pytest.mark.parametrize("ufunc, x", REDUCED, ids=lambda v: getattr(v, "__name__", ""))
def test_every_ufunc_reduces_and_accumulates_as_in_numpy(ufunc, x):
    agrees(lambda x: ufunc.reduce(x), x)
    agrees(lambda x: ufunc.reduce(x, axis=-1, keepdims=True), x)
    agrees(lambda x: ufunc.reduce(x, 1, initial=2, where=x > 1) if x.dtype.kind in "if" else ufunc.reduce(x, 1), x)
    agrees(lambda x: ufunc.accumulate(x), x)
    agrees(lambda x: ufunc.accumulate(x, axis=1), x)
    agrees(lambda x: ufunc.reduce(x[0, 0]), x)
    agrees(lambda x: ufunc.reduce(x[:, :1], axis=1), x)


def test_reductions_along_several_axes_and_with_options():
    agrees(lambda x: np.hypot.reduce(x, axis=(0, 1)), X)
    agrees(lambda x: np.hypot.reduce(x, axis=None, keepdims=True), X)
    agrees(lambda x: np.hypot.reduce(x[:, :1], axis=1), X)  # from the identity: absolute values
    agrees(lambda x: np.hypot.reduce(x[:, :1], axis=1, initial=None), X)
    agrees(lambda x: np.subtract.reduce(x, dtype=np.float32), X)
    agrees(lambda x: np.subtract.accumulate(x, 1, np.float32), X)
    agrees(lambda x: np.gcd.reduce(x[:0]), INTEGERS)
    agrees(lambda x: np.maximum.reduce(x, axis=(1, 0), initial=9), Z)
    agrees(lambda x: np.fmax.reduceat(x, [0, 1, 3], axis=1), HOLES)
    agrees(lambda x: np.logical_xor.reduceat(x, [0, 1, 3], axis=1), TRUTHS)
    agrees(lambda x: np.nanmax(x, axis=1), NANS)
    agrees(lambda x: np.nanmin(x), NANS)
    agrees(lambda x: x.max(axis=0), NANS)
    agrees(lambda x: np.max(x), RANDOM.standard_normal((3, 2001)) + 1j)


def test_what_numpy_does_not_reduce():
    raises_as_numpy(lambda x: np.subtract.reduce(x, axis=(0, 1)), X)
    raises_as_numpy(lambda x: np.subtract.reduce(x[:0]), X)
    raises_as_numpy(lambda x: np.subtract.reduce(x, where=x > 0), X)
    raises_as_numpy(lambda x: np.subtract.reduce(x), TRUTHS)
    raises_as_numpy(lambda x: np.less.reduce(x), X)
    raises_as_numpy(lambda x: np.divide.reduce(x, axis=2), X)
    raises_as_numpy(lambda x: np.power.reduce(x), np.array([2, -3]))


def test_extremes_without_nan_at_places():
    def change(x):
        np.fmax.at(x, [0, 0, 2], 0.5)
        return x

    agrees(change, HOLES)


def test_an_initial_value_of_each_example_of_extremes_that_are_no_operation():
    function = refxla.compile(lambda x: refxla.vmap(lambda row: np.fmax.reduce(row, initial=row[0]))(x))
    with pytest.raises(refxla.UnsupportedError, match="refxla.vmap: np.fmax"):
        function(HOLES)


KEYS = [
    True, False, np.True_, np.array(True), (True, 0), (0, True), (None, True), (slice(None), True, [0, 1]),
    (True, [0, 1], 1), (Ellipsis, False), (True, True), (slice(None), None, True, 0), (True, slice(None), [0, 1]),
    (0, slice(None), True), ([0, 2], True), (0, 0, True),
]  # fmt: skip


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_a_single_boolean_is_an_index(key):
    def write(x):
        x[key] = 5
        return x

    agrees(lambda x: x[key], X)
    if not isinstance(key, tuple):
        agrees(lambda x: x[key], np.array(3.0))
    agrees(write, X)


def test_single_booleans_that_are_no_index():
    raises_as_numpy(lambda x: x[False, [0, 1]], X)
    raises_as_numpy(lambda x: x[[0, 1], [0, 1, 2]], X)
    with pytest.raises(refxla.UnsupportedError, match="a mask beside other indices"):
        refxla.compile(lambda x: x[np.any(x > 0), 0])(X)


VIEWED = [
    (X, np.uint8), (X, np.int16), (X, np.complex128), (X, np.complex64), (Z, np.float64), (Z, np.float32),
    (Z, np.int16), (Z, np.complex64), (Z.astype(np.complex64), np.complex128), (INTEGERS, np.float64),
    (INTEGERS.astype(np.int8), np.int32), (TRUTHS, np.uint8), (TRUTHS, np.uint32), (X.astype(np.float16), np.uint32),
    (X[:, :0], np.int16), (X[:0], np.int16),
]  # fmt: skip


@pytest.mark.parametrize("x, dtype", VIEWED, ids=str)
def test_the_bytes_of_rows_are_elements_of_types_of_other_widths(x, dtype):
    def bits(x):
        return x.view(dtype).view(np.uint8)

    def write(x):
        x.view(dtype)[..., ::2] = 1
        return x

    np.testing.assert_array_equal(refxla.compile(bits)(x), bits(x))
    agrees(write, x)


def test_views_are_reshaped_as_in_numpy():
    agrees(lambda x: x.view(np.int64).reshape(2, -1), X)
    agrees(lambda x: x.view(np.int32).reshape(-1)[::2], X)

    def write(x):
        x.view(np.int64).reshape(2, 6)[1] = 7
        x.view(np.int64).T.reshape(2, 6)[0] = 5  # a copy
        return x

    agrees(write, X)


def test_views_that_numpy_has_not():
    raises_as_numpy(lambda x: x[:, :3].copy().view(np.complex128), X)
    raises_as_numpy(lambda x: x.view(np.float32), np.array(3.0))
    raises_as_numpy(lambda x: x.T.view(np.int32), X)
    with pytest.raises(refxla.UnsupportedError, match=r"x.view\(bool\) of uint8 has no compiled form"):
        refxla.compile(lambda x: x.view(bool))(INTEGERS.astype(np.uint8))


def test_take_of_nothing():
    agrees(lambda x: np.take(x, []), np.zeros(0))
    raises_as_numpy(lambda x: np.take(x, [0]), np.zeros(0))
