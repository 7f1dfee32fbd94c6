"""Loop kernels against the specification's interpreter."""

import itertools
import re

import ml_dtypes
import numpy as np
import pytest
from cache_sizes import set_caches
from kernel_driver import Compiled, check, check_within, fusion_of
from refxla_spec.bounds import run_with_bounds
from refxla_spec.compare import distance
from refxla_spec.errors import UnsupportedError
from refxla_spec.text import parse
from refxla_spec.types import ELEMENT_TYPES

import refxla

rng = np.random.default_rng(1)


def f32(*sizes):
    return rng.standard_normal(sizes).astype(np.float32)


def s32(*sizes, low=-100, high=100):
    return rng.integers(low, high, sizes).astype(np.int32)


ADD = "add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }"
MAX = "max { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] maximum(a, b) }"
GE = "ge { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = pred[] compare(a, b), direction=GE }"


def entry(lines: str, computations: str = "") -> str:
    return f"HloModule m\n{computations}\nENTRY main {{\n{lines}\n}}"


def tuple_of(shape: str, results: list[str]) -> list[str]:
    """The last lines of a program that gives several arrays of one shape."""
    names = [f"r{n}" for n in range(len(results))]
    lines = [f"{name} = {shape} {result}" for name, result in zip(names, results, strict=True)]
    return [*lines, f"ROOT r = tuple({', '.join(names)})"]


# name -> (program, arguments)
EXACT = {
    "chain": (
        """x = f32[5,7] parameter(0)
        y = f32[5,7] parameter(1)
        a = f32[5,7] add(x, y)
        b = f32[5,7] multiply(a, a)
        c = f32[5,7] maximum(b, x)
        ROOT r = (f32[5,7], f32[5,7]) tuple(c, a)""",
        (f32(5, 7), f32(5, 7)),
    ),
    "scalar": ("x = f32[] parameter(0)\nROOT r = f32[] add(x, x)", (f32(),)),
    "empty": ("x = f32[0,3] parameter(0)\nROOT r = f32[0,3] add(x, x)", (f32(0, 3),)),
    "broadcasts": (
        """x = f32[6,50,3] parameter(0)
        y = f32[50] parameter(1)
        z = f32[6,3] parameter(2)
        s = f32[] parameter(3)
        b = f32[6,50,3] broadcast(y), dimensions={1}
        c = f32[6,50,3] broadcast(z), dimensions={0,2}
        d = f32[6,50,3] broadcast(s), dimensions={}
        e = f32[6,50,3] multiply(b, c)
        f = f32[6,50,3] multiply(d, x)
        ROOT r = f32[6,50,3] add(e, f)""",
        (f32(6, 50, 3), f32(50), f32(6, 3), f32()),
    ),
    "iota": (
        """a = s32[40,50] iota(), iota_dimension=0
        b = f32[40,50] iota(), iota_dimension=1
        c = f32[40,50] convert(a)
        ROOT r = f32[40,50] subtract(b, c)""",
        (),
    ),
    "constants": (
        """a = f32[2,3] constant({{1,-2,nan},{inf,1e-45,-0}})
        b = s64[6] constant({10,8,6,4,2,0})
        c = f32[2,3] parameter(0)
        d = s64[2,3] reshape(b)
        e = f32[2,3] convert(d)
        f = f32[2,3] add(e, c)
        g = f32[2,3] constant({{7,7,7},{7,7,7}})
        h = f32[2,3] multiply(f, g)
        ROOT r = (f32[2,3], f32[2,3]) tuple(a, h)""",
        (f32(2, 3),),
    ),
    "reshapes": (
        """x = f32[4,6,10] parameter(0)
        a = f32[24,10] reshape(x)
        b = f32[24,10] negate(a)
        c = f32[8,30] reshape(b)
        d = f32[8,1,30] reshape(c)
        e = f32[240] reshape(d)
        ROOT r = f32[16,15] reshape(e)""",
        (f32(4, 6, 10),),
    ),
    "transpose": (
        """x = f32[70,3,45] parameter(0)
        a = f32[45,70,3] transpose(x), dimensions={2,0,1}
        ROOT r = f32[45,70,3] add(a, a)""",
        (f32(70, 3, 45),),
    ),
    "slices": (
        """x = f32[20,30] parameter(0)
        a = f32[7,10] slice(x), slice={[3:17:2], [0:30:3]}
        b = f32[7,10] reverse(a), dimensions={1}
        ROOT r = f32[7,10] add(a, b)""",
        (f32(20, 30),),
    ),
    "pad": (
        """x = f32[9,8] parameter(0)
        z = f32[] parameter(1)
        n = f32[9,8] negate(x)
        ROOT r = f32[12,23] pad(n, z), padding=2_1x-2_3_2""",
        (f32(9, 8), f32()),
    ),
    "pad away": (
        """x = f32[3] parameter(0)
        z = f32[] parameter(1)
        ROOT r = f32[4] pad(x, z), padding=-3_4""",
        (f32(3), f32()),
    ),
    "concatenate": (
        """x = f32[4,3] parameter(0)
        y = f32[4,5] parameter(1)
        e = f32[4,0] parameter(2)
        c = f32[4,11] concatenate(x, y, e, x), dimensions={1}
        ROOT r = f32[4,11] negate(c)""",
        (f32(4, 3), f32(4, 5), f32(4, 0)),
    ),
    "concatenate inside": (
        """x = f32[4,30] parameter(0)
        y = f32[5,30] parameter(1)
        c = f32[13,30] concatenate(x, y, x), dimensions={0}
        p = s32[13,30] iota(), iota_dimension=1
        q = f32[13,30] convert(p)
        d = f32[13,30] add(c, q)
        ROOT t = f32[30,13] transpose(d), dimensions={1,0}""",
        (f32(4, 30), f32(5, 30)),
    ),
    "select": (
        """x = f32[30] parameter(0)
        y = f32[30] parameter(1)
        p = pred[30] compare(x, y), direction=LT
        s = f32[30] select(p, x, y)
        n = pred[30] not(p)
        ROOT r = (f32[30], pred[30]) tuple(s, n)""",
        (f32(30), f32(30)),
    ),
    "clamp by scalars": (
        """x = f32[30] parameter(0)
        l = f32[] constant(-0.5)
        h = f32[] parameter(1)
        ROOT r = f32[30] clamp(l, x, h)""",
        (f32(30), np.float32(0.75)),
    ),
    "gather rows": (
        """x = f32[50,8] parameter(0)
        i = s32[12,1] parameter(1)
        ROOT r = f32[12,8] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0},
            index_vector_dim=1, slice_sizes={1,8}""",
        (f32(50, 8), s32(12, 1, low=-5, high=60)),
    ),
    "gather blocks": (
        """x = f32[9,8,7] parameter(0)
        i = s64[2,5,4] parameter(1)
        ROOT r = f32[5,3,4,2] gather(x, i), offset_dims={1,3}, collapsed_slice_dims={2}, start_index_map={2,0},
            index_vector_dim=0, slice_sizes={3,2,1}""",
        (f32(9, 8, 7), s32(2, 5, 4, low=-3, high=11).astype(np.int64)),
    ),
    "gather batches": (
        """x = f32[5,8,4] parameter(0)
        i = u8[4,5] parameter(1)
        ROOT r = f32[4,5,2] gather(x, i), offset_dims={2}, collapsed_slice_dims={}, start_index_map={1},
            operand_batching_dims={0,2}, start_indices_batching_dims={1,0}, index_vector_dim=2, slice_sizes={1,2,1}""",
        (f32(5, 8, 4), rng.integers(0, 9, (4, 5)).astype(np.uint8)),
    ),
    "dynamic-slice": (
        """x = f32[9,40] parameter(0)
        i = s32[] parameter(1)
        j = s32[] parameter(2)
        ROOT r = f32[3,40] dynamic-slice(x, i, j), dynamic_slice_sizes={3,40}""",
        (f32(9, 40), np.int32(8), np.int32(3)),
    ),
    "dynamic-update-slice": (
        """x = f32[9,40] parameter(0)
        u = f32[4,6] parameter(1)
        i = s32[] parameter(2)
        j = s32[] parameter(3)
        v = f32[4,6] negate(u)
        y = f32[9,40] add(x, x)
        ROOT r = f32[9,40] dynamic-update-slice(y, v, i, j)""",
        (f32(9, 40), f32(4, 6), np.int32(-3), np.int32(37)),
    ),
    "narrow floats": (
        """x = bf16[33] parameter(0)
        y = f16[33] parameter(1)
        a = bf16[33] multiply(x, x)
        b = bf16[33] add(a, x)
        c = f16[33] convert(b)
        d = f16[33] subtract(y, c)
        ROOT r = (bf16[33], f16[33]) tuple(b, d)""",
        None,
    ),
    "complex": (
        """x = f32[10] parameter(0)
        y = f32[10] parameter(1)
        z = c64[10] complex(x, y)
        c = c64[] constant((1.5,-2))
        b = c64[10] broadcast(c), dimensions={}
        w = c64[10] add(z, b)
        re = f32[10] real(w)
        im = f32[10] imag(w)
        ROOT r = (c64[10], f32[10], f32[10]) tuple(w, re, im)""",
        (f32(10), f32(10)),
    ),
    "bitcast to bytes": (
        "x = f32[5] parameter(0)\nROOT r = u8[5,4] bitcast-convert(x)",
        (f32(5),),
    ),
    "bitcast from bytes": (
        "x = u8[5,8] parameter(0)\nROOT r = f64[5] bitcast-convert(x)",
        (rng.integers(0, 120, (5, 8)).astype(np.uint8),),
    ),
    "bitcast halves": ("x = f32[5] parameter(0)\nROOT r = bf16[5,2] bitcast-convert(x)", (f32(5),)),
    "integer dot": (
        """x = s32[4,5,6] parameter(0)
        y = s32[5,7,4] parameter(1)
        d = s32[4,6,7] dot(x, y), lhs_batch_dims={0}, rhs_batch_dims={2}, lhs_contracting_dims={1},
            rhs_contracting_dims={0}
        ROOT r = s32[4,6,7] negate(d)""",
        (s32(4, 5, 6), s32(5, 7, 4)),
    ),
    "dot of nothing": (
        """x = f32[4,0] parameter(0)
        y = f32[0,7] parameter(1)
        ROOT d = f32[4,7] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}""",
        (f32(4, 0), f32(0, 7)),
    ),
}


