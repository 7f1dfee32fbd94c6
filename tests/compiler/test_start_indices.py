"""Operands that are slices at start indices known only at run time, in front of every emitter with loops of its own.

An emitter looks at where its operands lie before it prints loops for them. What it sees then has symbols for indices
that no code has computed yet: `adopt` reads these where they are printed.
"""

import numpy as np
import pytest
from cache_sizes import set_caches
from kernel_driver import Compiled, ConditionalBlock, RecordingEmitter, fusion_of, random_array
from refxla_spec import interpreter
from refxla_spec.text import parse

from refxla.analysis.access_patterns import AccessPattern
from refxla.analysis.index_expression import delinearize, linearize, variable
from refxla.codegen.index_printer import c_of
from refxla.codegen.products import small_products

MORE = 5  # how much larger the sliced array is, in each dimension


def _dims(sizes: tuple[int, ...]) -> str:
    return ",".join(map(str, sizes))


def dynamic_slice(sizes: tuple[int, ...]) -> tuple[str, list[np.ndarray]]:
    starts = [f"s{d}" for d in range(len(sizes))]
    lines = [f"x = f32[{_dims(tuple(n + MORE for n in sizes))}] parameter(0)"]
    lines += [f"{s} = s32[] parameter({d + 1})" for d, s in enumerate(starts)]
    lines += [f"d = f32[{_dims(sizes)}] dynamic-slice(x, {', '.join(starts)}), dynamic_slice_sizes={{{_dims(sizes)}}}"]
    return "\n".join(lines), [np.int32(2 + d) for d in range(len(sizes))]


def gathered_window(sizes: tuple[int, ...]) -> tuple[str, list[np.ndarray]]:
    every = _dims(tuple(range(len(sizes))))
    lines = f"""x = f32[{_dims(tuple(n + MORE for n in sizes))}] parameter(0)
        s = s32[{len(sizes)}] parameter(1)
        d = f32[{_dims(sizes)}] gather(x, s), offset_dims={{{every}}}, collapsed_slice_dims={{}},
          start_index_map={{{every}}}, index_vector_dim=0, slice_sizes={{{_dims(sizes)}}}"""
    return lines, [np.arange(2, 2 + len(sizes), dtype=np.int32)]


def gathered_rows(sizes: tuple[int, ...]) -> tuple[str, list[np.ndarray]]:
    inside = _dims(tuple(range(1, len(sizes))))
    lines = f"""x = f32[{_dims(tuple(n + MORE * (d == 0) for d, n in enumerate(sizes)))}] parameter(0)
        s = s32[{sizes[0]}] parameter(1)
        d = f32[{_dims(sizes)}] gather(x, s), offset_dims={{{inside}}}, collapsed_slice_dims={{0}},
          start_index_map={{0}}, index_vector_dim=1, slice_sizes={{{_dims((1, *sizes[1:]))}}}"""
    return lines, [np.random.default_rng(3).permutation(sizes[0] + MORE)[: sizes[0]].astype(np.int32)]


def sliced_twice(sizes: tuple[int, ...]) -> tuple[str, list[np.ndarray]]:
    """A slice whose start is an element of another array, at a place known only at run time."""
    lines = f"""x = f32[{_dims((sizes[0] + MORE, *sizes[1:]))}] parameter(0)
        t = s32[9] parameter(1)
        at = s32[] parameter(2)
        zero = s32[] constant(0)
        one = s32[1] dynamic-slice(t, at), dynamic_slice_sizes={{1}}
        s = s32[] reshape(one)
        d = f32[{_dims(sizes)}] dynamic-slice(x, {", ".join(["s"] + ["zero"] * (len(sizes) - 1))}),
          dynamic_slice_sizes={{{_dims(sizes)}}}"""
    return lines, [np.arange(9, dtype=np.int32) - 2, np.int32(5)]


PRODUCERS = {f.__name__: f for f in (dynamic_slice, gathered_window, gathered_rows, sliced_twice)}

