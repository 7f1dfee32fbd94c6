"""Whole-program bounds: programs that keep the contract stay inside, and what breaks it is found."""

import ml_dtypes
import numpy as np
import pytest
from refxla_spec.bounds import run_with_bounds
from refxla_spec.compare import bits_equal, compare, ulp, ulp_distance
from refxla_spec.errors import InputError
from refxla_spec.interpreter import run
from refxla_spec.sampling import sample
from refxla_spec.text import parse
from refxla_spec.types import ELEMENT_TYPES
from refxla_spec.verdicts import Verdict, verdicts


def bounds_of(hlo, *inputs):
    value, bound = run_with_bounds(parse(hlo), [np.asarray(i) for i in inputs])
    return value, bound


def f32(*values):
    return np.array(values, np.float32)


def entry(*lines):
    return "HloModule m\n\nENTRY e {\n  " + "\n  ".join(lines) + "\n}\n"


def test_exact_operations_ask_for_the_same_bits():
    hlo = entry("x = f32[3] parameter(0)", "y = f32[3] multiply(x, x)", "ROOT z = f32[3] add(y, x)")
    value, bound = bounds_of(hlo, f32(0.1, 1e30, -0.0))
    assert not bound.any()
    wrong = value.copy()
    wrong[0] = np.nextafter(wrong[0], np.float32(1))
    (found,) = compare(wrong, value, bound)
    assert found.outside == 1 and found.at == (0,) and found.max_ulp == 1


def test_a_marker_of_a_tuple_passes_its_errors_on():
    pair = "(f32[2], f32[2])"
    value, bound = bounds_of(
        entry(
            "x = f32[2] parameter(0)",
            "e = f32[2] exponential(x)",
            f"t = {pair} tuple(x, e)",
            f'h = {pair} custom-call(t), custom_call_target="MoveToHost"',
            f'ROOT d = {pair} custom-call(h), custom_call_target="MoveToDevice"',
        ),
        f32(0.5, 2),
    )
    assert not bound[0].any() and (bound[1] > 0).all() and np.isfinite(bound[1]).all()
    assert [b.shape for b in bound] == [v.shape for v in value]


def test_an_elementary_function_has_its_ulps():
    value, bound = bounds_of(entry("x = f32[2] parameter(0)", "ROOT y = f32[2] exponential(x)"), f32(1, -200))
    assert bound[0] == pytest.approx(1.5 * np.spacing(value[0]), rel=1e-9)
    assert bound[1] <= 2 * np.finfo(np.float32).smallest_subnormal


def test_errors_grow_as_the_derivative():
    hlo = entry("x = f32[1] parameter(0)", "y = f32[1] exponential(x)", "ROOT z = f32[1] multiply(y, y)")
    value, bound = bounds_of(hlo, f32(3))
    single = 1.5 * np.spacing(np.exp(np.float32(3)))
    assert 2 * np.exp(3) * single <= bound[0] <= 2.1 * np.exp(3) * single + 2 * np.spacing(value[0])


def test_a_sum_is_bounded_by_its_terms():
    hlo = """HloModule m
    add { a = f32[] parameter(0)
          b = f32[] parameter(1)
          ROOT c = f32[] add(a, b) }
    ENTRY e { x = f32[1000] parameter(0)
              zero = f32[] constant(0)
              ROOT s = f32[] reduce(x, zero), dimensions={0}, to_apply=add }"""
    x = np.random.default_rng(0).normal(size=1000).astype(np.float32)
    value, bound = bounds_of(hlo, x)
    assert bound == pytest.approx(1001 * 2.0**-24 * np.abs(x.astype(np.float64)).sum(), rel=1e-6)
    in_order = np.float32(0)
    for v in x:
        in_order = np.float32(in_order + v)
    assert 0 < abs(float(in_order) - float(value)) <= bound


def test_integers_are_rounded_to_the_type_that_a_product_is_computed_in():
    """The least integer among them, whose size is no number of its type."""
    hlo = entry(
        "x = s32[2] parameter(0)",
        "y = s32[2] parameter(1)",
        "ROOT z = f32[] dot(x, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
    )
    x, y = np.array([-(2**31), 2**31 - 1], np.int32), np.array([2**30 - 1, 2**30 + 5], np.int32)
    value, bound = bounds_of(hlo, x, y)
    in_f32 = np.float32(x[0]) * np.float32(y[0]) + np.float32(x[1]) * np.float32(y[1])
    assert 0 < abs(float(in_f32) - float(value)) <= bound < 1e13


