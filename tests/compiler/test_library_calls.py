"""Linear algebra that LAPACK computes: which instructions become calls, what the plan says of them, and their results.

Each result is held to the rules by which the conformance suite decides decompositions (refxla_spec.properties).
"""

import os
import signal
import threading

import numpy as np
import pytest
import scipy.linalg
from refxla_spec import interpreter, properties
from refxla_spec.errors import InputError, UnsupportedError
from refxla_spec.text import parse

import refxla
from refxla._core import batched_lapack
from refxla.ir.library_calls import WRITTEN_OUT, library_call
from refxla.ir.plan import LibraryCall, Repeat
from refxla.passes.pipeline import optimize

TYPES = {"f32": np.float32, "f64": np.float64, "c64": np.complex64, "c128": np.complex128}
LETTER = {"f32": "s", "f64": "d", "c64": "c", "c128": "z"}
REAL = {"f32": "f32", "f64": "f64", "c64": "f32", "c128": "f64"}
WIDE = {"f32": "c64", "f64": "c128", "c64": "c64", "c128": "c128"}


def matrix(name, *sizes, seed=0):
    rng = np.random.default_rng((seed, *sizes))
    values = rng.standard_normal(sizes)
    return (values + 1j * rng.standard_normal(sizes) if name[0] == "c" else values).astype(TYPES[name])


def adjoint(a):
    return a.swapaxes(-1, -2).conj()


def definite(name, *sizes):
    a = matrix(name, *sizes)
    return a @ adjoint(a) + np.eye(sizes[-1], dtype=a.dtype)


def shape(name, *sizes):
    return f"{name}[{','.join(map(str, sizes))}]"


def program(target, results, arguments, options=""):
    names = {np.dtype(v): k for k, v in (*TYPES.items(), ("s32", np.int32))}
    parameters = "\n".join(f"p{k} = {shape(names[a.dtype], *a.shape)} parameter({k})" for k, a in enumerate(arguments))
    result = f"({', '.join(results)})" if len(results) > 1 else results[0]
    operands = ", ".join(f"p{k}" for k in range(len(arguments)))
    return f"""HloModule m
    ENTRY main {{ {parameters}
    ROOT r = {result} custom-call({operands}), custom_call_target="{target}", api_version=API_VERSION_TYPED_FFI,
             backend_config={{{options}}} }}"""


def cases(name, n, *batch):
    """(target, result shapes, arguments, options) of each routine, for matrices of n rows."""
    t, r, c, real = LETTER[name], REAL[name], WIDE[name], name[0] == "f"
    square, info, values = shape(name, *batch, n, n), shape("s32", *batch), shape(r, *batch, n)
    a, h = matrix(name, *batch, n, n), definite(name, *batch, n, n)
    tall = matrix(name, *batch, n + 2, n, seed=1)
    parts = [values, values] if real else [shape(name, *batch, n)]
    diagonals = [matrix(name, *batch, n, seed=k) + 4 * (k == 1) for k in range(3)]
    both = f"compute_left = {ord('V')} : ui8, compute_right = {ord('V')} : ui8"
    wide = shape(c, *batch, n, n)
    long, beside = shape(name, *batch, n + 2, n), [shape(x, *batch, max(0, n - 1)) for x in (r, name)]
    vectors = [shape(name, *batch, n + 2, n + 2), shape(name, *batch, n, n)]
    found = {
        "potrf": ([square, info], [h], "uplo = 85 : ui8"),
        "trsm": ([square], [np.tril(h), a], "side = 82 : ui8, uplo = 76 : ui8, trans_x = 67 : ui8, diag = 78 : ui8"),
        "getrf": ([long, shape("s32", *batch, n), info], [tall], ""),
        "geqrf": ([long, shape(name, *batch, n)], [tall], ""),
        "geqp3": ([long, shape("s32", *batch, n), shape(name, *batch, n)], [tall, np.zeros((*batch, n), np.int32)], ""),
        "syevd" if real else "heevd": ([square, values, info], [h], "mode = 86 : ui8, uplo = 76 : ui8"),
        "gesdd": ([long, values, *vectors, info], [tall], "mode = 65 : ui8"),
        "geev": ([*parts, wide, wide, info], [a], both),
        "gees": ([square, square, *parts, info, info], [a], "mode = 86 : ui8, sort = 78 : ui8"),
        "gehrd": ([square, beside[1], info], [a], f"low = 1 : i32, high = {n} : i32"),
        "sytrd" if real else "hetrd": ([square, values, *beside, info], [h], "uplo = 76 : ui8"),
        "gtsv": ([shape(name, *batch, n)] * 3 + [square, info], [*diagonals, a], ""),
    }
    return [(f"lapack_{t}{routine}_ffi", *rest) for routine, rest in found.items()]


