"""Parts of a program that call each other's functions."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from refxla_spec.errors import DeviceError

import refxla
from refxla.codegen.opencl_program import Builder
from refxla.codegen.program_part import ProgramPart
from refxla.compiler import compilation_cache, driver
from refxla.device.description import DEFAULT_CPU
from refxla.ir.merged_body import KernelCall, MergedBody, SectionBody
from refxla.ir.plan import Argument, Kernel
from refxla.runtime import disk_cache, program_build
from refxla.runtime.pocl import built_parts, kernel_library
from refxla.runtime.pocl.parallel_build import ParallelBuild

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


def link_nothing(monkeypatch) -> None:
    """Have programs contain all that they call."""
    count_parts(monkeypatch, 1)
    for module in (driver, compilation_cache):
        monkeypatch.setattr(module, "can_link", lambda device: False)


def own_parts(executable) -> list[ProgramPart]:
    """The parts of a program, without the library that it shares with others."""
    return [part for part in executable.program.parts if not part.shared]


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
    assert len(own_parts(linked)) == 2 and linked.program.is_linked
    link_nothing(monkeypatch)
    whole = refxla.compile(PROGRAM)
    assert len(whole.program.parts) == 1 and not whole.program.is_linked
    assert bits(linked) == bits(whole)


def test_each_exported_function_is_in_one_part():
    parts = own_parts(refxla.compile(PROGRAM))
    shared = {name for part in refxla.compile(PROGRAM).program.parts if part.shared for name in part.exports}
    exports = [name for part in parts for name in part.exports]
    assert exports and len(set(exports)) == len(exports)
    assert {name for part in parts for name in part.imports} - shared == set(exports)
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
    parts = own_parts(refxla.compile(source))
    assert len(parts) == count
    lengths = [len(part.source) for part in parts]
    assert max(lengths) < 2.5 * min(lengths)


def test_helpers_count():
    """A sort of f64 has kernels of a few lines, which call long helpers: these are compiled in two parts, too."""
    source = """HloModule m
less { a = f64[] parameter(0)  b = f64[] parameter(1)  ROOT r = pred[] compare(a, b), direction=LT }
ENTRY e { x = f64[300000] parameter(0)  ROOT r = f64[300000] sort(x), dimensions={0}, to_apply=less }"""
    executable = refxla.compile(source)
    lengths = [len(part.source) for part in own_parts(executable)]
    assert len(lengths) == 2 and max(lengths) < 2.5 * min(lengths)
    (values,) = inputs(executable)
    assert np.array_equal(executable(values), np.sort(values))


def test_a_launched_kernel_has_the_exports_of_its_part(monkeypatch):
    count_parts(monkeypatch, 2)
    linked = refxla.compile(PROGRAM.parents[1] / "kmeans" / "kmeans.hlo")
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


# A persistent kernel of two phases, whose items take their work by the library's functions.
PERSISTENT = """HloModule m
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }
ENTRY e { x = f32[512,512] parameter(0)  zero = f32[] constant(0)
    s = f32[512] reduce(x, zero), dimensions={0}, to_apply=add
    t = f32[512] tanh(s)
    u = f32[512,512] broadcast(t), dimensions={1}
    p = f32[512,512] multiply(u, x)
    ROOT r = f32[512] reduce(p, zero), dimensions={1}, to_apply=add }"""
LIBRARY_FUNCTIONS = ("rx_next_s32", "rx_leave_s32")


def persistent(text: str = PERSISTENT):
    executable = refxla.compile(text)
    if not any(kernel.persistent for kernel in executable.plan.kernels):
        pytest.skip(f"a single core of {executable.device.name} has no persistent kernels")
    return executable


def libraries_of(executable) -> list[ProgramPart]:
    return [part for part in executable.program.parts if part.shared]


def library_of(executable) -> ProgramPart:
    """The prelude library."""
    (library,) = (part for part in libraries_of(executable) if len(part.exports) == len(LIBRARY_FUNCTIONS))
    return library


def test_persistent_kernels_call_the_prelude_library(monkeypatch):
    linked, other = persistent(), persistent(PERSISTENT.replace("tanh", "cosine"))
    library = library_of(linked)
    assert library_of(other) == library
    assert {name.removeprefix("__wrap_").rpartition("_")[0] for name in library.exports} == set(LIBRARY_FUNCTIONS)
    assert "rx_take_s32" in library.source
    assert not any("rx_take_s32" in part.source for part in own_parts(linked))
    assert {name for part in own_parts(linked) for name in part.imports} >= set(library.exports)
    results = bits(linked)
    link_nothing(monkeypatch)
    whole = refxla.compile(PERSISTENT)
    assert not any(part.shared for part in whole.program.parts) and "rx_take_s32" in whole.opencl
    assert bits(whole) == results


def test_a_program_that_calls_nothing_of_a_library_lacks_it():
    source = "HloModule m\nENTRY e { a = f32[1013] parameter(0) ROOT b = f32[1013] tanh(a) }"
    assert not libraries_of(refxla.compile(source))


def test_functions_of_arrays_are_libraries(monkeypatch):
    """Sines and cosines have one, whichever the program and its sizes, and tangents another one."""
    source = "HloModule m\nENTRY e {{ a = f32[{}] parameter(0)  b = f32[{}] {}(a)  ROOT c = f32[{}] {}(b) }}"

    def program(size: int, first: str, second: str):
        return refxla.compile(source.format(size, size, first, size, second))

    functions = (("sine", "sine"), ("cosine", "exponential"), ("tan", "sine"))
    sines, cosines, tangents = (program(1009, *names) for names in functions)
    (library,) = libraries_of(sines)
    assert libraries_of(cosines) == libraries_of(program(4999, "exponential", "cosine")) == [library]
    assert len(libraries_of(tangents)) == 2 and library in libraries_of(tangents)
    assert library.exports[0].startswith("__wrap_fast_shifted_sine_f32_")
    assert not any("rx_trig_reduce" in part.source for part in own_parts(cosines))
    values = np.concatenate([np.linspace(-10, 10, 499), np.logspace(0, 38, 500), [np.inf, -np.inf, np.nan] * 3, [-0.0]])
    results = [np.asarray(p(values.astype(np.float32))).tobytes() for p in (sines, cosines, tangents)]
    link_nothing(monkeypatch)
    whole = [program(1009, *names) for names in functions]
    assert not any(libraries_of(p) for p in whole)
    assert [np.asarray(p(values.astype(np.float32))).tobytes() for p in whole] == results


def test_functions_of_a_number_alone_are_libraries(monkeypatch):
    """A loop calls the sine or cosine of a large number, and computes that of a small one itself."""
    source = """HloModule m