@pytest.mark.parametrize("name", EXACT)
def test_exact(name):
    lines, args = EXACT[name]
    text = entry(lines)
    if args is None:
        types = [p.shape for p in parse(text).entry.parameters]
        args = tuple(rng.standard_normal(t.dimensions).astype(t.element_type.dtype) for t in types)
    check(text, *args)


SUMS = {
    "dot": (
        entry(
            """x = f32[4,30] parameter(0)
            y = f32[30,7] parameter(1)
            d = f32[4,7] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
            ROOT r = f32[4,7] add(d, d)"""
        ),
        (f32(4, 30), f32(30, 7)),
    ),
    "complex dot": (
        entry(
            """x = c64[4,3] parameter(0)
            y = c64[3,4] parameter(1)
            ROOT d = c64[4,4] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}"""
        ),
        (f32(4, 3) + 1j * f32(4, 3), f32(3, 4) + 1j * f32(3, 4)),
    ),
    "half dot": (
        entry(
            """x = f16[4,3] parameter(0)
            y = f16[3,4] parameter(1)
            ROOT d = f32[4,4] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}"""
        ),
        (f32(4, 3).astype(np.float16), f32(3, 4).astype(np.float16)),
    ),
    "convolution": (
        entry(
            """x = f32[2,9,8,4] parameter(0)
            w = f32[3,2,2,6] parameter(1)
            ROOT r = f32[2,5,15,6] convolution(x, w), window={size=3x2 stride=2x1 pad=1_1x-1_3 lhs_dilate=1x2
                rhs_dilate=1x2 rhs_reversal=1x0}, dim_labels=b01f_01io->b01f, feature_group_count=2"""
        ),
        (f32(2, 9, 8, 4), f32(3, 2, 2, 6)),
    ),
    "filter gradient": (
        entry(
            """x = f32[4,6,6] parameter(0)
            w = f32[2,4,8] parameter(1)
            ROOT r = f32[2,5,8] convolution(x, w), window={size=2}, dim_labels=b0f_0io->b0f,
                batch_group_count=2, feature_group_count=1"""
        ).replace("w = f32[2,4,8]", "w = f32[2,6,8]"),
        (f32(4, 6, 6), f32(2, 6, 8)),
    ),
    "pooling": (
        entry(
            """x = f32[2,9,9,3] parameter(0)
            z = f32[] constant(0)
            n = f32[2,9,9,3] multiply(x, x)
            ROOT r = f32[2,5,5,3] reduce-window(n, z), window={size=1x3x3x1 stride=1x2x2x1 pad=0_0x1_1x1_1x0_0},
                to_apply=add""",
            ADD,
        ),
        (f32(2, 9, 9, 3),),
    ),
    "cumulative sum": (
        entry(
            """x = f32[40] parameter(0)
            z = f32[] constant(0)
            ROOT r = f32[40] reduce-window(x, z), window={size=40 pad=39_0}, to_apply=add""",
            ADD,
        ),
        (f32(40),),
    ),
    "pooling gradient": (
        entry(
            """x = f32[2,9,8,3] parameter(0)
            g = f32[2,4,5,3] parameter(1)
            z = f32[] constant(0)
            ROOT r = f32[2,9,8,3] select-and-scatter(x, g, z), window={size=1x3x2x1 stride=1x2x2x1
                pad=0_0x0_0x1_1x0_0}, select=ge, scatter=add""",
            ADD + GE,
        ),
        (f32(2, 9, 8, 3), f32(2, 4, 5, 3)),
    ),
}


@pytest.mark.parametrize("name", SUMS)
def test_sums(name):
    text, args = SUMS[name]
    check(text, *args, exact=False)


def test_chunks_and_tails():
    for n in (1, 16384, 16385, 100_003):
        check(entry(f"x = f32[{n}] parameter(0)\nROOT r = f32[{n}] multiply(x, x)"), f32(n))
    check(entry("x = f32[7,16390] parameter(0)\nROOT r = f32[7,16390] reverse(x), dimensions={0}"), f32(7, 16390))
    check(entry("x = f32[300,200] parameter(0)\nROOT r = f32[200,300] transpose(x), dimensions={1,0}"), f32(300, 200))


GATHERS = {
    "alone": "ROOT g = f32[3000,70] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0},"
    " index_vector_dim=1, slice_sizes={1,70}",
    "in a sum": """g = f32[3000,70] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0},
        index_vector_dim=1, slice_sizes={1,70}
        y = f32[3000,70] parameter(2)
        s = f32[3000,70] add(g, y)
        ROOT r = (f32[3000,70], f32[3000,70]) tuple(s, g)""",
    "of parts": "ROOT g = f32[3000,2,33] gather(x, i), offset_dims={1,2}, collapsed_slice_dims={}, start_index_map={0},"
    " index_vector_dim=1, slice_sizes={2,33}",
}


@pytest.mark.parametrize("name", GATHERS)
def test_rows_that_a_gather_takes_are_fetched_ahead(name, monkeypatch):
    set_caches(monkeypatch, second=90 * 70 * 4)
    text = entry("x = f32[90,70] parameter(0)\ni = s32[3000] parameter(1)\n" + GATHERS[name])
    arguments = (f32(90, 70), s32(3000, low=-5, high=99), f32(3000, 70))
    check(text, *arguments[: 3 if "parameter(2)" in text else 2])
    (kernel,) = Compiled(fusion_of(parse(text))).kernels
    assert kernel.body.count("rx_prefetch") == 1


