"""How matrix products are cut: no choice of tile, block, copy or vector width changes a bit."""

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from kernel_driver import Compiled, fusion_of
from refxla_spec.text import parse

import refxla
from refxla.codegen.emitter_registry import emit
from refxla.codegen.products import blocking, gemm, matrix_rows, small_products
from refxla.codegen.products.blocking import Blocking, choose_tile
from refxla.codegen.products.product import Product
from refxla.codegen.products.tile import Tile
from refxla.device.description import DEFAULT_CPU

DTYPES = {
    "f32": np.float32,
    "f64": np.float64,
    "bf16": ml_dtypes.bfloat16,
    "s32": np.int32,
    "s64": np.int64,
}
WIDE = replace(DEFAULT_CPU, features="avx512f,avx512vl,avx512dq,avx512bw")


def dot_text(stored: str, m: int, k: int, n: int, name: str = "f32") -> str:
    """A dot whose sides are stored as they are ("n") or transposed ("t")."""
    lhs, lc = (f"{k},{m}", 0) if stored[0] == "t" else (f"{m},{k}", 1)
    rhs, rc = (f"{n},{k}", 1) if stored[1] == "t" else (f"{k},{n}", 0)
    return f"""HloModule m
    ENTRY main {{
      a = {name}[{lhs}] parameter(0)
      b = {name}[{rhs}] parameter(1)
      ROOT c = {name}[{m},{n}] dot(a, b), lhs_contracting_dims={{{lc}}}, rhs_contracting_dims={{{rc}}}
    }}"""


def arguments(text: str) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    shapes = [p.shape for p in parse(text).entry.parameters]
    return [(rng.standard_normal(s.dimensions) * 10).astype(DTYPES[str(s.element_type)]) for s in shapes]


@pytest.fixture(autouse=True)
def no_tiny_products(monkeypatch):
    monkeypatch.setattr(small_products, "MOST_WORK", 0)


def wide() -> object:
    """The target whose vectors have 64 bytes, if the machine has them."""
    if not any("avx512f" in d.target.features for d in refxla.devices() if d.kind == "cpu"):
        pytest.skip("this processor has no AVX-512")
    return WIDE


def agrees(text: str, target=DEFAULT_CPU, kind: str = "dot") -> str:
    """The bits are those of the elementwise form; returns the code, with the functions that it shares."""
    args = arguments(text)
    fast, plain = Compiled(fusion_of(parse(text), kind), target), Compiled(fusion_of(parse(text), "loop"))
    np.testing.assert_array_equal(fast(*args)[0].view(np.uint8), plain(*args)[0].view(np.uint8))
    return "".join(text for k in fast.kernels for text in (k.body, *k.helpers))


@pytest.mark.parametrize("name", ["f32", "f64", "s32", "s64", "bf16"])
def test_vectors_of_64_bytes(name):
    target = wide()
    code = agrees(dot_text("nn", 20, 45, 64, name), target)
    assert "rx_multiply_add_wide" in code


@pytest.mark.parametrize("lanes, n", [(8, 5), (16, 16), (16, 200)])
def test_narrow_results_take_narrow_vectors(lanes, n):
    assert choose_tile(100, n, "f32", WIDE).lanes == lanes
    assert choose_tile(100, n, "f32", DEFAULT_CPU).lanes == 8


@pytest.mark.parametrize("name", ["f32", "bf16"])
@pytest.mark.parametrize("stored", ["nn", "tn", "nt"])
@pytest.mark.parametrize("panels", ["packed", "local"])
def test_items_copy_what_they_need(name, stored, panels, monkeypatch):
    m, k, n = 67, 50, 45
    monkeypatch.setattr(matrix_rows, "COPIED_TERMS", 16)
    monkeypatch.setattr(matrix_rows, "LOCAL_TERMS", 16)
    monkeypatch.setattr(matrix_rows, "DIRECT_COLUMNS", 0)
    tile = Tile(6, 2, "f32")
    monkeypatch.setattr(gemm, "choose_blocking", lambda p: Blocking(tile, 18, tile.columns * 2, panels))
    code = agrees(dot_text(stored, m, k, n, name))
    assert ("strips" in code) == (stored[0] == "t" or name == "bf16")
    assert ("panels[" in code) == (panels == "local")  # an array of the item's own


def chosen(text: str, target, monkeypatch, kind: str = "dot") -> Blocking:
    """The blocks of a program's product."""
    found = []
    monkeypatch.setattr(gemm, "choose_blocking", lambda p: found.append(blocking.choose_blocking(p)) or found[-1])
    emit(fusion_of(parse(text), kind), target)
    return found[-1]


def test_a_deep_product_is_a_block_for_each_core(monkeypatch):
    """What is read of its sides outweighs its sums, so they are read as rarely as can be."""
    deep, flat = (chosen(dot_text("tn", 512, k, 512), WIDE, monkeypatch) for k in (8192, 1024))
    assert (deep.rows, deep.columns, deep.panels) == (512, 256, "local")
    assert flat.rows * flat.columns * 4 <= blocking.MAX_SUMS