ADD = "add { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b) }\n"
# name: (kind of the fusion, sizes of the slice d, lines that read it, what the kernel's C shows of the emitter,
#        where its results are larger than caches)
STRUCTURES = {
    "tiled transpose": ("loop", (64, 100), """n = f32[64,100] negate(d)
        ROOT r = f32[100,64] transpose(n), dimensions={1,0}""", "rx_transpose_u32", False),
    "transpose that only moves": (
        "loop", (64, 100), "ROOT r = f32[100,64] transpose(d), dimensions={1,0}", "rx_transpose_u32", False),
    "transpose past caches": ("loop", (64, 100), """n = f32[64,100] negate(d)
        ROOT r = f32[100,64] transpose(n), dimensions={1,0}""", "rx_store_lines", True),
    "transpose past caches that only moves": (
        "loop", (64, 100), "ROOT r = f32[100,64] transpose(d), dimensions={1,0}", "rx_store_lines", True),
    "sine of a transpose": ("loop", (64, 100), """n = f32[64,100] sine(d)
        ROOT r = f32[100,64] transpose(n), dimensions={1,0}""", "", False),
    "sine": ("loop", (60, 100), "ROOT r = f32[60,100] sine(d)", "fast_shifted_sine_f32", False),
    "pieces": ("loop", (30, 1000), "ROOT r = f32[30,1000] negate(d)", "rx_copy_non_temporal", True),
    "contiguous copy": ("loop", (3, 40000), "ROOT r = f32[3,40000] copy(d)", "rx_copy_non_temporal", True),
    "short rows": ("loop", (400, 20), "ROOT r = f32[400,20] negate(d)", "rx_flush_lines", True),
    "rows that are moved": ("loop", (400, 100), "ROOT r = f32[400,100] copy(d)", "rx_append_row", True),
    "interleaved row copy": (
        "loop", (40, 30, 100), "ROOT r = f32[30,40,100] transpose(d), dimensions={1,0,2}", "192 + 64", True),
    "transposed short rows": (
        "loop", (40, 30, 20), "ROOT r = f32[30,40,20] transpose(d), dimensions={1,0,2}", "rx_flush_lines", True),
    "reversed rows": ("loop", (40, 700), "ROOT r = f32[40,700] reverse(d), dimensions={1}", "rx_copy_non_temporal",
                      True),
    "concatenate": ("loop", (90, 300), """n = f32[90,300] negate(d)
        ROOT r = f32[90,600] concatenate(d, n), dimensions={1}""", "", False),
    "concatenate past caches": ("loop", (90, 300), """n = f32[90,300] negate(d)
        ROOT r = f32[90,600] concatenate(d, n), dimensions={1}""", "rx_copy_non_temporal", True),
    "border": ("loop", (60, 300), """z = f32[] constant(3)
        ROOT r = f32[63,333] pad(d, z), padding=1_2x3_30""", "", True),
    "update in place": ("update", (64, 100), """y = f32[200,300] parameter(9)
        w = f32[100,64] transpose(d), dimensions={1,0}
        u = s32[] parameter(10)
        ROOT r = f32[200,300] dynamic-update-slice(y, w, u, u)""", "rx_transpose_u32", False),
    "update in place past caches": ("update", (60, 100), """y = f32[200,300] parameter(9)
        u = s32[] parameter(10)
        ROOT r = f32[200,300] dynamic-update-slice(y, d, u, u)""", "", True),
    "cumulative strips": ("reduce-window", (50, 300), """z = f32[] constant(0)
        ROOT r = f32[50,300] reduce-window(d, z), window={size=50x1 pad=49_0x0_0}, to_apply=add""", "", False),
    "cumulative strips past caches": ("reduce-window", (50, 300), """z = f32[] constant(0)
        ROOT r = f32[50,300] reduce-window(d, z), window={size=50x1 pad=49_0x0_0}, to_apply=add""",
                                      "rx_copy_non_temporal", True),
    "cumulative blocks": ("reduce-window", (30, 200), """z = f32[] constant(0)
        ROOT r = f32[30,200] reduce-window(d, z), window={size=1x200 pad=0_0x199_0}, to_apply=add""",
                          "rx_cumulative_f32", False),
    "cumulative blocks past caches": ("reduce-window", (30, 200), """z = f32[] constant(0)
        ROOT r = f32[30,200] reduce-window(d, z), window={size=1x200 pad=0_0x199_0}, to_apply=add""",
                                      "rx_store_lines", True),
    "pooling": ("reduce-window", (30, 200), """z = f32[] constant(0)
        ROOT r = f32[15,100] reduce-window(d, z), window={size=2x2 stride=2x2}, to_apply=add""", "", False),
    "sums of rows": ("reduction", (50, 300), """z = f32[] constant(0)
        ROOT r = f32[50] reduce(d, z), dimensions={1}, to_apply=add""", "", False),
    "sums of columns": ("reduction", (50, 300), """z = f32[] constant(0)
        ROOT r = f32[300] reduce(d, z), dimensions={0}, to_apply=add""", "", False),
    "rows again": ("reduction", (50, 300), """z = f32[] constant(0)
        sums = f32[50] reduce(d, z), dimensions={1}, to_apply=add
        b = f32[50,300] broadcast(sums), dimensions={0}
        ROOT r = f32[50,300] add(d, b)""", "", True),
    "scatter": ("scatter", (40, 30), """y = f32[60,30] parameter(9)
        u = s32[40] parameter(11)
        ROOT r = f32[60,30] scatter(y, u, d), update_window_dims={1}, inserted_window_dims={0},
          scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add""", "", False),
    "gather": ("loop", (60, 30), """u = s32[40] parameter(11)
        ROOT r = f32[40,30] gather(d, u), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0},
          index_vector_dim=1, slice_sizes={1,30}""", "", False),
    "left of a product": ("dot", (60, 70), """y = f32[70,50] parameter(9)
        ROOT r = f32[60,50] dot(d, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}""", "", False),
    "right of a product": ("dot", (60, 70), """y = f32[50,60] parameter(9)
        ROOT r = f32[50,70] dot(y, d), lhs_contracting_dims={1}, rhs_contracting_dims={0}""", "", False),
    "right of a product, transposed": ("dot", (60, 70), """y = f32[50,70] parameter(9)
        ROOT r = f32[50,60] dot(y, d), lhs_contracting_dims={1}, rhs_contracting_dims={1}""",
        "rx_transpose_halves_f32(", False),
    "matrix and vector": ("dot", (60, 70), """y = f32[70] parameter(9)
        ROOT r = f32[60] dot(d, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}""",
        "half_vector*)(x0 + k", False),
    "convolution": ("convolution", (2, 18, 18, 8), """y = f32[3,3,8,16] parameter(9)
        ROOT r = f32[2,16,16,16] convolution(d, y), window={size=3x3}, dim_labels=b01f_01io->b01f""", "", False),
}  # fmt: skip


