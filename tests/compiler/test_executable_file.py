"""Executables in files: opened without a compiler, elsewhere compiled again, and refused where they are damaged."""

import os
import re
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from refxla_spec.errors import InputError, UnsupportedError

import refxla
from refxla.compiler import ahead_of_time, driver, executable_file, planning, serialization
from refxla.compiler.executable_file import FORMAT, MARK, pack, read, unpack
from refxla.runtime import device_probe, processor, program_build
from refxla.runtime.devices import find
from refxla.runtime.pocl import built_parts, program_files

EXAMPLES = Path(__file__).parents[2] / "examples"
PROGRAM = """HloModule small

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

ENTRY e {
  x = f32[8,5] parameter(0)
  w = f32[5,3] constant({{1,2,3},{4,5,6},{7,8,9},{10,11,12},{13,14,15}})
  d = f32[8,3] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  zero = f32[] constant(0)
  r = f32[8] reduce(d, zero), dimensions={1}, to_apply=add
  t = f32[8,3] tanh(d)
  ROOT both = (f32[8,3], f32[8]) tuple(t, r)
}
"""
X = np.random.default_rng(0).standard_normal((8, 5), np.float32)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "step.refxla"
    refxla.compile(PROGRAM).save(path)
    return path


@pytest.fixture
def planned(monkeypatch):
    """The modules that are planned from now on."""
    found = []
    original = planning.plan_module
    monkeypatch.setattr(planning, "plan_module", lambda m, *a: found.append(m) or original(m, *a))
    return found


def same(found, wanted):
    return all(np.array_equal(a, b) and a.dtype == b.dtype for a, b in zip(found, wanted, strict=True))


CHILD = """
import sys, numpy as np
from refxla.runtime import device_probe, opencl_compiler
from refxla.runtime.pocl import compile_workers
from refxla.compiler import driver, planning
def none(*_, **__): raise AssertionError("something is compiled or probed")
device_probe.run_checks = planning.plan_module = driver.verify = compile_workers.CompileWorker.__init__ = none
import pyopencl
from refxla.runtime.pocl import built_parts, kernels
built_parts.compile_source = kernels.compile_source = none
import refxla
step = refxla.load(sys.argv[1])
made = step(np.load(sys.argv[2]))
assert "its kernels are those in" in step.device_reason, step.device_reason
assert not {"jax", "jaxlib"} & set(sys.modules)
np.savez(sys.argv[3], *made)
"""


def test_it_runs_in_a_process_without_compiler_and_cache(file, tmp_path):
    np.save(tmp_path / "x.npy", X)
    environment = {**os.environ, "REFXLA_CACHE_DIR": str(tmp_path / "none"), "PATH": str(tmp_path)}
    command = [sys.executable, "-c", CHILD, str(file), str(tmp_path / "x.npy"), str(tmp_path / "out.npz")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=tmp_path, timeout=120)
    assert done.returncode == 0, done.stderr
    assert same(np.load(tmp_path / "out.npz").values(), refxla.compile(PROGRAM)(X))
    assert not (tmp_path / "none").exists()


def test_what_is_opened_is_what_was_saved(file, planned):
    first, second = refxla.compile(PROGRAM), refxla.load(file)
    assert not planned[1:] and same(second(X), first(X))
    assert second.opencl == first.opencl and str(second.plan) == str(first.plan) and second.cost == first.cost
    assert second.memory == first.memory and second.arity == first.arity
    assert str(second.explain()) == str(first.explain()) and "dot" in str(second.hlo)


def test_saved_again_it_is_the_same_file(file, tmp_path):
    refxla.load(file).save(tmp_path / "again.refxla")
    one, two = read(file), read(tmp_path / "again.refxla")
    assert (one.compilation, one.binaries, one.device) == (two.compilation, two.binaries, two.device)


def test_without_machine_code_the_program_is_compiled(file, planned, monkeypatch):
    monkeypatch.setattr(driver, "restore_executable", None)  # by which the machine code is taken
    monkeypatch.setenv("REFXLA_CACHE_DIR", str(file.parent / "cache"))
    made = refxla.load(file, machine_code=False)
    assert planned and same(made(X), refxla.compile(PROGRAM)(X))
    assert "its machine code was not to be run" in made.device_reason