@pytest.mark.parametrize(("n", "batch"), [(1, ()), (2, (2,)), (3, ()), (37, (2, 2))])
@pytest.mark.parametrize("name", TYPES)
def test_each_routine_keeps_its_rules(name, n, batch):
    for target, results, arguments, options in cases(name, n, *batch):
        text = program(target, results, arguments, options)
        executable = refxla.compile(text)
        empty = any(0 in a.shape for a in arguments)
        small = target[8:13] in ("potrf", "trsm_", "getrf") and max(arguments[0].shape[-2:]) <= WRITTEN_OUT
        steps = [type(s) for s in executable.plan.steps]
        assert steps == [LibraryCall] or empty or small and LibraryCall not in steps, target
        got = executable(*arguments)
        (decided,) = properties.decided(parse(text), arguments)
        wrong, told = decided.broken(got if isinstance(got, tuple) else (got,))
        assert not wrong.any(), f"{target}: {told}"


@pytest.fixture
def vectors():
    """Limits the bytes of vectors for what is compiled in a test."""
    yield batched_lapack.limit_vectors
    batched_lapack.limit_vectors(64)


@pytest.mark.parametrize(
    ("n", "count", "routines"),
    [(1, 4, 2), (2, 33, 3), (3, 5, 3), (8, 19, 5), (14, 16, 5)],  # the smallest factors and solutions are written out
)
@pytest.mark.parametrize("name", ["f32", "f64"])
def test_many_small_matrices_are_done_at_once_with_the_same_bits_for_vectors_of_all_widths(
    name, n, count, routines, vectors
):
    done = 0
    for target, results, arguments, options in cases(name, n, count):
        text = program(target, results, arguments, options)
        module, first = parse(text), None
        for width in (64, 32, 16):
            vectors(width)
            executable = refxla.compile(text)
            (step,) = executable.plan.steps
            if not isinstance(step, LibraryCall) or not step.function.endswith("_batched"):
                break
            got = executable(*arguments)
            got = got if isinstance(got, tuple) else (got,)
            if first is None:
                first, done = got, done + 1
                (decided,) = properties.decided(module, arguments)
                wrong, told = decided.broken(got)
                assert not wrong.any(), f"{target}: {told}"
            for x, y in zip(got, first, strict=True):
                np.testing.assert_array_equal(x, y)
    assert done == routines  # of those that have the matrix as it is; the sixth makes Q of what geqrf gives


@pytest.mark.parametrize("name", ["f32", "f64"])
@pytest.mark.parametrize("scale", [1, 1e-36, 1e36])
def test_small_matrices_have_the_accuracy_of_lapack_whatever_their_scale(name, scale):
    """Also of those that repeat eigenvalues, have dependent columns, or vanish."""
    n, kind, eps = 9, TYPES[name], np.finfo(TYPES[name]).eps
    a = matrix(name, 12, n, n).astype(np.float64)
    a[1], a[2], a[3, :, 4] = 0, np.eye(n), a[3, :, 2]
    a[4] = np.ones((n, n))
    a = (a * scale).astype(kind)
    q_of = refxla.compile(qr_program(name, a.shape))
    q, r = (x.astype(np.float64) for x in q_of(a))
    norm = np.abs(a.astype(np.float64)).max((1, 2)) + 1e-300
    assert np.abs(q.swapaxes(1, 2) @ q - np.eye(n)).max() < 20 * eps
    assert (np.abs(q @ np.triu(r) - a).max((1, 2)) < 20 * n * eps * norm).all()
    symmetric = (a + a.swapaxes(1, 2)) / 2
    shapes = [shape(name, 12, n, n), shape(name, 12, n), "s32[12]"]
    text = program(f"lapack_{LETTER[name]}syevd_ffi", shapes, [symmetric], "mode = 86 : ui8, uplo = 76 : ui8")
    v, w, info = refxla.compile(text)(symmetric)
    v, w = v.astype(np.float64), w.astype(np.float64)
    assert not info.any() and (np.diff(w) >= 0).all()
    assert np.abs(v.swapaxes(1, 2) @ v - np.eye(n)).max() < 20 * eps
    wanted = np.linalg.eigvalsh(symmetric.astype(np.float64))
    assert (np.abs(w - wanted).max(1) < 4 * n * eps * norm).all()
    assert (np.abs(v * w[:, None] @ v.swapaxes(1, 2) - symmetric).max((1, 2)) < 20 * n * eps * norm).all()


