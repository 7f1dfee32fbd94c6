"""Random programs, compiled and run: the interpreter's bits where every operation is exact, else within the bounds.

A few dozen by default; REFXLA_RANDOM_PROGRAMS=5000 runs as many. `refxla-conformance fuzz` is the long form.
"""

import os
from functools import cache

import pytest
from refxla_conformance.fuzz import batch
from refxla_conformance.fuzz.runs import Kernels

COUNT = int(os.environ.get("REFXLA_RANDOM_PROGRAMS", "40"))
TOGETHER = 20  # programs built as one

kernels = cache(Kernels)


@pytest.mark.parametrize("first", range(0, COUNT, TOGETHER))
def test_random_programs(first):
    tally = batch.run(first, min(TOGETHER, COUNT - first), kernels())
    assert not tally.divergences, tally.divergences
    assert tally.compared > 0
