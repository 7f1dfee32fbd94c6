"""Outputs as large as what is reduced, written past the caches: of rows, of all columns, and of strips of them."""

from dataclasses import replace

import numpy as np
import pytest
from cache_sizes import set_caches
from kernel_driver import GUARD, Compiled, fusion_of
from refxla_spec.text import parse

from refxla.codegen.loops import non_temporal_stores
from refxla.device.description import DEFAULT_CPU
from refxla.runtime.devices import choose

STRIPS = (2501, 301)  # of 128 columns, the last of which overlaps the one before
SIZES = [((9, 700), 1), ((3, 5001), 1), ((3, 70, 37), 1), ((2, 30, 130), 1), (STRIPS, 0), ((2, 5001, 130), 1)]


def softmax(sizes, axis, name="f32", outputs="q") -> str:
    """The softmax q along an axis, and what it takes for that."""
    size, kept = ",".join(map(str, sizes)), [d for d in range(len(sizes)) if d != axis]
    small, along = ",".join(str(sizes[d]) for d in kept), ",".join(map(str, kept))
    types = ", ".join(f"{name}[{small if o in 'ms' else size}]" for o in outputs)
    reducers = (f"{o} {{ a = {name}[] parameter(0)  b = {name}[] parameter(1)  ROOT r = {name}[] {o}(a, b) }}"
                for o in ("maximum", "add"))  # fmt: skip
    return f"""HloModule m
    {" ".join(reducers)}
    ENTRY main {{
    x = {name}[{size}] parameter(0)
    low = {name}[] constant(-inf)
    zero = {name}[] constant(0)
    m = {name}[{small}] reduce(x, low), dimensions={{{axis}}}, to_apply=maximum
    mb = {name}[{size}] broadcast(m), dimensions={{{along}}}
    d = {name}[{size}] subtract(x, mb)
    e = {name}[{size}] exponential(d)
    s = {name}[{small}] reduce(e, zero), dimensions={{{axis}}}, to_apply=add
    sb = {name}[{size}] broadcast(s), dimensions={{{along}}}
    q = {name}[{size}] divide(e, sb)
    ROOT r = ({types}) tuple({", ".join(outputs)})
    }}"""


def run(text: str, x: np.ndarray, target, offset: int) -> tuple[list[bytes], str]:
    """The results' bits and the kernel's C. Results begin `offset` elements after a line of a cache; what lies around
    them must not change."""
    compiled = Compiled(fusion_of(parse(text), "reduction"), target)
    rooms, outputs = [], {}
    for o in compiled.fusion.outputs:
        room = np.full((o.shape.size + 2 * GUARD) * o.shape.element_type.bytes + 64, 77, np.uint8)
        begin = -room.ctypes.data % 64 + (GUARD + offset) * o.shape.element_type.bytes
        end = begin + o.shape.bytes
        outputs[o] = room[begin:end].view(o.shape.element_type.dtype).reshape(o.shape.dimensions)
        rooms.append((room, begin, end))
    compiled.launch(dict.fromkeys(compiled.fusion.inputs, x), outputs)
    assert all((room[:begin] == 77).all() and (room[end:] == 77).all() for room, begin, end in rooms)
    return [a.tobytes() for a in outputs.values()], compiled.kernels[0].body


def check(monkeypatch, text: str, x: np.ndarray, target, offset: int = 0) -> str:
    """Past the caches or not, the bits are the same; the C that writes past them."""
    set_caches(monkeypatch, last=1 << 40)
    want, plain = run(text, x, target, offset)
    set_caches(monkeypatch, last=1)
    monkeypatch.setattr(non_temporal_stores, "LEAST_RUN", 1)
    got, body = run(text, x, target, offset)
    assert got == want
    assert "RX_FENCE" not in plain
    return body


@pytest.mark.parametrize("features", [False, True])
@pytest.mark.parametrize("sizes, axis", SIZES, ids=str)
def test_rows_columns_and_strips(monkeypatch, sizes, axis, features):
    target = replace(DEFAULT_CPU, features=choose()[0].target.features) if features else DEFAULT_CPU
    x = np.random.default_rng(1).standard_normal(sizes, np.float32)
    for offset in (0, 5):
        body = check(monkeypatch, softmax(sizes, axis), x, target, offset)
        assert ("rx_store_strip_u32" in body) == (axis < len(sizes) - 1)
        assert ("rx_copy_non_temporal_u32" in body) == (
            sizes == (9, 700)
        )  # longer rows are held in the result's memory
        assert body.rstrip().endswith("RX_FENCE();") == (sizes != (3, 5001))


@pytest.mark.parametrize("name", ["f64", "bf16", "f16"])
@pytest.mark.parametrize("sizes, axis", [((9, 700), 1), ((3, 70, 37), 1), (STRIPS, 0)], ids=str)
def test_types(monkeypatch, name, sizes, axis):
    dtype = parse(softmax(sizes, axis, name)).entry.parameters[0].shape.element_type.dtype
    x = np.random.default_rng(1).standard_normal(sizes).astype(dtype)
    assert "RX_FENCE" in check(monkeypatch, softmax(sizes, axis, name), x, DEFAULT_CPU, 3)


@pytest.mark.parametrize("outputs", ["dq", "qs", "mq"])
@pytest.mark.parametrize("sizes, axis", [((9, 700), 1), ((3, 70, 37), 1), ((300, 701), 0)], ids=str)
def test_several_outputs(monkeypatch, outputs, sizes, axis):
    x = np.random.default_rng(1).standard_normal(sizes, np.float32)
    assert "RX_FENCE" in check(monkeypatch, softmax(sizes, axis, outputs=outputs), x, DEFAULT_CPU, 7)


def test_items_take_strips_beside_each_other(monkeypatch):
    """However many there are, of whatever number of cores."""
    x = np.random.default_rng(1).standard_normal((2501, 1301), np.float32)
    for cores in (1, 2, 5, 64):
        target = replace(DEFAULT_CPU, compute_units=cores)
        check(monkeypatch, softmax(x.shape, 0), x, target, 1)
