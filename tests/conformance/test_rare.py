"""What shows on rare operands alone is met by the default cases of each operation by themselves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from refxla_conformance.case_check import Outcome, asked, check, expectation
from refxla_conformance.cases import Case, collect
from refxla_conformance.cases.structured.calls import CALLS
from refxla_conformance.cases.values import ties
from refxla_conformance.liars import rare, sums
from refxla_conformance.liars.liar import Lie, redefined
from refxla_conformance.targets.reference import Reference
from refxla_spec.accuracy import max_ulp
from refxla_spec.bounds import run_with_bounds
from refxla_spec.numerics import round_to
from refxla_spec.operation import operations
from refxla_spec.text import parse
from refxla_spec.types import ELEMENT_TYPES

# Whose number of dimensions is not bounded: with structured cases of their own.
OF_ANY_RANK = (
    "add", "batch-norm-grad", "batch-norm-inference", "batch-norm-training", "bitcast", "bitcast-convert", "broadcast",
    "cholesky", "clamp", "compare", "concatenate", "convert", "convolution", "copy", "dot", "dynamic-slice",
    "dynamic-update-slice", "exponential", "fft", "gather", "iota", "map", "pad", "reduce", "reduce-window", "reshape",
    "reverse", "scan", "scatter", "select", "select-and-scatter", "slice", "sort", "topk", "transpose",
    "triangular-solve",
)  # fmt: skip
IN_BATCHES = (
    "batch-norm-grad", "batch-norm-inference", "batch-norm-training", "cholesky", "convolution", "dot", "fft", "gather",
    "reduce", "reduce-window", "scatter", "select-and-scatter", "sort", "topk", "triangular-solve",
)  # fmt: skip


@cache
def cases_of(opcode: str) -> list[Case]:
    """The default value cases of an operation that run on one device, the smallest ones first."""
    found = [c for c in _all() if c.opcode == opcode and c.devices == 1 and c.infeed is None and not c.before]
    return sorted(found, key=lambda c: sum(np.size(v) for v in c.inputs if isinstance(v, np.ndarray)))


@cache
def _all() -> list[Case]:
    return [c for c in collect() if not c.is_negative]


def caught(opcode: str, lie: Lie, cases: list[Case] | None = None) -> Iterator[str]:
    """The cases that fail with the lie about that operation alone."""
    for case in cases_of(opcode) if cases is None else cases:
        with redefined((opcode,), lie):
            try:
                got = asked(Reference(), case)
            except Exception:  # a lie that raises shows nothing
                continue
        if any(w.any() for w in expectation(case).wrong(got)):
            yield case.name


@pytest.mark.parametrize("opcode", rare.STRUCTURED)
def test_each_structured_operation_meets_nan(opcode):
    assert next(caught(opcode, rare.nan_read_as_zero), None)


@pytest.mark.parametrize("opcode", [o for o in rare.STRUCTURED if o != "fft"])  # of which the algorithm decides
def test_each_structured_operation_meets_infinities(opcode):
    assert next(caught(opcode, rare.infinity_read_as_zero), None)


@pytest.mark.parametrize("opcode", ["dot", "convolution"])
def test_products_meet_zero_times_infinity(opcode):
    assert next(caught(opcode, rare.zeros_skipped), None)


def test_each_side_of_a_product_meets_nan():
    """A lie about one operand alone."""

    def of(n):
        def lie(truth, i, *operands):
            return truth(
                i, *(np.nan_to_num(x) if k == n and x.dtype.kind == "f" else x for k, x in enumerate(operands))
            )

        return lie

    for opcode in ("dot", "convolution", "scatter"):
        for n in (0, 2 if opcode == "scatter" else 1):
            assert next(caught(opcode, of(n)), None), (opcode, n)


@pytest.mark.parametrize("opcode", OF_ANY_RANK)
def test_each_operation_meets_seven_dimensions(opcode):
    ranks = {
        shape.rank
        for case in cases_of(opcode)
        for i in case.module.instructions()
        if i.opcode == opcode
        for shape in (*(i.shape.elements or (i.shape,)), *(o.shape for o in i.operands))
        if shape.is_array
    }
    assert max(ranks) >= 7


@pytest.mark.parametrize("opcode", IN_BATCHES)
def test_each_operation_in_batches_meets_the_ninth(opcode):
    def lie(truth, i, *operands):
        return rare._modulo(truth(i, *operands), 8)

    named = [c for c in cases_of(opcode) if any(w in c.name for w in ("batches_9", "features_9", "rows_9"))]
    assert named and next(caught(opcode, lie, named), None)


@pytest.mark.parametrize(
    "opcode", [o for o, rule in operations().items() if rule.arity == 1 and max_ulp(o, "f32") and o not in ("atanh",)]
)
def test_each_function_meets_every_stretch(opcode):
    """Off by 17 units between 5 and 6 (between 0.5 and 0.6 where that is not in the domain) in f32."""
    low = 0.5 if opcode in ("acos", "asin") else 5.0

    def lie(truth, i, x):
        value = truth(i, x)
        if value.dtype != np.float32:
            return value
        inside = (np.abs(x) > low) & (np.abs(x) < 1.2 * low)
        return np.where(inside, value + 17 * np.spacing(np.abs(value)), value).astype(value.dtype)

    assert next(caught(opcode, lie, [c for c in cases_of(opcode) if c.name.endswith("/f32")]), None)


@pytest.mark.parametrize("t", ["f32", "f64"])
def test_a_variance_of_one_pass_is_met(t):
    """In features far from zero, of each size."""
    cases = [c for c in cases_of("batch-norm-training") if f"/far_{t}_" in c.name]
    found = list(caught("batch-norm-training", sums.variance_in_one_pass, cases))
    assert len(cases) == 3 and found == [c.name for c in cases]


def test_a_narrow_sum_beside_another_reduction_is_met():
    """In each type, and beside each operation."""
    cases = [c for c in cases_of("reduce") if "/independent_" in c.name]
    found = list(caught("reduce", sums.narrow_accumulation_of_several, cases))
    labels = ("bf16", "f16", "f8e5m2", "f8e4m3fn", "add_add", "add_maximum", "add_multiply", "minimum_add", "squares")
    assert all(any(label in name for name in found) for label in labels)


LIES = {
    "constant": (
        rare.constants_of_six_digits,
        rare.constants_through_f32,
        rare.constants_through_f64,
        rare.large_constants_splat,
        rare.nearly_splat,
    ),
    "convert": (rare.integers_by_way_of_f64, rare.integers_by_way_of_f32, rare.eight_bits_by_way_of_sixteen),
    "power": (rare.sign_of_large_odd_powers,),
    "iota": (rare.iota_counts_in_f32,),
    "reduce": (rare.last_of_an_odd_sum,),
    "dot": (rare.batches_of_eight,),
    "tanh": (rare.wrong_stretch,),
}


@pytest.mark.parametrize("opcode, lie", [(o, lie) for o, lies in LIES.items() for lie in lies])
def test_default_cases_of_the_operation_catch(opcode, lie):
    assert next(caught(opcode, lie), None)


@pytest.mark.parametrize("source", ["s32", "u64", "s64", "f64", "f32"])
@pytest.mark.parametrize("target", ["f32", "bf16", "f16", "f8e5m2", "f8e4m3fn"])
def test_ties_tell_two_roundings_from_one(source, target):
    """Each is a number of the source, and rounding twice changes some of them."""
    s, t = ELEMENT_TYPES[source], ELEMENT_TYPES[target]
    numbers = ties(s, t)
    if source == target:
        assert not numbers.size
        return
    assert numbers.dtype == s.dtype and len(np.unique(numbers)) > 10
    between = "f32" if s.bits == 32 or target != "f32" else "f64"
    if between == source or (target, between) == ("f32", "f32"):
        between = "bf16"
    if target in ("f16", "bf16") and between == "bf16":
        return  # nothing lies between f32 and 16 bits
    wide = numbers.astype(np.longdouble)
    exact = numbers.astype(t.dtype) if not s.is_integer else None
    twice = round_to(numbers.astype(ELEMENT_TYPES[between].dtype).astype(np.float64), t)
    if exact is not None:
        assert (twice != round_to(wide.astype(np.float64), t)).any()


def test_a_complex_sum_with_nan_is_decided():
    x = np.ones((2, 8), np.complex64)
    x[0, 3] = np.nan
    module = parse("x = c64[2,8] parameter(0)\nROOT y = c64[2,8] fft(x), fft_type=FFT, fft_length={8}")
    value, bound = run_with_bounds(module, (x,))
    assert np.isnan(value[0]).all() and np.isfinite(bound).all()
    assert (bound[0] < 1e-300).all()
    x[0, 4] = np.inf
    assert np.isinf(run_with_bounds(module, (x,))[1][0]).all()  # which part is NaN, nobody says


def test_an_infinite_sum_of_f64_is_decided():
    module = parse("""HloModule m
    add { a = f64[] parameter(0)
          b = f64[] parameter(1)
          ROOT c = f64[] add(a, b) }
    ENTRY e { x = f64[2,8] parameter(0)
              z = f64[] constant(0)
              ROOT r = f64[2] reduce(x, z), dimensions={1}, to_apply=add }""")
    x = np.ones((2, 8))
    x[0, 3] = np.inf
    value, bound = run_with_bounds(module, (x,))
    assert value[0] == np.inf and bound[0] == 0
    x[0, :3] = 1e308, 1e308, -1e308
    assert np.isinf(run_with_bounds(module, (x,))[1][0])  # some orders overflow to the other side


@pytest.mark.parametrize("known_by", [rare.KnownByFirst, rare.KnownBySum])
def test_a_result_is_not_that_of_other_arguments(known_by):
    again = [c for c in _all() if len(c.before) > CALLS]  # which have changes in part, too
    assert len(again) > 5
    for case in again:
        if case.opcode not in ("rng", "conditional"):  # which look at a scalar, or at one of several arrays
            assert check(case, known_by()).outcome is Outcome.FAIL, case.name
        assert check(replace(case, before=()), known_by()).outcome is Outcome.PASS
