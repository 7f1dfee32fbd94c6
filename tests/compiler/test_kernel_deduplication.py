"""Fusions that differ in names alone are emitted once; all that an emitter reads tells fusions apart."""

from functools import partial

import numpy as np
import pytest
from refxla_spec import interpreter
from refxla_spec.text import parse

import refxla
from refxla.codegen.emitter_registry import emit
from refxla.device.description import DEFAULT_CPU
from refxla.passes.pipeline import optimize
from refxla.scheduling.kernel_deduplication import KernelDeduplicator
from refxla.scheduling.scheduler import make_plan
from refxla.scheduling.scheduling_options import SchedulingOptions

LAYERS = """HloModule layers
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
ENTRY main {
  x = f32[40,24] parameter(0)
  w = f32[24,24] parameter(1)
  zero = f32[] constant(0)
  d0 = f32[40,24] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  t0 = f32[40,24] tanh(d0)
  s0 = f32[40] reduce(t0, zero), dimensions={1}, to_apply=add
  b0 = f32[40,24] broadcast(s0), dimensions={0}
  y0 = f32[40,24] divide(t0, b0)
  d1 = f32[40,24] dot(y0, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  t1 = f32[40,24] tanh(d1)
  s1 = f32[40] reduce(t1, zero), dimensions={1}, to_apply=add
  b1 = f32[40,24] broadcast(s1), dimensions={0}
  y1 = f32[40,24] divide(t1, b1)
  d2 = f32[40,24] dot(y1, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  t2 = f32[40,24] tanh(d2)
  s2 = f32[40] reduce(t2, zero), dimensions={1}, to_apply=add
  b2 = f32[40,24] broadcast(s2), dimensions={0}
  ROOT y2 = f32[40,24] divide(t2, b2)
}"""


class Counting:
    """An emitter that counts what it is asked."""

    def __init__(self) -> None:
        self.fusions = []

    def __call__(self, fusion):
        self.fusions.append(fusion)
        return emit(fusion, DEFAULT_CPU)


def test_layers_are_emitted_once_and_planned_as_if_each_were():
    module = optimize(parse(LAYERS))
    plain = make_plan(module, partial(emit, target=DEFAULT_CPU)).plan
    counting = Counting()
    plan = make_plan(module, KernelDeduplicator(counting)).plan
    assert len(counting.fusions) < len(plan.fusions)
    assert plan.kernels == plain.kernels and plan.steps == plain.steps and plan.buffers == plain.buffers


def test_the_program_is_right():
    rng = np.random.default_rng(0)
    x, w = rng.uniform(0.1, 1, (40, 24)).astype(np.float32), rng.uniform(0.1, 1, (24, 24)).astype(np.float32)
    want = interpreter.run(parse(LAYERS), [x, w])
    np.testing.assert_allclose(refxla.compile(LAYERS)(x, w), want, rtol=1e-4)


PAIR = """HloModule pair
ENTRY main {{
  x = f32[64] parameter(0)
  y = f32[64] parameter(1)
  {first}
  {second}
  ROOT r = (f32[64], f32[64]) tuple(a, b)
}}"""


@pytest.mark.parametrize(
    ("first", "second", "count"),
    [
        ("a = f32[64] sine(x)", "b = f32[64] sine(y)", 1),
        ("a = f32[64] sine(x)", "b = f32[64] cosine(y)", 2),
        ("a = f32[64] reverse(x), dimensions={0}", "b = f32[64] negate(y)", 2),
        ("a = f32[64] add(x, y)", "b = f32[64] add(x, x)", 2),
    ],
)
def test_what_differs_is_emitted_each(first, second, count):
    module = parse(PAIR.format(first=first, second=second))
    counting = Counting()
    make_plan(module, KernelDeduplicator(counting), SchedulingOptions(fusion=False))
    assert len(counting.fusions) == count


@pytest.mark.parametrize(("zero", "count"), [("0", 1), ("-0", 2), ("1", 2)])
def test_constants_are_told_apart_by_their_bits(zero, count):
    text = f"""HloModule m
    ENTRY main {{
      x = f32[64] parameter(0)
      y = f32[64] parameter(1)
      p = f32[] constant(0)
      q = f32[] constant({zero})
      a = f32[70] pad(x, p), padding=3_3
      b = f32[70] pad(y, q), padding=3_3
      ROOT r = (f32[70], f32[70]) tuple(a, b)
    }}"""
    counting = Counting()
    make_plan(parse(text), KernelDeduplicator(counting), SchedulingOptions(fusion=False))
    assert len(counting.fusions) == count
