"""Lies that show only on rare operands: non-finite numbers, and many digits, elements, batches or dimensions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import ml_dtypes
import numpy as np
from refxla_spec.module import Instruction, Module
from refxla_spec.numerics import round_to, type_of
from refxla_spec.types import ELEMENT_TYPES, F32, Value

from ..targets.base import leaves
from ..targets.reference import Reference
from .liar import Lie, Results, of_operation, of_results, of_target

Array = np.ndarray
# The operations on floats that are not elementwise: each has cases whose operands hold NaN and infinities.
STRUCTURED = (
    "batch-norm-grad", "batch-norm-inference", "batch-norm-training", "broadcast", "cholesky", "concatenate",
    "convolution", "copy", "dot", "dynamic-slice", "dynamic-update-slice", "fft", "gather", "pad", "ragged-dot",
    "reduce", "reduce-window", "reshape", "reverse", "scaled-dot", "scan", "scatter", "select-and-scatter", "slice",
    "sort", "topk", "transpose", "triangular-solve",
)  # fmt: skip
SUITE_AND_CHECK = ("suite", "check")


def _is_number(x: Value) -> bool:
    return isinstance(x, np.ndarray) and (type_of(x).is_float or type_of(x).is_complex)


# What is no finite number.


def _without(is_special: Callable[[Array], Array], other: Callable[[Array], Array | float]) -> Lie:
    """A lie that replaces special operands x by other(x)."""

    def lie(truth: Lie, i: Instruction, *operands: Value) -> Value:
        changed = [np.where(is_special(x), other(x), x).astype(x.dtype) if _is_number(x) else x for x in operands]
        return truth(i, *changed)

    return lie


def _zeros(x: Array) -> Array:
    return np.zeros((), np.float64).astype(x.dtype)


def _largest(x: Array) -> Array:
    most = np.asarray(ml_dtypes.finfo(x.dtype).max)
    return np.where(np.signbit(x.real), -most, most)


_nan_for_zero = _without(np.isnan, _zeros)
_infinity_for_zero = _without(np.isinf, _zeros)
_infinity_for_largest = _without(lambda x: np.isinf(x) & (not np.iscomplexobj(x)), _largest)


@of_operation(*STRUCTURED)
def nan_read_as_zero(truth: Lie, i: Instruction, *operands: Value) -> Value:
    """NaN among the operands of a structured operation is treated as 0."""
    return _nan_for_zero(truth, i, *operands)


@of_operation(*STRUCTURED)
def infinity_read_as_zero(truth: Lie, i: Instruction, *operands: Value) -> Value:
    """Infinities among the operands of a structured operation are treated as 0."""
    return _infinity_for_zero(truth, i, *operands)


@of_operation("dot", "convolution", "reduce", "reduce-window", "gather", "scatter", "transpose")
def infinity_read_as_the_largest(truth: Lie, i: Instruction, *operands: Value) -> Value:
    """Infinities among the operands of a structured operation are treated as the largest finite numbers."""
    return _infinity_for_largest(truth, i, *operands)


@of_operation("dot", "convolution")
def zeros_skipped(truth: Lie, i: Instruction, a: Array, b: Array) -> Value:
    """Products with 0 are left out of a sum, as if it were sparse: 0 times an infinity is 0."""
    value = truth(i, a, b)
    if not (type_of(a).is_float and type_of(b).is_float and type_of(value).is_float):
        return value
    finite = truth(i, *(np.where(np.isfinite(x), x, _zeros(x)).astype(x.dtype) for x in (a, b)))
    ones = [np.where(np.isnan(x), 1, np.where(np.isinf(x), 1, 0)).astype(x.dtype) for x in (a, b)]
    sizes = [np.where(x == 0, 0, 1).astype(x.dtype) for x in (a, b)]
    touched = (truth(i, ones[0], sizes[1]) != 0) | (truth(i, sizes[0], ones[1]) != 0)
    return np.where(np.isnan(value) & ~touched, finite, value)


# Constants.


def _rewritten(change: Callable[[Array], Array]) -> Lie:
    return lambda truth, i: change(truth(i)) if isinstance(truth(i), np.ndarray) else truth(i)


@of_operation("constant")
def constants_of_six_digits(truth: Lie, i: Instruction) -> Value:
    """Constants are written into a kernel with six digits."""

    def short(x: Array) -> Array:
        if type_of(x).is_complex:
            return (short(np.array(x.real)) + 1j * short(np.array(x.imag))).astype(x.dtype)
        if not type_of(x).is_float or not np.isfinite(x.astype(np.float64)).any():
            return x
        numbers = np.array([float(f"{v:.6g}") for v in x.astype(np.float64).flat]).reshape(x.shape)
        return np.where(np.isfinite(x.astype(np.float64)), round_to(numbers, type_of(x)), x)

    return _rewritten(short)(truth, i)


@of_operation("constant")
def constants_through_f32(truth: Lie, i: Instruction) -> Value:
    """Constants of f64 and c128 are rounded to f32."""
    narrow = {"f64": np.float32, "c128": np.complex64}
    return _rewritten(lambda x: x.astype(narrow.get(type_of(x).name, x.dtype)).astype(x.dtype))(truth, i)


@of_operation("constant")
def constants_through_f64(truth: Lie, i: Instruction) -> Value:
    """Constants of s64 and u64 are rounded to f64, which has 53 bits."""

    def rounded(x: Array) -> Array:
        if type_of(x).name not in ("s64", "u64"):
            return x
        wide = x.astype(np.float64)
        return np.where(np.abs(wide) < 2.0**63, np.where(np.abs(wide) < 2.0**63, wide, 0).astype(x.dtype), x)

    return _rewritten(rounded)(truth, i)


@of_operation("constant")
def large_constants_splat(truth: Lie, i: Instruction) -> Value:
    """All elements of a constant of more than 64 elements equal the first."""
    return _rewritten(lambda x: np.full_like(x, x.flat[0]) if x.size > 64 else x)(truth, i)


@of_operation("constant")
def nearly_splat(truth: Lie, i: Instruction) -> Value:
    """A constant whose first and last elements are equal is treated as a splat."""

    def equal(x: Array) -> Array:
        same = x.size > 2 and bool(x.flat[0] == x.flat[-1])
        return np.full_like(x, x.flat[0]) if same else x

    return _rewritten(equal)(truth, i)


# Digits.


@of_operation("convert")
def integers_by_way_of_f64(truth: Lie, i: Instruction, a: Array) -> Value:
    """s64 and u64 are converted to f32 or narrower types through f64, which rounds twice."""
    both = type_of(a).name in ("s64", "u64") and i.shape.element_type.is_float
    return truth(i, a.astype(np.float64) if both else a)


@of_operation("convert")
def integers_by_way_of_f32(truth: Lie, i: Instruction, a: Array) -> Value:
    """32-bit integers are converted to bf16 or narrower types through f32, which rounds twice."""
    both = type_of(a).is_integer and type_of(a).bits == 32 and i.shape.element_type.is_float
    return truth(i, a.astype(np.float32) if both and i.shape.element_type.bits <= 16 else a)


@of_operation("convert")
def eight_bits_by_way_of_sixteen(truth: Lie, i: Instruction, a: Array) -> Value:
    """A conversion of f32 to an 8-bit type goes through bf16."""
    both = type_of(a) is F32 and i.shape.element_type.is_float and i.shape.element_type.bits <= 8
    return truth(i, round_to(a, ELEMENT_TYPES["bf16"]) if both else a)


@of_operation("power", tools=SUITE_AND_CHECK)
def sign_of_large_odd_powers(truth: Lie, i: Instruction, a: Array, b: Array) -> Value:
    """A power with an exponent beyond 2^16 is never negative: the exponent is assumed to be even."""
    value = truth(i, a, b)
    if not type_of(a).is_float:
        return value
    return np.where(np.abs(b.astype(np.float64)) > 2.0**16, np.abs(value), value)


@of_operation(
    "tanh", "erf", "exponential", "log", "logistic", "sine", "cosine", "sqrt", "rsqrt", "cbrt", "log-plus-one"
)
def wrong_stretch(truth: Lie, i: Instruction, a: Array) -> Value:
    """A function is off by 17 units in the last place between 5 and 6 and between -6 and -5, where its polynomial is
    that of another stretch."""
    value = truth(i, a)
    if value.dtype.kind != "f":
        return value
    inside, moved = (np.abs(a) > 5) & (np.abs(a) < 6), value
    for _ in range(17):
        moved = np.nextafter(moved, np.zeros((), value.dtype))
    return np.where(inside, moved, value)


# Elements, batches, dimensions.


@of_operation("iota", tools=SUITE_AND_CHECK)
def iota_counts_in_f32(truth: Lie, i: Instruction) -> Value:
    """iota counts in f32 by adding 1, which stops at 2^24."""
    value, limit = truth(i), 1 << 24
    if value.shape[i.iota_dimension] <= limit or value.dtype.kind not in "iuf":
        return value
    return np.minimum(value, np.asarray(limit).astype(value.dtype))


@of_operation("reduce")
def last_of_an_odd_sum(truth: Lie, i: Instruction, *values: Array) -> Value:
    """A sum of one array of an odd number of more than 32,768 elements leaves out the last one."""
    x = values[0]
    if len(values) != 2 or x.ndim != 1 or x.size <= 1 << 15 or x.size % 2 == 0 or not type_of(x).is_float:
        return truth(i, *values)
    return truth(i, x[:-1], values[1])


@of_operation("dot")
def last_of_an_odd_product(truth: Lie, i: Instruction, a: Array, b: Array) -> Value:
    """A product of vectors of more than 32,768 elements, an odd number, leaves out the last ones."""
    if a.ndim != 1 or b.ndim != 1 or not i.lhs_contracting_dims or a.size <= 1 << 15 or a.size % 2 == 0:
        return truth(i, a, b)
    return truth(i, a[:-1], b[:-1])


@of_operation("dot", "fft", "cholesky", "triangular-solve", "convolution", "sort", "topk", "gather")
def batches_of_eight(truth: Lie, i: Instruction, *operands: Value) -> Value:
    """The batches along the first dimension are counted modulo 8: the ninth is a copy of the first."""
    value = truth(i, *operands)
    if i.opcode == "dot" and not i.lhs_batch_dims:
        return value
    return _modulo(value, 8)


def _modulo(value: Value, n: int) -> Value:
    if isinstance(value, tuple):
        return tuple(_modulo(v, n) for v in value)
    return value[np.arange(len(value)) % n] if value.ndim > 1 and len(value) > n else value


@of_results()
def six_dimensions(results: Results) -> Results:
    """Indices are made for six dimensions: of results with more the first one is taken the other way round."""
    return [np.ascontiguousarray(r[::-1] if r.shape[0] > 1 else r[:, ::-1]) if r.ndim > 6 else r for r in results]


# Several calls.


class _Remembering(Reference):
    """The reference, with a memory of results by what `key` says of an argument."""

    def __init__(self, key: Callable[[Array], object]) -> None:
        self.key = key

    def load(self, module: Module) -> Callable[[Sequence[Value]], Results]:
        cache: dict[object, Results] = {}

        def call(arguments: Sequence[Value]) -> Results:
            key = tuple(self.key(np.asarray(a)) for a in leaves(list(arguments)) if a is not None)
            if key not in cache:
                cache[key] = Reference.run(self, module, arguments)
            return [np.array(r) for r in cache[key]]

        return call


@of_target()
class KnownByFirst(_Remembering):
    """A result is kept for arguments of the same dimensions and the same first element."""

    def __init__(self) -> None:
        super().__init__(lambda a: (a.shape, a.reshape(-1)[:1].tobytes()))


@of_target()
class KnownBySum(_Remembering):
    """A result is kept for arguments whose bytes have the same sum."""

    def __init__(self) -> None:
        super().__init__(lambda a: (a.shape, int(np.frombuffer(a.tobytes(), np.uint8).sum(dtype=np.int64))))
