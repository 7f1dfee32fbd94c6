"""Plans for more cores than are here: how much of them is lost, by the cost model."""

import contextlib

import pytest
from refxla_conformance.cases import collect
from refxla_spec.errors import UnsupportedError
from refxla_spec.text import parse

from bench.many_cores import GRAIN_US, Work, described, loss, planned
from refxla.codegen.opencl_program import program
from refxla.compiler.planning import plan_module
from refxla.device.gpu_models import MODELS

MOST = 0.15  # of the time of equal shares
SMALL_US = 10.0  # of a launch: an item of the least size more for one core than for others
HEAD = """HloModule m
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
max { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] maximum(a, b) }
less { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = pred[] compare(a, b), direction=LT }
ENTRY main {
  zero = f32[] constant(0)
  low = f32[] constant(-inf)
"""
PROGRAMS = {
    "elements": "x = f32[3000,1111] parameter(0)\nROOT r = f32[3000,1111] tanh(x)",
    "sum": """x = f32[16777216] parameter(0)
        y = f32[16777216] parameter(1)
        z = f32[16777216] parameter(2)
        yz = f32[16777216] multiply(y, z)
        s = f32[16777216] add(x, yz)
        ROOT r = f32[] reduce(s, zero), dimensions={0}, to_apply=add""",
    "transpose": "x = f32[8192,6000] parameter(0)\nROOT r = f32[6000,8192] transpose(x), dimensions={1,0}",
    "rows": "x = f32[20000,1000] parameter(0)\nROOT r = f32[20000] reduce(x, zero), dimensions={1}, to_apply=add",
    "columns": "x = f32[20000,1000] parameter(0)\nROOT r = f32[1000] reduce(x, zero), dimensions={0}, to_apply=add",
    "softmax": """x = f32[16384,1000] parameter(0)
        m = f32[16384] reduce(x, low), dimensions={1}, to_apply=max
        mb = f32[16384,1000] broadcast(m), dimensions={0}
        d = f32[16384,1000] subtract(x, mb)
        e = f32[16384,1000] exponential(d)
        s = f32[16384] reduce(e, zero), dimensions={1}, to_apply=add
        sb = f32[16384,1000] broadcast(s), dimensions={0}
        ROOT r = f32[16384,1000] divide(e, sb)""",
    "product": """x = f32[1500,700] parameter(0)
        y = f32[700,1900] parameter(1)
        ROOT r = f32[1500,1900] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}""",
    "batched product": """x = f32[100,128,64] parameter(0)
        y = f32[100,64,128] parameter(1)
        ROOT r = f32[100,128,128] dot(x, y), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2},
            rhs_contracting_dims={1}""",
    "matrix and vector": """x = f32[5000,4000] parameter(0)
        y = f32[4000] parameter(1)
        ROOT r = f32[5000] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}""",
    "convolution": """x = f32[32,56,56,64] parameter(0)
        k = f32[3,3,64,128] parameter(1)
        ROOT r = f32[32,56,56,128] convolution(x, k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f""",
    "pooling": """x = f32[32,112,112,64] parameter(0)
        ROOT r = f32[32,56,56,64] reduce-window(x, low), window={size=1x3x3x1 stride=1x2x2x1 pad=0_0x0_1x0_1x0_0},
            to_apply=max""",
    "cumulative columns": """x = f32[2000,16384] parameter(0)
        ROOT r = f32[2000,16384] reduce-window(x, zero), window={size=2000x1 pad=1999_0x0_0}, to_apply=add""",
    "two sums at once": """x = f32[30000,128] parameter(0)
        y = f32[200,4000] parameter(1)
        a = f32[30000] reduce(x, zero), dimensions={1}, to_apply=add
        b = f32[200] reduce(y, zero), dimensions={1}, to_apply=add
        ROOT r = (f32[30000], f32[200]) tuple(a, b)""",
    "sorted rows": "x = f32[20000,512] parameter(0)\nROOT r = f32[20000,512] sort(x), dimensions={1}, to_apply=less",
    "gathered rows": """x = f32[50000,300] parameter(0)
        i = s32[40000,1] parameter(1)
        ROOT r = f32[40000,300] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0},
            index_vector_dim=1, slice_sizes={1,300}""",
}


@pytest.mark.parametrize("cores", [2, 8, 32, 96])
@pytest.mark.parametrize("name", PROGRAMS)
def test_little_is_lost(name, cores):
    works = planned(HEAD + PROGRAMS[name] + "\n}\n", cores)
    lost = sum(max(0.0, work.lost(cores) - SMALL_US) for work in works)
    assert works and lost <= MOST * sum(work.equal_shares(cores) for work in works), works


def test_the_makespan_of_unequal_items():
    work = Work("k", ((3, 60.0), (2, 30.0)), times=10)
    assert work.makespan(1) == 10 * 240 and work.makespan(2) == 10 * 120 and work.makespan(8) == 10 * 60
    assert work.equal_shares(2) == 10 * 120 and work.equal_shares(8) == 10 * 30 and work.lost(8) == 10 * 30
    assert work.equal_shares(96) == 10 * GRAIN_US and loss([work], 96) == 2
    many = Work("k", ((1_000_003, 1.0),))
    assert many.makespan(4) == 250_001 and loss([many], 4) < 1e-5
    assert loss([], 8) == 0 and loss([Work("k", ((1, 5.0),))], 8) == 0


@pytest.mark.parametrize("device", ["96 cores", "gpu:nvidia-sm90"])
def test_a_program_of_each_operation_is_written_for_many_items(device):
    """Nothing is built or run: what is held is that code which is for such devices alone can be written at all."""
    target = described(96) if device == "96 cores" else MODELS[device].target
    last = {case.opcode: case for case in collect(kinds=["structured"]) if not case.is_negative and case.devices == 1}
    written = 0
    for case in last.values():
        with contextlib.suppress(UnsupportedError):
            kernels = plan_module(parse(case.hlo), target)[1].plan.kernels
            written += bool(program(kernels, target).source)
    assert written > 40, written
