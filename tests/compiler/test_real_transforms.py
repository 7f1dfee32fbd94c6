"""Complex transforms of real numbers are computed as real ones where half of the spectrum is enough."""

from collections import Counter

import numpy as np
import pytest
from agreement import assert_agree
from refxla_spec import interpreter
from refxla_spec.text import parse

import refxla
from refxla.passes import real_transforms

CONVOLUTION = """HloModule m
    ENTRY e { x = f32[6,16] parameter(0)
        y = f32[6,16] parameter(1)
        zx = c64[6,16] convert(x)
        no = f32[] constant(0)
        none = f32[6,16] broadcast(no), dimensions={}
        zy = c64[6,16] complex(y, none)
        fx = c64[6,16] fft(zx), fft_type=FFT, fft_length={6,16}
        fy = c64[6,16] fft(zy), fft_type=FFT, fft_length={6,16}
        s = f32[] parameter(2)
        zs = c64[] convert(s)
        scale = c64[6,16] broadcast(zs), dimensions={}
        scaled = c64[6,16] multiply(fx, scale)
        product = c64[6,16] multiply(scaled, fy)
        line = c64[6,16] fft(product), fft_type=IFFT, fft_length={6,16}
        ROOT r = f32[6,16] real(line) }"""

LOOP = """HloModule m
    body { p = (s32[], f32[16], c64[16]) parameter(0)
        n = s32[] get-tuple-element(p), index=0
        one = s32[] constant(1)
        m = s32[] add(n, one)
        x = f32[16] get-tuple-element(p), index=1
        kernel = c64[16] get-tuple-element(p), index=2
        z = c64[16] convert(x)
        f = c64[16] fft(z), fft_type=FFT, fft_length={16}
        product = c64[16] multiply(f, kernel)
        line = c64[16] fft(product), fft_type=IFFT, fft_length={16}
        r = f32[16] real(line)
        ROOT t = (s32[], f32[16], c64[16]) tuple(m, r, kernel) }
    condition { p = (s32[], f32[16], c64[16]) parameter(0)
        n = s32[] get-tuple-element(p), index=0
        last = s32[] constant(3)
        ROOT c = pred[] compare(n, last), direction=LT }
    ENTRY e { x = f32[16] parameter(0)
        k = f32[16] parameter(1)
        z = c64[16] convert(k)
        kernel = c64[16] fft(z), fft_type=FFT, fft_length={16}
        zero = s32[] constant(0)
        state = (s32[], f32[16], c64[16]) tuple(zero, x, kernel)
        loop = (s32[], f32[16], c64[16]) while(state), condition=condition, body=body
        ROOT r = f32[16] get-tuple-element(loop), index=1 }"""

BATCH = """HloModule m
    ENTRY e { x = f32[5,12] parameter(0)
        y = f32[12] parameter(1)
        zx = c64[5,12] convert(x)
        zy = c64[12] convert(y)
        fx = c64[5,12] fft(zx), fft_type=FFT, fft_length={12}
        fy = c64[12] fft(zy), fft_type=FFT, fft_length={12}
        wide = c64[5,12] broadcast(fy), dimensions={1}
        two = c64[] constant((2, 0))
        twice = c64[5,12] broadcast(two), dimensions={}
        sum = c64[5,12] add(fx, wide)
        quotient = c64[5,12] divide(sum, twice)
        line = c64[5,12] fft(quotient), fft_type=IFFT, fft_length={12}
        ROOT r = f32[5,12] real(line) }"""

COLUMNS = """HloModule m
    ENTRY e { x = f32[12,5] parameter(0)
        z = c64[12,5] convert(x)
        t = c64[5,12] transpose(z), dimensions={1,0}
        f = c64[5,12] fft(t), fft_type=FFT, fft_length={12}
        a = c64[5,7] slice(f), slice={[0:5], [0:7]}
        b = c64[2,1] slice(f), slice={[1:3], [3:4]}
        ROOT r = (c64[5,7], c64[2,1]) tuple(a, b) }"""


def kinds(text: str) -> Counter[str]:
    """The kinds of transforms that are left, with their numbers."""
    module = parse(text)
    real_transforms.run(module)
    return Counter(i.fft_type for i in module.instructions() if i.opcode == "fft")


def arguments(text: str) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    shapes = [p.shape for p in parse(text).entry.parameters]
    return [rng.standard_normal(s.dimensions).astype(s.element_type.dtype) for s in shapes]


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (CONVOLUTION, {"RFFT": 2, "IRFFT": 1}),
        (LOOP, {"FFT": 1, "RFFT": 1, "IRFFT": 1}),  # the kernel stays whole in the loop's state
        (BATCH, {"RFFT": 2, "IRFFT": 1}),
        (COLUMNS, {"RFFT": 1}),
        (CONVOLUTION.replace("f32", "f64").replace("c64", "c128"), {"RFFT": 2, "IRFFT": 1}),
    ],
    ids=["convolution", "loop", "batch", "columns", "f64"],
)
def test_half_of_the_work_gives_the_same_results(text, left):
    assert kinds(text) == left
    inputs = arguments(text)
    wanted = interpreter.run(parse(text), inputs)
    assert_agree(refxla.compile(text)(*inputs), wanted if isinstance(wanted, tuple) else [wanted], eps=8)


@pytest.mark.parametrize(
    ("text", "part", "other"),
    [
        (CONVOLUTION, "convert(x)", "complex(x, y)"),  # not real
        (
            CONVOLUTION,
            "zs = c64[] convert(s)",
            "zs = c64[] complex(s, s)",
        ),  # real parts alone keep a spectrum Hermitian
        (CONVOLUTION, "fft(zy), fft_type=FFT, fft_length={6,16}", "fft(zy), fft_type=FFT, fft_length={16}"),
        (CONVOLUTION, "fft(zy), fft_type=FFT", "fft(zy), fft_type=IFFT"),
        (CONVOLUTION, "multiply(scaled, fy)", "power(scaled, fy)"),
        (CONVOLUTION, "ROOT r = f32[6,16] real(line)", "im = f32[6,16] imag(line)\nROOT r = f32[6,16] real(line)"),
        (CONVOLUTION, "6,16", "6,15"),  # there is no plan for odd lengths
        (LOOP, "tuple(m, r, kernel)", "tuple(m, r, product)"),  # the kernel changes
        (COLUMNS, "slice={[1:3], [3:4]}", "slice={[1:3], [7:8]}"),  # of the second half
        (COLUMNS, "tuple(a, b)", "tuple(a, f)"),
    ],
)
def test_where_half_is_not_enough_transforms_stay(text, part, other):
    changed = text.replace(part, other)
    if other == "tuple(a, f)":
        changed = changed.replace("(c64[5,7], c64[2,1])", "(c64[5,7], c64[5,12])")
    if "imag" in other:
        changed = changed.replace(
            "ROOT r = f32[6,16] real(line)", "re = f32[6,16] real(line)\nROOT r = f32[6,16] add(re, im)"
        )
    assert not kinds(changed).keys() & {"RFFT", "IRFFT"}


def test_a_nan_spreads_over_its_transform_alone():
    inputs = arguments(BATCH)
    inputs[0][2, 3] = np.nan
    result = refxla.compile(BATCH)(*inputs)
    assert np.isnan(result[2]).all() and np.isfinite(np.delete(result, 2, 0)).all()
