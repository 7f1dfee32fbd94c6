"""Short rows that are no multiple of a vector: the last vector is masked, and adjacent elements are loaded first."""

from dataclasses import replace

import numpy as np
import pytest
from kernel_driver import fusion_of
from refxla_spec.text import parse

import refxla
from refxla.codegen.emitter_registry import emit
from refxla.codegen.loops.masked_tail import PRAGMA
from refxla.device.description import DEFAULT_CPU

WIDE = replace(DEFAULT_CPU, features="avx512f,avx512vl,avx512dq,avx512bw")


def f32(*sizes: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(sizes).astype(np.float32)


def rows(columns: int, operation: str, element: str = "f32") -> str:
    return f"""HloModule m
ENTRY main {{
  x = {element}[40,{columns}] parameter(0)
  w = {element}[{columns}] parameter(1)
  y = {element}[40,{columns}] broadcast(w), dimensions={{1}}
  d = {element}[40,{columns}] divide(x, y)
  s = {element}[40,{columns}] {operation}(d)
  t = {element}[40,{columns}] add(s, y)
  ROOT r = {element}[40,{columns}] divide(t, x)
}}"""


def body(text: str, target=WIDE) -> str:
    (kernel,) = emit(fusion_of(parse(text)), target)
    return kernel.body


@pytest.mark.parametrize("columns, masked", [(20, True), (110, True), (32, False), (300, False)])
def test_the_last_vector_is_masked_where_few_elements_take_much_of_the_time(columns, masked):
    assert (PRAGMA in body(rows(columns, "sqrt"))) == masked


def test_a_cheap_rest_is_computed_by_single_elements():
    text = rows(250, "negate").replace("divide", "add")
    assert PRAGMA not in body(text)


def test_masks_need_wide_vectors_and_wide_elements():
    assert PRAGMA not in body(rows(20, "sqrt"), DEFAULT_CPU)
    assert PRAGMA not in body(rows(20, "sqrt", "bf16"))


def test_elements_that_are_gathered_are_not_masked():
    text = rows(20, "sqrt").replace("w = f32[20] p", "v = f32[40] p")
    text = text.replace("  y =", "  w = f32[20] slice(v), slice={[0:40:2]}\n  y =")
    assert PRAGMA not in body(text)


@pytest.mark.parametrize("columns", [9, 17, 20, 31, 110])
def test_the_values_are_right(columns):
    text = rows(columns, "sqrt")
    x, y = np.abs(f32(40, columns)) + np.float32(1), np.abs(f32(columns)) + np.float32(1)
    got = refxla.compile(text)(x, y)
    np.testing.assert_array_equal(got, refxla.compile(text, without=("fusion",))(x, y))
    a = x.astype(np.float64)
    np.testing.assert_allclose(got, (np.sqrt(a / y) + y) / a, rtol=1e-5)


def test_adjacent_elements_are_loaded_before_operations():
    """Bases of splines. Where an operation between the two loads uses the first one, clang makes no vectors."""
    text = """HloModule m
ENTRY main {
  x = f32[500] parameter(0)
  t = f32[25] parameter(1)
  v = f32[500,20] broadcast(x), dimensions={0}
  t0 = f32[20] slice(t), slice={[0:20]}
  t1 = f32[20] slice(t), slice={[1:21]}
  w0 = f32[500,20] broadcast(t0), dimensions={1}
  w1 = f32[500,20] broadcast(t1), dimensions={1}
  n = f32[500,20] subtract(v, w0)
  d = f32[500,20] subtract(w1, w0)
  ROOT q = f32[500,20] divide(n, d)
}"""
    lines = body(text).splitlines()
    loads = [n for n, line in enumerate(lines) if "a1[" in line]
    assert len(loads) == 2 and loads[1] == loads[0] + 1
    x, t = f32(500), np.cumsum(np.abs(f32(25)) + np.float32(0.1)).astype(np.float32)
    np.testing.assert_array_equal(refxla.compile(text)(x, t), (x[:, None] - t[:20]) / (t[1:21] - t[:20]))
