"""The targets, and the child processes that some of them live in."""

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from refxla_conformance import Outcome, check, collect, make_target
from refxla_conformance.targets.child import Child, ChildDied, ChildError, ChildTimedOut
from refxla_spec.errors import InputError, UnsupportedError
from refxla_spec.text import parse

SERVER = """
import os, time
from refxla_conformance.targets.child import serve
from refxla_spec.errors import InvalidProgramError

def refuse():
    raise InvalidProgramError("no", "add_c1")

serve({"pid": os.getpid, "refuse": refuse, "divide": lambda: 1 / 0, "exit": lambda: os._exit(7), "sleep": time.sleep,
       "abort": lambda: (os.write(2, b"the reason"), os.abort()), "print": lambda: print("noise")})
"""


@pytest.fixture
def child(tmp_path, monkeypatch):
    (tmp_path / "a_server.py").write_text(SERVER)
    monkeypatch.syspath_prepend(tmp_path)
    child = Child("a_server")
    yield child
    child.close()


def test_a_child_answers_raises_dies_and_is_replaced(child):
    from refxla_spec.errors import InvalidProgramError

    first = child.ask("pid", limit=60)
    assert child.ask("pid", limit=60) == first and child.ask("print", limit=60) is None
    with pytest.raises(InvalidProgramError, match="no") as refused:
        child.ask("refuse", limit=60)
    assert refused.value.constraint == "add_c1"
    with pytest.raises(ChildError, match="ZeroDivisionError"):
        child.ask("divide", limit=60)
    with pytest.raises(ChildDied, match="signal SIGABRT, saying: the reason"):
        child.ask("abort", limit=60)
    second = child.ask("pid", limit=60)
    assert second != first
    with pytest.raises(ChildTimedOut):
        child.ask("sleep", 10_000, limit=0.3)
    with pytest.raises(ChildDied, match="status 7"):
        child.ask("exit", limit=60)


def test_a_child_dies_with_its_parent(child, tmp_path):
    program = f"""import os, sys; sys.path.insert(0, {str(tmp_path)!r})
from refxla_conformance.targets.child import Child
child = Child("a_server")
print(child.ask("pid", limit=60), flush=True)
child.send("sleep", 600, limit=600)
os._exit(0)"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    end = time.monotonic() + 120
    while is_running(int(done.stdout)):
        assert time.monotonic() < end, "the child is still there"
        time.sleep(0.1)


def is_running(process: int) -> bool:
    """Whether a process has not ended; one whose end nobody asks for stays in the table, in containers."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{process}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_targets_have_names():
    for name in ("reference", "compiled", "compiled-tuned"):
        assert make_target(name).name == name
    assert make_target("compiled:pocl").device == "pocl"
    with pytest.raises(InputError, match="did you mean 'reference'"):
        make_target("refrence")
    assert make_target("refxla_conformance.targets.reference:Reference").name == "reference"


def test_the_compiler_passes_an_operation():
    assert {check(case, make_target("compiled")).outcome for case in collect(["maximum"], ["example"])} == {
        Outcome.PASS
    }


SEVERAL = """HloModule m, replica_count=2

sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

ENTRY e {
  x = f32[2] parameter(0)
  ROOT r = f32[2] all-reduce(x), replica_groups={{0,1}}, to_apply=sum
}
"""


@pytest.mark.parametrize("name", ["reference", "xla-cpu"])
def test_arguments_and_results_of_several_devices_come_device_after_device(name):
    if name == "xla-cpu":
        pytest.importorskip("refxla_conformance.targets.xla_cpu")
    x, y = np.array([1, 2], np.float32), np.array([10, 20], np.float32)
    got = make_target(name).run(parse(SEVERAL), [x, y])
    np.testing.assert_array_equal(got, [[11, 22], [11, 22]])


def test_stablehlos_interpreter_takes_and_gives_every_type():
    pytest.importorskip("refxla_conformance.targets.stablehlo")
    target = make_target("stablehlo")
    types = ("pred", "s4", "u4", "s64", "u16", "bf16", "f16", "f64", "f8e4m3fn", "f8e8m0fnu", "f4e2m1fn", "c64", "c128")
    lines, values, names = [], [], []
    rng = np.random.default_rng(0)
    for n, t in enumerate(types):
        lines.append(f"x{n} = {t}[2,3] parameter({n})\ny{n} = {t}[3,2] transpose(x{n}), dimensions={{1,0}}")
        dtype = parse(f"ROOT x = {t}[] parameter(0)").entry.root.shape.element_type.dtype
        values.append(rng.integers(0, 2, (2, 3)).astype(dtype) * (dtype.type(1) if dtype.kind != "c" else 2 - 3j))
        values[-1] = values[-1].astype(dtype)
        names.append(f"y{n}")
    shapes = ", ".join(f"{t}[3,2]" for t in types)
    hlo = "\n".join(lines) + f"\nROOT t = ({shapes}) tuple({', '.join(names)})"
    got = target.run(parse(hlo), values)
    assert [g.dtype for g in got] == [v.dtype for v in values]
    for g, v in zip(got, values, strict=True):
        assert g.tobytes() == np.ascontiguousarray(v.T).tobytes()
    with pytest.raises(UnsupportedError, match="cholesky"):
        target.run(parse("x = f32[1,1] parameter(0)\nROOT y = f32[1,1] cholesky(x)"), [np.ones((1, 1), np.float32)])
    target.close()
