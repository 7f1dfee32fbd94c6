"""The emitters for GPUs: their kernels give the CPU flavour's bits, on PoCL in real work-groups; at small sizes
Oclgrind finds no race, no uninitialised value, no access out of bounds, and no barrier that some items miss."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from kernel_driver import OCLGRIND, POCL, Compiled, fusion_of, random_array, reports, text_of
from refxla_spec.errors import UnsupportedError
from refxla_spec.text import parse

from refxla.codegen.emitter_registry import emit
from refxla.codegen.gpu import term_masks
from refxla.device.description import Target
from refxla.device.gpu_models import EMULATED

# So that small arrays have items of several elements; these tests give kernels arrays, not memory objects.
GPU = replace(EMULATED, compute_units=1, offsets=False)
REDUCERS = """
    add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
    add64 { a = f64[] parameter(0)  b = f64[] parameter(1)  ROOT c = f64[] add(a, b) }
    addbf { a = bf16[] parameter(0)  b = bf16[] parameter(1)  ROOT c = bf16[] add(a, b) }
    times { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] multiply(a, b) }
    timesbf { a = bf16[] parameter(0)  b = bf16[] parameter(1)  ROOT c = bf16[] multiply(a, b) }
    count { a = s32[] parameter(0)  b = s32[] parameter(1)  ROOT c = s32[] add(a, b) }
    max { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] maximum(a, b) }
    ge { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = pred[] compare(a, b), direction=GE }
    nearly_ge { a = f32[] parameter(0)  b = f32[] parameter(1)
                h = f32[] constant(0.5)  c = f32[] add(a, h)  ROOT r = pred[] compare(c, b), direction=GE }
    gebf { a = bf16[] parameter(0)  b = bf16[] parameter(1)  ROOT c = pred[] compare(a, b), direction=GE }
    first { a = f32[] parameter(0)  i = s32[] parameter(1)  b = f32[] parameter(2)  j = s32[] parameter(3)
            g = pred[] compare(a, b), direction=GE
            v = f32[] select(g, a, b)
            n = s32[] select(g, i, j)
            ROOT r = (f32[], s32[]) tuple(v, n) }
    less { a = f32[] parameter(0)  b = f32[] parameter(1)
           ROOT r = pred[] compare(a, b), direction=LT, order=TOTAL }
    less64 { a = f64[] parameter(0)  b = f64[] parameter(1)
             ROOT r = pred[] compare(a, b), direction=LT }
    first_of_two { a = bf16[] parameter(0)  b = bf16[] parameter(1)  i = s16[] parameter(2)  j = s16[] parameter(3)
                   ROOT r = pred[] compare(a, b), direction=GT }
    first_key { a = s8[] parameter(0)  b = s8[] parameter(1)  c = f32[] parameter(2)  d = f32[] parameter(3)
          i = s32[] parameter(4)  j = s32[] parameter(5)
          ROOT g = pred[] compare(a, b), direction=LT }
    two { a = s8[] parameter(0)  b = s8[] parameter(1)  c = f32[] parameter(2)  d = f32[] parameter(3)
          i = s32[] parameter(4)  j = s32[] parameter(5)
          g = pred[] compare(a, b), direction=GT
          e = pred[] compare(a, b), direction=EQ
          l = pred[] compare(c, d), direction=LT, order=TOTAL
          n = pred[] and(e, l)
          ROOT r = pred[] or(g, n) }
    chosen { a = s8[] parameter(0)  b = s8[] parameter(1)  c = f32[] parameter(2)  d = f32[] parameter(3)
             e = pred[] compare(a, b), direction=EQ
             g = pred[] compare(a, b), direction=GT
             l = pred[] compare(c, d), direction=LT
             ROOT r = pred[] select(e, l, g) }
    real { a = c128[] parameter(0)  b = c128[] parameter(1)  c = c128[] parameter(2)  d = c128[] parameter(3)
           e = c128[] parameter(4)  f = c128[] parameter(5)  g = c128[] parameter(6)  h = c128[] parameter(7)
           x = f64[] real(a)
           y = f64[] real(b)
           l = pred[] compare(x, y), direction=LT
           ROOT r = pred[] and(l, l) }
    product { a = s8[] parameter(0)  b = s8[] parameter(1)  c = s32[] parameter(2)  d = s32[] parameter(3)
              p = s8[] multiply(a, b)
              q = s8[] constant(40)
              ROOT r = pred[] compare(p, q), direction=LT }
