"""The measuring commands: what they measure and how they print it. No test here depends on the speed of anything."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def from_the_root(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))


def run(*arguments: str) -> str:
    return subprocess.run(
        [sys.executable, "-m", *arguments], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout


def test_calls_take_turns():
    from bench.machine import in_turns, summary

    order = []
    samples = in_turns({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, seconds=0, turns=3)
    assert "".join(order) == "aabb" * 3, "a call to warm up and one that counts, in each turn"
    assert [len(s) for s in samples.values()] == [3, 3]
    assert summary([3.0, 1.0, 2.0]) == {"median": 2.0, "best": 1.0}


def test_a_profile_names_every_kernel_with_its_bytes():
    import refxla
    from bench.profile import profile

    program = refxla.compile((ROOT / "examples/fused_sum/fused_sum.hlo").read_text())
    (row,) = profile(program, seconds=0)
    plan = program.plan
    assert row.kernel == plan.kernels[0].name
    assert row.bytes == sum(s.bytes for s in (*plan.parameters, *plan.results))
    assert row.seconds > 0
    assert row.gigabytes_per_second == pytest.approx(row.bytes / row.seconds / 1e9)


def test_the_profile_prints_json_and_source(tmp_path):
    file = str(ROOT / "examples/fused_sum/fused_sum.hlo")
    shown = json.loads(run("bench.profile", file, "--json"))
    name = shown["kernels"][0]["kernel"]
    assert shown["machine"]["cores"] >= 1
    assert "for (" in run("bench.profile", file, "--kernel", name)


def test_peers_prints_a_table_and_writes_json(tmp_path):
    file = tmp_path / "figures.json"
    shown = run("bench.peers", "dispatch", "--seconds", "0", "--turns", "1", "--json", str(file))
    assert "x + 1 on 8 numbers" in shown
    figures = json.loads(file.read_text())
    assert figures["seconds"]["x + 1 on 8 numbers"]["refxla"]["best"] > 0
    assert figures["machine"]["processor"]


def test_every_program_of_the_models_has_its_files():
    from bench.benchmarks.models import PROGRAMS
    from bench.benchmarks.peers import example

    for name, file, batch in PROGRAMS.values():
        if batch is None:
            hlo, arguments = example(name, file)
            assert hlo.startswith("HloModule") and arguments
