"""Loops whose reads run across memory: transposes of any shape and type, alone and fused, in caches and past them."""

from itertools import permutations

import numpy as np
import pytest
from kernel_driver import Compiled, fusion_of
from refxla_spec import interpreter
from refxla_spec.text import parse
from refxla_spec.types import ELEMENT_TYPES

from refxla.codegen import turned
from refxla.codegen.target import DEFAULT_CPU

rng = np.random.default_rng(5)
GUARD = 128  # elements before and behind a result, which nobody may write


@pytest.fixture(params=["in caches", "past caches"])
def past_caches(request, monkeypatch):
    """Whether results are written past the caches, which otherwise only large ones are."""
    if request.param == "past caches":
        monkeypatch.setattr(turned, "STREAMED", 1)
    return request.param == "past caches"


def random_array(name: str, sizes: tuple[int, ...]) -> np.ndarray:
    """Random bits, of a floating-point type random numbers."""
    dtype = ELEMENT_TYPES[name].dtype
    if name in ("pred", "s4"):
        return rng.integers(0, 2, sizes).astype(dtype)
    if name in ("c64", "c128"):
        return (rng.standard_normal(sizes) + 1j * rng.standard_normal(sizes)).astype(dtype)
    if name[0] in "su":
        return rng.integers(0, 256, (*sizes, np.dtype(dtype).itemsize), np.uint8).view(dtype)[..., 0]
    return rng.standard_normal(sizes).astype(dtype)


def check(lines: str, *args: np.ndarray, offset: int = 0) -> str:
    """Runs the lines as one kernel, and compares with the interpreter, bit for bit; returns the kernel's C.

    Results begin `offset` elements behind a cache line, and what lies around them must not change.
    """
    module = parse(f"HloModule m\nENTRY main {{\n{lines}\n}}")
    compiled = Compiled(fusion_of(module), DEFAULT_CPU)
    wanted = interpreter.run(module, args)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    inputs = dict(zip(compiled.fusion.inputs, map(np.ascontiguousarray, args), strict=True))
    rooms, outputs = [], {}
    for o in compiled.fusion.outputs:
        dtype = np.dtype(o.shape.element_type.dtype)
        room = rng.integers(0, 256, (o.shape.size + 2 * GUARD) * dtype.itemsize + 64, np.uint8)
        room = room[-room.ctypes.data % 64 :]
        begin = (GUARD + offset) * dtype.itemsize
        outputs[o] = room[begin:][: o.shape.size * dtype.itemsize].view(dtype).reshape(o.shape.dimensions)
        rooms.append((room, begin, outputs[o].nbytes, room.copy()))
    compiled.launch(inputs, outputs)
    for o, want in zip(compiled.fusion.outputs, wanted, strict=True):
        np.testing.assert_array_equal(outputs[o].view(np.uint8), np.ascontiguousarray(want).view(np.uint8))
    for room, begin, size, before in rooms:
        assert (room[:begin] == before[:begin]).all() and (room[begin + size :] == before[begin + size :]).all()
    return compiled.program.source


SIZES = [(100, 203), (65, 64), (17, 300), (130, 5), (4, 70), (300, 17), (256, 40)]
SOME = [
    *((t, s) for t in ("s8", "f32") for s in SIZES),
    *((t, SIZES[0]) for t in ("bf16", "s64", "c64", "c128", "pred", "s4")),
]


@pytest.mark.parametrize("name, sizes", SOME)
def test_types_and_sizes(name, sizes, past_caches):
    (m, n), offset = sizes, sizes[0] % 7
    text = check(
        f"x = {name}[{m},{n}] parameter(0)\nROOT r = {name}[{n},{m}] transpose(x), dimensions={{1,0}}",
        random_array(name, sizes),
        offset=offset,
    )
    assert ("rx_line" in text) == (past_caches and min(m, n) >= 16)


@pytest.mark.parametrize("permutation", list(permutations(range(3))))
def test_dimensions(permutation, past_caches):
    sizes = (7, 40, 33)
    dims, to = ",".join(map(str, permutation)), ",".join(str(sizes[d]) for d in permutation)
    check(
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
    check(lines, *(random_array(*a) for a in arguments), offset=3)


@pytest.mark.parametrize("chunk", [300, 5000])
def test_units_and_items(chunk, past_caches, monkeypatch):
    """Panels, stretches of rows and several matrices to an item, or several items to a matrix."""
    monkeypatch.setattr("refxla.codegen.loop.CHUNK", chunk)
    monkeypatch.setattr(turned, "PANEL", 32)
    monkeypatch.setattr(turned, "PANEL_BYTES", 32 * 128)
    monkeypatch.setattr(turned, "STREAMED_ITEMS", 9)
    x = random_array("f32", (5, 150, 101))
    check("x = f32[5,150,101] parameter(0)\nROOT r = f32[5,101,150] transpose(x), dimensions={0,2,1}", x, offset=1)
    check("x = f32[5,15150] parameter(0)\nROOT r = f32[15150,5] transpose(x), dimensions={1,0}", x.reshape(5, -1))
    check("x = f32[15150,5] parameter(0)\nROOT r = f32[5,15150] transpose(x), dimensions={1,0}", x.reshape(-1, 5))
