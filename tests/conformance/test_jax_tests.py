"""The runner of JAX's own tests, on a checkout of tests that pass, fail, are skipped, kill their process."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from jax_programs import environment

pytest.importorskip("jax")

TESTS = """
import os, pytest

@pytest.mark.parametrize("x", [(1, None), 2], ids=["a=(1, None)", "b"])
def test_fine(x):
    assert os.environ["JAX_PLATFORMS"] in ("refxla,cpu", "cpu")

def broken():
    pass

globals()["test_of_two\\nlines[[0]"] = broken  # as JAX names tests after arrays

@pytest.mark.xfail
def test_not_yet():
    assert False

@pytest.fixture
def untidy():
    yield
    assert False

def test_ends_badly(untidy):
    pass

def test_wrong():
    assert False

def test_dies():
    os.abort()

@pytest.mark.skip
def test_not():
    pass

def test_last():
    from jax._src.test_util import test_device_matches

    assert test_device_matches(["cpu"])

def test_of_the_name():
    from jax._src.test_util import test_device_matches

    assert not test_device_matches(["cpu"])
"""


def test_a_table(tmp_path, capsys, monkeypatch):
    from refxla_conformance.jax_tests import command

    environment()
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "some_test.py").write_text(TESTS)
    report = tmp_path / "report.txt"
    status = command.main([str(tmp_path), "some", "nothing", "--as-cpu", "--report", str(report)])
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert rows[0] == ["file", "passed", "failed", "skipped", "crashed", "hung", "cpu", "too"]
    assert rows[1] == ["tests/some_test.py", "6", "2", "1", "1", "0", "3"]
    assert rows[2][:3] == ["tests/nothing_test.py", "not", "run:"]
    assert status == 1
    assert command.main([str(tmp_path), "nothing"]) == 1  # that nothing ran is no success
    reported, stacks = report.read_text().split("    Fatal Python error: Aborted", 1)
    assert "in test_dies" in stacks
    assert reported == (
        "failed   (on the CPU, too) tests/some_test.py::test_ends_badly: assert False\n"
        "failed   (on the CPU, too) tests/some_test.py::test_wrong: assert False\n"
        "crashed  (on the CPU, too) tests/some_test.py::test_dies\n"
    )


def test_what_is_no_checkout(tmp_path, capsys):
    from refxla_conformance.jax_tests import command

    assert command.main([str(tmp_path / "nosuch")]) == 2
    assert "nosuch is no checkout of JAX: it has no folder tests" in capsys.readouterr().err


def test_samples(tmp_path, capsys, monkeypatch):
    """Those of all offsets are the whole file; one that would be empty, or a repetition, is an error."""
    from refxla_conformance.jax_tests import command, runner
    from refxla_conformance.jax_tests.runner import Outcome

    (tmp_path / "tests").mkdir()
    run = []
    monkeypatch.setattr(runner.Runner, "collect", lambda self, file, expression: ([f"t::{n}" for n in range(5)], ""))
    monkeypatch.setattr(
        runner.Runner, "run", lambda self, names: (run.extend(names), [(n, Outcome("passed")) for n in names])[1]
    )
    kept = tmp_path / "kept.json"
    for offset in range(2):
        arguments = [str(tmp_path), "some", "--every", "3", "--offset", str(offset), "--json", str(kept)]
        assert command.main(arguments) == 0
    assert run == ["t::0", "t::3", "t::1", "t::4"] and '"outcomes": "pp-pp"' in kept.read_text()
    for _ in range(2):  # the second time, no test is left
        assert command.main([str(tmp_path), "some", "--rest", "--json", str(kept)]) == 0
    assert run[4:] == ["t::2"] and '"outcomes": "ppppp"' in kept.read_text()
    assert command.main([str(tmp_path), "some", "--rest", "--json", str(kept), "--cases", "2"]) == 0
    assert len(run) == 5 + 5  # which are other tests
    assert command.main([str(tmp_path), "some", "--rest"]) == 2
    assert "--rest needs the outcomes of earlier runs" in capsys.readouterr().err
    assert command.main([str(tmp_path), "some", "--minutes", "1e-9"]) == 0
    assert len(run) == 5 + 5 and "minutes are over; some and the files after it were not run" in capsys.readouterr().out
    assert command.main([str(tmp_path), "some", "--every", "9", "--offset", "7"]) == 1
    assert "not run: it has only 5 tests" in capsys.readouterr().out
    assert command.main([str(tmp_path), "some", "--every", "3", "--offset", "3"]) == 2
    assert "--offset 3 is not below --every 3" in capsys.readouterr().err


HANGS = """
import os, signal, subprocess, sys, threading, time

def waits_for_ever():
    threading.Event().wait()

def test_fine():
    pass

def test_hangs():
    children = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    with open("pid", "w") as file:
        file.write(str(children.pid))
    threading.Thread(target=waits_for_ever, name="waiter").start()
    threading.Lock().acquire()
    waits_for_ever()

def test_dies():
    os.abort()
