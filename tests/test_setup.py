"""How the core is built: what an interrupted build has made is kept, and one kind is not taken for the other."""

import importlib.util
import re
import shutil
import sys
from configparser import ConfigParser
from pathlib import Path

import pytest

pytest.importorskip("setuptools")
if shutil.which("cc") is None and shutil.which("gcc") is None:
    pytest.skip("there is no C compiler", allow_module_level=True)

from setuptools import Distribution, Extension  # noqa: E402

SETUP = Path(__file__).parents[1] / "setup.py"
SOURCE = """
#include <Python.h>
static struct PyModuleDef def = {PyModuleDef_HEAD_INIT, "NAME", NULL, -1, NULL};
PyMODINIT_FUNC PyInit_NAME(void) { return PyModule_Create(&def); }
"""


@pytest.fixture
def setup():
    """setup.py as a module."""
    if not SETUP.exists():
        pytest.skip("not in a checkout")
    spec = importlib.util.spec_from_file_location("refxla_setup", SETUP)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def project(tmp_path, monkeypatch, setup):
    """build(kind, stop_at) builds the extensions a, b and c in a folder; gives the names of those that were
    compiled."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(setup, "ROOT", tmp_path)
    for name in "abc":
        (tmp_path / f"{name}.c").write_text(SOURCE.replace("NAME", name))
    compiled = []

    class Build(setup.BuildCore):
        def run(self):
            self.parallel = None
            super().run()

        def build_extensions(self):
            real = self.compiler.compile

            def compile(sources, **options):
                compiled.append(sources[0][0])
                if sources[0][0] == self.distribution.stop_at:
                    raise KeyboardInterrupt
                return real(sources, **options)

            self.compiler.compile = compile
            super().build_extensions()

    def build(kind, stop_at=None):
        monkeypatch.setattr(setup, "BUILD_KIND", kind)
        compiled.clear()
        distribution = Distribution({"name": "x", "ext_modules": [Extension(n, [f"{n}.c"]) for n in "abc"]})
        distribution.stop_at = stop_at
        command = Build(distribution)
        command.inplace = True
        command.ensure_finalized()
        try:
            command.run()
        except KeyboardInterrupt:
            pass
        return list(compiled)

    return build


def test_the_oldest_release_of_each_framework_is_tested(setup):
    """What setup.py asks for at least is what tox pins, and what the documentation says; an environment takes any."""
    environments = ConfigParser()
    environments.read(SETUP.with_name("tox.ini"))
    lines = [
        line.split("#")[0].strip()
        for name in environments.sections()
        if name != "testenv:gpu"  # pins compilers, not frameworks
        for line in environments.get(name, "deps", fallback="", raw=True).splitlines()
    ]
    pinned = dict(line.split("==") for line in lines if "==" in line)
    assert pinned == {**setup.OLDEST, "jaxlib": setup.OLDEST["jax"]}
    assert {"torch", "tensorflow-cpu"} <= set(lines)  # and the extra `test` takes any JAX
    page = (SETUP.parent / "docs" / "install.md").read_text("utf-8")
    stated = dict(re.findall(r"^\| (\w+)[^|]*\| ([\d.]+) \|", page, re.M))
    named = {"JAX": "jax", "PyTorch": "torch", "TensorFlow": "tensorflow-cpu"}
    assert {named[name]: release for name, release in stated.items()} == setup.OLDEST
    for extra in ("jax", "tensorflow", "torch"):
        said = (SETUP.parent / "docs" / f"{extra}.md").read_text("utf-8")
        release = re.search(r"refxla with \w+ ([\d.]+) or newer", said)[1]
        oldest = next(v for name, v in setup.OLDEST.items() if name.startswith(extra))
        assert oldest.removesuffix(".0") == release


def test_an_interrupted_build_goes_on(project, tmp_path):
    assert project("release", stop_at="b") == ["a", "b"]
    assert project("release") == ["b", "c"]
    assert project("release") == []
    (tmp_path / "c.c").touch()
    assert project("release", stop_at="c") == ["c"]
    assert project("release") == ["c"]


def test_another_kind_is_built_anew(project):
    project("release")
    assert project("checked", stop_at="c") == ["a", "b", "c"]
    assert project("checked") == ["c"]
    assert project("release") == ["a", "b", "c"]


def test_what_an_older_build_left_is_known(project, tmp_path):
    """It had one stamp for all of it."""
    project("release")
    former = tmp_path / "build" / f"kind-{sys.implementation.cache_tag}"
    for kind, compiled in (("release", []), ("checked", ["a", "b", "c"])):
        shutil.rmtree(tmp_path / "build" / "kinds")
        former.write_text("release")
        assert project(kind) == compiled and not former.exists()
