"""The fast dot against NumPy, by the bound of a sum, and bit for bit against its elementwise form."""

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernel_driver import OCLGRIND, Compiled, fusion_of, reports, text_of
from products import DTYPES, NARROW, agrees_with_loop, dot_text, random, same_bits
from refxla_spec.text import parse
from search import examples

import refxla
from refxla.analysis import contraction_order
from refxla.codegen import opencl_program
from refxla.codegen.products import blocking, complex_dot, dot, gemm, matrix_rows, small_products
from refxla.codegen.products.blocking import Blocking
from refxla.codegen.products.tile import Tile
from refxla.compiler.driver import Request, compile_request
from refxla.device.capabilities import OPENCL_CPU
from refxla.device.description import DEFAULT_CPU
from refxla.ir.fingerprint import Source
from refxla.runtime.devices import find


@pytest.fixture(autouse=True)
def no_tiny_products(monkeypatch):
    """Small shapes, too, take the fast form."""
    for limit in ("MOST_WORK", "SHORTEST_VECTOR", "SMALLEST_WORK"):
        monkeypatch.setattr(small_products, limit, 0)


@st.composite
def dots(draw):
    """Operand dimensions and dimension numbers of a dot, up to two dimensions of each role, in any order."""
    sizes = st.lists(st.integers(1, 7), max_size=2)
    batch, contracting, m, n = (draw(sizes) for _ in range(4))
    sides = []
    for free in (m, n):
        roles = [("b", d) for d in range(len(batch))] + [("c", d) for d in range(len(contracting))]
        roles += [("f", d) for d in range(len(free))]
        roles = draw(st.permutations(roles))
        dims = [{"b": batch, "c": contracting, "f": free}[role][d] for role, d in roles]
        where = [
            [roles.index((role, d)) for d in range(len(group))] for role, group in (("b", batch), ("c", contracting))
        ]
        sides.append((dims, *where))
    (lhs, lb, lc), (rhs, rb, rc) = sides
    return lhs, rhs, lb, rb, lc, rc


@examples(16)
@given(dots(), st.sampled_from(["f32", "f32", "f64", "s32", "bf16", "c64"]), *[st.booleans()] * 3)
def test_any_dimension_numbers_give_the_bits_of_the_elementwise_form(
    numbers, name, small_blocks, shared_loops, segmented
):
    lhs, rhs = numbers[:2]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(small_products, "MOST_WORK", 0)
        if segmented:
            patch.setattr(contraction_order, "ONE_CHAIN", 4)
            patch.setattr(contraction_order, "SEGMENT", 16)
        if shared_loops:
            patch.setattr(gemm, "SHARED_TERMS", 0)
        if small_blocks:  # many blocks, and copies of either side
            patch.setattr(blocking, "MAX_ROWS", 12)
            patch.setattr(blocking, "FEW_ROWS", 12)
            patch.setattr(matrix_rows, "MAX_TERMS", 3)
            patch.setattr(matrix_rows, "LOCAL_TERMS", 2)
            patch.setattr(matrix_rows, "DIRECT_COLUMNS", 0)
        agrees_with_loop(dot_text(*numbers, name=name), random(name, lhs), random(name, rhs, 1))


MATRICES = [
    (100, 33, 70),
    (1, 50, 300),
    (3, 20, 90),
    (5, 40, 33),
    (200, 17, 5),
    (13, 300, 1),
    (97, 2000, 19),
    (200, 1600, 20),
]


