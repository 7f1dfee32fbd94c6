"""Programs with dynamic shapes, each operation among them, and arguments of any size for them."""

from __future__ import annotations

import numpy as np
from refxla_spec.text import parse

REDUCERS = "".join(
    f"""{name} {{ a = {t}[] parameter(0)
                  b = {t}[] parameter(1)
                  ROOT c = {t}[] {op}(a, b) }}
"""
    for name, op, t in (
        ("add", "add", "f32"),
        ("add_s32", "add", "s32"),
        ("max", "maximum", "f32"),
        ("multiply", "multiply", "s32"),
        ("both", "and", "pred"),
    )
) + "".join(
    f"""{name} {{ a = {t}[] parameter(0)
                  b = {t}[] parameter(1)
                  ROOT c = pred[] compare(a, b), direction={d} }}
"""
    for name, d, t in (("ge", "GE", "f32"), ("le", "LE", "f32"), ("less", "LT", "f32"), ("less_s32", "LT", "s32"))
)

REDUCERS += """am { a = f32[] parameter(0)
     i = s32[] parameter(1)
     b = f32[] parameter(2)
     j = s32[] parameter(3)
     g = pred[] compare(a, b), direction=GE
     v = f32[] select(g, a, b)
     k = s32[] select(g, i, j)
     ROOT r = (f32[], s32[]) tuple(v, k) }
by_key { a = s32[] parameter(0)
         b = s32[] parameter(1)
         c = f32[] parameter(2)
         d = f32[] parameter(3)
         ROOT r = pred[] compare(a, b), direction=LT }
"""

