"""Slices of what is computed from concatenates are computed from their pieces, with the same bits."""

import numpy as np
import pytest
from refxla_spec.module import post_order
from refxla_spec.text import parse

import refxla
from refxla.passes import slice_propagation

STACKED = """HloModule m
    ENTRY e { p = f32[50,3] parameter(0)
        a = f32[50,1] slice(p), slice={[0:50], [0:1]}
        b = f32[50,1] slice(p), slice={[0:50], [1:2]}
        c = f32[50,1] slice(p), slice={[0:50], [2:3]}
        ab = f32[50,1] multiply(a, b)
        bc = f32[50,1] subtract(b, c)
        ca = f32[50,1] sine(c)
        s = f32[50,3] concatenate(ab, bc, ca), dimensions={1}
        h = f32[] constant(0.1)
        wide = f32[50,3] broadcast(h), dimensions={}
        step = f32[50,3] multiply(s, wide)
        next = f32[50,3] add(p, step)
        x = f32[50,1] slice(next), slice={[0:50], [0:1]}
        y = f32[50,1] slice(next), slice={[0:50], [1:2]}
        z = f32[20,1] slice(next), slice={[30:50], [2:3]}
        xy = f32[50,1] multiply(x, y)
        ROOT r = (f32[50,1], f32[20,1], f32[50,3]) tuple(xy, z, LAST) }"""


def opcodes(text: str) -> list[str]:
    module = parse(text)
    slice_propagation.run(module)
    return [i.opcode for i in post_order(module.entry.root, ())]


def test_each_part_is_computed_of_its_piece():
    found = opcodes(STACKED.replace("LAST", "p"))
    assert "concatenate" not in found
    assert found.count("add") == 3 and found.count("sine") == 1


@pytest.mark.parametrize(
    ("part", "other"),
    [
        ("LAST", "next"),  # the whole value is a result
        ("LAST", "step"),  # so is what it is made of, which is then computed anyway
        ("x = f32[50,1] slice(next), slice={[0:50], [0:1]}", "x = f32[50,2] slice(next), slice={[0:50], [0:2]}"),  # cut
    ],
)
def test_a_concatenate_that_is_needed_stays(part, other):
    text = STACKED.replace(part, other).replace("LAST", "p")
    if "f32[50,2]" in other:
        text = text.replace("xy = f32[50,1] multiply(x, y)", "xy = f32[50,2] sine(x)").replace(
            "(f32[50,1]", "(f32[50,2]"
        )
    assert "concatenate" in opcodes(text)


@pytest.mark.parametrize("last", ["p", "next", "s"])
def test_the_bits_stay(last):
    text, p = STACKED.replace("LAST", last), np.linspace(-3, 3, 150, dtype=np.float32).reshape(50, 3)
    wants = refxla.compile(text, without=("slice-propagation", "fusion"))(p)
    for got, want in zip(refxla.compile(text)(p), wants, strict=True):
        assert got.tobytes() == want.tobytes()