@pytest.mark.parametrize("number, turned", [(i, t) for i in range(len(MATRICES)) for t in (0, 1)])
def test_matrices(number, turned):
    m, k, n = MATRICES[number]
    left, right = (("nn", "tt"), ("nt", "tn"))[number % 2][turned]
    lhs, rhs = ((m, k), (k, n))
    lhs, lc = (lhs, 1) if left == "n" else (lhs[::-1], 0)
    rhs, rc = (rhs, 0) if right == "n" else (rhs[::-1], 1)
    a, b = random("f32", lhs), random("f32", rhs, 1)
    got = agrees_with_loop(dot_text(lhs, rhs, lc=(lc,), rc=(rc,)), a, b)
    a, b = (a if left == "n" else a.T).astype(np.float64), (b if right == "n" else b.T).astype(np.float64)
    bound = k * np.finfo(np.float32).eps * (abs(a) @ abs(b))
    assert (abs(got - a @ b) <= bound).all()


@pytest.mark.parametrize(
    "name, result",
    [("s8", "s32"), ("s8", "s8"), ("u16", "u16"), ("s64", "s64"), ("bf16", "f32"), ("f16", "f16"), ("f64", "f64")],
)
def test_types(name, result):
    text = dot_text((20, 70), (70, 33), lc=(1,), rc=(0,), name=name, result=result)
    a, b = random(name, (20, 70)), random(name, (70, 33), 1)
    got = agrees_with_loop(text, a, b)
    if DTYPES[name] in (np.int8, np.uint16, np.int64):
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(got, (a.astype(DTYPES[result]) @ b.astype(DTYPES[result])))
    else:
        a, b = a.astype(np.float64), b.astype(np.float64)
        eps = np.finfo(np.float32 if name != "f64" else np.float64).eps
        rounding = float(ml_dtypes.finfo(DTYPES[result]).eps)
        bound = 71 * eps * (abs(a) @ abs(b)) + rounding * abs(a @ b)
        assert (abs(got.astype(np.float64) - a @ b) <= bound).all()


@pytest.mark.parametrize("name", NARROW)
def test_every_narrow_floating_point_type_is_accumulated_in_vectors(name):
    text = dot_text((20, 70), (70, 33), lc=(1,), rc=(0,), name=name)
    agrees_with_loop(text, abs(random(name, (20, 70))), abs(random(name, (70, 33), 1)))


@pytest.mark.parametrize("name, result", [("bf16", "f32"), ("s8", "s32"), ("u16", "u32"), ("s32", "s32")])
@pytest.mark.parametrize("m, k, n, offset", [(5, 70, 33, 0), (20, 133, 40, 0), (20, 300, 70, 3), (300, 96, 40, 2)])
def test_columns_along_k_are_read_in_words(name, result, m, k, n, offset):
    """Several narrow elements are one word, at any address and with any rest beyond the last whole one."""
    text = f"""HloModule m
    ENTRY main {{
      a = {name}[{m},{k}] parameter(0)
      b = {name}[{n},{k + offset}] parameter(1)
      s = {name}[{n},{k}] slice(b), slice={{[0:{n}], [{offset}:{k + offset}]}}
      ROOT c = {result}[{m},{n}] dot(a, s), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}
    }}"""
    agrees_with_loop(text, random(name, (m, k)), random(name, (n, k + offset), 1))


@pytest.mark.parametrize("m, k, n", [(20, 600, 70), (200, 515, 33), (49, 1000, 130)])
def test_the_next_block_of_the_right_side_is_fetched_early(m, k, n):
    text = dot_text((m, k), (k, n), lc=(1,), rc=(0,))
    fast = Compiled(fusion_of(parse(text), "dot"))
    assert ("RX_PREFETCH" in text_of(fast)) == ("panels[" in text_of(fast))
    agrees_with_loop(text, random("f32", (m, k)), random("f32", (k, n), 1))


@pytest.mark.parametrize("transposed", ["nn", "tt"])
def test_complex(transposed, monkeypatch):
    monkeypatch.setattr(complex_dot, "LOCAL_TERMS", 32)
    m, k, n = 20, 70, 33
    lhs, lc, rhs, rc = ((m, k), 1, (k, n), 0) if transposed == "nn" else ((k, m), 0, (n, k), 1)
    a, b = random("c64", lhs), random("c64", rhs, 1)
    got = agrees_with_loop(dot_text(lhs, rhs, lc=(lc,), rc=(rc,), name="c64"), a, b)
    a, b = (a, b) if transposed == "nn" else (a.T, b.T)
    bound = 2 * k * np.finfo(np.float32).eps * (abs(a) @ abs(b))
    assert (abs(got - a.astype(np.complex128) @ b.astype(np.complex128)) <= bound).all()


