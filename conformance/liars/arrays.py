"""Lies about sorting, random numbers, linear algebra, and collectives."""

from __future__ import annotations

import numpy as np
from refxla_spec.module import Instruction
from refxla_spec.types import Value

from .liar import SUITE_ALONE, Lie, context, of_operation, with_attributes

Array = np.ndarray

# Sorting.


@of_operation("sort")
def sort_unstable(truth: Lie, i: Instruction, *operands: Array) -> Value:
    """A stable sort reverses the order of equal elements."""
    (d,) = i.dimensions
    return truth(i, *(np.flip(o, d) for o in operands))


@of_operation("sort")
def sort_descending(truth: Lie, i: Instruction, *operands: Array) -> Value:
    """A sort has the opposite order."""
    value, (d,) = truth(i, *operands), i.dimensions
    return tuple(np.flip(v, d) for v in value) if isinstance(value, tuple) else np.flip(value, d)


@of_operation("sort")
def only_keys_sorted(truth: Lie, i: Instruction, *operands: Array) -> Value:
    """A sort of keys with values does not move the last values."""
    value = truth(i, *operands)
    return (*value[:-1], operands[-1]) if isinstance(value, tuple) and len(value) > 1 else value


@of_operation("sort")
def rows_sorted_as_one(truth: Lie, i: Instruction, *operands: Array) -> Value:
    """A square array is sorted along its other dimension."""
    square = operands[0].ndim == 2 and operands[0].shape[0] == operands[0].shape[1]
    return truth(with_attributes(i, dimensions=(1 - i.dimensions[0],)) if square else i, *operands)


@of_operation("topk")
def top_of_equals(truth: Lie, i: Instruction, x: Array) -> Value:
    """topk returns the index of the last of equal elements."""
    values, indices = truth(i, x[..., ::-1])
    return values, np.asarray(x.shape[-1] - 1 - indices, np.int32)


@of_operation("topk")
def top_drops_nan(truth: Lie, i: Instruction, x: Array) -> Value:
    """topk does not treat NaN as the largest value."""
    if x.dtype.kind != "f":
        return truth(i, x)
    values, indices = truth(i, np.where(np.isnan(x), np.asarray(-np.inf, x.dtype), x))
    return values, indices


# Random numbers.


@of_operation("rng-bit-generator")
def state_not_advanced(truth: Lie, i: Instruction, state: Array) -> Value:
    """The state of the random number generator is returned unchanged: the next numbers are the same."""
    value = truth(i, state)
    return (state.copy(), *value[1:])


@of_operation("rng", "rng-get-and-update-state")
def hidden_state_not_advanced(truth: Lie, i: Instruction, *operands: Array) -> Value:
    """The hidden state of the random number generator does not advance."""
    state = context(truth, "state")
    before = state.counter
    value = truth(i, *operands)
    state.counter = before
    return value


@of_operation("rng", "rng-bit-generator")
def lanes_repeat(truth: Lie, i: Instruction, *operands: Array) -> Value:
    """The second half of random numbers repeats the first."""
    value = truth(i, *operands)
    drawn = np.array(value[1] if isinstance(value, tuple) else value)
    flat, half = drawn.reshape(-1), drawn.size // 2
    flat[half : 2 * half] = flat[:half].copy()
    return (value[0], drawn) if isinstance(value, tuple) else drawn


@of_operation("rng")
def distribution_ignored(truth: Lie, i: Instruction, a: Array, b: Array) -> Value:
    """Random numbers lie between 0 and 1, regardless of their bounds."""
    return truth(i, np.zeros_like(a), np.ones_like(b))


# Linear algebra.


@of_operation("cholesky")
def other_triangle(truth: Lie, i: Instruction, a: Array) -> Value:
    """cholesky reads and writes the other triangle."""
    return truth(with_attributes(i, lower=not i.lower), a)


@of_operation("cholesky")
def last_column_not_updated(truth: Lie, i: Instruction, a: Array) -> Value:
    """cholesky does not update its last diagonal element."""
    value = np.array(truth(i, a))
    if value.size and value.shape[-1] > 1:
        value[..., -1, -1] = np.sqrt(a[..., -1, -1].real)
    return value


@of_operation("triangular-solve")
def diagonal_of_ones(truth: Lie, i: Instruction, a: Array, b: Array) -> Value:
    """triangular-solve always assumes a unit diagonal."""
    return truth(with_attributes(i, unit_diagonal=True), a, b)


@of_operation("triangular-solve")
def transpose_of_a_ignored(truth: Lie, i: Instruction, a: Array, b: Array) -> Value:
    """triangular-solve does not transpose its matrix."""
    return truth(with_attributes(i, transpose_a="NO_TRANSPOSE"), a, b)


@of_operation("triangular-solve")
def adjoint_without_conjugate(truth: Lie, i: Instruction, a: Array, b: Array) -> Value:
    """triangular-solve with the adjoint does not conjugate."""
    other = "TRANSPOSE" if i.transpose_a == "ADJOINT" else i.transpose_a
    return truth(with_attributes(i, transpose_a=other), a, b)