def test_phases_of_a_transposed_convolution_share_the_panels_of_its_filter(monkeypatch):
    """Each of them uses few elements of the window, and copying the whole filter would take longer than they do."""
    text = """HloModule m
    ENTRY main {
      a = f32[16,9,128] parameter(0)
      b = f32[256,128,1] parameter(1)
      ROOT c = f32[16,1280,1] convolution(a, b), window={size=256 pad=255_255 lhs_dilate=128}, dim_labels=b0f_0io->b0f
    }"""
    assert chosen(text, WIDE, monkeypatch, "convolution").panels == "packed"


def test_results_of_few_terms_are_stored_a_few_rows_at_a_time(monkeypatch):
    """Stores then wait while the next tile is computed; other products have blocks that reuse what they read."""
    sizes = (64, 64, "nn"), (256, 64, "nn"), (64, 256, "nn"), (64, 64, "tn")
    short, *others = (chosen(dot_text(stored, 100_000, k, n), WIDE, monkeypatch) for k, n, stored in sizes)
    assert short.rows * short.columns * 4 <= blocking.STORES and short.rows % short.tile.rows == 0
    assert all(b.rows * b.tile.columns * 4 > 4 * blocking.STORES for b in others)


def test_a_tile_takes_a_strip_of_rows_side_by_side(monkeypatch):
    tiles = [chosen(dot_text(stored, 512, 8192, 512), WIDE, monkeypatch).tile for stored in ("tn", "nn")]
    assert [(tile.rows, tile.vectors) for tile in tiles] == [(8, 2), (6, 4)]


@pytest.mark.parametrize("target", [DEFAULT_CPU, WIDE])
def test_deep_products_have_the_same_bits(target):
    agrees(dot_text("tn", 40, 1300, 70), wide() if target is WIDE else target)


@pytest.mark.parametrize("panels", ["packed", "local"])
def test_the_gradient_of_a_filter_of_one_element_copies_in_the_order_of_memory(panels, monkeypatch):
    monkeypatch.setattr(matrix_rows, "COPIED_TERMS", 40)
    monkeypatch.setattr("refxla.codegen.products.packing.DISTANT", 1)
    tile = Tile(6, 2, "f32")
    monkeypatch.setattr(gemm, "choose_blocking", lambda p: Blocking(tile, 18, 32, panels))
    text = """HloModule m
    ENTRY main {
      a = f32[8,10,10,21] parameter(0)
      b = f32[8,5,5,40] parameter(1)
      ROOT c = f32[1,1,21,40] convolution(a, b), window={size=5x5 pad=0_-1x0_-1 rhs_dilate=2x2},
        dim_labels=f01b_i01o->01bf
    }"""
    code = agrees(text, kind="convolution")
    assert "strips" in code and "t0" in code


CONVOLUTIONS = {
    "padded": ("2,9,10,8", "3,3,8,20", "2,9,10,20", "size=3x3 pad=1_1x1_1", "b01f_01io->b01f"),
    "pointwise, strided": ("2,9,9,24", "1,1,24,70", "2,5,5,70", "size=1x1 stride=2x2", "b01f_01io->b01f"),
    "gradient of the filter": ("2,9,10,20", "2,9,10,33", "3,3,20,33", "size=9x10 pad=1_1x1_1", "f01b_i01o->01bf"),
}


@pytest.mark.parametrize("name", list(CONVOLUTIONS))
def test_convolutions_in_vectors_of_64_bytes(name):
    lhs, rhs, out, window, labels = CONVOLUTIONS[name]
    agrees(f"""HloModule m
    ENTRY main {{
      a = f32[{lhs}] parameter(0)
      b = f32[{rhs}] parameter(1)
      ROOT c = f32[{out}] convolution(a, b), window={{{window}}}, dim_labels={labels}
    }}""", wide(), "convolution")  # fmt: skip