@pytest.mark.parametrize("name, columns", [("c64", 16), ("c128", 8)])
@pytest.mark.parametrize("panels", ["packed", "local"])
def test_each_element_of_a_complex_right_side_is_computed_once(panels, name, columns, monkeypatch):
    """Not for each of the four numbers that it is in the panels. The gates of a quantum circuit took twice as long."""
    part = "f32" if name == "c64" else "f64"
    tile = Tile(6, 2, part)
    assert tile.columns == columns
    monkeypatch.setattr(gemm, "choose_blocking", lambda p: Blocking(tile, 18, 2 * columns, panels))
    text = f"""HloModule m
    ENTRY main {{
      a = {name}[20,70] parameter(0)
      b = {name}[70,33] parameter(1)
      c = {name}[70,33] parameter(2)
      d = {name}[70,33] multiply(b, c)
      ROOT r = {name}[20,33] dot(a, d), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
    }}"""
    code = text_of(Compiled(fusion_of(parse(text), "dot")))
    assert ("panels[" in code) == (panels == "local")
    assert f"for (int u = 0; u < {columns // 2}; ++u)" in code and f"u < {columns};" not in code
    agrees_with_loop(text, random(name, (20, 70)), random(name, (70, 33), 1), random(name, (70, 33), 2))


def test_producers_and_consumers_live_in_the_kernels_of_the_dot():
    text = """HloModule m
    ENTRY main {
      a = bf16[5,40,7] parameter(0)
      w = f32[30,7] parameter(1)
      bias = f32[30] parameter(2)
      res = f32[200,30] parameter(3)
      s = f32[] parameter(4)
      r = bf16[200,7] reshape(a)
      c = f32[200,7] convert(r)
      sb = f32[200,7] broadcast(s), dimensions={}
      scaled = f32[200,7] multiply(c, sb)
      wt = f32[7,30] transpose(w), dimensions={1,0}
      d = f32[200,30] dot(scaled, wt), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      bb = f32[200,30] broadcast(bias), dimensions={1}
      pre = f32[200,30] add(d, bb)
      zero = f32[] constant(0)
      zeros = f32[200,30] broadcast(zero), dimensions={}
      relu = f32[200,30] maximum(pre, zeros)
      sum = f32[200,30] add(relu, res)
      half = bf16[200,30] convert(sum)
      out = bf16[5,40,30] reshape(half)
      ROOT t = (bf16[5,40,30], f32[200,30]) tuple(out, pre)
    }"""
    a, w, bias, res, s = (
        random("bf16", (5, 40, 7)),
        random("f32", (30, 7)),
        random("f32", (30,)),
        random("f32", (200, 30)),
        np.float32(0.3),
    )
    agrees_with_loop(text, a, w, bias, res, s)


@pytest.mark.parametrize("dims", [(0, 4, 5), (3, 0, 5), (3, 4, 0)])
def test_empty(dims):
    m, k, n = dims
    text = dot_text((m, k), (k, n), lc=(1,), rc=(0,))
    (got,) = Compiled(fusion_of(parse(text), "dot"))(np.ones((m, k), np.float32), np.ones((k, n), np.float32))
    np.testing.assert_array_equal(got, np.zeros((m, n), np.float32))


def test_infinities_and_nans_go_where_the_sum_takes_them():
    a, b = random("f32", (40, 30)), random("f32", (30, 40), 1)
    a[3, 4], a[5, 6], b[7, 8], b[9, 1] = np.inf, np.nan, -np.inf, np.nan
    agrees_with_loop(dot_text((40, 30), (30, 40), lc=(1,), rc=(0,)), a, b)


