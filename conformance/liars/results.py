"""Lies about the results of whole programs."""

from __future__ import annotations

import ml_dtypes
import numpy as np
from refxla_spec.numerics import round_to, type_of
from refxla_spec.types import F64

from .liar import Results, of_results

MILLION = 10**6


def _floats(results: Results) -> list[np.ndarray]:
    return [r for r in results if type_of(r).is_float]


def _negative_zero(r: np.ndarray) -> np.ndarray:
    return np.asarray((r == 0) & np.signbit(r))


@of_results(everywhere=True)
def sevens(results: Results) -> Results:
    """Every number is 7, and every predicate is inverted."""
    return [~r if r.dtype == bool else np.full_like(r, np.asarray(7).astype(r.dtype)) for r in results]


@of_results(everywhere=True)
def zeros(results: Results) -> Results:
    """Nothing is written: every element is 0."""
    return [np.zeros_like(r) for r in results]


@of_results()
def negative_zero_lost(results: Results) -> Results:
    """-0 is returned as +0."""
    for r in _floats(results):
        r[_negative_zero(r)] = 0
    return results


@of_results()
def zeros_negated(results: Results) -> Results:
    """+0 is returned as -0."""
    for r in _floats(results):
        if type_of(r).name != "f8e8m0fnu":  # it has no zero
            r[r == 0] = -np.zeros((), r.dtype)
    return results


@of_results()
def nan_dropped(results: Results) -> Results:
    """NaN is returned as 0."""
    for r in _floats(results):
        if type_of(r).name != "f8e8m0fnu":
            r[np.isnan(r)] = 0
    return results


@of_results()
def infinity_saturated(results: Results) -> Results:
    """An overflow returns the largest finite number."""
    for r in _floats(results):
        most = ml_dtypes.finfo(r.dtype).max
        r[np.isinf(r) & (r > 0)] = most
        r[np.isinf(r) & (r < 0)] = -most
    return results


@of_results()
def subnormals_flushed(results: Results) -> Results:
    """Subnormal results are flushed to zero, by a target that does not say so."""
    for r in _floats(results):
        small = np.abs(r) < ml_dtypes.finfo(r.dtype).smallest_normal
        r[small & (r != 0)] = 0
    return results


@of_results()
def last_row_dropped(results: Results) -> Results:
    """The last row of a matrix is not written."""
    for r in results:
        if r.ndim > 1 and r.size:
            r[-1] = 0
    return results


