"""Where programs are compiled: no room."""

from __future__ import annotations

import shutil

import pytest
from refxla_spec.errors import DeviceError


def test_a_full_temporary_directory(device, maker, executable, monkeypatch):
    plan = maker.plan(maker.launch("a0[0] = 41;", [], [maker.result("s32")]))
    real = shutil.disk_usage
    monkeypatch.setattr(shutil, "disk_usage", lambda path: real(path)._replace(free=1000))
    with pytest.raises(DeviceError, match="1,000 bytes are free: make room there, or set TMPDIR"):
        executable(plan)
    monkeypatch.setattr(shutil, "disk_usage", real)
    assert executable(plan)()[0] == 41
