"""Random programs of NumPy functions give what NumPy gives: tests/numpy_oracle.py, which tries more of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import Phase, given
from hypothesis import strategies as st
from numpy_oracle import difference, examine, reduced
from numpy_programs import Parameter, Program, program
from search import examples

from refxla.frontends.numpy import dispatch

_WITHOUT_SHRINKING = (Phase.explicit, Phase.reuse, Phase.generate)  # another number is no smaller program


def require_agreement(seed: int, device: str | None) -> None:
    finding = examine(program(seed), device)
    if finding is not None and finding.kind != "refusal":
        pytest.fail(f"program {seed}: {reduced(finding, device).text}")


@examples(200, phases=_WITHOUT_SHRINKING)
@given(st.integers(0, 2**32 - 1))
def test_random_programs_give_what_numpy_gives(seed):
    require_agreement(seed, "reference")


@examples(4, phases=_WITHOUT_SHRINKING)
@given(st.integers(0, 2**32 - 1))
def test_random_programs_compiled_give_what_numpy_gives(seed):
    require_agreement(seed, None)


def running_sums(type_="f8"):
    x = np.arange(6).reshape(2, 3).astype(type_)
    return Program(0, [Parameter("a", lambda random: x, x)], ["n0 = a + 1", "n1 = np.cumsum(n0, axis=0)"], ["n0", "n1"])


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (lambda a, **_: a, "value"),
        (lambda a, **_: a.astype("f4"), "type"),
        (lambda a, **_: a[0], "type"),
        (lambda a, **_: {}["a"], "error"),
    ],
)
def test_faults_are_found_and_reduced(monkeypatch, fault, kind):
    assert examine(running_sums(), "reference") is None
    monkeypatch.setitem(dispatch.FUNCTIONS, np.cumsum, fault)
    finding = reduced(examine(running_sums(), "reference"), "reference")
    assert finding.kind == kind
    assert finding.program.results == ["n1"]


def test_what_differs_by_more_than_rounding_differs():
    x = np.array([1.0, 2.0, np.nan, np.inf])
    assert difference(x + 1e-16, x) is None
    for other in (x + 1e-9, x.astype("f4"), x[:3], x[None], -x, np.where(np.isnan(x), 0, x), 1.0, None):
        assert difference(other, x) is not None
    assert difference(np.array([1, 2]), np.array([1, 3])) is not None
