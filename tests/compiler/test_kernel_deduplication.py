"""Fusions that differ in names alone are emitted once; all that an emitter reads tells fusions apart."""

import contextlib
from functools import partial

import numpy as np
import pytest
from refxla_conformance.cases import collect
from refxla_conformance.targets.merge import can_merge, merge
from refxla_spec import interpreter
from refxla_spec.errors import Error
from refxla_spec.text import parse

import refxla
from refxla.analysis.index_values import is_followed
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


AT = "collapsed_slice_dims={0,1}, start_index_map={0,1}, index_vector_dim=0, slice_sizes={1,1,2}"
KNOWN_PLACES = f"""HloModule m
add {{ a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT c = s32[] add(a, b) }}
ENTRY main {{
  x = s32[8,4,2] parameter(0)
  y = s32[8,4,2] parameter(1)
  z = s32[8,4,2] parameter(2)
  places = s32[2,8,4] parameter(3)
  rows = s32[1,8,4] iota(), iota_dimension=1
  columns = s32[1,8,4] iota(), iota_dimension=2
  known = s32[2,8,4] concatenate(rows, columns), dimensions={{0}}
  at_known = s32[8,4,2] gather(x, known), offset_dims={{2}}, {AT}
  at_places = s32[8,4,2] gather(y, places), offset_dims={{2}}, {AT}
  added = s32[8,4,2] scatter(z, known, x), update_window_dims={{2}}, inserted_window_dims={{0,1}},
    scatter_dims_to_operand_dims={{0,1}}, index_vector_dim=0, to_apply=add
  ROOT r = (s32[8,4,2], s32[8,4,2], s32[8,4,2]) tuple(at_known, at_places, added) }}"""


@pytest.mark.parametrize("without", [(), ("fusion",)])
def test_places_that_are_known_are_not_those_of_another_input(without):
    """They are known from what an input is computed from, which is not in the fusion."""
    rng = np.random.default_rng(0)
    arguments = [rng.integers(-50, 50, (8, 4, 2)).astype(np.int32) for _ in range(3)]
    arguments.append(rng.integers(0, 4, (2, 8, 4)).astype(np.int32))
    results = refxla.compile(KNOWN_PLACES, without=without)(*arguments)
    for got, want in zip(results, interpreter.run(parse(KNOWN_PLACES), arguments), strict=True):
        np.testing.assert_array_equal(got, want)


class Anew(KernelDeduplicator):
    """Emits the kernels of equal fusions again, and compares them."""

    def __init__(self):
        super().__init__(partial(emit, target=DEFAULT_CPU))
        self.duplicates = 0

    def __call__(self, fusion):
        before = dict(self._emitted)
        kernels = super().__call__(fusion)
        if self._key(fusion) in before:
            self.duplicates += 1
            assert [k.body for k in self.emit(fusion)] == [k.body for k in kernels], fusion
        return kernels


SHARES = 32


@pytest.mark.parametrize("share", range(SHARES))
def test_what_is_not_emitted_again_would_be_the_same(share):
    """Over programs of the conformance suite, many in one module."""
    found = sorted((c for c in collect() if not c.is_negative), key=lambda case: case.opcode)
    modules = []
    for case in found[len(found) * share // SHARES : len(found) * (share + 1) // SHARES]:
        module = parse(case.hlo)
        if can_merge(module):
            modules.append(module)
    emitted = Anew()
    for n in range(0, len(modules), 48):
        try:
            make_plan(optimize(merge(modules[n : n + 48])), emitted, SchedulingOptions(fusion=n % 96 == 0))
        except Error:  # one of them is not supported
            for module in modules[n : n + 48]:
                with contextlib.suppress(Error):
                    make_plan(optimize(module), emitted)


def test_a_predicate_is_looked_behind_as_an_integer_is():
    """A select of a start index may be decided by a comparison that is an input of the fusion."""
    module = parse("""HloModule m
    ENTRY main { x = s32[4] parameter(0)
      y = f32[4] parameter(1)
      i = s32[4] iota(), iota_dimension=0
      p = pred[4] compare(i, x), direction=LT
      t = f32[4] sine(y)
      ROOT r = (pred[4], f32[4]) tuple(p, t) }""")
    followed = {i.name for i in module.entry.instructions if is_followed(i)}
    assert followed == {"i", "p"}
