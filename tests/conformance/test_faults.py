"""Faults planted in the examples, which --check has to find, and programs that keep the contract and must pass."""

from pathlib import Path

import numpy as np
import pytest
from refxla_conformance.faults import FAULTS, example, finding, flat, planted
from refxla_conformance.fuzz.generate import generate
from refxla_conformance.fuzz.runs import nested
from refxla_spec.sampling import sample
from refxla_spec.verdicts import Judge, Verdict, verdicts

import refxla

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def judged():
    made = {}

    def of(name):
        if name not in made:
            module, args = example(EXAMPLES / name)
            made[name] = Judge(module, args), module, args
        return made[name]

    return of


PRODUCTS = {"products of bf16 numbers", "a product without its last term"}
WITHOUT = {  # what has no place in a program
    "mlp/step.hlo": {"a loop of one iteration less"},
    "heat/heat.hlo": {*PRODUCTS, "a sum without its last term"},
    "transformer/block.hlo": {"a loop of one iteration less"},
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", WITHOUT)
def test_planted_faults_are_found(judged, name, fault):
    verdict = finding(planted(*judged(name), FAULTS[fault]))
    too_small = name.startswith("transformer") and fault == "one element off by 2^-16 of itself"
    assert verdict == ("" if fault in WITHOUT[name] else "wrong") or too_small and verdict


@pytest.mark.parametrize("name", WITHOUT)
def test_what_is_compiled_keeps_the_contract_and_is_decided(judged, name):
    judge, module, args = judged(name)
    results = refxla.compile(module)(*args)
    report = judge.judge(list(results) if isinstance(results, tuple) else [results])
    assert not report.broken and not report.unknown
    undecided = sum(v.count(Verdict.UNDECIDED) for v in report.results)
    assert undecided < 0.02 * sum(v.codes.size for v in report.results)
    assert all(v.sharpness < 0.01 for v in report.results)


def test_random_programs_that_keep_the_contract_are_not_blamed():
    blamed = []
    for seed in range(150):
        program = generate(seed)
        arguments = nested(program.module, program.arguments)
        result = sample(program.module, arguments, 1000 + seed)
        if verdicts(program.module, arguments, flat(result)).broken:
            blamed.append(seed)
    assert not blamed


def test_faults_change_what_they_say():
    """Nothing in the table is a fault of nothing."""
    judge, module, args = (lambda m, a: (Judge(m, a), m, a))(*example(EXAMPLES / "mlp/step.hlo"))
    for name, fault in FAULTS.items():
        results = fault(module, args, [a.copy() for a in judge.references])
        if results is not None:
            assert any(not np.array_equal(a, b) for a, b in zip(results, judge.references, strict=True)), name
