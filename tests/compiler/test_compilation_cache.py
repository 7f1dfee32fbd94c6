"""Compilations kept on disk: what is found again, what is not, and that it is the same."""

from __future__ import annotations

import functools
import os
import pickle
import subprocess
import sys
import types
from dataclasses import replace

import numpy as np
import pytest
from refxla_spec.errors import InvalidProgramError, UnsupportedError
from refxla_spec.text import parse
from refxla_spec.types import F32

import refxla
from refxla.compiler import autotuner, compilation_cache, driver, planning, serialization
from refxla.device.tile_configurations import TileConfiguration
from refxla.ir.fingerprint import Source, fingerprint
from refxla.runtime import device_probe, disk_cache
from refxla.runtime.devices import find

PROGRAM = """HloModule m

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

ENTRY e {
  x = f32[8,5] parameter(0)
  w = f32[5,3] parameter(1)
  one = f32[] constant(1)
  d = f32[8,3] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  t = f32[8,3] tanh(d), metadata={source_file="f.py" source_line=7}
  ROOT r = f32[8] reduce(t, one), dimensions={1}, to_apply=add
}
"""


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path):
    """A cache that knows the device and nothing else."""
    device = find()
    _ = device.properties
    name = device_probe.entry(device)
    content = disk_cache.cache().get(name)
    monkeypatch.setenv("REFXLA_CACHE_DIR", str(tmp_path / "cache"))
    disk_cache.cache().put(name, content)


@pytest.fixture
def planned(monkeypatch):
    """The modules that are planned from now on."""
    found = []
    original = planning.plan_module
    monkeypatch.setattr(planning, "plan_module", lambda m, *a: found.append(m) or original(m, *a))
    return found


def inputs():
    random = np.random.default_rng(0)
    return random.standard_normal((8, 5), np.float32), random.standard_normal((5, 3), np.float32)


def same(found, wanted):
    return np.array_equal(np.asarray(found).view(np.uint8), np.asarray(wanted).view(np.uint8))


def test_a_program_is_planned_once(planned):
    first = refxla.compile(PROGRAM)
    second = refxla.compile(PROGRAM)
    assert len(planned) == 1
    assert same(first(*inputs()), second(*inputs()))
    assert first.opencl == second.opencl and first.cost == second.cost and str(first.plan) == str(second.plan)
    assert first.memory == second.memory and first.device_reason == second.device_reason


def test_what_is_asked_for_later_is_the_same(planned):
    first, second = refxla.compile(PROGRAM), refxla.compile(PROGRAM)
    assert str(first.explain()) == str(second.explain()) and "not fused" in str(second.explain())
    assert str(first.optimized_hlo) == str(second.optimized_hlo)
    assert str(first.hlo) == str(second.hlo) and "source_line=7" in str(second.hlo)
    assert str(first.planned.plan) == str(second.planned.plan) == str(second.plan)
    assert len(planned) == 2  # planned anew for the second one, once


def test_lines_that_move_change_nothing(planned):
    first = refxla.compile(PROGRAM)
    moved = PROGRAM.replace("source_line=7", "source_line=8").replace("f.py", "g.py").replace("\nadd {", "\n\n\nadd {")
    second = refxla.compile(moved)
    assert len(planned) == 1 and same(first(*inputs()), second(*inputs()))
    assert "g.py" in str(second.hlo)


@pytest.mark.parametrize(
    "old, new",
    [
        ("constant(1)", "constant(2)"),
        ("constant(1)", "constant(nan)"),
        ("tanh(d)", "cosine(d)"),
        ("ROOT c = f32[] add(a, b)", "ROOT c = f32[] multiply(a, b)"),
        ("ROOT c = f32[] add(a, b)", "ROOT c = f32[] add(b, a)"),
        ("8", "9"),
        ("f32", "f64"),
        ("HloModule m", "HloModule n"),
        ("HloModule m", "HloModule m, input_output_alias={ {}: (0, {}, may-alias) }"),
        ("x = f32[8,5]", "x = f32[8,5]{0,1}"),
        ("contracting_dims={0}", "contracting_dims={0}, operand_precision={highest,highest}"),
        ("tanh(d)", 'tanh(d), frontend_attributes={a="b"}'),
    ],
)
def test_other_programs_are_others(old, new):
    changed = PROGRAM.replace(old, new)
    assert changed != PROGRAM and fingerprint(parse(changed)) != fingerprint(parse(PROGRAM))
    assert fingerprint(parse(changed)) == fingerprint(parse(changed))


