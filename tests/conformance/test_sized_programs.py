"""Programs of unusual size: each form is valid, agrees with the reference in every way, and compiles in linear time. A
sample; `refxla-conformance fuzz --sized` is the long form. It looks at the clock, and these tests count calls."""

import sys
from functools import cache

import pytest
from refxla_conformance.fuzz import batch, compile_time
from refxla_conformance.fuzz.compile_time import superlinear
from refxla_conformance.fuzz.kinds import KINDS, SIZED
from refxla_conformance.fuzz.runs import Kernels
from refxla_conformance.fuzz.sizes import FORMS, generate_sized
from refxla_conformance.fuzz.sizes.generate import form_of
from refxla_spec.verify import verify

kernels = cache(Kernels)
CALLS_PER_SECOND = 1e6  # so that `compile_time.LEAST` is as much work as it is time


@pytest.fixture(autouse=True)
def calls_for_time(monkeypatch):
    """The work of a compilation is the number of functions that it calls, which is the same on every machine."""
    monkeypatch.setattr(compile_time, "_seconds", lambda module: calls(module) / CALLS_PER_SECOND)
    monkeypatch.setattr(compile_time, "ATTEMPTS", 1)


def calls(module):
    count = 0

    def look(frame, event, argument):
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        compile_time.plan_module(module, compile_time.DEFAULT_CPU)
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize("first", range(0, len(FORMS), KINDS[SIZED].batch))
def test_programs_of_every_form_agree(first, monkeypatch):
    monkeypatch.setattr(batch, "superlinear", lambda sample: "")  # see below
    tally = batch.run(first, min(KINDS[SIZED].batch, len(FORMS) - first), kernels(), kernel_every=7, kind=SIZED)
    assert not tally.divergences, tally.divergences
    assert tally.elements > tally.undecided


def test_each_number_has_a_program_and_each_form_a_number():
    seeds = range(40 * len(FORMS), 42 * len(FORMS))
    assert {form_of(n).name for n in seeds if n % 2} == {f.name for f in FORMS}
    for seed in seeds:
        a, b = generate_sized(seed, 0.3), generate_sized(seed, 0.3)
        verify(a.module)
        assert str(a.module) == str(b.module)


def largest(name):
    """A program of a form at its largest size, and its number."""
    chosen = next(f for f in FORMS if f.name == name)
    return max((generate_sized(seed) for seed in range(10 * len(FORMS)) if form_of(seed) is chosen),
               key=lambda sample: len(list(sample.module.instructions())))  # fmt: skip


@pytest.mark.parametrize("name", ["state", "updates"])
def test_compile_time_is_linear(name):
    seed = largest(name).seed
    assert not superlinear(generate_sized(seed, 3), lambda seed, scale: generate_sized(seed, 3 * scale))


def test_a_time_that_is_not_linear_is_found(monkeypatch):
    counted = lambda module: len(list(module.instructions())) ** 2 / 1e4  # noqa: E731
    monkeypatch.setattr(compile_time, "_seconds", counted)
    assert "instructions compile in" in superlinear(generate_sized(5))