"""


def test_the_stacks_of_what_hangs_and_dies(tmp_path):
    """A test that hangs costs only itself, and shows what each thread waits for; its processes end with it."""
    from refxla_conformance.jax_tests.runner import Runner

    (tmp_path / "hangs_test.py").write_text(HANGS)
    runner = Runner(tmp_path, "cpu", limit=8, devices=1, cases=1)
    names = [f"hangs_test.py::test_{name}" for name in ("fine", "hangs", "dies")]
    outcomes = dict(runner.run(names))
    assert [outcomes[name].ended for name in names] == ["passed", "hung", "crashed"]
    hung, died = outcomes[names[1]].stacks, outcomes[names[2]].stacks
    assert hung.count("in waits_for_ever") == 2 and "in test_hangs" in hung
    assert "Fatal Python error: Aborted" in died and "in test_dies" in died
    assert (
        not Path(f"/proc/{(tmp_path / 'pid').read_text()}/cmdline").exists()
        or not Path(f"/proc/{(tmp_path / 'pid').read_text()}/cmdline").read_bytes()
    )  # gone, or a zombie that nobody has waited for


def test_being_stopped_is_not_being_silent(tmp_path):
    """The limit counts only time in which the runner runs, too: both may be stopped, as a suspended machine does."""
    (tmp_path / "slow_test.py").write_text("import time\n\ndef test_slow():\n    time.sleep(9)\n")
    program = (
        "import sys; from pathlib import Path; from refxla_conformance.jax_tests.runner import Runner\n"
        f"runner = Runner(Path({str(tmp_path)!r}), 'cpu', limit=15, devices=1, cases=1)\n"
        "print([outcome.ended for _, outcome in runner.run(['slow_test.py::test_slow'])])"
    )
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    time.sleep(3)
    process.send_signal(signal.SIGSTOP)
    time.sleep(18)
    process.send_signal(signal.SIGCONT)
    assert process.communicate(timeout=120)[0] == "['passed']\n"


def test_no_time(tmp_path):
    """A deadline ends a child, whose current test has no outcome."""
    from refxla_conformance.jax_tests.runner import Runner

    (tmp_path / "slow_test.py").write_text(
        "import time\n\ndef test_fast():\n    pass\n\ndef test_slow():\n    time.sleep(600)\n"
    )
    runner = Runner(tmp_path, "cpu", 300, devices=1, cases=1, deadline=time.monotonic() + 20)
    outcomes = dict(runner.run(["slow_test.py::test_fast", "slow_test.py::test_slow"]))
    assert {name: outcome.ended for name, outcome in outcomes.items()} == {"slow_test.py::test_fast": "passed"}


def test_the_data_of_a_table(tmp_path):
    """Outcomes of several runs add up; other tests are a file anew."""
    from refxla_conformance.jax_tests import outcomes
    from refxla_conformance.jax_tests.runner import Outcome

    file = tmp_path / "outcomes.json"
    names = ["t::a", "t::b", "t::c", "t::d", "t::e"]
    tests = {"t::a": Outcome("passed"), "t::b": Outcome("skipped", "why"), "t::c": Outcome("failed", "ValueError: x")}
    outcomes.keep(file, "t", names, {"t::a": Outcome("failed")}, frozenset(), {"cases": 1})
    outcomes.keep(file, "u", names, tests, frozenset({"t::c"}), {"cases": 1})
    assert outcomes.missing(file, "t", names, {"cases": 1}) == ["t::b", "t::c", "t::d", "t::e"]
    outcomes.keep(file, "t", names, tests, frozenset(), {"cases": 1})
    outcomes.keep(file, "t", names, {"t::d": Outcome("hung", stacks="long")}, frozenset(), {"cases": 1})
    ((version, kept),) = outcomes.read(file).items()
    assert version and set(kept["files"]) == {"t", "u"}
    assert kept["files"]["t"]["outcomes"] == "psfh-"
    assert outcomes.counts(kept["files"]["t"]) == {"failed": 1, "hung": 1, "passed": 1, "skipped": 1}
    assert kept["files"]["t"]["options"] == {"cases": 1} and len(kept["files"]["t"]["runs"]) == 1
    assert kept["files"]["t"]["wrong"] == [
        {"test": "t::c", "outcome": "failed", "reason": "ValueError: x", "cpu": True},
        {"test": "t::d", "outcome": "hung", "reason": "", "cpu": True},
    ]
    assert outcomes.share(kept["files"].values()) == 2 / 4  # what fails on JAX's CPU, too, does not count
    assert outcomes.missing(file, "t", names, {"cases": 1}) == ["t::e"]
    assert outcomes.missing(file, "t", names, {"cases": 2}) == names
    outcomes.keep(file, "t", names[1:], {"t::b": Outcome("passed")}, frozenset(), {"cases": 1})
    assert outcomes.read(file)[version]["files"]["t"]["outcomes"] == "p---"


def test_what_is_published_is_explained():
    from refxla_conformance.jax_tests.outcomes import counts, read, share
    from refxla_conformance.jax_tests.reasons import reason

    for run in read().values():
        files = run["files"].values()
        assert [failure for file in files for failure in file["wrong"] if not reason(failure)] == []
        assert not any(counts(file)[ended] for file in files for ended in ("crashed", "hung"))
        assert share(files) >= 0.97
