"""The runner of JAX's own tests, on a checkout of tests that pass, fail, are skipped, kill their process."""

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
    assert report.read_text() == (
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
    for offset in range(3):
        arguments = [str(tmp_path), "some", "--every", "3", "--offset", str(offset), "--json", str(kept)]
        assert command.main(arguments) == 0
    assert sorted(run) == [f"t::{n}" for n in range(5)] and run[:2] == ["t::0", "t::3"]
    assert '"offset": 2' in kept.read_text()
    assert command.main([str(tmp_path), "some", "--every", "9", "--offset", "7"]) == 1
    assert "not run: it has only 5 tests" in capsys.readouterr().out
    assert command.main([str(tmp_path), "some", "--every", "3", "--offset", "3"]) == 2
    assert "--offset 3 is not below --every 3" in capsys.readouterr().err


def test_the_data_of_a_table(tmp_path, monkeypatch):
    from refxla_conformance.jax_tests import outcomes
    from refxla_conformance.jax_tests.runner import Outcome

    file = tmp_path / "outcomes.json"
    tests = {"t::a": Outcome("passed"), "t::b": Outcome("skipped", "why"), "t::c": Outcome("failed", "ValueError: x")}
    outcomes.keep(file, "t", {"t::a": Outcome("failed")}, frozenset(), {"every": 2})
    outcomes.keep(file, "u", tests, frozenset({"t::c"}), {"every": 1})
    outcomes.keep(file, "t", {**tests, "t::d": Outcome("hung")}, frozenset(), {"every": 1})
    ((version, kept),) = outcomes.read(file).items()
    assert version and set(kept["files"]) == {"t", "u"}
    assert kept["files"]["t"]["counts"] == {"failed": 1, "hung": 1, "passed": 1, "skipped": 1}
    assert kept["files"]["t"]["options"] == {"every": 1}
    assert kept["files"]["t"]["wrong"] == [
        {"test": "t::c", "outcome": "failed", "reason": "ValueError: x", "cpu": True},
        {"test": "t::d", "outcome": "hung", "reason": "", "cpu": True},
    ]
    assert outcomes.share(kept["files"].values()) == 1 / 2  # what fails on JAX's CPU, too, does not count


def test_what_is_published_is_explained():
    from refxla_conformance.jax_tests.outcomes import read, share
    from refxla_conformance.jax_tests.reasons import reason

    for run in read().values():
        files = run["files"].values()
        assert [failure for file in files for failure in file["wrong"] if not reason(failure)] == []
        assert not any(file["counts"].get(ended) for file in files for ended in ("crashed", "hung"))
        assert share(files) >= 0.97
