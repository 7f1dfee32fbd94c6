"""Cases of the conformance suite on the GPU flavour, which PoCL runs in work-groups with local memory and barriers: the
results are those of the CPU flavour, bit for bit, but for the bits of what is not a number."""

import numpy as np
import pytest
from refxla_conformance.cases import collect
from refxla_spec.compare import same_bits

import refxla

COUNT = 24  # cases that are taken evenly from the structured ones
MOST_OPERATIONS = 10  # of a case: PoCL compiles the work-groups of many reductions for half a minute
OPCODES = (
    "dot", "reduce", "transpose", "broadcast", "concatenate", "dynamic-update-slice", "pad", "gather", "reverse",
)  # fmt: skip


def flat(value: object) -> list[np.ndarray]:
    """The arrays of nested tuples, in order."""
    if isinstance(value, (tuple, list)):
        return [leaf for v in value for leaf in flat(v)]
    return [np.asarray(value)]


def _chosen():
    cases = [c for c in collect(OPCODES) if not c.is_negative and c.devices == 1 and c.infeed is None and not c.before]
    cases = [c for c in cases if c.hlo.partition("ENTRY")[2].count(" = ") <= MOST_OPERATIONS]
    return [cases[n * len(cases) // COUNT] for n in range(COUNT)]


@pytest.mark.parametrize("case", _chosen(), ids=lambda c: c.name)
def test_a_case_has_the_bits_of_the_cpu(case):
    args = flat(case.inputs)
    wanted = flat(refxla.compile(case.hlo)(*args))
    got = flat(refxla.compile(case.hlo, device="pocl:gpu")(*args))
    assert all(same_bits(g, w).all() for g, w in zip(got, wanted, strict=True))


TEXT = """HloModule m
    add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
    ENTRY main {
        x = f32[40,300] parameter(0)
        y = f32[300,64] parameter(1)
        d = f32[40,64] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        t = f32[64,40] transpose(d), dimensions={1,0}
        z = f32[] constant(0)
        s = f32[64] reduce(t, z), dimensions={1}, to_apply=add
        ROOT r = (f32[64,40], f32[64]) tuple(t, s)
    }"""


def test_a_program_of_several_kernels():
    rng = np.random.default_rng(2)
    args = [rng.standard_normal(shape).astype(np.float32) for shape in ((40, 300), (300, 64))]
    compiled = refxla.compile(TEXT, device="pocl:gpu")
    assert "__kernel __attribute__((reqd_work_group_size(" in compiled.opencl and "barrier(CLK" in compiled.opencl
    for got, want in zip(compiled(*args), refxla.compile(TEXT)(*args), strict=True):
        assert got.tobytes() == want.tobytes()


def test_a_described_gpu_shows_its_code_and_runs_nothing():
    with pytest.raises(refxla.DeviceError, match="gpu:nvidia-sm90.*is described, not present.*refxla show"):
        refxla.compile(TEXT, device="gpu:nvidia-sm90")
