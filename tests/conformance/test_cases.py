"""The generated cases: every operation has some, they are the same at every run, and XLA:CPU agrees on a sample."""

from collections import Counter

import numpy as np
import pytest
from refxla_conformance.case_check import Outcome, check
from refxla_conformance.cases import cases_of, collect, generators
from refxla_conformance.cases.values import all_values, edges, random_bits
from refxla_conformance.targets import make_target
from refxla_spec.elementwise import is_elementwise
from refxla_spec.numerics import type_of
from refxla_spec.operation import operations
from refxla_spec.types import ELEMENT_TYPES
from refxla_spec.verify import verify

CASES = collect()


def test_every_operation_has_cases():
    kinds = {(case.opcode, case.kind) for case in CASES}
    without = [o for o in operations() if is_elementwise(o) and (o, "edge") not in kinds]
    assert not without, "elementwise operations without edge values"
    without = [o for o in operations() if not {(o, "structured"), (o, "edge"), (o, "example")} & kinds]
    assert not without, "operations without any case"


def test_every_type_that_an_elementwise_operation_takes_has_edge_values():
    seen = {(case.opcode, type_of(x)) for case in CASES if case.kind == "edge" for x in case.inputs}
    for opcode in ("add", "convert", "compare", "copy", "bitcast-convert", "clamp", "select"):
        missing = [t for t in ELEMENT_TYPES.values() if t.is_array and (opcode, t) not in seen]
        assert not missing, f"{opcode} of {missing}"
    for opcode in ("exponential", "tan", "atan2", "floor", "reduce-precision"):
        for name in ("f16", "bf16", "f32", "f64"):
            assert (opcode, ELEMENT_TYPES[name]) in seen


def test_names_are_unique_and_say_what_the_case_is_about():
    counts = Counter(case.name for case in CASES)
    assert not [name for name, count in counts.items() if count > 1]
    for case in CASES:
        if case.kind in ("edge", "structured"):
            assert case.name.startswith(f"{case.kind}/{case.opcode}/")
            assert any(i.opcode == case.opcode for i in case.module.instructions()), case.name


def test_the_default_set_is_quick_and_the_thorough_one_larger():
    assert len([c for c in CASES if c.kind in ("edge", "structured")]) < 3800
    assert len(collect(["dot"], ["structured"], thorough=True)) > 4 * len(collect(["dot"], ["structured"]))


def test_the_thorough_set_holds_the_default_names_of_random_cases():
    quick = {c.name for c in collect(["convolution"], ["structured"])}
    assert quick <= {c.name for c in collect(["convolution"], ["structured"], thorough=True)}


def test_cases_are_the_same_at_every_run():
    cases_of.cache_clear()
    again = {case.name: case for case in collect(["sort", "reduce", "exponential", "rng-bit-generator", "while"])}
    assert len(again) > 100
    for case in CASES:
        if case.name in again:
            same = again[case.name]
            assert same.hlo == case.hlo
            for a, b in zip(same.inputs, case.inputs, strict=True):
                assert a.tobytes() == b.tobytes()


def test_every_generator_is_asked():
    found = {g.__module__.rpartition(".cases.")[2] for g in generators()}
    assert {"edges", "structured.dots", "structured.control", "structured.layouts", "examples"} <= found


@pytest.mark.parametrize("opcode", sorted({c.opcode for c in CASES if c.kind == "structured"}))
def test_structured_cases_are_valid(opcode):
    for case in CASES:
        if case.opcode == opcode and case.kind == "structured":
            verify(case.module)


@pytest.mark.parametrize("name", [t.name for t in ELEMENT_TYPES.values() if t.is_float and t.is_array])
def test_edges_of_a_float_hold_its_ends(name):
    t = ELEMENT_TYPES[name]
    finite = all_values(t) if t.bits <= 16 else edges(t)
    finite = finite[np.isfinite(finite)].astype(np.float64)
    for few in (False, True):
        table = edges(t, few)
        assert len(np.unique(table.view(f"u{table.dtype.itemsize}"))) == len(table)
        values = table[np.isfinite(table)].astype(np.float64)
        assert values.max() == finite.max() and values.min() == finite.min()
        assert np.abs(values[values != 0]).min() == np.abs(finite[finite != 0]).min()
        assert {0.5, 1.0, 2.0} <= set(values)
        assert np.isnan(all_values(t) if t.bits <= 16 else table).any() == np.isnan(table).any()


@pytest.mark.parametrize("name", [t.name for t in ELEMENT_TYPES.values() if t.is_integer])
def test_edges_of_an_integer_hold_its_ends(name):
    t = ELEMENT_TYPES[name]
    low = -(1 << (t.bits - 1)) if t.kind == "signed" else 0
    for few in (False, True):
        values = {int(v) for v in edges(t, few)}
        assert {low, low + (1 << t.bits) - 1, 0} <= values
    assert {int(v) for v in random_bits(np.random.default_rng(0), t, 100)} - {
        low,
        low + (1 << t.bits) - 1,
        0,
    } or t.bits < 3


SAMPLE = (
    "edge/add/s8 edge/divide/s32 edge/maximum/f32 edge/convert/f32_to_integer edge/compare/f32 edge/floor/f16 "
    "structured/dot/random_3 structured/convolution/random_4 structured/reduce/argmax_2 structured/gather/form_4 "
    "structured/scatter/add_0 structured/sort/two_keys_1 structured/pad/f32 structured/dynamic-slice/f32 "
    "structured/reduce-window/add_13 structured/select-and-scatter/GE_4 structured/while/nested "
    "structured/fft/2x3x4_f64"
).split()


@pytest.fixture(scope="module")
def xla_cpu():
    pytest.importorskip("refxla_conformance.targets.xla_cpu")
    target = make_target("xla-cpu")
    yield target
    target.close()


@pytest.mark.parametrize("name", SAMPLE)
def test_xla_cpu_agrees_on_a_sample(name, xla_cpu):
    (case,) = collect(names=[name])
    verdict = check(case, xla_cpu)
    assert verdict.outcome in (Outcome.PASS, Outcome.EXCUSED), verdict.reason