@pytest.mark.parametrize("name", ["f32", "f64", "c64", "c128"])
def test_eigenvectors_are_lapacks(name):
    """Either sign (of complex ones any phase) would be right; programs know that of JAX, NumPy and PyTorch, which pass
    the matrix itself to LAPACK and not its transpose."""
    n, routine = 7, LETTER[name] + ("heevd" if name[0] == "c" else "syevd")
    a = matrix(name, n, n)
    a += adjoint(a)
    results = [shape(name, n, n), shape(REAL[name], n), "s32[]"]
    for lower, letter in enumerate("UL"):
        options = f"mode = 86 : ui8, uplo = {ord(letter)} : ui8"
        v, w, _ = refxla.compile(program(f"lapack_{routine}_ffi", results, [a], options))(a)
        wanted_w, wanted_v, _ = getattr(scipy.linalg.lapack, routine)(a, lower=lower)
        np.testing.assert_array_equal(v, wanted_v)
        np.testing.assert_array_equal(w, wanted_w)


@pytest.mark.parametrize("mode", ["A", "S"])
@pytest.mark.parametrize("sizes", [(6, 4), (4, 6), (5, 5)])
@pytest.mark.parametrize("name", ["f32", "c128"])
def test_singular_vectors_are_lapacks(name, sizes, mode):
    a, (m, n), k = matrix(name, *sizes), sizes, min(sizes)
    rows, columns = (k, k) if mode == "S" else sizes
    results = [shape(name, m, n), shape(REAL[name], k), shape(name, m, rows), shape(name, columns, n), "s32[]"]
    routine = LETTER[name] + "gesdd"
    _, s, u, vh, _ = refxla.compile(program(f"lapack_{routine}_ffi", results, [a], f"mode = {ord(mode)} : ui8"))(a)
    found = getattr(scipy.linalg.lapack, routine)(a, full_matrices=mode == "A")
    for got, wanted in zip((u, s, vh), found[:3], strict=True):
        np.testing.assert_array_equal(got, wanted)


def qr_program(name, sizes):
    count, m, n = sizes
    a, tau = shape(name, *sizes), shape(name, count, min(m, n))
    return f"""HloModule m
    ENTRY main {{ a = {a} parameter(0)
    p = ({a}, {tau}) custom-call(a), custom_call_target="lapack_{LETTER[name]}geqrf_ffi"
    r = {a} get-tuple-element(p), index=0
    t = {tau} get-tuple-element(p), index=1
    q = {a} custom-call(r, t), custom_call_target="lapack_{LETTER[name]}orgqr_ffi"
    ROOT x = ({a}, {a}) tuple(q, r) }}"""


def test_what_is_wrong_with_one_small_matrix_stays_with_it():
    """Singular, indefinite and not finite ones beside good ones: each as LAPACK has it alone."""
    good, n = definite("f32", 20, 4, 4), 4
    bad = good.copy()
    bad[3, 2, 2], bad[5], bad[11, 1, 0], bad[11, 0, 1] = -9, 0, np.nan, np.nan
    usual = [k for k in range(20) if k not in (3, 5, 11)]
    for target, results, arguments, options in cases("f32", n, 20):
        if not any(r in target for r in ("potrf", "syevd")):
            continue
        run = refxla.compile(program(target, results, arguments, options))
        got, wanted = run(bad), run(good)
        for x, y in zip(got, wanted, strict=True):
            np.testing.assert_array_equal(x[usual], y[usual])
        broken = {3: 3, 5: 1, 11: 2} if "potrf" in target else {11: 1}
        assert {k: int(info) for k, info in enumerate(got[-1]) if info} == broken
    shapes = [shape("f32", 20, 4, 4), "s32[20,4]", "s32[20]"]
    packed, pivots, info = refxla.compile(program("lapack_sgetrf_ffi", shapes, [bad]))(bad)
    assert (info == np.where(np.arange(20) == 5, 1, 0)).all() and (pivots[5] == [1, 2, 3, 4]).all()
    assert np.isfinite(np.delete(packed, 11, 0)).all()


