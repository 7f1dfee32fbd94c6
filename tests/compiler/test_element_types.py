"""The element types that few programs have, through every kind of operation: the compiled bits are the reference's."""

import numpy as np
import pytest
from agreement import flat
from refxla_spec.compare import bits_equal
from refxla_spec.interpreter import run
from refxla_spec.text import parse
from refxla_spec.types import ELEMENT_TYPES
from refxla_spec.verify import verify

import refxla

# Values are few and small, so that sums are exact in any order.
PROGRAM = """HloModule every_kind
largest { a = T[] parameter(0)
          b = T[] parameter(1)
          ROOT c = T[] maximum(a, b) }
sum { a = T[] parameter(0)
      b = T[] parameter(1)
      ROOT c = T[] add(a, b) }
before { a = T[] parameter(0)
         b = T[] parameter(1)
         ROOT c = pred[] compare(a, b), direction=LT }
body { s = (s32[], T[3,4]) parameter(0)
       n = s32[] get-tuple-element(s), index=0
       x = T[3,4] get-tuple-element(s), index=1
       one = s32[] constant(1)
       m = s32[] add(n, one)
       y = T[3,4] multiply(x, x)
       ROOT t = (s32[], T[3,4]) tuple(m, y) }
more { s = (s32[], T[3,4]) parameter(0)
       n = s32[] get-tuple-element(s), index=0
       two = s32[] constant(2)
       ROOT r = pred[] compare(n, two), direction=LT }
ENTRY main {
  x = T[3,4] parameter(0)
  y = T[4,2] parameter(1)
  i = T[] parameter(2)
  v = T[40] parameter(3)
  product = T[3,2] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  wide = f32[3,2] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  rows = T[3] reduce(x, i), dimensions={1}, to_apply=largest
  columns = T[4] reduce(x, i), dimensions={0}, to_apply=sum
  windows = T[39] reduce-window(v, i), window={size=2}, to_apply=largest
  running = T[40] reduce-window(v, i), window={size=40 pad=39_0}, to_apply=largest
  sorted = T[40] sort(v), dimensions={0}, to_apply=before
  turned = T[4,3] transpose(x), dimensions={1,0}
  back = T[4,3] reverse(turned), dimensions={0}
  padded = T[6,3] pad(back, i), padding=1_1x0_0
  part = T[3,2] slice(padded), slice={[0:6:2],[0:2]}
  copies = T[3,2,2] broadcast(part), dimensions={0,1}
  both = T[6,2,2] concatenate(copies, copies), dimensions={0}
  moved = T[24] reshape(both)
  where = s32[3] constant({3,0,1})
  taken = T[3,2] gather(y, where), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1,
          slice_sizes={1,2}
  put = T[40] scatter(v, where, rows), update_window_dims={}, inserted_window_dims={0},
        scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=largest
  at = s32[] constant(1)
  updated = T[40] dynamic-update-slice(v, rows, at)
  seen = T[5] dynamic-slice(updated, at), dynamic_slice_sizes={5}
  image = T[1,40,1] reshape(v)
  kernel = T[2,1,2] reshape(columns)
  convolved = T[1,39,2] convolution(image, kernel), window={size=2}, dim_labels=b0f_0io->b0f
  first = T[40] slice(sorted), slice={[0:40]}
  less = pred[40] compare(v, first), direction=LT
  chosen = T[40] select(less, v, first)
  clamped = T[40] clamp(i, chosen, first)
  zero = s32[] constant(0)
  start = (s32[], T[3,4]) tuple(zero, x)
  loop = (s32[], T[3,4]) while(start), condition=more, body=body
  end = T[3,4] get-tuple-element(loop), index=1
  ROOT r = (T[3,2], f32[3,2], T[3], T[4], T[39], T[40], T[40], T[24], T[3,2], T[40], T[5], T[1,39,2], T[40], T[3,4])
           tuple(product, wide, rows, columns, windows, running, sorted, moved, taken, put, seen, convolved, clamped,
                 end)
}"""


def values(name: str, *sizes: int) -> np.ndarray:
    element_type, rng = ELEMENT_TYPES[name], np.random.default_rng((3, *sizes))
    if element_type.is_float:
        return rng.choice([0.5, 1, 2], sizes).astype(np.float32).astype(element_type.dtype)
    low = -(1 << element_type.bits - 1) if element_type.kind == "signed" else 0
    return rng.integers(low, low + (1 << element_type.bits), sizes).astype(element_type.dtype)


@pytest.mark.parametrize("name", ["f4e2m1fn", "f6e2m3fn", "f6e3m2fn", "f8e8m0fnu", "s1", "u2", "s4"])
def test_every_kind_of_operation(name):
    module = parse(PROGRAM.replace("T[", f"{name}["))
    verify(module)
    arguments = [values(name, *sizes) for sizes in ((3, 4), (4, 2), (), (40,))]
    results = zip(flat(refxla.compile(module)(*arguments)), flat(run(module, arguments)), strict=True)
    for n, (got, wanted) in enumerate(results):
        assert bits_equal(got, wanted), f"result {n}: {got} instead of {wanted}"
