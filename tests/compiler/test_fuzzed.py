"""Programs that the fuzzer found, reduced."""

import numpy as np
import pytest
from refxla_spec import interpreter
from refxla_spec.text import parse

import refxla

HEAD = "HloModule m\nENTRY e {\n"
TINIEST = np.array([0], np.uint8)  # 2^-127, which has no negative


def test_minus_minus_is_nothing_only_where_there_are_negative_numbers():
    text = HEAD + "x = f8e8m0fnu[1] parameter(0)\nm = f8e8m0fnu[1] negate(x)\nROOT r = f8e8m0fnu[1] negate(m) }"
    module = parse(text)
    x = TINIEST.view(module.entry.root.shape.element_type.dtype)
    assert np.isnan(interpreter.run(module, [x]).astype(np.float32)).all()
    assert np.isnan(np.asarray(refxla.compile(text)(x)).astype(np.float32)).all()


@pytest.mark.parametrize("name, dtype", [("c64", np.complex64), ("c128", np.complex128)])
def test_atan2_of_complex_scalars(name, dtype):
    text = HEAD + f"y = {name}[] parameter(0)\nx = {name}[] parameter(1)\nROOT r = {name}[] atan2(y, x) }}"
    assert np.isnan(interpreter.run(parse(text), [dtype(0), dtype(0)]))
    assert interpreter.run(parse(text), [dtype(0), dtype(1)]) == 0


def test_what_is_computed_of_sums_that_overflow_sees_four_bits():
    text = (
        HEAD
        + """
    four = s4[1] constant({-4})
    count = s4[8,1] iota(), iota_dimension=0
    products = s4[8] dot(count, four), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    most = (s4[1], s32[1]) topk(products), k=1, largest=true
    value = s4[1] get-tuple-element(most), index=0
    index = s32[1] get-tuple-element(most), index=1
    x = s4[3,6,4,1] parameter(0)
    w = s4[1,3,1,3] iota(), iota_dimension=3
    sums = s4[1,7,8,1] convolution(x, w), window={size=3x1 pad=2_1x-1_2 lhs_dilate=1x2 rhs_dilate=1x2},
        dim_labels=f01b_oi10->b01f
    some = pred[1,7,8,1] convert(sums)
    ROOT t = (s4[1], s32[1], pred[1,7,8,1]) tuple(value, index, some) }"""
    )
    module = parse(text)
    dtype = module.entry.parameters[0].shape.element_type.dtype
    for seed in range(4):
        x = np.random.default_rng(seed).integers(-8, 8, (3, 6, 4, 1)).astype(dtype)
        for got, want in zip(refxla.compile(text)(x), interpreter.run(module, [x]), strict=True):
            assert np.array_equal(got, want)