@pytest.mark.parametrize("m, k, n", [(13, 9, 18), (3, 20, 90), (30, 40, 1)])
@pytest.mark.parametrize("transposed", ["nn", "nt", "tn"])
def test_every_access_lies_inside(m, k, n, transposed, capfd, monkeypatch):
    # A last panel that begins early in an item of several: Oclgrind does not know clang's function for its columns.
    monkeypatch.setattr(blocking, "STREAMED_WORK", 0)
    left, right = transposed
    lhs, lc = ((m, k), 1) if left == "n" else ((k, m), 0)
    rhs, rc = ((k, n), 0) if right == "n" else ((n, k), 1)
    a, b = random("f32", lhs), random("f32", rhs, 1)
    fusion = fusion_of(parse(dot_text(lhs, rhs, lc=(lc,), rc=(rc,))), "dot")
    compiled = Compiled(fusion, replace(DEFAULT_CPU, capabilities=OPENCL_CPU), platform=OCLGRIND)
    (checked,) = compiled(a, b)
    assert not reports(capfd.readouterr().err, compiled)
    same_bits(checked, Compiled(fusion)(a, b)[0])


@pytest.mark.parametrize("type_", ["f32", "f64"])
def test_lanes_where_clang_is_not_told_of_the_processor(type_, monkeypatch):
    """Runtimes that compile for a processor of their own choice define no __FMA__: the same bits there."""
    device = find("pocl")
    target = replace(device.target, features="")

    def compiled(name: str):
        module = parse(
            dot_text([19, 70], [70, 45], lc=[1], rc=[0], name=type_).replace("HloModule m", f"HloModule {name}")
        )
        return compile_request(Request(Source.of(module), device, (), target))

    values = [random(type_, dims, seed) for seed, dims in enumerate(((19, 70), (70, 45)))]
    want = compiled("told")(*values)
    primitives = opencl_program.primitives
    monkeypatch.setattr(opencl_program, "primitives", lambda target: "#undef __FMA__\n" + primitives(target))
    untold = compiled("untold")
    assert untold.opencl.startswith("#undef __FMA__") and "rx_multiply_add_vector" in untold.opencl
    same_bits(untold(*values), want)


@pytest.mark.parametrize("lc, rc", [(1, 0), (0, 0), (1, 1), (0, 1)])
def test_products_of_other_sizes_call_the_same_functions(lc, rc):
    def functions(m: int, n: int, k: int) -> set[str]:
        lhs, rhs = [m, k] if lc == 1 else [k, m], [k, n] if rc == 0 else [n, k]
        module = parse(dot_text(lhs, rhs, lc=[lc], rc=[rc]))
        return {h for kernel in dot.emit(fusion_of(module, "dot"), DEFAULT_CPU) for h in kernel.helpers}

    assert functions(700, 480, 640) == functions(900, 560, 768)
    assert len(functions(700, 480, 640)) >= 2  # what multiplies, and what stores


SIZES = [("f32", 1, 133, 200, 47), ("f64", 3, 64, 33, 160), ("s32", 2, 40, 50, 33), ("bf16", 1, 64, 75, 32)]


@pytest.mark.parametrize("name, batch, m, k, n", SIZES)
@pytest.mark.parametrize("lc, rc", [(2, 1), (1, 1), (2, 2), (1, 2)])
def test_shared_functions_give_the_bits_of_the_elementwise_form(lc, rc, batch, m, k, n, name, monkeypatch):
    monkeypatch.setattr(matrix_rows, "COPIED_TERMS", 24)  # several blocks of terms, the last one shorter
    monkeypatch.setattr(matrix_rows, "LOCAL_TERMS", 24)
    monkeypatch.setattr(gemm, "SHARED_ROWS", 1)
    lhs, rhs = [batch, m, k] if lc == 2 else [batch, k, m], [batch, k, n] if rc == 1 else [batch, n, k]
    text = dot_text(lhs, rhs, [0], [0], [lc], [rc], name=name)
    agrees_with_loop(text, random(name, lhs), random(name, rhs, 1))


