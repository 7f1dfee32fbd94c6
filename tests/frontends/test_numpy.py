"""NumPy functions, unchanged: what the compiled one gives is what NumPy gives, with its types and shapes."""

from __future__ import annotations

import dataclasses
import warnings

import numpy as np
import pytest

import refxla
from refxla.frontends.numpy.trees import leaves, structure


def normal(*shape: int, dtype: type = np.float32) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


def layer_norm(x):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(axis=-1, keepdims=True) + 1e-5)


def softmax(x):
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def dense(x, w, b):
    return np.maximum(x @ w + b, 0)


def views(x):
    return x[1:, ::-2] * 2 - x[:-1, None, 1][:, :1], x[..., -1], x[2, None], x.T, x.reshape(-1, 2)


def order(x):
    return np.argmax(x, axis=1), x.argmin(), np.sort(x), np.argsort(x, axis=0), np.max(x, axis=0, keepdims=True)


def integers(i):
    return i // 3, i % 3, i - 7 >> 1, i**2, i.sum(), np.cumsum(i), i / 4, i & 6, ~i, -i, abs(i), i.astype(np.uint8)


def rounding(x):
    return np.floor(x), np.trunc(x * 3), np.rint(x * 2), np.isnan(x), np.clip(x, -1, 1), np.round(x, 1), np.sign(x)


def functions(x):
    return np.logaddexp(x, 1.0) + np.hypot(x, 2) + np.cbrt(x) + np.expm1(x) + np.log1p(x * x), np.arctan2(x, 2.0)


def nested(x):
    return {"a": np.where(x > 0, x, 0.1 * x), "b": [x.T, (np.tanh(x).reshape(-1), 3, "text")]}


def products(x, y):
    return np.tensordot(x, y, 1) + np.outer(x[0], y[:, 0]).sum(), np.dot(x, y), x[0] @ y, x @ y[:, 0], np.inner(x, x)


def gathers(x, i):
    return x[i], np.take(x, i, axis=1), np.roll(x, 2, axis=1), np.tile(x[:, :1], (1, 6)), np.pad(x, 1), np.flip(x, 0)


def joins(x):
    return np.concatenate([x, x[::-1] * 3]), np.stack([x, x + 1], axis=1), np.stack([x, x * x]), np.diff(x, axis=1)


def statistics(x):
    return np.linalg.norm(x), np.std(x, ddof=1), np.prod(x[0]), np.any(x > 3), np.all(x < 9), (x > 0).sum()


def accumulate(x):
    y = np.zeros_like(x)
    for k in range(3):
        y = y + x * k
    s = x * 1
    s += y
    return s


CASES = [
    (layer_norm, normal(8, 16)), (softmax, normal(8, 16)), (dense, normal(4, 8), normal(8, 3), normal(3)),
    (views, normal(5, 8)), (order, normal(5, 7)), (integers, np.arange(-10, 10, dtype=np.int32)),
    (rounding, normal(9)), (functions, normal(50)), (functions, normal(50, dtype=np.float64)), (nested, normal(3, 4)),
    (products, normal(3, 4), normal(4, 5)), (np.matmul, normal(2, 3, 4), normal(2, 4, 5)),
    (np.matmul, normal(2, 3, 4), normal(4, 5)), (gathers, normal(6, 6), np.array([0, -1, 3])), (joins, normal(3, 4)),
    (statistics, normal(5, 6)), (accumulate, normal(6)), (np.sum, normal(0, 3)),
]  # fmt: skip


@pytest.mark.parametrize("function, arguments", [(c[0], c[1:]) for c in CASES], ids=[c[0].__name__ for c in CASES])
def test_gives_what_numpy_gives(function, arguments):
    got, wanted = leaves(refxla.compile(function)(*arguments)), leaves(function(*arguments))
    assert len(got) == len(wanted)
    for a, b in zip(got, wanted, strict=True):
        if not isinstance(b, (np.ndarray, np.generic)):
            assert a == b
            continue
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        scale = np.abs(b).max(initial=0) if b.dtype.kind in "fc" else 0
        np.testing.assert_allclose(a, b, rtol=0, atol=32 * np.finfo(b.dtype).eps * scale if scale else 0)


def test_the_example_that_everyone_knows_is_one_kernel():
    @refxla.compile
    def loss(x, y, z):
        return np.sum(x + y * z)

    x, y, z = normal(1000), normal(1001)[1:], normal(1002)[2:]
    assert loss(x, y, z) == pytest.approx(np.sum(x + y * z), rel=1e-5)
    assert len(loss.plan.kernels) == 1 and loss.memory.arena == 0
    first = loss.executable
    loss(normal(7), normal(7), normal(7))
    assert loss.executable is not first
    loss(x, y, z)
    assert loss.executable is first


