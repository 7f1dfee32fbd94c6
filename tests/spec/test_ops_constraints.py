"""Every constraint of the structured operations has a program that breaks it."""

from __future__ import annotations

import pytest
from refxla_spec.errors import InvalidProgramError
from refxla_spec.text import parse
from refxla_spec.verify import verify
from structured import reducer

# broken programs: each breaks the one constraint that its label names

F = reducer("add", "add", "f32")
BROKEN = {
    "dot_c1": "ROOT c = f32[2,2] dot(a, a), lhs_contracting_dims={2}, rhs_contracting_dims={0}",
    "dot_c2": "ROOT c = f32[2] dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={}",
    "dot_c3": "ROOT c = f32[2,2] dot(a, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    "dot_c5": "ROOT c = s32[2,2] dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    "convolution_c2": "ROOT c = f32[1,3,1] convolution(s, s), window={size=2}, dim_labels=b0f_0io->b0f",
    "convolution_c5": "ROOT c = f32[1,4,1] convolution(s, s), window={size=1}, dim_labels=b0f_0io->b0f, "
    "feature_group_count=2",
    "reduce_c1": "ROOT c = f32[2] reduce(a, v), dimensions={1}, to_apply=add",
    "reduce_c3": "ROOT c = f32[2] reduce(a, z), dimensions={2}, to_apply=add",
    "reduce_c4": "ROOT c = s32[2] reduce(i, n), dimensions={1}, to_apply=add",
    "reduce_window_c3": "ROOT c = f32[2,2] reduce-window(a, z), window={size=2}, to_apply=add",
    "select_and_scatter_c3": "ROOT c = f32[2,2] select-and-scatter(a, a, z), window={size=1x1}, select=add, "
    "scatter=add",
    "gather_c2": "ROOT c = f32[2,2] gather(a, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
    "index_vector_dim=1, slice_sizes={1,2}",
    "gather_c3": "ROOT c = f32[2,3] gather(a, n), offset_dims={0,1}, start_index_map={0}, index_vector_dim=0, "
    "slice_sizes={2,3}",
    "scatter_c5": "ROOT c = f32[2,2] scatter(a, n, v), update_window_dims={0}, inserted_window_dims={}, "
    "scatter_dims_to_operand_dims={0}, index_vector_dim=0, to_apply=add",
    "sort_c2": "ROOT c = f32[2,2] sort(a), dimensions={2}, to_apply=less",
    "sort_c3": "ROOT c = f32[2,2] sort(a), dimensions={1}, to_apply=add",
    "topk_c2": "ROOT c = (f32[2,3], s32[2,3]) topk(a), k=3",
    "dynamic_slice_c1": "ROOT c = f32[1,1] dynamic-slice(a, n), dynamic_slice_sizes={1,1}",
    "dynamic_slice_c2": "ROOT c = f32[3,1] dynamic-slice(a, n, n), dynamic_slice_sizes={3,1}",
    "dynamic_update_slice_c2": "ROOT c = f32[2,2] dynamic-update-slice(a, v, n, n)",
    "while_c1": "ROOT c = f32[] while(z), condition=add, body=add",
    "call_c1": "ROOT c = f32[] call(z), to_apply=add",
    "conditional_c2": "ROOT c = f32[] conditional(n, z), branch_computations={add}",
    "map_c2": "ROOT c = f32[2,2] map(a, a), dimensions={1,0}, to_apply=add",
    "fusion_c2": "ROOT c = f32[] fusion(z, z), kind=kLop, calls=add",
    "rng_bit_generator_c2": "ROOT c = (f32[2], u32[3]) rng-bit-generator(v), algorithm=rng_default",
    "batch_norm_training_c2": "ROOT c = (f32[2,2], f32[3], f32[3]) batch-norm-training(a, v, v), epsilon=0, "
    "feature_index=1",
    "cholesky_c1": "ROOT c = f32[3] cholesky(v)",
    "triangular_solve_c1": "ROOT c = f32[3] triangular-solve(a, v)",
    "fft_c3": "ROOT c = f32[3] fft(v), fft_type=FFT, fft_length={3}",
}


@pytest.mark.parametrize("label", BROKEN)
def test_constraint(label):
    hlo = f"""HloModule test
        {F}
        less {{ a = f32[] parameter(0)
               b = f32[] parameter(1)
               ROOT c = pred[] compare(a, b), direction=LT }}
        ENTRY main {{ a = f32[2,2] parameter(0)
                     v = f32[3] parameter(1)
                     s = f32[1,4,1] parameter(2)
                     i = s32[2,2] parameter(3)
                     n = s32[] parameter(4)
                     z = f32[] parameter(5)
                     {BROKEN[label]} }}"""
    with pytest.raises(InvalidProgramError) as error:
        verify(parse(hlo))
    assert error.value.constraint == label, str(error.value)
