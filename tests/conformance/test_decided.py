"""The contract decides: whoever gives something else than what is asked for fails, and hardly any case says nothing."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from refxla_conformance.case_check import Expectation, Outcome, check, expectation
from refxla_conformance.cases import Case, collect
from refxla_conformance.differences import DIFFERENCES
from refxla_conformance.differences.programs import SIGNS
from refxla_conformance.targets import Target
from refxla_conformance.targets.reference import Reference
from refxla_spec.compare import same_bits
from refxla_spec.errors import UnsupportedError
from refxla_spec.types import ELEMENT_TYPES


def sevens(value: np.ndarray) -> np.ndarray:
    return ~value if value.dtype == bool else np.full(value.shape, 7).astype(value.dtype)


def zeros(value: np.ndarray) -> np.ndarray:
    return np.zeros_like(value)


def doubled(value: np.ndarray) -> np.ndarray:
    return ~value if value.dtype == bool else (value + value).astype(value.dtype)


def half_more(value: np.ndarray) -> np.ndarray:
    return ~value if value.dtype == bool else (value * value.dtype.type(1.5)).astype(value.dtype)


def without_the_last_row(value: np.ndarray) -> np.ndarray:
    changed = np.array(value, ndmin=1)
    changed[-1:] = 0
    return changed.reshape(value.shape)


LIES = (sevens, zeros, doubled, without_the_last_row)


@cache
def asked_for() -> list[tuple[Case, Expectation]]:
    """Every value case of the default set, with what is asked for."""
    return [(case, expectation(case)) for case in collect() if not case.is_negative]


def undecided(wanted: Expectation) -> bool:
    return 2 * wanted.undecided > sum(v.size for v in wanted.values)


def passing(lie, kinds: tuple[str, ...]) -> list[str]:
    """The cases that pass with wrong values."""
    found = []
    for case, wanted in asked_for():
        if undecided(wanted):
            continue  # which is no pass, whatever comes
        with np.errstate(all="ignore"):
            told = [lie(v) for v in wanted.values]
        honest = all(same_bits(t, v).all() for t, v in zip(told, wanted.values, strict=True))
        if case.kind in kinds and not honest and not any(w.any() for w in wanted.wrong(told)):
            found.append(case.name)
    return found


def test_sevens_everywhere_fail_every_case():
    assert passing(sevens, ("example", "edge", "structured")) == []


@pytest.mark.parametrize("lie", LIES)
def test_wrong_values_fail_every_structured_case(lie):
    assert passing(lie, ("structured",)) == []


def test_hardly_a_case_is_undecided():
    found = [case.name for case, wanted in asked_for() if undecided(wanted)]
    assert len(found) < 0.01 * len(asked_for()), found


class Told(Target):
    """What the reference gives, after a change."""

    name = "told"

    def __init__(self, change=lambda value: value) -> None:
        self.change = change

    def run(self, module, arguments):
        return [self.change(v) for v in Reference().run(module, arguments)]


OF_MANY_STEPS = (  # operations of many steps and sums
    "batch-norm-grad batch-norm-inference batch-norm-training cholesky convolution custom-call dot fft ragged-dot "
    "reduce reduce-window scaled-dot scan scatter select-and-scatter sort topk triangular-solve"
).split()


@pytest.mark.parametrize("opcode", OF_MANY_STEPS)
def test_each_rule_passes_what_is_right_and_nothing_else(opcode):
    cases = (case for case in collect([opcode], ["structured"]) if not case.is_negative)
    case = next(case for case in cases if expectation(case).values[0].size > 4)
    assert check(case, Told()).outcome is Outcome.PASS
    for lie in LIES:
        assert check(case, Told(lie)).outcome is Outcome.FAIL, lie


UNKNOWN = """HloModule unknown
mean { a = f32[] parameter(0)
       b = f32[] parameter(1)
       c = f32[] add(a, b)
       h = f32[] constant(0.3)
       ROOT d = f32[] multiply(c, h) }
