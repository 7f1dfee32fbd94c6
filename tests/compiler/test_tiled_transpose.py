"""Loops whose reads run across memory: transposes of any shape and type, alone and fused, in caches and past them."""

from itertools import permutations

import numpy as np
import pytest
from cache_sizes import set_caches
from kernel_driver import Compiled, check_within, fusion_of, random_array
from refxla_spec.text import parse

from refxla.codegen.loops import transpose_schedule


@pytest.fixture(params=["in caches", "past caches"])
def past_caches(request, monkeypatch):
    """Whether results are written past the caches, which otherwise only large ones are."""
    if request.param == "past caches":
        set_caches(monkeypatch, last=1)
    return request.param == "past caches"


SIZES = [(100, 203), (65, 64), (17, 300), (130, 5), (4, 70), (300, 17), (256, 40), (777, 33), (500, 4), (90, 8)]
SOME = [
    *((t, s) for t in ("s8", "f32") for s in SIZES),
    *((t, SIZES[0]) for t in ("bf16", "s64", "c64", "c128", "pred", "s4")),
]


@pytest.mark.parametrize("name, sizes", SOME)
def test_types_and_sizes(name, sizes, past_caches):
    (m, n), offset = sizes, sizes[0] % 7
    text = check_within(
        f"x = {name}[{m},{n}] parameter(0)\nROOT r = {name}[{n},{m}] transpose(x), dimensions={{1,0}}",
        random_array(name, sizes),
        offset=offset,
    )
    assert ("rx_store_lines" in text) == (past_caches and m >= 16)


@pytest.mark.parametrize("permutation", list(permutations(range(3))))
def test_dimensions(permutation, past_caches):
    sizes = (7, 40, 33)
    dims, to = ",".join(map(str, permutation)), ",".join(str(sizes[d]) for d in permutation)
    check_within(
        f"x = f32[7,40,33] parameter(0)\nROOT r = f32[{to}] transpose(x), dimensions={{{dims}}}",
        random_array("f32", sizes),
    )


FUSED = {
    "work around it": (
        """x = f32[90,70] parameter(0)
        y = f32[70,90] parameter(1)
        z = f32[70] parameter(2)
        n = f32[90,70] negate(x)
        t = f32[70,90] transpose(n), dimensions={1,0}
        a = f32[70,90] add(t, y)
        b = f32[70,90] broadcast(z), dimensions={0}
        ROOT r = f32[70,90] multiply(a, b)""",
        ("f32", (90, 70)), ("f32", (70, 90)), ("f32", (70,)),
    ),
    "two of different types": (
        """x = f32[90,70] parameter(0)
        y = s8[90,70] parameter(1)
        t = f32[70,90] transpose(x), dimensions={1,0}
        u = s8[70,90] transpose(y), dimensions={1,0}
        c = f32[70,90] convert(u)
        ROOT r = f32[70,90] add(t, c)""",
        ("f32", (90, 70)), ("s8", (90, 70)),
    ),
    "backward": (
        """x = s16[90,70] parameter(0)
        a = s16[90,70] reverse(x), dimensions={1}
        t = s16[70,90] transpose(a), dimensions={1,0}
        ROOT r = s16[70,90] reverse(t), dimensions={1}""",
        ("s16", (90, 70)),
    ),
    "slices and borders": (
        """x = f32[90,70] parameter(0)
        z = f32[] constant(3)
        s = f32[80,61] slice(x), slice={[5:85],[3:64]}
        t = f32[61,80] transpose(s), dimensions={1,0}
        ROOT r = f32[66,83] pad(t, z), padding=2_3x1_2""",
        ("f32", (90, 70)),
    ),
    "several results": (
        """x = f32[2,45,70] parameter(0)
        t = f32[2,70,45] transpose(x), dimensions={0,2,1}
        h = bf16[2,70,45] convert(t)
        z = f32[] constant(0)
        b = f32[2,70,45] broadcast(z), dimensions={}
        p = pred[2,70,45] compare(t, b), direction=GT
        ROOT r = (f32[2,70,45], bf16[2,70,45], pred[2,70,45]) tuple(t, h, p)""",
        ("f32", (2, 45, 70)),
    ),
    "wider than it was": (
        """x = u8[90,70] parameter(0)
        t = u8[70,90] transpose(x), dimensions={1,0}
        ROOT r = f64[70,90] convert(t)""",
        ("u8", (90, 70)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FUSED)
def test_fused(name, past_caches):
    lines, *arguments = FUSED[name]
    check_within(lines, *(random_array(*a) for a in arguments), offset=3)


@pytest.mark.parametrize("sizes", [(90, 170), (64, 64), (300, 5)])
def test_functions_go_in_pieces(sizes, past_caches):
    """The bits are those of the function computed before, be some of its operands large."""
    (m, n), x = sizes, random_array("f32", sizes)
    x[::40] *= np.float32(1e6)
    y = random_array("f32", (n, m))
    text = f"""x = f32[{m},{n}] parameter(0)
        y = f32[{n},{m}] parameter(1)
        t = f32[{n},{m}] transpose(x), dimensions={{1,0}}
        s = f32[{n},{m}] sine(t)
        ROOT a = f32[{n},{m}] add(s, y)"""
    fused = Compiled(fusion_of(parse(f"ENTRY e {{ {text} }}")))
    before = Compiled(fusion_of(parse(f"ENTRY e {{ x = f32[{m},{n}] parameter(0)\nROOT s = f32[{m},{n}] sine(x) }}")))
    assert "fast_shifted_sine_f32(" in fused.kernels[0].body and "rx_transpose_u32(" in fused.kernels[0].body
    assert fused(x, y)[0].tobytes() == (before(x)[0].T + y).tobytes()


@pytest.mark.parametrize("chunk", [300, 5000])
def test_units_and_items(chunk, past_caches, monkeypatch):
    """Panels, stretches of rows and several matrices to an item, or several items to a matrix."""
    monkeypatch.setattr("refxla.codegen.work_items.ELEMENTS", chunk)
    monkeypatch.setattr(transpose_schedule, "PANEL", 32)
    monkeypatch.setattr(transpose_schedule, "PAGES", 32)
    monkeypatch.setattr(transpose_schedule, "NON_TEMPORAL_ITEMS", 9)
    x = random_array("f32", (5, 150, 101))
    program = "x = f32[{}] parameter(0)\nROOT r = f32[{}] transpose(x), dimensions={}"
    check_within(program.format("5,150,101", "5,101,150", "{0,2,1}"), x, offset=1)
    check_within(program.format("5,15150", "15150,5", "{1,0}"), x.reshape(5, -1))
    check_within(program.format("15150,5", "5,15150", "{1,0}"), x.reshape(-1, 5))
