"""What PoCL compiled, kept and put back."""

from __future__ import annotations

import ctypes
import dataclasses
import io
import platform as machine
import shutil
import zipfile

import numpy as np
import pytest

from refxla.codegen.opencl_program import program
from refxla.runtime import disk_cache, opencl_compiler
from refxla.runtime.discovery import pocl_directory
from refxla.runtime.executable import Executable
from refxla.runtime.pocl import built_parts, kernel_library, kernels, program_files
from refxla.runtime.pocl.compile_workers import PartQueue
from refxla.runtime.program_build import build


@pytest.fixture(autouse=True)
def cache_of_this_test(monkeypatch, tmp_path, device):
    _ = device.properties  # kept in the cache that all tests share
    monkeypatch.setenv("REFXLA_CACHE_DIR", str(tmp_path))


@pytest.fixture
def compiled(monkeypatch):
    """The sources that were compiled, by this process or another."""
    sources = []
    put = PartQueue.put
    monkeypatch.setattr(PartQueue, "put", lambda self, part: sources.append(part.source) or put(self, part))
    real = opencl_compiler.compile_source
    for module in (kernels, built_parts):
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


def test_what_another_program_compiled_before_is_opened(maker, device, compiled):
    one, two = (two_steps(type(maker)(), device, "13.0", summand) for summand in ("0.5", "1.5"))
    assert one[1].parts[0] == two[1].parts[0] and one[1].parts[1] != two[1].parts[1]
    assert value(one, device) == 13.5 and set(compiled) == {part.source for part in one[1].parts}
    compiled.clear()
    assert value(two, device) == 14.5 and set(compiled) == {two[1].parts[1].source}


def test_a_part_is_packed_with_all_its_kernels(maker, device):
    (part, _) = two_steps(maker, device, "14.0", "0.5")[1].parts
    directory = program_files.Directory(pocl_directory())
    assert program_files.pack(directory, part) is None
    assert program_files.pack(directory, dataclasses.replace(part, functions=())) is None
    kernels.compiled(device, device.runner, part)
    with zipfile.ZipFile(io.BytesIO(program_files.pack(directory, part))) as archive:
        kernel_of = {name.split("/")[2] for name in archive.namelist() if name.endswith(".so")}
        assert kernel_of == set(part.functions) and any(n.endswith("/program.bc") for n in archive.namelist())
    more = dataclasses.replace(part, functions=(*part.functions, "refxla_1_that_was_not_launched"))
    assert program_files.pack(directory, more) is None


def test_programs_are_found_that_came_after_others(tmp_path):
    directory = program_files.Directory(tmp_path / "pocl")
    assert directory.program("refxla_0_a") is None
    for name in "abc":
        program = tmp_path / "pocl" / "DI" / f"GEST{name}"
        program.mkdir(parents=True)
        assert directory.program(f"refxla_0_{name}") is None  # it is being compiled
        (program / f"refxla_0_{name}").mkdir()
        assert directory.program(f"refxla_0_{name}") == program


def test_other_versions_find_the_files_where_they_were(maker, device, tmp_path):
    one = two_steps(maker, device, "15.0", "0.5")
    assert value(one, device) == 15.5
    part = one[1].parts[0]
    packed = disk_cache.cache().get(built_parts.key(device, part))
    other = dataclasses.replace(device, driver="OpenCL 3.0 PoCL 6.0")
    assert program_files.restore(packed, tmp_path / "pocl", other, device.small) is None
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        found = {p.relative_to(tmp_path / "pocl").as_posix() for p in (tmp_path / "pocl").rglob("*") if p.is_file()}
        assert found == set(archive.namelist())


def test_parts_that_differ_in_their_largest_launch_are_kept_apart(maker, device):
    part = two_steps(maker, device, "17.0", "0.5")[1].parts[0]
    large = dataclasses.replace(part, items=1 << 20)
    assert built_parts.key(device, part) != built_parts.key(device, large)


@pytest.mark.parametrize("broken", [(".bc", ".so"), (".so",)])
def test_what_is_not_taken_is_compiled_anew(maker, device, compiled, broken):
    one = two_steps(maker, device, f"{16 + len(broken)}.0", "0.5")
    assert value(one, device) == 16.5 + len(broken)
    store = disk_cache.cache()
    name = built_parts.key(device, one[1].parts[0])
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(store.get(name))) as archive, zipfile.ZipFile(out, "w") as changed:
        for member in archive.namelist():
            changed.writestr(member, b"neither" if member.endswith(broken) else archive.read(member))
    store.put(name, out.getvalue())
    for kernel in one[1].parts[0].functions:  # as this process has unpacked them
        shutil.rmtree(pocl_directory() / kernel)
    compiled.clear()
    assert value(one, device) == 16.5 + len(broken)
    assert compiled and store.get(name) != out.getvalue()


def test_kernels_are_called_and_launched_alike(maker, device, monkeypatch):
    one = two_steps(maker, device, "18.0", "0.5")
    run = Executable(*one, device)
    assert all(library.addresses for library in build(device, one[1]).values())
    monkeypatch.setattr(kernel_library, "applies", lambda device: False)
    other = build(device, one[1])
    assert not any(hasattr(program, "addresses") for program in other.values())
    x = np.linspace(-1, 1, 8, dtype=np.float32)
    np.testing.assert_array_equal(run(x)[0], Executable(*one, device)(x)[0])


def test_a_thread_that_rounds_upwards_gets_what_is_nearest(maker, device):
    x, y = maker.parameter("f32", 8), maker.result("f32", 8)
    plan = maker.plan(maker.launch("for (int i = 0; i < 8; ++i) a1[i] = 1.0f + a0[i];", [x], [y]))
    run, little = Executable(plan, program(plan.kernels, device.target), device), np.full(8, 1e-9, np.float32)
    c, upwards = ctypes.CDLL(None), 0x400000 if machine.machine() == "aarch64" else 0x800
    before = c.fegetround()
    assert c.fesetround(upwards) == 0
    try:
        (sums,) = run(little)
        assert c.fegetround() == upwards
    finally:
        c.fesetround(before)
    np.testing.assert_array_equal(sums, np.ones(8, np.float32))