@pytest.mark.parametrize("kind", ["scatter", "reduce-window", "reduce", "ragged-dot"])
def test_a_sum_of_which_a_part_may_overflow_is_undecided(kind):
    """-max - max + inf is inf, or NaN; and an infinity beside small numbers is one, whatever the order."""
    add = "add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }\n"
    lines = {
        "scatter": (
            "i = s32[3,1] constant({{0},{0},{0}})",
            "ROOT r = f32[1] scatter(f32[1] constant({0}), i, x), update_window_dims={}, inserted_window_dims={0}, "
            "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add",
        ),
        "reduce-window": ("ROOT r = f32[1] reduce-window(x, f32[] constant(0)), window={size=3}, to_apply=add",),
        "reduce": ("ROOT r = f32[] reduce(x, f32[] constant(0)), dimensions={0}, to_apply=add",),
        "ragged-dot": (
            "a = f32[1,3] reshape(x)",
            "ROOT r = f32[1,1] ragged-dot(a, f32[1,3,1] constant({{{1},{1},{1}}}), s32[1] constant({1})), "
            "lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0}",
        ),
    }[kind]
    hlo = entry("x = f32[3] parameter(0)", *lines).replace("ENTRY", add + "ENTRY")
    most = np.finfo(np.float32).max
    assert np.isinf(bounds_of(hlo, f32(-most, -most, np.inf))[1]).all()
    assert (bounds_of(hlo, f32(-1, -most / 2, np.inf))[1] == 0).all()
    report = verdicts(
        parse(hlo), [f32(-most, -most, np.inf)], [np.full(parse(hlo).entry.root.shape.dimensions, np.nan, "f")]
    )
    assert report.results[0].codes == Verdict.UNDECIDED


def test_a_product_too_small_for_the_type_computed_in_is_a_zero_of_either_sign():
    hlo = entry(
        "x = bf16[1] parameter(0)",
        "y = bf16[1] parameter(1)",
        "ROOT z = bf16[] dot(x, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
    )
    for x, exact in ((-1e-30, False), (-1, True), (-0.0, True)):
        value, bound = bounds_of(hlo, *(np.array([v]).astype(ml_dtypes.bfloat16) for v in (x, 1e-20)))
        assert (bound == 0) == exact
    assert value == 0
    for x, exact in ((-1e-300, False), (-0.0, True)):
        value, bound = bounds_of(hlo.replace("bf16", "f64"), np.array([x]), np.array([1e-100]))
        assert value == 0 and (bound == 0) == exact


@pytest.mark.parametrize("opcode", ["add", "multiply"])
@pytest.mark.parametrize("name", ["f32", "c64"])
def test_a_cumulative_sum_or_product_is_bounded_by_its_terms(opcode, name):
    hlo = f"""HloModule m
    combine {{ a = {name}[] parameter(0)
          b = {name}[] parameter(1)
          ROOT c = {name}[] {opcode}(a, b) }}
    ENTRY e {{ x = {name}[20] parameter(0)
              init = {name}[] constant({"(1, 0)" if name == "c64" else 1})
              ROOT s = {name}[20] reduce-window(x, init), window={{size=20 pad=19_0}}, to_apply=combine }}"""
    rng = np.random.default_rng(0)
    x = rng.normal(size=20) + (1j * rng.normal(size=20) if name == "c64" else 0)
    x = x.astype({"f32": np.float32, "c64": np.complex64}[name])
    value, bound = bounds_of(hlo, x)
    in_order = (np.add if opcode == "add" else np.multiply).accumulate(np.append(x.dtype.type(1), x), dtype=x.dtype)
    distances = np.abs(in_order[1:].astype(np.complex128) - value)
    assert distances.any() and (distances <= bound).all()
    assert (bound <= 200 * 2.0**-24 * np.maximum.accumulate(np.cumsum(np.abs(x)) + np.abs(value) + 1)).all()


