"""The fuzzer: its programs are valid, what it is to find it finds and blames on the right part, and what it saves can
be run again. A sample; `refxla-conformance fuzz` is the long form, and `--planted` looks for every bug."""

import argparse
import json
import random
import re
import sys
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from refxla_conformance.case_check import flush
from refxla_conformance.fuzz import add_arguments, batch, cause, differ, invalid, main, values
from refxla_conformance.fuzz.differ import PROCESS, VARIANTS, Divergence, cheap
from refxla_conformance.fuzz.dynamic import generate_dynamic, is_dynamic
from refxla_conformance.fuzz.generate import EXACT, Sample, generate, palette
from refxla_conformance.fuzz.growth import lengths
from refxla_conformance.fuzz.known_bugs import BUGS, find, is_blamed
from refxla_conformance.fuzz.program_builder import RULES, Program, ProgramBuilder, module_of
from refxla_conformance.fuzz.record import investigate, read, replay
from refxla_conformance.fuzz.replay import same_check
from refxla_conformance.fuzz.runs import Kernels, expected, other_arguments
from refxla_conformance.liars.liar import redefined
from refxla_conformance.targets.reference import Reference
from refxla_spec.errors import CompilerError, InputError, UnsupportedError
from refxla_spec.interpreter import run
from refxla_spec.text import parse
from refxla_spec.types import ELEMENT_TYPES
from refxla_spec.verify import verify

from refxla.scheduling.grouped_computation import GroupedComputation

kernels = cache(Kernels)


def test_programs_are_valid_and_their_texts_too():
    used, opcodes = Counter(), Counter()
    for seed in range(150):
        sample = generate(seed)
        verify(sample.module)
        text = str(sample.module)
        assert str(parse(text)) == text
        used += sample.used
        opcodes.update(i.opcode for i in sample.module.instructions())
    assert len(opcodes) > 60
    assert len(set(used)) > 0.8 * len(RULES), "a rule that adds nothing is no rule"


def test_a_number_makes_one_program():
    a, b = generate(7), generate(7)
    assert str(a.module) == str(b.module)
    assert all(x.tobytes() == y.tobytes() for x, y in zip(a.arguments, b.arguments, strict=True))
    assert str(generate(8).module) != str(a.module)