@pytest.mark.parametrize(
    "change, reason",
    [
        ({"architecture": "riscv64"}, "it has kernels for riscv64"),
        ({"driver": "PoCL 99"}, "it has kernels for pocl: .*PoCL 99"),
        ({"label": "another processor"}, "it has kernels for pocl: another processor"),
        ({"instruction_sets": ("avx4096",)}, "this processor lacks avx4096"),
        ({"target": {"compute_units": 96}}, "it was made for 96 cores, and here are "),
        ({"target": {"vector_bytes": 512}}, r"the device is not as it was \(vector_bytes\)"),
    ],
)
def test_elsewhere_the_program_is_compiled(file, change, reason):
    saved = read(file)
    if "target" in change:
        change = {"target": {**saved.device.target, **change["target"]}}
    file.write_bytes(pack(replace(saved, device=replace(saved.device, **change))))
    made = refxla.load(file)
    assert same(made(X), refxla.compile(PROGRAM)(X))
    (note,) = [part for part in made.device_reason.split("; ") if "was compiled here" in part]
    assert re.search(reason, note), note


def test_another_device_can_be_named(file, monkeypatch):
    named = refxla.load(file, device="pocl:basic")
    assert named.device.name == "pocl:basic" and same(named(X), refxla.load(file)(X))
    monkeypatch.setenv("REFXLA_DEVICE", "pocl:basic")
    assert refxla.load(file).device.name == "pocl:basic"
    with pytest.raises(InputError, match="the reference does not run"):
        refxla.load(file, device="reference")


def test_a_compilation_of_another_release_is_made_anew(file, planned):
    saved = read(file)
    other = saved.compilation.replace(b'"arity"', b'"arite"')
    file.write_bytes(pack(replace(saved, compilation=other, release="9.9")))
    made = refxla.load(file)
    assert same(made(X), refxla.compile(PROGRAM)(X)) and "refxla 9.9 made it" in made.device_reason


def test_properties_of_another_release_are_not_taken(file):
    """Of a device, which other releases ask for other things."""
    saved = read(file)
    older = {**saved.device.properties, "alignment": 128}
    file.write_bytes(pack(replace(saved, device=replace(saved.device, properties=older))))
    assert same(refxla.load(file)(X), refxla.compile(PROGRAM)(X))


def test_without_machine_code_in_it_the_opencl_c_is_compiled(tmp_path, planned, monkeypatch):
    wanted, path = refxla.compile(PROGRAM), tmp_path / "step.refxla"
    monkeypatch.setattr(built_parts.platform, "directory", lambda: None)  # it is the user's
    with pytest.warns(UserWarning, match="pocl gives no machine code .*: small is saved with OpenCL C"):
        wanted.save(path)
    monkeypatch.undo()
    planned.clear()
    made = refxla.load(path)
    assert same(made(X), wanted(X)) and not planned
    assert "its kernels were compiled from the OpenCL C in" in made.device_reason


def test_passes_left_out_stay_left_out(tmp_path):
    refxla.compile(PROGRAM, without=("fusion",)).save(tmp_path / "apart.refxla")
    made = refxla.load(tmp_path / "apart.refxla", machine_code=False)
    assert len(made.plan.kernels) == len(refxla.compile(PROGRAM, without=("fusion",)).plan.kernels)
    assert "fusion" in read(tmp_path / "apart.refxla").without


def test_dynamic_sizes(tmp_path):
    text = "HloModule m\nENTRY e { x = f32[<=4,2] parameter(0) ROOT y = f32[<=4,2] add(x, x) }"
    refxla.compile(text).save(tmp_path / "sized.refxla")
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    assert np.array_equal(refxla.load(tmp_path / "sized.refxla")(x), x + x)


def test_an_example(tmp_path):
    program = refxla.compile(EXAMPLES / "mlp" / "step.hlo")
    program.save(tmp_path / "step.refxla")
    arguments = [np.full(s.dimensions, 1, s.element_type.dtype) for s in program.plan.parameters]
    assert same(refxla.load(tmp_path / "step.refxla")(*arguments), program(*arguments))


# What does not fit ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "damage, message",
    [
        (lambda d: b"", "is not an executable of refxla's"),
        (lambda d: b"HloModule m", "is not an executable of refxla's, as `refxla build"),
        (lambda d: b"\x7fELF" + d, "is not an executable of refxla's"),
        (lambda d: d.replace(b"\r\n", b"\n"), "was changed on its way, as a text is"),
        (lambda d: d[:20], "is cut off after 20 bytes"),
        (lambda d: d[:-1], "is cut off: .* instead of"),
        (lambda d: d + b"x", "has something after its end"),
        (lambda d: d[:-9] + bytes([d[-9] ^ 1]) + d[-8:], "is damaged: its checksum is wrong"),
        (
            lambda d: MARK + (FORMAT + 1).to_bytes(4, "little") + d[len(MARK) + 4 :],
            f"has the format {FORMAT + 1}.*reads",
        ),
    ],
)
def test_what_is_damaged_is_refused(file, damage, message):
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(InputError, match=message) as raised:
        refxla.load(file)
    assert str(file) in str(raised.value) and "\n" not in str(raised.value)