@pytest.mark.parametrize("kind", ["FFT", "IFFT", "RFFT", "IRFFT"])
def test_a_transform_is_bounded_by_its_terms(kind):
    size = 33 if kind == "IRFFT" else 64
    operand, result = {"RFFT": ("f32[64]", "c64[33]"), "IRFFT": ("c64[33]", "f32[64]")}.get(kind, ("c64[64]",) * 2)
    rng = np.random.default_rng(0)
    x = rng.normal(size=size) + (1j * rng.normal(size=size) if operand[0] == "c" else 0)
    x = x.astype(np.complex64 if operand[0] == "c" else np.float32)
    hlo = entry(f"x = {operand} parameter(0)", f"ROOT r = {result} fft(x), fft_type={kind}, fft_length={{64}}")
    value, bound = bounds_of(hlo, x)
    k, j = np.ogrid[:64, :64]
    matrix = np.exp((2j if kind[0] == "I" else -2j) * np.pi * k * j / 64).astype(np.complex64)
    whole = np.concatenate([x, x[-2:0:-1].conj()]) if kind == "IRFFT" else x.astype(np.complex64)
    direct = (matrix * whole).sum(-1, dtype=np.complex64) / (64 if kind[0] == "I" else 1)
    direct = direct.real if kind == "IRFFT" else direct[: len(value)]
    distances = np.abs(direct - value)
    assert distances.any() and (distances <= bound).all()
    assert (bound <= 1e-3 * np.abs(whole).sum()).all()


def test_complex_numbers_that_are_scattered_round():
    hlo = """HloModule m
    combine { a = c64[] parameter(0)
          b = c64[] parameter(1)
          ROOT c = c64[] add(a, b) }
    ENTRY e { x = c64[2] parameter(0)
              n = s32[3,1] constant({{0},{0},{0}})
              u = c64[3] parameter(1)
              ROOT s = c64[2] scatter(x, n, u), update_window_dims={}, inserted_window_dims={0},
                  scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=combine }"""
    _, bound = bounds_of(hlo, np.array([1, 2], np.complex64), np.array([0.1, 0.2j, 0.3], np.complex64))
    assert 2.0**-23 < bound[0] < 2.0**-20 and bound[1] == 0


@pytest.mark.parametrize("name, largest", [("bf16", 3.38e38), ("f32", 3.4e38), ("f64", 1.79e308)])
def test_a_batch_norm_of_which_a_step_may_overflow_is_undecided(name, largest):
    """scale * (x - mean) is infinite, scale / deviation is not; beside an infinite offset it may be NaN."""
    dtype = ELEMENT_TYPES[name].dtype
    hlo = entry(
        *(f"p{n} = {name}[{'3' if n else '1,3'}] parameter({n})" for n in range(5)),
        f"ROOT r = {name}[1,3] batch-norm-inference(p0, p1, p2, p3, p4), feature_index=1, epsilon=0.125",
    )
    scale, offset = np.array([largest, largest, 1]), np.array([largest, np.inf, np.inf])
    rows = (np.zeros((1, 3)), scale, offset, np.array([2, 2, 2]), np.full(3, largest))
    _, (bound,) = bounds_of(hlo, *(r.astype(dtype) for r in rows))
    assert bound.tolist() == [np.inf, np.inf, 0]


@pytest.mark.parametrize("special", [np.nan, np.inf])
def test_a_kernel_that_is_not_finite_is_undecided_where_it_meets_padding(special):
    hlo = entry(
        "x = f32[1,4,1] parameter(0)",
        "w = f32[2,1,2] parameter(1)",
        "ROOT r = f32[1,4,2] convolution(x, w), window={size=2 pad=1_0}, dim_labels=b0f_0io->b0f",
    )
    x, w = np.ones((1, 4, 1), np.float32), np.ones((2, 1, 2), np.float32)
    w[0, 0, 1] = special
    _, bound = bounds_of(hlo, x, w)
    undecided = np.zeros((1, 4, 2), bool)
    undecided[0, 0, 1] = True  # of the second feature the placing whose first element lies in the padding
    np.testing.assert_array_equal(np.isinf(bound), undecided)


def test_what_is_sorted_by_keys_in_doubt_may_change_places():
    """0 and -0, too, which are no distance apart, NaN and a number, and complex numbers of one size."""
    hlo = """before {
      a = f32[] parameter(0)
      b = f32[] parameter(1)
      c = %s[] parameter(2)
      d = %s[] parameter(3)
      ROOT r = pred[] compare(a, b), direction=LT
    }
    ENTRY e {
      x = f32[3] parameter(0)
      y = %s[3] parameter(1)
      k = f32[3] exponential(x)
      ROOT r = (f32[3], %s[3]) sort(k, y), dimensions={0}, to_apply=before
    }"""
    for name, values in (("f32", [0.0, -0.0, 0.0]), ("f32", [0.0, np.nan, 0.0]), ("c64", [1, 1j, -1])):
        y = np.array(values).astype(ELEMENT_TYPES[name].dtype)
        _, (_, bound) = bounds_of(hlo.replace("%s", name), f32(1, 1, 9), y)
        assert (bound[:2] > 0).all() and not (bound[2] > 0), name
        assert not np.isnan(y).any() or (bound[:2] == np.inf).all()