body { s = (f32[], s32[]) parameter(0)  x = f32[] get-tuple-element(s), index=0  n = s32[] get-tuple-element(s), index=1
  one = s32[] constant(1)  next = s32[] add(n, one)  y = f32[] FUNCTION(x)  five = f32[] constant(5)
  z = f32[] multiply(y, five)  ROOT r = (f32[], s32[]) tuple(z, next) }
test { s = (f32[], s32[]) parameter(0)  n = s32[] get-tuple-element(s), index=1  most = s32[] constant(1000)
  ROOT r = pred[] compare(n, most), direction=LT }
ENTRY e { x = f32[] parameter(0)  zero = s32[] constant(0)  s = (f32[], s32[]) tuple(x, zero)
  w = (f32[], s32[]) while(s), condition=test, body=body  ROOT r = f32[] get-tuple-element(w), index=0 }"""
    sines, cosines = (refxla.compile(source.replace("FUNCTION", name)) for name in ("sine", "cosine"))
    (library,) = libraries_of(sines)
    assert libraries_of(cosines) == [library] and library.exports[0].startswith("__wrap_rx_shifted_sine_alone_f32_")
    assert not any("rx_trig_reduce" in part.source for part in own_parts(sines))
    starts = [np.float32(x) for x in (0.5, -3, 1e30, 0)]
    results = [[np.asarray(p(x)).tobytes() for x in starts] for p in (sines, cosines)]
    link_nothing(monkeypatch)
    whole = [refxla.compile(source.replace("FUNCTION", name)) for name in ("sine", "cosine")]
    assert not any(libraries_of(p) for p in whole)
    assert [[np.asarray(p(x)).tobytes() for x in starts] for p in whole] == results


def test_the_library_is_compiled_once(monkeypatch, device):
    compiled = []
    put = ParallelBuild._put
    monkeypatch.setattr(ParallelBuild, "_put", lambda self, part: (compiled.append(part), put(self, part)))
    monkeypatch.setattr(built_parts, "_shared", {})
    library = library_of(persistent())
    assert compiled.count(library) == 1
    opened = built_parts.load(device, library)
    second = persistent(PERSISTENT.replace("tanh", "cosine"))
    assert compiled.count(library) == 1 and built_parts.load(device, library) is opened
    assert len(compiled) > 1 and library_of(second) == library


def test_a_deleted_library_is_compiled_again(monkeypatch, device, tmp_path):
    """Programs from the cache and from files run in a process that does not find the library on disk."""
    executable = persistent()
    expected, library = bits(executable), library_of(executable)
    executable.save(tmp_path / "persistent.refxla")
    script = (
        "import refxla, hashlib, sys\n"
        "from refxla.compiler import compilation_cache, driver\n"
        "driver.linked_parts = compilation_cache.linked_parts = lambda device: 2\n"
        "from tests.runtime.test_linked_parts import PERSISTENT, bits\n"
        "executable = refxla.load(sys.argv[1]) if sys.argv[1:] else refxla.compile(PERSISTENT)\n"
        "print(executable.device_reason); print(hashlib.sha256(b''.join(bits(executable))).hexdigest())"
    )
    for arguments in ([], [str(tmp_path / "persistent.refxla")]):
        disk_cache.cache().drop(built_parts.key(device, library))
        command = [sys.executable, "-c", script, *arguments]
        run = subprocess.run(
            command, cwd=Path(__file__).parents[2], check=True, capture_output=True, text=True, env=os.environ.copy()
        )
        reason, digest = run.stdout.splitlines()
        assert digest == hashlib.sha256(b"".join(expected)).hexdigest()
        assert ("its kernels are those in" in reason) == bool(arguments)
    assert disk_cache.cache().has(built_parts.key(device, library)) is False  # the file has its own
    monkeypatch.setattr(built_parts, "_shared", {})
    assert bits(persistent()) == expected
    assert disk_cache.cache().has(built_parts.key(device, library))


def test_opencl_launches_no_part_that_calls_others(device):
    library, *_ = (p for p in program_build.build(device, persistent().program).values() if p._part.imports)
    with pytest.raises(DeviceError, match="only parts that are opened can be linked"):
        _ = library.int_ptr


def test_each_kernel_counts():
    """Two kernels with a __kernel each, and a function of more characters: what a second __kernel takes is more than
    what the function has more, so the kernels are in different parts."""

    def kernel(name: str, arguments: int, lines: int, calls: tuple[Kernel, ...] = ()) -> Kernel:
        body: str | MergedBody = "".join(f"    a0[item] += {n}.0f; /* {name} */\n" for n in range(lines))
        if calls:
            body = MergedBody((SectionBody(1, (KernelCall(0, (0,)),), False),))
        return Kernel(name, body, (Argument("output", "float"),) * arguments, 1, calls)

    called = kernel("called", 1, 90)
    kernels = [kernel("few", 2, 60), kernel("many", 12, 60), kernel("caller", 2, 0, (called,))]
    program = Builder(DEFAULT_CPU, 12_000, linked=2, links=True).program(kernels)
    first, second = program.parts
    assert ("/* few */" in first.source) != ("/* many */" in first.source)
    assert ("/* few */" in second.source) != ("/* many */" in second.source)
    assert sum("/* called */" in part.source for part in program.parts) == 1


@pytest.mark.parametrize("links", [False, True])
@pytest.mark.parametrize("field", ["helpers", "library_functions"])
def test_a_function_of_kernels_with_and_without_wide_vectors_is_there_once(field, links):
    target = replace(DEFAULT_CPU, features="avx512f,avx512vl")
    twice = "void twice(const float* restrict const x, float* restrict const y) {\n    y[0] = 2.0f * x[0];\n}\n"
    arguments = (Argument("output", "float"),)
    kernels = [
        Kernel(
            "f",
            f"float x = {n}.0f, y;\ntwice(&x, &y);\na0[0] = y;\n",
            arguments,
            1,
            wide_vectors=n > 1,
            **{field: (twice,)},
        )
        for n in (1, 2)
    ]
    program = Builder(target, links=links).program(kernels)
    assert program.source.count("y[0] = 2.0f") == 1
    (part,) = (part for part in program.parts if "y[0] = 2.0f" in part.source)
    (head,) = (line for line in part.source.splitlines() if "void" in line and "restrict const x" in line)
    assert "avx512vl" in head
