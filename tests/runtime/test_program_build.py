"""Where programs are compiled: no room, nothing to compile."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from refxla_spec.errors import DeviceError

import refxla
from refxla.runtime.pocl import pocl_build


def test_a_full_temporary_directory(device, maker, executable, monkeypatch):
    plan = maker.plan(maker.launch("a0[0] = 41;", [], [maker.result("s32")]))
    real = shutil.disk_usage
    monkeypatch.setattr(shutil, "disk_usage", lambda path: real(path)._replace(free=1000))
    with pytest.raises(DeviceError, match="1,000 bytes are free: make room there, or set TMPDIR"):
        executable(plan)
    monkeypatch.setattr(shutil, "disk_usage", real)
    assert executable(plan)()[0] == 41


def test_a_program_without_kernels_is_not_compiled(device, monkeypatch, tmp_path):
    _ = device.properties
    monkeypatch.setenv("REFXLA_CACHE_DIR", str(tmp_path))
    asked = []
    monkeypatch.setattr(
        pocl_build.ParallelBuild, "finish", lambda self, parts: asked.extend(parts) or [None] * len(parts)
    )
    text = "HloModule m\nENTRY e { p = f32[2,3] parameter(0)\n ROOT r = f32[3,2] reshape(p) }"
    made = refxla.compile(text)
    assert made.program.parts == () and made.opencl == "" and not asked
    given = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert np.array_equal(made(given), given.reshape(3, 2))
