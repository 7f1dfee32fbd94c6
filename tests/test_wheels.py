"""The recipe of wheels: what it compiles with, takes along and refuses. `tox -e wheels` builds and tests them."""

from __future__ import annotations

import importlib.util
import platform
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "wheels" / "build.py"


@pytest.fixture
def zig(tmp_path_factory, monkeypatch):
    """Where the program of a package ziglang is, which does nothing."""
    package = tmp_path_factory.mktemp("a b") / "ziglang"
    package.mkdir()
    (package / "__init__.py").touch()
    monkeypatch.syspath_prepend(package.parent)
    return package / "zig"


@pytest.fixture
def wheels(zig):
    if not SCRIPT.exists() or not (ROOT / ".git").exists():
        pytest.skip("not in a checkout")
    spec = importlib.util.spec_from_file_location("wheels_build", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_compiler_is_one_for_an_old_c_library(wheels, zig):
    made = wheels.build_environment(sys.executable, platform.machine())
    # No `python -m ziglang`: pip hides the packages of an environment from what it runs to build.
    assert shlex.split(made["CC"]) == [str(zig), "cc", "-target", f"{platform.machine()}-linux-gnu.2.28"]
    assert made["LDSHARED"] == f"{made['CC']} -shared" and made["REFXLA_CHECKED"] == "0"
    assert not any(name.startswith("_PYTHON") for name in made) and wheels.tag("x86_64") == "manylinux_2_28_x86_64"


def test_without_zig_there_is_a_word_of_it(wheels, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SystemExit, match="pip install ziglang"):
        wheels.compiler(platform.machine())


def test_another_processor_is_compiled_for_across(wheels):
    other = next(m for m in wheels.MACHINES if m != platform.machine())
    made = wheels.build_environment(sys.executable, other)
    version = "{}{}".format(*sys.version_info[:2])
    assert made["SETUPTOOLS_EXT_SUFFIX"] == f".cpython-{version}-{other}-linux-gnu.so"
    assert made["_PYTHON_HOST_PLATFORM"] == f"linux-{other}"
    with pytest.raises(SystemExit) as ended:
        wheels.main(["--machine", other])
    assert ended.value.code == 2


def test_what_is_built_is_what_is_tracked(wheels, tmp_path):
    wheels.copy_tracked(tmp_path)
    assert (tmp_path / "setup.py").read_text() == (ROOT / "setup.py").read_text()
    assert (tmp_path / "refxla" / "_core" / "launch.pyx").exists() and (tmp_path / "spec" / "types.py").exists()
    assert not list(tmp_path.rglob("*.so")) and not (tmp_path / "build").exists()


def test_a_wheel_that_does_not_install_is_a_failure(wheels, tmp_path, monkeypatch, capsys):
    commands = []

    def run(*command, **_):
        commands.append(command)
        if "install" in command:
            raise subprocess.CalledProcessError(1, command)

    monkeypatch.setattr(wheels, "run", run)
    assert wheels.main(["--test", str(tmp_path / "refxla-0-none-any.whl")]) == 1
    assert "failed: " in capsys.readouterr().err and len(commands) == 2


def test_a_wheel_is_tested_without_a_compiler(wheels, tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(wheels, "run", lambda *command, **more: seen.append((command, more)))
    monkeypatch.setenv("CC", "gcc")
    assert wheels.main(["--test", str(tmp_path / "refxla-0-none-any.whl")]) == 0
    used = [more["env"] for _, more in seen if "env" in more]
    assert len(used) == 5 and all("/environment/bin" in e["PATH"] and "CC" not in e for e in used)
    assert [e["PATH"].endswith("/tools") for e in used] == [True] * 4 + [False]  # the linker, and then not even that
    assert [command[1] for command, more in seen if "env" in more] == ["doctor", "run", "build", "-c", "run"]


def test_tools_of_the_environment_are_found_where_it_is_not_active(wheels, monkeypatch):
    monkeypatch.setenv("PATH", "/usr/bin")
    assert wheels.path_of_tools() == f"{Path(sys.executable).parent}:/usr/bin"
