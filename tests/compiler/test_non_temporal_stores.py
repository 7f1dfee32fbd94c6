"""Results that are written past the caches: of any type, wherever in a line they begin, in ranges, rows and pieces."""

import re

import pytest
from cache_sizes import set_caches
from kernel_driver import check_within, fusion_of, random_array
from refxla_spec.text import parse

from refxla.codegen.loops.elementwise import emit_update
from refxla.device.description import DEFAULT_CPU

SOME = ["s8", "f32", "bf16", "s64", "c64", "c128", "pred", "s4"]


@pytest.fixture(autouse=True)
def past_caches(monkeypatch):
    """All results are written so, though they are small."""
    set_caches(monkeypatch, last=1)


@pytest.mark.parametrize("name", SOME)
@pytest.mark.parametrize("size", [(20001,), (33, 517), (5, 3, 2053)])
def test_types_and_sizes(name, size):
    dims = ",".join(map(str, size))
    text = check_within(
        f"x = {name}[{dims}] parameter(0)\nROOT r = {name}[{dims}] reverse(x), dimensions={{0}}",
        random_array(name, size),
        offset=size[0] % 5,
    )
    moved = name not in ("pred", "s4") and len(size) > 1
    assert ("rx_append_row" if moved else "rx_copy_non_temporal") in text


@pytest.mark.parametrize("name", SOME)
@pytest.mark.parametrize("run", [17, 60, 127])
def test_short_rows_are_gathered(name, run):
    """Rows in another order, from elsewhere in memory, as many as fill an array and a few more."""
    text = check_within(
        f"x = {name}[61,43,{run}] parameter(0)\nROOT r = {name}[43,61,{run}] transpose(x), dimensions={{1,0,2}}",
        random_array(name, (61, 43, run)),
        offset=run % 5,
    )
    bits = {"s8": 8, "bf16": 16, "f32": 32, "s64": 64, "c64": 64, "c128": 128}.get(name, 0)
    assert ("rx_append_row" if run * bits >= 1024 else "rx_flush_lines") in text


def test_short_rows_of_two_types(monkeypatch):
    set_caches(monkeypatch, second=1)
    text = check_within(
        """x = f32[61,43,27] parameter(0)
        z = f32[] constant(0)
        b = f32[43,61,27] broadcast(z), dimensions={}
        t = f32[43,61,27] transpose(x), dimensions={1,0,2}
        p = pred[43,61,27] compare(t, b), direction=GT
        ROOT r = (f32[43,61,27], pred[43,61,27]) tuple(t, p)""",
        random_array("f32", (61, 43, 27)),
    )
    assert "rx_prefetch" in text and text.count("rx_flush_lines") >= 4


@pytest.mark.parametrize("offset", range(16))
def test_wherever_it_begins(offset):
    """A result that begins and ends within lines, and one that is shorter than a line's rest and a line."""
    for size in (128, 140, 700):
        check_within(
            f"x = f32[{size}] parameter(0)\nROOT r = f32[{size}] add(x, x)", random_array("f32", (size,)), offset=offset
        )


