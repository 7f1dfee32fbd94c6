"""What PoCL compiled, kept and put back."""

from __future__ import annotations

import dataclasses
import io
import zipfile

import numpy as np
import pytest

from refxla.codegen.opencl_program import program
from refxla.runtime import disk_cache, opencl_compiler
from refxla.runtime.discovery import pocl_directory
from refxla.runtime.executable import Executable
from refxla.runtime.opencl_compiler import program_key
from refxla.runtime.pocl import kernels, program_build, program_files


@pytest.fixture(autouse=True)
def cache_of_this_test(monkeypatch, tmp_path, device):
    _ = device.properties  # kept in the cache that all tests share
    monkeypatch.setenv("REFXLA_CACHE_DIR", str(tmp_path))


@pytest.fixture
def compiled(monkeypatch):
    """The sources that were compiled."""
    sources = []
    real = opencl_compiler.compile_source
    for module in (kernels, program_build):
        monkeypatch.setattr(module, "compile_source", lambda *a, **k: sources.append(a[2]) or real(*a, **k))
    return sources


def two_steps(maker, device, factor: str, summand: str):
    """y = x * factor + summand, each step a part of its own."""
    x, y = maker.parameter("f32", 8), maker.result("f32", 8)
    between = maker.inside("arena", "f32", 8)
    first = maker.launch(f"for (int i = 0; i < 8; ++i) a1[i] = a0[i] * {factor}f;", [x], [between])
    second = maker.launch(f"for (int i = 0; i < 8; ++i) a1[i] = a0[i] + {summand}f;", [between], [y])
    plan = maker.plan(first, second)
    return plan, program(plan.kernels, device.target, part=1)


def value(two, device) -> float:
    return float(Executable(*two, device)(np.ones(8, np.float32))[0][0])


def test_programs_that_were_kept_do_not_mix(maker, device, compiled):
    one, two = (two_steps(type(maker)(), device, factor, "0.5") for factor in ("11.0", "12.0"))
    assert (value(one, device), value(two, device)) == (11.5, 12.5)
    assert compiled
    compiled.clear()
    assert (value(one, device), value(two, device)) == (11.5, 12.5)
    assert (value(two, device), value(one, device)) == (12.5, 11.5)
    assert not compiled


def test_what_another_program_compiled_before_is_kept_too(maker, device, compiled):
    one, two = (two_steps(type(maker)(), device, "13.0", summand) for summand in ("0.5", "1.5"))
    assert one[1].parts[0] == two[1].parts[0]
    assert (value(one, device), value(two, device)) == (13.5, 14.5)
    packed = program_files.pack(pocl_directory(), two[1].parts)
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        kernels = {name.split("/")[2] for name in archive.namelist() if name.endswith(".so")}
    assert kernels == {name for name, _ in two[1].entries}
    assert program_files.pack(pocl_directory(), ()) is None


def test_other_versions_find_the_files_where_they_were(maker, device, tmp_path):
    one = two_steps(maker, device, "15.0", "0.5")
    assert value(one, device) == 15.5
    packed = program_files.pack(pocl_directory(), one[1].parts)
    other = dataclasses.replace(device, driver="OpenCL 3.0 PoCL 6.0")
    made = program_files.restore(packed, tmp_path / "pocl", other, device.small, one[1].parts, "")
    assert made == [None, None]
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        found = {p.relative_to(tmp_path / "pocl").as_posix() for p in (tmp_path / "pocl").rglob("*") if p.is_file()}
        assert found == set(archive.namelist())


def test_bitcode_that_is_not_taken_is_compiled_anew(maker, device, compiled):
    one = two_steps(maker, device, "16.0", "0.5")
    assert value(one, device) == 16.5
    store = disk_cache.cache()
    name = program_key([p.source for p in one[1].parts], device.build_options, device.small)
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(store.get(name))) as archive, zipfile.ZipFile(out, "w") as changed:
        for member in archive.namelist():
            changed.writestr(member, b"no bitcode" if member.endswith(".bc") else archive.read(member))
    store.put(name, out.getvalue())
    compiled.clear()
    assert value(one, device) == 16.5
    assert compiled and store.get(name) != out.getvalue()