@pytest.mark.parametrize("columns", [4, 8, 32])
def test_short_rows_are_vectors_where_much_is_computed(columns):
    """One number for each column: LLVM makes no vectors of a loop that reads at i & 3."""
    lines = [f"x = f32[500,{columns}] parameter(0)", f"y = f32[{columns}] parameter(1)"]
    lines.append(f"b = f32[500,{columns}] broadcast(y), dimensions={{1}}")
    lines.append(f"r0 = f32[500,{columns}] add(x, b)")
    for n in range(80):
        lines.append(f"{'ROOT ' if n == 79 else ''}r{n + 1} = f32[500,{columns}] {('multiply', 'add')[n % 2]}(r{n}, b)")
    text = entry("\n".join(lines))
    (kernel,) = Compiled(fusion_of(parse(text))).kernels
    assert not re.search(rf"\[[^]]*% {columns}u", kernel.body)
    assert (f"- {columns} * (int)(" in kernel.body) == (columns == 8)  # of four columns, one is selected
    check(text, f32(500, columns), f32(columns))


@pytest.mark.parametrize(
    ("kind", "shape", "dimension"),
    [
        ("f32", "200,2", 1), ("f32", "200,3", 1), ("f32", "200,4", 1), ("bf16", "3,2,9", 1),
        ("c64", "2,2,2,2,2,2,2", 5), ("pred", "200,2", 1), ("s4", "200,4", 1), ("f32", "3,4,2,2", 1),
    ],
)  # fmt: skip
def test_one_of_a_few_elements_is_selected(kind, shape, dimension):
    """clang would gather them: the loop reads each element of the small array at a place of its own."""
    sizes = tuple(map(int, shape.split(",")))
    few = sizes[dimension]
    one, combine = ("or", "or") if kind == "pred" else ("add", "multiply")
    text = entry(
        f"""x = {kind}[{shape}] parameter(0)
        y = {kind}[{few}] parameter(1)
        b = {kind}[{shape}] broadcast(y), dimensions={{{dimension}}}
        c = {kind}[{shape}] {combine}(x, b)
        e = {kind}[{shape}] {"exponential" if kind == "f32" else "copy"}(c)
        ROOT r = {kind}[{shape}] {one}(e, x)"""
    )
    dtype = ELEMENT_TYPES[kind].dtype
    values = [(rng.integers(0, 2, n) if kind == "pred" else rng.integers(-2, 3, n)).astype(dtype) for n in (sizes, few)]
    (kernel,) = check(text, *values, exact=kind != "f32").kernels
    computed = [place for place in re.findall(r"\ba1\[(.*)\]", kernel.body) if "%" in place or "/" in place]
    assert not computed


def test_nothing_outside_of_a_small_array_is_read_to_select_from_it():
    """Only the test that surrounds a load of what is padded keeps it in bounds."""
    text = entry(
        """y = f32[2] parameter(0)
        z = f32[] constant(7)
        p = f32[4] pad(y, z), padding=1_1
        b = f32[3,4,9] broadcast(p), dimensions={1}
        ROOT r = f32[3,4,9] negate(b)"""
    )
    (kernel,) = check(text, f32(2)).kernels
    assert not set(re.findall(r"\ba0\[(-?\d+)\]", kernel.body)) - {"0", "1"}


@pytest.mark.parametrize("operation", ["concatenate", "pad", "dynamic-update-slice"])
def test_complex_numbers_that_branches_choose_are_two_variables(operation):
    """clang vectorizes no loop in which a vector of OpenCL's has one of several values."""
    made = {
        "concatenate": "concatenate(x, y, x), dimensions={0}",
        "pad": "pad(y, z), padding=8_8",
        "dynamic-update-slice": "dynamic-update-slice(w, y, i)",
    }[operation]
    text = entry(
        f"""x = c64[8] parameter(0)
        y = c64[4] parameter(1)
        i = s32[] parameter(2)
        w = c64[20] parameter(3)
        z = c64[] constant((1,-2))
        v = c64[20] {made}
        ROOT r = c64[20] add(v, v)"""
    )
    sizes = (8, 4, None, 20)
    values = [np.int32(5) if n is None else (rng.normal(size=n) + 1j * rng.normal(size=n)).astype("c8") for n in sizes]
    compiled = check(text, *values)
    body = "".join(k.body for k in compiled.kernels)
    assert not re.search(r"float2 v\d+;|^\s*float2 v\d+ =", body, re.MULTILINE)


def test_a_chain_is_one_loop_without_divisions():
    text = entry("x = f32[40,50,60] parameter(0)\nROOT r = f32[40,50,60] add(x, x)")
    (kernel,) = Compiled(fusion_of(parse(text))).kernels
    assert kernel.body.count("for (") == 1 and "%" not in kernel.body and " / " not in kernel.body


def test_long_chains_need_no_recursion():
    n = 5000
    lines = ["x0 = f32[4] parameter(0)"] + [f"x{k + 1} = f32[4] negate(x{k})" for k in range(n)]
    from refxla.codegen.emitter_registry import emit
    from refxla.device.description import DEFAULT_CPU

    module = parse(entry("\n".join([*lines, f"ROOT r = f32[4] add(x{n}, x{n})"])))
    (kernel,) = emit(fusion_of(module), DEFAULT_CPU)
    assert kernel.body.count("\n") > n


# The dimensions of x, those of the result, the padding, and how many bodies the loops then have.
RANGED = {
    "border": ((40, 50), (43, 53), "1_2x3_0", 4),
    "first dimension": ((40, 50), (43, 50), "1_2x0_0", 3),
    "cut and border": ((70, 50), (68, 53), "-3_1x4_-1", 3),
    "interior": ((40, 50), (40, 107), "0_0x5_3_1", 4),
    "images": ((3, 12, 13, 5), (3, 14, 15, 5), "0_0x1_1x1_1x0_0", 5),
    "chunks": ((2, 40000), (2, 40009), "0_0x7_2", 3),
}


def checked_pad(sizes, padded, padding):
    """The kernel of a padded array, negated, whose values are right."""
    given, result = ("f32[" + ",".join(map(str, dims)) + "]" for dims in (sizes, padded))
    text = entry(
        f"""x = {given} parameter(0)
        z = f32[] parameter(1)
        a = {result} pad(x, z), padding={padding}
        ROOT r = {result} negate(a)"""
    )
    (kernel,) = check(text, f32(*sizes), f32()).kernels
    return kernel


@pytest.mark.parametrize("name", RANGED)
def test_loops_fall_into_ranges(name):
    sizes, padded, padding, bodies = RANGED[name]
    kernel = checked_pad(sizes, padded, padding)
    assert kernel.body.count("] = ") == bodies
    # Nothing is asked where x is read.
    assert not any("a0[" in loop and "if (" in loop[loop.index("{") :] for loop in kernel.body.split("for (")[1:])


# The dimensions of x, those of the result, the padding, and how many tests come before x is read.
INTERLEAVED = {
    "every second": ((700,), (1404,), "2_3_1", 0),
    "every second of rows": ((40, 50), (40, 107), "0_0x5_3_1", 0),
    "every second of some rows": ((40, 50), (84, 104), "2_3_1x2_3_1", 1),
    "every third, without the first": ((500,), (1497,), "-1_0_2", 0),
    "every eighth": ((300,), (2397,), "1_3_7", 0),
    "items with parts of periods": ((60001,), (180001,), "3_-3_2", 0),
    "items with parts of rows": ((2, 30000), (2, 150001), "0_0x2_3_4", 0),
    "more residues than stores interleave": ((300,), (2692,), "0_0_8", 1),
    "few elements": ((50,), (99,), "0_0_1", 1),
}


@pytest.mark.parametrize("name", INTERLEAVED)
def test_loops_over_periods_of_padding_between_elements(name):
    sizes, padded, padding, tests = INTERLEAVED[name]
    kernel = checked_pad(sizes, padded, padding)
    reads = [loop[loop.index("{") : loop.index("a0[")] for loop in kernel.body.split("for (")[1:] if "a0[" in loop]
    assert min(read.count("if (") + read.count(" & ") for read in reads) == tests


def test_paddings_of_several_periods():
    text = entry(
        """x = f32[1000] parameter(0)
        y = f32[667] parameter(1)
        z = f32[] parameter(2)
        a = f32[1999] pad(x, z), padding=0_0_1
        b = f32[1999] pad(y, z), padding=0_0_2
        ROOT r = f32[1999] subtract(a, b)"""
    )
    (kernel,) = check(text, f32(1000), f32(667), f32()).kernels
    assert "%" not in kernel.body


