"""The same bits, whatever is fused, whichever passes are left out, whichever device runs it (docs: what is promised).

By default a sample of the programs runs; REFXLA_THOROUGH=1 runs all, each with every pass left out.
"""

import os
import runpy
from pathlib import Path

import numpy as np
import pytest
from refxla_spec import text

import refxla
from refxla.passes.pipeline import FUSION, OPTIONAL

THOROUGH = os.environ.get("REFXLA_THOROUGH") == "1"
EXAMPLES = Path(__file__).parents[2] / "examples"
SMALL = ("heat", "kmeans", "nbody")
FILES = [p for p in sorted(EXAMPLES.glob("*/*.hlo")) if p.stem != "predict"]
FILES = [p for p in FILES if THOROUGH or p.parent.name in SMALL]
LEFT_OUT = [(FUSION,), OPTIONAL] + ([(name,) for name in OPTIONAL if name != FUSION] if THOROUGH else [])

try:
    from programs import PROGRAMS
except ImportError:  # no JAX
    PROGRAMS = []
PROGRAMS = PROGRAMS if THOROUGH else PROGRAMS[::10]


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


def assert_reproducible(hlo: str, arguments) -> None:
    module = text.parse(hlo)
    fused = results(refxla.compile(module), arguments)
    for without in LEFT_OUT:
        assert_same_bits(results(refxla.compile(module, without=without), arguments), fused)
    for device in ("pocl:basic", "pocl:pthread"):
        assert_same_bits(results(refxla.compile(module, device=device), arguments), fused)


@pytest.mark.parametrize("path", FILES, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_examples(path):
    arguments = runpy.run_path(str(path.with_name("inputs.py")))["inputs"]()
    assert_reproducible(path.read_text(), arguments)


@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_programs(program):
    assert_reproducible(program.hlo(), program.inputs())


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
