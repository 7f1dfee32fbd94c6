"""Transposes end up behind elementwise operations and reductions, and change no value."""

import numpy as np
import pytest
from agreement import assert_agree
from refxla_spec import interpreter
from refxla_spec.text import parse

import refxla
from refxla.passes.pipeline import optimize

ADD = "add_ { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }"
ARGMAX = """argmax { a = f32[] parameter(0)  i = s32[] parameter(1)  b = f32[] parameter(2)  j = s32[] parameter(3)
  g = pred[] compare(a, b), direction=GE  v = f32[] select(g, a, b)  k = s32[] select(g, i, j)
  ROOT r = (f32[], s32[]) tuple(v, k) }"""
X = "x = f32[40,70] parameter(0)  t = f32[70,40] transpose(x), dimensions={1,0}  zero = f32[] constant(0)  "
CUBE = "x = f32[4,5,6] parameter(0)  t = f32[6,4,5] transpose(x), dimensions={2,0,1}  zero = f32[] constant(0)  "
# The transposes that are left, by the shapes of their results.
CASES = {
    "a sum along rows": (X + "ROOT r = f32[70] reduce(t, zero), dimensions={1}, to_apply=add_", []),
    "a sum along columns": (X + "ROOT r = f32[40] reduce(t, zero), dimensions={0}, to_apply=add_", []),
    "a chain": (
        X + "m = f32[70] reduce(t, zero), dimensions={1}, to_apply=add_  w = f32[70,40] broadcast(m), dimensions={0}  "
        "s = f32[70,40] subtract(t, w)  e = f32[70,40] exponential(s)  ROOT r = f32[40] reduce(e, zero), "
        "dimensions={0}, to_apply=add_",
        [],
    ),
    "back again": (X + "e = f32[70,40] sine(t)  ROOT r = f32[40,70] transpose(e), dimensions={1,0}", []),
    "at the end": (X + "e = f32[70,40] sine(t)  ROOT r = f32[70,40] add(e, t)", [(70, 40)]),
    "a result of two dimensions": (
        CUBE + "ROOT r = f32[6,4] reduce(t, zero), dimensions={2}, to_apply=add_",
        [(6, 4)],
    ),
    "broadcasts of matrices, numbers and indices": (
        CUBE + "y = f32[6,5] parameter(1)  w = f32[6,4,5] broadcast(y), dimensions={0,2}  "
        "i = f32[6,4,5] iota(), iota_dimension=2  z = f32[6,4,5] broadcast(zero), dimensions={}  "
        "a = f32[6,4,5] add(t, w)  b = f32[6,4,5] multiply(a, i)  c = f32[6,4,5] maximum(b, z)  "
        "ROOT r = f32[4] reduce(c, zero), dimensions={0,2}, to_apply=add_",
        [(5, 6)],
    ),
    "scalars of clamp and select": (
        X + "one = f32[] constant(1)  p = pred[] parameter(1)  c = f32[70,40] clamp(zero, t, one)  "
        "s = f32[70,40] select(p, c, t)  ROOT r = f32[70] reduce(s, zero), dimensions={1}, to_apply=add_",
        [],
    ),
    "an order of its own": (
        X + "y = f32[70,40] parameter(1)  a = f32[70,40] add(t, y)  "
        "ROOT r = f32[70] reduce(a, zero), dimensions={1}, to_apply=add_",
        [(70, 40)],
    ),
    "the place of the largest": (
        X + "i = s32[70,40] iota(), iota_dimension=1  low = f32[] constant(-inf)  n = s32[] constant(0)  "
        "ROOT r = (f32[70], s32[70]) reduce(t, i, low, n), dimensions={1}, to_apply=argmax",
        [],
    ),
    "slices, pads, concatenations and what is turned round": (
        CUBE
        + "s = f32[4,3,3] slice(t), slice={[1:5],[0:3],[0:5:2]}  p = f32[4,3,5] pad(s, zero), padding=0_0x0_0x2_0  "
        "q = f32[4,3,5] slice(t), slice={[0:4],[1:4],[0:5]}  c = f32[4,6,5] concatenate(p, q), dimensions={1}  "
        "v = f32[4,6,5] reverse(c), dimensions={0,2}  ROOT r = f32[4] reduce(v, zero), dimensions={1,2}, to_apply=add_",
        [],
    ),
    "a stack": (
        CUBE + "y = f32[6,4,5] negate(t)  u = f32[6,1,4,1,5] reshape(t)  v = f32[6,1,4,1,5] reshape(y)  "
        "c = f32[6,1,4,2,5] concatenate(u, v), dimensions={3}  "
        "ROOT r = f32[4,2] reduce(c, zero), dimensions={0,1,4}, to_apply=add_",
        [],
    ),
    "both sides of a dot": (
        CUBE + "y = f32[5,6,3] parameter(1)  u = f32[6,3,5] transpose(y), dimensions={1,2,0}  "
        "ROOT d = f32[6,4,3] dot(t, u), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, "
        "rhs_contracting_dims={2}",
        [],
    ),
    "matrices of a batch that would lie across memory": (
        "x = f32[4,20,6] parameter(0)  t = f32[4,6,20] transpose(x), dimensions={0,2,1}  y = f32[6,4] parameter(1)  "
        "ROOT d = f32[6,20] dot(y, t), lhs_batch_dims={0}, rhs_batch_dims={1}, lhs_contracting_dims={1}, "
        "rhs_contracting_dims={0}",
        [(4, 6, 20)],
    ),
    "a side of a dot whose free dimensions change places": (
        CUBE + "y = f32[5] parameter(1)  "
        "ROOT d = f32[6,4] dot(t, y), lhs_contracting_dims={2}, rhs_contracting_dims={0}",
        [(6, 4, 5)],
    ),
    "dimensions of one": (
        "x = f32[40,1] parameter(0)  t = f32[1,40] transpose(x), dimensions={1,0}  ROOT r = f32[1,40] negate(t)",
        [],
    ),
}


@pytest.mark.parametrize("body, left", CASES.values(), ids=CASES)
def test_transposes_move(body, left):
    rng = np.random.default_rng(0)
    module = parse(f"HloModule m\n {ADD}\n {ARGMAX}\n ENTRY main {{ {body} }}")
    args = [
        rng.standard_normal(p.shape.dimensions).astype(np.float32) if str(p.shape.element_type) == "f32" else np.True_
        for p in module.entry.parameters
    ]
    assert_agree(refxla.compile(module)(*args), [interpreter.run(module, args)])
    found = [i.shape.dimensions for i in optimize(module).instructions() if i.opcode == "transpose"]
    assert found == left


def test_a_reducer_that_does_not_commute_takes_elements_in_their_order():
    rng = np.random.default_rng(0)
    text = """HloModule m
    last { a = s32[] parameter(0)  b = s32[] parameter(1)  two = s32[] constant(2)  c = s32[] multiply(a, two)
      ROOT r = s32[] subtract(c, b) }
    ENTRY main { x = s32[9,20] parameter(0)  t = s32[20,9] transpose(x), dimensions={1,0}  zero = s32[] constant(0)
      ROOT r = s32[] reduce(t, zero), dimensions={0,1}, to_apply=last }"""
    module = parse(text)
    reductions = [i for i in optimize(module).instructions() if i.opcode == "transpose"]
    assert reductions  # it stays where it was
    x = rng.integers(-9, 9, (9, 20)).astype(np.int32)
    np.testing.assert_array_equal(refxla.compile(module)(x), interpreter.run(module, [x]))
