"""The Array API standard for Arrays: NumPy's results, in an Array's notation, for libraries that know no refxla."""

import inspect
import operator

import numpy as np
import pytest
from refxla_spec.errors import InputError

import refxla
import refxla.array_api as xp
from refxla.frontends.numpy.array_api import eager

VALUES = np.array([[3.0, -1.5, 2.0], [0.25, 4.0, -7.0]])


@pytest.fixture
def interpreted(monkeypatch):
    """Operations by the interpreter, which compiles nothing: what they mean is tested, and not how they run."""
    operation = eager._operation.__wrapped__
    monkeypatch.setattr(eager, "_operation", lambda function, static, device: operation(function, static, "reference"))


def same(array, expected) -> bool:
    values = np.asarray(array)
    return (
        isinstance(array, refxla.Array)
        and values.dtype == np.asarray(expected).dtype
        and np.array_equal(values, expected, equal_nan=values.dtype.kind in "fc")
    )


def test_operations_are_compiled_and_give_arrays():
    x = xp.asarray(VALUES)
    assert same((x + 1) * x, (VALUES + 1) * VALUES)
    assert same(xp.sum(x, axis=0), VALUES.sum(0))
    assert x.__array_namespace__().sum is xp.sum


@pytest.mark.parametrize(
    "name", ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lt", "le", "gt", "ge", "eq", "ne"]
)
def test_operators_are_numpys_with_arrays_numbers_and_arrays_of_numpys(interpreted, name):
    apply, x, y = getattr(operator, name), np.array([3.0, 2.0, 5.0]), np.array([2.0, 2.0, -3.0])
    a = xp.asarray(x)
    for left, right in ((a, xp.asarray(y)), (a, 2.0), (2.0, a), (a, y), (y, a)):
        assert same(apply(left, right), apply(np.asarray(left), np.asarray(right)))


@pytest.mark.parametrize("name", ["and_", "or_", "xor", "lshift", "rshift"])
def test_operators_of_integers(interpreted, name):
    apply, x = getattr(operator, name), np.array([5, 3, 8], np.int32)
    a = xp.asarray(x)
    assert same(apply(a, 2), apply(x, 2)) and same(apply(2, a), apply(2, x))


def test_operators_of_one_array(interpreted):
    x = xp.asarray(VALUES)
    assert same(-x, -VALUES) and same(abs(x), abs(VALUES)) and same(+x, VALUES)
    assert same(~xp.asarray([1, 2]), ~np.array([1, 2]))
    assert same(x @ x.T, VALUES @ VALUES.T) and same(x.mT, VALUES.T)


def test_what_is_no_operand_is_left_to_the_other_side():
    x = xp.asarray([1.0])
    assert (x == "text") is False and (x != None) is True  # noqa: E711
    with pytest.raises(TypeError):
        x + "text"
    with pytest.raises(TypeError, match="unhashable"):
        hash(x)


@pytest.mark.parametrize(
    "index",
    [0, -1, (1, 2), slice(1, None), (slice(None), -1), (Ellipsis, 0), None, (slice(None, None, -1), slice(0, 3, 2))],
    ids=str,
)
def test_parts(interpreted, index):
    assert same(xp.asarray(VALUES)[index], VALUES[index])


def test_parts_by_arrays_and_masks(interpreted):
    x, places = xp.asarray(VALUES), np.array([2, 0, 2])
    assert same(x[:, xp.asarray(places)], VALUES[:, places])
    assert same(x[x > 0], VALUES[VALUES > 0])
    assert [float(v) for v in x[0]] == [3.0, -1.5, 2.0]
    with pytest.raises(IndexError):
        x[2]
    with pytest.raises(IndexError, match="an index of float64"):
        x[xp.asarray([0.5])]


