"""Programs of one dot or convolution, with arguments for them, and the comparison of the fast form with the loops."""

from __future__ import annotations

import numpy as np
from kernel_driver import Compiled, fusion_of, text_of
from refxla_spec.text import parse
from refxla_spec.types import ELEMENT_TYPES

NARROW = [name for name, t in ELEMENT_TYPES.items() if t.is_float and t.bits < 32]
DTYPES = {
    "f32": np.float32, "f64": np.float64, "s8": np.int8, "s32": np.int32, "u16": np.uint16, "u32": np.uint32,
    "s64": np.int64, "c64": np.complex64, "c128": np.complex128,
} | {name: ELEMENT_TYPES[name].dtype for name in NARROW}  # fmt: skip


SAME = {"size": 3, "low": 1, "high": 1}


def braces(values) -> str:
    return "{" + ",".join(map(str, values)) + "}"


def shape(name: str, dims) -> str:
    return f"{name}[{','.join(map(str, dims))}]"


def dot_text(lhs, rhs, lb=(), rb=(), lc=(), rc=(), name="f32", result=None) -> str:
    """A module of one dot."""
    free = [d for d in range(len(lhs)) if d not in (*lb, *lc)], [d for d in range(len(rhs)) if d not in (*rb, *rc)]
    out = [*(lhs[d] for d in lb), *(lhs[d] for d in free[0]), *(rhs[d] for d in free[1])]
    numbers = ", ".join(
        f"{key}={braces(dims)}"
        for key, dims in (
            ("lhs_batch_dims", lb),
            ("rhs_batch_dims", rb),
            ("lhs_contracting_dims", lc),
            ("rhs_contracting_dims", rc),
        )
    )
    return f"""HloModule m
    ENTRY main {{
      a = {shape(name, lhs)} parameter(0)
      b = {shape(name, rhs)} parameter(1)
      ROOT c = {shape(result or name, out)} dot(a, b), {numbers}
    }}"""


def random(name: str, dims, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    dtype = np.dtype(DTYPES[name])
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, dims, dtype=dtype, endpoint=True)
    if dtype.kind == "c":
        return (rng.standard_normal(dims) + 1j * rng.standard_normal(dims)).astype(dtype)
    return rng.standard_normal(dims).astype(dtype)


def same_bits(got: np.ndarray, want: np.ndarray) -> None:
    np.testing.assert_array_equal(got.view(np.uint8), want.view(np.uint8))


def agrees_with_loop(text: str, *args: np.ndarray, kind: str = "dot") -> np.ndarray:
    """Runs the fast form and the elementwise form; their bits are equal. Returns the first output."""
    module = parse(text)
    fast, plain = Compiled(fusion_of(module, kind)), Compiled(fusion_of(module, "loop"))
    assert "rx_multiply_" in text_of(fast), "this is not the fast form"
    results = fast(*args)
    for got, want in zip(results, plain(*args), strict=True):
        same_bits(np.atleast_1d(got), np.atleast_1d(want))
    return results[0]


def count(size: int, w: dict) -> int:
    """The placings of a window in one dimension."""
    dilated = max(0, (size - 1) * w.get("base", 1) + 1 if size else 0) + w.get("low", 0) + w.get("high", 0)
    window = (w["size"] - 1) * w.get("dilation", 1) + 1
    return 0 if dilated < window else (dilated - window) // w.get("stride", 1) + 1


def window_text(window: list[dict]) -> str:
    def field(name, key, default):
        return f"{name}=" + "x".join(str(w.get(key, default)) for w in window)

    pad = "pad=" + "x".join(f"{w.get('low', 0)}_{w.get('high', 0)}" for w in window)
    fields = [field("size", "size", 1), field("stride", "stride", 1), pad, field("lhs_dilate", "base", 1)]
    fields += [field("rhs_dilate", "dilation", 1), field("rhs_reversal", "reversal", 0)]
    return "window={" + " ".join(fields) + "}" if window else "window={}"


def convolution_text(lhs, rhs, window, labels, name="f32", groups=1, batch_groups=1) -> str:
    """A module of one convolution; lhs and rhs map each letter of their labels to a size."""
    left, rest = labels.split("_")
    right, out = rest.split("->")
    sizes = {"b": lhs["b"] // batch_groups, "f": rhs["o"]}
    sizes |= {str(d): count(lhs[str(d)], w) for d, w in enumerate(window)}

    def dims(order, by):
        return ",".join(str(by[c]) for c in order)

    return f"""HloModule m
    ENTRY main {{
      a = {name}[{dims(left, lhs)}] parameter(0)
      b = {name}[{dims(right, rhs)}] parameter(1)
      ROOT c = {name}[{dims(out, sizes)}] convolution(a, b), {window_text(window)}, dim_labels={labels},
        feature_group_count={groups}, batch_group_count={batch_groups}
    }}"""
