"""Parts of a program that call each other's functions."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from refxla_spec.errors import DeviceError

import refxla
from refxla.compiler import compilation_cache, driver
from refxla.runtime import program_build
from refxla.runtime.pocl import built_parts, kernel_library

PROGRAM = Path(__file__).parents[2] / "examples" / "mlp" / "step.hlo"


@pytest.fixture(autouse=True)
def cache_of_this_test(monkeypatch, tmp_path, device):
    if not program_build.can_link(device):
        pytest.skip(f"kernels of {device.name} are launched by OpenCL")
    _ = device.properties  # kept in the cache that all tests share
    monkeypatch.setenv("REFXLA_CACHE_DIR", str(tmp_path / "cache"))
    count_parts(monkeypatch, 2)


def count_parts(monkeypatch, count: int) -> None:
    """Have programs cut into so many parts, whatever the number of cores."""
    for module in (driver, compilation_cache):
        monkeypatch.setattr(module, "linked_parts", lambda device: count)


def inputs(executable) -> list[np.ndarray]:
    random = np.random.default_rng(0)
    return [
        random.integers(0, 2, s.dimensions).astype(s.element_type.dtype)
        if s.element_type.dtype.kind in "iu"
        else random.standard_normal(s.dimensions).astype(s.element_type.dtype)
        for s in (p.shape for p in executable.hlo.entry.parameters)
    ]


def bits(executable) -> list[bytes]:
    results = executable(*inputs(executable))
    return [np.asarray(r).tobytes() for r in (results if isinstance(results, tuple | list) else [results])]


def test_they_compute_what_one_part_computes(monkeypatch):
    linked = refxla.compile(PROGRAM)
    parts = linked.program.parts
    assert len(parts) == 2 and linked.program.is_linked
    count_parts(monkeypatch, 1)
    whole = refxla.compile(PROGRAM)
    assert not whole.program.is_linked
    assert bits(linked) == bits(whole)


def test_each_exported_function_is_in_one_part():
    parts = refxla.compile(PROGRAM).program.parts
    exports = [name for part in parts for name in part.exports]
    assert exports and len(set(exports)) == len(exports)
    assert {name for part in parts for name in part.imports} == set(exports)
    for name in exports:
        # The first statement keeps clang from leaving out a function without an effect, which another part calls.
        head = rf"\bvoid {name}\(.*\) {{\n    __asm__ volatile\(\"\"\);$"
        bodies = [part for part in parts if re.search(head, part.source, re.M)]
        assert len(bodies) == 1 and name in bodies[0].exports


@pytest.mark.parametrize("count", [2, 3, 4])
def test_parts_are_of_about_equal_length(monkeypatch, count):
    count_parts(monkeypatch, count)
    source = "\n".join(
        ["HloModule m", "ENTRY e {", "  x0 = f32[64,64] parameter(0)"]
        + [
            f"  w{n} = f32[64,64] parameter({n + 1})\n"
            f"  p{n} = f32[64,64] dot(x{n}, w{n}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}\n"
            f"  e{n} = f32[64,64] {function}(p{n})\n"
            f"  x{n + 1} = f32[64,64] add(e{n}, w{n})"
            for n, function in enumerate(
                ("tanh", "sine", "exponential", "logistic", "cosine", "cbrt", "erf", "log-plus-one")
            )
        ]
        + ["  ROOT r = f32[64,64] negate(x8)", "}"]
    )
    parts = refxla.compile(source).program.parts
    assert len(parts) == count
    lengths = [len(part.source) for part in parts]
    assert max(lengths) < 2.5 * min(lengths)


def test_helpers_count():
    """A sort of f64 has kernels of a few lines, which call long helpers: these are compiled in two parts, too."""
    source = """HloModule m
