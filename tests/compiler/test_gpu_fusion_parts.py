"""Fusions of very many arrays, on GPUs: several kernels, each with room for its arguments, and the bits of the CPU."""

from dataclasses import replace

import pytest
from kernel_driver import POCL, Compiled, fusion_of, random_array
from refxla_spec.text import parse

from refxla.codegen.gpu import fusion_parts
from refxla.device.gpu_models import EMULATED

GPU = replace(EMULATED, compute_units=1, offsets=False)
ADD = "add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }"
COUNT = 40


def program(kind: str) -> str:
    lines = [f"x{n} = f32[64,24] parameter({n})" for n in range(COUNT)] + ["z = f32[] constant(0)"]
    for n in range(COUNT):
        if kind == "reduction":
            lines.append(f"s{n} = f32[24] reduce(x{n}, z), dimensions={{0}}, to_apply=add")
            lines.append(f"r{n} = f32[24] negate(s{n})")
        else:
            lines.append(f"r{n} = f32[64,24] add(x{n}, x{n // 2 * 2})")
    shape = "f32[24]" if kind == "reduction" else "f32[64,24]"
    types, names = ", ".join([shape] * COUNT), ", ".join(f"r{n}" for n in range(COUNT))
    return f"HloModule m\n{ADD}\nENTRY main {{\n" + "\n".join(lines) + f"\nROOT r = ({types}) tuple({names})\n}}"


@pytest.mark.parametrize("kind", ["reduction", "loop"])
def test_a_fusion_of_very_many_arrays_is_several_kernels(kind):
    fusion = fusion_of(parse(program(kind)), kind)
    gpu = Compiled(fusion, GPU, POCL)
    assert len(gpu.kernels) > 1
    assert all(len(k.arguments) <= fusion_parts.MOST_ARRAYS for k in gpu.kernels)
    args = [random_array("f32", (64, 24)) for _ in range(COUNT)]
    for got, want in zip(gpu(*args), Compiled(fusion)(*args), strict=True):
        assert got.tobytes() == want.tobytes()


def test_outputs_that_read_an_array_of_their_size_are_in_one_part():
    fusion = fusion_of(parse(program("loop")), "loop")
    for part in fusion_parts.parts(fusion):
        assert len(part.outputs) % 2 == 0  # x0 is read for r0 and r1, x2 for r2 and r3, ...
    read = [i for part in fusion_parts.parts(fusion) for i in part.inputs]
    assert sorted(i.name for i in read) == sorted(i.name for i in fusion.inputs)
