"""Products of bf16 by the processor's instruction for pairs: the bits that products of single numbers have."""

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from kernel_driver import Compiled, fusion_of, text_of
from refxla_spec.text import parse

import refxla
from refxla.codegen.products import gemm, small_products, words
from refxla.device.description import DEFAULT_CPU

WIDE = replace(DEFAULT_CPU, features="avx512f,avx512vl,avx512dq,avx512bw")
PAIRS = replace(DEFAULT_CPU, features=f"{WIDE.features},avx512bf16")
here = pytest.mark.skipif(
    not any("avx512bf16" in d.target.features for d in refxla.devices() if d.kind == "cpu"),
    reason="this processor does not multiply pairs of bf16",
)


@pytest.fixture(autouse=True)
def no_tiny_products(monkeypatch):
    monkeypatch.setattr(small_products, "MOST_WORK", 0)


def dot_text(m: int, k: int, n: int, stored: str = "nn", batch: int = 1, rest: str = "", result: str = "f32") -> str:
    left, lc = (f"{k},{m}", 1) if stored[0] == "t" else (f"{m},{k}", 2)
    right, rc = (f"{n},{k}", 2) if stored[1] == "t" else (f"{k},{n}", 1)
    return f"""HloModule m
    ENTRY main {{
      a = bf16[{batch},{left}] parameter(0)
      b = bf16[{batch},{right}] parameter(1)
      {rest or f"ROOT c = {result}[{batch},{m},{n}] dot(a, b)"}, lhs_batch_dims={{0}}, rhs_batch_dims={{0}},
        lhs_contracting_dims={{{lc}}}, rhs_contracting_dims={{{rc}}}
    }}"""


def numbers(text: str, kind: str) -> list[np.ndarray]:
    """Values for the parameters: normally distributed, or such that products are subnormal, operands are, sums of a
    few blocks only are, or there are zeros, infinities and NaNs."""
    rng, made = np.random.default_rng(0), []
    for p in parse(text).entry.parameters:
        x = rng.standard_normal(p.shape.dimensions).astype(np.float32)
        if kind == "products":
            x = np.ldexp(x, rng.integers(-75, -60, x.shape))
        elif kind == "operands":
            x[rng.random(x.shape) < 0.1] *= np.float32(1e-39)
        elif kind == "blocks":
            x[..., : x.shape[-1] // 2] = np.ldexp(x[..., : x.shape[-1] // 2], -64)
        elif kind == "special":
            x[rng.random(x.shape) < 0.4] = 0
            x.flat[7], x.flat[-3] = np.inf, np.nan
        made.append(x.astype(np.float32).astype(ml_dtypes.bfloat16))
    return made


def assert_same_bits(text: str, kind: str) -> None:
    fusion, values = fusion_of(parse(text), "dot"), numbers(text, kind)
    pairs, single = Compiled(fusion, PAIRS), Compiled(fusion, WIDE)
    assert "rx_multiply_pairs_wide" in text_of(pairs) and "rx_multiply_halves_wide" in text_of(pairs)
    assert "rx_multiply_pairs" not in text_of(single)
    got, want = pairs(*values)[0], single(*values)[0]
    assert got.tobytes() == want.tobytes()
    assert kind == "special" or np.isfinite(got.astype(np.float32)).all()


KINDS = ["normal", "products", "operands", "blocks", "special"]


@here
@pytest.mark.parametrize("stored", ["nn", "nt", "tn", "tt"])
@pytest.mark.parametrize("kind", KINDS)
def test_any_layout_and_ends(stored, kind):
    """Rows and columns that fill no tile, strip or panel; results of either type."""
    assert_same_bits(dot_text(45, 70, 53, stored, batch=2, result="bf16" if kind == "normal" else "f32"), kind)


@here
@pytest.mark.parametrize("kind", KINDS)
def test_several_blocks_of_segments(kind, monkeypatch):
    """Blocks of k end with segments, also where fewer terms would fill a block."""
    monkeypatch.setattr(words, "LOCAL_TERMS", 40)
    assert_same_bits(dot_text(33, 1100, 40), kind)


@here
def test_a_constant_side():
    values = ", ".join(f"{{{', '.join(str((i * j) % 7 - 3) for j in range(40))}}}" for i in range(64))
    rest = f"w = bf16[1,64,40] constant({{ {{ {values} }} }})\n ROOT c = f32[1,33,40] dot(a, w)"
    assert_same_bits(dot_text(33, 64, 40, rest=rest), "normal")


@here
def test_a_product_with_its_own_transpose():
    """Half of the result is computed."""
    text = dot_text(400, 256, 400, "nt", rest="ROOT c = f32[1,400,400] dot(a, a)")
    assert "if (columns > 0)" in text_for(text)
    assert_same_bits(text, "normal")


@here
def test_the_processor_takes_subnormal_sums_for_zeros(monkeypatch):
    """What the exponents are looked at for: without the test the sums differ."""
    text = dot_text(33, 64, 40)
    monkeypatch.setattr(gemm, "is_exact", lambda left, right: "1")
    fusion, values = fusion_of(parse(text), "dot"), numbers(text, "products")
    assert Compiled(fusion, PAIRS)(*values)[0].tobytes() != Compiled(fusion, WIDE)(*values)[0].tobytes()


def text_for(text: str) -> str:
    return text_of(Compiled(fusion_of(parse(text), "dot"), PAIRS))


@here
def test_what_has_no_pairs():
    """An odd number of terms, few rows, and operands that are computed in f32."""
    rest = """x = f32[1,33,64] convert(a)
      y = f32[1,33,64] {}
      w = f32[1,64,40] convert(b)
      ROOT c = f32[1,33,40] dot(y, w)"""
    assert "rx_multiply_pairs" in text_for(dot_text(33, 64, 40, rest=rest.format("convert(a)")))
    assert "rx_multiply_pairs" not in text_for(dot_text(33, 64, 40, rest=rest.format("add(x, x)")))
    assert "rx_multiply_pairs" not in text_for(dot_text(33, 65, 40))
    assert "rx_multiply_pairs" not in text_for(dot_text(4, 64, 40))
