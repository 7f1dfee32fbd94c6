"""Short rows that are no multiple of a vector: the last vector is masked, and adjacent elements are loaded first."""

from dataclasses import replace

import numpy as np
import pytest
from kernel_driver import fusion_of
from refxla_spec.text import parse

import refxla
from refxla.codegen.emitter_registry import emit
from refxla.codegen.loops.masked_tail import HINTS
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


@pytest.mark.parametrize("columns, masked", [(20, True), (110, True), (32, False), (2000, False)])
def test_the_last_vector_is_masked_where_few_elements_take_much_of_the_time(columns, masked):
    assert (HINTS in body(rows(columns, "sqrt"))) == masked


def test_a_cheap_rest_is_computed_by_single_elements():
    text = rows(250, "negate").replace("divide", "add")
    assert HINTS not in body(text)


def test_masks_need_wide_vectors_and_wide_elements():
    assert HINTS not in body(rows(20, "sqrt"), DEFAULT_CPU)
    assert HINTS not in body(rows(20, "sqrt", "bf16"))


def chain(columns: int, result: str = "f32") -> str:
    """Rows of elements that each take many operations, every one of which waits for the one before it."""
    shape = f"[2000,{columns}]"
    steps = "\n".join(f"  v{n} = f32{shape} multiply(v{n - 1}, v0)" for n in range(1, 40))
    root = "convert(v39)" if result == "f32" else "compare(v39, v1), direction=LT"
    return f"""HloModule m
ENTRY main {{
  x = f32[2000] parameter(0)
  w = f32[{columns}] parameter(1)
  y = f32{shape} broadcast(x), dimensions={{0}}
  z = f32{shape} broadcast(w), dimensions={{1}}
  v0 = f32{shape} add(y, z)
{steps}
  ROOT r = {result}{shape} {root}
}}"""


@pytest.mark.parametrize("columns, masked", [(100, True), (500, True), (128, False), (1030, False)])
@pytest.mark.parametrize("result", ["f32", "pred"])
def test_loops_of_several_vectors_at_once_are_masked_too(columns, masked, result):
    """Random numbers in rows of 100 took four times as long as in rows of 128, tests of them ten times."""
    code = body(chain(columns, result))
    assert "interleave_count(" in code and (HINTS in code) == masked


@pytest.mark.parametrize("columns", [65, 100, 127, 500])
@pytest.mark.parametrize("result", ["f32", "pred"])
def test_the_values_of_several_vectors_at_once_are_right(columns, result):
    x, w = f32(2000) / 4 + np.float32(0.5), f32(columns) / 4 + np.float32(0.5)
    got, v0 = refxla.compile(chain(columns, result))(x, w), x[:, None] + w
    values = [v0]
    for _ in range(39):
        values.append(values[-1] * v0)
    np.testing.assert_array_equal(got, values[39] if result == "f32" else values[39] < values[1])


def test_elements_that_are_gathered_are_not_masked():
    text = rows(20, "sqrt").replace("w = f32[20] p", "v = f32[40] p")
    text = text.replace("  y =", "  w = f32[20] slice(v), slice={[0:40:2]}\n  y =")
    assert HINTS not in body(text)


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
