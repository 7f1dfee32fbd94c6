"""Where programs are compiled: no room, no temporary directory."""

from __future__ import annotations

import shutil
import tempfile

import pytest
from refxla_spec.errors import DeviceError

from refxla.runtime import build, devices


def test_a_full_temporary_directory(device, maker, executable, monkeypatch):
    plan = maker.plan(maker.launch("a0[0] = 41;", [], [maker.result("s32")]))
    real = shutil.disk_usage
    monkeypatch.setattr(build.shutil, "disk_usage", lambda path: real(path)._replace(free=1000))
    with pytest.raises(DeviceError, match="1,000 bytes are free: make room there, or set TMPDIR"):
        executable(plan)
    monkeypatch.setattr(build.shutil, "disk_usage", real)
    assert executable(plan)()[0] == 41


def test_no_temporary_directory(monkeypatch):
    def refuse(**_):
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr(tempfile, "mkdtemp", refuse)
    with pytest.raises(DeviceError, match="No usable temporary directory found.*set TMPDIR"):
        devices._scratch()
