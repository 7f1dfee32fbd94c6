"""Kernels whose sizes are variables: which numbers become variables, and that programs of several sizes share code."""

import numpy as np
import pytest

import refxla
from refxla.codegen.size_variables import with_size_variables
from refxla.runtime import program_build
from refxla.runtime.pocl import built_parts, kernel_library

ADD = "HloModule m\nENTRY e {{ a = f32[{0}] parameter(0) b = f32[{0}] parameter(1) ROOT c = f32[{0}] add(a, b) }}"
BROADCAST = """HloModule m
ENTRY e {{
    a = f32[{0}] parameter(0)
    b = f32[{1}] parameter(1)
    c = f32[{0},{1}] broadcast(a), dimensions={{0}}
    d = f32[{0},{1}] broadcast(b), dimensions={{1}}
    ROOT s = f32[{0},{1}] subtract(c, d)
}}"""
HEAD = "(const int item, __global const float* restrict a0, __global float* restrict a1) {\n"


def function(*lines: str) -> str:
    return HEAD + "".join(f"    {line}\n" for line in lines) + "}\n"


@pytest.fixture
def device():
    found = refxla.devices()[0]
    if not program_build.can_link(found):
        pytest.skip("the kernels of the device cannot be called as functions")
    return found


def of(text: str, *sizes: int):
    return refxla.compile(text.format(*sizes))


def arrays(*sizes: int) -> list[np.ndarray]:
    return [np.arange(n, dtype=np.float32) + k for k, n in enumerate(sizes)]


def test_trip_counts_factors_and_offsets_become_variables():
    text, sizes = with_size_variables(
        function(
            "for (int i1 = 0; i1 < 30; ++i1) {",
            "    for (int i2 = 0; i2 < 120; ++i2) {",
            "        const float v3 = a0[i2 + 120 * i1 + 7];",
            "        a1[i2 + 130 * i1] = v3;",
            "    }",
            "}",
        )
    )
    assert sizes == (30, 120, 7, 130)
    assert "i1 < size0;" in text and "i2 < size1;" in text
    assert "a0[i2 + size1 * i1 + size2]" in text and "a1[i2 + size3 * i1]" in text


@pytest.mark.parametrize(
    "lines",
    [
        ["for (int i1 = 0; i1 < 3; ++i1) {", "    a1[i1] = a0[i1];", "}"],  # a short loop
        ["#pragma unroll", "for (int i1 = 0; i1 < 30; ++i1) {", "    a1[i1] = a0[i1];", "}"],
        ["for (int i1 = item; i1 < 30; ++i1) {", "    a1[i1] = a0[2 * i1];", "}"],  # the stride of a vector
        [
            "for (int i1 = item; i1 < 30; ++i1) {",  # elements of a short row, which are read together
            "    a1[5 * i1 + 3] = a0[5 * i1 + 1];",
            "}",
        ],
        [
            "for (int i1 = item; i1 < 30; ++i1) {",  # the unrolled loop within it is none
            "    #pragma unroll",
            "    for (int i2 = 0; i2 < 4; ++i2) {",
            "        a1[i2 + 4 * i1] = a0[i1];",
            "    }",
            "}",
        ],
        ["a1[item] = a0[(item / 12 * 12)];"],
        ["for (int i1 = 375 * item; i1 < 30; ++i1) {", "    a1[i1] = a0[i1 + 77];", "}"],  # another size is left
        ["float x0[256];", "x0[item + 16] = x0[12 * item];"],  # an array of its own
        [
            "#pragma clang loop unroll(disable) vectorize_width(16) interleave_count(2)",
            "for (long l1 = 0; l1 < 32; ++l1) {",
            "    a1[l1] = a0[l1 + 96];",
            "}",
        ],
        ["a1[item] = a0[3000000000 * item];"],
        ["a1[item] = a0[12l * item];"],
    ],
)
def test_numbers_that_stay(lines):
    assert with_size_variables(function(*lines)) == (function(*lines), ())


def test_programs_of_several_sizes_share_their_code(device, monkeypatch, tmp_path):
    """Only the first is compiled; each has a table of its own, whichever is called."""
    _ = device.properties  # kept in the cache that all tests share
    monkeypatch.setenv("REFXLA_CACHE_DIR", str(tmp_path))
    compiled = []
    keep = built_parts.keep
    monkeypatch.setattr(built_parts, "keep", lambda device, part: (compiled.append(part), keep(device, part))[1])
    every = [of(ADD, n) for n in (1207, 1213, 1223)]
    parts = [each.program.parts[0] for each in every]
    assert compiled == parts[:1]
    assert len({part.source for part in parts}) == 1
    assert [part.size_values for part in parts] == [(1207,), (1213,), (1223,)]
    for _ in range(2):
        for each, n in zip(every, (1207, 1213, 1223), strict=True):
            a, b = arrays(n, n)
            assert each(a, b).tolist() == (a + b).tolist()
            assert f".long {n}" in each.opencl


def test_functions_of_whole_arrays_share_their_code(device):
    """Their loops take 256 elements at a time, and the last strip has the rest."""
    every = [
        of("HloModule m\nENTRY e {{ a = f32[{0}] parameter(0) ROOT b = f32[{0}] sine(a) }}", n) for n in (300, 513)
    ]
    assert len({each.program.parts[-1].source for each in every}) == 1
    for each, n in zip(every, (300, 513), strict=True):
        (a,) = arrays(n)
        np.testing.assert_allclose(each(a), np.sin(a.astype(np.float64)), atol=1e-6)


@pytest.mark.parametrize("sizes", [(9, 11), (11, 9), (40, 40), (1, 200), (200, 1), (33, 64)])
def test_values(device, sizes):
    executable = of(BROADCAST, *sizes)
    a, b = arrays(*sizes)
    assert executable(a, b).tolist() == (a[:, None] - b).tolist()


def test_without_tables_a_program_is_specialized(device, monkeypatch):
    """OpenCL launches kernels whose files cannot be opened: they have their sizes in their source."""

    def refuse(*_):
        raise kernel_library.KernelFilesError("for a test")

    monkeypatch.setattr(kernel_library, "unpacked", refuse)
    executable = of(ADD, 1229)
    assert executable.program.parts[0].size_values
    a, b = arrays(1229, 1229)
    assert executable(a, b).tolist() == (a + b).tolist()