"""


@dataclass(frozen=True)
class Case:
    """A fusion: its kind and its lines of HLO. `holds` are words that its GPU kernels contain; `small` ones run in
    Oclgrind, too; `kernels` is their number; they have work-groups if they are `grouped`. `units` are the compute units
    of the GPU."""

    kind: str
    lines: str
    holds: tuple[str, ...] = ()
    small: bool = True
    kernels: int = 1
    grouped: bool = True
    units: int = 1

    @property
    def target(self) -> Target:
        """The GPU."""
        return replace(GPU, compute_units=self.units)


def loop(lines: str, *holds: str, **rest: object) -> Case:
    return Case("loop", lines, holds, **rest)


def reduction(lines: str, *holds: str, **rest: object) -> Case:
    return Case("reduction", lines, holds, **rest)


SOFTMAX = """x = f32[ROWS,COLUMNS] parameter(0)
    low = f32[] constant(-inf)
    z = f32[] constant(0)
    m = f32[ROWS] reduce(x, low), dimensions={1}, to_apply=max
    mb = f32[ROWS,COLUMNS] broadcast(m), dimensions={0}
    d = f32[ROWS,COLUMNS] subtract(x, mb)
    e = f32[ROWS,COLUMNS] exponential(d)
    s = f32[ROWS] reduce(e, z), dimensions={1}, to_apply=add
    sb = f32[ROWS,COLUMNS] broadcast(s), dimensions={0}
    ROOT r = f32[ROWS,COLUMNS] divide(e, sb)"""


def softmax(rows: int, columns: int, *holds: str, **rest: object) -> Case:
    return reduction(SOFTMAX.replace("ROWS", str(rows)).replace("COLUMNS", str(columns)), *holds, **rest)


def dot(m: int, n: int, k: int, *holds: str, of: str = "f32", to: str = "f32", **rest: object) -> Case:
    return Case(
        "dot",
        f"""x = {of}[{m},{k}] parameter(0)
        y = {of}[{k},{n}] parameter(1)
        ROOT r = {to}[{m},{n}] dot(x, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}""",
        holds,
        **rest,
    )


def convolution(
    x: str, y: str, to: str, window: str, *holds: str, groups: int = 1, labels: str = "b01f_01io->b01f", of: str = "f32"
) -> Case:
    return Case(
        "convolution",
        f"""x = {of}[{x}] parameter(0)
        y = {of}[{y}] parameter(1)
        ROOT r = {of}[{to}] convolution(x, y), window={{{window}}}, dim_labels={labels},
            feature_group_count={groups}""",
        holds,
    )


def channels_first(x: str, y: str, to: str, window: str, *holds: str, **rest: str) -> Case:
    """A channel each: those of `x` are its second dimension."""
    spatial = "012"[: x.count(",") - 1]
    labels = f"bf{spatial}_oi{spatial}->bf{spatial}"
    return convolution(x, y, to, window, *holds, groups=int(x.split(",")[1]), labels=labels, **rest)


def pooling(x: str, to: str, window: str, *holds: str, of: str = "f32", by: str = "max", start: str = "-inf") -> Case:
    return Case(
        "reduce-window",
        f"""x = {of}[{x}] parameter(0)
        z = {of}[] constant({start})
        ROOT r = {of}[{to}] reduce-window(x, z), window={{{window}}}, to_apply={by}""",
        holds,
    )


def select_and_scatter(
    x: str, s: str, window: str, *holds: str, of: str = "f32", suffix: str = "", by: str = "ge", kernels: int = 2,
    grouped: bool = True,
) -> Case:  # fmt: skip
    return Case(
        "select-and-scatter",
        f"""x = {of}[{x}] parameter(0)
        s = {of}[{s}] parameter(1)
        z = {of}[] constant(0.5)
        ROOT r = {of}[{x}] select-and-scatter(x, s, z), window={{{window}}},
            select={by}{suffix}, scatter=add{suffix}""",
        holds,
        kernels=kernels,
        grouped=grouped,
    )


def transform(kind: str, of: str, to: str, length: str, *holds: str, **rest: object) -> Case:
    return Case(
        "fft",
        f"""x = {of} parameter(0)
        ROOT r = {to} fft(x), fft_type={kind}, fft_length={{{length}}}""",
        holds,
        **rest,
    )


CASES = {
    "vectors": loop(
        """x = f32[16,1024] parameter(0)
        y = f32[1024] parameter(1)
        b = f32[16,1024] broadcast(y), dimensions={1}
        s = f32[16,1024] multiply(x, b)
        h = bf16[16,1024] convert(s)
        ROOT r = (f32[16,1024], bf16[16,1024]) tuple(s, h)""",
        "(__global const float4*)",
        "(__global ushort4*)",
    ),
    "bytes": loop(
        """x = u8[65536] parameter(0)
        y = u8[65536] parameter(1)
        ROOT r = u8[65536] add(x, y)""",
        "(__global uchar16*)",
    ),
    "complex numbers": loop(
        "x = c64[8193] parameter(0)\nROOT r = c64[8193] multiply(x, x)", "(__global const float4*)", "else if"
    ),
    "a tail": loop("x = f32[8195] parameter(0)\nROOT r = f32[8195] negate(x)", "float4", "for (int j"),
    "apart": loop("x = f32[3,8193] parameter(0)\nROOT r = f32[3,8192] slice(x), slice={[0:3],[1:8193]}", " * 256;"),
    "few": loop("x = f32[5,7] parameter(0)\nROOT r = f32[5,7] negate(x)"),
    "scalar": loop("x = f32[] parameter(0)\nROOT r = f32[] negate(x)", grouped=False),
    "segments": loop(
        """x = f32[3,700] parameter(0)
        y = f32[5,700] parameter(1)
        c = f32[8,700] concatenate(x, y), dimensions={0}
        ROOT r = f32[8,700] negate(c)""",
        "else if (group <",
    ),
    "border": loop(
        """x = f32[60,61] parameter(0)
        z = f32[] constant(7)
        ROOT r = f32[124,63] pad(x, z), padding=3_2_1x1_1""",
    ),
    "a slice that moves": loop(
        """x = f32[70,128] parameter(0)
        i = s32[] parameter(1)
        z = s32[] constant(0)
        s = f32[64,128] dynamic-slice(x, i, z), dynamic_slice_sizes={64,128}
        ROOT r = f32[64,128] add(s, s)""",
        "(__global const float4*)",
    ),
    "update": Case(
        "update",
        """x = f32[70,128] parameter(0)
        u = f32[64,128] parameter(1)
        i = s32[] parameter(2)
        z = s32[] constant(0)
        ROOT r = f32[70,128] dynamic-update-slice(x, u, i, z)""",
        ("(__global float4*)",),
    ),
    "transpose": loop(
        "x = f32[70,3,45] parameter(0)\nROOT r = f32[45,3,70] transpose(x), dimensions={2,1,0}",
        "barrier(CLK_LOCAL_MEM_FENCE)",
    ),
    "two transposed": loop(
        """x = f32[40,64] parameter(0)
        y = bf16[40,64] parameter(1)
        w = f32[64,40] parameter(2)
        t = f32[64,40] transpose(x), dimensions={1,0}
        u = bf16[64,40] transpose(y), dimensions={1,0}
        v = f32[64,40] convert(u)
        s = f32[64,40] add(t, v)
        ROOT r = f32[64,40] add(s, w)""",
        "barrier(CLK_LOCAL_MEM_FENCE)",
    ),
    "turned concatenate": loop(
        """x = f32[33,40] parameter(0)
        y = f32[20,33] parameter(1)
        t = f32[40,33] transpose(x), dimensions={1,0}
        ROOT r = f32[60,33] concatenate(t, y), dimensions={0}""",
        "barrier(CLK_LOCAL_MEM_FENCE)",
        kernels=2,
    ),
    "rows": reduction(
        "x = f32[9,300] parameter(0)\nz = f32[] constant(3)\n"
        "ROOT r = f32[9] reduce(x, z), dimensions={1}, to_apply=add",
        "if (lane < 16)",
    ),
    "short rows": reduction(
        "x = f32[300,5] parameter(0)\nz = f32[] constant(3)\n"
        "ROOT r = f32[300] reduce(x, z), dimensions={1}, to_apply=add",
    ),
    "rows of eleven": reduction(
        "x = f32[70,11] parameter(0)\nz = f32[] constant(3)\n"
        "ROOT r = f32[70] reduce(x, z), dimensions={1}, to_apply=add",
        "if (lane < 4)",
    ),
    "rows in pieces": reduction(
        "x = f32[7,5,40] parameter(0)\nz = f32[] constant(3)\n"
        "ROOT r = f32[5] reduce(x, z), dimensions={0,2}, to_apply=add",
    ),
    "wide rows": reduction(
        "x = f64[9,300] parameter(0)\nz = f64[] constant(3)\n"
        "ROOT r = f64[9] reduce(x, z), dimensions={1}, to_apply=add64",
    ),
    "narrow rows": reduction(
        "x = bf16[9,300] parameter(0)\nz = bf16[] constant(3)\n"
        "ROOT r = bf16[9] reduce(x, z), dimensions={1}, to_apply=addbf",
    ),
    "columns": reduction(
        "x = f32[40,3,50] parameter(0)\nz = f32[] constant(3)\n"
        "ROOT r = f32[50] reduce(x, z), dimensions={0,1}, to_apply=add",
    ),
    "columns between": reduction(
        "x = f32[6,40,50] parameter(0)\nz = f32[] constant(3)\n"
        "ROOT r = f32[6,50] reduce(x, z), dimensions={1}, to_apply=add",
    ),
    "nothing reduced": reduction(
        "x = f32[4,0] parameter(0)\nz = f32[] constant(3)\nROOT r = f32[4] reduce(x, z), dimensions={1}, to_apply=add",
    ),
    "where the largest is": reduction(
        """x = f32[12,90] parameter(0)
        i = s32[12,90] iota(), iota_dimension=1
        low = f32[] constant(-inf)
        z = s32[] constant(0)
        p = (f32[12], s32[12]) reduce(x, i, low, z), dimensions={1}, to_apply=first
        v = f32[12] get-tuple-element(p), index=0
        n = s32[12] get-tuple-element(p), index=1
        ROOT r = (f32[12], s32[12]) tuple(v, n)""",
    ),
    "softmax": softmax(9, 300, "#pragma unroll\n"),
    "wide softmax": softmax(3, 1100, "#pragma unroll 8"),
    "rows and elements": reduction(
        """x = f32[9,300] parameter(0)
        z = f32[] constant(0)
        s = f32[9] reduce(x, z), dimensions={1}, to_apply=add
        b = f32[9,300] broadcast(s), dimensions={0}
        d = f32[9,300] subtract(x, b)
        n = f32[9,300] negate(x)
        ROOT r = (f32[9,300], f32[9], f32[9,300]) tuple(d, s, n)""",
    ),
    "split row": reduction(
        "x = f32[140001] parameter(0)\nz = f32[] constant(3)\n"
        "ROOT r = f32[] reduce(x, z), dimensions={0}, to_apply=add",
        kernels=2,
        small=False,
    ),
    "split columns": reduction(
        """x = f32[5000,50] parameter(0)
        z = f32[] constant(3)
        s = f32[50] reduce(x, z), dimensions={0}, to_apply=add
        ROOT r = f32[50] negate(s)""",
        kernels=2,
        small=False,
    ),
    "split softmax": softmax(2, 140001, kernels=5, small=False),
    "segments of many rows": reduction(
        """x = f32[300,20011] parameter(0)
        z = f32[] constant(3)
        low = f32[] constant(-inf)
        s = f32[300] reduce(x, z), dimensions={1}, to_apply=add
        m = f32[300] reduce(x, low), dimensions={1}, to_apply=max
        ROOT r = (f32[300], f32[300]) tuple(s, m)""",
        "segment",
        small=False,
    ),
    "segments of rows of several pieces": reduction(
        """x = f32[60,40,301] parameter(0)
        z = f32[] constant(0)
        ROOT s = f32[40] reduce(x, z), dimensions={0,2}, to_apply=add""",
        "segment",
        small=False,
    ),
    "segments of columns": reduction(
        """x = bf16[1301,3] parameter(0)
        z = bf16[] constant(1)
        ROOT s = bf16[3] reduce(x, z), dimensions={0}, to_apply=addbf""",
        "segment",
    ),
    "segments of few rows": reduction(
        """x = f32[3,20011] parameter(0)
        y = f32[3,20011] parameter(1)
        z = f32[] constant(0)
        i = s32[3,20011] iota(), iota_dimension=1
        low = f32[] constant(-inf)
        n = s32[] constant(0)
        p = f32[3,20011] multiply(x, y)
        s = f32[3] reduce(p, z), dimensions={1}, to_apply=add
        m = (f32[3], s32[3]) reduce(p, i, low, n), dimensions={1}, to_apply=first
        a = f32[3] get-tuple-element(m), index=0
        b = s32[3] get-tuple-element(m), index=1
        ROOT r = (f32[3], f32[3], s32[3]) tuple(s, a, b)""",
        "stage",
        "bound",
        units=64,
        small=False,
    ),
    "segments of split columns": reduction(
        """x = f32[70001,5] parameter(0)
        z = f32[] constant(3)
        ROOT s = f32[5] reduce(x, z), dimensions={0}, to_apply=add""",
        "stage",
        "bound",
        units=64,
        kernels=2,
        small=False,
    ),
    "columns read again": reduction(
        """x = f32[70,40] parameter(0)
        z = f32[] constant(0)
        s = f32[40] reduce(x, z), dimensions={0}, to_apply=add
        b = f32[70,40] broadcast(s), dimensions={1}
        d = f32[70,40] subtract(x, b)
        q = f32[70,40] multiply(d, d)
        v = f32[40] reduce(q, z), dimensions={0}, to_apply=add
        w = f32[70,40] broadcast(v), dimensions={1}
        o = f32[70,40] divide(d, w)
        ROOT r = (f32[70,40], f32[40]) tuple(o, v)""",
        kernels=3,
    ),
    "product": dot(48, 40, 24, "(__global const float4*)", "barrier(CLK_LOCAL_MEM_FENCE)"),
    "odd product": dot(33, 35, 37),
    "large product": dot(256, 256, 48, "sum[8][8]", small=False),
    "large odd product": dot(257, 130, 50, small=False),
    "few columns": reduction(
        """x = f32[300,13] parameter(0)
        z = f32[] constant(3)
        ROOT s = f32[13] reduce(x, z), dimensions={0}, to_apply=add""",
        "stage",
        units=64,
    ),
    "few columns, with an output as large as the operand": reduction(
        """x = f32[2,200,40] parameter(0)
        y = f32[2,200,40] parameter(1)
        b = f32[40] parameter(2)
        w = f32[2,200,40] broadcast(b), dimensions={2}
        z = f32[] constant(0)
        zero = f32[2,200,40] broadcast(z), dimensions={}
        t = f32[2,200,40] add(x, w)
        g = pred[2,200,40] compare(t, zero), direction=GT
        v = f32[2,200,40] select(g, y, zero)
        s = f32[2,40] reduce(v, z), dimensions={1}, to_apply=add
        m = f32[2,40] multiply(s, s)
        ROOT r = (f32[2,200,40], f32[2,40]) tuple(v, m)""",
        "stage",
        units=64,
    ),
    "few columns, split": reduction(
        """x = bf16[9000,17] parameter(0)
        z = bf16[] constant(0)
        w = bf16[9000,17] multiply(x, x)
        s = bf16[17] reduce(w, z), dimensions={0}, to_apply=addbf
        t = bf16[17] reduce(x, z), dimensions={0}, to_apply=addbf
        ROOT r = (bf16[17], bf16[17], bf16[9000,17]) tuple(s, t, w)""",
        "stage",
        units=64,
        kernels=2,
        small=False,
    ),
    "places of few columns": reduction(
        """x = f32[300,70] parameter(0)
        i = s32[300,70] iota(), iota_dimension=0
        z = f32[] constant(-inf)
        n = s32[] constant(0)
        p = (f32[70], s32[70]) reduce(x, i, z, n), dimensions={0}, to_apply=first
        a = f32[70] get-tuple-element(p), index=0
        b = s32[70] get-tuple-element(p), index=1
        ROOT r = (f32[70], s32[70]) tuple(a, b)""",
        "stage",
        units=64,
    ),
    "few rows": reduction(
        """x = f32[2,2117] parameter(0)
        y = f32[2,2117] parameter(1)
        z = f32[] constant(3)
        p = f32[2,2117] multiply(x, y)
        ROOT s = f32[2] reduce(p, z), dimensions={1}, to_apply=add""",
        "stage",
        units=64,
    ),
    "few rows, split, with an output as large as the operand": reduction(
        """x = f32[3,140001] parameter(0)
        y = f32[3,140001] parameter(1)
        z = f32[] constant(0)
        i = s32[3,140001] iota(), iota_dimension=1
        low = f32[] constant(-inf)
        n = s32[] constant(0)
        p = f32[3,140001] multiply(x, y)
        s = f32[3] reduce(p, z), dimensions={1}, to_apply=add
        m = (f32[3], s32[3]) reduce(p, i, low, n), dimensions={1}, to_apply=first
        a = f32[3] get-tuple-element(m), index=0
        b = s32[3] get-tuple-element(m), index=1
        ROOT r = (f32[3], f32[3], s32[3], f32[3,140001]) tuple(s, a, b, p)""",
        "stage",
        units=64,
        small=False,
        kernels=2,
    ),
    "segments of terms": dot(40, 24, 700, "total", small=False),
    "segments shared out": dot(9, 20, 1100, "place", units=64, kernels=2),
    "segments shared out, to halves": dot(17, 7, 1111, "place", of="bf16", to="bf16", units=64, kernels=2, small=False),
    "segments shared out, of doubles": dot(5, 6, 2050, "place", of="f64", to="f64", units=64, kernels=2, small=False),
    "segments shared out, with an epilogue": Case(
        "dot",
        """x = f32[3,1200,12] parameter(0)
        y = f32[3,1200,20] parameter(1)
        b = f32[20] parameter(2)
        n = f32[3,1200,12] negate(x)
        d = f32[3,12,20] dot(n, y), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={1},
            rhs_contracting_dims={1}
        w = f32[3,12,20] broadcast(b), dimensions={2}
        s = f32[3,12,20] add(d, w)
        t = f32[3,12,20] tanh(s)
        ROOT r = (f32[3,12,20], f32[36,20]) tuple(s, t2)""".replace(
            "ROOT r", "t2 = f32[36,20] reshape(t)\n        ROOT r"
        ),
        units=64,
        kernels=2,
    ),
    "product of a vector": dot(70, 1, 90),
    "product by a vector": dot(1, 300, 90),
    "product of few rows": dot(3, 1000, 90, "right_staged[7].s3"),  # of four columns an item, directly from memory
    "product of few rows, by single columns": dot(5, 301, 37, "sum[8][1]"),
    "products of few rows, with columns for part of the items": Case(
        "dot",
        """x = f32[9,3,40] parameter(0)
        y = f32[9,40,300] parameter(1)
        ROOT r = f32[9,3,300] dot(x, y), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2},
            rhs_contracting_dims={1}""",
        ("sum[4][2]",),
    ),
    "product of one row": dot(1, 512, 64, "sum[1][2]"),
    "product of sixteen rows": dot(14, 512, 40, "sum[16][2]"),
    "product of few rows, segments shared out": dot(9, 260, 700, "sum[16][2]", units=4, kernels=2, small=False),
    "product of few rows, segments added": dot(2, 1100, 600, "total", small=False),
    "product of few rows of doubles": dot(3, 300, 45, "sum[4][2]", of="f64", to="f64"),
    "product of few rows of halves": dot(4, 1024, 40, "ushort4", of="bf16", to="bf16"),
    "few columns of a product": dot(
        300, 6, 40, "right_block + x", grouped=False
    ),  # of which the rows' terms are contiguous
    "a matrix by a vector": dot(290, 1, 700, "right_block + x", grouped=False, small=False),
    "product of few columns, an odd number of terms": dot(300, 6, 41, "item / 4 * 4"),  # no vectors: in tiles
    "product of few rows by a transposed matrix": Case(
        "dot",
        """x = f32[2,7,44] parameter(0)
        w = bf16[2,300,44] parameter(1)
        b = f32[300] parameter(2)
        y = f32[2,300,44] convert(w)
        d = f32[2,7,300] dot(x, y), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2},
            rhs_contracting_dims={2}
        c = f32[2,7,300] broadcast(b), dimensions={2}
        ROOT r = f32[2,7,300] add(d, c)""",
        ("right_block + x", "ushort4"),
        grouped=False,
    ),
    "product of halves": dot(33, 40, 64, "ushort", of="bf16", to="bf16"),
    "product of numbers of 8 bits": dot(33, 40, 64, "barrier(CLK_LOCAL_MEM_FENCE)", of="f8e5m2", to="f8e5m2"),
    "product of bytes": dot(33, 40, 64, of="s8", to="s32"),
    "product of doubles": dot(33, 40, 64, of="f64", to="f64"),
    "complex product": dot(17, 20, 30, of="c64", to="c64"),
    "batches, transposed": Case(
        "dot",
        """x = f32[3,40,36] parameter(0)
        y = f32[28,3,40] parameter(1)
        ROOT r = f32[3,36,28] dot(x, y), lhs_batch_dims={0}, rhs_batch_dims={1}, lhs_contracting_dims={1},
            rhs_contracting_dims={2}""",
    ),
    "with an epilogue": Case(
        "dot",
        """x = f32[48,40] parameter(0)
        y = f32[40,64] parameter(1)
        b = f32[64] parameter(2)
        w = f32[48,64] parameter(3)
        xt = bf16[48,40] convert(x)
        xf = f32[48,40] convert(xt)
        d = f32[48,64] dot(xf, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        bb = f32[48,64] broadcast(b), dimensions={1}
        s = f32[48,64] add(d, bb)
        t = f32[48,64] multiply(s, w)
        h = bf16[48,64] convert(t)
        ROOT r = (f32[48,64], bf16[48,64]) tuple(t, h)""",
        ("(__global ushort",),
    ),
    "convolution": convolution("2,9,10,16", "3,3,16,20", "2,9,10,20", "size=3x3 pad=1_1x1_1", "there1["),
    "convolution without a border": convolution("2,9,10,16", "3,3,16,20", "2,7,8,20", "size=3x3"),
    "convolution of few features": convolution(
        "2,9,10,3", "3,3,3,20", "2,5,5,20", "size=3x3 stride=2x2 pad=1_1x1_1", "here[k / 1]"
    ),
    "reversed and dilated": convolution(
        "2,5,6,8", "3,3,8,20", "2,11,13,20", "size=3x3 pad=2_2x2_2 lhs_dilate=2x2 rhs_reversal=1x1"
    ),
    "groups of features": convolution("2,9,10,16", "3,3,4,20", "2,9,10,20", "size=3x3 pad=1_1x1_1", groups=4),
    "a channel each": convolution("2,9,10,16", "3,3,1,16", "2,9,10,16", "size=3x3 pad=1_1x1_1", "float2", groups=16),
    "a channel each, many": convolution(  # four channels at 2 x 2 placings, of which the last are fewer
        "2,33,35,16", "3,3,1,16", "2,33,35,16", "size=3x3 pad=1_1x1_1", "sum[2][2][4]", "place2 < 35", groups=16
    ),
    "a channel each, strided and dilated": convolution(
        "3,41,40,18",
        "5,3,1,18",
        "3,17,20,18",
        "size=5x3 stride=2x2 pad=0_0x2_1 rhs_dilate=2x1",
        "sum[4][2][2]",
        groups=18,
    ),
    "a channel each, reversed, rows apart": convolution(
        "2,20,40,16",
        "3,3,1,16",
        "2,39,40,16",
        "size=3x3 pad=1_1x1_1 lhs_dilate=2x1 rhs_reversal=1x1",
        "sum[2][2][4]",
        groups=16,
    ),
    "a channel each, elements apart": convolution(
        "2,20,17,16",
        "3,3,1,16",
        "2,40,34,16",
        "size=3x3 pad=1_2x1_2 lhs_dilate=2x2 rhs_reversal=1x1",
        "sum[2][2][4]",
        groups=16,
    ),
    "a channel each, elements three apart": convolution(
        "2,20,12,16", "3,3,1,16", "2,20,34,16", "size=3x3 pad=1_1x1_1 lhs_dilate=1x3", groups=16
    ),
    "channels first": channels_first(
        "2,8,33,40", "8,1,3,3", "2,8,33,40", "size=3x3 pad=1_1x1_1", "sum[4][4][1]", "place2 < 33", "float4"
    ),
    "channels first, pairs of columns": channels_first(
        "3,9,14,14", "9,1,3,3", "3,9,14,14", "size=3x3 pad=1_1x1_1", "sum[2][2][1]", "float2"
    ),
    "channels first, odd columns": channels_first(
        "3,40,7,7", "40,1,3,3", "3,40,7,7", "size=3x3 pad=1_1x1_1", "sum[4][1]"
    ),
    "channels first, no border": channels_first("2,8,33,40", "8,1,3,3", "2,8,31,38", "size=3x3", "sum[4][2][1]"),
    "channels first, strided and dilated": channels_first(
        "2,16,40,48",
        "16,1,5,3",
        "2,16,17,24",
        "size=5x3 stride=2x2 pad=0_2x1_2 rhs_dilate=2x1",
        "sum[4][2][1]",
        "float4",
    ),
    "channels first, elements apart": channels_first(
        "2,8,20,20",
        "8,1,3,3",
        "2,8,40,40",
        "size=3x3 pad=1_2x1_2 lhs_dilate=2x2 rhs_reversal=1x1",
        "sum[4][4]",
        "float2",
    ),
    "channels first, of one dimension": channels_first(
        "2,16,256", "16,1,4", "2,16,256", "size=4 pad=3_0", "sum[1][4][1]", "float4"
    ),
    "channels first, of three dimensions": channels_first(
        "2,8,9,11,16", "8,1,3,3,2", "2,8,9,11,16", "size=3x3x2 pad=1_1x1_1x0_1", "sum[4][4][1]"
    ),
    "channels first, whole numbers": channels_first(
        "2,8,33,40", "8,1,3,3", "2,8,33,40", "size=3x3 pad=1_1x1_1", "sum[4][4][1]", of="s32"
    ),
    "channels first, the batch last": convolution(
        "9,13,8,33", "3,3,1,8", "8,9,13,33", "size=3x3 pad=1_1x1_1", "sum[4][1]", groups=8, labels="01fb_01io->f01b"
    ),
    "channels first, of halves, with an epilogue": Case(
        "convolution",
        """x = bf16[2,16,30,40] parameter(0)
        y = f32[16,1,3,3] parameter(1)
        b = f32[16] parameter(2)
        w = bf16[16,1,3,3] convert(y)
        n = bf16[2,16,30,40] negate(x)
        c = bf16[2,16,30,40] convolution(n, w), window={size=3x3 pad=1_1x1_1}, dim_labels=bf01_oi01->bf01,
            feature_group_count=16
        f = f32[2,16,30,40] convert(c)
        a = f32[2,16,30,40] broadcast(b), dimensions={1}
        s = f32[2,16,30,40] add(f, a)
        ROOT r = (f32[2,16,30,40], bf16[2,16,30,40]) tuple(s, c)""",
        ("sum[4][4][1]", "ushort4"),
    ),
    "a channel each, of halves, with an epilogue": Case(
        "convolution",
        """x = bf16[2,30,35,16] parameter(0)
        y = f32[3,3,1,16] parameter(1)
        b = f32[16] parameter(2)
        w = bf16[3,3,1,16] convert(y)
        n = bf16[2,30,35,16] negate(x)
        c = bf16[2,28,33,16] convolution(n, w), window={size=3x3}, dim_labels=b01f_01io->b01f, feature_group_count=16
        f = f32[2,28,33,16] convert(c)
        a = f32[2,28,33,16] broadcast(b), dimensions={3}
        ROOT s = f32[2,28,33,16] add(f, a)""",
        ("sum[2][2][4]", "ushort4"),
    ),
    "filter's gradient": Case(  # blocks of several elements of the window, the last of which is not full
        "convolution",
        """x = f32[4,9,9,6] parameter(0)
        y = f32[4,9,9,8] parameter(1)
        ROOT r = f32[3,3,6,8] convolution(x, y), window={size=9x9 pad=1_1x1_1}, dim_labels=f01b_i01o->01bf""",
        ("there1[", "here[1]"),
    ),
    "gradient of filters, shared out": Case(
        "convolution",
        """x = f32[6,15,16,6] parameter(0)
        y = f32[6,15,16,8] parameter(1)
        ROOT r = f32[3,3,6,8] convolution(x, y), window={size=15x16 pad=1_1x1_1}, dim_labels=f01b_i01o->01bf""",
        units=64,
        kernels=2,
    ),
    "gradient of a depthwise filter": Case(
        "convolution",
        """x = f32[6,15,16,16] parameter(0)
        y = f32[6,15,16,16] parameter(1)
        ROOT r = f32[3,3,1,16] convolution(x, y), window={size=15x16 pad=1_1x1_1}, dim_labels=f01b_i01o->01bf,
            batch_group_count=16""",
        ("g = (int)((uint)(unit) % 16u)",),  # neighbouring channels side by side
        kernels=2,
    ),
    "gradient of a depthwise filter, channels first": Case(
        "convolution",
        """x = bf16[6,5,15,16] parameter(0)
        y = bf16[6,5,15,16] parameter(1)
        b = f32[3,3] parameter(2)
        n = bf16[6,5,15,16] negate(y)
        c = bf16[1,5,3,3] convolution(x, n), window={size=15x16 pad=1_1x1_1}, dim_labels=fb01_io01->bf01,
            batch_group_count=5
        f = f32[1,5,3,3] convert(c)
        w = f32[1,5,3,3] broadcast(b), dimensions={2,3}
        ROOT r = f32[1,5,3,3] add(f, w)""",
        kernels=2,
    ),
    "pooling, channels last": pooling(
        "2,25,27,16", "2,13,14,16", "size=1x3x3x1 stride=1x2x2x1 pad=0_0x1_1x1_1x0_0", "total[1][1][4]", "float4"
    ),
    "pooling, channels last, many": pooling(
        "2,65,67,16", "2,33,34,16", "size=1x3x3x1 stride=1x2x2x1 pad=0_0x1_1x1_1x0_0", "total[1][2][4]", "float4"
    ),
    "pooling, channels first": pooling(
        "2,16,40,48", "2,16,20,24", "size=1x1x3x3 stride=1x1x2x2 pad=0_0x0_0x1_1x1_1", "total[2][4][1]", "float4"
    ),
    "pooling by adjacent windows, channels first": pooling(
        "2,16,30,64", "2,16,15,32", "size=1x1x2x2 stride=1x1x2x2", "total[1][2][1]", "float4"
    ),
    "pooling, odd columns": pooling(
        "3,40,15,15", "3,40,8,8", "size=1x1x3x3 stride=1x1x2x2 pad=0_0x0_0x1_1x1_1", "total[4][1][1]"
    ),
    "pooling of an image whose columns lie side by side, channels last": Case(
        "reduce-window",
        """x = f32[5,9,26,24] parameter(0)
        low = f32[] constant(-inf)
        t = f32[5,26,24,9] transpose(x), dimensions={0,2,3,1}
        ROOT r = f32[5,26,24,9] reduce-window(t, low), window={size=1x3x3x1 pad=0_0x1_1x1_1x0_0}, to_apply=max""",
        ("total[2][4][1]", "float4"),
    ),
    "sums of windows": pooling(
        "2,16,33,40",
        "2,16,33,40",
        "size=1x1x3x3 pad=0_0x0_0x1_1x1_1",
        "total[2][4][1]",
        by="add",
        start="0.5",
    ),
    "sums of windows with gaps": pooling(
        "2,20,20,16",
        "2,38,38,16",
        "size=1x3x3x1 pad=0_0x1_1x1_1x0_0 lhs_dilate=1x2x2x1 rhs_dilate=1x1x1x1",
        "total[2][2][2]",
        by="add",
        start="0",
    ),
    "sums of halves in windows of three dimensions": pooling(
        "2,6,19,20,8",
        "2,5,19,20,8",
        "size=1x2x3x3x1 pad=0_0x0_0x1_1x1_1x0_0",
        "ushort4",
        of="bf16",
        by="addbf",
        start="0",
    ),
    "sums of windows of one dimension": pooling(
        "32,512", "32,256", "size=1x5 stride=1x2 pad=0_0x2_1", "total[1][4][1]", by="add", start="0"
    ),
    "pooling, with an epilogue": Case(
        "reduce-window",
        """x = f32[2,16,33,40] parameter(0)
        y = f32[2,16,33,40] parameter(1)
        z = f32[] constant(0)
        p = f32[2,16,33,40] multiply(x, y)
        s = f32[2,16,33,40] reduce-window(p, z), window={size=1x1x3x3 pad=0_0x0_0x1_1x1_1}, to_apply=add
        n = f32[] constant(9)
        b = f32[2,16,33,40] broadcast(n), dimensions={}
        d = f32[2,16,33,40] divide(s, b)
        h = bf16[2,16,33,40] convert(d)
        ROOT r = (f32[2,16,33,40], bf16[2,16,33,40]) tuple(d, h)""",
        ("total[2][4][1]", "ushort4"),
    ),
    "gradient of pooling, channels last": select_and_scatter(
        "2,21,23,16", "2,11,12,16", "size=1x3x3x1 stride=1x2x2x1 pad=0_0x1_1x1_1x0_0", "best[1][1][4]", "float4"
    ),
    "gradient of pooling, channels first": select_and_scatter(
        "2,16,30,40", "2,16,15,20", "size=1x1x3x3 stride=1x1x2x2 pad=0_0x0_0x1_1x1_1", "best[2][4][1]", "float4"
    ),
    "gradient of pooling, each element a placing": select_and_scatter(
        "3,16,17,15", "3,16,17,15", "size=1x1x2x3 pad=0_0x0_0x1_0x1_1", "best["
    ),
    "gradient of pooling, halves, windows in the border": select_and_scatter(
        "2,35,16", "2,20,16", "size=1x3x1 stride=1x2x1 pad=0_0x4_2x0_0", "best[", of="bf16", suffix="bf"
    ),
    "gradient of pooling, many placings around an element": select_and_scatter(
        "2,14,15,8", "2,14,15,8", "size=1x5x5x1 pad=0_0x2_2x2_2x0_0", "best[", " < 5; ++t"
    ),
    "gradient of pooling, large windows": select_and_scatter(
        "2,15,16,8",
        "2,9,6,8",
        "size=1x9x9x1 stride=1x1x2x1 pad=0_0x1_1x2_2x0_0",
        "k < 8",
        "== unit",
        kernels=5,
    ),
    "gradient of pooling, windows of hundreds, halves": select_and_scatter(
        "3,30,31", "3,11,8", "size=1x20x17 stride=1x1x2", "k < 3", of="bf16", suffix="bf", kernels=5
    ),
    "gradient of pooling, large windows that do not overlap": select_and_scatter(
        "2,30,26,3", "2,3,3,3", "size=1x10x10x1 stride=1x10x10x1 pad=0_0x0_0x3_1x0_0", "k < 8", kernels=5
    ),
    "gradient of pooling, very many placings around an element": select_and_scatter(
        "3,30,31", "3,13,15", "size=1x20x17 pad=0_0x1_1x0_0", "key", kernels=7
    ),
    "gradient of pooling, very many placings, halves": select_and_scatter(
        "700", "302", "size=400 pad=1_0", "key", of="bf16", suffix="bf", kernels=8, grouped=False
    ),
    "gradient of pooling, large windows, no order": select_and_scatter(
        "2,15,16,8",
        "2,9,6,8",
        "size=1x9x9x1 stride=1x1x2x1 pad=0_0x1_1x2_2x0_0",
        "place == 255",
        " < 9; ++k",
        by="nearly_ge",
    ),
    "gradient of pooling, with producers": Case(
        "select-and-scatter",
        """x = f32[2,21,23,8] parameter(0)
        y = f32[2,11,12,8] parameter(1)
        z = f32[] constant(0)
        n = f32[2,21,23,8] negate(x)
        m = f32[2,11,12,8] multiply(y, y)
        ROOT r = f32[2,21,23,8] select-and-scatter(n, m, z), window={size=1x3x3x1 stride=1x2x2x1 pad=0_0x1_1x1_1x0_0},
            select=ge, scatter=add""",
        kernels=2,
    ),
    "gradient of pooling by adjacent windows": Case(
        "select-and-scatter",
        """x = f32[2,20,22,8] parameter(0)
        s = f32[2,10,11,8] parameter(1)
        z = f32[] constant(0)
        ROOT r = f32[2,20,22,8] select-and-scatter(x, s, z), window={size=1x2x2x1 stride=1x2x2x1}, select=ge,
            scatter=add""",
    ),
    "cumulative columns": Case(
        "reduce-window",
        """x = f32[70,300] parameter(0)
        z = f32[] constant(0)
        ROOT r = f32[70,300] reduce-window(x, z), window={size=70x1 pad=69_0x0_0}, to_apply=add""",
    ),
    "cumulative rows": Case(
        "reduce-window",
        """x = f32[37,150] parameter(0)
        y = f32[37,150] parameter(1)
        z = f32[] constant(0)
        p = f32[37,150] multiply(x, y)
        s = f32[37,150] reduce-window(p, z), window={size=1x150 pad=0_0x0_149}, to_apply=add
        ROOT r = f32[37,150] subtract(s, x)""",
        ("barrier(CLK_LOCAL_MEM_FENCE)",),
    ),
    "long cumulative columns": Case(
        "reduce-window",
        """x = f32[700,1025] parameter(0)
        z = f32[] constant(0.5)
        ROOT r = f32[700,1025] reduce-window(x, z), window={size=700x1 pad=0_699x0_0}, to_apply=add""",
        ("first += 256",),
        small=False,
    ),
    "long cumulative columns, few": Case(
        "reduce-window",
        """x = f32[2,700,3] parameter(0)
        y = f32[700,3] parameter(1)
        w = f32[] parameter(2)
        b = f32[2,700,3] broadcast(y), dimensions={1,2}
        p = f32[2,700,3] multiply(x, b)
        s = f32[2,700,3] reduce-window(p, w), window={size=1x700x1 pad=0_0x0_699x0_0}, to_apply=add
        ROOT r = f32[2,700,3] subtract(s, x)""",
        ("first = segment * 256",),
        kernels=2,
    ),
    "long cumulative columns of halves": Case(
        "reduce-window",
        """x = bf16[1300,9] parameter(0)
        z = bf16[] constant(0)
        ROOT r = bf16[1300,9] reduce-window(x, z), window={size=1300x1 pad=1299_0x0_0}, to_apply=addbf""",
        ("first = segment * 256",),
        kernels=2,
    ),
    "long cumulative columns of counts": Case(
        "reduce-window",
        """x = s32[1300,9] parameter(0)
        z = s32[] constant(7)
        ROOT r = s32[1300,9] reduce-window(x, z), window={size=1300x1 pad=1299_0x0_0}, to_apply=count""",
        ("first = segment * 256",),
        kernels=2,
    ),
    "long columns of the largest so far": Case(
        "reduce-window",
        """x = f32[1300,9] parameter(0)
        z = f32[] constant(-inf)
        ROOT r = f32[1300,9] reduce-window(x, z), window={size=1300x1 pad=1299_0x0_0}, to_apply=max""",
        ("first = segment * 256",),
        kernels=2,
    ),
    "long cumulative products of few columns": Case(
        "reduce-window",
        """x = f32[700,3] parameter(0)
        w = f32[] parameter(1)
        p = f32[700,3] reduce-window(x, w), window={size=700x1 pad=699_0x0_0}, to_apply=times
        ROOT r = f32[700,3] subtract(p, x)""",
        ("k % 4", "c + 8 <= count"),
    ),
    "long cumulative products of columns, backward": Case(
        "reduce-window",
        """x = bf16[2,600,5] parameter(0)
        w = bf16[] parameter(1)
        ROOT p = bf16[2,600,5] reduce-window(x, w), window={size=1x600x1 pad=0_0x0_599x0_0}, to_apply=timesbf""",
        ("k % 16", "c + 8 <= count"),
    ),
    "long columns of the first largest so far": Case(
        "reduce-window",
        """x = f32[700,3] parameter(0)
        n = s32[700,3] parameter(1)
        low = f32[] constant(-inf)
        i = s32[] constant(-1)
        p = (f32[700,3], s32[700,3]) reduce-window(x, n, low, i), window={size=700x1 pad=699_0x0_0}, to_apply=first
        v = f32[700,3] get-tuple-element(p), index=0
        m = s32[700,3] get-tuple-element(p), index=1
        ROOT r = (f32[700,3], s32[700,3]) tuple(v, m)""",
        ("k % 4", "tile1"),
    ),
    "long cumulative rows": Case(
        "reduce-window",
        """x = f32[37,900] parameter(0)
        z = f32[] constant(0.5)
        ROOT r = f32[37,900] reduce-window(x, z), window={size=1x900 pad=0_0x899_0}, to_apply=add""",
        ("begin % 256 == 0",),
    ),
    "long cumulative rows, few": Case(
        "reduce-window",
        """x = f32[3,900] parameter(0)
        y = f32[900] parameter(1)
        w = f32[] parameter(2)
        b = f32[3,900] broadcast(y), dimensions={1}
        p = f32[3,900] multiply(x, b)
        s = f32[3,900] reduce-window(p, w), window={size=1x900 pad=0_0x0_899}, to_apply=add
        ROOT r = f32[3,900] subtract(s, x)""",
        ("n = number % 4 * 256",),
        kernels=2,
    ),
    "long cumulative rows of halves, few": Case(
        "reduce-window",
        """x = bf16[2,3,1300] parameter(0)
        z = bf16[] constant(0)
        ROOT r = bf16[2,3,1300] reduce-window(x, z), window={size=1x1x1300 pad=0_0x0_0x1299_0}, to_apply=addbf""",
        ("segment = own % 6",),
        kernels=2,
    ),
    "long rows of the largest so far": Case(
        "reduce-window",
        """x = f32[1300] parameter(0)
        z = f32[] constant(-inf)
        ROOT r = f32[1300] reduce-window(x, z), window={size=1300 pad=1299_0}, to_apply=max""",
        ("segment = own % 6",),
        kernels=2,
    ),
    "cumulative halves": Case(
        "reduce-window",
        """x = bf16[500] parameter(0)
        z = bf16[] constant(0)
        ROOT r = bf16[500] reduce-window(x, z), window={size=500 pad=499_0}, to_apply=addbf""",
    ),
    "sort": Case(
        "sort",
        "x = f32[3,700] parameter(0)\nROOT r = f32[3,700] sort(x), dimensions={1}, to_apply=less",
        ("barrier(CLK_LOCAL_MEM_FENCE)",),
    ),
    "sort of many by wide keys": Case(
        "sort",
        "x = f64[1100000] parameter(0)\nROOT r = f64[1100000] sort(x), dimensions={0}, to_apply=less64",
        "own0 += 1ul",
        kernels=24,
        small=False,
    ),
    "sort by merges": Case(
        "sort",
        "x = f64[3000] parameter(0)\nROOT r = f64[3000] sort(x), dimensions={0}, to_apply=less64",
        "while (low < high)",
        kernels=5,
    ),
    **{
        f"sort of elements by digits{what}": Case(
            "sort",
            f"""x = bf16[2,4200] parameter(0)
            i = s16[2,4200] {numbers}
            s = (bf16[2,4200], s16[2,4200]) sort(x, i), dimensions={{1}}, to_apply=first_of_two
            v = bf16[2,4200] get-tuple-element(s), index=0
            n = s16[2,4200] get-tuple-element(s), index=1
            ROOT r = (bf16[2,4200], s16[2,4200]) tuple(v, n)""",
            "own0 += 1ul",
            kernels=4,
        )
        for what, numbers in (("", "parameter(1)"), (" with their numbers", "iota(), iota_dimension=1"))
    },
    **{
        f"sort by digits{what}": Case(
            "sort",
            f"""k = s8[2,4100] parameter(0)
            y = f32[2,4100] parameter(1)
            i = s32[2,4100] {numbers}
            s = (s8[2,4100], f32[2,4100], s32[2,4100]) sort(k, y, i), dimensions={{1}}, to_apply=first_key
            v = s8[2,4100] get-tuple-element(s), index=0
            w = f32[2,4100] get-tuple-element(s), index=1
            n = s32[2,4100] get-tuple-element(s), index=2
            ROOT r = (s8[2,4100], f32[2,4100], s32[2,4100]) tuple(v, w, n)""",
            "own0 += 1ul",
            kernels=2,
        )
        for what, numbers in (("", "parameter(2)"), (" with the numbers of elements", "iota(), iota_dimension=1"))
    },
    "sort of many by two keys, by digits": Case(
        "sort",
        """k = s8[300000] parameter(0)
        y = f32[300000] parameter(1)
        i = s32[300000] parameter(2)
        s = (s8[300000], f32[300000], s32[300000]) sort(k, y, i), dimensions={0}, to_apply=two
        v = s8[300000] get-tuple-element(s), index=0
        w = f32[300000] get-tuple-element(s), index=1
        n = s32[300000] get-tuple-element(s), index=2
        ROOT r = (s8[300000], f32[300000], s32[300000]) tuple(v, w, n)""",
        "own0 += 1ul",
        kernels=15,
        small=False,
    ),
    "histogram of many": Case(
        "scatter",
        """x = f32[50] parameter(0)
        i = s32[5000,1] parameter(1)
        u = f32[5000] parameter(2)
        ROOT r = f32[50] scatter(x, i, u), update_window_dims={}, inserted_window_dims={0},
            scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add""",
        "own0 += 1ul",
        kernels=3,
    ),
    "segment sums of many": Case(
        "scatter",
        """x = bf16[7,40] parameter(0)
        n = s8[700,1] parameter(1)
        h = s8[] constant(9)
        b = s8[700,1] broadcast(h), dimensions={}
        i = s8[700,1] remainder(n, b)
        u = bf16[700,40] parameter(2)
        ROOT r = bf16[7,40] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0},
            scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=addbf""",
        "row == 0 && live",
        kernels=4,
        grouped=False,
    ),
    "updates of several columns": Case(
        "scatter",
        """x = f32[60,12] parameter(0)
        i = s8[500,1] parameter(1)
        u = f32[500,12] parameter(2)
        ROOT r = f32[60,12] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0},
            scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add""",
        "total0[4]",
        kernels=2,
    ),
    "sort of short columns": Case(
        "sort",
        "x = f32[13,50] parameter(0)\nROOT r = f32[13,50] sort(x), dimensions={0}, to_apply=less",
    ),
    "sort of rows by a comparator without keys": Case(
        "sort",
        """k = s8[9,40] parameter(0)
        y = f32[9,40] parameter(1)
        s = (s8[9,40], f32[9,40]) sort(k, y), dimensions={1}, to_apply=chosen
        v = s8[9,40] get-tuple-element(s), index=0
        w = f32[9,40] get-tuple-element(s), index=1
        ROOT r = (s8[9,40], f32[9,40]) tuple(v, w)""",
        ("while (u1 - u0 > 1)",),
    ),
    "sort of wide elements by a comparator without keys": Case(
        "sort",
        """a = c128[600] parameter(0)
        b = c128[600] parameter(1)
        c = c128[600] parameter(2)
        d = c128[600] parameter(3)
        s = (c128[600], c128[600], c128[600], c128[600]) sort(a, b, c, d), dimensions={0}, to_apply=real
        ROOT r = c128[600] get-tuple-element(s), index=1""",
        kernels=3,
    ),
    "sort by two keys": Case(
        "sort",
        """k = s8[1,300] parameter(0)
        y = f32[1,300] parameter(1)
        i = s32[1,300] parameter(2)
        s = (s8[1,300], f32[1,300], s32[1,300]) sort(k, y, i), dimensions={1}, to_apply=two
        a = f32[1,300] get-tuple-element(s), index=1
        ROOT r = s32[1,300] get-tuple-element(s), index=2""",
        kernels=2,
    ),
    "scatter": Case(
        "scatter",
        """x = f32[20,24] parameter(0)
        i = s32[40,1] iota(), iota_dimension=0
        s = s32[] constant(17)
        sb = s32[40,1] broadcast(s), dimensions={}
        n = s32[40,1] remainder(i, sb)
        u = f32[40,24] parameter(1)
        ROOT r = f32[20,24] scatter(x, n, u), update_window_dims={1}, inserted_window_dims={0},
            scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add""",
        kernels=2,
    ),
    "histogram": Case(
        "scatter",
        """x = s32[11] parameter(0)
        n = s8[600] parameter(1)
        one = s32[] constant(1)
        u = s32[600] broadcast(one), dimensions={}
        ROOT r = s32[11] scatter(x, n, u), update_window_dims={}, inserted_window_dims={0},
            scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=count""",
        kernels=2,
    ),
    "scatter of blocks that overlap": Case(
        "scatter",
        """x = f32[20] parameter(0)
        n = s8[40,1] parameter(1)
        u = f32[40,3] parameter(2)
        ROOT r = f32[20] scatter(x, n, u), update_window_dims={1}, inserted_window_dims={},
            scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add""",
        kernels=2,
    ),
    "scatter of blocks that overlap in two dimensions, their elements before their numbers": Case(
        "scatter",
        """x = f32[9,4,14] parameter(0)
        n = s8[20,2] parameter(1)
        h = s8[] constant(21)
        hb = s8[20,2] broadcast(h), dimensions={}
        m = s8[20,2] divide(n, hb)
        u = f32[3,4,20,5] parameter(2)
        ROOT r = f32[9,4,14] scatter(x, m, u), update_window_dims={0,1,3}, inserted_window_dims={},
            scatter_dims_to_operand_dims={2,0}, index_vector_dim=1, to_apply=add""",
        kernels=2,
    ),
    "scatter of one block": Case(
        "scatter",
        """x = f32[20,40] parameter(0)
        n = s8[2] parameter(1)
        u = f32[2,30] parameter(2)
        ROOT r = f32[20,40] scatter(x, n, u), update_window_dims={0,1}, inserted_window_dims={},
            scatter_dims_to_operand_dims={0,1}, index_vector_dim=0, to_apply=add""",
    ),
    "scatter of blocks that are promised to differ": Case(
        "scatter",
        """x = f32[64,24] parameter(0)
        i = s32[40,1] iota(), iota_dimension=0
        u = f32[40,24] parameter(1)
        ROOT r = f32[64,24] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0},
            scatter_dims_to_operand_dims={0}, index_vector_dim=1, unique_indices=true, to_apply=add""",
    ),
    "scatter of halves": Case(
        "scatter",
        """x = bf16[5,20] parameter(0)
        n = s8[64,1] parameter(1)
        u = bf16[64,5] parameter(2)
        ROOT r = bf16[5,20] scatter(x, n, u), update_window_dims={1}, inserted_window_dims={1},
            scatter_dims_to_operand_dims={1}, index_vector_dim=1, to_apply=addbf""",
        kernels=4,
        grouped=False,
    ),
    "rows that are contiguous across": reduction(
        """x = f32[3,12,70] parameter(0)
        y = f32[3,70,12] parameter(1)
        t = f32[3,12,70] transpose(y), dimensions={0,2,1}
        a = f32[3,12,70] add(x, t)
        z = f32[] constant(0)
        ROOT r = f32[3,12] reduce(a, z), dimensions={2}, to_apply=add""",
        "const int lane = item / 8",
    ),
    "softmax of rows that are contiguous across": reduction(
        """y = f32[2,45,17] parameter(0)
        x = f32[2,17,45] transpose(y), dimensions={0,2,1}
        low = f32[] constant(-inf)
        z = f32[] constant(0)
        m = f32[2,17] reduce(x, low), dimensions={2}, to_apply=max
        mb = f32[2,17,45] broadcast(m), dimensions={0,1}
        d = f32[2,17,45] subtract(x, mb)
        e = f32[2,17,45] exponential(d)
        s = f32[2,17] reduce(e, z), dimensions={2}, to_apply=add
        sb = f32[2,17,45] broadcast(s), dimensions={0,1}
        ROOT r = f32[2,17,45] divide(e, sb)""",
        "const int lane = item / 8",
        "[item - lane * 8]",
    ),
    "short columns read again": reduction(
        """x = f32[9,40] parameter(0)
        z = f32[] constant(0)
        s = f32[40] reduce(x, z), dimensions={0}, to_apply=add
        b = f32[9,40] broadcast(s), dimensions={1}
        ROOT r = f32[9,40] subtract(x, b)""",
    ),
    "a transform of rows": transform("FFT", "c64[9,512]", "c64[9,512]", "512", "from[(e + 64)", "to[(e + 3 * 64)"),
    "a transform of few numbers": transform("IFFT", "c64[70,2,3]", "c64[70,2,3]", "2,3", kernels=2),
    "a transform of columns": transform("IFFT", "c128[2,35,5]", "c128[2,35,5]", "35,5", kernels=2),
    "a transform in two stages": transform("FFT", "c64[2,256]", "c64[2,256]", "256", "const int l", kernels=2),
    "a real transform": transform("RFFT", "f32[9,5,14]", "c64[9,5,8]", "5,14", "if (k != h - k)", kernels=2),
    "real rows in two stages": transform("IRFFT", "c64[1,257]", "f32[1,512]", "512", kernels=3),
    "a large radix": transform("FFT", "c64[9,38]", "c64[9,38]", "38", "if (k == 0)"),
    "a convolution": transform("FFT", "c64[8,131]", "c64[8,131]", "131", "x[(e + 131)"),
    "a transform in scratch memory": transform(
        "IFFT", "c64[2,2304,2]", "c64[2,2304,2]", "2304,2", "CLK_GLOBAL_MEM_FENCE", kernels=2, small=False
    ),
}


def made(name: str, target: Target, platform: str) -> tuple[Compiled, list[np.ndarray]]:
    """A case compiled, and its arguments."""
    case = CASES[name]
    fusion = fusion_of(parse(f"HloModule m\n{REDUCERS}\nENTRY main {{\n{case.lines}\n}}"), case.kind)
    parameters = [i for i in fusion.inputs if i.opcode == "parameter"]
    args = [random_array(i.shape.element_type.name, i.shape.dimensions) for i in parameters]
    args = [np.int32(3) if a.shape == () and a.dtype == np.int32 else a for a in args]
    return Compiled(fusion, target, platform), args


@pytest.mark.parametrize("name", CASES)
def test_a_gpu_kernel_has_the_bits_of_the_cpu(name, capfd):
    """On PoCL, and where it is small, in Oclgrind, which reports nothing."""
    gpu, args = made(name, CASES[name].target, POCL)
    assert len(gpu.kernels) == CASES[name].kernels
    for kernel in gpu.kernels if CASES[name].grouped else ():
        assert kernel.work_group in (128, 256) and kernel.items % kernel.work_group == 0
    for words in CASES[name].holds:
        assert words in text_of(gpu)
    wanted = Compiled(gpu.fusion)(*args)
    for got, want in zip(gpu(*args), wanted, strict=True):
        assert got.tobytes() == want.tobytes()
    if CASES[name].small:
        checked = Compiled(gpu.fusion, CASES[name].target, OCLGRIND)
        capfd.readouterr()
        for got, want in zip(checked(*args), wanted, strict=True):
            assert got.tobytes() == want.tobytes()
        assert not reports(capfd.readouterr().err, checked)


INFINITE = {  # where the left side has no element, an infinite element of the right one is left out
    "elements of a window": "x = f32[2,9,10,16] parameter(0)\ny = f32[3,3,16,20] parameter(1)\nROOT r = f32[2,9,10,20] "
    "convolution(x, y), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f",
    "single terms": "x = f32[2,9,10,3] parameter(0)\ny = f32[3,3,3,20] parameter(1)\nROOT r = f32[2,9,10,20] "
    "convolution(x, y), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f",
}


@pytest.mark.parametrize("tables", [True, False])
@pytest.mark.parametrize("name", INFINITE)
def test_terms_in_the_border_are_left_out(name, tables, monkeypatch):
    """Finite elements in the interior have infinite sums, those whose window has no infinite element finite ones."""
    if not tables:
        monkeypatch.setattr(term_masks, "MOST_TABLE_BYTES", 0)
    gpu = Compiled(fusion_of(parse(f"HloModule m\nENTRY main {{\n{INFINITE[name]}\n}}"), "convolution"), GPU, POCL)
    assert ("there0" in text_of(gpu)) == (tables and name == "elements of a window")
    x, y = (np.abs(random_array("f32", i.shape.dimensions)) for i in gpu.fusion.inputs)
    y[0] = np.inf
    (got,), (want,) = gpu(x, y), Compiled(gpu.fusion)(x, y)
    assert got.tobytes() == want.tobytes()
    assert np.isfinite(got[:, 0]).all() and np.isinf(got[:, 1:]).all()


SELECTED = "x = f32[2,300] parameter(0)\ns = f32[2,205] parameter(1)\nz = f32[] constant(0)\nROOT r = f32[2,300] "
SELECTED += "select-and-scatter(x, s, z), window={size=1x100 pad=0_0x3_1}, select=by, scatter=add"


@pytest.mark.parametrize("order", ["PARTIAL", "TOTAL"])
@pytest.mark.parametrize("by", ["a, b), direction=GE", "a, b), direction=GT", "b, a), direction=LE"])
def test_a_large_window_selects_among_equal_elements_and_nans_as_on_the_cpu(by, order):
    """All values are small integers, zeros of both signs and NaNs: each window has many of each."""
    select = f"by {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = pred[] compare({by}, order={order} }}"
    fusion = fusion_of(parse(f"HloModule m\n{REDUCERS}\n{select}\nENTRY main {{\n{SELECTED}\n}}"), "select-and-scatter")
    rng = np.random.default_rng(7)
    x = rng.choice(np.float32([-2, -1, -0.0, 0.0, 1, 2]), (2, 300))
    x[0, rng.choice(300, 20, replace=False)] = np.nan
    x[0, 250:] = np.nan  # windows of nothing else
    args = x, rng.standard_normal((2, 205), np.float32)
    gpu = Compiled(fusion, Case("select-and-scatter", "").target, POCL)
    assert len(gpu.kernels) == 4
    assert gpu(*args)[0].tobytes() == Compiled(fusion)(*args)[0].tobytes()


def test_a_comparator_that_is_no_order_loses_no_element():
    case = """k = s8[2,2500] parameter(0)
        n = s32[2,2500] parameter(1)
        s = (s8[2,2500], s32[2,2500]) sort(k, n), dimensions={1}, to_apply=product
        v = s8[2,2500] get-tuple-element(s), index=0
        w = s32[2,2500] get-tuple-element(s), index=1
        ROOT r = (s8[2,2500], s32[2,2500]) tuple(v, w)"""
    fusion = fusion_of(parse(f"HloModule m\n{REDUCERS}\nENTRY main {{\n{case}\n}}"), "sort")
    numbers = np.tile(np.arange(2500, dtype=np.int32), (2, 1))
    keys = random_array("s8", (2, 2500))
    sorted_keys, sorted_numbers = Compiled(fusion, Case("sort", "").target, POCL)(keys, numbers)
    assert (np.sort(sorted_numbers, axis=1) == numbers).all()
    assert (np.take_along_axis(keys, sorted_numbers, axis=1) == sorted_keys).all()


def _fusion(lines: str):
    return fusion_of(parse(f"HloModule m\nENTRY main {{\n{lines}\n}}"))


def test_numbers_that_a_device_does_not_have_are_refused():
    fusion = _fusion("x = f64[8] parameter(0)\nROOT r = f64[8] negate(x)")
    with pytest.raises(UnsupportedError, match="x: the device has no f64; compute in f32 or c64, or choose another"):
        emit(fusion, replace(GPU, fp64=False))


def test_arrays_for_which_a_launch_has_too_few_items_are_refused():
    size = 1 << 34
    with pytest.raises(UnsupportedError, match=f"r: {size // 4} work items are more than a launch has"):
        emit(_fusion(f"x = f32[{size}] parameter(0)\nROOT r = f32[{size}] negate(x)"), GPU)


def test_long_positions_are_long():
    size = 3 << 30
    (kernel,) = emit(
        _fusion(f"x = f32[{size + 1}] parameter(0)\nROOT r = f32[{size}] slice(x), slice={{[1:{size + 1}]}}"), GPU
    )
    assert "const long n" in kernel.body and "(long)" in kernel.body
