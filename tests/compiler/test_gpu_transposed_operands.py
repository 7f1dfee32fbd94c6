"""Operands of convolutions that are transposed first, on GPUs: the bits of the CPU, on PoCL and in Oclgrind; and the
sectors for which that is done."""

from dataclasses import replace

import pytest
from kernel_driver import OCLGRIND, POCL, Compiled, fusion_of, random_array, reports
from refxla_spec.text import parse

from refxla.analysis.index_expression import constant
from refxla.codegen.emitter_registry import emit
from refxla.codegen.gpu import transposed_operands
from refxla.device.gpu_models import EMULATED

GPU = replace(EMULATED, compute_units=1, offsets=False)
CASES = {
    "gradient of a filter": (
        """x = f32[4,6,9,10] parameter(0)
        y = f32[4,8,9,10] parameter(1)
        ROOT r = f32[8,6,3,3] convolution(x, y), window={size=9x10 pad=1_1x1_1}, dim_labels=fb01_io01->fb01""",
        ("left", "right", ""),
    ),
    "gradient of a filter, its sums shared out": (
        """x = f32[6,6,15,16] parameter(0)
        y = f32[6,8,15,16] parameter(1)
        ROOT r = f32[8,6,3,3] convolution(x, y), window={size=15x16 pad=1_1x1_1}, dim_labels=fb01_io01->fb01""",
        ("left", "right", "segments", ""),
    ),
    "gradient of a filter with strides, of halves, with producers and an epilogue": (
        """x = bf16[4,6,18,20] parameter(0)
        y = f32[4,8,9,10] parameter(1)
        s = f32[8] parameter(2)
        n = bf16[4,6,18,20] negate(x)
        h = bf16[4,8,9,10] convert(y)
        c = bf16[8,6,3,3] convolution(n, h), window={size=9x10 pad=1_0x1_0 rhs_dilate=2x2}, dim_labels=fb01_io01->fb01
        f = f32[8,6,3,3] convert(c)
        b = f32[8,6,3,3] broadcast(s), dimensions={0}
        ROOT r = f32[8,6,3,3] multiply(f, b)""",
        ("left", "right", ""),
    ),
    "gradient of filters of groups": (
        """x = f32[4,16,9,10] parameter(0)
        y = f32[4,16,9,10] parameter(1)
        ROOT r = f32[16,8,3,3] convolution(x, y), window={size=9x10 pad=1_1x1_1}, dim_labels=fb01_io01->fb01,
            batch_group_count=2""",
        ("left", "right", ""),
    ),
    "gradient of a depthwise filter": (
        """x = f32[6,16,15,16] parameter(0)
        y = f32[6,16,15,16] parameter(1)
        ROOT r = f32[1,16,3,3] convolution(x, y), window={size=15x16 pad=1_1x1_1}, dim_labels=fb01_io01->bf01,
            batch_group_count=16""",
        ("left", "right", "segments", ""),
    ),
    "an image and its weights": (
        """x = f32[2,16,9,10] parameter(0)
        y = f32[20,16,3,3] parameter(1)
        ROOT r = f32[2,20,9,10] convolution(x, y), window={size=3x3 pad=1_1x1_1}, dim_labels=bf01_oi01->bf01""",
        ("left", "right", ""),
    ),
    "features last already": (
        """x = f32[4,9,10,8] parameter(0)
        y = f32[4,9,10,8] parameter(1)
        ROOT r = f32[3,3,8,8] convolution(x, y), window={size=9x10 pad=1_1x1_1}, dim_labels=f01b_i01o->01bf""",
        ("",),
    ),
}


def fusion(name: str):
    return fusion_of(parse(f"HloModule m\nENTRY main {{\n{CASES[name][0]}\n}}"), "convolution")


@pytest.mark.parametrize("name", CASES)
def test_a_product_of_transposed_operands_has_the_bits_of_the_cpu(name, monkeypatch, capfd):
    monkeypatch.setattr(transposed_operands, "LAUNCH_BYTES", 0)
    monkeypatch.setattr(transposed_operands, "LEAST_EXCESS", 1.2)
    monkeypatch.setattr(transposed_operands, "HIDDEN", 0.1)
    own = fusion(name)
    target = replace(GPU, compute_units=64) if "shared out" in name else GPU
    gpu, checked = Compiled(own, target, POCL), Compiled(own, target, OCLGRIND)
    names = tuple(k.name.removeprefix(own.name).removeprefix(".") for k in gpu.kernels)
    assert names == CASES[name][1]
    args = [random_array(i.shape.element_type.name, i.shape.dimensions) for i in own.inputs]
    wanted = Compiled(own)(*args)
    capfd.readouterr()
    for got, want in zip((*gpu(*args), *checked(*args)), (*wanted, *wanted), strict=True):
        assert got.tobytes() == want.tobytes()
    assert not reports(capfd.readouterr().err, checked)


def test_small_operands_are_read_where_they_are():
    assert len(emit(fusion("gradient of a filter"), GPU)) == 1


def test_the_excess_of_sectors_is_that_of_the_elements_that_adjacent_items_read():
    own = fusion("gradient of a filter")
    x = own.inputs[0]
    zero = constant(0)
    row = [(zero, zero, zero, constant(n % 8)) for n in range(32)]
    channels = [(zero, constant(n % 6), zero, zero) for n in range(6)]
    assert transposed_operands.excess_sectors(own, x, row) == 1.0
    assert transposed_operands.excess_sectors(own, x, channels) == 8.0