# name: lines of the entry
ENTRIES: dict[str, str] = {
    "elementwise": """x = f32[<=5,3] parameter(0)
        y = f32[5,3] parameter(1)
        s = f32[<=5,3] add(x, y)
        t = f32[<=5,3] multiply(s, x)
        p = pred[<=5,3] compare(t, y), direction=GT
        ROOT r = f32[<=5,3] select(p, s, t)""",
    "broadcast": """x = f32[<=4] parameter(0)
        ROOT r = f32[3,<=4,2] broadcast(x), dimensions={1}""",
    "two_dimensions": """x = f32[<=4,<=5] parameter(0)
        t = f32[<=5,<=4] transpose(x), dimensions={1,0}
        n = s32[] get-dimension-size(t), dimensions={0}
        m = s32[] get-dimension-size(t), dimensions={1}
        u = f32[<=5,<=4] negate(t)
        ROOT r = (f32[<=5,<=4], s32[], s32[]) tuple(u, n, m)""",
    "reverse": """x = s32[<=4,<=3] parameter(0)
        ROOT r = s32[<=4,<=3] reverse(x), dimensions={0,1}""",
    "slice": """x = s32[<=6,<=5] parameter(0)
        ROOT r = s32[<=3,<=2] slice(x), slice={[1:6:2], [3:5]}""",
    "pad": """x = s32[<=4,<=3] parameter(0)
        v = s32[] constant(-7)
        ROOT r = s32[<=7,<=8] pad(x, v), padding=1_2x1_2_1""",
    "pad_crops": """x = s32[<=5,2] parameter(0)
        v = s32[] constant(-7)
        ROOT r = s32[<=3,2] pad(x, v), padding=-3_1x0_0""",
    "concatenate": """x = s32[<=4,2] parameter(0)
        y = s32[<=3,2] parameter(1)
        z = s32[2,2] parameter(2)
        ROOT r = s32[<=9,2] concatenate(x, y, z), dimensions={0}""",
    "concatenate_across": """x = s32[<=4,<=3] parameter(0)
        y = s32[4,<=2] parameter(1)
        ROOT r = s32[<=4,<=5] concatenate(x, y), dimensions={1}""",
    "concatenate_twice": """x = f32[<=4] parameter(0)
        y = f32[<=8] concatenate(x, x), dimensions={0}
        z = f32[] constant(0)
        s = f32[] reduce(y, z), dimensions={0}, to_apply=add
        ROOT r = (f32[<=8], f32[]) tuple(y, s)""",
    "reshape_merges_major": """x = s32[<=4,3] parameter(0)
        ROOT r = s32[<=12] reshape(x)""",
    "reshape_merges_minor": """x = s32[3,<=4] parameter(0)
        ROOT r = s32[<=12] reshape(x)""",
    "reshape_merges_both": """x = s32[<=3,<=4,2] parameter(0)
        y = s32[<=24] reshape(x)
        n = s32[] get-dimension-size(y), dimensions={0}
        ROOT r = (s32[<=24], s32[]) tuple(y, n)""",
    "reshape_and_back": """x = s32[2,<=3,<=2] parameter(0)
        y = s32[2,<=6] reshape(x)
        z = s32[<=6,2] transpose(y), dimensions={1,0}
        ROOT r = s32[<=6,1,2] reshape(z)""",
    "reduce_rows": """x = f32[<=6,<=4] parameter(0)
        z = f32[] constant(0)
        ROOT r = f32[<=6] reduce(x, z), dimensions={1}, to_apply=add""",
    "reduce_with_start": """x = f32[<=6,3] parameter(0)
        z = f32[] constant(2.5)
        ROOT r = f32[3] reduce(x, z), dimensions={0}, to_apply=max""",
    "reduce_product": """x = s32[<=6] parameter(0)
        z = s32[] constant(1)
        ROOT r = s32[] reduce(x, z), dimensions={0}, to_apply=multiply""",
    "mean": """x = f32[<=6] parameter(0)
        z = f32[] constant(0)
        s = f32[] reduce(x, z), dimensions={0}, to_apply=add
        n = s32[] get-dimension-size(x), dimensions={0}
        m = f32[] convert(n)
        e = f32[] divide(s, m)
        b = f32[<=6] broadcast(e), dimensions={}
        ROOT r = f32[<=6] subtract(x, b)""",
    "dot": """x = f32[<=4,<=5] parameter(0)
        y = f32[<=5,3] parameter(1)
        ROOT r = f32[<=4,3] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}""",
    "dot_meets_bound": """x = s32[2,<=5] parameter(0)
        y = s32[5,<=3] parameter(1)
        ROOT r = s32[2,<=3] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}""",
    "dot_batch": """x = f32[<=3,2,<=4] parameter(0)
        y = f32[3,<=4,2] parameter(1)
        ROOT r = f32[<=3,2,2] dot(x, y), lhs_batch_dims={0}, rhs_batch_dims={0},
          lhs_contracting_dims={2}, rhs_contracting_dims={1}""",
    "convolution": """x = f32[<=2,<=6,3] parameter(0)
        k = f32[3,3,2] parameter(1)
        ROOT r = f32[<=2,<=6,2] convolution(x, k), window={size=3 pad=1_1}, dim_labels=b0f_0io->b0f""",
    "convolution_strides": """x = f32[2,<=9,1] parameter(0)
        k = f32[2,1,2] parameter(1)
        ROOT r = f32[2,<=9,2] convolution(x, k), window={size=2 stride=2 lhs_dilate=2 pad=0_1 rhs_reversal=1},
          dim_labels=b0f_0io->b0f""",
    "reduce_window": """x = f32[<=6,3] parameter(0)
        z = f32[] constant(0)
        ROOT r = f32[<=5,2] reduce-window(x, z), window={size=2x2}, to_apply=add""",
    "reduce_window_pads": """x = s32[<=7] parameter(0)
        z = s32[] constant(0)
        ROOT r = s32[<=4] reduce-window(x, z), window={size=3 stride=2 pad=1_1}, to_apply=add_s32""",
    "reduce_window_dilates": """x = f32[<=5,<=4] parameter(0)
        z = f32[] constant(-inf)
        ROOT r = f32[<=7,<=2] reduce-window(x, z), window={size=3x2 pad=0_0x0_0 lhs_dilate=2x1 rhs_dilate=1x2},
          to_apply=max""",
    "cumulative_sum": """x = f32[<=6] parameter(0)
        z = f32[] constant(0)
        ROOT r = f32[<=6] reduce-window(x, z), window={size=6 pad=5_0}, to_apply=add""",
    "select_and_scatter": """x = f32[<=6,2] parameter(0)
        s = f32[<=3,2] parameter(1)
        z = f32[] constant(0)
        ROOT r = f32[<=6,2] select-and-scatter(x, s, z), window={size=2x1 stride=2x1}, select=ge, scatter=add""",
    "dynamic_slice": """x = s32[<=5,4] parameter(0)
        i = s32[] parameter(1)
        z = s32[] constant(0)
        ROOT r = s32[<=5,2] dynamic-slice(x, z, i), dynamic_slice_sizes={5,2}""",
    "dynamic_update_slice": """x = s32[<=5,4] parameter(0)
        u = s32[1,4] parameter(1)
        i = s32[] parameter(2)
        z = s32[] constant(0)
        ROOT r = s32[<=5,4] dynamic-update-slice(x, u, i, z)""",
    "gather": """x = s32[5,<=4] parameter(0)
        i = s32[<=6,1] parameter(1)
        ROOT r = s32[<=6,<=4] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0},
          index_vector_dim=1, slice_sizes={1,4}""",
    "gather_clamps": """x = s32[<=5,3] parameter(0)
        i = s32[<=6] parameter(1)
        ROOT r = s32[<=6,3] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0},
          index_vector_dim=1, slice_sizes={1,3}""",
    "scatter": """x = f32[5] parameter(0)
        i = s32[<=6] parameter(1)
        u = f32[<=6] parameter(2)
        ROOT r = f32[5] scatter(x, i, u), update_window_dims={}, inserted_window_dims={0},
          scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add""",
    "scatter_rows": """x = f32[<=5,2] parameter(0)
        i = s32[<=4,1] parameter(1)
        u = f32[4,2] parameter(2)
        ROOT r = f32[<=5,2] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0},
          scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add""",
    "sort": """x = f32[<=7] parameter(0)
        ROOT r = f32[<=7] sort(x), dimensions={0}, to_apply=less""",
    "sort_rows": """x = s32[<=3,<=6] parameter(0)
        ROOT r = s32[<=3,<=6] sort(x), dimensions={1}, is_stable=true, to_apply=less_s32""",
    "topk": """x = f32[<=3,5] parameter(0)
        ROOT r = (f32[<=3,2], s32[<=3,2]) topk(x), k=2, largest=true""",
    "set_size": """x = f32[6,2] parameter(0)
        n = s32[] parameter(1)
        y = f32[<=6,2] set-dimension-size(x, n), dimensions={0}
        z = f32[] constant(0)
        ROOT r = f32[2] reduce(y, z), dimensions={0}, to_apply=add""",
    "grow": """x = f32[<=6] parameter(0)
        n = s32[] parameter(1)
        ROOT y = f32[<=6] set-dimension-size(x, n), dimensions={0}""",
    "dynamic_reshape": """x = s32[<=4,3] parameter(0)
        n = s32[] get-dimension-size(x), dimensions={0}
        three = s32[] constant(3)
        m = s32[] multiply(n, three)
        ROOT r = s32[<=12] dynamic-reshape(x, m)""",
    "pad_to_static": """x = f32[<=4,<=3] parameter(0)
        t = (f32[4,3], s32[], s32[]) custom-call(x), custom_call_target="PadToStatic"
        a = f32[4,3] get-tuple-element(t), index=0
        n = s32[] get-tuple-element(t), index=1
        m = s32[] get-tuple-element(t), index=2
        ROOT r = f32[<=4,<=3] custom-call(a, n, m), custom_call_target="SliceToDynamic" """,
    "pipeline": """x = f32[<=6,<=4] parameter(0)
        w = f32[4,3] parameter(1)
        h = f32[<=6,3] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        f = f32[<=18] reshape(h)
        s = f32[<=18] sort(f), dimensions={0}, to_apply=less
        c = f32[<=36] concatenate(s, f), dimensions={0}
        z = f32[] constant(0)
        ROOT r = f32[] reduce(c, z), dimensions={0}, to_apply=max""",
}

