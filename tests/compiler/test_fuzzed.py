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
