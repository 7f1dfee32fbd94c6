"""Gathers, scatters, slices, sorts, random bits and conditionals against XLA:CPU."""

from __future__ import annotations

import numpy as np
import pytest
from refxla_spec.types import ELEMENT_TYPES
from structured import check_equal, reducer, run, shape, values, xla

# gather, scatter, dynamic slices

GATHERS = [  # operand, indices, attributes, the result's dimensions
    (
        (5, 4),
        (3, 1),
        "offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,4}",
        (3, 4),
    ),
    (
        (5, 4),
        (2, 6),
        "offset_dims={1,2}, collapsed_slice_dims={}, start_index_map={1,0}, index_vector_dim=0, slice_sizes={2,3}",
        (6, 2, 3),
    ),
    (
        (5, 4, 3),
        (2, 3),
        "offset_dims={0,3}, collapsed_slice_dims={1}, start_index_map={1}, index_vector_dim=2, slice_sizes={3,1,2}",
        (3, 2, 3, 2),
    ),
    (
        (2, 5, 3),
        (3, 2, 1),
        "offset_dims={2}, collapsed_slice_dims={}, start_index_map={1}, operand_batching_dims={0,2}, "
        "start_indices_batching_dims={1,0}, index_vector_dim=2, slice_sizes={1,2,1}",
        (3, 2, 2),
    ),
    (
        (5, 4),
        (0, 1),
        "offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,4}",
        (0, 4),
    ),
    (
        (5,),
        (),
        "offset_dims={0}, collapsed_slice_dims={}, start_index_map={0}, index_vector_dim=0, slice_sizes={3}",
        (3,),
    ),
]


@pytest.mark.parametrize("case", range(len(GATHERS)))
@pytest.mark.parametrize("index_type", ["s32", "u8", "s64", "u64"])
def test_gather(case, index_type):
    dims, indices, attributes, result = GATHERS[case]
    rng = np.random.default_rng(case)
    hlo = f"""x = {shape("f32", dims)} parameter(0)
              i = {shape(index_type, indices)} parameter(1)
              ROOT r = {shape("f32", result)} gather(x, i), {attributes}"""
    i = rng.integers(0 if index_type[0] == "u" else -3, 8, indices).astype(ELEMENT_TYPES[index_type].dtype)
    check_equal(hlo, values(rng, "f32", dims), np.asarray(i))


SCATTERS = [  # operand, indices, updates, attributes
    (
        (5, 4),
        (6, 1),
        (6, 4),
        "update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1",
    ),
    (
        (5, 4),
        (2, 6),
        (6, 2, 3),
        "update_window_dims={1,2}, inserted_window_dims={}, scatter_dims_to_operand_dims={1,0}, index_vector_dim=0",
    ),
    (
        (5, 4, 3),
        (2, 3),
        (3, 2, 3, 2),
        "update_window_dims={0,3}, inserted_window_dims={1}, scatter_dims_to_operand_dims={1}, index_vector_dim=2",
    ),
    (
        (2, 5, 3),
        (3, 2, 1),
        (3, 2, 2),
        "update_window_dims={2}, inserted_window_dims={}, scatter_dims_to_operand_dims={1}, input_batching_dims={0,2}, "
        "scatter_indices_batching_dims={1,0}, index_vector_dim=2",
    ),
    (
        (5, 4),
        (0, 1),
        (0, 4),
        "update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1",
    ),
    ((4,), (7,), (7,), "inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1"),
]


@pytest.mark.parametrize("case", range(len(SCATTERS)))
@pytest.mark.parametrize("opcode", ["add", "multiply", "maximum", "and", "subtract"])
def test_scatter(case, opcode):
    dims, indices, updates, attributes = SCATTERS[case]
    if "update_window_dims" not in attributes:
        attributes = f"update_window_dims={{}}, {attributes}"
    rng = np.random.default_rng(case)
    for element_type in ("s32", "f32") if opcode != "and" else ("s32", "pred"):
        hlo = f"""HloModule test
            {reducer("f", opcode, element_type)}
            ENTRY main {{ x = {shape(element_type, dims)} parameter(0)
                         i = {shape("s32", indices)} parameter(1)
                         u = {shape(element_type, updates)} parameter(2)
                         ROOT r = {shape(element_type, dims)} scatter(x, i, u), {attributes}, to_apply=f }}"""
        i = rng.integers(-2, 7, indices).astype(np.int32)
        x, u = values(rng, element_type, dims), values(rng, element_type, updates)
        if element_type == "f32" and opcode != "maximum":
            got, want = run(hlo, x, i, u), xla(hlo, x, i, u)
            (magnitude,) = run(hlo.replace("subtract(", "add("), np.abs(x), i, np.abs(u))
            assert (np.abs(got[0] - want[0]) <= 20 * np.finfo(np.float32).eps * magnitude).all(), hlo
        else:
            check_equal(hlo, x, i, u)


