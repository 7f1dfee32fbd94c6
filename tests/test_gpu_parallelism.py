"""No kernel for GPUs is serial over data: the items of each grow with the arrays that it works on."""

import re
from dataclasses import replace

import pytest
from refxla_conformance.cases import collect
from refxla_spec.errors import Error

from bench.gpu_parallelism import ITEM_BYTES, Share, shares

STEP = 61  # of the cases of the suite, one in so many; `python -m bench.gpu_parallelism --plans conformance`: all

PROGRAMS = {
    "elements": "ROOT r = f32[N] tanh(x)",
    "a transpose": "m = f32[M,16] reshape(x)\nROOT r = f32[16,M] transpose(m), dimensions={1,0}",
    "a sum": "ROOT r = f32[] reduce(x, z), dimensions={0}, to_apply=add",
    "sums of rows": "m = f32[M,16] reshape(x)\nROOT r = f32[M] reduce(m, z), dimensions={1}, to_apply=add",
    "sums of long rows": "m = f32[16,M] reshape(x)\nROOT r = f32[16] reduce(m, z), dimensions={1}, to_apply=add",
    "sums of columns": "m = f32[M,16] reshape(x)\nROOT r = f32[16] reduce(m, z), dimensions={0}, to_apply=add",
    "a product": "m = f32[M,16] reshape(x)\n"
    "ROOT r = f32[16,16] dot(m, m), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
    "a product by a vector": "m = f32[16,M] reshape(x)\ns = f32[M] slice(x), slice={[0:M]}\n"
    "ROOT r = f32[16] dot(m, s), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    "windows": "ROOT r = f32[N] reduce-window(x, z), window={size=9 pad=4_4}, to_apply=add",
    "cumulative sums": "ROOT r = f32[N] reduce-window(x, z), window={size=N pad=L_0}, to_apply=add",
    "a convolution": "m = f32[1,M,16] reshape(x)\nw = f32[3,16,16] parameter(1)\n"
    "ROOT r = f32[1,M,16] convolution(m, w), window={size=3 pad=1_1}, dim_labels=b0f_0io->b0f",
    "the gradient of a filter": "m = f32[1,M,16] reshape(x)\n"
    "ROOT r = f32[3,16,16] convolution(m, m), window={size=M pad=1_1}, dim_labels=f0b_i0o->0bf",
    "the gradient of pooling": "s = f32[H] slice(x), slice={[0:H]}\n"
    "ROOT r = f32[N] select-and-scatter(x, s, z), window={size=2 stride=2}, select=ge, scatter=add",
    "a sort": "ROOT r = f32[N] sort(x), dimensions={0}, to_apply=less",
    "a gather": "i = s32[N,1] iota(), iota_dimension=0\nROOT r = f32[N] gather(x, i), offset_dims={}, "
    "collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1}",
    "a scatter": "i = s32[N,1] parameter(1)\nROOT r = f32[N] scatter(x, i, x), update_window_dims={}, "
    "inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add",
    "transforms": "m = f32[M,16] reshape(x)\nROOT r = c64[M,9] fft(m), fft_type=RFFT, fft_length={16}",
}
COMPUTATIONS = """
    add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
    ge { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = pred[] compare(a, b), direction=GE }
    less { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = pred[] compare(a, b), direction=LT, order=TOTAL }
"""


def text(lines: str, n: int) -> str:
    """A program of x, f32[n]."""
    sizes = {"N": n, "M": n // 16, "H": n // 2, "L": n - 1}
    lines = f"x = f32[N] parameter(0)\nz = f32[] constant(0)\n{lines}"
    own = re.sub("(?<![a-zA-Z])[NMHL](?![a-zA-Z])", lambda letter: str(sizes[letter[0]]), lines)
    return f"HloModule m\n{COMPUTATIONS}\nENTRY main {{\n{own}\n}}"


@pytest.mark.parametrize("name", PROGRAMS)
def test_items_grow_with_the_data(name):
    """The last step of a long sum adds segments, of which there are as many as the square root of its length: for 64
    times the data, an item has at most eight times as much."""
    small, large = (list(shares(name, text(PROGRAMS[name], n))) for n in (1 << 20, 1 << 26))
    assert small and not [str(k) for k in small if k.is_serial]
    assert large and not [str(k) for k in large if k.bytes > 8 * ITEM_BYTES]


def test_a_kernel_of_one_item_over_data_is_found():
    one = Share("own", "r", "reduction", 1, ITEM_BYTES + 1)
    assert one.is_serial and not replace(one, bytes=ITEM_BYTES).is_serial


def test_kernels_of_the_conformance_suite_have_items_for_their_data():
    cases = [c for c in collect() if not c.is_negative][::STEP]
    planned = 0
    for case in cases:
        try:
            kernels = list(shares(case.name, str(case.hlo)))
        except Error:
            continue  # what every device, or a GPU, refuses
        planned += 1
        assert not [str(k) for k in kernels if k.is_serial]
    assert planned > 0.9 * len(cases)