def test_a_near_tie_is_undecided_and_select_may_give_either():
    hlo = entry(
        "x = f32[3] parameter(0)",
        "y = f32[3] parameter(1)",
        "a = f32[3] exponential(x)",
        "p = pred[3] compare(a, y), direction=GT",
        "s = f32[3] select(p, x, y)",
        "ROOT t = (pred[3], f32[3]) tuple(p, s)",
    )
    e = np.exp(np.float32(1))
    _, (choice, selected) = bounds_of(hlo, f32(1, 1, np.nan), f32(e, 2 * e, 1))
    assert choice.tolist() == [np.inf, 0, 0]
    assert selected[0] == pytest.approx(e - 1, rel=1e-6) and not selected[1:].any()


def test_singularities_are_undecided():
    lines = ["x = f32[2] parameter(0)", "one = f32[2] parameter(1)", "s = f32[2] sine(x)", "c = f32[2] cosine(x)"]
    lines += ["d = f32[2] subtract(s, c)", "ROOT q = f32[2] divide(one, d)"]
    _, bound = bounds_of(entry(*lines), f32(np.pi / 4, 1), f32(1, 1))
    assert np.isinf(bound[0]) and np.isfinite(bound[1])


def test_max_of_an_infinity_and_masked_softmax_are_decided():
    hlo = """HloModule m
    max { a = f32[] parameter(0)
          b = f32[] parameter(1)
          ROOT c = f32[] maximum(a, b) }
    add { a = f32[] parameter(0)
          b = f32[] parameter(1)
          ROOT c = f32[] add(a, b) }
    ENTRY e { x = f32[4] parameter(0)
              t = f32[4] tanh(x)
              m = pred[4] parameter(1)
              low = f32[] constant(-inf)
              lows = f32[4] broadcast(low), dimensions={}
              masked = f32[4] select(m, t, lows)
              top = f32[] reduce(masked, low), dimensions={0}, to_apply=max
              tops = f32[4] broadcast(top), dimensions={}
              d = f32[4] subtract(masked, tops)
              p = f32[4] exponential(d)
              zero = f32[] constant(0)
              s = f32[] reduce(p, zero), dimensions={0}, to_apply=add
              ss = f32[4] broadcast(s), dimensions={}
              ROOT q = f32[4] divide(p, ss) }"""
    value, bound = bounds_of(hlo, f32(1, 2, 3, 4), np.array([True, True, False, True]))
    assert bound[2] == 0 and value[2] == 0
    assert np.all(bound < 3e-6)


def test_a_loop_whose_length_is_in_doubt_is_undecided():
    hlo = """HloModule m
    c { s = (f32[], f32[]) parameter(0)
        x = f32[] get-tuple-element(s), index=0
        y = f32[] get-tuple-element(s), index=1
        ROOT p = pred[] compare(x, y), direction=LT }
    b { s = (f32[], f32[]) parameter(0)
        x = f32[] get-tuple-element(s), index=0
        y = f32[] get-tuple-element(s), index=1
        e = f32[] exponential(x)
        ROOT t = (f32[], f32[]) tuple(e, y) }
    ENTRY e { x = f32[] parameter(0)
              y = f32[] parameter(1)
              s = (f32[], f32[]) tuple(x, y)
              ROOT w = (f32[], f32[]) while(s), condition=c, body=b }"""
    (value, _), (bound, _) = bounds_of(hlo, np.float32(0), np.float32(2))
    assert value == np.float32(np.e) and 0 < bound < 2e-6
    _, (bound, _) = bounds_of(hlo, np.float32(0), np.float32(np.e))
    assert np.isinf(bound)