FUSED = {
    "several results of different types": (
        """x = f32[37,1001] parameter(0)
        y = f32[1001] parameter(1)
        b = f32[37,1001] broadcast(y), dimensions={1}
        a = f32[37,1001] add(x, b)
        h = bf16[37,1001] convert(a)
        p = pred[37,1001] compare(x, b), direction=GT
        ROOT r = (f32[37,1001], bf16[37,1001], pred[37,1001]) tuple(a, h, p)""",
        ("f32", (37, 1001)), ("f32", (1001,)),
    ),
    "rows of a concatenate": (
        """x = f32[90,300] parameter(0)
        y = f32[90,171] parameter(1)
        z = f32[90,300] slice(x), slice={[0:90],[0:300]}
        ROOT r = f32[90,771] concatenate(x, y, z), dimensions={1}""",
        ("f32", (90, 300)), ("f32", (90, 171)),
    ),
    "a concatenate with a thin part": (
        """x = f32[90,300] parameter(0)
        y = f32[90,1] parameter(1)
        ROOT r = f32[90,301] concatenate(x, y), dimensions={1}""",
        ("f32", (90, 300)), ("f32", (90, 1)),
    ),
    "a concatenate of the outer dimension": (
        """x = s16[90,300] parameter(0)
        y = s16[7,300] parameter(1)
        ROOT r = s16[97,300] concatenate(x, y), dimensions={0}""",
        ("s16", (90, 300)), ("s16", (7, 300)),
    ),
    "a border": (
        """x = f32[60,500] parameter(0)
        z = f32[] constant(3)
        ROOT r = f32[63,533] pad(x, z), padding=1_2x3_30""",
        ("f32", (60, 500)),
    ),
    "rows that come from anywhere": (
        """x = f32[500,203] parameter(0)
        i = u8[400] parameter(1)
        ROOT r = f32[400,203] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0},
          index_vector_dim=1, slice_sizes={1,203}""",
        ("f32", (500, 203)), ("u8", (400,)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FUSED)
@pytest.mark.parametrize("chunk", [1000, 16384])
def test_fused(name, chunk, monkeypatch):
    monkeypatch.setattr("refxla.codegen.work_items.ELEMENTS", chunk)
    monkeypatch.setattr("refxla.codegen.loops.loop_nest.LEAST_CHUNK", chunk)
    lines, *arguments = FUSED[name]
    text = check_within(lines, *(random_array(*a) for a in arguments), offset=3)
    assert "rx_copy_non_temporal" in text or "rx_append_row" in text


def test_what_is_not_worth_it(monkeypatch):
    """Small results, and functions, which take longer than memory."""
    program = "x = f32[90,300] parameter(0)\nROOT r = f32[90,300] {}(x)"
    x = random_array("f32", (90, 300))
    assert "rx_copy_non_temporal" in check_within(program.format("negate"), x)
    assert "rx_copy_non_temporal" not in check_within(program.format("logistic"), 0 * x)
    set_caches(monkeypatch, last=4 * 90 * 300 + 1)
    assert "rx_copy_non_temporal" not in check_within(program.format("negate"), x)


def test_a_small_update_of_a_large_array_is_not_large(monkeypatch):
    set_caches(monkeypatch, last=4 * 200 * 300)
    program = """x = f32[200,300] parameter(0)
        y = f32[{n},300] parameter(1)
        z = s32[] constant(0)
        ROOT r = f32[200,300] dynamic-update-slice(x, y, z, z)"""
    module = parse(f"HloModule m\nENTRY main {{\n{program.format(n=100)}\n}}")
    assert "rx_copy_non_temporal" not in emit_update(fusion_of(module, "update"), DEFAULT_CPU)[0].body
    module = parse(f"HloModule m\nENTRY main {{\n{program.format(n=200)}\n}}")
    assert "rx_copy_non_temporal" in emit_update(fusion_of(module, "update"), DEFAULT_CPU)[0].body


def test_rows_of_which_columns_are_taken_are_read_ahead():
    text = check_within(
        """x = f32[60,500] parameter(0)
        i = u8[700] parameter(1)
        ROOT r = f32[60,700] gather(x, i), offset_dims={0}, collapsed_slice_dims={1}, start_index_map={1},
          index_vector_dim=1, slice_sizes={60,1}""",
        random_array("f32", (60, 500)),
        random_array("u8", (700,)),
    )
    assert "rx_prefetch" in text


@pytest.mark.parametrize("name, sizes", [("f32", (60, 700)), ("s8", (9, 2053)), ("c128", (31, 150))])
def test_reversed_rows_are_read_ahead(name, sizes):
    dims = ",".join(map(str, sizes))
    program = f"x = {name}[{dims}] parameter(0)\nROOT r = {name}[{dims}] reverse(x), dimensions={{1}}"
    assert "rx_prefetch" in check_within(program, random_array(name, sizes), offset=3)


@pytest.mark.parametrize("name, sizes, permutation", [
    ("f32", (61, 43, 127), (1, 0, 2)), ("s8", (40, 50, 333), (1, 0, 2)), ("bf16", (3, 50, 17, 100), (0, 2, 1, 3)),
    ("c128", (60, 5, 40), (1, 0, 2)), ("f32", (300, 9, 50), (1, 0, 2)),
])  # fmt: skip
def test_rows_beside_each_other_are_written_abreast(name, sizes, permutation, monkeypatch):
    set_caches(monkeypatch, second=1)
    dims, to = ",".join(map(str, sizes)), ",".join(str(sizes[d]) for d in permutation)
    text = check_within(
        f"x = {name}[{dims}] parameter(0)\n"
        f"ROOT r = {name}[{to}] transpose(x), dimensions={{{','.join(map(str, permutation))}}}",
        random_array(name, sizes),
        offset=3,
    )
    assert re.search(r"\+ \(i\d+ - \w+\) \* 192 \+ 64", text)