@pytest.mark.parametrize("m, k, n", [(64, 25088, 256), (4096, 4096, 4096), (512, 512, 512), (197, 64, 197)])
def test_blocks_keep_the_cores_at_work_and_fit_the_caches(m, k, n, monkeypatch):
    found = []

    def spy(p):
        found.append((p, blocking.choose_blocking(p)))
        return found[0][1]

    monkeypatch.setattr(gemm, "choose_blocking", spy)
    emit(fusion_of(parse(dot_text("tn", m, k, n)), "dot"), DEFAULT_CPU)
    ((p, b),) = found
    assert -(-m // b.rows) * -(-n // b.columns) >= 2
    assert b.rows * b.columns * 4 <= blocking.MAX_SUMS or p.rows.blocks == 1
    assert b.rows % b.tile.rows == 0 and b.columns % b.tile.columns == 0


@pytest.mark.parametrize("panels", ["packed", "local"])
@pytest.mark.parametrize("features", [16, 12])
def test_a_filter_that_lies_along_its_input_features_is_transposed(panels, features, monkeypatch):
    tile = Tile(6, 2, "f32")
    monkeypatch.setattr(gemm, "choose_blocking", lambda p: Blocking(tile, 18, 32, panels))
    text = f"""HloModule m
    ENTRY main {{
      a = f32[2,6,6,{features}] parameter(0)
      b = f32[3,3,37,{features}] parameter(1)
      c = f32[3,3,37,{features}] reverse(b), dimensions={{0,1}}
      ROOT d = f32[2,6,6,37] convolution(a, c), window={{size=3x3 pad=1_1x1_1}}, dim_labels=b01f_01oi->b01f
    }}"""
    code = agrees(text, kind="convolution")
    assert ("panel_of_columns" in code) == (features % 8 == 0)


SYMMETRIC = {
    "rows": "x = f32[50,70] parameter(0)  ROOT d = f32[50,50] dot(x, x), "
    "lhs_contracting_dims={1}, rhs_contracting_dims={1}",
    "columns": "x = f32[70,50] parameter(0)  t = f32[50,70] transpose(x), dimensions={1,0}  "
    "ROOT d = f32[50,50] dot(t, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    "a batch": "x = f32[2,70,50] parameter(0)  ROOT d = f32[2,50,50] dot(x, x), lhs_batch_dims={0}, "
    "rhs_batch_dims={0}, lhs_contracting_dims={1}, rhs_contracting_dims={1}",
    "integers": "x = s32[50,70] parameter(0)  ROOT d = s32[50,50] dot(x, x), "
    "lhs_contracting_dims={1}, rhs_contracting_dims={1}",
    "what is made of it": "x = f32[50,70] parameter(0)  y = f32[50,50] parameter(1)  d = f32[50,50] dot(x, x), "
    "lhs_contracting_dims={1}, rhs_contracting_dims={1}  ROOT e = f32[50,50] multiply(d, y)",
}


@pytest.mark.parametrize("text", SYMMETRIC.values(), ids=SYMMETRIC)
@pytest.mark.parametrize("rows, columns, panels", [(12, 64, "packed"), (18, 16, "packed"), (54, 64, "local")])
def test_of_a_product_with_its_own_transpose_half_is_computed(text, rows, columns, panels, monkeypatch):
    found = []

    def choose(p: Product) -> Blocking:
        found.append(p.symmetric)
        return Blocking(Tile(6, 2, p.name), rows, columns, panels, True)

    monkeypatch.setattr(gemm, "choose_blocking", choose)
    assert "mirrored" in agrees("HloModule m\n ENTRY main { " + text + " }")
    assert found == [True]


@pytest.mark.parametrize("m, triangle", [(64, False), (512, True)])
def test_half_is_computed_where_that_takes_less(m, triangle, monkeypatch):
    text = f"""HloModule m
    ENTRY main {{ x = f32[{m},512] parameter(0)
      ROOT d = f32[{m},{m}] dot(x, x), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}} }}"""
    assert chosen(text, DEFAULT_CPU, monkeypatch).triangle == triangle
    assert not chosen(dot_text("nt", m, 512, m), DEFAULT_CPU, monkeypatch).triangle


@pytest.mark.parametrize("n, vectors", [(40, 5), (64, 8), (200, 5), (400, 5), (1024, 8)])
def test_a_tile_of_one_row_has_sums_that_do_not_wait_for_each_other(n, vectors):
    assert choose_tile(1, n, "f32", DEFAULT_CPU).vectors == vectors


@pytest.mark.parametrize("registers", blocking.TILES)
def test_sums_and_operands_of_tiles_fit_into_registers(registers):
    assert all(r * v + (v if r > 1 else 0) + 1 <= registers for r, v in blocking.TILES[registers])


@pytest.mark.parametrize("contracting", [0, 1])
def test_a_vector_is_the_left_side_of_a_product(contracting, monkeypatch):
    """As the right side, it would be one column of each panel."""
    sizes = "70,90" if contracting else "90,70"
    text = f"""HloModule m
    ENTRY main {{ a = f32[{sizes}] parameter(0)  b = f32[90] parameter(1)
      ROOT d = f32[70] dot(a, b), lhs_contracting_dims={{{contracting}}}, rhs_contracting_dims={{0}} }}"""
    code = agrees(text)
    assert "panels[" not in code and "strips" not in code


def test_a_small_matrix_times_a_vector_is_one_item(monkeypatch):
    """As the state of a recurrent cell: with its columns in two items, a core would wait for one after the other."""
    blocks = []
    choose = blocking.choose_blocking
    monkeypatch.setattr(gemm, "choose_blocking", lambda p: blocks.append(choose(p)) or blocks[-1])
    for n in (64, 512):
        agrees(dot_text("nn", 1, n, n), WIDE if wide() else DEFAULT_CPU)
    assert [b.columns < n for b, n in zip(blocks, (64, 512), strict=True)] == [False, True]
