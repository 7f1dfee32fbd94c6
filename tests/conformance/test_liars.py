"""No liar passes: each is caught, by the suite and --check in what `caught.json` names, by the fuzzer in a sample.

`refxla-conformance liars` looks for all of them among all cases, and writes that file.
"""

import numpy as np
import pytest
from refxla_conformance.case_check import Outcome, check
from refxla_conformance.cases import collect
from refxla_conformance.liars import LIARS, find, table, trial
from refxla_conformance.liars.liar import redefined
from refxla_conformance.targets import Misconduct, make_target
from refxla_conformance.targets.reference import Reference
from refxla_spec.errors import EvaluationError, InputError
from refxla_spec.text import parse

KEPT = table.read()["liars"]
CASES = {case.name: case for case in collect()}
# What nearly every program shows: the fuzzer finds it in its first few.
OFTEN = (
    "sevens",
    "stale",
    "clobbered",
    "shared-memory",
    "first-element-wrong",
    "threads-overlap",
    "next-number",
    "zeros",
)


def test_the_table_is_of_the_liars_that_there_are():
    assert {name: row["what"] for name, row in KEPT.items()} == {name: liar.what for name, liar in LIARS.items()}
    assert {name: set(row) - {"what"} for name, row in KEPT.items()} == {n: set(q.tools) for n, q in LIARS.items()}


def test_every_tool_catches_every_liar_that_it_can_meet():
    assert not table.missed(KEPT)
    passed = [(n, row[t]["passed"]) for n, row in KEPT.items() for t in LIARS[n].tools if LIARS[n].everywhere]
    assert passed and not any(case for _, case in passed)


def kept_cases(name, tool):
    """The case that the table names, and after it those of the same operation, since examples are counted."""
    kept = KEPT[name][tool]["caught"]
    opcode = kept.split("/")[1]
    others = [c for c in CASES.values() if c.opcode == opcode and c.name != kept and (tool == "suite" or runs(c))]
    return [*([CASES[kept]] * (7 if name == "race" else 1) if kept in CASES else []), *others]


def runs(case):
    return not case.is_negative and case.devices == 1 and case.infeed is None


@pytest.mark.parametrize("name", list(LIARS))
def test_the_suite_catches(name):
    cases = kept_cases(name, "suite")
    assert trial.suite([find(name)], cases[:1] if LIARS[name].everywhere else cases)[name].caught


@pytest.mark.parametrize("name", [name for name, liar in LIARS.items() if "check" in liar.tools])
def test_check_catches(name):
    cases = kept_cases(name, "check")
    assert trial.checked([find(name)], cases[:1] if LIARS[name].everywhere else cases)[name].caught


def test_the_fuzzer_catches_what_nearly_every_program_shows():
    found = trial.fuzzed([find(name) for name in OFTEN], range(12))
    assert {name for name, t in found.items() if not t.caught} == set()


def test_the_reference_is_no_liar():
    for name in (
        "structured/reduce/large",
        "structured/add/again",
        "edge/maximum/f32",
        "structured/dot/extremes_u8_s8_s32",
    ):
        assert check(CASES[name], Reference()).outcome is Outcome.PASS


def test_a_lie_ends_with_the_run():
    case = CASES["edge/subtract/f32"]
    liar = make_target("liar:operands-exchanged")
    assert check(case, liar).outcome is Outcome.FAIL and check(case, Reference()).outcome is Outcome.PASS


def test_a_loop_that_a_lie_keeps_from_ending_ends():
    hlo = """HloModule m
    more { s = (s32[], s32[]) parameter(0)
           i = s32[] get-tuple-element(s), index=0
           n = s32[] get-tuple-element(s), index=1
           ROOT c = pred[] compare(i, n), direction=LT }
    step { s = (s32[], s32[]) parameter(0)
           i = s32[] get-tuple-element(s), index=0
           n = s32[] get-tuple-element(s), index=1
           one = s32[] constant(1)
           j = s32[] add(i, one)
           ROOT r = (s32[], s32[]) tuple(j, n) }
    ENTRY e { z = s32[] constant(0)
              n = s32[] parameter(0)
              s = (s32[], s32[]) tuple(z, n)
              ROOT r = (s32[], s32[]) while(s), condition=more, body=step }"""
    with redefined(("add",), lambda truth, i, a, b: a), pytest.raises(EvaluationError, match="iterations"):
        Reference().run(parse(hlo), [np.array(3, np.int32)])


def test_names_of_liars():
    with pytest.raises(InputError, match="no liar is called 'seven'.*did you mean.*sevens"):
        make_target("liar:seven")
    assert make_target("liar:sevens").name == "liar:sevens"


def test_the_command_says_what_is_not_caught(capsys, tmp_path):
    from refxla_conformance.command import main

    assert main(["liars", "contracted", "--list"]) == 0
    assert "fused multiply-add" in capsys.readouterr().out
    file = tmp_path / "found.json"
    assert main(["liars", "scale-ignored", "--tool", "fuzz", "--count", "1", "--json", str(file)]) == 1
    assert "not caught: scale-ignored (fuzz)" in capsys.readouterr().out
    assert table.read(file)["programs"] == 1
    assert main(["liars", "nobody"]) == 2


def test_misconduct_is_told():
    target = find("shared-memory").target()
    assert check(CASES["structured/add/again"], target).reason == "a call changes the results of a call before it"
    assert check(CASES["edge/abs/f32"], find("clobbered").target()).reason == "the target changes its arguments"
    assert issubclass(Misconduct, Exception)