def test_a_literal_counts_with_all_its_bits():
    one, other = parse(PROGRAM), parse(PROGRAM)
    for module, bits in ((one, 0x7FC00000), (other, 0x7FC00001)):
        (constant,) = (i for i in module.instructions() if i.opcode == "constant")
        constant.attributes["literal"] = np.array(bits, np.uint32).view(np.float32)
    assert fingerprint(one) != fingerprint(other)


def test_zeros_have_signs_and_arrays_have_shapes():
    prints = set()
    for literal in (np.float32(0), np.float32(-0.0), np.zeros((1,), np.float32), np.zeros((2,), np.float32)[:0]):
        module = parse(PROGRAM)
        (constant,) = (i for i in module.instructions() if i.opcode == "constant")
        constant.attributes["literal"] = np.asarray(literal)
        prints.add(fingerprint(module))
    assert len(prints) == 4


def test_the_key_holds_device_passes_and_configurations():
    device = find()
    basic = ("compilation", "p", device, device.target, ())
    others = [
        ("products", *basic[1:]),
        ("compilation", "q", *basic[2:]),
        ("compilation", "p", replace(device, name="another"), *basic[3:]),
        ("compilation", "p", device, replace(device.target, compute_units=77), ()),
        (
            "compilation",
            "p",
            device,
            replace(device.target, tile_configurations={"dot": TileConfiguration(columns=1)}),
            (),
        ),
        ("compilation", "p", device, device.target, ("fusion",)),
        ("compilation", "p", device, device.target, ("fusion", "cse")),
    ]
    assert len({compilation_cache.key(*parts) for parts in (basic, *others)}) == len(others) + 1
    assert compilation_cache.key("c", "p", device, device.target, "cse") == compilation_cache.key(
        "c", "p", device, device.target, ["cse", "cse"]
    )


def test_passes_left_out_make_another(planned):
    with_fusion, without = refxla.compile(PROGRAM), refxla.compile(PROGRAM, without=("fusion",))
    assert len(planned) == 2 and len(without.plan.kernels) != len(with_fusion.plan.kernels)
    again = refxla.compile(PROGRAM, without="fusion")
    assert len(planned) == 2 and str(again.plan) == str(without.plan)
    assert str(again.optimized_hlo) == str(without.optimized_hlo)


def test_another_build_of_refxla_finds_nothing(planned, monkeypatch):
    refxla.compile(PROGRAM)
    another = functools.cache(lambda: "another")
    monkeypatch.setattr(compilation_cache, "build", another)
    for _ in range(2):
        refxla.compile(PROGRAM)
    assert len(planned) == 2


def test_a_compilation_is_kept_while_its_kernels_are_compiled(monkeypatch):
    """Nobody waits for the disk then."""
    kept = []
    original = driver._make_executable
    monkeypatch.setattr(
        driver, "_make_executable", lambda *a, **more: kept.append(entries(COMPILATION)) or original(*a, **more)
    )
    refxla.compile(PROGRAM)
    assert [len(names) for names in kept] == [1]


@pytest.fixture
def sources(tmp_path, monkeypatch):
    """A folder with the sources of a process that has just begun, none of which is imported yet."""
    folder = tmp_path / "refxla"
    folder.mkdir()
    for name in ("module.py", "later.py", "table.json"):
        (folder / name).write_text("as it began")
    began = {str(path): compilation_cache._state(str(path)) for path in folder.iterdir()}
    monkeypatch.setattr(compilation_cache, "_sources", lambda: began)
    monkeypatch.setattr(compilation_cache, "_data", lambda: [str(folder / "table.json")])
    monkeypatch.setattr(compilation_cache, "_imported", set(sys.modules))
    return folder


def imported(monkeypatch, folder, name):
    module = types.ModuleType(f"refxla.{name}")
    module.__file__ = str(folder / f"{name}.py")
    monkeypatch.setitem(sys.modules, module.__name__, module)


def is_kept(number):
    key = disk_cache.key(str(number))
    compilation_cache.save(key, None)
    return disk_cache.cache().get(key) is not None