def test_two_borders_of_one_loop():
    text = entry(
        """x = f32[30,200] parameter(0)
        z = f32[] parameter(1)
        a = f32[30,202] pad(x, z), padding=0_0x2_0
        b = f32[30,202] pad(x, z), padding=0_0x1_1
        c = f32[30,202] pad(x, z), padding=0_0x0_2
        d = f32[30,202] add(a, b)
        ROOT r = f32[30,202] add(c, d)"""
    )
    (kernel,) = check(text, f32(30, 200), f32()).kernels
    assert kernel.body.count("] = ") == 3  # the two first and the two last columns keep their tests


@pytest.mark.parametrize("kind", ["f32", "bf16", "s8", "f64", "c128", "pred", "s4"])
def test_many_arrays_side_by_side(kind):
    """Each that is copied as it lies is a call; what is computed, or is stored in other bits, is a loop."""
    count, sizes = 24, [3, 17, 1]
    lines = [f"x{n} = {kind}[{sizes[n % 3]}] parameter({n})" for n in range(count)]
    negated = "not" if kind == "pred" else "negate"
    lines += [f"n = {kind}[3] {negated}(x0)", f"v = {kind}[17] reverse(x1), dimensions={{0}}"]
    total = sum(sizes) * count // 3 + 20
    operands = ", ".join(["n", "v", *(f"x{n}" for n in range(count))])
    text = entry("\n".join([*lines, f"ROOT r = {kind}[{total}] concatenate({operands}), dimensions={{0}}"]))
    dtype = parse(text).entry.parameters[0].shape.element_type.dtype
    values = [(rng.integers(0, 2, sizes[n % 3]) if kind == "pred" else s32(sizes[n % 3], low=-7, high=8)).astype(dtype)
              for n in range(count)]  # fmt: skip
    compiled = refxla.compile(text)
    first = ~values[0] if kind == "pred" else -values[0]
    np.testing.assert_array_equal(compiled(*values), np.concatenate([first, values[1][::-1], *values]))
    body = next(k.body for k in compiled.plan.kernels if isinstance(k.body, str))
    assert body.count("rx_copy_u") == (0 if kind in ("pred", "s4") else 2 * count // 3)  # a single element is none


def test_a_concatenate_that_is_read_twice():
    text = entry(
        """x = f32[20,60] parameter(0)
        y = f32[20,70] parameter(1)
        c = f32[20,130] concatenate(x, y), dimensions={1}
        a = f32[20,100] slice(c), slice={[0:20], [0:100]}
        b = f32[20,100] slice(c), slice={[0:20], [30:130]}
        ROOT r = f32[20,100] subtract(a, b)"""
    )
    (kernel,) = check(text, f32(20, 60), f32(20, 70)).kernels
    assert kernel.body.count("] = ") == 3 and "else" not in kernel.body


def test_an_update_at_known_places():
    text = entry(
        """x = f32[40,60] parameter(0)
        u = f32[20,30] parameter(1)
        i = s32[] constant(7)
        j = s32[] constant(90)
        a = f32[40,60] dynamic-update-slice(x, u, i, j)
        ROOT r = f32[40,60] negate(a)"""
    )
    check(text, f32(40, 60), f32(20, 30))


def test_update_in_place_writes_the_slice_alone():
    text = entry(
        """x = f32[9,40] parameter(0)
        u = f32[4,6] parameter(1)
        i = s32[] parameter(2)
        v = f32[4,6] negate(u)
        ROOT r = f32[9,40] dynamic-update-slice(x, v, i, i)"""
    )
    compiled = check(text, f32(9, 40), f32(4, 6), np.int32(3), kind="update")
    (kernel,) = compiled.kernels
    (output,) = (a for a in kernel.arguments if a.role == "output")
    assert output.updates.name == "x"
    assert [a.instruction.name for a in kernel.arguments if a.role == "input"] == ["u", "i"]


def test_update_that_reads_its_operand_writes_everything():
    text = entry(
        """x = f32[9] parameter(0)
        i = s32[] parameter(1)
        s = f32[4] slice(x), slice={[2:6]}
        v = f32[4] negate(s)
        ROOT r = f32[9] dynamic-update-slice(x, v, i)"""
    )
    compiled = check(text, f32(9), np.int32(3), kind="update")
    assert all(a.updates is None for k in compiled.kernels for a in k.arguments)


READ_AND_UPDATED = {  # of x = f32[9,40], u = f32[4,4], i and j: the update, and whether it may be made in place
    "sum": ("s = f32[4,4] dynamic-slice(x, i, j), dynamic_slice_sizes={4,4}\nv = f32[4,4] add(s, u)", True),
    "other order": (
        """s = f32[4,4] dynamic-slice(x, i, j), dynamic_slice_sizes={4,4}
        flat = f32[16] reshape(s)
        n = f32[16] negate(flat)
        back = f32[4,4] reshape(n)
        m = f32[4,4] multiply(back, back)
        v = f32[4,4] subtract(u, m)""",
        True,
    ),
    "elsewhere": ("s = f32[4,4] dynamic-slice(x, j, i), dynamic_slice_sizes={4,4}\nv = f32[4,4] add(s, u)", False),
    "known": ("s = f32[4,4] slice(x), slice={[2:6], [0:4]}\nv = f32[4,4] add(s, u)", False),
    "transposed": (
        """s = f32[4,4] dynamic-slice(x, i, j), dynamic_slice_sizes={4,4}
        t = f32[4,4] transpose(s), dimensions={1,0}
        v = f32[4,4] add(s, t)""",
        False,
    ),
    "other sizes": (
        """s = f32[2,8] dynamic-slice(x, i, j), dynamic_slice_sizes={2,8}
        t = f32[4,4] reshape(s)
        v = f32[4,4] add(t, u)""",
        False,
    ),
    "a number": (
        """n = f32[1,1] dynamic-slice(x, i, j), dynamic_slice_sizes={1,1}
        m = f32[] reshape(n)
        b = f32[4,4] broadcast(m), dimensions={}
        v = f32[4,4] add(b, u)""",
        False,
    ),
}


@pytest.mark.parametrize("name", READ_AND_UPDATED)
def test_an_update_of_what_it_reads(name):
    """Only where each element is read and written in one place is the array not written anew."""
    update, in_place = READ_AND_UPDATED[name]
    text = entry(
        f"""x = f32[9,40] parameter(0)
        u = f32[4,4] parameter(1)
        i = s32[] parameter(2)
        j = s32[] parameter(3)
        {update}
        ROOT r = f32[9,40] dynamic-update-slice(x, v, i, j)"""
    )
    for i, j in ((2, 5), (-3, 7), (8, 39)):
        compiled = check(text, f32(9, 40), f32(4, 4), np.int32(i), np.int32(j), kind="update")
    (kernel,) = compiled.kernels
    (output,) = (a for a in kernel.arguments if a.role == "output")
    assert (output.updates is not None) == in_place


def test_a_reduce_is_no_element():
    text = entry(
        "x = f32[9] parameter(0)\nz = f32[] constant(0)\nROOT r = f32[] reduce(x, z), dimensions={0}, to_apply=add", ADD
    )
    with pytest.raises(UnsupportedError, match="reduce"):
        Compiled(fusion_of(parse(text)))


@pytest.mark.parametrize("name", ["f32", "f64", "bf16"])
@pytest.mark.parametrize("opcode", ["sine", "cosine", "tan"])
def test_functions_that_are_dear_for_large_operands_go_in_pieces(opcode, name):
    """A large operand changes the way that its whole piece goes, but no bit of its neighbours."""
    text = entry(
        f"""x = {name}[3,700] parameter(0)
        y = {name}[3,700] parameter(1)
        inner = {name}[3,700] {opcode}(x)
        z = {name}[3,700] multiply(inner, y)
        outer = {name}[3,700] {opcode}(z)
        ROOT r = ({name}[3,700], {name}[3,700]) tuple(outer, inner)"""
    )
    dtype = parse(text).entry.parameters[0].shape.element_type.dtype
    x, y = (f32(3, 700) * 30).astype(dtype), f32(3, 700).astype(dtype)
    compiled = Compiled(fusion_of(parse(text)))

    def checked() -> list[np.ndarray]:
        values, bounds = run_with_bounds(parse(text), [x, y])
        results = compiled(x, y)
        for got, value, bound in zip(results, values, bounds, strict=True):
            finite = np.isfinite(value.astype(np.float64))
            assert (bound[finite] < 2.0**-4).mean() > 0.6, "most bounds decide: values are of the size of 1"
            assert (distance(got, value)[finite] <= bound[finite]).all()
        return results

    (kernel,) = compiled.kernels
    function = "tan" if opcode == "tan" else "shifted_sine"
    assert kernel.body.count(f"fast_{function}_{name}(") == 2 and len(kernel.library_functions) == 1
    moderate = checked()
    x[0, 300], x[0, 301] = 1040, 1e6  # in f32 there is a way for those, too
    far = checked()
    x[0, 302], x[1, 5], x[2, 650] = 2e6, 1e30, np.inf
    large = checked()
    same = np.ones((3, 700), bool)
    same[0, 302] = same[1, 5] = same[2, 650] = False
    for a, b in zip(far, large, strict=True):
        assert a[same].tobytes() == b[same].tobytes()
    same[0, 300:302] = False
    for a, b in zip(moderate, far, strict=True):
        assert a[same].tobytes() == b[same].tobytes()
    assert np.isnan(large[1][2, 650].astype(np.float64)) and np.isfinite(large[1][1, 5].astype(np.float64))


def test_sine_and_cosine_in_pieces_have_one_function():
    text = entry("""x = f32[900] parameter(0)
        s = f32[900] sine(x)
        c = f32[900] cosine(x)
        ROOT r = (f32[900], f32[900]) tuple(s, c)""")
    (kernel,) = check(text, f32(900) * 2000, exact=False).kernels
    assert kernel.body.count("fast_shifted_sine_f32(") == 2 and len(kernel.library_functions) == 1


@pytest.mark.parametrize("operation", ["abs(x)", "divide(x, y)", "divide(x, z)"])
@pytest.mark.parametrize("bits", [32, 64])
def test_complex_numbers_that_need_no_scaling_have_the_same_bits_without(bits, operation):
    """A number of another size changes the way that its whole piece goes, but no bit of its neighbours."""
    name, size, most = f"c{2 * bits}", 4096, {32: 24, 64: 203}[bits]
    text = entry(
        f"""x = {name}[{size}] parameter(0)
        y = {name}[{size}] parameter(1)
        re = f{bits}[{size}] real(y)
        z = {name}[{size}] convert(re)
        ROOT r = {f"f{bits}" if operation == "abs(x)" else name}[{size}] {operation}"""
    )
    rng = np.random.default_rng(0)

    def parts(zeros: float) -> np.ndarray:
        numbers = np.ldexp(rng.uniform(1, 2, size), rng.integers(-most, most, size))
        return rng.choice([-1, 1], size) * np.where(rng.random(size) < zeros, 0, numbers)

    x, y = (np.empty(size, np.dtype(f"c{bits // 4}")) for _ in range(2))
    x.real, x.imag, y.real, y.imag = parts(0.1), parts(0.1), parts(0), parts(0.1)
    compiled = Compiled(fusion_of(parse(text)))
    arguments = [x, y][: len(compiled.fusion.inputs)]
    assert f"fast_{operation.split('(')[0]}_{name}(" in compiled.kernels[0].body
    (moderate,) = compiled(*arguments)
    x[::200] = np.finfo(x.dtype).max / 2
    (scaled,) = compiled(*arguments)
    same = np.arange(size) % 200 != 0
    assert moderate[same].tobytes() == scaled[same].tobytes()
    values, bounds = run_with_bounds(parse(text), [x, y])
    assert (distance(scaled, values) <= bounds).all()


COMPLEX_OF_ANGLES = [
    "exponential", "exponential-minus-one", "sine", "cosine", "tan", "sinh", "cosh", "tanh", "power"
]  # fmt: skip


@pytest.mark.parametrize("opcode", COMPLEX_OF_ANGLES)
@pytest.mark.parametrize("name", ["c64", "c128"])
def test_complex_functions_of_large_angles_change_no_bit_of_their_neighbours(name, opcode):
    text = entry(
        f"""x = {name}[3,700] parameter(0)
        y = {name}[3,700] parameter(1)
        ROOT r = {name}[3,700] {opcode}(x{", y" if opcode == "power" else ""})"""
    )
    dtype, rng = parse(text).entry.parameters[0].shape.element_type.dtype, np.random.default_rng(0)
    x, y = ((rng.standard_normal((3, 700)) + 1j * rng.standard_normal((3, 700))).astype(dtype) for _ in range(2))
    x[0] *= 30
    x[1, 300:310] = [0, -0.0, 1j, -1j, 1, -1, np.inf, np.nan, complex(0, np.nan), complex(-np.inf, 0)]
    y[0, :2] = 0, 1
    compiled = Compiled(fusion_of(parse(text)))
    arguments = [x, y][: len(compiled.fusion.inputs)]
    assert f"fast_{opcode.replace('-', '_')}_{name}(" in compiled.kernels[0].body
    (moderate,) = compiled(*arguments)
    values, bounds = run_with_bounds(parse(text), [x, y])
    assert (distance(moderate, values) <= bounds).all()
    x[:, ::200] = complex(1e30, 1e30)
    (large,) = compiled(*arguments)
    same = np.arange(700) % 200 != 0
    for a, b in ((moderate.real, large.real), (moderate.imag, large.imag)):  # but the sign of a NaN, which says nothing
        a, b = (np.where(np.isnan(part), np.nan, part)[:, same] for part in (a, b))
        assert a.tobytes() == b.tobytes()
    values, bounds = run_with_bounds(parse(text), [x, y])
    assert (distance(large, values) <= bounds).all()


def test_pieces_inside_ranges_and_at_other_indices():
    text = entry(
        """x = f32[40,200] parameter(0)
        zero = f32[] constant(0)
        p = f32[42,200] pad(x, zero), padding=1_1x0_0
        s = f32[42,200] sine(p)
        v = f32[42,200] reverse(s), dimensions={1}
        c = f32[42,200] cosine(v)
        ROOT r = f32[42,200] add(c, s)"""
    )
    assert "fast_shifted_sine_f32(" in check(text, f32(40, 200) * 2000, exact=False).kernels[0].body


def test_functions_of_a_row_are_computed_before_its_loop():
    """At places that the program computes, too; a function of a number that all elements use comes before all loops."""
    text = entry(
        """x = f32[40,200] parameter(0)
        y = f32[40,1] parameter(1)
        n = s32[] parameter(2)
        zero = s32[] constant(0)
        d = f32[1,1] dynamic-slice(y, n, zero), dynamic_slice_sizes={1,1}
        number = f32[] reshape(d)
        a = f32[] atan2(number, number)
        c = f32[] cosine(a)
        all = f32[40,200] broadcast(c), dimensions={}
        column = f32[40] reshape(y)
        e = f32[40] exponential(column)
        rows = f32[40,200] broadcast(e), dimensions={0}
        p = f32[40,200] multiply(x, all)
        ROOT r = f32[40,200] add(p, rows)"""
    )
    body = check(text, f32(40, 200), f32(40, 1), np.int32(7), exact=False).kernels[0].body
    places = [body.index(s) for s in ("rx_atan2_f32(", "rx_cosine_alone_f32(", "for (", "rx_exponential_f32(")]
    assert places == sorted(places), body
    assert body.index("rx_exponential_f32(") < body.rindex("for ("), body
    assert body.count("rx_cosine") == body.count("rx_exponential_f32(") == 1


def test_functions_of_what_is_not_always_there_stay_in_the_loop():
    """Outside of the padded rows there is no element to compute them from."""
    text = entry(
        """x = f32[40] parameter(0)
        e = f32[40] exponential(x)
        zero = f32[] constant(0)
        p = f32[42] pad(e, zero), padding=1_1
        b = f32[42,16] broadcast(p), dimensions={0}
        y = f32[42,16] parameter(1)
        v = f32[42,16] reverse(y), dimensions={1}
        ROOT r = f32[42,16] add(b, v)"""
    )
    body = check(text, f32(40), f32(42, 16), exact=False).kernels[0].body
    assert body.index("if (") < body.index("rx_exponential_f32("), body


EDGES = {
    "s32": [0, 1, -1, 2, -2, 3, 7, -7, 2**31 - 1, 2**31 - 2, -(2**31), 1 - 2**31, 65536, -65537, 2**30, 46341],
    "u32": [0, 1, 2, 3, 7, 10, 2**31 - 1, 2**31, 2**31 + 1, 2**32 - 1, 2**32 - 2, 65535, 65536, 65537, 641, 6700417],
}


@pytest.mark.parametrize("opcode", ["divide", "remainder"])
@pytest.mark.parametrize("name", ["s32", "u32"])
def test_integers_are_divided_in_f64_of_doubles(name, opcode):
    """All pairs of edges, and random numbers of all sizes; a divisor that is a constant is left to the C compiler."""
    edges = np.array(EDGES[name], np.int64)
    small = np.random.default_rng(0).integers(0, 2**62, (2, 4096)) >> np.random.default_rng(1).integers(
        30, 62, (2, 4096)
    )
    info = np.iinfo({"s32": np.int32, "u32": np.uint32}[name])
    divisors = small[1] % 2**16 + 1
    beside = info.max // divisors * divisors - np.arange(4096) % 3 + 1  # the largest multiples and their neighbours
    left = [np.repeat(edges, 16), small[0], np.minimum(beside, info.max)]
    pairs = [np.concatenate(left), np.concatenate([np.tile(edges, 16), small[1], divisors])]
    a, b = (x.astype({"s32": np.int32, "u32": np.uint32}[name]) for x in pairs)
    shape = f"{name}[{a.size}]"
    text = entry(f"a = {shape} parameter(0)\nb = {shape} parameter(1)\nROOT c = {shape} {opcode}(a, b)")
    compiled = Compiled(fusion_of(parse(text)))
    assert f"rx_{opcode}_in_f64_{name}" in compiled.kernels[0].body
    check(text, a, b)
    seven = f"seven = {name}[] constant(7)\nb = {shape} broadcast(seven), dimensions={{}}"
    text = entry(f"a = {shape} parameter(0)\n{seven}\nROOT c = {shape} {opcode}(a, b)")
    assert "in_f64" not in Compiled(fusion_of(parse(text))).kernels[0].body


@pytest.mark.parametrize("name", ["s8", "u16", "s32", "u64"])
def test_operators_by_constants(name):
    """C's own operators, where they give what HLO says; for every other constant the functions of the prelude."""
    info = np.iinfo(parse(f"ENTRY e {{ ROOT p = {name}[] parameter(0) }}").entry.root.shape.element_type.dtype)
    x = np.array([info.min, info.min + 1, info.max, info.max - 1, 0, 1, 7, 100], info.dtype)
    shape = f"{name}[{x.size}]"
    lines, results = [f"a = {shape} parameter(0)"], []
    for constant in (-1 if info.min else info.max, info.min, info.bits, 4):
        n = len(lines)
        lines += [f"c{n} = {name}[] constant({constant})", f"b{n} = {shape} broadcast(c{n}), dimensions={{}}"]
        for opcode in (
            "divide",
            "remainder",
            "multiply",
            "shift-left",
            "shift-right-logical",
            "shift-right-arithmetic",
        ):
            one = entry("\n".join([lines[0], *lines[-2:], f"ROOT r = {shape} {opcode}(a, b{n})"]))
            body = Compiled(fusion_of(parse(one))).kernels[0].body
            if opcode == "multiply":
                assert ("(0u - " in body) == (constant < 0 or constant == info.max), constant
            called = f"rx_{opcode.replace('-', '_')}_{name}" in body
            plain = 0 <= constant < info.bits if opcode.startswith("shift") else constant not in (0, -1)
            assert called == (opcode != "multiply" and not plain), (opcode, constant)
            results.append(f"{opcode}(a, b{n})")
    lines += tuple_of(shape, results)
    check(entry("\n".join(lines)), x)


@pytest.mark.parametrize("name", ["bf16", "f32", "f64"])
def test_a_bound_that_is_a_constant_is_one_selection(name):
    """On either side, save a NaN; and no selection by a comparison with a zero is taken for a maximum or a minimum."""
    info = ml_dtypes.finfo(ELEMENT_TYPES[name].dtype)
    x = np.array([0.0, info.smallest_subnormal, info.tiny, 0.5, 1, 2, np.inf], info.dtype)
    x = np.concatenate([x, -x])
    shape = f"{name}[{x.size}]"
    lines, results = [f"a = {shape} parameter(0)"], []
    for c, number in {"z": "0", "n": "-0", "h": "0.5", "i": "inf", "u": "nan"}.items():
        lines += [f"{c}0 = {name}[] constant({number})", f"{c} = {shape} broadcast({c}0), dimensions={{}}"]
        for operation in ("maximum", "minimum"):
            one = entry("\n".join([lines[0], *lines[-2:], f"ROOT r = {shape} {operation}({c}, a)"]))
            body = Compiled(fusion_of(parse(one))).kernels[0].body
            assert (f"rx_{operation}_by_constant_" in body) == (number != "nan")
            results += [f"{operation}(a, {c})", f"{operation}({c}, a)"] if number != "nan" else []
    for direction, zero in itertools.product(("LT", "LE", "GT", "GE"), "zn"):
        for n, compared in enumerate((f"a, {zero}", f"{zero}, a")):
            p = f"{direction}{zero}{n}"
            lines.append(f"{p} = pred[{x.size}] compare({compared}), direction={direction}")
            results += [f"select({p}, {chosen})" for other in "zn" for chosen in (f"a, {other}", f"{other}, a")]
    lines += tuple_of(shape, results)
    check_within("\n".join(lines), x)


@pytest.mark.parametrize("result", ["bf16", "f16", "f32", "f64"])
@pytest.mark.parametrize("name", ["s32", "u32", "s64", "u64"])
def test_wide_integers_become_floats_with_one_rounding(name, result):
    """Sums of two powers of two and their neighbours, of both signs: halves of the last bit, and what decides them."""
    info = np.iinfo({"s32": np.int32, "u32": np.uint32, "s64": np.int64, "u64": np.uint64}[name])
    powers = [1 << n for n in range(info.bits)]
    sums = {a + b + c for a in powers for b in (0, *powers) for c in (-1, 0, 1)}
    numbers = [x for y in sorted(sums) for x in (y, -y) if info.min <= x <= info.max]
    shape = f"[{len(numbers)}]"
    text = entry(f"a = {name}{shape} parameter(0)\nROOT b = {result}{shape} convert(a)")
    check(text, np.array(numbers, info.dtype))
    if name in ("s64", "u64") and result != "f16":
        assert "in_f64" in Compiled(fusion_of(parse(text))).kernels[0].body


@pytest.mark.parametrize("result", ["s64", "u64"])
@pytest.mark.parametrize("name", ["f32", "f64"])
def test_floats_become_integers_of_64_bits_in_vectors(name, result):
    """Powers of two, halves beside them, sums of two that fill the mantissa, and what no integer is."""
    dtype = {"f32": np.float32, "f64": np.float64}[name]
    powers = np.ldexp(dtype(1), np.arange(-3, 67))
    sums = (powers[:, None] + powers[None, :] * np.array([1, -1], dtype)[:, None, None]).ravel()
    odd = np.random.default_rng(0).uniform(1, 2, 4000) * np.ldexp(1.0, np.random.default_rng(1).integers(-2, 66, 4000))
    x = np.concatenate([powers, sums, odd.astype(dtype), np.nextafter(powers, dtype(0)), powers + dtype(0.5)])
    info = np.finfo(dtype)
    x = np.concatenate([x, -x, np.array([0, np.inf, -np.inf, np.nan, info.max, info.tiny, -info.tiny], dtype)])
    text = entry(f"a = {name}[{x.size}] parameter(0)\nROOT b = {result}[{x.size}] convert(a)")
    check(text, x)
    assert f"rx_convert_in_f64_{name}_{result}(" in Compiled(fusion_of(parse(text))).kernels[0].body


@pytest.mark.parametrize(
    ("body", "wide"),
    [
        ("a = s64[100] parameter(0)\nROOT b = s64[100] multiply(a, a)", True),
        ("a = u64[100] parameter(0)\nROOT b = u64[100] multiply(a, a)", True),
        ("a = f32[100] parameter(0)\nROOT b = f32[100] add(a, a)", True),
        ("a = f32[100] parameter(0)\nROOT b = f32[90] slice(a), slice={[10:100]}", False),
        # every third element: the loop gathers, unless much is done with what it has gathered
        ("a = f32[300] parameter(0)\nc = f32[100] slice(a), slice={[0:300:3]}\nROOT b = f32[100] negate(c)", False),
        (
            "a = f32[300] parameter(0)\nc = f32[100] slice(a), slice={[0:300:3]}\nd = f32[100] negate(c)\n"
            "e = f32[100] multiply(d, c)\nf = f32[100] subtract(e, d)\ng = f32[100] multiply(f, e)\n"
            "h = f32[100] add(g, f)\nROOT b = f32[100] multiply(h, g)",
            True,
        ),
        # places that are computed lie anywhere
        (
            "a = f32[300] parameter(0)\ni = s32[100,1] parameter(1)\n"
            "c = f32[100] gather(a, i), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, "
            "index_vector_dim=1, slice_sizes={1}\nROOT b = f32[100] negate(c)",
            False,
        ),
    ],
)
def test_vectors_of_avx_512_are_for_what_is_computed(body, wide):
    """AVX-512 multiplies integers of 64 bits by one instruction, and gathers element by element."""
    assert Compiled(fusion_of(parse(entry(body)))).kernels[0].wide_vectors == wide


def test_short_rows_that_only_move_are_written_out():
    """A window that moves on by one element, as of SHA-256: what else the fusion computes is long."""
    text = entry(
        "x = u32[64,16] parameter(0)\nrest = u32[64,15] slice(x), slice={[0:64], [1:16]}\n"
        "first = u32[64,1] slice(x), slice={[0:64], [0:1]}\n"
        + "".join(
            f"v{n} = u32[64,1] {op}({f'v{n - 1}' if n else 'first'}, first)\n"
            for n, op in enumerate(["multiply", "xor"] * 12)
        )
        + "ROOT y = u32[64,16] concatenate(rest, v23), dimensions={1}"
    )
    (kernel,) = Compiled(fusion_of(parse(text))).kernels
    assert re.search(r"#pragma unroll\s+for \(int i\d+ = 0; i\d+ < 15;", kernel.body), kernel.body
    check(text, np.arange(1024, dtype=np.uint32).reshape(64, 16) * 2654435761)


def test_functions_that_are_put_together_are_computed_once_each():
    """Matrices [[cos a, sin a, 0], [1, 2, 3]] for many a: in a loop over all elements, each would compute both."""
    text = entry(
        "a = f32[500,1] parameter(0)\nc = f32[500,1] cosine(a)\ns = f32[500,1] sine(a)\nz = f32[] constant(0)\n"
        "o = f32[500,1] broadcast(z), dimensions={}\nu = f32[500,3] concatenate(c, s, o), dimensions={1}\n"
        "row = f32[500,1,3] reshape(u)\nb = f32[3] parameter(1)\nother = f32[500,1,3] broadcast(b), dimensions={2}\n"
        "ROOT m = f32[500,2,3] concatenate(row, other), dimensions={1}"
    )
    compiled = Compiled(fusion_of(parse(text)))
    (kernel,) = compiled.kernels
    assert "#pragma unroll" in kernel.body and "?" not in kernel.body.split("for (int i")[-1]
    assert "else if (i" not in kernel.body
    assert kernel.body.count("fast_shifted_sine_f32(") == 2 and "rx_cosine_f32(" not in kernel.body
    a = np.linspace(-9, 9, 500, dtype=np.float32)
    (got,) = compiled(a[:, None], np.arange(1, 4, dtype=np.float32))
    np.testing.assert_allclose(got[:, 0], np.stack([np.cos(a), np.sin(a), 0 * a], -1), rtol=0, atol=1e-6)
    np.testing.assert_array_equal(got[:, 1], np.tile(np.float32([1, 2, 3]), (500, 1)))


def test_complex_numbers_move_by_their_parts():
    """clang makes vectors of loops over scalars: no load, store or sum of a kernel is that of a vector."""
    text = entry(
        "a = c64[100] parameter(0)\nb = c64[100] parameter(1)\ns = c64[100] add(a, b)\nn = c64[100] negate(s)\n"
        "d = c64[100] subtract(n, b)\nROOT m = c64[100] multiply(d, a)"
    )
    (kernel,) = Compiled(fusion_of(parse(text))).kernels
    assert kernel.wide_vectors and kernel.body.count("RX_LOAD_PARTS(float2, ") == 2
    assert "RX_STORE_PARTS(" in kernel.body and not re.search(r"v\d+ [+-] v\d+|-v\d+[^.]", kernel.body)
    parts = np.random.default_rng(0).integers(-9, 9, (2, 200)).astype(np.float32)  # so that nothing is rounded
    check(text, *parts.view(np.complex64))


def test_short_rows_of_costly_functions_are_one_loop():
    """25 columns are a vector and nine elements more, each of which takes as long as the vector."""
    from refxla.codegen.loops.elementwise import emit
    from refxla.device.description import DEFAULT_CPU

    def is_one(opcode, columns):
        module = parse(f"""HloModule m
        ENTRY main {{ x = f32[64,{columns}] parameter(0)
        c = f32[{columns}] parameter(1)
        b = f32[64,{columns}] broadcast(c), dimensions={{1}}
        y = f32[64,{columns}] add(x, b)
        ROOT r = f32[64,{columns}] {opcode}(y) }}""")
        (kernel,) = emit(fusion_of(module), DEFAULT_CPU)
        return f"- {columns} * (int)" in kernel.body  # a division for each element

    assert is_one("exponential", 25) and is_one("log", 63)
    assert not any(is_one(*n) for n in (("negate", 25), ("exponential", 32), ("exponential", 33), ("log", 153)))


@pytest.mark.parametrize("run", [2, 7, 15])
def test_short_rows_are_written_out(run):
    """Moves and sums of rows of a few elements: loops over rows, without a division for each element."""
    shape, turned, twice = f"s32[40,{run}]", f"s32[{run},40]", f"s32[40,{2 * run}]"
    programs = [
        f"a = {shape} parameter(0)\nROOT r = {shape} reverse(a), dimensions={{1}}",
        f"a = {turned} parameter(0)\nROOT t = {shape} transpose(a), dimensions={{1,0}}",
        f"a = {shape} parameter(0)\nc = s32[{run}] constant({{{', '.join(map(str, range(run)))}}})\n"
        f"b = {shape} broadcast(c), dimensions={{1}}\nROOT s = {shape} add(a, b)",
    ]
    joined = f"a = {shape} parameter(0)\nn = {shape} negate(a)\nROOT j = {twice} concatenate(a, n), dimensions={{1}}"
    for program in [*programs, *([joined] if 2 * run < 16 else [])]:
        (kernel,) = Compiled(fusion_of(parse(entry(program)))).kernels
        assert "#pragma unroll" in kernel.body and not re.search(r" [/%] ", kernel.body), kernel.body
        numbers = np.arange(40 * run, dtype=np.int32)
        check(entry(program), numbers.reshape((run, 40) if "transpose" in program else (40, run)))


@pytest.mark.parametrize("after", ["reshape", "negate", "scaled"])
def test_a_reshape_of_a_transpose_goes_by_contiguous_parts(after):
    """As the patches of an image: the loops run over the dimensions before the reshape, without a division for each
    element."""
    ends = {
        "reshape": "ROOT r = f32[8,160] reshape(t)",
        "negate": "s = f32[8,160] reshape(t)\n ROOT r = f32[8,160] negate(s)",
        "scaled": "s = f32[8,160] reshape(t)\n n = f32[8,160] negate(s)\n ROOT r = f32[8,160] add(n, y)",
    }
    text = entry(
        "x = f32[2,5,4,32] parameter(0)\ny = f32[8,160] parameter(1)\n"
        "t = f32[2,4,5,32] transpose(x), dimensions={0,2,1,3}\n" + ends[after]
    )
    arguments = [f32(2, 5, 4, 32), *([f32(8, 160)] if after == "scaled" else [])]
    if after != "scaled":
        text = text.replace("y = f32[8,160] parameter(1)\n", "")
    (kernel,) = check(text, *arguments).kernels
    inner = kernel.body[kernel.body.rindex("for (") :]
    assert not re.search(r"\(i\d+\) [/%] (?:32|160)u", inner), kernel.body


def test_narrow_parts_of_rows_are_written_together():
    """As the frequencies of a position: each part of a row is shorter than a line of the cache."""
    parts = [f"x{n} = f32[5000,{3 + n % 2}] parameter({n})" for n in range(8)]
    text = entry(
        "\n".join(parts)
        + f"""
        ROOT j = f32[5000,28] concatenate({", ".join(f"x{n}" for n in range(8))}), dimensions={{1}}"""
    )
    (kernel,) = check(text, *(f32(5000, 3 + n % 2) for n in range(8))).kernels
    assert kernel.body.count(" * item;") == 1, "an item has all parts of its rows"


@pytest.mark.parametrize("columns", [3, 9, 40, 500])
def test_functions_of_whole_rows_are_computed_once_for_each(columns):
    """Rows are scaled by a cosine: moderate angles, larger ones and those that are computed one by one."""
    text = entry(f"""x = f32[5000] parameter(0)
        y = f32[5000,{columns}] parameter(1)
        c = f32[5000] cosine(x)
        b = f32[5000,{columns}] broadcast(c), dimensions={{0}}
        ROOT r = f32[5000,{columns}] multiply(b, y)""")
    angles = f32(5000) * 300
    angles[700:900:7], angles[2000:2010] = 5e5, [1e7, -1e30, np.inf, -np.inf, np.nan, 0, -0.0, 1e6, 2**20, -(2**20)]
    y = f32(5000, columns)
    compiled = Compiled(fusion_of(parse(text)))
    (kernel,) = compiled.kernels
    (cosines,) = Compiled(fusion_of(parse(entry("x = f32[5000] parameter(0)\nROOT c = f32[5000] cosine(x)"))))(angles)
    np.testing.assert_array_equal(*compiled(angles, y), cosines[:, None] * y)
    assert f"/ {columns}u" not in kernel.body
    assert ("fast_shifted_sine_f32(" in kernel.body) == (columns <= 40)
    assert ("#pragma unroll" in kernel.body) == (columns < 16), "rows with a function of their own are loops"


@pytest.mark.parametrize("rows", [5, 5000])
def test_functions_of_single_elements_of_rows_are_computed_of_many_rows_at_once(rows):
    """The derivative of a pendulum's angle and speed, as in a batch of integrators; moderate angles and others."""
    text = entry(f"""x = f32[{rows},3] parameter(0)
        angle = f32[{rows},1] slice(x), slice={{[0:{rows}], [0:1]}}
        speed = f32[{rows},1] slice(x), slice={{[0:{rows}], [1:2]}}
        last = f32[{rows},1] slice(x), slice={{[0:{rows}], [2:3]}}
        s = f32[{rows},1] sine(angle)
        c = f32[{rows},1] cosine(last)
        n = f32[{rows},1] negate(s)
        ROOT r = f32[{rows},3] concatenate(speed, n, c), dimensions={{1}}""")
    x = f32(rows, 3) * 300
    x[1:4, 0], x[2:4, 2] = [5e5, -1e30, np.inf], [1e7, np.nan]
    compiled = Compiled(fusion_of(parse(text)))
    (kernel,) = compiled.kernels

    def alone(opcode, angles):
        (result,) = Compiled(
            fusion_of(parse(entry(f"x = f32[{rows}] parameter(0)\nROOT y = f32[{rows}] {opcode}(x)")))
        )(angles)
        return result

    wanted = np.stack([x[:, 1], -alone("sine", x[:, 0].copy()), alone("cosine", x[:, 2].copy())], 1)
    np.testing.assert_array_equal(*compiled(x), wanted)
    assert (kernel.body.count("fast_shifted_sine_f32(") == 2 and "rx_sine_f32(" not in kernel.body) == (rows > 5)


def test_what_is_computed_once_does_not_keep_rows_from_being_written_out():
    """Places of a slice that a program computes take many operations, of single numbers."""
    text = entry(
        """a = s32[40,6] parameter(0)
        i = s32[] parameter(1)
        n = s32[] constant(40)
        wrap = s32[] remainder(i, n)
        up = s32[] add(wrap, n)
        zero = s32[] constant(0)
        low = pred[] compare(wrap, zero), direction=LT
        at = s32[] select(low, up, wrap)
        row = s32[1,6] dynamic-slice(a, at, zero), dynamic_slice_sizes={1,6}
        flat = s32[6] reshape(row)
        all = s32[40,6] broadcast(flat), dimensions={1}
        ROOT r = s32[40,6] or(a, all)"""
    )
    (kernel,) = Compiled(fusion_of(parse(text))).kernels
    assert "#pragma unroll" in kernel.body and "/ 6u" not in kernel.body, kernel.body
    a = np.random.default_rng(0).integers(0, 99, (40, 6)).astype(np.int32)
    check(text, a, np.int32(-3))
    np.testing.assert_array_equal(refxla.compile(text)(a, np.int32(-3)), a | a[37])


def test_a_reshape_of_a_concatenate_falls_into_its_operands():
    """Two halves of each row, as the steps of a transform join them, and are looked at as longer rows."""
    text = entry(
        """a = s32[30,1,40] parameter(0)
        b = s32[30,1,40] parameter(1)
        s = s32[30,1,40] add(a, b)
        d = s32[30,1,40] subtract(a, b)
        j = s32[30,2,40] concatenate(s, d), dimensions={1}
        ROOT r = s32[30,80] reshape(j)"""
    )
    (kernel,) = Compiled(fusion_of(parse(text))).kernels
    assert "else {" not in kernel.body and "% " not in kernel.body, kernel.body
    check(text, *np.random.default_rng(0).integers(-99, 99, (2, 30, 1, 40)).astype(np.int32))


@pytest.mark.parametrize("axis", [1, 2])
@pytest.mark.parametrize("shift", [1, 3, -2])
def test_a_short_rotation_is_one_load(axis, shift):
    """Boards of a few fields, turned around: where a row ends is no question that branches."""
    sizes = (20, 6, 7)
    n = sizes[axis]
    cut = -shift % n

    def part(low, high):
        return ", ".join(f"[{low}:{high}]" if d == axis else f"[0:{m}]" for d, m in enumerate(sizes))

    def shape(count):
        return "s32[" + ",".join(str(count if d == axis else m) for d, m in enumerate(sizes)) + "]"

    text = entry(
        f"""a = s32[20,6,7] parameter(0)
        p = {shape(n - cut)} slice(a), slice={{{part(cut, n)}}}
        q = {shape(cut)} slice(a), slice={{{part(0, cut)}}}
        j = s32[20,6,7] concatenate(p, q), dimensions={{{axis}}}
        s = s32[20,6,7] subtract(a, j)
        ROOT f = s32[840] reshape(s)"""
    )
    (kernel,) = Compiled(fusion_of(parse(text))).kernels
    a = np.random.default_rng(0).integers(0, 99, sizes).astype(np.int32)
    check(text, a)
    np.testing.assert_array_equal(refxla.compile(text)(a), (a - np.roll(a, shift, axis)).reshape(-1))


def test_rows_of_functions_are_not_written_out():
    """They would be as many copies of a function's code."""
    text = entry("a = f32[7,40] parameter(0)\nt = f32[40,7] transpose(a), dimensions={1,0}\nROOT s = f32[40,7] sine(t)")
    assert "#pragma unroll" not in Compiled(fusion_of(parse(text))).kernels[0].body
