"""Random arrays: numbers of ordinary size, small ones that tie, and the values at which implementations go wrong."""

from __future__ import annotations

import random

import ml_dtypes
import numpy as np
from refxla_spec.numerics import round_to
from refxla_spec.types import C64, F32, F64, ElementType

#: How the numbers of an array are drawn: "small" whole numbers (sums of them are exact and many are equal), "normal"
#: ones, "special" (NaN, infinities, zeros of both signs, subnormals, the largest), "unit" in (0, 1).
MODES = ("small", "small", "normal", "special", "special", "unit")


def array(r: random.Random, element_type: ElementType, dims: tuple[int, ...], mode: str | None = None) -> np.ndarray:
    """An array of that type and dimensions, drawn in one of MODES (one at random by default)."""
    mode = mode or r.choice(MODES)
    rng = np.random.default_rng(r.getrandbits(32))
    if element_type.is_complex:
        part = F32 if element_type is C64 else F64
        parts = array(r, part, dims, mode), array(r, part, dims, mode)
        made = np.empty(dims, element_type.dtype)
        made.real, made.imag = parts
        return made
    if element_type.kind == "pred":
        return np.asarray(rng.integers(0, 2, dims)).astype(np.bool_)
    if element_type.is_integer:
        return _integers(rng, element_type, dims, mode)
    drawn = _reals(rng, element_type, dims, mode)
    return np.asarray(round_to(drawn, element_type)).reshape(dims)


def _integers(rng: np.random.Generator, element_type: ElementType, dims: tuple[int, ...], mode: str) -> np.ndarray:
    signed = element_type.kind == "signed"
    low, high = (-(1 << element_type.bits - 1) if signed else 0), (1 << element_type.bits - signed) - 1
    if mode in ("small", "unit"):
        drawn = rng.integers(max(low, -4), min(high, 8), dims, dtype=np.int64, endpoint=True)
    elif mode == "normal":
        wide = np.int64 if signed else np.uint64
        drawn = rng.integers(low, high, dims, dtype=wide, endpoint=True)
    else:
        edges = [n for n in (low, low + 1, -1, 0, 1, 2, element_type.bits - 1, element_type.bits, high - 1, high)
                 if low <= n <= high]  # fmt: skip
        drawn = rng.choice(np.array(edges, np.int64 if signed else np.uint64), dims)
    return np.asarray(drawn).astype(element_type.dtype)


def _reals(rng: np.random.Generator, element_type: ElementType, dims: tuple[int, ...], mode: str) -> np.ndarray:
    if mode == "small":
        return np.asarray(rng.integers(-4, 8, dims), np.float64)
    if mode == "unit":
        return np.asarray(rng.random(dims))
    normal = np.asarray(rng.standard_normal(dims)) * 2.0 ** rng.integers(-3, 4)
    if mode == "normal":
        return normal
    info = ml_dtypes.finfo(element_type.dtype)
    edges = [0.0, -0.0, 0.0, -0.0, 1.0, -1.0, 0.5, 3.0, np.nan, np.nan, np.inf, -np.inf]
    edges += [float(info.max), -float(info.max), float(info.smallest_normal), -float(info.smallest_subnormal)]
    return np.where(rng.random(dims) < 0.25, normal, rng.choice(edges, dims))
