"""Where programs are compiled: no room, no temporary directory."""

from __future__ import annotations

import shutil
import tempfile
import threading

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


def test_a_device_gets_ready_once_and_for_new_programs_only(device, monkeypatch, tmp_path):
    monkeypatch.setenv("REFXLA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(build, "_ready", set())
    compiled = []
    real = build.compile_source
    monkeypatch.setattr(build, "compile_source", lambda *given: compiled.append(real(*given)))
    thread = build.prepare(device, device.small, "a program")
    thread.join()
    assert len(compiled) == 1
    assert build.prepare(device, device.small, "another program") is None, "the library is loaded"
    build._ready.clear()
    assert build.prepare(device, device.small, "a program") is None, "it lies in the cache"
    build.prepare(device, device.small, "another program").join()
    assert len(compiled) == 2


def test_getting_ready_fails_in_silence(device, monkeypatch, tmp_path):
    monkeypatch.setenv("REFXLA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(build, "_ready", set())
    real = shutil.disk_usage
    monkeypatch.setattr(build.shutil, "disk_usage", lambda path: real(path)._replace(free=1000))
    problems = []
    monkeypatch.setattr(threading, "excepthook", problems.append)
    build.prepare(device, device.small, "a program").join()
    assert not problems
