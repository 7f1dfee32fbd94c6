"""What is wrong with a command is said in a line, with status 2: no number, target or file passes in silence."""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from refxla_conformance.arguments import positive, power_of_two, whole
from refxla_conformance.case_check import Outcome, Verdict
from refxla_conformance.case_check import check as checked
from refxla_conformance.cases import Case, collect
from refxla_conformance.command import main
from refxla_conformance.fuzz import differ, record, runs
from refxla_conformance.fuzz.generate import generate
from refxla_conformance.fuzz.replay import same_check
from refxla_conformance.harnesses import command as harnesses
from refxla_conformance.report import Results
from refxla_conformance.reproducer import script
from refxla_conformance.sweep import functions
from refxla_conformance.sweep.measure import CHUNK, values_of
from refxla_conformance.sweep.program import sweep
from refxla_conformance.targets import make_target
from refxla_conformance.targets.reference import Reference
from refxla_spec.errors import InputError

TARGETS = """
import signal, time
import numpy as np
from refxla_conformance.targets.reference import Reference


class Unmade(Reference):
    def __init__(self):
        raise ValueError("no licence")


class Sleeps(Reference):
    def run(self, module, arguments):
        if module.entry.root.opcode == "floor":
            time.sleep(10_000)
        return super().run(module, arguments)


class Spins(Reference):
    def run(self, module, arguments):
        while module.entry.root.opcode == "floor":
            pass
        return super().run(module, arguments)


class Doubled(Reference):
    name = "twice"

    def run(self, module, arguments):
        with np.errstate(all="ignore"):
            return [r if r.dtype == bool else r + r for r in super().run(module, arguments)]
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with a module of targets, and the current one."""
    (tmp_path / "some_targets.py").write_text(TARGETS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def status(*arguments: str) -> int:
    """What the command ends with, wherever it is said."""
    try:
        return main(arguments)
    except SystemExit as end:
        return end.code


@pytest.mark.parametrize(
    "arguments, complaint",
    [
        (("-j", "-3"), "-3 is less than 0"),
        (("-j", "two"), "'two' is no whole number"),
        (("--limit", "0"), "0 is not above 0"),
        (("--limit", "nan"), "nan is not above 0"),
        (("fuzz", "-j", "-2"), "-2 is less than 0"),
        (("fuzz", "--count", "-4"), "-4 is less than 0"),
        (("fuzz", "--time", "-1"), "-1 is not above 0"),
        (("fuzz", "--kernels", "0"), "0 is less than 1"),
        (("harnesses", "--each", "0"), "0 is less than 1"),
        (("liars", "--count", "0"), "0 is less than 1"),
        (("sweep", "--sample", "3"), "3 is not a power of two"),
    ],
)
def test_a_number_that_cannot_be_is_refused(arguments, complaint, capsys):
    assert status(*arguments) == 2
    assert complaint in capsys.readouterr().err


def test_numbers():
    assert (whole(0)("0"), whole(1)("7"), positive("0.5"), power_of_two("8")) == (0, 7, 0.5, 8)
    assert positive("inf") == float("inf")
    for kind, text in ((whole(1), "0"), (whole(0), "1.5"), (positive, "-1"), (positive, "x"), (power_of_two, "0")):
        with pytest.raises(argparse.ArgumentTypeError, match=re.escape(text)):
            kind(text)


@pytest.mark.parametrize("target", ["compiled:foo", "some_targets:Unmade", "nosuch", "some_targets:Nobody"])
@pytest.mark.parametrize("command", [("--kind", "example", "add"), ("sweep", "tanh", "--types", "f16"), ("fuzz",)])
def test_a_target_that_cannot_be_asked_is_no_fault_of_the_cases(command, target, here, capsys):
    more = ["-j", "1", "--count", "3", "--out", str(here)] if command == ("fuzz",) else []
    assert status(*command, "--target", target, *more) == 2
    said = capsys.readouterr()
    assert "Traceback" not in said.err and len(said.err.strip().splitlines()) == 1
    assert re.search("foo|no licence|no target is called|Nobody", said.err)
    assert not list(here.glob("*.hlo"))


def test_an_adapter_that_cannot_be_made_says_where(here):
    with pytest.raises(InputError, match=r"cannot be made: ValueError: no licence \(some_targets.py, line 9\)"):
        make_target("some_targets:Unmade")


def test_the_fuzzer_asks_for_a_device_once(capsys, tmp_path):
    arguments = ("fuzz", "--device", "nosuch", "--count", "3", "-j", "1", "--out", str(tmp_path))
    assert status(*arguments) == 2
    assert "no device is called 'nosuch'" in capsys.readouterr().err


@pytest.mark.parametrize("target", ["Sleeps", "Spins"])
def test_a_time_limit_is_kept(target, here, capsys):
    start = time.monotonic()
    arguments = ["--kind", "example", "--name", "example/floor/*", "--name", "example/ceil/0"]
    assert status(*arguments, "--target", f"some_targets:{target}", "--limit", "1", "-j", "1") == 1
    shown = " ".join(capsys.readouterr().out.split())
    assert "took longer than its time limit" in shown
    assert time.monotonic() - start < 60  # two cases that hang, in company and alone


def divergence(name: str, seeds=range(40)):
    """A program that diverges on a target, and how."""
    target = make_target(name)
    for seed in seeds:
        sample = generate(seed)
        found = differ.of_target(sample, target, runs.expected(sample))
        if found is not None and not found.raised:
            return sample, found
    raise AssertionError("no program diverges")


def test_a_divergence_of_a_class_is_replayed(here, capsys):
    """It is recorded as the user named it, not by what the class calls itself."""
    sample, found = divergence("some_targets:Doubled")
    assert found.check == "target some_targets:Doubled"
    (here / "found.hlo").write_text(record.record(sample, found, "doubled"))
    assert status("fuzz", "--replay", "found.hlo") == 1
    assert "target some_targets:Doubled: result" in " ".join(capsys.readouterr().out.split())
    assert status("fuzz", "--replay", "found.hlo", "--target", "reference") == 0
    assert "does not differ any more" in capsys.readouterr().out
    (here / "some_targets.py").write_text("")
    assert status("fuzz", "--replay", "found.hlo", "--target", "some_targets:Gone") == 2
    assert "cannot be loaded" in capsys.readouterr().err


def test_a_comparison_that_cannot_be_made_is_no_agreement():
    sample = generate(1)
    for check in ("target nosuch", "kernels without nothing", "plan without a-pass"):
        with pytest.raises(InputError):
            same_check(sample, differ.Divergence(1, check, "it differed"), lambda: None)


@pytest.mark.parametrize(
    "content", [None, b"\xff\xfe\x00", b"ROOT x = f32[] parameter(0)", b"// seed: x\n// check: plan\n"]
)
def test_what_cannot_be_replayed_is_said_in_a_line(content, tmp_path, capsys):
    path = tmp_path / "nosuch.hlo"
    if content is not None:
        path.write_bytes(content)
    assert status("fuzz", "--replay", str(path)) == 2
    assert "nosuch.hlo" in capsys.readouterr().err


def test_help_needs_no_jaxlib():
    program = """import sys
sys.modules["jaxlib"] = sys.modules["jax"] = None
import refxla_conformance.harnesses.command
from refxla_conformance.command import main
main(["harnesses", "--help"])"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0 and "--each" in done.stdout, done.stderr


def test_harnesses_without_jaxlib(monkeypatch, capsys):
    monkeypatch.setattr(harnesses, "missing", lambda: "XLA:CPU is in jaxlib, which is not installed")
    assert status("harnesses", "add") == 2
    assert "not installed" in capsys.readouterr().err


def test_a_sweep_without_mpmath_is_none(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "mpmath", None)
    assert status("sweep", "tanh", "--types", "f16") == 2
    assert "pip install mpmath" in capsys.readouterr().err


def test_a_target_that_fails_a_sweep_is_no_success(here, capsys):
    (here / "raising.py").write_text(
        "from refxla_conformance.targets import Target\n\n\n"
        "class Raises(Target):\n    def run(self, module, arguments):\n        raise ValueError('broken')\n"
    )
    assert status("sweep", "tanh", "--types", "f16", "--target", "raising:Raises") == 1
    assert "failed: ValueError: broken" in capsys.readouterr().out


def test_a_sample_of_operands_is_spread_over_all_of_them():
    """Of each stretch of operands some are met: one that is wrong between 5 and 6 alone is seen."""
    function = next(f for f in functions(["tanh"], ["f32"]))
    stride = 1 << 12
    count = CHUNK // stride
    met = []
    for first in range(0x40000000, 0x41000000, CHUNK):  # from 2 to 8
        module = sweep(function, count, stride=stride)
        index = next(i for i in module.entry.instructions if i.shape.element_type.name == "u32" and i.opcode == "add"
                     and i.operands[1].opcode == "broadcast")  # fmt: skip
        module.entry.root = index
        module.entry.instructions = list(dict.fromkeys(_needed(index)))
        met.append(Reference().run(module, [np.array(first, np.uint32)])[0])
    bits = np.concatenate(met)
    assert len(np.unique(bits)) == len(bits) and (np.diff(np.sort(bits)) <= 2 * stride).all()
    (x,) = values_of(function, bits)
    assert ((x > 5) & (x < 6)).sum() > 400
    assert len(np.unique(bits % 64)) == 64  # of low digits all


def _needed(i):
    for o in i.operands:
        yield from _needed(o)
    yield i


def test_a_reproducer_with_an_unknown_target(tmp_path):
    x = np.array([2], np.float32)
    case = Case("edge/negate/x", "edge", "negate", "x = f32[1] parameter(0)\nROOT y = f32[1] negate(x)", (x,))
    path = tmp_path / "script.py"
    path.write_text(script(case, Verdict(case.name, "reference", Outcome.FAIL, "wrong")))
    done = subprocess.run([sys.executable, path, "nosuch"], capture_output=True, text=True)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert done.stderr.startswith("script.py: no target is called 'nosuch'")
    assert subprocess.run([sys.executable, path], capture_output=True).returncode == 0


def test_a_script_is_printed_of_a_single_case(here, capsys):
    target = ("--target", "some_targets:Doubled", "-j", "0")
    assert status("--kind", "example", "negate", *target) == 1
    shown = capsys.readouterr().out
    assert "EXPECTED" not in shown and "--name example/negate/0" in shown
    assert status("--name", "example/negate/0", *target) == 1
    assert "EXPECTED" in capsys.readouterr().out


def test_options_are_spelled_in_full(capsys):
    for arguments, known in (("--thoro", "--thorough"), ("fuzz --cou=1", "--count"), ("liars --see 3", "--seed")):
        assert status(*arguments.split()) == 2
        assert f"did you mean '{known}'" in capsys.readouterr().err


def test_few_liars_are_named(capsys):
    for arguments in (("liars", "stael"), ("--target", "liar:stael", "add")):
        assert status(*arguments) == 2
        told = capsys.readouterr().err
        assert "did you mean 'stale'" in told and len(told) < 400
    assert status("liars", "foo") == 2
    assert len(capsys.readouterr().err) < 400


def test_every_target_knows_what_it_was_asked_for_as():
    assert make_target("liar:sevens").specification == "liar:sevens"
    assert Path(__file__).exists() and make_target("reference").specification == "reference"


ADAPTERS = """
import numpy as np
from refxla_conformance.targets import Target

class Bare(Target):
    def run(self, module, arguments): return {wrong}
"""


@pytest.mark.parametrize(
    "wrong, told",
    [
        ("{'a': 1}", "run of class Bare gave {'a': 1} of type dict; it has to give a list of NumPy arrays"),
        ("None", "run of class Bare gave None; it has to give .*, which is f32.5.$"),
        ("[[1.5], [2]]", "gave 1.5 of type float in a list"),
        ("np.array([None])", "gave an array of NumPy type object, which HLO does not have"),
        ("[np.zeros(5)]", "result 0 is f64.5. instead of f32.5.$"),
        ("[np.zeros(5, np.int32)] * 2", r"2 results \(s32.5., s32.5.\) instead of 1 result \(f32.5.\)"),
    ],
)
def test_what_an_adapter_gives_and_should_not_is_told(wrong, told, tmp_path, monkeypatch):
    (tmp_path / "wrong_results.py").write_text(ADAPTERS.replace("{wrong}", wrong))
    monkeypatch.syspath_prepend(tmp_path)
    sys.modules.pop("wrong_results", None)
    case = next(c for c in collect(names=["example/add/0"]))
    assert re.search(told, checked(case, make_target("wrong_results:Bare")).reason)


def test_an_adapter_that_takes_other_arguments_is_refused_at_once(tmp_path, monkeypatch):
    run = "    def run(self, module, arguments): return []\n"
    methods = {
        "Short": "    def run(self, module): return []\n",
        "Made": "    def __init__(self, device): pass\n" + run,
        "Dumb": "    def verify(self): pass\n" + run,
        "Right": "    def verify(self, text, more=0): pass\n    @staticmethod\n"
        "    def run(module, arguments): return []\n",
    }
    text = "from refxla_conformance.targets import Target\n"
    (tmp_path / "other_arguments.py").write_text(text + "".join(f"class {k}(Target):\n{m}" for k, m in methods.items()))
    monkeypatch.syspath_prepend(tmp_path)
    for name, told in (
        ("Short", "class Short defines run(self, module); it has to be run(self, module, arguments)"),
        ("Made", "other_arguments:Made: Made(device) asks for arguments"),
        ("Dumb", "it has to be verify(self, text)"),
    ):
        with pytest.raises(InputError, match=re.escape(told)):
            make_target(f"other_arguments:{name}")
    make_target("other_arguments:Right")


def test_an_adapter_without_run_is_refused_at_once(tmp_path, monkeypatch, capsys):
    (tmp_path / "nothing_to_run.py").write_text(
        "from refxla_conformance.targets import Target\nclass Bare(Target): pass\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    for target, message in (
        ("nothing_to_run:Bare", r"class Bare has no method run\(module, arguments\)"),
        ("./nothing_to_run.py:Bare", "cannot be loaded as module:Class"),
    ):
        assert main(["--target", target, "abs"]) == 2
        assert re.search(message, capsys.readouterr().err)


def test_a_target_whose_package_is_missing_is_not_called_a_module(monkeypatch):
    """XLA:CPU without jaxlib, which its file asks for when it is imported."""
    monkeypatch.setattr("refxla_conformance.targets.private.missing", lambda: "jaxlib is not installed")
    monkeypatch.delitem(sys.modules, "refxla_conformance.targets.xla_cpu", raising=False)
    with pytest.raises(InputError, match="^target xla-cpu cannot be loaded: jaxlib is not installed"):
        make_target("xla-cpu")


def test_what_cannot_be_written_is_refused_before_anything_runs(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    for arguments, told in (
        (["--json", f"{tmp_path}/nosuch/x.json"], f"there is no folder {tmp_path}/nosuch; make it first"),
        (["--html", str(tmp_path)], "is a folder; name a file in it"),
        (["--reproducers", f"{tmp_path}/file"], f"{tmp_path}/file is a file, and should be a folder"),
        (["fuzz", "--out", f"{tmp_path}/file"], "should be a folder"),
        (["liars", "--json", f"{tmp_path}/nosuch/x.json"], "there is no folder"),
    ):
        assert main([*arguments, *([] if arguments[0] in ("fuzz", "liars") else ["abs"])]) == 2
        assert told in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_errors_have_one_style(capsys):
    for arguments in (["--kind", "nosuch"], ["--nosuch"], ["sweep", "--operands", "3"], ["-j", "-1"], ["liars", "x"]):
        assert main(arguments) == 2
        told = capsys.readouterr()
        assert told.err.startswith("refxla-conformance: error: ") and told.err.count("\n") == 1 and not told.out


def test_a_comparison_names_the_files_and_their_targets(tmp_path, capsys):
    files = [str(tmp_path / name) for name in ("a.json", "b.json")]
    for file, targets in zip(files, (["x", "y"], ["z"]), strict=True):
        Results(dict.fromkeys(targets, {})).write(Path(file))
    assert main(["--diff", *files]) == 2
    assert f"no target in common: {files[0]} has x, y; {files[1]} has z\n" in capsys.readouterr().err


@pytest.mark.parametrize("module", ["faults", "jax_tests", "sweep", "torch_ops", "differences.counts"])
def test_help_needs_nothing(module):
    program = f"""import runpy, sys
sys.modules.update(dict.fromkeys(("mpmath", "jax", "jaxlib", "torch")))
sys.argv = [{module!r}, "--help"]
runpy.run_module("refxla_conformance.{module}", run_name="__main__", alter_sys=False)"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "") and done.stdout.startswith("usage: ")
