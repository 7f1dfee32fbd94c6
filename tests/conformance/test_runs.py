"""The command as a whole: worker processes that targets crash and hang, reports, reproducers, differences of runs."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree

import ml_dtypes
import numpy as np
import pytest
from refxla_conformance import Outcome, collect
from refxla_conformance.case_check import verdict
from refxla_conformance.command import main
from refxla_conformance.report import Results, terminal
from refxla_conformance.runner import Crash, run
from refxla_spec.compare import digest

EXAMPLE = Path(__file__).parents[2] / "examples" / "conformance"

FAULTY = """
import os, time
import numpy as np
from refxla_conformance.targets.reference import Reference
from refxla_spec.errors import UnsupportedError


class Faulty(Reference):
    name = "faulty"

    def run(self, module, arguments):
        opcode = module.entry.root.opcode
        if opcode == "negate":
            os.abort()
        if opcode == "floor":
            time.sleep(10_000)
        if opcode == "ceil":
            raise UnsupportedError("no ceil")
        result = super().run(module, arguments)
        return [np.nextafter(r, np.inf) for r in result] if opcode == "sqrt" else result

    def verify(self, text):
        if "sqrt" in text and "s32" in text:
            return
        super().verify(text)


class Generous(Reference):
    def run(self, module, arguments):
        result = super().run(module, arguments)
        if module.entry.root.opcode != "logistic":
            return result
        return [np.where((r > 0.1) & (r < 0.9), np.nextafter(r, np.inf), r) for r in result]


class Slow(Reference):
    def run(self, module, arguments):
        open("it-runs", "w").close()
        time.sleep(0.3)
        return super().run(module, arguments)