def test_batch_norm_is_decided():
    hlo = entry(
        "x = f32[16,3] parameter(0)",
        "s = f32[3] parameter(1)",
        "o = f32[3] parameter(2)",
        "ROOT y = (f32[16,3], f32[3], f32[3]) batch-norm-training(x, s, o), epsilon=0.001, feature_index=1",
    )
    inputs = [np.random.default_rng(0).normal(size=(16, 3)).astype(np.float32), f32(1, 2, 3), f32(0, 0, 1)]
    _, bound = bounds_of(hlo, *inputs)
    assert all(0 < b.max() < 1e-3 for b in bound)


def pytest_generate_tests(metafunc):
    if "program" in metafunc.fixturenames:
        try:
            from programs import PROGRAMS
        except ImportError:
            PROGRAMS = []
        metafunc.parametrize("program", PROGRAMS, ids=str)


def opened(value):
    return [leaf for v in value for leaf in opened(v)] if isinstance(value, tuple) else [value]


def test_programs_that_keep_the_contract_stay_inside(program):
    module, inputs = parse(program.hlo()), program.inputs()
    value, bound = run_with_bounds(module, inputs)
    assert bits_equal(value, run(module, inputs))
    assert all(b.shape == v.shape and not np.isnan(b).any() for v, b in zip(opened(value), opened(bound), strict=True))
    for seed in range(3):
        for c in compare(sample(module, inputs, seed), value, bound):
            assert not c.outside, c


@pytest.mark.parametrize("name", ["f32", "f64", "f16", "bf16", "f8e5m2", "f8e4m3fn"])
def test_ulps(name):
    t = ELEMENT_TYPES[name].dtype
    x = np.array([1, -1, 1.5, 0, -0.0, 100], np.float64).astype(t)
    word = np.dtype(f"u{t.itemsize}")
    beyond = (x.view(word) + word.type(1)).view(t)
    assert ulp_distance(x, beyond).tolist() == [1] * 6
    assert ulp_distance(x, x).tolist() == [0] * 6
    assert ulp_distance(-x, x)[3] == 0
    steps = np.abs(beyond.astype(np.float64) - x.astype(np.float64))
    assert np.array_equal(ulp(x), steps)
    assert ulp_distance(np.array([np.nan, 1]).astype(t), np.array([np.nan, np.nan]).astype(t)).tolist() == [0, np.inf]


def test_results_of_another_type_are_refused():
    with pytest.raises(InputError, match=r"f32\[2\]"):
        compare(np.zeros(3, np.float32), np.zeros(2, np.float32), np.zeros(2))


COMPUTATIONS = """
less { a = s32[] parameter(0)
       b = s32[] parameter(1)
       c = f32[] parameter(2)
       d = f32[] parameter(3)
       ROOT r = pred[] compare(a, b), direction=LT }
first { a = s32[] parameter(0)
        b = f32[] parameter(1)
        c = s32[] parameter(2)
        d = f32[] parameter(3)
        ROOT r = (s32[], f32[]) tuple(a, b) }
one { a = s32[] parameter(0)
      b = f32[] parameter(1)
      ROOT r = f32[] negate(b) }
"""
MEETING = (
    "f32[3,<=8] map(n, e), dimensions={0,1}, to_apply=one",
    "(s32[3,<=8], f32[3,<=8]) sort(n, e), dimensions={0}, to_apply=less",
    "(s32[<=8], f32[<=8]) reduce(n, e, k, z), dimensions={0}, to_apply=first",
    "(s32[3,<=8], f32[3,<=8]) reduce-window(n, e, k, z), window={size=2x1 pad=1_0x0_0}, to_apply=first",
    "f32[3,<=8] multiply(y, e)",
)


@pytest.mark.parametrize("line", MEETING)
def test_of_operands_of_unequal_dynamic_sizes_the_smallest_counts(line):
    hlo = f"""HloModule m
      {COMPUTATIONS}
      ENTRY e {{ x = f32[3,<=8] parameter(0)
                 n = s32[3,8] parameter(1)
                 y = f32[3,8] parameter(2)
                 z = f32[] constant(0)
                 k = s32[] constant(0)
                 e = f32[3,<=8] exponential(x)
                 ROOT r = {line} }}"""
    x, n, y = (np.ones((3, size), t) for t, size in ((np.float32, 5), (np.int32, 8), (np.float32, 8)))
    value, bound = bounds_of(hlo, x, n, y)
    for v, b in zip(*(part if isinstance(part, tuple) else (part,) for part in (value, bound)), strict=True):
        assert v.shape == b.shape and v.shape[-1] == 5