@pytest.fixture
def small(monkeypatch):
    """What is done for large arrays is done for these."""
    set_caches(monkeypatch, last=1)
    set_caches(monkeypatch, second=1)
    monkeypatch.setattr(small_products, "MOST_WORK", 0)


EVERYWHERE = "dynamic_slice", "gathered_rows"  # the others only where loops of its own are chosen by how they read


@pytest.mark.parametrize("name, producer", [
    (name, producer) for name, (kind, *_) in STRUCTURES.items() for producer in PRODUCERS
    if producer in EVERYWHERE or kind in ("loop", "update")
])  # fmt: skip
def test_structures(name, producer, small, monkeypatch):
    kind, sizes, lines, shows, past_caches = STRUCTURES[name]
    if not past_caches:
        set_caches(monkeypatch, last=1 << 40)
    before, arguments = PRODUCERS[producer](sizes)
    own = {9: "y", 10: "u", 11: "u"}
    number = len(arguments) + 1
    for old, _ in sorted(own.items()):
        if f"parameter({old})" in lines:
            lines = lines.replace(f"parameter({old})", f"parameter({number})")
            number += 1
    module = parse(f"HloModule m\n{ADD}ENTRY main {{\n{before}\n{lines}\n}}")
    compiled = Compiled(fusion_of(module, kind))
    given = [random_array("f32", module.entry.parameters[0].shape.dimensions), *arguments]
    for p in module.entry.parameters[len(given) :]:
        floats = p.shape.element_type.name == "f32"
        given.append(random_array("f32", p.shape.dimensions) if floats
                     else np.random.default_rng(4).integers(0, 60, p.shape.dimensions).astype(np.int32))  # fmt: skip
    if producer == ("sliced_twice" if name == "interleaved row copy" else "dynamic_slice"):
        assert shows in compiled.program.source
    wanted = interpreter.run(module, given)
    (got,) = compiled(*given)
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)
    if kind == "loop" and "sine" not in lines:
        np.testing.assert_array_equal(got, wanted)


def test_an_index_of_an_analysis_is_read_again_where_it_is_printed():
    module = parse("""HloModule m
        ENTRY main {
          x = f32[40,50] parameter(0)
          s = s32[] parameter(1)
          z = s32[] constant(0)
          ROOT d = f32[30,50] dynamic-slice(x, s, z), dynamic_slice_sizes={30,50}
        }""")
    fusion = fusion_of(module)
    e, pattern = RecordingEmitter(fusion), AccessPattern(fusion)
    at, block = variable("i", 0, 1499), ConditionalBlock()
    pattern.value(module.entry.root, delinearize(at, (30, 50)))
    found = pattern.accesses[-1]
    with pytest.raises(AssertionError, match="no C was written"):
        c_of(found.position)
    adopted = e.adopt(found, pattern, block)
    assert adopted.indices == (at // 50 + variable("s1", 0, 10), at % 50)
    assert adopted.position == linearize(adopted.indices, (40, 50)) == at + variable("s1", 0, 10) * 50
    assert e.adopt(found, pattern, block) == adopted
    e.value(module.entry.root, delinearize(at, (30, 50)), block)
    assert e.accesses[-1].position == adopted.position
    assert block.text().count("const int s") == 1