less { a = f64[] parameter(0)  b = f64[] parameter(1)  ROOT r = pred[] compare(a, b), direction=LT }
ENTRY e { x = f64[300000] parameter(0)  ROOT r = f64[300000] sort(x), dimensions={0}, to_apply=less }"""
    executable = refxla.compile(source)
    lengths = [len(part.source) for part in executable.program.parts]
    assert len(lengths) == 2 and max(lengths) < 2.5 * min(lengths)
    (values,) = inputs(executable)
    assert np.array_equal(executable(values), np.sort(values))


def test_a_launched_kernel_has_the_exports_of_its_part(monkeypatch):
    linked = refxla.compile(PROGRAM.parents[1] / "lstm" / "lstm.hlo")
    launched = {kernel for kernel, _ in linked.program.entries}
    both = [part for part in linked.program.parts if part.exports and launched.intersection(part.functions)]
    assert both and all(launched.issuperset(part.functions) for part in both)
    count_parts(monkeypatch, 1)
    assert bits(linked) == bits(refxla.compile(linked.hlo))


def test_another_process_opens_them(tmp_path):
    script = (
        "import sys, refxla; from refxla.compiler import compilation_cache, driver\n"
        "driver.linked_parts = compilation_cache.linked_parts = lambda device: 2\n"
        "from tests.runtime.test_linked_parts import PROGRAM, bits\n"
        "executable = refxla.compile(PROGRAM); assert executable.program.is_linked\n"
        "print([part.functions for part in executable.program.parts])\n"
        "import hashlib; print(hashlib.sha256(b''.join(bits(executable))).hexdigest())"
    )
    root = Path(__file__).parents[2]
    runs = [
        subprocess.run(
            [sys.executable, "-c", script],
            cwd=root,
            check=True,
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
        ).stdout
        for seed in (1, 2)
    ]
    assert runs[0] == runs[1]


def test_in_a_file(tmp_path, monkeypatch, device):
    executable = refxla.compile(PROGRAM)
    expected = bits(executable)
    executable.save(tmp_path / "step.refxla")
    loaded = refxla.load(tmp_path / "step.refxla")
    assert "its kernels are those in" in loaded.device_reason and bits(loaded) == expected
    # Elsewhere kernels are launched by OpenCL, whose programs nobody links.
    monkeypatch.setattr(kernel_library, "applies", lambda device: False)
    count_parts(monkeypatch, program_build.linked_parts(device))
    loaded = refxla.load(tmp_path / "step.refxla")
    assert "its parts call each other" in loaded.device_reason and bits(loaded) == expected


def test_what_is_missing_is_said(device):
    executable = refxla.compile(PROGRAM)
    libraries = list(program_build.build(device, executable.program).values())
    caller = next(library for library in libraries if library._part.imports)
    with pytest.raises(DeviceError, match="lack a function: '__wrap_"):
        kernel_library.link([caller])


def test_why_files_cannot_be_opened_is_said(monkeypatch):
    def refuse(*_: object) -> None:
        raise OSError("kernel.so: failed to map segment from shared object")

    monkeypatch.setattr(kernel_library.KernelLibrary, "__init__", refuse)
    with pytest.raises(DeviceError, match="cannot be opened .kernel.so: failed to map segment"):
        refxla.compile(PROGRAM)


def test_kernels_that_only_opencl_can_launch_are_not_linked(monkeypatch):
    monkeypatch.setattr(kernel_library, "applies", lambda device: False)
    with pytest.raises(DeviceError, match="cannot be opened .OpenCL launches"):
        refxla.compile(PROGRAM)


def test_each_part_has_its_own_reason(monkeypatch, device):
    """The reason is that of the part that cannot be opened, whatever failed before in this process."""
    packed = kernel_library.unpacked

    def refuse(content, directory, device, part):
        if not part.imports:
            raise kernel_library.KernelFilesError("of another part")
        return packed(content, directory, device, part)

    alone = "HloModule m\nENTRY e { a = f32[1007] parameter(0) ROOT b = f32[1007] tanh(a) }"
    monkeypatch.setattr(kernel_library, "unpacked", refuse)
    assert refxla.compile(alone)(np.zeros(1007, np.float32)).tolist() == [0] * 1007  # OpenCL launches it
    monkeypatch.setattr(built_parts, "keep", lambda device, part: None)
    with pytest.raises(DeviceError, match="cannot be opened .PoCL has written none"):
        refxla.compile(PROGRAM)
