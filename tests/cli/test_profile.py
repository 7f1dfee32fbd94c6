"""profile: each step has its time; what a call runs, how often, and what it moves."""

import json
import re

import numpy as np
import pytest
from command_line import EXAMPLES

import refxla
from refxla.compiler import kernel_profile

LOOP = """HloModule loop

body {
  s = (s32[], f32[64,64], f32[64,64]) parameter(0)
  n = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  next = s32[] add(n, one)
  x = f32[64,64] get-tuple-element(s), index=1
  w = f32[64,64] get-tuple-element(s), index=2
  y = f32[64,64] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  z = f32[64,64] tanh(y)
  ROOT out = (s32[], f32[64,64], f32[64,64]) tuple(next, z, w)
}

condition {
  s = (s32[], f32[64,64], f32[64,64]) parameter(0)
  n = s32[] get-tuple-element(s), index=0
  end = s32[] get-tuple-element(s), index=0
  seven = s32[] constant(7)
  ROOT more = pred[] compare(n, seven), direction=LT
}

ENTRY e {
  zero = s32[] constant(0)
  x = f32[64,64] parameter(0)
  w = f32[64,64] parameter(1)
  start = (s32[], f32[64,64], f32[64,64]) tuple(zero, x, w)
  end = (s32[], f32[64,64], f32[64,64]) while(start), condition=condition, body=body
  ROOT r = f32[64,64] get-tuple-element(end), index=1
}
"""
X, W = np.random.default_rng(0).standard_normal((2, 64, 64), np.float32)


def test_each_kernel_of_an_example_has_its_line(refxla, tmp_path):
    file = tmp_path / "trace.json"
    out = refxla("profile", EXAMPLES / "mlp" / "step.hlo", "--seconds", 0.05, "--trace", file).out
    kernels = int(re.search(r"each kernel a launch: [\d.,]+ us a call, (\d+) kernels", out)[1])
    rows = re.findall(r"^ ((?:dot|reduction|loop)\S+) +([\d.,]+) +\d+% +1 +([\d.,]+) +[\d.]+ \w+ +[\d.]+", out, re.M)
    assert len(rows) == kernels >= 8 and all(float(us.replace(",", "")) > 0 for _, us, _ in rows)
    trace = json.loads(file.read_text())
    events = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    assert {e["name"] for e in events if e["tid"] == 2} == {name for name, _, _ in rows}
    assert all(e["dur"] >= 0 and e["ts"] >= 0 for e in events)
    for tid in (1, 2):
        ends = [(e["ts"], e["ts"] + e["dur"]) for e in events if e["tid"] == tid]
        assert all(a[1] <= b[0] + 0.01 for a, b in zip(ends, ends[1:], strict=False)), "steps follow each other"
    names = [e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "thread_name"]
    assert names == ["as compiled", "each kernel a launch"]


def test_loops_are_counted_and_bytes_are_those_of_all_iterations():
    program = refxla.compile(LOOP, without=("launch-merging",))
    made = program.profile(X, W, seconds=0.01)
    assert made.launches is made.kernels and not made.is_merged and "each kernel" not in str(made)
    (product,) = [s for s in made.kernels.steps if s.kind == "dot"]
    assert product.count == 7 and product.bytes == 7 * 3 * X.nbytes and product.model > 0
    assert product.gigabytes_per_second == pytest.approx(product.bytes / product.seconds / 1e9)
    assert product.operations >= 7 * 2 * 64**3 and "tanh" in product.does
    assert made.kernels.total == len(made.kernels.events) == sum(s.count for s in made.kernels.steps)


def test_both_executables_compute_the_same(monkeypatch):
    results = []
    real = kernel_profile.Executable.__call__
    monkeypatch.setattr(
        kernel_profile.Executable, "__call__", lambda self, *a: results.append(real(self, *a)) or results[-1]
    )
    made = refxla.compile(LOOP).profile(X, W, seconds=0)
    assert made.is_merged and len(results) == 2 and np.array_equal(*results)
    assert [s.kind for s in made.launches.steps] == ["merged"] and "dot." in made.launches.steps[0].does


def test_only_so_many_steps_are_noted(refxla, program, monkeypatch):
    monkeypatch.setattr(kernel_profile, "MOST_EVENTS", 3)
    out = refxla("profile", program(LOOP), "--seconds", 0.01, "--without", "launch-merging").out
    assert re.search(r"Of (\d+) steps in a call the first 3 were measured\.", out)


def test_calls_of_a_library_are_steps():
    text = "HloModule m\nENTRY e { x = f32[4,9,9] parameter(0) ROOT r = f32[4,9,9] cholesky(x), lower=true }"
    made = refxla.compile(text).profile(np.tile(np.eye(9, dtype=np.float32), (4, 1, 1)), seconds=0)
    assert any(s.kind == "library" and s.name.startswith("spotrf") and s.model > 0 for s in made.launches.steps)


def test_functions_and_what_is_loaded_are_profiled(tmp_path):
    function = refxla.compile(lambda p, scale: np.tanh(p["x"] @ p["w"]) * scale)
    made = function.profile({"x": X, "w": W}, 2.5, seconds=0)
    assert any(s.kind == "dot" for s in made.kernels.steps)
    function.save(tmp_path / "f.refxla")
    again = refxla.load(tmp_path / "f.refxla").profile({"x": X, "w": W}, scale=2.5, seconds=0)
    assert [s.name for s in again.kernels.steps] and again.name == made.name
    sized = refxla.compile("HloModule m\nENTRY e { x = f32[<=4,2] parameter(0) ROOT y = f32[<=4,2] add(x, x) }")
    assert sized.profile(np.ones((3, 2), np.float32), seconds=0).kernels.steps


def test_what_is_not_profiled(refxla, program):
    assert "the reference has no kernels" in refxla("profile", program(), "--device", "reference").error
    assert "has to be above 0" in refxla("profile", program(), "--seconds", 0).error
    assert "at least one kernel" in refxla("profile", program(), "--top", 0).error


def test_arguments_are_checked():
    with pytest.raises(refxla.InputError, match="takes 2 arguments"):
        refxla.compile(LOOP).profile(X)
