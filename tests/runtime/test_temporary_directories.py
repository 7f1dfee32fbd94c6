"""Directories of a process: none can be made, and those that killed processes left."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from refxla_spec.errors import DeviceError

from refxla.runtime.temporary_directories import scratch

CHILD = """
import sys, time
from refxla.runtime.temporary_directories import scratch
path = scratch()
(path / "pocl").mkdir()
(path / "pocl" / "kernel").write_text("compiled")
print(path, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def begin(monkeypatch, tmp_path):
    """A process with a directory, and the directory; what is left of it is ended."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    children = []

    def start() -> tuple[subprocess.Popen, Path]:
        pipe = subprocess.PIPE
        child = subprocess.Popen([sys.executable, "-c", CHILD], stdin=pipe, stdout=pipe, text=True)
        children.append(child)
        return child, Path(child.stdout.readline().strip())

    yield start
    for child in children:
        child.kill()
        child.communicate()


def test_no_temporary_directory(monkeypatch):
    def refuse(**_):
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr(tempfile, "mkdtemp", refuse)
    with pytest.raises(DeviceError, match="No usable temporary directory found.*set TMPDIR"):
        scratch()


def test_a_process_removes_its_own(begin):
    child, path = begin()
    assert (path / "pocl" / "kernel").exists()
    child.communicate()
    assert not path.exists()


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_what_a_killed_process_left_is_removed_by_the_next(how, begin, tmp_path):
    killed, left = begin()
    _, living = begin()
    killed.send_signal(how)
    killed.wait()
    assert (left / "pocl" / "kernel").exists()
    other = tmp_path / "refxla-another"  # somebody's own
    other.mkdir()
    _, later = begin()
    assert not left.exists() and other.exists()
    assert (living / "pocl" / "kernel").exists() and (later / "pocl" / "kernel").exists()
