"""The linker of processes that compile kernels alone: a script that leaves out libraries that are not needed."""

from __future__ import annotations

import shutil
import stat
import subprocess

import pytest

from refxla.runtime.pocl import linker

needs_tools = pytest.mark.skipif(not (shutil.which("cc") and shutil.which("ld")), reason="there is no compiler of C")


def linked(place, name: str, source: str, *libraries: str):
    """The result of linking a function to a shared library by the script of the folder `place`."""
    (place / f"{name}.c").write_text(source)
    subprocess.run(["cc", "-fPIC", "-O1", "-c", f"{name}.c"], cwd=place, check=True)
    script = linker.environment(place / "link er")["COMPILER_PATH"] + "/ld"
    command = [script, "-shared", "-o", f"{name}.so", f"{name}.o", *libraries]
    return subprocess.run(command, cwd=place, capture_output=True, text=True)


@needs_tools
def test_libraries_that_nothing_needs_are_not_read(tmp_path):
    assert linked(tmp_path, "alone", "int f(int a) { return a + 1; }", "-lno_such_library").returncode == 0
    assert (tmp_path / "alone.so").stat().st_size > 0


@needs_tools
def test_libraries_that_something_needs_are_read(tmp_path):
    source = "int g(int); int f(int a) { return g(a); }"
    failed = linked(tmp_path, "lost", source, "-lno_such_library")
    assert failed.returncode != 0 and "no_such_library" in failed.stderr
    library = tmp_path / "libother.so"
    (tmp_path / "other.c").write_text("int g(int a) { return a + 2; }")
    subprocess.run(["cc", "-fPIC", "-shared", "-o", library, "other.c"], cwd=tmp_path, check=True)
    assert linked(tmp_path, "found", source, f"-L{tmp_path}", "-lother").returncode == 0
    assert b"libother.so" in (tmp_path / "found.so").read_bytes()


def test_the_script_is_first_and_made_once(monkeypatch, tmp_path):
    monkeypatch.setattr(shutil, "which", lambda name: "/some where/ld")
    monkeypatch.setenv("COMPILER_PATH", "/others")
    place = tmp_path / "linker"
    for _ in range(2):
        assert linker.environment(place) == {"COMPILER_PATH": f"{place}:/others"}
    assert [path.name for path in place.iterdir()] == ["ld"]
    assert stat.S_IMODE((place / "ld").stat().st_mode) == 0o700 and "'/some where/ld'" in (place / "ld").read_text()


def test_without_a_linker_or_room_nothing_changes(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    if shutil.which("ld"):
        assert linker.environment(tmp_path / "file" / "linker") == {}
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert linker.environment(tmp_path / "linker") == {} and not (tmp_path / "linker").exists()