def test_a_module_that_was_edited_after_its_import_runs_as_it_began(own_cache, sources, monkeypatch):
    imported(monkeypatch, sources, "module")
    assert is_kept(0)
    (sources / "module.py").write_text("edited")
    assert is_kept(1)
    imported(monkeypatch, sources, "later")
    assert is_kept(2)


@pytest.mark.parametrize("edited", ["later.py", "table.json"])
def test_a_process_whose_sources_were_edited_before_it_read_them_keeps_nothing(own_cache, sources, monkeypatch, edited):
    imported(monkeypatch, sources, "module")
    assert is_kept(0)
    (sources / edited).write_text("edited")
    imported(monkeypatch, sources, "later")
    assert [is_kept(n) for n in (1, 2)] == [False, False]


def test_a_process_whose_sources_are_gone_keeps_nothing(own_cache, sources, monkeypatch):
    (sources / "module.py").unlink()
    imported(monkeypatch, sources, "module")
    assert not is_kept(0)


def test_a_build_is_known_by_its_files(monkeypatch, tmp_path):
    package = tmp_path / "refxla"
    package.mkdir()
    (package / "a.py").write_text("a = 1")

    class Spec:
        submodule_search_locations = (str(package),)

    monkeypatch.setattr(compilation_cache, "find_spec", lambda name: Spec)
    monkeypatch.setattr(compilation_cache, "_sources", compilation_cache._sources.__wrapped__)
    before = compilation_cache.build.__wrapped__()
    (package / "__pycache__").mkdir()
    (package / "__pycache__" / "a.cpython-311.pyc").write_text("")
    (package / "__pycache__" / "a.cpython-311.pyc.140229112").write_text("")  # what another process just writes
    assert compilation_cache.build.__wrapped__() == before
    (package / "a.py").write_text("a = 22")
    assert compilation_cache.build.__wrapped__() != before


def entries(what):
    """The files whose content is a compilation."""
    root = disk_cache.cache().directory
    return [p for p in root.glob("??/*.entry") if what in p.read_bytes()]


COMPILATION = b'["Compilation",'


@pytest.mark.parametrize("broken", ["truncated", "changed", "nothing", "another value", "another version", "pickle"])
def test_an_entry_that_cannot_be_read_is_none(planned, broken):
    first = refxla.compile(PROGRAM)
    (path,) = entries(COMPILATION)
    whole = path.read_bytes()
    name = path.parent.name + path.stem
    if broken == "truncated":
        path.write_bytes(whole[:-10])
    elif broken == "changed":
        path.write_bytes(whole[:-10] + bytes([whole[-10] ^ 1]) + whole[-9:])
    else:
        content = disk_cache.cache().get(name)
        others = {
            "nothing": b"nothing",
            "another value": serialization.dumps((1, "two")),
            "another version": content.replace(b'"arity"', b'"arite"'),
            "pickle": pickle.dumps(range(3)),
        }
        disk_cache.cache().put(name, others[broken])
    second = refxla.compile(PROGRAM)
    assert len(planned) == 2 and same(first(*inputs()), second(*inputs()))
    assert path.read_bytes() == whole  # made again
    refxla.compile(PROGRAM)
    assert len(planned) == 2


def test_programs_that_are_refused_are_refused_again():
    for _ in range(2):
        with pytest.raises(InvalidProgramError, match="line 15"):
            refxla.compile(PROGRAM.replace("f32[8] reduce", "f32[7] reduce"))
        with pytest.raises(UnsupportedError, match="line"):
            refxla.compile(PROGRAM.replace("f32[8,3] tanh(d)", 'f32[8,3] custom-call(d), custom_call_target="what"'))
    assert not entries(COMPILATION)


def test_without_a_fingerprint_nothing_is_kept(planned):
    module = parse(PROGRAM)
    for _ in range(2):
        assert same(driver.compile_module(Source(None, lambda: module))(*inputs()), refxla.compile(PROGRAM)(*inputs()))
    assert len(planned) == 3


