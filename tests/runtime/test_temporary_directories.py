"""Directories of a process: none can be made, and those that killed processes left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from refxla_spec.errors import DeviceError

from refxla.runtime import temporary_directories
from refxla.runtime.temporary_directories import scratch, temporary

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


@pytest.fixture
def nobody_chose(monkeypatch):
    for name in ("TMPDIR", "TEMP", "TMP"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(tempfile, "tempdir", None)


def _memory(monkeypatch, place: Path, free: int, flags: int) -> None:
    """Files in memory lie in `place`."""
    monkeypatch.setattr(temporary_directories, "_IN_MEMORY", str(place))
    about = SimpleNamespace(f_flag=flags, f_bavail=free, f_frsize=1)
    monkeypatch.setattr(os, "statvfs", lambda path: about)


@pytest.mark.usefixtures("nobody_chose")
def test_in_memory_where_there_is_room_and_code_can_be_loaded(monkeypatch, tmp_path):
    disk = Path(tempfile.gettempdir())
    for free, flags, expected in ((1 << 30, 0, tmp_path), (1 << 29, 0, disk), (1 << 30, os.ST_NOEXEC, disk)):
        _memory(monkeypatch, tmp_path, free, flags)
        assert temporary() == expected


@pytest.mark.usefixtures("nobody_chose")
def test_what_the_user_chose_comes_first(monkeypatch, tmp_path):
    chosen = tmp_path / "chosen"
    chosen.mkdir()
    monkeypatch.setenv("TMPDIR", str(chosen))
    _memory(monkeypatch, tmp_path, 1 << 30, 0)
    assert temporary() == chosen


def test_a_process_removes_its_own(begin):
    child, path = begin()
    assert (path / "pocl" / "kernel").exists()
    child.communicate()
    assert not path.exists()


def test_a_process_that_leaves_removes_its_own(tmp_path):
    program = f"{CHILD}\nfrom refxla.runtime.temporary_directories import leave\nleave()"
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True, input=b"", capture_output=True)
    assert not list(tmp_path.iterdir())


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


def test_handlers_of_the_exit_compile_and_nothing_stays(tmp_path):
    program = """
import atexit, os
import numpy as np
import refxla

def compiled():
    import refxla
    print(refxla.compile(lambda x: x + 41.25)(np.float32([1])), os.listdir(os.environ["TMPDIR"]))

atexit.register(compiled)
print(refxla.compile(lambda x: x + 42.25)(np.float32([1])))
"""
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("[43.25]\n[42.25]") and not done.stderr
    assert not list(tmp_path.iterdir())