# More of operations with indices, of which XLA:CPU clamps some to the bound, and of sizes that meet.
MORE: dict[str, str] = {
    "writes_a_dynamic_block": """x = s32[<=5] parameter(0)
        u = s32[<=2] parameter(1)
        i = s32[] parameter(2)
        ROOT r = s32[<=5] dynamic-update-slice(x, u, i)""",
    "writes_a_static_block_over_all": """x = s32[<=5] parameter(0)
        u = s32[5] parameter(1)
        i = s32[] parameter(2)
        ROOT r = s32[<=5] dynamic-update-slice(x, u, i)""",
    "writes_a_dynamic_block_over_all": """x = s32[5,2] parameter(0)
        u = s32[<=5,1] parameter(1)
        i = s32[] parameter(2)
        ROOT r = s32[<=5,2] dynamic-update-slice(x, u, i, i)""",
    "dynamic_slice_u8": """x = s32[<=5,3] parameter(0)
        i = u8[] parameter(1)
        ROOT r = s32[2,1] dynamic-slice(x, i, i), dynamic_slice_sizes={2,1}""",
    "dynamic_slice_s64": """x = s32[<=5,3] parameter(0)
        i = s64[] parameter(1)
        ROOT r = s32[2,3] dynamic-slice(x, i, i), dynamic_slice_sizes={2,3}""",
    "gather_u32": """x = s32[<=5,3] parameter(0)
        i = u32[<=4,2] parameter(1)
        ROOT r = s32[<=4,2] gather(x, i), offset_dims={1}, collapsed_slice_dims={0},
          start_index_map={0,1}, index_vector_dim=1, slice_sizes={1,2}""",
    "gather_along_dimension_0": """x = f32[<=5,<=3] parameter(0)
        i = s8[2,<=4] parameter(1)
        ROOT r = f32[<=4] gather(x, i), offset_dims={}, collapsed_slice_dims={0,1},
          start_index_map={1,0}, index_vector_dim=0, slice_sizes={1,1}""",
    "scatter_u32": """x = f32[<=5,3] parameter(0)
        i = u32[<=4,2] parameter(1)
        u = f32[<=4] parameter(2)
        ROOT r = f32[<=5,3] scatter(x, i, u), update_window_dims={}, inserted_window_dims={0,1},
          scatter_dims_to_operand_dims={0,1}, index_vector_dim=1, to_apply=add""",
    "scatter_whole_rows": """x = f32[<=5,<=3] parameter(0)
        i = s32[4] parameter(1)
        u = f32[4,3] parameter(2)
        ROOT r = f32[<=5,<=3] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0},
          scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add""",
    "scatter_blocks": """x = f32[<=5] parameter(0)
        i = s32[3,1] parameter(1)
        u = f32[3,2] parameter(2)
        ROOT r = f32[<=5] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={},
          scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add""",
    "argmax": """x = f32[<=5,3] parameter(0)
        n = s32[5,3] iota(), iota_dimension=0
        z = f32[] constant(-inf)
        o = s32[] constant(0)
        ROOT r = (f32[3], s32[3]) reduce(x, n, z, o), dimensions={0}, to_apply=am""",
    "sort_meets_bound": """k = s32[<=6] parameter(0)
        v = f32[6] parameter(1)
        ROOT r = (s32[<=6], f32[<=6]) sort(k, v), dimensions={0}, is_stable=true, to_apply=by_key""",
    "reshape_with_ones": """x = f32[<=4,3] parameter(0)
        y = f32[<=4,1,3,1] reshape(x)
        z = f32[1,<=4,3] reshape(y)
        ROOT r = f32[<=12] reshape(z)""",
    "convolution_of_dynamic_features": """x = f32[<=2,<=5,<=3] parameter(0)
        k = f32[2,<=3,2] parameter(1)
        ROOT r = f32[<=2,<=7,2] convolution(x, k), window={size=2 pad=2_1}, dim_labels=b0f_0io->b0f""",
}