@pytest.mark.parametrize("source", ["f64", "f32", "bf16", "f8e4m3fn", "s32", "u64", "s8"])
def test_ties_are_halfway_between_numbers_of_fewer_digits_or_next_to_that(source):
    t, digits = ELEMENT_TYPES[source], 2
    drawn = values.ties(np.random.default_rng(1), t, (300,), digits)
    assert drawn.dtype == t.dtype and drawn.shape == (300,)
    exact = [Fraction(float(x)) if t.is_float else Fraction(int(x)) for x in drawn]
    odd = [abs(x.numerator) // (abs(x.numerator) & -abs(x.numerator)) for x in exact]  # without the zeros at its end
    halfway = [n for n in odd if n.bit_length() == digits + 1]
    assert 80 < len(halfway) and (len(set(odd)) > len(set(halfway)) or values.digits_of(t) == digits + 1)
    assert any(x > 0 for x in exact) and (t.kind == "unsigned" or any(x < 0 for x in exact))


def test_no_number_of_fewer_digits_than_it_has_is_halfway_between_others():
    assert not values.ties(np.random.default_rng(1), ELEMENT_TYPES["bf16"], (5,), 8).any()


def test_exact_programs_have_integers_alone():
    weights = {"example": 0, "back_and_forth": 0, "random_bits": 0}
    kinds = {i.shape.element_type.kind for s in range(20) for i in generate(s, types=EXACT, weights=weights)
             .module.instructions() if i.shape.is_array}  # fmt: skip
    assert kinds <= {"signed", "unsigned", "pred"}


def test_a_batch_agrees_and_counts():
    tally = batch.run(3000, 16, kernels())
    assert tally.programs == 16 and not tally.divergences, tally.divergences
    assert tally.compared >= 12 and tally.variants >= 1 and tally.elements > tally.undecided


def test_the_sign_of_a_nan_decides_nothing():
    """The total order has NaNs of one sign at its beginning, and those of the other at its end."""
    module = parse("""HloModule m
    order { a = f32[] parameter(0)
            b = f32[] parameter(1)
            ROOT c = pred[] compare(a, b), direction=LT, type=TOTALORDER }
    ENTRY e { x = f32[3] parameter(0)
              p = f32[3] power(x, x)
              s = f32[3] sort(p), dimensions={0}, is_stable=true, to_apply=order
              ROOT t = (f32[3], f32[3]) tuple(s, p) }""")
    wanted = expected(Sample(0, module, (np.array([1, -0.9, 2], np.float32),)))
    ordered, powers = wanted.values
    assert wanted.difference([np.roll(ordered, 1), powers]) == ""
    assert "result 1: 3 of 3" in wanted.difference([ordered, np.roll(powers, 1)])


@pytest.mark.parametrize("bug", [b for b in BUGS if not b.kernels], ids=lambda b: b.what)
def test_a_bug_planted_in_a_pass_or_the_planner_is_found(bug):
    found = find(bug, kernels)
    assert found is not None, f"not found in {bug.within} programs"
    assert is_blamed(bug, found), found.cause


@pytest.mark.parametrize("bug", [b for b in BUGS if b.kernels][1::3], ids=lambda b: b.what)
def test_a_bug_planted_in_kernels_is_found(bug):
    found = find(bug, kernels)
    assert found is not None, f"not found in {bug.within} programs"
    assert is_blamed(bug, found), found.cause


def test_a_bug_that_does_not_fit_what_it_replaces_is_not_found():
    planner = next(b for b in BUGS if b.what == "a loop is written over an input that it reads elsewhere")
    bug = replace(planner, plant=lambda: patch.object(GroupedComputation, "in_place", lambda: True))
    found = find(bug, kernels)
    assert found is not None and found.divergence.raised == "TypeError" and not is_blamed(bug, found)


def test_a_divergence_is_reduced_saved_and_replayed(tmp_path):
    bug = BUGS[0]
    with bug.plant():
        found = None
        for seed in range(bug.within):
            sample = generate(seed, types=bug.types, weights=dict.fromkeys(bug.often, 25))
            found = cheap(sample, ()).divergence
            if found:
                break
        assert found is not None
        path = tmp_path / "found.hlo"
        path.write_text(investigate(sample, found, kernels, seconds=1000))
        small, again = read(path)
        work = [i.opcode for i in small.module.instructions() if i.opcode not in ("parameter", "get-tuple-element")]
        assert len(work) <= 3 and "subtract" in work, path.read_text()
        assert "// cause: pass algebraic-simplifier" in path.read_text() and again.check == "plan"
        now, why = replay(path, kernels)
        assert now is not None and why.startswith("pass algebraic-simplifier")
    assert replay(path, kernels) == (None, "")


def test_other_arguments_are_those_with_which_loops_end():
    sample = generate(990000043)  # x doubles while it is below 100: with -4 it comes to stay at 0
    assert any(i.opcode == "while" for i in sample.module.instructions())
    for a, own in zip(other_arguments(sample), sample.arguments, strict=True):
        np.testing.assert_array_equal(a, own)
    assert any((a != own).any() for a, own in zip(other_arguments(generate(4)), generate(4).arguments, strict=True))


def test_a_program_on_which_a_process_ended_is_saved_and_replayed(tmp_path):
    path, sample = tmp_path / "found.hlo", generate(4)
    found = Divergence(4, PROCESS, "its process ended with signal SIGABRT", "ChildDied")
    path.write_text(investigate(sample, found, kernels))
    again, same = read(path)
    assert str(again.module) == str(sample.module) and same == found
    assert "// cause: it does not show when the program runs alone" in path.read_text()
    assert replay(path, kernels) == (None, "")


@pytest.mark.parametrize("seed", [1003, 1019, 1494, 1855, 3431, 10277, 11051, 11504, 12965])
def test_programs_with_dynamic_shapes_agree(seed):
    tally = batch.run(seed, 2, None, kind="dynamic")
    assert tally.programs == 2 and not tally.divergences, tally.divergences
    assert tally.elements


def test_a_dynamic_program_is_marked_and_smaller_than_its_bounds():
    made = [generate_dynamic(seed) for seed in range(12)]
    for sample in made:
        verify(sample.module)
        assert is_dynamic(sample.module)
    pairs = [(p.shape.dimensions, a.shape) for s in made for p, a in zip(s.module.entry.parameters, s.arguments,
                                                                         strict=True)]  # fmt: skip
    assert any(a != bounds for bounds, a in pairs) and all(len(a) == len(bounds) for bounds, a in pairs)


def test_what_is_no_record_is_refused(tmp_path):
    (tmp_path / "x.hlo").write_text("HloModule m\nENTRY e { ROOT x = f32[] parameter(0) }\n")
    with pytest.raises(InputError, match="no record"):
        read(tmp_path / "x.hlo")


def test_an_exception_is_a_divergence(monkeypatch):
    from refxla_conformance.fuzz import differ

    monkeypatch.setattr(differ, "simulated", lambda *_: 1 / 0)
    divergence = cheap(generate(1)).divergence
    assert divergence.raised == "ZeroDivisionError" and divergence.check == "plan"
    assert divergence.like(same_check(generate(1), divergence, kernels))
    assert not divergence.like(Divergence(1, "plan", "other"))


def test_every_variant_of_a_plan_gives_the_same_bits():
    assert len(VARIANTS) >= 6
    for seed in range(3100, 3110):
        assert cheap(generate(seed), VARIANTS).divergence is None


def test_the_manual_names_every_bug():
    text = (Path(__file__).parents[2] / "docs" / "fuzzing.md").read_text()
    assert len(BUGS) >= 12 and [bug.what for bug in BUGS if f"| {bug.what} |" not in text] == []


@pytest.mark.parametrize("change", invalid.CHANGES)
def test_only_errors_of_the_family_come_out(change):
    seen = Counter()
    for seed in range(120):
        source = invalid.changed(seed, change)
        seen[invalid.outcome(source)] += 1
    assert seen["planned"] > 0 and seen["unread"] + seen["invalid"] > 0, seen


def test_the_command_writes_results_and_goes_on(tmp_path):
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    results = tmp_path / "results.json"
    arguments = ["--seed", "5000", "-j", "1", "--no-kernels", "--results", str(results), "--out", str(tmp_path / "out")]
    assert main(parser.parse_args([*arguments, "--count", "6"])) == 0
    assert json.loads(results.read_text())["tally"]["programs"] == 6
    assert main(parser.parse_args([*arguments, "--count", "9", "--resume"])) == 0
    data = json.loads(results.read_text())
    assert data["tally"]["programs"] == 9 and data["seed"] == 5000
    with pytest.raises(InputError, match="name it with --results"):
        main(parser.parse_args(["--resume"]))
    results.write_text("{}")
    with pytest.raises(InputError, match="is no file of results"):
        main(parser.parse_args([*arguments, "--resume"]))


def test_arrays_of_values_hold_what_goes_wrong():
    sample = [a for s in range(160) for a in generate(s).arguments if a.dtype == np.float32 and a.size]
    joined = np.concatenate([a.ravel() for a in sample])
    assert np.isnan(joined).any() and np.isinf(joined).any() and (np.signbit(joined) & (joined == 0)).any()


@pytest.mark.parametrize("kind", lengths.KINDS)
def test_operations_of_middling_length_are_valid_and_run(kind):
    program = Program(random.Random(7), palette(random.Random(7), ("f32", "s32")))
    builder = ProgramBuilder(program, entry=True)
    builder.limit = lengths.LONGEST
    roots = kind(builder, random.Random(kind.__name__))
    module = module_of(program, builder.finish("main", roots, as_tuple=True))
    verify(module)
    run(module, [a for p in module.entry.parameters for a in program.arguments[p]])
    assert roots and max(i.shape.size for i in module.instructions() if i.shape.is_array) <= lengths.LONGEST


def test_a_program_that_the_compiler_gets_lost_in_is_a_divergence():
    """It is refused as one that is not supported, and is not one of those."""

    def gets_lost() -> str:
        raise CompilerError("a reduction in a loop")

    divergence = differ.attempt(7, "plan", gets_lost)
    assert divergence is not None and "a reduction in a loop" in divergence.what


def test_what_the_compiler_gets_lost_in_has_a_cause(monkeypatch):
    """And a refusal has none."""

    def simulated(*_):
        raise error

    monkeypatch.setattr(cause, "simulated", simulated)
    error = CompilerError("a reduction in a loop")
    assert "a reduction in a loop" in str(cause.cause(generate(3)))
    error = UnsupportedError("a host")
    assert cause.cause(generate(3)) is None


def test_programs_with_changed_bytes_are_not_refused_by_an_error_of_the_compilers(monkeypatch):
    def gets_lost(*_):
        raise CompilerError("a reduction in a loop")

    monkeypatch.setattr(invalid, "plan_module", gets_lost)
    with pytest.raises(CompilerError):
        invalid.outcome(generate(3).module)


def test_reasons_are_counted_without_the_names_of_one_program():
    texts = [f"map.{n}: a map is not compiled: v.{n}.v.8 in it is a conditional; write it out" for n in (7, 12)]
    assert {batch.reason(text) for text in texts} == {"a map is not compiled: * in it is a conditional"}


CRASH = """
import os
from refxla_conformance.targets.reference import Reference


class Eighth(Reference):  # the eighth call of a process ends it
    calls = 0
    def run(self, module, arguments):
        type(self).calls += 1
        if self.calls == 8:
            os.abort()
        return super().run(module, arguments)
"""


@pytest.fixture
def fuzz_own(tmp_path, monkeypatch):
    """Runs the command, in a folder of its own, on a target that is a class of this source."""

    def run(source: str, name: str, *options: str) -> int:
        (tmp_path / "own_target.py").write_text(source)
        monkeypatch.chdir(tmp_path)
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, "own_target", raising=False)
        parser = argparse.ArgumentParser()
        add_arguments(parser)
        always = ["--seed", "11", "-j", "1", "--keep", "0", "--target", f"own_target:{name}"]
        return main(parser.parse_args([*always, *options]))

    return run


