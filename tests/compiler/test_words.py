"""Products of narrow integers, whose terms share words: exact, also where each term is as large as it can be."""

from dataclasses import replace

import numpy as np
import pytest
from kernel_driver import Compiled, fusion_of, text_of
from refxla_spec.text import parse

import refxla
from refxla.codegen import opencl_program
from refxla.codegen.products import gemm, small_products, words
from refxla.codegen.products.tile import Words
from refxla.device.description import DEFAULT_CPU, Target

DTYPES = {"s8": np.int8, "u8": np.uint8, "s16": np.int16, "u16": np.uint16, "s32": np.int32}
WIDE = replace(DEFAULT_CPU, features="avx512f,avx512vl,avx512dq,avx512bw")
VNNI = replace(DEFAULT_CPU, features=f"{WIDE.features},avx512vnni")


@pytest.fixture(autouse=True)
def no_tiny_products(monkeypatch):
    monkeypatch.setattr(small_products, "MOST_WORK", 0)


def on_this_machine(target: Target) -> Target:
    """The target, if some CPU device here has its features."""
    wanted = set(target.features.split(",")) - {""}
    if not any(wanted <= set(d.target.features.split(",")) for d in refxla.devices() if d.kind == "cpu"):
        pytest.skip(f"this processor has no {target.features}")
    return target


def dot_text(lhs: str, rhs: str, m: int, k: int, n: int, stored: str = "nn") -> str:
    """A dot of an lhs and an rhs of these types, stored as they are ("n") or transposed ("t")."""
    left, lc = (f"{k},{m}", 0) if stored[0] == "t" else (f"{m},{k}", 1)
    right, rc = (f"{n},{k}", 1) if stored[1] == "t" else (f"{k},{n}", 0)
    return f"""HloModule m
    ENTRY main {{
      a = {lhs}[{left}] parameter(0)
      b = {rhs}[{right}] parameter(1)
      ROOT c = s32[{m},{n}] dot(a, b), lhs_contracting_dims={{{lc}}}, rhs_contracting_dims={{{rc}}}
    }}"""


def operands(text: str, extreme: bool) -> list[np.ndarray]:
    """Random operands over the whole range, or all of the least value (of an unsigned type: the greatest)."""
    rng, made = np.random.default_rng(0), []
    for p in parse(text).entry.parameters:
        info = np.iinfo(DTYPES[str(p.shape.element_type)])
        end = info.min or info.max
        low, high = (end, end) if extreme else (info.min, info.max)
        made.append(rng.integers(low, high, p.shape.dimensions, dtype=info.dtype, endpoint=True))
    return made