@pytest.mark.parametrize("name", ["f32", "f64"])
@pytest.mark.parametrize("swapped", [False, True])
def test_a_vector_that_is_no_row_of_memory_is_computed_in_the_kernel(name, swapped):
    """Twice a column at a place that the program finds; the matrix is read row by row, without panels."""
    operands = "twice, a" if swapped else "a, twice"
    numbers = ("{0}", "{1}") if swapped else ("{1}", "{0}")
    text = f"""ENTRY e {{
        a = {name}[40,100] parameter(0)
        b = {name}[100,7] parameter(1)
        k = s32[] parameter(2)
        zero = s32[] constant(0)
        column = {name}[100,1] dynamic-slice(b, zero, k), dynamic_slice_sizes={{100,1}}
        v = {name}[100] reshape(column)
        twice = {name}[100] add(v, v)
        ROOT d = {name}[40] dot({operands}), lhs_contracting_dims={numbers[0]}, rhs_contracting_dims={numbers[1]} }}"""
    executable = refxla.compile(text)
    (kernel,) = (part for k in executable.plan.kernels for part in k.parts())
    assert "y[100]" in kernel.body and "x0" in kernel.body
    a, b = random(name, (40, 100)), random(name, (100, 7), 1)
    for k in (0, 3, 6, 9):
        arguments = a, b, np.array(k, np.int32)
        same_bits(executable(*arguments), refxla.compile(text, without=("fusion",))(*arguments))
        np.testing.assert_allclose(executable(*arguments), 2 * a @ b[:, min(k, 6)], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("m", "k", "n", "plain"), [(1, 64, 32, False), (8, 8, 8, True), (1, 64, 1, True), (2, 64, 2, True)]
)
def test_small_products_of_long_sums_are_products(m, k, n, plain, monkeypatch):
    """Many sums of 64 terms one after the other would wait for each term; a single one has to."""
    monkeypatch.setattr(small_products, "MOST_WORK", 2048)
    kernels = dot.emit(fusion_of(parse(dot_text((m, k), (k, n), lc=(1,), rc=(0,))), "dot"), DEFAULT_CPU)
    plain = len(kernels) == 1 and "vector" not in kernels[0].body and not kernels[0].helpers
    assert plain == (n < 32)


@pytest.mark.parametrize(
    ("m", "k", "along_sums", "transposes"), [(24, 24, True, True), (24, 24, False, False), (8, 8, True, False)]
)
def test_a_small_matrix_that_lies_along_its_sums_is_transposed_in_registers(m, k, along_sums, transposes, monkeypatch):
    """As the matrix of a recurrent net: a loop over its rows would gather a column for each term."""
    monkeypatch.setattr(small_products, "MOST_WORK", 2048)
    dims, lc = ((m, k), (1,)) if along_sums else ((k, m), (0,))
    (kernel,) = dot.emit(fusion_of(parse(dot_text(dims, (k,), lc=lc, rc=(0,))), "dot"), DEFAULT_CPU)
    assert ("rx_multiply_add_vector_f32(" in kernel.body) == transposes
    if transposes:
        agrees_with_loop(dot_text(dims, (k,), lc=lc, rc=(0,)), random("f32", dims), random("f32", (k,), 1))