def test_a_crash_on_several_programs_alone_is_a_divergence(fuzz_own):
    assert fuzz_own(CRASH, "Eighth", "--count", "5", "--results", "r.json") == 1
    (found,) = json.loads(Path("r.json").read_text())["tally"]["divergences"]
    assert found["check"] == PROCESS and "signal SIGABRT" in found["what"]
    assert re.search(r"on programs \d+ to \d+ one after the other, and on no half of them", found["what"])


REFUSAL = """
from refxla_conformance.targets import Target
from refxla_spec.errors import UnsupportedError


class Nothing(Target):
    def run(self, module, arguments):
        raise UnsupportedError("tuples are not taken")
"""


def test_a_target_that_supports_no_program_is_told(fuzz_own, capsys):
    """A table that ends with "diverge 0" would look like a success."""
    fuzz_own(REFUSAL, "Nothing", "--count", "3")
    assert "Nothing was compared: all programs are unsupported" in capsys.readouterr().out


class Flushing(Reference):
    """Flushes what a program gives, and the operands and values of some operations, but not what is only moved."""

    name = "flushing"
    flushes_subnormals = True

    def run(self, module, arguments):
        opcodes = ("add", "multiply", "subtract", "divide", "maximum")
        with redefined(opcodes, lambda truth, i, *operands: flush(np.asarray(truth(i, *map(flush, operands))))):
            return [flush(r) for r in super().run(module, arguments)]


def test_what_a_target_flushes_is_no_divergence():
    for seed in (47, 51, 69, 71, 180, 251):
        try:
            assert differ.of_target(generate(seed), Flushing()) is None
        except differ.Unsupported as none:
            assert seed in (69, 71) and "which the target flushes" in str(none)
    silent = Flushing()
    silent.flushes_subnormals = False
    assert all(differ.of_target(generate(seed), silent) for seed in (47, 51, 69, 71))
    turned = np.array([1 + 1e-40j, 1e-40, 2], np.complex64)[::-1]
    assert flush(turned).tolist() == [2, 0, 1]
