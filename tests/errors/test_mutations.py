"""Verified implies no crash: random changes of real programs, through parser, verifier, printer, passes, planner and
code generation. Only an error of refxla's own family may come out, and what is verified prints, reads and plans.

A sample of `refxla-conformance fuzz --invalid`, with larger programs among those that are changed.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest
from command_line import EXAMPLES
from refxla_conformance.fuzz.invalid import altered, examples, in_protos, outcome, scrambled, spoiled

PROGRAMS = [
    *examples(),
    *((EXAMPLES / name).read_text() for name in ("mlp/step.hlo", "heat/heat.hlo", "kmeans/kmeans.hlo")),
]


@pytest.mark.parametrize("change, count, planned", [(scrambled, 400, 20), (altered, 500, 150), (spoiled, 400, 3)])
def test_only_errors_of_the_family_come_out(change, count, planned):
    protos = in_protos() if change is spoiled else ()
    seen: Counter[str] = Counter()
    for seed in range(count):
        r = random.Random(seed)
        source = change(r, r.choice(protos or PROGRAMS))
        try:
            seen[outcome(source)] += 1
        except Exception as problem:
            raise AssertionError(f"seed {seed}: {type(problem).__name__}: {problem}\n{source}") from problem
    assert seen["planned"] >= planned and seen["unread"] > 0 and (seen["invalid"] > 0 or change is scrambled), seen