def test_values_that_are_no_arrays_are_part_of_the_program():
    power = refxla.compile(lambda x, n: x**n)
    x = normal(4)
    np.testing.assert_allclose(power(x, 2), x**2)
    np.testing.assert_allclose(power(x, 3), x**3, rtol=1e-6)


def test_an_argument_is_written_into_as_numpy_does():
    def change(x, y):
        x[1:] += y[0]
        x[y > 0] = 0
        y *= 2
        return x, x[0]

    compiled = refxla.compile(change)
    for _ in range(3):
        x, y = normal(4), normal(4)
        own, other = x.copy(), y.copy()
        wanted = change(own, other)
        got = compiled(x, y)
        assert got[0] is x
        np.testing.assert_array_equal(x, own)
        np.testing.assert_array_equal(y, other)
        np.testing.assert_array_equal(got[1], wanted[1])
    with pytest.raises(refxla.InputError, match="writes into argument x, which shares memory with argument y"):
        compiled(x, x)
    with pytest.raises(refxla.InputError, match="shares memory"):
        big = normal(8)
        compiled(big[:4], big[2:6])
    x.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        compiled(x, y)


def made_in_many_ways(x):
    a = np.ndarray((2, 3), dtype=np.float32)
    a[:] = x[0]
    b = np.array([x[0, 0], 2, x[1, 1]])
    b.shape = 3, 1
    c = np.full(3, x[0, 1])
    c[1] += 1
    d, e = np.eye(3), np.arange(3) % 2
    d[e == 1] = x[0, :3]
    f = np.linspace(0, 1, 3)
    g = f[::2]
    f[0] = x[1, 0]  # a view follows, also when its array was known before
    assert isinstance(a, np.ndarray) and a.shape == (2, 3) and len(d) == 3
    return a, b, c, d, e, f, g, np.zeros_like(x), np.transpose(x, axes=(1, 0)), np.asarray(x)[0], [x[0]] + [a]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_arrays_that_the_function_makes_can_be_written_into():
    x = normal(2, 3)
    got, wanted = leaves(refxla.compile(made_in_many_ways)(x)), leaves(made_in_many_ways(x))
    for a, b in zip(got, wanted, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        np.testing.assert_array_equal(a, b)


def elements_of_what_it_makes(i):
    table, count, grid, rows = np.arange(10) * 10, np.zeros(4, int), np.arange(12).reshape(3, 4), np.zeros((3, 4))
    count[i] += 1
    whole = np.zeros((3, 4))
    copy = whole.copy()
    row, column = whole[i], copy.T[i]
    row[1] = 5  # the array follows
    whole[0] = 7
    column[[0, 1]] += 5
    rows[i].reshape(2, 2)[0] = 3
    return (
        table[i], count, grid[i], grid[i, ...], grid[i, 1], grid[0, i], grid[0][i], grid[:, i], grid[None, i, None],
        grid[i, [0, 1]], np.eye(3)[i], rows, whole, copy, row, column, grid[i][i], grid[i].sum(),
    )  # fmt: skip


@pytest.mark.parametrize("i", [1, -1, np.int64(1), np.array(1)])
def test_elements_of_known_arrays_by_an_index_that_is_not_known(i):
    got, wanted = refxla.compile(elements_of_what_it_makes)(i), elements_of_what_it_makes(i)
    for a, b in zip(got, wanted, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        np.testing.assert_array_equal(a, b)


def test_computed_indices_choose_elements_of_known_arrays():
    def choose(x, order):
        table = np.arange(10) * 10
        return table[x.argmax()], table[x.astype(int).sum()], table[np.searchsorted(x, 2.5)], table[order[1]]

    x, order = np.array([1.0, 2.0, 3.0]), np.array([0, 2])
    assert refxla.compile(choose)(x, order) == choose(x, order)

    def body(i, s):
        return s + (np.arange(10) * 10.0)[i]

    assert refxla.compile(lambda x: refxla.fori_loop(0, 5, body, x))(0.0) == 100
    assert refxla.compile(lambda i: refxla.vmap(lambda n: np.eye(3)[n])(i))(order).tolist() == np.eye(3)[order].tolist()


def test_an_index_that_is_an_array_without_dimensions_makes_a_copy():
    def change(x, i):
        row, view = x[i], x[1]
        row[0] = 5
        view[1] = 7
        return row

    i = np.array(1)
    x, own = np.zeros((2, 3)), np.zeros((2, 3))
    np.testing.assert_array_equal(refxla.compile(change)(x, i), change(own, i))
    np.testing.assert_array_equal(x, own)


def softmax_gradient(p, y):
    p[range(len(y)), y] -= 1
    p[range(0)] = 3
    np.add.at(p, range(1), 2)
    return p, p[range(2)], p[:, range(0, 3, 2)], np.arange(5)[range(2)], np.arange(5)[y[0]], p[memoryview(b"\1\0")]


def test_sequences_are_indices_as_in_numpy():
    p, y = normal(2, 3), np.array([1, 2])
    got, wanted = refxla.compile(softmax_gradient)(p.copy(), y), softmax_gradient(p.copy(), y)
    for a, b in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(a, b)


MASKED = [
    (lambda s: s.__isub__(0.5), "subtract"),
    (lambda s: s.__itruediv__(2), "divide"),
    (lambda s: np.power(s, 0.5, out=s), "power"),
]


@pytest.mark.parametrize("change, name", MASKED)
def test_what_a_mask_chooses_does_not_change_its_type_in_place(change, name):
    def function(a):
        a[a > 2] = change(a[a > 2])
        return a

    for called in (function, refxla.compile(function)):
        with pytest.raises(TypeError, match=f"Cannot cast ufunc '{name}' output from .*float64.* to .*int64"):
            called(np.arange(5))
    x = normal(5)
    np.testing.assert_allclose(refxla.compile(function)(x + 3), function(x + 3), 1e-6)


def test_what_a_mask_chooses_is_changed_under_all_its_names():
    def function(x):
        chosen = x[x > 0]
        other = chosen
        chosen += np.float64(1)
        return chosen.sum(), other.sum(), x

    for a, b in zip(refxla.compile(function)(normal(5)), function(normal(5)), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, 1e-6)


def repeated(x, n):
    for _ in range(n):  # a value that is used twice at each level
        x = x + x * 0.25
    return x


WRITTEN_TWICE = [
    lambda x, n: x > n / 3,  # a Python number that is computed twice
    lambda x, n: x > x.mean(),
    lambda x, n: x > np.median(x),
    lambda x, n: np.argsort(x) > n,
    lambda x, n: np.cumsum(x) > n - 1.0,
    lambda x, n: repeated(x, 40) > n,
]


@pytest.mark.parametrize("mask", WRITTEN_TWICE)
def test_a_mask_may_be_written_out_twice(mask):
    def function(x, n):
        x[mask(x, n)] = x[mask(x, n)] - n
        return x

    np.testing.assert_allclose(refxla.compile(function)(normal(50), 1), function(normal(50), 1), 1e-6)


def test_masks_of_numbers_that_are_equal_but_not_the_same_differ():
    def function(x, n):
        x[x > n * 0.0] = x[x > n * -0.0]
        return x

    with pytest.raises(refxla.UnsupportedError, match="another mask"):
        refxla.compile(function)(normal(5), 1)


@pytest.mark.parametrize("device", ["reference", None])
def test_results_keep_their_values_when_arguments_are_written(device):
    def change(a):
        results = a[-1, 1], a[0].copy(), +a, a[1:].astype(int, copy=True), np.conjugate(a), np.array(a)
        a[...] = 7
        return results

    got, wanted = refxla.compile(change, device=device)(np.eye(3)), change(np.eye(3))
    for a, b in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(a, b)


SHARED = [
    lambda a: np.diag(a), lambda a: np.broadcast_to(a, (2, 2, 2)), lambda a: np.broadcast_arrays(a, a[0])[0],
    lambda a: np.ix_(a[0], a[0])[1], lambda a: np.linalg.diagonal(a), lambda a: np.real_if_close(a),
    lambda a: np.asfortranarray(a), lambda a: np.ascontiguousarray(a.T), lambda a: np.ascontiguousarray(a[1:]),
    lambda a: np.asfortranarray(a.T), lambda a: np.asfortranarray(a[0]),
    lambda a: np.meshgrid(a[0], a[1], copy=False)[0], lambda a: np.delete(a, [], 0),
    lambda a: np.nan_to_num(a.astype(int), copy=False),
]  # fmt: skip


@pytest.mark.parametrize("function", SHARED)
def test_what_shares_memory_in_numpy_does_so_here(function):
    """Of an array that is given, and of one whose values are known when the function is traced."""

    def change(a):
        known = np.arange(4.0).reshape(2, 2)
        results = function(a), function(known)
        a += 50
        known += 50
        return results

    got, wanted = (f(np.eye(2)) for f in (refxla.compile(change, device="reference"), change))
    for a, b in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_grid_is_a_copy_unless_it_is_to_be_none():
    def change(x):
        grids = (
            np.meshgrid(x, x, sparse=True),
            np.meshgrid(x, x, copy=False),
            np.meshgrid(x, x, sparse=True, copy=False),
        )
        x += 1
        return grids

    for a, b in zip(leaves(refxla.compile(change)(np.ones(3))), leaves(change(np.ones(3))), strict=True):
        np.testing.assert_array_equal(a, b)


def test_scalars_are_not_written_into():
    for change in (lambda x: np.add.at(x.sum(), ..., 1), lambda x: x.sum().__setitem__(..., 1)):
        with pytest.raises(TypeError, match="item assignment|must be array"):
            refxla.compile(change)(np.ones(3))


def test_a_copy_of_a_scalar_is_written_into():
    def change(x):
        copy = np.copy(x[0])
        np.add.at(copy, ..., 2)
        copy += 1
        return copy, x[0].copy()

    for a, b in zip(refxla.compile(change)(np.ones(3)), change(np.ones(3)), strict=True):
        np.testing.assert_array_equal(a, b)


def test_scalars_are_assigned_to_signed_integers_as_pythons_are():
    def change(x, scalar):
        x[0], x[1:3] = scalar, scalar
        x[3:].fill(scalar)
        return x

    def outcome(function, *args):
        try:
            return function(*args).tolist()
        except (OverflowError, ValueError) as error:
            return type(error)

    compiled = refxla.compile(change, device="reference")
    values = (127.9, 128.0, -128.9, -129.0, 300.75, -2.5, 2.0**31, 2.0**40 + 3, 2.0**63, -(2.0**63), np.nan, -np.inf)
    numbers = [np.float64(v) for v in values] + [
        np.float32(300.75),
        np.float16("nan"),
        np.complex64(-3.5),
        np.int64(300),
        np.int64(-128),
    ]
    for kind in ("i1", "i4", "i8"):
        for number in (*numbers, np.int16(-129), np.uint64(2**63), np.uint8(200), np.int64(2**40 + 3)):
            got, wanted = (outcome(f, np.zeros(4, kind), number) for f in (compiled, change))
            assert got == wanted, (kind, number)


def test_results_go_into_integers_as_arrays_do():
    def spread(x, out):
        return np.nanmax(x, out=out), np.add(x[0], 0.5, out=out, casting="unsafe")

    compiled = refxla.compile(spread, device="reference")
    with np.errstate(invalid="ignore"):
        for x in (np.array([np.nan]), np.array([300.0])):  # no error, where an assignment has one
            for f in (spread, compiled):
                f(x, np.zeros((), "i1"))


def test_an_array_is_no_element():
    def change(x, value):
        x[1] = value
        return x

    def outcome(function):
        try:
            return function(np.zeros(3), np.ones(1)).tolist()
        except ValueError as error:
            return str(error)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of releases of NumPy that convert it
        assert outcome(refxla.compile(change, device="reference")) == outcome(change)


def test_errors_of_numbers_are_raised_even_if_nothing_reads_what_is_computed():
    def overwritten(a, n):
        result = n + a
        result[:] = a
        return result

    def unread(a, n):
        a[n]
        return a * 2

    for function, n, error in ((overwritten, -3, OverflowError), (unread, 3, IndexError)):
        compiled = refxla.compile(function, device="reference")
        compiled(np.arange(3, dtype="u1"), 1)
        for f in (function, compiled):
            with pytest.raises(error):
                f(np.arange(3, dtype="u1"), n)


def test_positions_go_into_integers_alone():
    def position(a, out):
        np.argmin(a, out=out)
        return out

    x = np.array([3.0, 1.0])
    compiled = refxla.compile(position, device="reference")
    assert compiled(x, np.zeros((), "i4")) == 1
    for kind in ("u8", "f8", "c8"):
        for f in (position, compiled):
            with pytest.raises(TypeError, match="according to the rule 'safe'"):
                f(x, np.zeros((), kind))


def test_the_differences_of_a_variance_have_the_wider_type():
    x = np.array([0.68213573, 0.23346334, 1.98973758])
    mask = np.array([False, False, True])

    def spreads(x, mask):
        return x.std(dtype="f2", where=mask), x.var(dtype="f4"), x.astype("f4").var(dtype="f8"), (x + 1j).var()

    got, wanted = refxla.compile(spreads, device="reference")(x, mask), spreads(x, mask)
    for a, b in zip(got, wanted, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_a_mask_with_more_dimensions_than_the_array_is_an_error():
    def total(x, mask):
        return np.sum(x, where=mask)

    for f in (total, refxla.compile(total, device="reference")):
        with pytest.raises(ValueError, match="more dimensions than allowed"):
            f(np.ones(3), np.ones((1, 3), bool))


def test_what_is_assigned_by_a_mask_has_no_more_dimensions_than_numpy_takes():
    def write(x, mask, value):
        x[mask] = value
        return x

    mask = np.array([True, False, True])
    compiled = refxla.compile(write, device="reference")
    for f in (write, compiled):
        assert f(np.zeros((3, 2)), mask, np.ones((1, 1, 2))).sum() == 4
        with pytest.raises(TypeError, match="requires a 0 or 1-dimensional input, input has 2 dimensions"):
            f(np.zeros(3), mask, np.ones((1, 2)))
    with pytest.raises(refxla.UnsupportedError, match=r"assigned an array of shape \(1, 2, 2\)"):
        compiled(np.zeros((3, 2)), mask, np.ones((1, 2, 2)))


def test_a_complex_number_is_no_value_beside_real_ones():
    def between(x, left):
        return np.interp(x, [1.0], [2.0], left=left)

    for f in (between, refxla.compile(between, device="reference")):
        with pytest.raises(TypeError, match="must be real number, not complex"):
            f(np.ones(2), 1j)


def test_the_spectral_norm_of_an_empty_matrix_is_zero():
    norm = refxla.compile(lambda x: np.linalg.norm(x, ord=2, keepdims=True), device="reference")
    np.testing.assert_array_equal(norm(np.zeros((1, 0))), [[0.0]])


def test_few_points_have_no_step():
    def points(a):
        return [np.linspace(a, 1.5, n, retstep=True)[1] for n in (0, 1)], np.linspace(a, 1.5, 1, False, retstep=True)[1]

    got, wanted = refxla.compile(points, device="reference")(2j), points(2j)
    assert [type(s) for s in got[0]] == [type(s) for s in wanted[0]] == [float, float]
    np.testing.assert_array_equal(got[0] + [got[1]], wanted[0] + [wanted[1]])


WITHOUT_DIMENSIONS = [
    lambda x, y, v, m: np.where(x > 0, x, y),
    lambda x, y, v, m: np.isin(x, v),
    lambda x, y, v, m: np.select([x > 0], [x]),
    lambda x, y, v, m: np.tile(x, ()),
    lambda x, y, v, m: np.roll(x, 1),
    lambda x, y, v, m: np.copy(x),
    lambda x, y, v, m: np.full_like(x, 2),
    lambda x, y, v, m: np.squeeze(v[:1]),
    lambda x, y, v, m: np.clip(x, 0, 1),
    lambda x, y, v, m: np.nan_to_num(x),
    lambda x, y, v, m: np.searchsorted(v, x),
    lambda x, y, v, m: np.digitize(x, v),
    lambda x, y, v, m: np.interp(x, [0, 2], [0, 3]),
    lambda x, y, v, m: np.sinc(x),
    lambda x, y, v, m: np.nanmax(v),
    lambda x, y, v, m: np.nanmedian(v),
    lambda x, y, v, m: np.nanstd(v),
    lambda x, y, v, m: np.nanpercentile(v, 50),
    lambda x, y, v, m: np.median(v),
    lambda x, y, v, m: np.quantile(v, 0.5),
    lambda x, y, v, m: np.linalg.slogdet(m)[1],
    lambda x, y, v, m: np.max(v),
]


@pytest.mark.parametrize("function", WITHOUT_DIMENSIONS)
@pytest.mark.parametrize("kind", [np.array, np.float64])
def test_results_without_dimensions_are_arrays_or_scalars_as_in_numpy(function, kind):
    def write(*args):
        result = function(*args)
        try:
            result[()] = 1
        except TypeError:
            return result, "a scalar"
        return result, "an array"

    args = kind(0.5), kind(1.5), np.array([0.5, 1, 2]), np.array([[1.0, 2], [3, 5]])
    got, wanted = refxla.compile(write, device="reference")(*args), write(*args)
    assert got[1] == wanted[1]
    np.testing.assert_allclose(got[0], wanted[0], atol=1e-15)


def test_flat_is_assigned_to_and_what_is_taken_of_it_is_a_copy():
    def change(a):
        known = np.arange(6).reshape(2, 3)
        for x in (a, a.T, known, known.T):
            taken, x.flat[1] = x.flat[1:4], 50
            taken[0] = 60
            x.flat[[2, -1]] = x.flat[0]
        a[1:].flat = 3, 4
        return taken, a, known, a.flat[2], len(a.flat), np.sum(a.flat), [n + 1 for n in known.T.flat]

    got, wanted = (f(np.arange(6.0).reshape(3, 2)) for f in (refxla.compile(change), change))
    for a, b in zip(leaves(got), leaves(wanted), strict=True):
        np.testing.assert_array_equal(a, b)


def test_arrays_that_are_made_of_scalars_are_written_into():
    def change(x):
        made = [
            s for n in (x.sum(), np.float64(3) * np.arange(3)[1]) for s in (n[None], np.atleast_2d(n), n.reshape(1))
        ]
        for array in made:
            array += 1
        return made, x.sum()

    for a, b in zip(leaves(refxla.compile(change)(np.ones(3))), leaves(change(np.ones(3))), strict=True):
        np.testing.assert_array_equal(a, b)


AT = [
    (np.subtract, np.ones(3), [0, 0, 1], np.array([1, 2, 3], "u8")),
    (np.subtract, np.ones(3, "u2"), [0, 0, 1], np.array([1, -2, 3])),
    (np.add, np.ones(3, "u1"), [0, 0, 1], 70000),
    (np.add, np.ones(3, "i2"), slice(0, 2), np.array([-1, 70000])),
    (np.multiply, np.ones(3, "i1"), [1, 1], np.array([100, 3], "i4")),
    (np.add, np.ones(3, "f4"), [1, 1], 0.5),
    (np.logical_or, np.zeros(3, bool), [1, 1], np.array([2, 0])),
    (np.subtract, np.ones((3, 3)), np.s_[:, -1], np.ones((1, 3))),
    (np.maximum, np.ones(3), np.array([True, False, True]), 4),
]


@pytest.mark.parametrize("ufunc, array, places, values", AT)
def test_what_is_added_at_places_is_numpys(ufunc, array, places, values):
    def change(a, values):
        ufunc.at(a, places, values)
        return a

    wanted = change(array.copy(), values)
    np.testing.assert_array_equal(refxla.compile(change)(array.copy(), values), wanted)


NOT_AT = [
    (np.add, np.ones(3), [1j, 0], refxla.UnsupportedError, "values.astype"),
    (np.add, np.ones(3, "i4"), [0.5, 1.5], refxla.UnsupportedError, "np.add.at of int32 with float64 has no compiled"),
    (np.maximum, np.ones(3, "u1"), [300, 2], refxla.UnsupportedError, "values.astype"),
    (np.add, np.zeros(3, bool), [1, -1], refxla.UnsupportedError, "values.astype"),
    (np.logical_and, np.ones(3, "i4"), [1, 1], refxla.UnsupportedError, "np.logical_and.at of int32"),
    (np.subtract, np.ones(3, bool), True, TypeError, "numpy boolean subtract"),
]


@pytest.mark.parametrize("ufunc, array, values, error, message", NOT_AT)
def test_what_numpy_converts_at_each_step_is_refused(ufunc, array, values, error, message):
    with pytest.raises(error, match=message):
        refxla.compile(lambda a: ufunc.at(a, [1, 1], values))(array)


VIEWS = [
    lambda a: np.einsum("ii->i", a),
    lambda a: np.einsum("ij->ji", a),
    lambda a: np.einsum(a, [0, 1]),
    lambda a: np.einsum("iij->ji", a[:, :, None]),
    lambda a: np.einsum("...ii->...i", a[None], optimize=True),
    lambda a: a.astype(a.dtype, copy=False),
    lambda a: a.conj(),
    lambda a: np.astype(a, np.float64, copy=False),
]


@pytest.mark.parametrize("view", VIEWS)
def test_what_has_no_elements_of_its_own_is_a_view(view):
    def change(a, known):
        part, other = view(a), view(known)
        a[0] = 3
        kept = part.copy()
        part[0] = 9
        other[...] = part * 2
        return a, known, kept, part, other

    def change_known(x):
        known = np.zeros((3, 3))
        view(known)[0] += 5
        return change(x, known)

    x = normal(3, 3, dtype=np.float64)
    got = [*refxla.compile(change)(x.copy(), x + 1), *refxla.compile(change_known)(x.copy())]
    for a, b in zip(got, [*change(x.copy(), x + 1), *change_known(x.copy())], strict=True):
        np.testing.assert_array_equal(a, b)


def test_windows_and_diagonals_are_views_that_are_not_written():
    windows = np.lib.stride_tricks.sliding_window_view

    def follow(a):
        known = np.zeros((3, 3))
        parts = [
            f(x) for x in (a, known) for f in (np.diagonal, lambda x: windows(x, 2, 0), lambda x: windows(x, (2, 2)))
        ]
        known[1], a[0] = a[2], 3
        return parts

    x = normal(3, 3)
    for a, b in zip(refxla.compile(follow)(x.copy()), follow(x.copy()), strict=True):
        np.testing.assert_array_equal(a, b)
    for write, message in (
        (lambda a: np.diagonal(a).fill(3), "read-only"),
        (lambda a: windows(a, 2, 0).fill(3), "read-only"),
        (lambda a: windows(a, 2, 0, writeable=True).fill(3), "windows, which share elements, .* assign to the array"),
    ):
        with pytest.raises(refxla.UnsupportedError, match=message):
            refxla.compile(write)(x)


def test_unsigned_and_signed_integers_compare_by_their_values():
    u, s = np.array([0, 5, 2**64 - 1, 2**63], np.uint64), np.array([-1, 5, -1, 2**62], np.int64)

    def compare(x, y):
        return x < y, x <= y, x > y, x >= y, x == y, x != y

    for pair in ((u, s), (s, u)):
        for a, b in zip(refxla.compile(compare)(*pair), compare(*pair), strict=True):
            np.testing.assert_array_equal(a, b)


def test_a_scalar_and_an_array_without_dimensions_are_two_kinds():
    def change(x):
        x += 1
        return x

    compiled = refxla.compile(change)
    assert compiled(np.float32(1)) == 2
    x = np.array(1, np.float32)
    assert compiled(x) is x and x == 2
    assert compiled(np.float32(1)) == 2


def test_a_write_is_undone_by_an_error():
    def change(x, i):
        x[0] = 7
        return x[i]

    x = np.arange(3.0)
    with pytest.raises(
        IndexError, match=r"out of bounds for axis 0 with size 3\n.*test_numpy.py:\d+, in change: return"
    ):
        refxla.compile(change)(x, np.array([1, 3]))
    np.testing.assert_array_equal(x, np.arange(3.0))


ERRORS = [
    (lambda x, i: x[i], np.arange(5.0), np.array([0, -6]), IndexError, "out of bounds"),
    (lambda x, i: x[:, i], np.ones((2, 3)), np.array(3), IndexError, "axis 1 with size 3"),
    (lambda x, i: np.take(x, i), np.arange(5.0), np.array([7]), IndexError, "out of bounds"),
    (lambda x, i: np.take_along_axis(x, i, 0), np.arange(5.0), np.array([7]), IndexError, "out of bounds"),
    (lambda x, i: np.add.at(x, i, 1), np.arange(5.0), np.array([7]), IndexError, "out of bounds"),
    (lambda x, i: np.linalg.inv(x * i), np.eye(3), np.array(0.0), np.linalg.LinAlgError, "Singular"),
    (lambda x, i: np.linalg.cholesky(x * i), np.eye(3), np.array(-1.0), np.linalg.LinAlgError, "positive definite"),
    (lambda x, i: np.bincount(i, minlength=3), np.ones(1), np.array([1, 4]), refxla.InputError, "minlength=3"),
    (lambda x, i: np.bincount(i, minlength=3), np.ones(1), np.array([-1]), ValueError, "negative"),
    (lambda x, i: x[i > 0].max(), np.ones(2), np.array([-1, 0]), ValueError, "no identity"),
    (lambda x, i: np.quantile(x, i), np.ones(2), np.array([1.5]), ValueError, "range"),
    (lambda x, i: np.choose(i, [x, x]), np.ones(2), np.array([0, 2]), ValueError, "invalid entry in choice array"),
    (lambda x, i: x.__setitem__(1, i), np.arange(3), np.float64("nan"), ValueError, "float NaN to integer"),
    (lambda x, i: x.__setitem__(..., i), np.arange(3), np.float64("-inf"), OverflowError, "out of bounds for int64"),
    (
        lambda x, i: x.__setitem__(1, i),
        np.arange(3, dtype="i1"),
        np.int64(300),
        OverflowError,
        "out of bounds for int8",
    ),
    (lambda x, i: x.__setitem__(1, x[0] ** i), np.arange(-2, 3), np.float64(0.5), ValueError, "NaN to integer"),
]


@pytest.mark.parametrize("n", range(len(ERRORS)))
def test_what_raises_at_the_call_raises_in_a_compiled_function(n):
    function, x, i, error, message = ERRORS[n]
    if error is not refxla.InputError:
        with pytest.raises((error, ValueError)):
            function(x.copy(), i)
    compiled = refxla.compile(function, device="reference")
    for _ in range(2):
        with pytest.raises(error, match=message):
            compiled(x.copy(), i)


@dataclasses.dataclass(frozen=True)
class State:
    w: np.ndarray
    steps: int
    more: dict

    def norm(self):
        return np.sqrt(np.sum(self.w * self.w)) + OFFSET


OFFSET = np.ones((), np.float32)


def test_dataclasses_are_arguments_and_results():
    def step(state, rate):
        return dataclasses.replace(state, w=state.w * rate, steps=state.steps + 1), state.norm() + state.more["b"]

    compiled = refxla.compile(step)
    state = State(normal(5), 0, {"b": normal(2)})
    for _ in range(3):
        wanted, (got, norm) = step(state, 0.5), compiled(state, 0.5)
        assert type(got) is State and got.steps == state.steps + 1
        np.testing.assert_array_equal(got.w, wanted[0].w)
        np.testing.assert_allclose(norm, wanted[1], 1e-6)
        state = got
    assert len(compiled._compiled) == 1
    with pytest.raises(refxla.UnsupportedError, match=r"assigns the attribute w of a State.*replace"):
        refxla.compile(lambda s: object.__setattr__(s, "w", s.w + 1))(state)


def appended(values, x):
    values.append(x)
    values.append(x * 2)
    return values.pop(0)


def descended(state, gradient):
    state["w"] = state["w"] - 0.5 * gradient
    state["steps"] += 1
    state["b"] += 1


def exchanged(layers, x):
    for n in range(len(layers)):
        layers[n]["w"], layers[n]["before"] = layers[n]["w"] - x, layers[n]["w"]
    layers.append({"w": x, "name": "new"})
    layers.reverse()
    return layers, layers[0]


def removed(state, x):
    state["v"] = state.pop("w") + x, [x]
    return state


def moved(state, x):
    state["old"], state["rows"] = state["rows"], [x]


@pytest.mark.parametrize(
    "function, make",
    [
        (appended, lambda: [normal(3), normal(4)]),
        (descended, lambda: {"w": normal(3), "steps": 0, "b": normal(2)}),
        (exchanged, lambda: [{"w": normal(3)}, {"w": normal(1)}]),
        (removed, lambda: {"w": normal(3), "text": "text"}),
        (moved, lambda: {"rows": [normal(3), 1.5]}),
    ],
)
def test_lists_and_dicts_that_a_function_changes_are_changed(function, make):
    compiled, own, given = refxla.compile(function), make(), make()
    for _ in range(2):
        wanted, got = function(own, normal(3)), compiled(given, normal(3))
        for a, b in ((got, wanted), (given, own)):
            assert structure(a) == structure(b)
            for x, y in zip(leaves(a), leaves(b), strict=True):
                np.testing.assert_array_equal(x, y)
        if wanted is own:
            assert got is given
        if function is removed:
            return


def test_lists_and_dicts_are_not_changed_by_an_error():
    def change(state, x, i):
        state["w"] = x
        return x[i]

    state = {}
    with pytest.raises(IndexError, match="out of bounds"):
        refxla.compile(change)(state, normal(3), np.array(7))
    assert state == {}


def test_a_list_that_is_changed_and_there_twice_is_refused():
    def change(a, b, x):
        a[0] = x + b[0]

    compiled = refxla.compile(change)
    compiled([normal(3)], [normal(3)], normal(3))
    twice = [normal(3)]
    with pytest.raises(refxla.InputError, match="changes argument a, which is the same list as argument b"):
        compiled(twice, twice, normal(3))


def test_a_function_of_jax_is_told_apart():
    jnp = pytest.importorskip("jax.numpy")
    with pytest.raises(refxla.InputError, match=r"compile jax.jit\(f\)"):
        refxla.compile(lambda x: jnp.sin(x))(normal(3))


def test_arrays_of_jax_are_arrays():
    jax = pytest.importorskip("jax")
    compiled = refxla.compile(lambda x, more: np.maximum(x, 0) * 2 + more["y"])
    for n in range(3):
        x, y = normal(3) + n, np.float32(n)
        wanted = np.maximum(x, 0) * 2 + y
        for arguments in ((jax.numpy.asarray(x), {"y": y}), (x, {"y": jax.numpy.asarray(y)})):
            got = compiled(*arguments)
            assert type(got) is np.ndarray and got.dtype == wanted.dtype
            np.testing.assert_array_equal(got, wanted)
    assert len(compiled._compiled) == 2  # a scalar of NumPy's is no array without dimensions
    with pytest.raises(ValueError, match="read-only"):
        refxla.compile(lambda x: x.fill(3))(jax.numpy.ones(3))
    with pytest.raises(refxla.InputError, match=r"compile jax.jit\(f\)"):
        refxla.compile(lambda x: jax.numpy.sin(x))(jax.numpy.ones(3))


def test_a_compiled_function_is_no_operation_of_jax():
    jax = pytest.importorskip("jax")
    compiled = refxla.compile(lambda x: np.sin(x) * 2)
    for change in (jax.jit, jax.vmap, jax.grad):
        with pytest.raises(refxla.InputError, match="is not an operation of JAX: inside of jax.jit.* outermost"):
            change(compiled)(1.0 if change is jax.grad else jax.numpy.ones(3))


def test_tensors_of_torch_are_arrays():
    torch = pytest.importorskip("torch")
    compiled = refxla.compile(lambda x: np.maximum(x, 0) * 2)
    for n in range(3):
        np.testing.assert_array_equal(compiled(torch.arange(4.0) - n), np.maximum(np.arange(4.0) - n, 0) * 2)
    with pytest.raises(refxla.InputError, match="is a function of PyTorch"):
        refxla.compile(lambda x: torch.sin(x))(np.ones(3))


def test_example_arguments_may_be_keywords():
    def blend(x, y, *, share=0.5):
        return x * share + y * (1 - share)

    x = np.arange(4.0)
    compiled = refxla.compile(blend, x, y=x, share=0.25, without=["fusion"])
    assert [p.shape.dimensions for p in compiled.hlo.entry.parameters] == [(4,), (4,), (), ()]  # share, 1 - share
    np.testing.assert_array_equal(compiled(x, y=2 * x, share=0.25), 1.75 * x)
    assert len(compiled._compiled) == 1
    assert refxla.compile(blend, x=x, y=x).hlo and refxla.compile(lambda **named: named["x"] + 1, x=x).hlo
    assert refxla.compile(lambda x, device: x * device).compile(x, device=2.0) is None


def test_a_misspelt_option_is_told_from_example_arguments():
    with pytest.raises(
        refxla.InputError, match="'devise' is neither an option .* nor an argument of <lambda>, which takes x"
    ):
        refxla.compile(lambda x: x, np.ones(3), devise="pocl")
    with pytest.raises(refxla.InputError, match="'x' is no option of refxla.compile, and an HLO program has no"):
        refxla.compile("HloModule m\nENTRY e { ROOT x = f32[] parameter(0) }", x=1)
    with pytest.raises(refxla.InputError, match="compiled in its class"):
        refxla.compile(staticmethod(lambda x: x), x=1)