"""


@pytest.fixture
def faulty(tmp_path, monkeypatch):
    (tmp_path / "faulty_target.py").write_text(FAULTY)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def outcomes(results: Results, target: str) -> dict[str, set[Outcome]]:
    found = {}
    for row in results.rows.values():
        found.setdefault(row.opcode, set()).add(row.results[target].outcome)
    return found


def test_a_crash_or_hang_is_a_fail_of_that_case_alone_and_every_fail_is_reproduced(faulty, capsys):
    """Two targets side by side; the faulty one aborts, hangs, refuses, accepts too much, and is off by one ULP."""
    command = ["--kind", "example", "--kind", "counterexample", "--target", "reference", "-j", "2", "--limit", "8"]
    command += ["--target", "faulty_target:Faulty", "--json", "a.json", "--html", "a.html", "--reproducers", "r"]
    names = [
        f"--name={kind}/{op}/*" for op in ("exponential", "sqrt", "ceil") for kind in ("example", "counterexample")
    ]
    assert main([*command, *names, "--name=example/negate/0", "--name=example/floor/0"]) == 1
    shown = capsys.readouterr().out
    assert re.search(r"operation +reference +faulty_target:Faulty", shown)
    assert "1 other operation passes all its cases on every target" in shown
    results = Results.read(Path("a.json"))
    assert results.complete and set().union(*outcomes(results, "reference").values()) == {Outcome.PASS}
    assert outcomes(results, "faulty_target:Faulty") == {
        "ceil": {Outcome.UNSUPPORTED, Outcome.PASS},
        "exponential": {Outcome.PASS},
        "floor": {Outcome.FAIL},
        "negate": {Outcome.FAIL},
        "sqrt": {Outcome.FAIL, Outcome.PASS},
    }
    fails = {verdict.case: verdict for verdict in results.failures()}
    assert "signal SIGABRT" in fails["example/negate/0"].reason
    assert "time limit" in fails["example/floor/0"].reason
    assert "1 ULP apart, and it has to be the same bits" in fails["example/sqrt/0"].reason
    assert fails["example/sqrt/0"].got and fails["example/sqrt/0"].inputs[0].startswith("f32[")
    assert any(name.startswith("counterexample/sqrt/") for name in fails)

    page = Path("a.html").read_text()
    data = re.search(r"const report = (\{.*\});\n", page)[1]
    assert json.loads(data) == json.loads(Path("a.json").read_text()) and "</" not in data

    assert len(list(Path("r").iterdir())) == len(fails)
    for name in ("example_sqrt_0", next(n for n in fails if n.startswith("counterexample/sqrt")).replace("/", "_")):
        script = next(Path("r").glob(f"{name}_*.py"))
        broken = subprocess.run([sys.executable, script], capture_output=True, text=True)
        assert broken.returncode == 1 and "wrong: " in broken.stderr, broken.stderr
        right = subprocess.run([sys.executable, script, "reference"], capture_output=True, text=True)
        assert right.returncode == 0, right.stderr

    assert main(["--diff", "a.json", "a.json"]) == 0
    assert "nothing has changed" in capsys.readouterr().out


def run_json(path, *arguments):
    status = main(["--kind", "example", "-j", "0", "--json", path, *arguments])
    return status


def test_the_difference_of_two_runs(faulty, capsys):
    assert run_json("good.json", "--target", "reference", "sqrt", "ceil", "exponential") == 0
    assert run_json("bad.json", "--target", "faulty_target:Faulty", "sqrt", "ceil", "cosine") == 1
    capsys.readouterr()
    assert main(["--diff", "good.json", "bad.json"]) == 1
    shown = capsys.readouterr().out
    assert re.search(r"broken +example/sqrt/0 +pass +fail", shown)
    assert re.search(r"broken +example/ceil/0 +pass +unsupported", shown)
    assert re.search(r"gone +example/exponential/0", shown) and re.search(r"new +example/cosine/0", shown)
    assert main(["--diff", "bad.json", "good.json"]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"fixed +example/sqrt/0 +fail +pass", shown) and "gained" in shown
    assert main(["--diff", "good.json", "absent.json"]) == 2
    assert "cannot read absent.json" in capsys.readouterr().err


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_leaves_what_there_is(how, faulty):
    command = [sys.executable, "-m", "refxla_conformance", "--kind", "example", "--target", "faulty_target:Slow"]
    process = subprocess.Popen(
        [*command, "-j", "1", "--json", "part.json"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(faulty), *sys.path))},
    )
    while not Path("it-runs").exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.1)
    process.send_signal(how)
    shown, _ = process.communicate(timeout=600)
    assert process.returncode == 130 and "interrupted" in shown
    results = Results.read(Path("part.json"))
    assert not results.complete and len(results.rows) < len(collect(kinds=["example"]))
    assert {v.outcome for row in results.rows.values() for v in row.results.values()} <= {Outcome.PASS}


@pytest.mark.parametrize(
    "arguments, complaint",
    [
        (["added"], "'added' is not an operation.*did you mean 'add'"),
        (["--kind", "examples"], "not a kind of case"),
        (["--name", "nothing/*"], "no case fits"),
        (["--target", "refrence"], "no target is called 'refrence'; did you mean 'reference'"),
        (["--target", "absent_module:Class"], "absent_module"),
        (["--target", "refxla_spec.text:parse"], "no adapter class"),
    ],
)
def test_a_wrong_command_is_refused(arguments, complaint, capsys):
    assert main([*arguments, "--kind", "example", "-j", "0"]) == 2
    assert re.search(complaint, capsys.readouterr().err)


def test_the_letters_of_the_table_are_explained(faulty, capsys):
    assert (
        main(["--kind", "example", "-j", "0", "--target", "reference", "--target", "faulty_target:Faulty", "sqrt"]) == 1
    )
    shown = capsys.readouterr().out
    assert re.search(r"sqrt +\d+ +\d+ \dF", shown)
    assert "In each column: how many cases pass, then F = fail.\n" in shown


def test_names_are_listed(capsys):
    assert main(["--list", "--kind", "example", "add"]) == 0
    assert capsys.readouterr().out.split()[:2] == ["example/add/0", "example/add/1"]


def test_parts_are_consecutive_and_have_every_case_once(capsys):
    def listed(*part):
        assert main(["--list", "--kind", "example", "add", "negate", *part]) == 0
        return capsys.readouterr().out.split()

    parts = [listed("--part", f"{n}/3") for n in (1, 2, 3)]
    assert sum(parts, []) == listed()
    assert max(map(len, parts)) - min(map(len, parts)) <= 1 and all(parts)


@pytest.mark.parametrize(
    "part, complaint", [("4/3", "there is no part 4 of 3"), ("0/3", "0 is less than 1"), ("2", "second of four is 2/4")]
)
def test_a_part_that_is_none_is_refused(part, complaint, capsys):
    assert main(["--list", "--part", part]) == 2
    assert complaint in capsys.readouterr().err


def test_the_example_of_the_manual_plugs_in_another_implementation(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(EXAMPLE)
    command = ["--target", "numpy_target:NumPy", "--kind", "example", "-j", "0", "--json", str(tmp_path / "n.json")]
    assert main([*command, "exponential", "compare", "iota", "maximum", "dot"]) == 1
    found = outcomes(Results.read(tmp_path / "n.json"), "numpy_target:NumPy")
    assert found["exponential"] == found["iota"] == {Outcome.PASS}
    assert found["dot"] == {Outcome.UNSUPPORTED}
    assert Outcome.FAIL in found["maximum"]  # NumPy's maximum of -0 and 0 is whichever comes first


def test_results_that_are_as_good_with_other_bits(faulty, capsys):
    """Both targets are within the contract; of one operation the second gives another value that it allows."""
    for name, target in (("a.json", "reference"), ("b.json", "faulty_target:Generous")):
        assert run_json(name, "--target", target, "logistic", "negate") == 0
    capsys.readouterr()
    assert main(["--diff", "a.json", "b.json"]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"bits +example/logistic/0 +pass +pass", shown) and "negate" not in shown
    assert re.search(r"\b[12] bits", shown)


def test_a_digest_tells_types_sizes_and_bits_apart_but_no_nans():
    nans = np.array([0xFFC00000, 0x7FC00001], np.uint32).view(np.float32)
    assert digest([nans[:1]]) == digest([nans[1:]]) != digest([np.float32([1])])
    assert digest([np.array(nans[0])]) == digest([np.array(nans[1])]) != digest([nans[:1]])
    pairs = [complex(0.0, float("nan")), complex(-0.0, float("nan"))]
    assert digest([np.complex64(pairs[:1])]) != digest([np.complex64(pairs[1:])])
    assert digest([np.float32([0.0])]) != digest([np.float32([-0.0])]) != digest([np.int32([-(2**31)])])
    assert digest([np.zeros(2, ml_dtypes.int4)]) == digest([np.zeros(2, ml_dtypes.int4)]) != digest([])


def test_progress_without_a_terminal_stays_out_of_the_output(capsys, monkeypatch):
    monkeypatch.setattr(terminal, "EVERY", 0.0)
    assert main(["--name", "edge/add/s32", "--name", "edge/add/u8", "--target", "reference", "-j", "0"]) == 0
    captured = capsys.readouterr()
    lines = captured.err.splitlines()
    assert lines and lines[-1] == f"{len(lines)} of {len(lines)} checks done, 0 failed"
    assert "checks done" not in captured.out and "reference: " in captured.out


def test_nothing_is_wrapped_where_the_output_is_no_terminal(capsys):
    targets = ["liar:rows-and-columns-of-an-image", "liar:last-of-twenty-thousand"]
    options = [word for name in targets for word in ("--target", name)]
    assert main(["negate", "tanh", "--kind", "example", "-v", "-j", "0", *options]) == 0
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert f"operation  {'  '.join(targets)}" in lines
    number = len(collect(["negate", "tanh"], ["example"]))
    for name in targets:
        assert f"{name}: {number} pass, 0 fail, 0 undecided, 0 excused, 0 unsupported" in lines


def test_the_liar_of_the_documentation_is_caught(monkeypatch, capsys):
    monkeypatch.syspath_prepend(EXAMPLE)
    options = ["--kind", "structured", "--name", "*/tiles_*", "-j", "0"]
    assert main(["pad", "slice", "--target", "own_liar:LastLine", *options]) == 1
    told = capsys.readouterr().out
    assert "structured/slice/tiles_2_f32 on own_liar:LastLine" in told and "structured/pad/tiles_3_f64" in told


IN_COMPANY = """
import os, sys
from refxla_conformance.targets.reference import Reference