@of_operation("triangular-solve")
def other_side(truth: Lie, i: Instruction, a: Array, b: Array) -> Value:
    """triangular-solve with a square right-hand side solves from the other side."""
    square = b.shape[-1] == b.shape[-2]
    return truth(with_attributes(i, left_side=not i.left_side) if square else i, a, b)


@of_operation("fft")
def not_normalised(truth: Lie, i: Instruction, x: Array) -> Value:
    """The inverse transform is not divided by the number of elements."""
    value = truth(i, x)
    factor = np.prod(i.fft_length) if i.fft_type in ("IFFT", "IRFFT") else 1
    return (value * value.dtype.type(factor)).astype(value.dtype)


@of_operation("fft")
def inverse_for_forward(truth: Lie, i: Instruction, x: Array) -> Value:
    """A transform has the wrong sign in its exponent."""
    value = truth(i, x.conj() if x.dtype.kind == "c" else x)
    return value.conj() if value.dtype.kind == "c" else value


@of_operation("fft")
def one_dimension_alone(truth: Lie, i: Instruction, x: Array) -> Value:
    """A transform of several dimensions leaves out the first."""
    if len(i.fft_length) < 2 or i.fft_type not in ("FFT", "IFFT"):
        return truth(i, x)
    return truth(with_attributes(i, fft_length=tuple(i.fft_length)[1:]), x)


@of_operation("batch-norm-training")
def variance_of_a_sample(truth: Lie, i: Instruction, *operands: Array) -> Value:
    """The variance is divided by n - 1."""
    output, mean, variance = truth(i, *operands)
    n = operands[0].size // max(1, operands[1].size)
    return output, mean, (variance * variance.dtype.type(n / max(1, n - 1))).astype(variance.dtype)


@of_operation("batch-norm-training", "batch-norm-inference", "batch-norm-grad")
def epsilon_ignored(truth: Lie, i: Instruction, *operands: Array) -> Value:
    """epsilon is not added to the variance."""
    return truth(with_attributes(i, epsilon=0.0), *operands)


@of_operation("batch-norm-training", "batch-norm-inference")
def offset_ignored(truth: Lie, i: Instruction, x: Array, scale: Array, offset: Array, *rest: Array) -> Value:
    """The offset is left out."""
    return truth(i, x, scale, np.zeros_like(offset), *rest)


@of_operation("batch-norm-grad")
def gradient_without_mean(truth: Lie, i: Instruction, *operands: Array) -> Value:
    """The gradient leaves out the term that passes through the mean."""
    return truth(i, operands[0], operands[1], np.zeros_like(operands[2]), *operands[3:])


@of_operation("custom-call")
def factors_exchanged(truth: Lie, i: Instruction, *operands: Value) -> Value:
    """The first two results of a custom call of the same type and dimensions are exchanged."""
    value = truth(i, *operands)
    if not isinstance(value, tuple) or len(value) < 2:
        return value
    a, b, *rest = value
    return (b, a, *rest) if np.shape(a) == np.shape(b) and a.dtype == b.dtype else value


@of_operation("custom-call")
def custom_call_of_zeros(truth: Lie, i: Instruction, *operands: Value) -> Value:
    """A custom call writes nothing: every result is 0."""
    value = truth(i, *operands)
    parts = value if isinstance(value, tuple) else (value,)
    zeros = tuple(None if v is None else np.zeros_like(v) for v in parts)
    return zeros if isinstance(value, tuple) else zeros[0]


# Several devices.

SUMS = ("all-reduce", "reduce-scatter", "all-reduce-start")


@of_operation(*SUMS, tools=SUITE_ALONE)
def last_device_left_out(truth: Lie, i: Instruction, *operands: Array) -> Value:
    """The last device of a group contributes zeros to a sum."""
    device = context(truth, "device")
    last = device.group(i)[-1:] == (device.number,) and device.number > 0
    return truth(i, *(np.zeros_like(o) if last else o for o in operands))


@of_operation("all-gather", "all-to-all", tools=SUITE_ALONE)
def devices_in_reverse(truth: Lie, i: Instruction, *operands: Array) -> Value:
    """The contributions of the devices are concatenated in the wrong order."""
    value = truth(i, *operands)
    d = (i.dimensions or (0,))[0]
    return value[::-1] if isinstance(value, tuple) else np.flip(value, d)


@of_operation("collective-permute", tools=SUITE_ALONE)
def permute_keeps(truth: Lie, i: Instruction, *operands: Array) -> Value:
    """A device that receives nothing keeps its own value instead of zeros."""
    value, device = truth(i, *operands), context(truth, "device")
    if i.slice_sizes:
        return value
    arrives = any(device.number == p[1] for p in device.pairs(i, i.source_target_pairs))
    return value if arrives else operands[0] if len(operands) == 1 else operands


@of_operation("replica-id", "partition-id", tools=SUITE_ALONE)
def every_device_is_the_first(truth: Lie, i: Instruction) -> Value:
    """Every device has the number of the first."""
    return np.zeros_like(truth(i))