def test_dynamic_sizes_are_kept(planned):
    text = "HloModule m\nENTRY e { x = f32[<=4,2] parameter(0) ROOT y = f32[<=4,2] add(x, x) }"
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    for _ in range(2):
        made = refxla.compile(text)
        assert isinstance(made, driver.DynamicShapeExecutable) and np.array_equal(made(x), x + x) and made.arity == 1
        with pytest.raises(refxla.InputError):
            made(np.zeros((5, 2), np.float32))
    assert len(planned) == 1


def test_tuned_programs_are_found_when_their_configurations_are_stored(planned, monkeypatch):
    configurations = [TileConfiguration(columns=1)]
    name = "d"

    def tune(fusions, device):
        (found,) = fusions_of(fusions)
        nonlocal name
        name = autotuner.signature(found)
        return {name: configurations[0]}

    def fusions_of(fusions):
        return [f for f in fusions if f.kind == "dot"]

    monkeypatch.setattr(autotuner, "LEAST_PRODUCTS", 1)
    monkeypatch.setattr(autotuner, "tune", tune)
    first = refxla.compile(PROGRAM, tune=True)
    assert len(planned) == 2  # to see the products, and with the configuration
    monkeypatch.setattr(
        autotuner,
        "load_configurations",
        lambda names, device: {name: configurations[0]} if list(names) == [name] else None,
    )
    second = refxla.compile(PROGRAM, tune=True)
    assert len(planned) == 2 and second.opencl == first.opencl
    assert str(second.explain()) == str(first.explain()) and len(planned) == 3
    configurations[0] = TileConfiguration(columns=2)  # as if it had been measured again
    refxla.compile(PROGRAM, tune=True)
    assert len(planned) == 5


def test_element_types_stay_themselves():
    assert pickle.loads(pickle.dumps(F32)) is F32
    assert pickle.loads(pickle.dumps(parse(PROGRAM).entry.root.shape)).element_type is F32


CHILD = """
import numpy as np, sys
import refxla
result = refxla.compile(sys.stdin.read())(*np.load(sys.argv[1]).values())
compilers = [name for name in ("passes", "scheduling", "codegen.emitter_registry") if f"refxla.{name}" in sys.modules]
print(len(compilers), result.tobytes().hex())
"""


def child(tmp_path, directory):
    np.savez(tmp_path / "in.npz", *inputs())
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, str(tmp_path / "in.npz")],
        env={**os.environ, "REFXLA_CACHE_DIR": str(directory)},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_processes_share_what_is_kept_and_import_no_compiler_then(tmp_path, own_cache):
    directory = disk_cache.cache().directory
    both = [child(tmp_path, directory) for _ in range(2)]
    answers = [p.communicate(PROGRAM, timeout=600) for p in both]
    third = child(tmp_path, directory).communicate(PROGRAM, timeout=600)
    results = {out.split()[1] for out, _ in (*answers, third)}
    assert len(results) == 1 and third[0].split()[0] == "0" and answers[0][0].split()[0] == "3", (answers, third)
    wanted = refxla.compile(PROGRAM)(*inputs())
    assert results == {wanted.tobytes().hex()}


def test_a_directory_that_cannot_be_made_costs_a_warning(monkeypatch, tmp_path, planned):
    known = find().properties
    monkeypatch.setattr(device_probe, "properties", lambda device: known)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("REFXLA_CACHE_DIR", str(tmp_path / "file" / "cache"))
    with pytest.warns(disk_cache.CacheWarning):
        first = refxla.compile(PROGRAM)
    second = refxla.compile(PROGRAM)
    assert len(planned) == 2 and same(first(*inputs()), second(*inputs()))


def test_a_function_of_jax_is_known_without_its_lines(planned):
    jax = pytest.importorskip("jax")
    code = "def f(x):\n    return {}(x) * 2\n"
    made = []
    for text in (code.format("jnp.tanh"), "\n\n" + code.format("jnp.tanh"), code.format("jnp.sin")):
        space = {"jnp": jax.numpy}
        exec(compile(text, "f.py", "exec"), space)
        made.append(refxla.compile(jax.jit(space["f"]), np.ones((4,), np.float32)))
    assert len(planned) == 2
    x = np.linspace(-1, 1, 4, dtype=np.float32)
    assert same(made[0](x), made[1](x)) and not same(made[0](x), made[2](x))
    assert str(made[0].explain()) == str(made[1].explain()) and made[1].hlo.entry.parameters