class Third(Reference):  # the third program of a process ends it
    runs = 0
    def run(self, module, arguments):
        self.runs += 1
        if self.runs == 3:
            os.abort()
        return super().run(module, arguments)


class Exits(Reference):
    def run(self, module, arguments):
        sys.exit("no such option")


class Long(Reference):
    def run(self, module, arguments):
        raise ValueError("\\x1b[31m" + 5000 * "z")
"""


@pytest.fixture
def in_company(tmp_path, monkeypatch):
    (tmp_path / "in_company.py").write_text(IN_COMPANY)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)


def test_a_crash_that_no_case_brings_about_by_itself_is_a_fail_of_the_last(in_company):
    cases = collect(["negate"], ["edge"])[:6]
    found = {v.case: v for v in run(cases, ["in_company:Third"], 1)}
    assert len(found) == 6
    fails = [v for v in found.values() if v.outcome is Outcome.FAIL]
    assert fails and all("signal SIGABRT" in v.reason for v in fails)


def test_a_crash_in_company_is_told_with_its_cases():
    cases = collect(["negate"], ["edge"])[:3]
    passes = [verdict(case, "t", Outcome.PASS) for case in cases]
    crash = Crash("its process ended with signal SIGSEGV", cases, passes)
    *rest, last = crash.settled()
    assert {v.outcome for v in rest} == {Outcome.PASS} and last.outcome is Outcome.FAIL
    assert (
        f"on 3 cases in one process, {cases[0].name} to {cases[2].name}, and on none of them by itself" in last.reason
    )
    assert Crash("", cases, passes, again=True).settled() == passes
    assert Crash("", cases, passes[:2]).settled() == []


def test_what_ends_python_is_a_fail_of_that_case(in_company, capsys):
    assert (
        main(["--target", "in_company:Exits", "--name", "example/negate/0", "--name", "example/abs/0", "-j", "1"]) == 1
    )
    told = capsys.readouterr().out
    assert told.count("run of class Exits raised SystemExit: no such option, by which Python ends a process") == 2


def test_a_long_reason_is_cut_on_the_terminal_and_nowhere_else(in_company, capsys):
    command = ["--target", "in_company:Long", "--name", "example/abs/0", "-j", "0", "--reproducers", "r"]
    assert main([*command, "--json", "a.json", "--junit", "a.xml"]) == 1
    told = capsys.readouterr().out
    assert "zzz ... (" in told and len(told) < 2000 and "\x1b" not in told
    (fail,) = Results.read(Path("a.json")).failures()
    assert 5000 * "z" in fail.reason
    assert 5000 * "z" in ElementTree.parse("a.xml").getroot().find(".//failure").text


def test_what_is_unsupported_is_told_with_its_reason(faulty, capsys):
    assert main(["--target", "faulty_target:Faulty", "--name", "example/ceil/*", "-j", "0"]) == 0
    assert re.search(r"unsupported (once|\d times): no ceil\n", capsys.readouterr().out)


def test_the_report_for_continuous_integration(faulty, capsys):
    options = ["--kind", "example", "-j", "0", "--junit", "a.xml", "--target", "reference"]
    assert main([*options, "--target", "faulty_target:Faulty", "sqrt", "ceil"]) == 1
    right, wrong = ElementTree.parse("a.xml").getroot()
    cases = collect(["sqrt", "ceil"], ["example"])
    assert right.get("name") == "reference" and right.get("failures") == right.get("skipped") == "0"
    assert right.get("tests") == wrong.get("tests") == str(len(cases))
    assert int(wrong.get("failures")) == len(wrong.findall("testcase/failure")) > 0
    assert int(wrong.get("skipped")) == len(wrong.findall("testcase/skipped")) == len(collect(["ceil"], ["example"]))
    text = wrong.find("testcase/failure").text
    assert "sqrt(" in text and "\ngot 0: f32[5]" in text


def test_a_run_goes_on_where_its_report_ends(faulty, capsys):
    options = ["--kind", "example", "-j", "0", "--target", "faulty_target:Faulty", "--json", "a.json", "--resume"]
    assert main([*options, "ceil"]) == 0  # there is no report yet
    first = Results.read(Path("a.json"))
    assert main([*options, "ceil", "sqrt"]) == 1
    ceil, both = len(collect(["ceil"], ["example"])), len(collect(["ceil", "sqrt"], ["example"]))
    assert f"{ceil} of {both} cases stand in a.json\n" in capsys.readouterr().out
    whole = Results.read(Path("a.json"))
    assert len(whole.rows) == both and whole.started == first.started and whole.complete
    assert main([*options, "ceil", "sqrt"]) == 1  # all of them stand there, with their fails
    assert main([*options[:5], "reference", *options[6:], "ceil"]) == 2
    assert "a.json is of other targets: faulty_target:Faulty there, reference" in capsys.readouterr().err
    assert main(["--resume", "ceil"]) == 2
    assert "--json FILE" in capsys.readouterr().err


def test_a_program_that_takes_files_is_a_target(monkeypatch, capsys):
    monkeypatch.chdir(EXAMPLE)
    names = ["--name", "example/add/0", "--name", "edge/add/f8", "--name", "counterexample/add/c1"]
    assert main(["--target", "command_target:Command", "-j", "0", *names]) == 0
    assert "command_target:Command: 3 pass, 0 fail" in capsys.readouterr().out