def test_every_bit_counts(file):
    data = file.read_bytes()
    for place in np.random.default_rng(0).integers(0, len(data), 200):
        changed = bytearray(data)
        changed[place] ^= 1 << (place % 8)
        with pytest.raises(InputError):
            unpack(bytes(changed), "step.refxla")


def test_another_value_in_a_whole_file_is_refused(file, monkeypatch):
    monkeypatch.setattr(serialization, "dumps", lambda value, dumps=serialization.dumps: dumps((1, 2)))
    content = pack(None)
    monkeypatch.undo()
    with pytest.raises(InputError, match="is not an executable of refxla's; build it again"):
        unpack(content, "x")


def test_a_file_that_cannot_be_read_or_written(tmp_path, file):
    with pytest.raises(InputError, match="cannot read .*missing.refxla"):
        refxla.load(tmp_path / "missing.refxla")
    with pytest.raises(InputError, match="cannot write .*it is a directory"):
        refxla.compile(PROGRAM).save(tmp_path)
    with pytest.raises(InputError, match="it is an executable, not a program: `refxla.load` opens it"):
        refxla.compile(file)


def test_callbacks_are_not_saved(tmp_path):
    jax = pytest.importorskip("jax")
    shape = jax.ShapeDtypeStruct((3,), np.float32)
    calls = refxla.compile(jax.jit(lambda x: jax.pure_callback(lambda a: a, shape, x)), np.ones(3, np.float32))
    with pytest.raises(UnsupportedError, match="calls functions of this process"):
        calls.save(tmp_path / "calls.refxla")
    assert not (tmp_path / "calls.refxla").exists()


def test_nothing_is_written_outside_of_the_compilers_directory(tmp_path, file):
    content = tmp_path / "evil.zip"
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("AB/CD/../../../../evil", "x")
    device = find()
    with pytest.raises(ValueError, match="lies outside"):
        program_files.restore(content.read_bytes(), tmp_path / "pocl", device, device.runner)
    assert not (tmp_path / "evil").exists()


def test_properties_are_taken_for_their_own_device_alone(monkeypatch, tmp_path):
    monkeypatch.setenv("REFXLA_CACHE_DIR", str(tmp_path / "cache"))
    device, found = find(), device_probe.Properties(works=True, problem="from a file")
    device_probe.adopt(device, "another device's", found)
    monkeypatch.setattr(device_probe, "run_checks", lambda *_, **__: {"runs": "was probed"})
    assert device_probe.properties(device).problem == "was probed"
    device_probe.adopt(device, device_probe.entry(device), found)
    assert device_probe.properties(device).problem == "from a file"


def test_instruction_sets_are_those_of_every_core(monkeypatch, tmp_path):
    listing = tmp_path / "cpuinfo"
    listing.write_text("flags\t\t: fpu sse2 avx2 avx512f md_clear\n\nflags\t\t: fpu sse2 avx2 ibrs\n")
    monkeypatch.setattr(processor, "_CPUINFO", listing)
    monkeypatch.setattr(processor, "architecture", lambda: "x86_64")
    assert processor.instruction_sets.__wrapped__() == ("avx2", "sse2")
    monkeypatch.setattr(processor, "_CPUINFO", tmp_path / "none")
    assert processor.instruction_sets.__wrapped__() == ()


def test_the_module_is_in_the_file(file):
    assert str(ahead_of_time.module_of(executable_file.read(file))).startswith("HloModule small")


def test_a_device_that_gives_its_program_as_bytes(tmp_path, monkeypatch):
    """As all do but PoCL: a simulator here."""
    if not any(d.name == "oclgrind" for d in refxla.devices()):
        pytest.skip("Oclgrind is not installed")
    text = "HloModule m\nENTRY e { x = f32[64] parameter(0) ROOT y = f32[64] tanh(x) }"
    made, path = refxla.compile(text, device="oclgrind"), tmp_path / "simulated.refxla"
    made.save(path)
    monkeypatch.setenv("REFXLA_CACHE_DIR", str(tmp_path / "none"))
    monkeypatch.setattr(program_build, "compile_source", None)  # nothing is compiled
    loaded = refxla.load(path)
    x = np.arange(64, dtype=np.float32)
    assert loaded.device.name == "oclgrind" and np.array_equal(loaded(x), made(x)) and len(read(path).binaries) == 1
