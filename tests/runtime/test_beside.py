"""Programs in parts, compiled by this process and by one beside it."""

from __future__ import annotations

import sys
from collections import deque
from pathlib import Path

import numpy as np
import pytest
from refxla_spec.errors import DeviceError

from refxla.codegen.program import program
from refxla.runtime import beside, build
from refxla.runtime.beside import Helper, libraries
from refxla.runtime.devices import pocl_directory
from refxla.runtime.executable import Executable

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="PoCL has a process beside it on Linux only")


@pytest.fixture(autouse=True)
def two_processors(monkeypatch, tmp_path, device):
    _ = device.properties  # kept in the cache that all tests share
    monkeypatch.setattr(build, "processors", lambda: 2)
    monkeypatch.setenv("REFXLA_CACHE_DIR", str(tmp_path))


def four_steps(maker, device, salt: int):
    """y = ((x + salt) * 2 - 1) / 4 by kernels of 2, 3, 4 and 5 arguments, which are four parts."""
    x, y = maker.parameter("f32", 8), maker.result("f32", 8)
    values = [x, *(maker.inside("arena", "f32", 8) for _ in range(3)), y]
    formulas = (f"+ {salt}.0f", "* 2.0f", "- 1.0f", "* 0.25f")
    steps = []
    for n, formula in enumerate(formulas):
        inputs = [values[n], *[x] * n]  # the more arguments, the later
        body = f"for (int i = 0; i < 8; ++i) a{len(inputs)}[i] = a0[i] {formula};"
        steps.append(maker.launch(body, inputs, [values[n + 1]]))
    plan = maker.plan(*steps)
    return plan, program(plan.kernels, device.target, part=1)


def right(plan, parts, device, salt: int) -> bool:
    given = np.arange(8, dtype=np.float32)
    (found,) = Executable(plan, parts, device)(given)
    return np.array_equal(found, ((given + salt) * 2 - 1) / 4)


def test_parts(maker, device):
    plan, parts = four_steps(maker, device, 1)
    assert [p.functions for p in parts.parts] == [("refxla_5",), ("refxla_4",), ("refxla_3",), ("refxla_2",)]
    assert parts.entries == (("refxla_2", 0), ("refxla_3", 0), ("refxla_4", 0), ("refxla_5", 0))
    whole = program(plan.kernels, device.target)
    assert len(whole.parts) == 1 and whole.entries == parts.entries
    twice = program([*plan.kernels, *plan.kernels], device.target, part=1)
    assert twice.parts == parts.parts and twice.entries == 2 * parts.entries


def test_a_large_group_is_cut_and_small_ones_are_together(maker, device):
    plan, _ = four_steps(maker, device, 1)
    assert len(program(plan.kernels, device.target, part=100_000).parts) == 1
    one = plan.kernels[0]
    many = [type(one)(one.name, f"{one.body}// {n}\n", one.arguments, 1) for n in range(6)]
    size = len(many[0].body)
    cut = program([*many, plan.kernels[1]], device.target, part=2 * size)
    assert {f for f, _ in cut.entries} == {f for p in cut.parts for f in p.functions}
    assert sum(f.startswith("refxla_2") for p in cut.parts for f in p.functions) > 1
    for kernel, (function, which) in zip(many, cut.entries, strict=False):
        (part,) = (p for p in cut.parts if function in p.functions)
        assert kernel.body in part.source
        assert f"case {which}: " in part.source[part.source.index(f"__kernel void {function}(") :]


def test_the_process_beside_compiles_into_the_directory(maker, device):
    _, parts = four_steps(maker, device, 2)
    directory = pocl_directory()
    before = set(directory.rglob("*.so"))
    helper = Helper(
        deque(parts.parts),
        " ".join(device.target.build_options),
        [1],
        *libraries(),
        device.raw.platform.get_devices().index(device.small),
        directory,
    )
    try:
        helper.wait(120)
        made = {path.stem: path.stat().st_mtime_ns for path in set(directory.rglob("*.so")) - before}
        assert set(made) == {"refxla_2", "refxla_3", "refxla_4", "refxla_5"}
        for part in parts.parts:  # and this process compiles none of it again
            build._compiled(device, device.small, part, " ".join(device.target.build_options), [1])
        assert made == {path.stem: path.stat().st_mtime_ns for path in set(directory.rglob("*.so")) - before}
    finally:
        helper.end()


def test_both_together(maker, device, monkeypatch):
    started = []
    monkeypatch.setattr(build, "Helper", lambda *a: started.append(Helper(*a)) or started[-1])
    plan, parts = four_steps(maker, device, 3)
    assert right(plan, parts, device, 3)
    assert len(started) == 1 and started[0]._child.returncode is not None
    assert right(plan, parts, device, 3) and len(started) == 1  # from the cache


@pytest.mark.parametrize(
    "script", ["import time; time.sleep(1000)", "print('failed: no')", "raise SystemExit", "import os; os.abort()"]
)
def test_a_process_that_does_not_help(maker, device, monkeypatch, tmp_path, script):
    path = tmp_path / "helper.py"
    path.write_text(f"import sys\nsys.stdin.readline()\n{script}\n")
    monkeypatch.setattr(beside, "_SCRIPT", path)
    monkeypatch.setattr(build, "_PATIENCE", 0.1)
    salt = 4 + len(script)
    assert right(*four_steps(maker, device, salt), device, salt)


def test_no_process_can_be_started(maker, device, monkeypatch):
    monkeypatch.setattr(sys, "executable", str(Path("/nowhere/python")))
    assert right(*four_steps(maker, device, 5), device, 5)


def test_an_error_in_any_part_is_told(maker, device):
    plan, _ = four_steps(maker, device, 6)
    broken = [type(k)(k.name, f"this is not C; {k.body}", k.arguments, k.items) for k in plan.kernels]
    with pytest.raises(DeviceError, match="refuses a generated program"):
        Executable(plan, program(broken, device.target, part=1), device)