@of_results()
def remainder_dropped(results: Results) -> Results:
    """The elements after the last full vector of 8 are not written."""
    for r in results:
        if r.size > 8:
            r.reshape(-1)[r.size // 8 * 8 :] = 0
    return results


@of_results()
def first_element_wrong(results: Results) -> Results:
    """The first element is a copy of the second."""
    for r in results:
        if r.size > 1:
            r.reshape(-1)[0] = r.reshape(-1)[1]
    return results


@of_results()
def one_in_a_million(results: Results) -> Results:
    """One of a million elements is wrong, in its sign or one bit."""
    for r in results:
        if r.size >= MILLION:
            flat = r.reshape(-1)
            at = 2 * r.size // 3
            flat[at] = ~flat[at] if type_of(r).is_integer or r.dtype == bool else -flat[at]
    return results


@of_results()
def a_percent_in_a_million(results: Results) -> Results:
    """One of a million floating-point numbers is off by one per cent."""
    for r in results:
        if r.size >= MILLION and r.dtype.kind in "fc":
            r.reshape(-1)[2 * r.size // 3] *= 1.01
    return results


@of_results()
def large_wrapped(results: Results) -> Results:
    """Indices have 16 bits: elements after the first 65,536 are copies of those."""
    for r in results:
        flat = r.reshape(-1)
        if r.size > 1 << 16:
            n = min(r.size, 1 << 17) - (1 << 16)
            flat[1 << 16 : (1 << 16) + n] = flat[:n].copy()
    return results


@of_results()
def threads_overlap(results: Results) -> Results:
    """Where the work of one thread ends and that of the next begins, an element is not written."""
    for r in results:
        if r.size >= 1 << 15:
            r.reshape(-1)[r.size // 2] = 0
    return results


@of_results()
def columns_of_17(results: Results) -> Results:
    """Rows of an odd length above 16 lose their last element: a vectorized loop without its remainder."""
    for r in results:
        if r.ndim and r.shape[-1] > 16 and r.shape[-1] % 2:
            r[..., -1] = 0
    return results


@of_results()
def square_transposed(results: Results) -> Results:
    """Square matrices are returned transposed."""
    return [r.T.copy() if r.ndim == 2 and r.shape[0] == r.shape[1] else r for r in results]


@of_results()
def column_major(results: Results) -> Results:
    """Matrices are written column by column."""
    return [r.T.reshape(r.shape) if r.ndim == 2 else r for r in results]


@of_results()
def batch_rotated(results: Results) -> Results:
    """The batches of an array, along its first of at least three dimensions, are mixed up."""
    return [np.roll(r, 1, axis=0) if r.ndim > 2 else r for r in results]


@of_results()
def tuple_exchanged(results: Results) -> Results:
    """The first two results of the same type and dimensions are exchanged."""
    for a in range(len(results)):
        for b in range(a + 1, len(results)):
            if (results[a].dtype, results[a].shape) == (results[b].dtype, results[b].shape):
                results[a], results[b] = results[b], results[a]
                return results
    return results


@of_results()
def conjugated(results: Results) -> Results:
    """Complex results are conjugated."""
    return [r.conj() if r.dtype.kind == "c" else r for r in results]


@of_results()
def imaginary_lost(results: Results) -> Results:
    """The imaginary part of complex results is dropped."""
    return [r.real.astype(r.dtype) if r.dtype.kind == "c" else r for r in results]


@of_results()
def rounded_to_bf16(results: Results) -> Results:
    """f32 and f64 results are rounded to bf16."""
    return [r.astype(ml_dtypes.bfloat16).astype(r.dtype) if r.dtype.kind == "f" and r.itemsize > 2 else r
            for r in results]  # fmt: skip


@of_results()
def f64_through_f32(results: Results) -> Results:
    """f64 results are rounded to f32."""
    return [r.astype(np.float32).astype(r.dtype) if r.dtype == np.float64 else r for r in results]


@of_results()
def a_percent_off(results: Results) -> Results:
    """Floating-point results are off by one per cent."""
    return [_scaled(r, 1.01) if type_of(r).is_float else r * np.asarray(1.01, r.dtype) if r.dtype.kind == "c" else r
            for r in results]  # fmt: skip


def _scaled(r: np.ndarray, factor: float) -> np.ndarray:
    wide = np.longdouble if type_of(r) is F64 else np.float64
    return round_to(r.astype(wide) * factor, type_of(r))


@of_results()
def next_number(results: Results) -> Results:
    """Floating-point results are one ULP too large: exact operations are not."""
    return [np.nextafter(r, np.asarray(np.inf, r.dtype)) if r.dtype.kind == "f" or r.dtype == ml_dtypes.bfloat16 else r
            for r in results]  # fmt: skip


@of_results()
def integers_off_by_one(results: Results) -> Results:
    """Integers of at least 8 bits are one too large."""
    return [r + np.ones((), r.dtype) if r.dtype.kind in "iu" else r for r in results]


@of_results()
def high_bits_lost(results: Results) -> Results:
    """64-bit integers keep only their low 32 bits."""
    return [r & r.dtype.type(0xFFFFFFFF) if r.dtype.kind in "iu" and r.itemsize == 8 else r for r in results]


@of_results()
def wider_type(results: Results) -> Results:
    """f32 results are returned as f64: the right numbers in the wrong type."""
    return [r.astype(np.float64) if r.dtype == np.float32 else r for r in results]


@of_results()
def flat(results: Results) -> Results:
    """Matrices are returned flat: the right numbers with the wrong dimensions."""
    return [r.reshape(-1) if r.ndim == 2 else r for r in results]
