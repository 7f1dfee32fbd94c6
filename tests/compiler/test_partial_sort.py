"""Sorts of which only the first elements are read select them."""

import numpy as np
import pytest
from refxla_spec import interpreter
from refxla_spec.text import parse

import refxla
from refxla.ir.partial_sorts import first_of
from refxla.passes.pipeline import optimize

COMPARE = "compare(a, b), direction={direction}{order}"


def program(name: str, sizes: tuple[int, ...], limit: int, dimension: int, direction: str, start: int = 0) -> str:
    dims, order = ",".join(map(str, sizes)), ", type=TOTALORDER" if name[0] in "fb" else ""
    ranges = [(0, n) for n in sizes]
    ranges[dimension] = (start, limit)
    taken = ",".join(str(b - a) for a, b in ranges)
    cut = ",".join(f"[{a}:{b}]" for a, b in ranges)
    return f"""
    HloModule partial
    before {{
      a = {name}[] parameter(0)
      b = {name}[] parameter(1)
      c = s32[] parameter(2)
      d = s32[] parameter(3)
      ROOT less = pred[] {COMPARE.format(direction=direction, order=order)}
    }}
    ENTRY main {{
      x = {name}[{dims}] parameter(0)
      i = s32[{dims}] iota(), iota_dimension={dimension}
      sorted = ({name}[{dims}], s32[{dims}]) sort(x, i), dimensions={{{dimension}}}, is_stable=true, to_apply=before
      values = {name}[{dims}] get-tuple-element(sorted), index=0
      places = s32[{dims}] get-tuple-element(sorted), index=1
      first = {name}[{taken}] slice(values), slice={{{cut}}}
      at = s32[{taken}] slice(places), slice={{{cut}}}
      ROOT both = ({name}[{taken}], s32[{taken}]) tuple(first, at)
    }}"""


def numbers(name: str, sizes: tuple[int, ...]) -> np.ndarray:
    """Many equal ones, and what floats have beside numbers."""
    values = np.random.default_rng(1).integers(-9, 9, sizes)
    x = values.astype({"f32": np.float32, "f64": np.float64, "s32": np.int32, "u8": np.uint8, "f16": np.float16}[name])
    if name[0] == "f":
        x.reshape(-1)[:6] = [np.nan, -0.0, 0.0, np.inf, -np.inf, -np.nan]
    return x


@pytest.mark.parametrize("name", ["f32", "f64", "f16", "s32", "u8"])
@pytest.mark.parametrize("direction", ["LT", "GT"])
@pytest.mark.parametrize(
    ("sizes", "limit", "dimension"), [((1000,), 10, 0), ((7, 300), 64, 1), ((257, 3), 1, 0), ((2, 130, 2), 5, 1)]
)
def test_selected_elements_are_the_first_of_the_sort(name, direction, sizes, limit, dimension):
    text, x = program(name, sizes, limit, dimension, direction), numbers(name, sizes)
    run = refxla.compile(text)
    assert "found ==" in run.opencl
    for got, want in zip(run(x), interpreter.run(parse(text), [x]), strict=True):
        assert got.tobytes() == np.asarray(want).tobytes()
    for got, want in zip(run(x), refxla.compile(text, without=("partial-sort",))(x), strict=True):
        assert got.tobytes() == want.tobytes()


@pytest.mark.parametrize("x", [np.arange(3000.0), -np.arange(3000.0), np.zeros(3000)])
def test_rows_in_any_order(x):
    text = program("f32", (3000,), 20, 0, "GT")
    values, places = refxla.compile(text)(x.astype(np.float32))
    want = np.argsort(-x, kind="stable")[:20]
    np.testing.assert_array_equal(places, want)
    np.testing.assert_array_equal(values, x[want].astype(np.float32))


@pytest.mark.parametrize(("limit", "start"), [(20, 10), (90, 0), (200, 0)])
def test_what_is_not_the_first_few_is_sorted(limit, start):
    text, x = program("f32", (200,), limit, 0, "LT", start), numbers("f32", (200,))
    run = refxla.compile(text)
    assert "found ==" not in run.opencl
    for got, want in zip(run(x), interpreter.run(parse(text), [x]), strict=True):
        assert got.tobytes() == np.asarray(want).tobytes()


def test_equal_sorts_that_are_read_to_different_places_are_two_kernels():
    text = program("f32", (400,), 4, 0, "LT")
    more = """
      w = f32[400] parameter(1)
      more = (f32[400], s32[400]) sort(w, i), dimensions={0}, is_stable=true, to_apply=before
      others = f32[400] get-tuple-element(more), index=0
      rest = f32[9] slice(others), slice={[0:9]}
      ROOT both = (f32[4], s32[4], f32[9]) tuple(first, at, rest)"""
    text = text.replace("ROOT both = (f32[4], s32[4]) tuple(first, at)", more.strip())
    sorts = [i for i in optimize(parse(text)).entry.instructions if i.opcode == "sort"]
    assert sorted(map(first_of, sorts)) == [4, 9]
    x, w = numbers("f32", (400,)), np.random.default_rng(2).standard_normal(400).astype(np.float32)
    for got, want in zip(refxla.compile(text)(x, w), interpreter.run(parse(text), [x, w]), strict=True):
        assert got.tobytes() == np.asarray(want).tobytes()


@pytest.mark.parametrize(
    ("rows", "length", "k"), [((), 20000, 10), ((2, 3), 12289, 3), ((1,), 70001, 64), ((40,), 30, 7)]
)
@pytest.mark.parametrize("largest", ["true", "false"])
def test_topk_of_few_long_rows_is_taken_from_pieces(rows, length, k, largest):
    dims, taken = ",".join(map(str, (*rows, length))), ",".join(map(str, (*rows, k)))
    text = f"""
    HloModule topk
    ENTRY main {{
      x = f32[{dims}] parameter(0)
      ROOT t = (f32[{taken}], s32[{taken}]) topk(x), k={k}, largest={largest}
    }}"""
    x = numbers("f32", (*rows, length))
    for got, want in zip(refxla.compile(text)(x), interpreter.run(parse(text), [x]), strict=True):
        assert got.tobytes() == np.asarray(want).tobytes()
