"""What is wrong around the program: no device, no cache, no framework. In child processes, as a user would meet it."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pyopencl
import pytest
from command_line import SMALL

PROGRAM = "HloModule m\nENTRY e {\n  x = f32[2] parameter(0)\n  ROOT y = f32[2] negate(x)\n}\n"


def test_no_opencl_device(child, program, tmp_path):
    """One error that says what to install; what needs no device works."""
    original, copy = Path(pyopencl.__file__).parent, tmp_path / "pyopencl"
    for folder in (Path(), Path(".libs")):  # pyopencl as it is without its pocl extra: no file names a platform
        (copy / folder).mkdir()
        for path in (original / folder).iterdir():
            if path.name != ".libs" and path.suffix != ".icd":
                (copy / folder / path.name).symlink_to(path)
    (tmp_path / "vendors").mkdir()
    env = {"PYTHONPATH": str(tmp_path), "OCL_ICD_VENDORS": str(tmp_path / "vendors")}
    for command in (["run", "{}", "--random", 0], ["devices"], ["show", "{}", "--opencl"]):
        error = child(*(str(a).format(program()) for a in command), env=env).error
        assert "no OpenCL device" in error and "pip install 'pyopencl[pocl]'" in error
    assert child("run", program(), "--random", 0, "--device", "reference", env=env).status == 0
    assert child("show", program(), "--optimized", env=env).status == 0


def test_a_cache_that_cannot_be_written_costs_a_warning_and_nothing_else(child, program, tmp_path):
    file = tmp_path / "file"
    file.write_text("in the way")
    result = child("run", program(), "--random", 0, env={"REFXLA_CACHE_DIR": str(file / "cache")})
    assert result.status == 0 and "out0  f32[2,3]" in result.out
    assert result.err.startswith("refxla: warning: the cache ") and result.err.count("\n") == 1
    assert "REFXLA_CACHE_DIR" in result.err


@pytest.mark.parametrize("content", ["proto.pb", "text"])
def test_a_file_that_may_not_be_read(child, tmp_path, content):
    path = tmp_path / content
    path.write_text(SMALL)
    path.chmod(0)
    if os.access(path, os.R_OK):
        path.unlink()
        os.mkfifo(path)  # root reads all files: a pipe without a writer would wait, so it is a folder instead
        path.unlink()
        path.mkdir()
    assert "cannot read" in child("verify", path).error
    path.chmod(stat.S_IRWXU)


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_framework_that_is_not_installed():
    """A function of JAX without JAX."""
    shown = run(
        "import sys\n"
        "sys.modules['jax'] = None\n"
        "import refxla\n"
        "f = type('PjitFunction', (), {'__module__': 'jaxlib._jax', '__call__': lambda self, x: x})()\n"
        "try:\n"
        "    refxla.compile(f, 1.0)\n"
        "except refxla.Error as problem:\n"
        "    print(type(problem).__name__, problem)\n"
    )
    assert shown.startswith("InputError") and "pip install" in shown and "jax" in shown.lower()


def test_a_device_that_was_named_and_is_gone(child, program):
    error = child("run", program(), "--random", 0, env={"REFXLA_DEVICE": "nvidia:0"}).error
    assert "'nvidia:0' (REFXLA_DEVICE names it)" in error and "pocl" in error


def test_memory_that_is_not_there(refxla, program):
    shape = "f32[4000000,1000000]"
    text = f"HloModule m\nENTRY e {{\n  c = f32[] constant(1)\n  ROOT b = {shape} broadcast(c), dimensions={{}}\n}}\n"
    assert "not enough memory" in refxla("run", program(text)).error
    text = f"HloModule m\nENTRY e {{\n  ROOT b = {shape} parameter(0)\n}}\n"
    assert "not enough memory" in refxla("run", program(text), "--random", 0).error


@pytest.mark.parametrize(
    "name, value", [("HOME", "/proc"), ("HOME", "/dev/null"), ("XDG_CACHE_HOME", "/proc"), ("HOME", None)]
)
def test_a_home_that_cannot_be_written_costs_a_warning_and_nothing_else(child, program, monkeypatch, name, value):
    """Neither our cache nor pyopencl's stops a program. Of a user whose HOME is not set the system knows the home."""
    for variable in ("REFXLA_CACHE_DIR", "XDG_CACHE_HOME", name):
        monkeypatch.delenv(variable, raising=False)
    result = child("run", program(), "--random", 0, env={name: value} if value else {})
    assert result.status == 0 and "out0  f32[2,3]" in result.out
    assert result.err.count("\n") <= 1 and "Traceback" not in result.err
    if value:
        assert result.err.startswith("refxla: warning: the cache ") and "REFXLA_CACHE_DIR" in result.err
