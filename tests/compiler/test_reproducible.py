"""The same bits, whatever is fused, whichever passes are left out, whichever device and however many threads run it
(docs: what is promised).

Each day has its share of them: every second example, every seventh of the benchmark suite's models and of the other
programs, so that a week sees all. REFXLA_SHARE=N repeats the share in a failed test's name, and REFXLA_THOROUGH=1 runs
all, each with every pass left out alone.
"""

import datetime
import os
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from refxla_spec import text

import refxla
from refxla.passes.pipeline import FUSION, OPTIONAL

ROOT = Path(__file__).parents[2]
THOROUGH = os.environ.get("REFXLA_THOROUGH") == "1"
TODAY = int(os.environ.get("REFXLA_SHARE") or datetime.date.today().toordinal())
FILES = [p for p in sorted((ROOT / "examples").glob("*/*.hlo")) if p.stem != "predict"]
LEFT_OUT = [(FUSION,), OPTIONAL] + ([(name,) for name in OPTIONAL if name != FUSION] if THOROUGH else [])
THREADS = (1, 3)


def of_today(programs: list, shares: int = 7) -> list:
    """The share of the programs whose turn it is, as parameters of a test that say so."""
    chosen = [(n % shares, p) for n, p in enumerate(programs) if THOROUGH or n % shares == TODAY % shares]
    return [pytest.param(p, id=f"share{n}-{_name(p)}") for n, p in chosen]


def _name(program) -> str:
    return f"{program.parent.name}-{program.stem}" if isinstance(program, Path) else getattr(program, "name", program)


def programs_of_jax() -> list:
    """Those of tests/programs.py; none without JAX, which they are written with."""
    try:
        from programs import PROGRAMS
    except ImportError:
        return []
    return PROGRAMS


@pytest.fixture(autouse=True)
def expanded_linear_algebra(monkeypatch):
    """The library's bits are promised by nobody (docs/library.md)."""
    monkeypatch.setenv("REFXLA_LINEAR_ALGEBRA", "expanded")


def suite() -> list:
    """The entries of bench/models."""
    sys.path.insert(0, str(ROOT))
    try:
        from bench.models import ENTRIES
    finally:
        sys.path.remove(str(ROOT))
    return ENTRIES


def results(compiled, arguments) -> list[np.ndarray]:
    got = compiled(*arguments)
    return list(got) if isinstance(got, tuple) else [got]


def assert_same_bits(got: list[np.ndarray], wanted: list[np.ndarray]) -> None:
    assert len(got) == len(wanted)
    for n, (a, b) in enumerate(zip(got, wanted, strict=True)):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        size = max(1, a.dtype.itemsize)
        bytes_a, bytes_b = (np.frombuffer(x.tobytes(), np.uint8).reshape(-1, size) for x in (a, b))
        differ = (bytes_a != bytes_b).any(axis=1).reshape(a.shape)
        where = np.argwhere(differ)[:3].tolist()
        assert not differ.any(), (
            f"result {n}: {differ.sum()} of {a.size} differ: {where} {a[differ][:3]} {b[differ][:3]}"
        )


def assert_reproducible(hlo: str, arguments, folder: Path | None = None) -> None:
    """Holds the program to its bits; with a folder, in processes of other numbers of threads, too."""
    module = text.parse(hlo)
    fused = results(refxla.compile(module), arguments)
    for without in LEFT_OUT:
        assert_same_bits(results(refxla.compile(module, without=without), arguments), fused)
    for device in ("pocl:basic", "pocl:pthread"):
        assert_same_bits(results(refxla.compile(module, device=device), arguments), fused)
    for threads in THREADS if folder else ():
        assert_same_bits(in_threads(threads, hlo, arguments, folder), fused)


def in_threads(threads: int, hlo: str, arguments, folder: Path) -> list[np.ndarray]:
    """The results of `refxla run` in a process whose OpenCL device has so many cores."""
    program, given, results = folder / "program.hlo", folder / "arguments.npz", folder / f"results{threads}.npz"
    program.write_text(hlo)
    np.savez(given, **{f"arg{n}": a for n, a in enumerate(arguments)})
    command = [sys.executable, "-m", "refxla", "run", str(program), "--inputs", str(given), "--output", str(results)]
    subprocess.run(command, check=True, env={**os.environ, "POCL_MAX_PTHREAD_COUNT": str(threads)}, cwd=folder)
    with np.load(results) as found:
        return [found[f"out{n}"] for n in range(sum(not name.endswith(".type") for name in found.files))]


@pytest.mark.parametrize("path", of_today(FILES, shares=2))
def test_examples(path, tmp_path):
    arguments = runpy.run_path(str(path.with_name("inputs.py")))["inputs"]()
    assert_reproducible(path.read_text(), arguments, tmp_path)


@pytest.mark.parametrize("program", of_today(programs_of_jax()))
def test_programs(program):
    assert_reproducible(program.hlo(), program.inputs())


@pytest.mark.parametrize("entry", of_today(suite()))
def test_models_of_the_benchmark_suite(entry, tmp_path, monkeypatch):
    jax = pytest.importorskip("jax")
    monkeypatch.syspath_prepend(str(ROOT))
    from programs import lower

    from bench.frameworks import load

    framework = load("jax")
    arguments = entry.arguments(**entry.small)
    hlo = lower(lambda *given: entry.function(framework, *given), *arguments)
    assert_reproducible(hlo, [np.asarray(leaf) for leaf in jax.tree.leaves(arguments)], tmp_path)


@pytest.mark.parametrize("size", [1, 8, 33, 1000, 4097])
@pytest.mark.parametrize("type", ["f32", "bf16", "s8"])
def test_a_sum_and_what_uses_it(size, type):
    """A reduce has one tree whatever kernel it is in."""
    hlo = f"""HloModule sums
    add {{ a = {type}[] parameter(0)
          b = {type}[] parameter(1)
          ROOT c = {type}[] add(a, b) }}
    ENTRY main {{ x = {type}[3,{size}] parameter(0)
                 zero = {type}[] constant(0)
                 y = {type}[3,{size}] multiply(x, x)
                 rows = {type}[3] reduce(y, zero), dimensions={{1}}, to_apply=add
                 columns = {type}[{size}] reduce(y, zero), dimensions={{0}}, to_apply=add
                 wide = {type}[3,{size}] broadcast(rows), dimensions={{0}}
                 z = {type}[3,{size}] subtract(y, wide)
                 all = {type}[] reduce(z, zero), dimensions={{0,1}}, to_apply=add
                 ROOT r = ({type}[3], {type}[{size}], {type}[3,{size}], {type}[]) tuple(rows, columns, z, all) }}"""
    module = text.parse(hlo)
    dtype = module.entry.parameters[0].shape.element_type.dtype
    x = (np.random.default_rng(size).standard_normal((3, size)) * 9).astype(dtype)
    if THOROUGH or (size, type) in ((1000, "f32"), (33, "bf16"), (4097, "f32")):
        assert_reproducible(hlo, [x])
    else:
        assert_same_bits(results(refxla.compile(module), [x]), results(refxla.compile(module, without=(FUSION,)), [x]))
