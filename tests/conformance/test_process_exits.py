"""How short JAX programs end: a sample of the runs of `python -m refxla_conformance.process_exits`."""

import random
import signal

import pytest
from refxla_conformance import process_exits
from refxla_conformance.process_exits import KINDS, Kind

pytest.importorskip("jax")


@pytest.mark.parametrize("kind", ["pending compilation", "exit in a callback", "spawn", "several devices"])
def test_ends_well(kind):
    assert process_exits.run(kind, random.Random("sample"), 180) == ("ended by itself", "")


def test_ends_well_after_control_c(monkeypatch):
    monkeypatch.setitem(KINDS, "waits", Kind("while True:\n    jnp.ones(3) * NUMBER"))
    numbers = random.Random(0)
    monkeypatch.setattr(numbers, "randrange", lambda _: 0)
    assert process_exits.run("waits", numbers, 180) == ("interrupted", "")


@pytest.mark.parametrize(
    ("code", "ending", "problem"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "ended by itself", f"status {-signal.SIGKILL}: "),
        ("raise SystemExit(2)", "ended by itself", "status 2: "),
        ("print('terminate called', file=sys.stderr)", "ended by itself", "its standard error has 'terminate called'"),
        ("import time; time.sleep(60)", "hung", "no end after 1 s"),
    ],
)
def test_what_is_wrong_is_found(monkeypatch, code, ending, problem):
    monkeypatch.setattr(process_exits, "_HEAD", "import sys\n")
    monkeypatch.setitem(KINDS, "wrong", Kind(code))
    numbers = random.Random(0)
    monkeypatch.setattr(numbers, "randrange", lambda _: 1)
    found, why = process_exits.run("wrong", numbers, 1 if ending == "hung" else 180)
    assert found == ending and why.startswith(problem)


def test_a_kind_that_there_is_not(capsys):
    assert process_exits.main(["pending", "--runs", "1"]) == 2
    assert "there is no kind 'pending'; the kinds are pending calls, " in capsys.readouterr().err