ENTRY main { x = f32[5] parameter(0)
             z = f32[] constant(0)
             r = f32[] reduce(x, z), dimensions={0}, to_apply=mean
             ROOT t = (f32[], f32[5]) tuple(r, x) }"""


def test_what_the_contract_does_not_decide_is_no_pass():
    """A reducer that is not associative means nothing in particular; beside other elements it is only counted."""
    x = np.arange(5, dtype=np.float32)
    alone = UNKNOWN.replace("             ROOT t = (f32[], f32[5]) tuple(r, x) }", "}").replace("  r =", "  ROOT r =")
    found = check(Case("structured/reduce/unknown", "structured", "reduce", alone, (x,)), Told())
    assert (found.outcome, found.undecided) == (Outcome.UNDECIDED, 1) and "decides 0 of 1 elements" in found.reason
    found = check(Case("structured/reduce/beside", "structured", "reduce", UNKNOWN, (x,)), Told())
    assert (found.outcome, found.undecided) == (Outcome.PASS, 1)


@pytest.mark.parametrize("target", ["xla-cpu", "stablehlo"])
def test_no_excuse_accepts_sevens_everywhere(target):
    """A difference is a relation between two values, so that it does not explain a number picked beforehand."""
    excused = []
    for case, wanted in asked_for():
        if case.devices > 1 or case.infeed is not None:
            continue
        known = [d for d in DIFFERENCES if d.explains is not None and d.touches(case, target)]
        told = [sevens(v) for v in wanted.values]
        left = [w.copy() for w in wanted.wrong(told)]
        if not known or not any(w.any() for w in left):
            continue
        for d in known:
            for n, (t, v) in enumerate(zip(told, wanted.values, strict=True)):
                left[n] &= ~np.broadcast_to(d.explains(case, n, t, v), t.shape)
        if not any(w.any() for w in left):
            excused.append((case.name, [d.name for d in known]))
    assert excused == []


@pytest.mark.parametrize(
    "target, lie, most",
    [
        ("xla-cpu", zeros, 0.1),
        ("xla-cpu", doubled, 0.1),
        ("xla-cpu", half_more, 0.1),
        ("stablehlo", doubled, 0.005),
        ("stablehlo", half_more, 0.005),
    ],
)
def test_steps_in_narrow_types_do_not_excuse_what_is_far_off(target, lie, most):
    (steps,) = (d for d in DIFFERENCES if (d.name, d.target) == ("steps in narrow types", target))
    wrong = excused = 0
    share = 4 if target == "stablehlo" else 1  # of which each step of each term is computed
    for case, wanted in asked_for()[::share]:
        if case.devices > 1 or case.infeed is not None or not steps.touches(case, target):
            continue
        for n, value in enumerate(wanted.values):
            with np.errstate(all="ignore"):
                told = lie(value)
                far = ~same_bits(told, value) & np.isfinite(np.abs(value))
                excused += int((far & steps.explains(case, n, told, value)).sum())
            wrong += int(far.sum())
    assert share * wrong > 10_000 and excused < most * wrong, (excused, wrong)


DOT = "ROOT r = f8e5m2[2] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
CONVOLUTION = """a = f8e5m2[2,9,1] reshape(x)
                 b = f8e5m2[9,1,1] reshape(y)
                 ROOT r = f8e5m2[2,1,1] convolution(a, b), window={size=9}, dim_labels=b0f_0io->b0f"""
SUM = """z = f8e5m2[] constant(0)
         ROOT r = f8e5m2[2] reduce(x, z), dimensions={1}, to_apply=add"""
WINDOWS = """z = f8e5m2[] constant(0)
             ROOT r = f8e5m2[2,1] reduce-window(x, z), window={size=1x9}, to_apply=add"""


@pytest.mark.parametrize(
    "opcode, lines",
    [("dot", DOT), ("convolution", CONVOLUTION), ("reduce", SUM), ("reduce-window", WINDOWS)],
)
def test_steps_of_stablehlo_are_one_number(opcode, lines):
    """1 + 8/16: the first sum is a tie that is rounded to 1, and so are all others."""
    before = "add { a = f8e5m2[] parameter(0)\n b = f8e5m2[] parameter(1)\n ROOT c = f8e5m2[] add(a, b) }"
    hlo = f"HloModule m\n{before}\nENTRY e {{ x = f8e5m2[2,9] parameter(0)\n y = f8e5m2[9] parameter(1)\n{lines} }}"
    t = ELEMENT_TYPES["f8e5m2"].dtype
    x = np.full((2, 9), 1 / 16).astype(t)
    x[:, 0] = 1
    case = Case(f"structured/{opcode}/steps", "structured", opcode, hlo, (x, np.ones(9, t)))
    shape = case.module.entry.root.shape.dimensions
    (wanted,) = expectation(case).values
    assert (wanted.astype(np.float64) == 1.5).all()
    for value, explains in ((1, True), (0.875, False), (1.25, False), (1.75, False), (2.25, False), (0, False)):
        assert (explained(case, "stablehlo", np.full(shape, value).astype(t)) == explains).all(), value


def test_an_initial_value_is_combined_as_often_for_each_element_and_no_oftener_than_there_are_parts():
    text = """HloModule m
    add { a = f32[] parameter(0)
          b = f32[] parameter(1)
          ROOT c = f32[] add(a, b) }
    ENTRY e { x = f32[4,40] parameter(0)
              one = f32[] constant(1)
              ROOT r = f32[4] reduce(x, one), dimensions={1}, to_apply=add }"""
    x = np.arange(160, dtype=np.float32).reshape(4, 40)
    case = Case("structured/reduce/ones", "structured", "reduce", text, (x,))
    wanted = x.sum(1) + 1
    (known,) = (d for d in DIFFERENCES if d.name == "initial values of long reductions")

    def seen(more):
        return known.explains(case, 0, (wanted + more).astype(np.float32), wanted).tolist()

    assert seen(2) == [True] * 4  # two more parts
    assert seen(np.array([2, 2, 2, 1])) == [True, True, True, False]
    assert seen(9) == [False] * 4 and seen(0.5) == [False] * 4


def test_an_excused_crash_names_what_is_said_of_it():
    for d in DIFFERENCES:
        assert d.explains is not None or d.fails or d.without or d.name == SIGNS, d.name
        if d.fails:
            assert d.says and not d.excuses("") and not d.excuses("something else went wrong"), d.name


@cache
def case_of(name: str) -> Case:
    (case,) = collect(kinds=(name.partition("/")[0],), names=(name,))
    return case


def explained(case: Case, target: str, got: np.ndarray) -> np.ndarray:
    """For each element of the result of a case whether some difference explains `got`."""
    (wanted,) = expectation(case).values
    known = [d for d in DIFFERENCES if d.explains is not None and d.touches(case, target)]
    return np.logical_or.reduce([np.broadcast_to(d.explains(case, 0, got, wanted), got.shape) for d in known])


def test_functions_of_small_floats_are_their_formulas_step_by_step():
    case = case_of("edge/acos/f6e2m3fn")
    (wanted,) = expectation(case).values
    x = np.asarray(case.inputs[0]).astype(np.float64)
    got = np.where(x < -1, -3.25, wanted.astype(np.float64)).astype(wanted.dtype)  # atan2(-0, x)
    assert (x < -1).sum() > 10 and explained(case, "stablehlo", got)[x < -1].all()
    for other in (-3.5, 3.25, 1.5, 7.5):
        wrong = np.where(x < -1, other, wanted.astype(np.float64)).astype(wanted.dtype)
        assert not explained(case, "stablehlo", wrong)[x < -1].any(), other


def test_padding_of_a_reduce_window_is_the_initial_value_and_nothing_else():
    case = case_of("structured/reduce-window/shifted_3")  # windows of 2, padding of 3, of 5 and a + b + 1
    (wanted,) = expectation(case).values
    got = wanted.copy()
    got[[0, 1, 103, 104]], got[[2, 102]] = 17, wanted[[2, 102]] + 6
    assert explained(case, "stablehlo", got).all()
    assert not explained(case, "stablehlo", got + 6).any()
    assert not explained(case, "stablehlo", wanted)[[0, 1, 2, 102, 103, 104]].any()


def test_a_sort_that_xla_does_beside_its_array_is_not_asked_for():
    target = pytest.importorskip("refxla_conformance.targets.xla_cpu").XlaCpu()
    case = case_of("structured/sort/s2_to_u4")
    with pytest.raises(UnsupportedError, match="less than 4 bits"):
        target.run(case.module, case.inputs)