def test_an_assignment_changes_one_array_and_no_other(interpreted):
    x = xp.asarray(VALUES)
    other, view, flat = x[:], np.asarray(x), xp.reshape(x, (6,))
    x[0, 1] = 10
    x[x < 0] = 0.0
    x[:, 2] = xp.asarray([8.0, 9.0])
    assert same(x, np.array([[3.0, 10.0, 8.0], [0.25, 4.0, 9.0]]))
    assert same(other, VALUES) and np.array_equal(view, VALUES) and same(flat, VALUES.reshape(6))
    x += 1
    assert same(x, np.array([[4.0, 11.0, 9.0], [1.25, 5.0, 10.0]]))


def test_a_reshape_moves_nothing():
    x = xp.asarray(VALUES)
    y = xp.reshape(x, (3, -1), copy=False)
    assert y.shape == (3, 2) and np.asarray(y).ctypes.data == np.asarray(x).ctypes.data
    assert xp.expand_dims(x, axis=1).shape == (2, 1, 3) and xp.squeeze(xp.ones((1, 2)), axis=0).shape == (2,)
    with pytest.raises(ValueError, match="cannot reshape"):
        xp.reshape(x, (4,))


CALLS = {
    "reductions": lambda m, x: [m.std(x, correction=1), m.argmax(x, axis=1), m.count_nonzero(x, axis=0), m.any(x > 3)],
    "orders": lambda m, x: [m.sort(x, axis=0), m.argsort(x), m.searchsorted(m.sort(x[0]), x[1])],
    "moves": lambda m, x: [m.flip(x, axis=1), m.roll(x, 1), m.tile(x, (2, 1)), m.repeat(x, 2), *m.unstack(x)],
    "several": lambda m, x: [m.concat((x, x), axis=1), m.stack((x, x)), *m.meshgrid(x[0], x[1])],
    "sums": lambda m, x: [m.cumulative_sum(x, axis=1, include_initial=True), m.diff(x), m.clip(x, -1.0, 2.0)],
    "products": lambda m, x: [m.tensordot(x, x, axes=((1,), (1,))), m.vecdot(x, x), m.linalg.outer(x[0], x[1])],
    "sets": lambda m, x: [*m.nonzero(x > 0), m.unique_values(x), *m.unique_counts(x)],
    "types": lambda m, x: [m.astype(x, m.float32), m.full_like(x, 2), m.isfinite(x), m.where(x > 0, x, 0.0)],
    "transforms": lambda m, x: [m.fft.rfft(m.astype(x, m.float64)), m.fft.fftshift(x), m.fft.fftfreq(4)],
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_functions_are_numpys(interpreted, call):
    for got, expected in zip(call(xp, xp.asarray(VALUES)), call(np, VALUES), strict=True):
        assert np.asarray(got).dtype == expected.dtype and np.allclose(got, expected, rtol=1e-13), (got, expected)


def test_descending_orders_keep_equal_elements_in_place(interpreted):
    x = xp.asarray([2, 5, 5, 1])
    assert same(xp.argsort(x, descending=True), np.array([1, 2, 0, 3]))
    assert same(xp.sort(x, descending=True), np.array([5, 5, 2, 1]))


def test_the_namespace_has_what_the_standard_names():
    names = np.__array_namespace_info__().dtypes()
    assert all(getattr(xp, name) == dtype for name, dtype in names.items())
    assert xp.__array_api_version__ == "2024.12"
    assert refxla.devices()[0] == xp.__array_namespace_info__().default_device()
    assert list(inspect.signature(xp.sum).parameters) == ["x", "axis", "dtype", "keepdims"]
    with pytest.raises(ValueError, match=r"version 2024\.12"):
        xp.asarray(1.0).__array_namespace__(api_version="2030.12")


def test_wrong_calls_say_what_to_do():
    with pytest.raises(TypeError, match="device_put"):
        xp.sum(np.ones(3))
    with pytest.raises(TypeError, match="imaginary"):
        xp.astype(xp.asarray([1j]), xp.float32)
    with pytest.raises(ValueError, match="needs an axis"):
        xp.take(xp.asarray(VALUES), xp.asarray([0]))
    x = xp.asarray([1.0])
    x.delete()
    with pytest.raises(InputError, match="deleted"):
        x + 1
