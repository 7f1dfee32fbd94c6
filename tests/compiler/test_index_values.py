"""Start indices that are made of iotas and constants are indices, and no loads at places that code computes."""

import numpy as np
import pytest
from kernel_driver import Compiled, fusion_of
from refxla_spec import interpreter
from refxla_spec.text import parse

from refxla.analysis.index_expression import variable
from refxla.analysis.index_maps import Start
from refxla.analysis.index_values import known_start
from refxla.codegen.emitter_registry import emit
from refxla.device.description import DEFAULT_CPU

FRAMES = """a = s32[50] iota(), iota_dimension=0
    step = s32[] constant(16)
    steps = s32[50] broadcast(step), dimensions={}
    m = s32[50] multiply(a, steps)
    f = s32[50,40] broadcast(m), dimensions={0}
    b = s32[40] iota(), iota_dimension=0
    g = s32[50,40] broadcast(b), dimensions={1}
"""
WRAPPED = """zero = s32[] constant(0)
    zeros = s32[50,40] broadcast(zero), dimensions={}
    below = pred[50,40] compare(s, zeros), direction=LT
    size = s32[] constant(824)
    sizes = s32[50,40] broadcast(size), dimensions={}
    up = s32[50,40] add(s, sizes)
    t = s32[50,40] select(below, up, s)
    i = s32[50,40,1] reshape(t)
"""
SUMS = {
    "sum": "s = s32[50,40] add(f, g)",
    "difference": "s = s32[50,40] subtract(f, g)",
    "clamped": "w = s32[50,40] add(f, g)\ne = s32[] constant(1000)\nz0 = s32[] constant(0)\n"
    "s = s32[50,40] clamp(z0, w, e)",
    "quotient": "w = s32[50,40] add(f, g)\nh = s32[] constant(3)\nhs = s32[50,40] broadcast(h), dimensions={}\n"
    "s = s32[50,40] divide(w, hs)",
    "remainder": "w = s32[50,40] add(f, g)\nh = s32[] constant(37)\nhs = s32[50,40] broadcast(h), dimensions={}\n"
    "s = s32[50,40] remainder(w, hs)",
}


@pytest.mark.parametrize("name", SUMS)
def test_windows_that_slide_are_read_where_they_lie(name):
    text = f"""HloModule m
    ENTRY main {{
    x = f32[824] parameter(0)
    {FRAMES}{SUMS[name]}
    {WRAPPED}
    ROOT r = f32[50,40] gather(x, i), offset_dims={{}}, collapsed_slice_dims={{0}}, start_index_map={{0}},
        index_vector_dim=2, slice_sizes={{1}}
    }}"""
    module = parse(text)
    x = np.random.default_rng(0).standard_normal(824).astype(np.float32)
    np.testing.assert_array_equal(Compiled(fusion_of(module))(x)[0], interpreter.run(module, [x]))
    (kernel,) = emit(fusion_of(module), DEFAULT_CPU)
    computed = " < 0 ? 0 : " in kernel.body  # a clamp
    assert computed == (name == "difference"), kernel.body


def test_what_overflows_or_is_an_input_is_no_index():
    module = parse("""HloModule m
    ENTRY main {
        i = u8[200] iota(), iota_dimension=0
        two = u8[] constant(2)
        twos = u8[200] broadcast(two), dimensions={}
        twice = u8[200] multiply(i, twos)
        x = u8[200] parameter(0)
        y = u8[200] add(x, twos)
        ROOT t = (u8[200], u8[200], u8[200]) tuple(i, twice, y)
    }""")
    at = (variable("g0", 0, 199),)
    i, twice, y = module.entry.root.operands
    assert known_start(Start(i, at, 300)) == at[0]
    assert known_start(Start(i, at, 198)) is None  # it would be clamped
    assert known_start(Start(twice, at, 300)) is None
    assert known_start(Start(y, at, 300)) is None