CONTROL: dict[str, str] = {
    "while_grows": """HloModule grows
        body { p = (s32[<=6], s32[]) parameter(0)
               x = s32[<=6] get-tuple-element(p), index=0
               k = s32[] get-tuple-element(p), index=1
               one = s32[] constant(1)
               k1 = s32[] add(k, one)
               t = s32[1] broadcast(k), dimensions={}
               c = s32[<=7] concatenate(x, t), dimensions={0}
               y = s32[<=6] slice(c), slice={[0:6]}
               ROOT r = (s32[<=6], s32[]) tuple(y, k1) }
        condition { p = (s32[<=6], s32[]) parameter(0)
                    k = s32[] get-tuple-element(p), index=1
                    n = s32[] constant(3)
                    ROOT c = pred[] compare(k, n), direction=LT }
        ENTRY main { x = s32[<=6] parameter(0)
                     z = s32[] constant(0)
                     t = (s32[<=6], s32[]) tuple(x, z)
                     w = (s32[<=6], s32[]) while(t), condition=condition, body=body
                     ROOT r = s32[<=6] get-tuple-element(w), index=0 }""",
    "while_halves": """HloModule halves
        body { p = (f32[<=8], f32[]) parameter(0)
               x = f32[<=8] get-tuple-element(p), index=0
               n = s32[] get-dimension-size(x), dimensions={0}
               two = s32[] constant(2)
               h = s32[] divide(n, two)
               y = f32[<=8] set-dimension-size(x, h), dimensions={0}
               z = f32[<=8] add(y, y)
               k = f32[] get-tuple-element(p), index=1
               k2 = f32[] add(k, k)
               ROOT r = (f32[<=8], f32[]) tuple(z, k2) }
        condition { p = (f32[<=8], f32[]) parameter(0)
                    x = f32[<=8] get-tuple-element(p), index=0
                    n = s32[] get-dimension-size(x), dimensions={0}
                    two = s32[] constant(2)
                    ROOT c = pred[] compare(n, two), direction=GT }
        ENTRY main { x = f32[<=8] parameter(0)
                     k = f32[] constant(1)
                     t = (f32[<=8], f32[]) tuple(x, k)
                     w = (f32[<=8], f32[]) while(t), condition=condition, body=body
                     ROOT r = f32[<=8] get-tuple-element(w), index=0 }""",
    "while_with_an_array": """HloModule array
        body { x = s32[<=8] parameter(0)
               n = s32[] get-dimension-size(x), dimensions={0}
               one = s32[] constant(1)
               m = s32[] subtract(n, one)
               y = s32[<=8] set-dimension-size(x, m), dimensions={0}
               ROOT z = s32[<=8] reverse(y), dimensions={0} }
        condition { x = s32[<=8] parameter(0)
                    n = s32[] get-dimension-size(x), dimensions={0}
                    two = s32[] constant(2)
                    ROOT c = pred[] compare(n, two), direction=GT }
        ENTRY main { x = s32[<=8] parameter(0)
                     ROOT w = s32[<=8] while(x), condition=condition, body=body }""",
    "while_from_a_static_array": """HloModule static
        body { p = (f32[6], s32[], f32[]) parameter(0)
               x = f32[6] get-tuple-element(p), index=0
               k = s32[] get-tuple-element(p), index=1
               s = f32[] get-tuple-element(p), index=2
               one = s32[] constant(1)
               k1 = s32[] subtract(k, one)
               y = f32[<=6] set-dimension-size(x, k1), dimensions={0}
               zero = f32[] constant(0)
               t = f32[] reduce(y, zero), dimensions={0}, to_apply=add
               u = f32[] add(s, t)
               ROOT r = (f32[<=6], s32[], f32[]) tuple(y, k1, u) }
        add { a = f32[] parameter(0)
              b = f32[] parameter(1)
              ROOT c = f32[] add(a, b) }
        condition { p = (f32[6], s32[], f32[]) parameter(0)
                    k = s32[] get-tuple-element(p), index=1
                    zero = s32[] constant(2)
                    ROOT c = pred[] compare(k, zero), direction=GT }
        ENTRY main { x = f32[6] parameter(0)
                     k = s32[] constant(6)
                     z = f32[] constant(0)
                     t = (f32[6], s32[], f32[]) tuple(x, k, z)
                     w = (f32[6], s32[], f32[]) while(t), condition=condition, body=body
                     ROOT r = f32[] get-tuple-element(w), index=2 }""",
    "conditional": """HloModule conditional
        short { x = f32[<=5] parameter(0)
                two = s32[] constant(2)
                ROOT y = f32[<=5] set-dimension-size(x, two), dimensions={0} }
        long { x = f32[<=5] parameter(0)
               ROOT y = f32[<=5] negate(x) }
        ENTRY main { p = pred[] parameter(0)
                     x = f32[<=5] parameter(1)
                     ROOT r = f32[<=5] conditional(p, x, x), true_computation=short, false_computation=long }""",
    "conditional_mixed": """HloModule mixed
        whole { x = f32[4] parameter(0)
                ROOT y = f32[4] negate(x) }
        part { x = f32[<=4] parameter(0)
               ROOT y = f32[<=4] copy(x) }
        ENTRY main { p = s32[] parameter(0)
                     x = f32[4] parameter(1)
                     y = f32[<=4] parameter(2)
                     ROOT r = f32[<=4] conditional(p, x, y), branch_computations={whole, part} }""",
    "call": """HloModule call
        f { x = f32[<=4] parameter(0)
            ROOT y = f32[<=4] multiply(x, x) }
        ENTRY main { x = f32[<=4] parameter(0)
                     ROOT y = f32[<=4] call(x), to_apply=f }""",
}

