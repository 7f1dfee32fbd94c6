"""The conformance suite tells right from wrong."""

import numpy as np
import pytest
from refxla_conformance import Outcome, cases, check
from refxla_conformance.__main__ import main
from refxla_conformance.check import within
from refxla_conformance.implementations import reference
from refxla_spec.errors import UnsupportedError
from refxla_spec.operation import operations


def outcomes(implementation, opcodes=("add", "exponential")):
    chosen = [case for case in cases(opcodes) if any(e.size for e in case.expected)]  # an empty result cannot be wrong
    return {check(case, implementation).outcome for case in chosen}


def test_every_operation_of_the_specification_has_a_case():
    assert {case.opcode for case in cases()} == set(operations())


def test_reference_passes(capsys):
    assert main(["--implementation", "reference"]) == 0
    assert " 0 failed, 0 unsupported" in capsys.readouterr().out


def test_wrong_results_fail():
    def perturbed(module, arguments):
        result = reference(module, arguments)
        return ~result if result.dtype == bool else (result.view(np.uint8) ^ 0x40).view(result.dtype)

    assert outcomes(perturbed) == {Outcome.FAILED}
    assert outcomes(lambda module, arguments: ()) == {Outcome.FAILED}


def test_a_refusal_is_not_a_failure():
    def refuses(module, arguments):
        raise UnsupportedError("not today")

    assert outcomes(refuses) == {Outcome.UNSUPPORTED}


def test_the_contract_is_what_is_compared_by():
    one = np.array([1.0], np.float32)
    next_one, far = np.nextafter(one, 2, dtype=np.float32), np.array([1.00001], np.float32)
    assert within("exponential", next_one, one) and not within("exponential", far, one)
    assert not within("add", next_one, one)
    zero = np.zeros(1, np.float32)
    assert not within("sine", -zero, zero) and not within("sine", np.array([1e-45], np.float32), zero)
    assert within("add", np.array([np.nan]), np.array([-np.nan]))


def test_an_unknown_operation_is_refused(capsys):
    with pytest.raises(SystemExit):
        main(["--implementation", "reference", "added"])
    assert "'added' is not an operation" in capsys.readouterr().err
