"""Every constraint of every operation has a counterexample: a program that breaks it and no rule before it."""

import re

import pytest
from refxla_spec.errors import InvalidProgramError
from refxla_spec.operation import operations
from refxla_spec.text import parse
from refxla_spec.verify import verify

LABELS = [
    pytest.param(o.opcode, label, id=f"{o.opcode.replace('-', '_')}_{label.lower()}")
    for o in operations().values()
    for label in o.constraints
]


@pytest.mark.parametrize("opcode, label", LABELS)
def test_the_counterexample_breaks_this_constraint(opcode, label):
    texts = operations()[opcode].counterexamples
    assert label in texts, f"the file of {opcode} has no counterexample of {label}"
    with pytest.raises(InvalidProgramError) as error:
        verify(parse(texts[label]))
    assert error.value.constraint == f"{opcode.replace('-', '_')}_{label.lower()}", str(error.value)
    of_python = re.search(r"[A-Z]\w+\(\w+=|\bNone\b|<\w+ object|\barray\(", str(error.value))
    assert not of_python, f"the message has {of_python[0]!r}, which is Python's and not HLO's: {error.value}"


@pytest.mark.parametrize("opcode", operations())
def test_counterexamples_are_of_constraints(opcode):
    rule = operations()[opcode]
    assert list(rule.counterexamples) == list(rule.constraints)
    assert len(set(rule.counterexamples.values())) == len(rule.counterexamples)


def test_without_its_fault_a_program_is_valid():
    """The examples are: so it is the fault alone that a counterexample is refused for."""
    for rule in operations().values():
        for example in rule.examples:
            verify(parse(example.hlo))