PROGRAMS: dict[str, str] = {
    **{name: f"HloModule {name}\n{REDUCERS}ENTRY main {{\n{lines}\n}}" for name, lines in (ENTRIES | MORE).items()},
    **CONTROL,
}

# Sizes that go together, by program: parameters' dimensions (parameter, dimension) that have one size.
TOGETHER = {
    "dot": [((0, 1), (1, 0))],
    "dot_batch": [((0, 2), (1, 1))],
    "scatter": [((1, 0), (2, 0))],
    "scatter_u32": [((1, 0), (2, 0))],
    "convolution_of_dynamic_features": [((0, 2), (1, 1))],
}


def arguments(name: str, rng: np.random.Generator, sizes: str = "random") -> list[np.ndarray]:
    """Arguments of a program, their dynamic sizes random, all "full", or all as small ("least") as makes sense."""
    parameters = parse(PROGRAMS[name]).entry.parameters
    chosen: dict[tuple[int, int], int] = {}
    for n, p in enumerate(parameters):
        for d, (bound, mark) in enumerate(zip(p.shape.dimensions, p.shape.marks, strict=True)):
            low = min(LEAST.get(name, 0), bound)
            size = {"random": int(rng.integers(low, bound, endpoint=True)), "full": bound, "least": low}[sizes]
            chosen[n, d] = size if mark else bound
    if name == "writes_a_dynamic_block":  # no larger than what it is written to
        chosen[0, 0] = max(chosen[0, 0], 2)
    for one, other in TOGETHER.get(name, ()):
        chosen[other] = chosen[one]
    if name == "select_and_scatter":
        chosen[1, 0] = chosen[0, 0] // 2
    values = []
    for n, p in enumerate(parameters):
        dims = tuple(chosen[n, d] for d in range(p.shape.rank))
        dtype = p.shape.element_type.dtype
        if p.shape.element_type.kind == "float":
            values.append(rng.integers(-20, 20, dims).astype(dtype) / dtype.type(4))
        elif p.shape.element_type.kind == "pred":
            values.append(np.asarray(rng.random(dims) < 0.5))
        else:
            values.append(np.asarray(rng.integers(-1, 7, dims)).astype(dtype))
    return values


# Programs whose operations need some elements.
LEAST = {
    "conditional": 2,
    "dynamic_slice_s64": 2,
    "dynamic_slice_u8": 2,
    "dynamic_update_slice": 1,
    "gather_along_dimension_0": 1,
    "gather_clamps": 1,
    "gather_u32": 1,
    "mean": 1,
    "scatter_blocks": 2,
}