@pytest.mark.parametrize(
    ("batch", "m", "k", "n", "loops"),
    [
        ((5000,), 3, 3, 1, True),
        ((), 20000, 5, 1, True),
        ((500,), 2, 2, 2, True),
        ((500,), 3, 3, 3, False),  # a loop of its own takes longer to compile than they take
        ((5000,), 3, 3, 3, True),
        ((5000,), 4, 4, 4, False),
        ((), 1, 20, 900, False),
    ],
)
def test_products_of_short_sums_with_vectors_are_loops(batch, m, k, n, loops, monkeypatch):
    """As points that are turned, one matrix each: blocks of a product would be packed for each of them."""
    monkeypatch.setattr(small_products, "SHORTEST_VECTOR", 16)
    monkeypatch.setattr(small_products, "SMALLEST_WORK", 8)
    own = tuple(range(len(batch)))
    text = dot_text((*batch, m, k), (*batch, k, n), lb=own, rb=own, lc=(len(batch) + 1,), rc=(len(batch),))
    kernels = dot.emit(fusion_of(parse(text), "dot"), DEFAULT_CPU)
    assert (len(kernels) == 1 and not kernels[0].helpers and "vector" not in kernels[0].body) == loops


@pytest.mark.parametrize("name", ["f32", "bf16", "s32"])
def test_many_small_products_go_by_rows(name):
    """As the rotations of many bodies: a row of the loop is a product, whose operands are put together of parameters
    and whose result is scaled by a function of its own. Blocks have the same bits."""
    groups = small_products.UNROLLED_FROM
    scale = "cosine(angles)" if name == "f32" else "negate(angles)"
    text = f"""HloModule m
    ENTRY main {{ w = {name}[{groups},3] parameter(0)
    angles = {name}[{groups}] parameter(1)
    zero = {name}[] constant(0)
    zeros = {name}[{groups},1] broadcast(zero), dimensions={{}}
    x = {name}[{groups},1] slice(w), slice={{[0:{groups}],[0:1]}}
    y = {name}[{groups},1] slice(w), slice={{[0:{groups}],[1:2]}}
    z = {name}[{groups},1] slice(w), slice={{[0:{groups}],[2:3]}}
    nx = {name}[{groups},1] negate(x)
    ny = {name}[{groups},1] negate(y)
    nz = {name}[{groups},1] negate(z)
    flat = {name}[{groups},9] concatenate(zeros, nz, y, z, zeros, nx, ny, x, zeros), dimensions={{1}}
    k = {name}[{groups},3,3] reshape(flat)
    product = {name}[{groups},3,3] dot(k, k), lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, lhs_contracting_dims={{2}},
        rhs_contracting_dims={{1}}
    own = {name}[{groups}] {scale}
    scales = {name}[{groups},3,3] broadcast(own), dimensions={{0}}
    ROOT r = {name}[{groups},3,3] multiply(product, scales) }}"""
    w, angles = random(name, (groups, 3)), random(name, (groups,), 1)
    if name == "f32":
        angles *= 2e5  # not all of them moderate
    module = parse(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(small_products, "UNROLLED_FROM", groups + 1)
        blocks = Compiled(fusion_of(module, "dot"))
    rows = Compiled(fusion_of(module, "dot"))
    assert "rx_multiply_" in text_of(blocks) and "rx_multiply_" not in text_of(rows)
    if name == "f32":
        assert "fast_shifted_sine_f32(" in text_of(rows)
    assert "9 * i" in text_of(rows) and "% " not in text_of(rows)
    for got, want in zip(rows(w, angles), blocks(w, angles), strict=True):
        same_bits(got, want)


def test_many_small_products_of_complex_numbers_go_by_rows(monkeypatch):
    groups = small_products.UNROLLED_FROM
    sides = (groups, 3, 3), (groups, 3, 3)
    module = parse(dot_text(*sides, lb=(0,), rb=(0,), lc=(2,), rc=(1,), name="c64"))
    rows = Compiled(fusion_of(module, "dot"))
    monkeypatch.setattr(small_products, "UNROLLED_FROM", groups + 1)
    blocks = Compiled(fusion_of(module, "dot"))
    a, b = random("c64", sides[0]), random("c64", sides[1], 1)
    assert "9 * i" in text_of(rows) and "rx_multiply_" in text_of(blocks)
    for got, want in zip(rows(a, b), blocks(a, b), strict=True):
        same_bits(got, want)