@pytest.mark.parametrize("operation", ["NO_TRANSPOSE", "TRANSPOSE"])
@pytest.mark.parametrize(("left", "lower", "unit"), [(1, 1, 0), (1, 0, 1), (0, 1, 1), (0, 0, 0)])
def test_small_triangular_systems_read_one_triangle(left, lower, unit, operation):
    n, m, count = 6, 3, 9
    a, b = definite("f32", count, n, n), matrix("f32", count, *((n, m) if left else (m, n)))
    read = np.tri(n, k=-unit, dtype=bool)
    a = np.where(read if lower else read.T, a, np.nan).astype(np.float32)
    text = f"""HloModule m
    ENTRY main {{ a = {shape("f32", *a.shape)} parameter(0)
    b = {shape("f32", *b.shape)} parameter(1)
    ROOT x = {shape("f32", *b.shape)} triangular-solve(a, b), left_side={str(bool(left)).lower()},
             lower={str(bool(lower)).lower()}, unit_diagonal={str(bool(unit)).lower()}, transpose_a={operation} }}"""
    executable = refxla.compile(text)
    assert [s.function for s in executable.plan.steps] == ["strsm_batched"]
    np.testing.assert_allclose(executable(a, b), interpreter.run(parse(text), [a, b]), rtol=2e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("sizes", "function"),
    [((4, 16, 16), "spotrf_batched"), ((2, 2, 4, 4), "spotrf_batched"), ((3, 4, 4), "spotrf"), ((4, 17, 17), "spotrf")],
)
def test_how_many_and_how_small_matrices_are_done_at_once(sizes, function):
    text = CHOLESKY.replace("[4,4]", f"[{','.join(map(str, sizes))}]")
    (step,) = refxla.compile(text).plan.steps
    assert step.function == function


