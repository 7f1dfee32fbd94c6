"""Random programs, compiled and run: the interpreter's bits where every operation is exact, else within the bounds.

A few dozen by default; REFXLA_RANDOM_PROGRAMS=5000 runs as many, other ones each time.
"""

import os

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_programs import programs
from refxla_spec.bounds import run_with_bounds
from refxla_spec.compare import bits_equal, compare
from refxla_spec.text import parse

import refxla
from refxla.compiler import flatten, unflatten_all
from refxla.passes.pipeline import OPTIONAL

COUNT = int(os.environ.get("REFXLA_RANDOM_PROGRAMS", "0"))
RANDOM = settings(
    max_examples=COUNT or 12, derandomize=not COUNT, deadline=None, suppress_health_check=list(HealthCheck)
)


def check(text: str, arguments: list[np.ndarray], floats: bool) -> None:
    module = parse(text)
    nested = unflatten_all(arguments, [q.shape for q in module.entry.parameters])
    reference, bounds = (flatten([value]) for value in run_with_bounds(module, nested))
    fused = flatten([refxla.compile(module)(*arguments)])
    plain = flatten([refxla.compile(module, without=OPTIONAL)(*arguments)])
    for n, (a, b, wanted, bound) in enumerate(zip(fused, plain, reference, bounds, strict=True)):
        assert bits_equal(a, b), f"result {n}: {a} fused and optimized, {b} without"
        if floats:
            (comparison,) = compare(a, wanted, bound)
            assert comparison.outside == 0, f"result {n}: {comparison}"
        else:
            assert bits_equal(a, wanted), f"result {n}: {a} is not {wanted}"


@RANDOM
@given(st.data())
def test_exact_programs(data):
    check(*programs(data.draw, floats=False, steps=10, depth=1), floats=False)


@RANDOM
@given(st.data())
def test_programs_with_floats(data):
    check(*programs(data.draw, floats=True, steps=10, depth=1), floats=True)
