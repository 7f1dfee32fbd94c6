"""Arrays without elements: nothing is read from them, whatever an index says, and what is made of nothing is what the
specification says. Arguments lie amid garbage, so that what is read beside them shows."""

import numpy as np
import pytest
from agreement import assert_agree, flat
from refxla_conformance.fuzz import batch
from refxla_conformance.fuzz.runs import Kernels, amid_garbage
from refxla_spec.interpreter import run
from refxla_spec.text import parse
from refxla_spec.verify import verify

import refxla

ADD = """add { a = f32[] parameter(0)
               b = f32[] parameter(1)
               ROOT c = f32[] add(a, b) }
ge { a = f32[] parameter(0)
     b = f32[] parameter(1)
     ROOT c = pred[] compare(a, b), direction=GE }
lt { a = f32[] parameter(0)
     b = f32[] parameter(1)
     ROOT c = pred[] compare(a, b), direction=LT }
step { a = f32[2] parameter(0)
       b = f32[2] parameter(1)
       s = f32[2] add(a, b)
       ROOT t = (f32[2], f32[2]) tuple(s, s) }
"""
ROWS = "offset_dims={1}, collapsed_slice_dims={0}, index_vector_dim=1, start_index_map={0}"
PROGRAMS = {  # name: (shapes of the parameters p0, p1, ..., the other lines)
    "gather_rows": (
        ["f32[0,2]", "s32[3]"],
        f"ROOT r = f32[3,2] gather(p0, p1), {ROWS}, slice_sizes={{0,2}}",
    ),
    "gather_elements_fused": (
        ["f32[0,5]", "s32[4,2]"],
        """n = f32[0,5] negate(p0)
        g = f32[4] gather(n, p1), offset_dims={}, collapsed_slice_dims={0,1}, start_index_map={0,1},
          index_vector_dim=1, slice_sizes={0,1}
        ROOT r = f32[4] exponential(g)""",
    ),
    "gather_no_rows": (
        ["f32[3,2]", "s32[0]"],
        f"ROOT r = f32[0,2] gather(p0, p1), {ROWS}, slice_sizes={{1,2}}",
    ),
    "gather_batch": (
        ["f32[2,0]", "s32[2,3]"],
        """ROOT r = f32[2,3] gather(p0, p1), offset_dims={}, collapsed_slice_dims={1}, start_index_map={1},
          operand_batching_dims={0}, start_indices_batching_dims={0}, index_vector_dim=2, slice_sizes={1,0}""",
    ),
    "scatter": (
        ["f32[0,2]", "s32[3,1]", "f32[3,2]"],
        """ROOT r = f32[0,2] scatter(p0, p1, p2), update_window_dims={1}, inserted_window_dims={0},
          scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add""",
    ),
    "scatter_no_updates": (
        ["f32[3,2]", "s32[0,1]", "f32[0,2]"],
        """ROOT r = f32[3,2] scatter(p0, p1, p2), update_window_dims={1}, inserted_window_dims={0},
          scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add""",
    ),
    "dynamic_slice": (
        ["f32[0,3]", "s32[]"],
        "ROOT r = f32[0,2] dynamic-slice(p0, p1, p1), dynamic_slice_sizes={0,2}",
    ),
    "dynamic_update_slice": (
        ["f32[4,3]", "f32[0,3]", "s32[]"],
        "ROOT r = f32[4,3] dynamic-update-slice(p0, p1, p2, p2)",
    ),
    "pad": (["f32[0,2]", "f32[]"], "ROOT r = f32[3,4] pad(p0, p1), padding=1_2x1_1"),
    "pad_dilated": (["f32[0]", "f32[]"], "ROOT r = f32[5] pad(p0, p1), padding=2_3_4"),
    "concatenate": (
        ["f32[0,3]", "f32[2,3]"],
        "n = f32[0,3] exponential(p0)\nROOT r = f32[2,3] concatenate(n, p1, p0), dimensions={0}",
    ),
    "reduce": (["f32[0,3]", "f32[]"], "ROOT r = f32[3] reduce(p0, p1), dimensions={0}, to_apply=add"),
    "reduce_rows": (["f32[3,0]", "f32[]"], "ROOT r = f32[3] reduce(p0, p1), dimensions={1}, to_apply=add"),
    "softmax": (
        ["f32[3,0]", "f32[]"],
        """s = f32[3] reduce(p0, p1), dimensions={1}, to_apply=add
        b = f32[3,0] broadcast(s), dimensions={0}
        ROOT r = f32[3,0] divide(p0, b)""",
    ),
    "reduce_window": (
        ["f32[0]", "f32[]"],
        "ROOT r = f32[3] reduce-window(p0, p1), window={size=2 pad=2_2}, to_apply=add",
    ),
    "select_and_scatter": (
        ["f32[0]", "f32[0]", "f32[]"],
        "ROOT r = f32[0] select-and-scatter(p0, p1, p2), window={size=1}, select=ge, scatter=add",
    ),
    "select_and_scatter_padded": (
        ["f32[1]", "f32[0]", "f32[]"],
        "ROOT r = f32[1] select-and-scatter(p0, p1, p2), window={size=2}, select=ge, scatter=add",
    ),
    "dot": (
        ["f32[3,0]", "f32[0,4]"],
        "ROOT r = f32[3,4] dot(p0, p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    ),
    "dot_no_rows": (
        ["f32[0,3]", "f32[3,4]"],
        "ROOT r = f32[0,4] dot(p0, p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    ),
    "convolution_no_features": (
        ["f32[1,0,5]", "f32[2,0,3]"],
        "ROOT r = f32[1,2,3] convolution(p0, p1), window={size=3}, dim_labels=bf0_oi0->bf0",
    ),
    "convolution_of_padding": (
        ["f32[1,2,0]", "f32[2,2,3]"],
        "ROOT r = f32[1,2,2] convolution(p0, p1), window={size=3 pad=2_2}, dim_labels=bf0_oi0->bf0",
    ),
    "sort": (["f32[3,0]"], "ROOT r = f32[3,0] sort(p0), dimensions={1}, to_apply=lt"),
    "topk": (["f32[2,0]"], "ROOT r = (f32[2,0], s32[2,0]) topk(p0), k=0, largest=true"),
    "reverse": (["f32[0,3]"], "ROOT r = f32[0,3] reverse(p0), dimensions={0,1}"),
    "cholesky": (["f32[2,0,0]"], "ROOT r = f32[2,0,0] cholesky(p0), lower=true"),
    "triangular_solve": (
        ["f32[3,3]", "f32[3,0]"],
        "ROOT r = f32[3,0] triangular-solve(p0, p1), left_side=true, lower=true, unit_diagonal=true, "
        "transpose_a=NO_TRANSPOSE",
    ),
    "triangular_solve_of_none": (
        ["f32[0,0]", "f32[0,3]"],
        "ROOT r = f32[0,3] triangular-solve(p0, p1), left_side=true, lower=true, transpose_a=NO_TRANSPOSE",
    ),
    "fft": (["c64[0,4]"], "ROOT r = c64[0,4] fft(p0), fft_type=FFT, fft_length={4}"),
    "batch_norm": (
        ["f32[0,2]", "f32[2]", "f32[2]"],
        "ROOT r = (f32[0,2], f32[2], f32[2]) batch-norm-training(p0, p1, p2), epsilon=0.1, feature_index=1",
    ),
    "ragged_dot": (
        ["f32[4,3]", "f32[0,3,2]", "s32[0]"],
        "ROOT r = f32[4,2] ragged-dot(p0, p1, p2), lhs_contracting_dims={1}, rhs_contracting_dims={1}, "
        "lhs_ragged_dims={0}, rhs_group_dims={0}",
    ),
    "iota": ([], "ROOT r = s32[0,3] iota(), iota_dimension=1"),
    "rng": (
        ["u64[2]"],
        "ROOT r = (u64[2], u32[0,3]) rng-bit-generator(p0), algorithm=rng_three_fry",
    ),
    "bitcast_convert": (["f32[0]"], "ROOT r = u8[0,4] bitcast-convert(p0)"),
    "constant": ([], "c = f32[0,2] constant({})\nz = f32[] constant(1)\nROOT r = f32[2,2] pad(c, z), padding=1_1x0_0"),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_of_nothing(name):
    shapes, lines = PROGRAMS[name]
    given = "\n".join(f"p{n} = {s} parameter({n})" for n, s in enumerate(shapes))
    text = f"HloModule m\n{ADD}ENTRY main {{ {given}\n{lines} }}"
    module = parse(text)
    verify(module)
    rng = np.random.default_rng(0)
    arguments = [
        rng.integers(-1, 4, p.shape.dimensions).astype(p.shape.element_type.dtype) for p in module.entry.parameters
    ]
    got = refxla.compile(text)(*(amid_garbage(a)[1] for a in arguments))
    assert_agree(got, flat(run(module, arguments)), eps=4)


def test_random_programs_most_of_whose_arrays_are_empty():
    """Of these, three read beside an argument."""
    tally = batch.run(0, 40, Kernels(), sizes=(0, 0, 0, 1, 2, 3, 5))
    assert tally.compared > 35 and not tally.divergences, tally.divergences