def exact(text: str, stored: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    wide = (x.astype(np.int64).T if s == "t" else x.astype(np.int64) for x, s in zip((a, b), stored, strict=True))
    return np.matmul(*wide).astype(np.int32)  # which wraps around


TYPES = [("s8", "s8"), ("u8", "s8"), ("s8", "u8"), ("u8", "u8"), ("s16", "s8"), ("s16", "s16")]


SIDES = [(7, 37, 33, "nn"), (13, 64, 20, "tt"), (1, 130, 40, "nt")]


@pytest.mark.parametrize("target", [DEFAULT_CPU, WIDE, VNNI], ids=["plain", "wide", "vnni"])
@pytest.mark.parametrize(("lhs", "rhs"), TYPES)
def test_any_types_sides_and_ends(lhs, rhs, target):
    """Also where the terms fill no whole word, or lie in memory as words."""
    m, k, n, stored = SIDES[(TYPES.index((lhs, rhs)) + len(target.features)) % 3]
    text = dot_text(lhs, rhs, m, k, n, stored)
    fast = Compiled(fusion_of(parse(text), "dot"), on_this_machine(target))
    quads = target is VNNI and "s16" not in (lhs, rhs) and (lhs, rhs) != ("u8", "u8")
    assert f"rx_multiply_{'quads' if quads else 'pairs'}_" in text_of(fast)
    for extreme in (False, True):
        a, b = operands(text, extreme)
        np.testing.assert_array_equal(fast(a, b)[0], exact(text, stored, a, b))


@pytest.mark.parametrize("target", [DEFAULT_CPU, VNNI], ids=["plain", "vnni"])
@pytest.mark.parametrize(("lhs", "rhs"), TYPES)
def test_rows_that_are_adjacent_in_memory(lhs, rhs, target):
    """The copy of such a left side has whole words in strips."""
    text = dot_text(lhs, rhs, 13, 64, 20, "tn")
    fast = Compiled(fusion_of(parse(text), "dot"), on_this_machine(target))
    a, b = operands(text, False)
    np.testing.assert_array_equal(fast(a, b)[0], exact(text, "tn", a, b))


@pytest.mark.parametrize("target", [DEFAULT_CPU, VNNI], ids=["plain", "vnni"])
def test_a_product_with_its_own_transpose(target):
    """Only half of the result is computed, with the offset of one side."""
    text = dot_text("s8", "s8", 400, 512, 400, "nt").replace("(a, b)", "(a, a)")
    text = text.replace("b = s8[400,512] parameter(1)", "")
    fast = Compiled(fusion_of(parse(text), "dot"), on_this_machine(target))
    assert "if (columns > 0)" in text_of(fast)
    (a,) = operands(text, False)
    np.testing.assert_array_equal(fast(a)[0], exact(text, "nt", a, a))


@pytest.mark.parametrize("target", [DEFAULT_CPU, VNNI], ids=["plain", "vnni"])
@pytest.mark.parametrize("shared", [False, True])
def test_several_blocks_of_words(target, shared, monkeypatch):
    """What an offset adds is subtracted in each block of terms."""
    monkeypatch.setattr(words, "LOCAL_TERMS", 8)
    monkeypatch.setattr(gemm, "SHARED_ROWS", 1 if shared else 100)
    monkeypatch.setattr(gemm, "SHARED_TERMS", 100 if shared else 1)
    text = dot_text("s8", "s8", 21, 103, 50)
    fast = Compiled(fusion_of(parse(text), "dot"), on_this_machine(target))
    for extreme in (False, True):
        a, b = operands(text, extreme)
        np.testing.assert_array_equal(fast(a, b)[0], exact(text, "nn", a, b))


def test_without_the_instruction_of_the_processor(monkeypatch):
    """Where clang is not told of AVX2, the same sums are written out."""
    text = dot_text("s16", "s16", 9, 40, 33)
    fusion = fusion_of(parse(text), "dot")
    primitives = opencl_program.primitives
    monkeypatch.setattr(opencl_program, "primitives", lambda target: "#undef __AVX2__\n" + primitives(target))
    a, b = operands(text, True)
    np.testing.assert_array_equal(Compiled(fusion)(a, b)[0], exact(text, "nn", a, b))


@pytest.mark.parametrize(
    ("types", "narrow"),
    [(("s8", "s32"), True), (("u8", "s32"), True), (("u16", "s32"), False), (("s32", "s8", "s32"), True)],
)
def test_conversions_are_seen_through(types, narrow):
    """What a convert makes wider is as narrow as it was; what one makes narrower wraps around first."""
    steps = [f"{types[0]}[9,40] parameter(0)"]
    steps += [f"{name}[9,40] convert(x{n})" for n, name in enumerate(types[1:])]
    lines = "\n".join(f"x{n} = {step}" for n, step in enumerate(steps))
    text = f"""HloModule m
    ENTRY main {{
      {lines}
      b = s8[40,33] parameter(1)
      w = s32[40,33] convert(b)
      ROOT c = s32[9,33] dot(x{len(steps) - 1}, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
    }}"""
    fast = Compiled(fusion_of(parse(text), "dot"))
    assert ("rx_multiply_pairs" in text_of(fast)) == narrow
    a, b = operands(text, False)
    seen = a.astype(np.int8) if types == ("s32", "s8", "s32") else a
    np.testing.assert_array_equal(fast(a, b)[0], exact(text, "nn", seen, b))


def test_words_of_a_constant():
    matrix = np.array([[[1], [-2], [3], [-4], [5]]], np.int32).view(np.uint32)
    want = np.array([0xFC03FE01, 0x00000005], np.uint32).reshape(1, 2, 1)
    np.testing.assert_array_equal(Words(4, "s8", "s8").of_matrix(matrix), want)