@pytest.mark.parametrize("lower", ["true", "false"])
def test_cholesky_is_one_call_and_a_matrix_that_is_not_definite_is_nan(lower):
    a = np.stack([definite("c64", 5, 5), -definite("c64", 5, 5), definite("c64", 5, 5)])
    a[2, 3, 3] = np.nan
    text = f"""HloModule m
    ENTRY main {{ a = c64[3,5,5] parameter(0)
    ROOT r = c64[3,5,5] cholesky(a), lower={lower} }}"""
    executable = refxla.compile(text)
    (step,) = executable.plan.steps
    assert (step.function, step.items) == ("cpotrf", 3)
    got, wanted = executable(a), interpreter.run(parse(text), [a])
    np.testing.assert_array_equal(np.isnan(got), np.isnan(wanted))
    np.testing.assert_allclose(got[0], wanted[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("operation", ["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"])
@pytest.mark.parametrize(("left", "lower", "unit"), [(1, 1, 0), (1, 0, 1), (0, 1, 1), (0, 0, 0)])
def test_triangular_solve_reads_one_triangle(left, lower, unit, operation):
    n, columns = 6, 4
    a, b = definite("c128", n, n), matrix("c128", *((n, columns) if left else (columns, n)))
    read = np.tri(n, k=-unit, dtype=bool)
    a = np.where(read if lower else read.T, a, np.nan)
    attributes = ", ".join(
        f"{k}={'true' if v else 'false'}" for k, v in (("left_side", left), ("lower", lower), ("unit_diagonal", unit))
    )
    text = f"""HloModule m
    ENTRY main {{ a = c128[{n},{n}] parameter(0)
    b = {shape("c128", *b.shape)} parameter(1)
    ROOT r = {shape("c128", *b.shape)} triangular-solve(a, b), {attributes}, transpose_a={operation} }}"""
    executable = refxla.compile(text)
    assert [s.function for s in executable.plan.steps] == ["ztrsm"]
    np.testing.assert_allclose(executable(a, b), interpreter.run(parse(text), [a, b]), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("operation", ["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"])
@pytest.mark.parametrize(("left", "lower", "unit"), [(1, 1, 0), (1, 0, 1), (0, 1, 1), (0, 0, 0)])
def test_nan_stays_with_the_elements_that_depend_on_it(left, lower, unit, operation, name):
    """Kernels of BLAS that work on tiles spread it, on some processors and at some sizes."""
    n, m = 13, 5
    a = (matrix(name, n, n) + 8 * np.eye(n)).astype(TYPES[name])
    b = matrix(name, *((n, m) if left else (m, n)))
    hlo = f"""HloModule m
    ENTRY main {{ a = {shape(name, n, n)} parameter(0)
    b = {shape(name, *b.shape)} parameter(1)
    ROOT x = {shape(name, *b.shape)} triangular-solve(a, b), left_side={str(bool(left)).lower()},
             lower={str(bool(lower)).lower()}, unit_diagonal={str(bool(unit)).lower()}, transpose_a={operation} }}"""
    solve = refxla.compile(hlo)
    usual = solve(a, b)
    for place in range(n):
        spoiled = b.copy()
        spoiled[(place, 1) if left else (1, place)] = np.nan
        got = solve(a, spoiled)
        wanted = interpreter.run(parse(hlo), [a, spoiled])
        assert (np.isnan(got) == np.isnan(wanted)).all()
        np.testing.assert_allclose(got[~np.isnan(got)], usual[~np.isnan(got)], rtol=1e-4)


def test_what_is_not_finite_is_nan_with_a_status_and_leaves_the_others_of_its_batch_alone():
    n = 4
    for target, results, arguments, options in cases("f64", n, 3):
        if not any(r in target for r in ("syevd", "gesdd", "geev", "gees")):
            continue
        arguments[0][1, 2, 1] = np.inf
        got = refxla.compile(program(target, results, arguments, options))(*arguments)
        alone = [a[[0, 2]] for a in arguments]
        of_two = [r.replace("[3", "[2") for r in results]
        wanted = refxla.compile(program(target, of_two, alone, options))(*alone)
        np.testing.assert_array_equal(got[-1], [0, 1, 0])
        first = 1 if "gesdd" in target else 0
        for x, y in zip(got[first:], wanted[first:], strict=True):
            np.testing.assert_array_equal(x[[0, 2]], y)
        assert np.isnan(got[1][1]).all()


def test_a_singular_tridiagonal_system_has_no_solution():
    one, zero = np.ones((2, 3), np.float32), np.zeros((2, 3), np.float32)
    diagonal, b = np.array([[1, 1, 1], [0, 1, 1]], np.float32), np.ones((2, 3, 1), np.float32)
    results = [shape("f32", 2, 3)] * 3 + [shape("f32", 2, 3, 1), "s32[2]"]
    below, same, above, x, info = refxla.compile(program("lapack_sgtsv_ffi", results, [zero, diagonal, zero, b]))(
        zero, diagonal, zero, b
    )
    np.testing.assert_array_equal(info, [0, 1])
    np.testing.assert_array_equal(x[0, :, 0], one[0])
    assert np.isnan(x[1]).all()
    for kept, given in ((below, zero), (same, diagonal), (above, zero)):
        np.testing.assert_array_equal(kept, given)


IN_A_LOOP = """HloModule m
    test { s = (s32[], f32[3,3]) parameter(0)
    i = s32[] get-tuple-element(s), index=0
    n = s32[] constant(4)
    ROOT r = pred[] compare(i, n), direction=LT }
    body { s = (s32[], f32[3,3]) parameter(0)
    i = s32[] get-tuple-element(s), index=0
    a = f32[3,3] get-tuple-element(s), index=1
    one = s32[] constant(1)
    j = s32[] add(i, one)
    l = f32[3,3] cholesky(a), lower=true
    t = f32[3,3] transpose(l), dimensions={1,0}
    b = f32[3,3] add(l, t)
    ROOT r = (s32[], f32[3,3]) tuple(j, b) }
    ENTRY main { zero = s32[] constant(0)
    a = f32[3,3] parameter(0)
    s = (s32[], f32[3,3]) tuple(zero, a)
    w = (s32[], f32[3,3]) while(s), condition=test, body=body
    ROOT r = f32[3,3] get-tuple-element(w), index=1 }"""


def test_a_loop_calls_the_library_between_its_kernels():
    a = definite("f32", 9, 9) + 3 * np.eye(9, dtype=np.float32)
    text = IN_A_LOOP.replace("[3,3]", "[9,9]")
    executable = refxla.compile(text)
    (loop,) = [s for s in executable.plan.steps if isinstance(s, Repeat)]
    assert any(isinstance(s, LibraryCall) for s in loop.body)
    np.testing.assert_allclose(executable(a), interpreter.run(parse(text), [a]), rtol=1e-5)


def test_the_smallest_matrices_are_a_part_of_the_kernel_of_their_loop():
    """A call would take longer, and a loop with one in it is no kernel."""
    a = definite("f32", 3, 3) + 3 * np.eye(3, dtype=np.float32)
    executable = refxla.compile(IN_A_LOOP)
    assert len(executable.plan.kernels) == 1 and not any(isinstance(s, LibraryCall) for s in executable.plan.steps)
    np.testing.assert_allclose(executable(a), interpreter.run(parse(IN_A_LOOP), [a]), rtol=1e-5)


@pytest.mark.parametrize(
    ("sizes", "calls"), [((8, 8), 0), ((9, 9), 1), ((3, 4, 4), 0), ((3, 5, 5), 1), ((64, 3, 3), 0), ((64, 4, 4), 1)]
)
def test_how_small_matrices_of_a_loop_are_that_kernels_compute(sizes, calls):
    text = IN_A_LOOP.replace("[3,3]", f"[{','.join(map(str, sizes))}]")
    text = text.replace("dimensions={1,0}", f"dimensions={{{'0,2,1' if len(sizes) == 3 else '1,0'}}}")
    module = optimize(parse(text), library_calls=True)
    assert len([i for i in module.instructions() if library_call(i) is not None]) == calls


def test_lu_and_solves_of_a_loop_agree_with_those_of_the_library():
    jax = pytest.importorskip("jax")
    a, b = definite("f32", 6, 6), matrix("f32", 6, 2)

    def solve(a, b):
        return jax.lax.fori_loop(0, 3, lambda _, x: jax.numpy.linalg.solve(a, x), b)

    small = refxla.compile(jax.jit(solve), a, b)
    assert not any(isinstance(s, LibraryCall) for s in small.executable.program.plan.steps)
    np.testing.assert_allclose(small(a, b), jax.jit(solve)(a, b), rtol=1e-3, atol=1e-4)


def test_results_that_nobody_reads_have_no_memory():
    a = definite("f32", 4, 4)
    text = """HloModule m
    ENTRY main { a = f32[4,4] parameter(0)
    e = (f32[4,4], f32[4], s32[]) custom-call(a), custom_call_target="lapack_ssyevd_ffi"
    ROOT w = f32[4] get-tuple-element(e), index=1 }"""
    executable = refxla.compile(text)
    (step,) = executable.plan.steps
    assert step.results[0] is None and step.results[2] is None
    np.testing.assert_allclose(executable(a), np.linalg.eigvalsh(a), rtol=1e-5)


@pytest.mark.parametrize(("n", "batch"), [(3, (13,)), (8, (33,)), (5, ()), (20, (3,))])
@pytest.mark.parametrize("name", TYPES)
def test_each_result_is_the_same_where_nobody_reads_the_others(name, n, batch):
    """Also where a routine reads what it wrote: many small matrices at once made the order of rows of shared pivots."""
    a = matrix(name, *batch, n, n)
    square, rows = shape(name, *batch, n, n), shape("s32", *batch, n)
    known = [("LuDecomposition", [square, rows, rows], [a], ""), ("Qr", [square, shape(name, *batch, n)], [a], "")]
    for target, results, arguments, options in [*cases(name, n, *batch), *known]:
        text = program(target, results, arguments, options)
        whole = refxla.compile(text)(*arguments)
        for k, each in enumerate(results if len(results) > 1 else []):
            alone = text.replace("ROOT r =", "r =").removesuffix("}")
            alone = refxla.compile(f"{alone}\nROOT one = {each} get-tuple-element(r), index={k} }}")(*arguments)
            assert np.array_equal(alone, whole[k]), f"result {k} of {target}"


def test_a_result_that_is_shown_twice_is_written_once():
    a = definite("f32", 4, 4)
    text = """HloModule m
    ENTRY main { a = f32[4,4] parameter(0)
    e = (f32[4,4], f32[4]) custom-call(a), custom_call_target="Eigh"
    w = f32[4] get-tuple-element(e), index=1
    x = f32[4] get-tuple-element(e), index=1
    ROOT r = (f32[4], f32[4]) tuple(w, x) }"""
    for without in ((), ("cse", "copy-insertion")):
        w, x = refxla.compile(text, without=without)(a)
        np.testing.assert_array_equal(w, x)
        np.testing.assert_allclose(w, np.linalg.eigvalsh(a), rtol=1e-5)


CHOLESKY = "HloModule m\nENTRY main { a = f32[4,4] parameter(0)\n ROOT r = f32[4,4] cholesky(a), lower=true }"


def test_the_option_and_the_environment_choose(monkeypatch):
    calls = lambda e: any(isinstance(s, LibraryCall) for s in e.plan.steps)  # noqa: E731
    assert calls(refxla.compile(CHOLESKY))
    assert not calls(refxla.compile(CHOLESKY, linear_algebra="expanded"))
    monkeypatch.setenv("REFXLA_LINEAR_ALGEBRA", "expanded")
    assert not calls(refxla.compile(CHOLESKY))
    assert calls(refxla.compile(CHOLESKY, linear_algebra="library"))
    with pytest.raises(InputError, match="'netlib'.*'library'.*'expanded'"):
        refxla.compile(CHOLESKY, linear_algebra="netlib")


def test_both_give_the_same_but_for_rounding():
    a = definite("f64", 20, 20)
    text = CHOLESKY.replace("f32[4,4]", "f64[20,20]")
    library, expanded = (refxla.compile(text, linear_algebra=x)(a) for x in ("library", "expanded"))
    np.testing.assert_allclose(library, expanded, rtol=1e-12, atol=1e-12)


def test_explain_names_the_routine():
    told = str(refxla.compile(CHOLESKY).explain())
    assert "LAPACK's spotrf" in told and "a matrix" in told
    told = str(refxla.compile(CHOLESKY.replace("[4,4]", "[9,4,4]")).explain())
    assert "spotrf_batched on 9 matrices" in told and "LAPACK" not in told


def test_what_only_the_library_computes_says_so_where_it_is_expanded():
    a = matrix("f32", 3, 3)
    results = ["f32[3]", "f32[3]", "c64[3,3]", "c64[3,3]", "s32[]"]
    with pytest.raises(UnsupportedError, match="lapack_sgeev_ffi.*linear_algebra='library'"):
        refxla.compile(program("lapack_sgeev_ffi", results, [a]), linear_algebra="expanded")


@pytest.mark.parametrize(
    "instruction",
    [
        "ROOT r = f16[4,4] cholesky(f16[4,4] a), lower=true",
        "ROOT r = f32[0,4,4] cholesky(f32[0,4,4] a), lower=true",
    ],
)
def test_types_and_sizes_that_lapack_does_not_have_are_expanded(instruction):
    kind = instruction.split("(")[1].split(" ")[0]
    text = f"HloModule m\nENTRY main {{ a = {kind} parameter(0)\n {instruction.replace(f'({kind} a', '(a')} }}"
    module = optimize(parse(text), library_calls=True)
    assert not any(library_call(i) for i in module.instructions())


def test_a_batch_is_left_between_two_matrices_when_the_user_interrupts():
    n, count = 96, 20_000
    text = f"""HloModule m
    ENTRY main {{ a = f32[{n},{n}] parameter(0)
    b = f32[{count},{n},{n}] broadcast(a), dimensions={{1,2}}
    e = (f32[{count},{n},{n}], f32[{count},{n}]) custom-call(b), custom_call_target="Eigh"
    ROOT w = f32[{count},{n}] get-tuple-element(e), index=1 }}"""
    executable = refxla.compile(text)
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            executable(definite("f32", n, n))
    finally:
        timer.join()


def test_threads_share_an_executable():
    a = definite("f32", 64, 24, 24)
    executable = refxla.compile(CHOLESKY.replace("[4,4]", "[64,24,24]"))
    wanted = executable(a)
    results = []
    threads = [threading.Thread(target=lambda: results.append(executable(a))) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(results) == 4
    for got in results:
        np.testing.assert_array_equal(got, wanted)