def test_scatter_of_two_operands_in_order():
    hlo = """HloModule test
        f { a = s32[] parameter(0)
            b = f32[] parameter(1)
            c = s32[] parameter(2)
            d = f32[] parameter(3)
            two = s32[] constant(2)
            e = s32[] multiply(a, two)
            g = s32[] add(e, c)
            h = f32[] maximum(b, d)
            ROOT r = (s32[], f32[]) tuple(g, h) }
        ENTRY main { x = s32[3] parameter(0)
                     y = f32[3] parameter(1)
                     i = s32[5,1] parameter(2)
                     u = s32[5] parameter(3)
                     v = f32[5] parameter(4)
                     ROOT r = (s32[3], f32[3]) scatter(x, y, i, u, v), update_window_dims={}, inserted_window_dims={0},
                       scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=f }"""
    check_equal(
        hlo,
        np.array([1, 1, 1], np.int32),
        np.zeros(3, np.float32),
        np.array([[2], [0], [2], [-1], [2]], np.int32),
        np.array([1, 2, 3, 4, 5], np.int32),
        np.array([1, -2, 7, 9, 5], np.float32),
    )


@pytest.mark.parametrize("start", [(0, 0), (-5, 2), (9, 9), (1, 2)])
def test_dynamic_slices(start):
    x = np.arange(20, dtype=np.float32).reshape(4, 5)
    i, j = (np.array(s, np.int32) for s in start)
    check_equal(
        """x = f32[4,5] parameter(0)
           i = s32[] parameter(1)
           j = s32[] parameter(2)
           ROOT r = f32[2,3] dynamic-slice(x, i, j), dynamic_slice_sizes={2,3}""",
        x,
        i,
        j,
    )
    check_equal(
        """x = f32[4,5] parameter(0)
           u = f32[2,3] parameter(1)
           i = s32[] parameter(2)
           j = s32[] parameter(3)
           ROOT r = f32[4,5] dynamic-update-slice(x, u, i, j)""",
        x,
        -np.ones((2, 3), np.float32),
        i,
        j,
    )


# sort, topk

NUMPY_ORDER = """key_{0} = f32[] parameter({0})
    ne_{0} = pred[] compare(key_{0}, key_{0}), direction=NE
    eq_{0} = pred[] compare(key_{0}, zero), direction=EQ
    s_{0} = f32[] select(eq_{0}, zero, key_{0})
    t_{0} = f32[] select(ne_{0}, quiet, s_{0})
"""


@pytest.mark.parametrize("direction", ["LT", "GT"])
@pytest.mark.parametrize("dimension", [0, 1])
def test_sort_with_jax_comparator(direction, dimension):
    """NaNs last, zeros equal, stable: recognised as a key."""
    rng = np.random.default_rng(0)
    x = rng.integers(-3, 3, (13, 6)).astype(np.float32)
    x[x == 2] = np.nan
    x[x == 1] = -0.0
    hlo = f"""HloModule test
        less {{ zero = f32[] constant(0)
               quiet = f32[] constant(nan)
               {NUMPY_ORDER.format(0)} {NUMPY_ORDER.format(1)}
               v = s32[] parameter(2)
               w = s32[] parameter(3)
               ROOT p = pred[] compare(t_0, t_1), direction={direction}, type=TOTALORDER }}
        ENTRY main {{ x = f32[13,6] parameter(0)
                     v = s32[13,6] iota(), iota_dimension={dimension}
                     ROOT r = (f32[13,6], s32[13,6]) sort(x, v), dimensions={{{dimension}}}, is_stable=true,
                       to_apply=less }}"""
    check_equal(hlo, x)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 7, 16, 33])
def test_sort_by_two_keys(n):
    """Two keys: sorted by comparing, with the old index where both are equal."""
    rng = np.random.default_rng(n)
    hlo = f"""HloModule test
        less {{ a = s32[] parameter(0)
               b = s32[] parameter(1)
               c = f32[] parameter(2)
               d = f32[] parameter(3)
               i = s32[] parameter(4)
               j = s32[] parameter(5)
               lt = pred[] compare(a, b), direction=LT
               eq = pred[] compare(a, b), direction=EQ
               gt = pred[] compare(c, d), direction=GT
               both = pred[] and(eq, gt)
               ROOT p = pred[] or(lt, both) }}
        ENTRY main {{ x = s32[3,{n}] parameter(0)
                     y = f32[3,{n}] parameter(1)
                     v = s32[3,{n}] iota(), iota_dimension=1
                     ROOT r = (s32[3,{n}], f32[3,{n}], s32[3,{n}]) sort(x, y, v), dimensions={{1}}, is_stable=true,
                       to_apply=less }}"""
    x, y = rng.integers(0, 3, (3, n)).astype(np.int32), rng.integers(0, 3, (3, n)).astype(np.float32)
    check_equal(hlo, x, y)


@pytest.mark.parametrize("element_type", ["s8", "u32", "bf16", "f64", "pred"])
def test_sort_of_one_array(element_type):
    x = values(np.random.default_rng(0), element_type, (3, 50))
    for direction in ("LT", "GT"):
        hlo = f"""HloModule test
            before {{ a = {element_type}[] parameter(0)
                     b = {element_type}[] parameter(1)
                     ROOT p = pred[] compare(a, b), direction={direction} }}
            ENTRY main {{ x = {element_type}[3,50] parameter(0)
                         ROOT r = {element_type}[3,50] sort(x), dimensions={{1}}, to_apply=before }}"""
        check_equal(hlo, x)


@pytest.mark.parametrize("largest", ["true", "false"])
@pytest.mark.parametrize("element_type", ["f32", "s32", "u8", "bf16", "pred"])
def test_topk(largest, element_type):
    x = np.random.default_rng(0).integers(0, 9, (2, 3, 20)).astype(ELEMENT_TYPES[element_type].dtype)
    v, i = run(
        f"""x = {element_type}[2,3,20] parameter(0)
            ROOT r = ({element_type}[2,3,7], s32[2,3,7]) topk(x), k=7, largest={largest}""",
        x,
    )
    for at in np.ndindex(2, 3):
        row = [(-float(e) if largest == "true" else float(e), n) for n, e in enumerate(x[at])]
        best = sorted(row)[:7]
        assert i[at].tolist() == [n for _, n in best]
        assert v[at].tolist() == [x[at][n] for _, n in best]


# control flow, random bits, batch norm, custom calls


def test_conditional_index():
    hlo = """HloModule test
        a { x = f32[] parameter(0)
            ROOT y = f32[] negate(x) }
        b { x = f32[1] parameter(0)
            ROOT y = f32[] reshape(x) }
        ENTRY main { i = s32[] parameter(0)
                     x = f32[] parameter(1)
                     y = f32[1] parameter(2)
                     ROOT r = f32[] conditional(i, x, y), branch_computations={a, b} }"""
    for i in (-1, 0, 1, 2):
        check_equal(hlo, np.array(i, np.int32), np.array(3, np.float32), np.array([5], np.float32))


@pytest.mark.parametrize("algorithm", ["rng_three_fry", "rng_philox", "rng_default"])
@pytest.mark.parametrize("element_type", ["u32", "u64", "u8"])
def test_random_bits_are_those_of_xla(algorithm, element_type):
    rng = np.random.default_rng(0)
    sizes = ((), (5,), (3, 5), (4, 3), (7, 1, 3), (0, 3))
    for dims in sizes[:2] if algorithm == "rng_default" else sizes:
        for n in (2,) if algorithm == "rng_three_fry" else (2, 3):
            hlo = f"""s = u64[{n}] parameter(0)
                      ROOT r = (u64[{n}], {shape(element_type, dims)}) rng-bit-generator(s), algorithm={algorithm}"""
            check_equal(hlo, np.array([rng.integers(0, 2**63), 2**64 - 2, 5], np.uint64)[:n])  # the counter carries
