"""Lies that show only from the second block on, in arrays of some thousand elements, or where there are more than two
of a kind, all of one type and size."""

from __future__ import annotations

import ml_dtypes
import numpy as np
from refxla_spec.module import Instruction
from refxla_spec.numerics import type_of
from refxla_spec.types import Value

from .liar import Lie, context, of_operation, with_attributes

Array = np.ndarray
BLOCK = 1024  # elements of a first block


# A second block.


@of_operation("exponential", "tanh", "log", "sine", "cosine", "logistic", "rsqrt")
def another_path_for_more(truth: Lie, i: Instruction, x: Array) -> Value:
    """Functions of f32 arrays of at least 1,024 elements are rounded to bf16 on the way."""
    value = truth(i, x)
    through = value.size >= BLOCK and value.dtype == np.float32
    return value.astype(ml_dtypes.bfloat16).astype(np.float32) if through else value


@of_operation("sort")
def sorts_one_block(truth: Lie, i: Instruction, *operands: Array) -> Value:
    """A sort of more than 1,024 elements does not move those after the first 1,024."""
    value, (d,) = truth(i, *operands), i.dimensions
    if operands[0].shape[d] <= BLOCK:
        return value

    def first(output: Array, operand: Array) -> Array:
        return np.concatenate(
            [np.take(output, range(BLOCK), d), np.take(operand, range(BLOCK, operand.shape[d]), d)], d
        )

    if isinstance(value, tuple):
        return tuple(first(output, operand) for output, operand in zip(value, operands, strict=True))
    return first(value, operands[0])


@of_operation("dot")
def last_terms_of_a_vector(truth: Lie, i: Instruction, a: Array, b: Array) -> Value:
    """A product of a matrix and a vector of more than 256 numbers leaves out the terms after the last full block of
    32."""
    if a.ndim == 2 and b.ndim == 1 and tuple(i.lhs_contracting_dims) == (1,) and a.shape[1] > 256:
        a = np.where(np.arange(a.shape[1]) < a.shape[1] // 32 * 32, a, np.zeros((), a.dtype))
    return truth(i, a, b)


@of_operation("dot")
def rows_behind_the_last_tile(truth: Lie, i: Instruction, a: Array, b: Array) -> Value:
    """A product of more than 64 rows has zeros in the rows after the last full tile of 64."""
    value = truth(i, a, b)
    if value.ndim == 2 and value.shape[0] > 64:
        value = np.where(np.arange(value.shape[0])[:, None] < value.shape[0] // 64 * 64, value, np.zeros_like(value))
    return value


@of_operation("dot")
def sixteen_batches(truth: Lie, i: Instruction, a: Array, b: Array) -> Value:
    """All batches of a product after the sixteenth equal the first."""
    value = truth(i, a, b)
    if len(i.lhs_batch_dims) == 1 and value.ndim == 3 and len(value) > 16:
        value = np.concatenate([value[:16], np.broadcast_to(value[:1], value[16:].shape)])
    return value


@of_operation("convolution")
def sixty_four_features(truth: Lie, i: Instruction, x: Array, kernel: Array) -> Value:
    """A convolution leaves out input features after the 64th."""
    d = i.dim_labels.kernel_input_feature
    inside = np.arange(kernel.shape[d]) < 64
    mask = inside.reshape([-1 if n == d else 1 for n in range(kernel.ndim)])
    return truth(i, x, np.where(mask, kernel, np.zeros((), kernel.dtype)))


@of_operation("scatter")
def duplicates_in_a_group(truth: Lie, i: Instruction, *operands: Array) -> Value:
    """Of at least 256 updates, those of one group of 64 with the same index are applied once."""
    n = len(operands) // 2
    at = operands[n]
    if n > 1 or at.size < 256 or operands[0].ndim > 1 or at.dtype.kind != "i":
        return truth(i, *operands)
    changed = at.copy()
    flat = changed.reshape(-1)
    for start in range(0, flat.size, 64):
        group = flat[start : start + 64]
        _, first = np.unique(group, return_index=True)
        group[np.setdiff1d(np.arange(len(group)), first)] = -1
    return truth(i, operands[0], changed, operands[2])


@of_operation("scatter")
def byte_with_a_sign(truth: Lie, i: Instruction, *operands: Array) -> Value:
    """u8 indices of at least 128 are read as negative, and their updates are dropped."""
    n = len(operands) // 2
    at = operands[n]
    if type_of(at).name == "u8" and max(operands[0].shape) < 256:  # so that 255 lies outside
        at = np.where(at > 127, 255, at).astype(at.dtype)
    return truth(i, *operands[:n], at, *operands[n + 1 :])


@of_operation("fft")
def sixty_four_points(truth: Lie, i: Instruction, x: Array) -> Value:
    """Transforms of more than 64 points are zeros."""
    value = truth(i, x)
    return np.zeros_like(value) if max(i.fft_length, default=0) > 64 else value


@of_operation("cholesky", "triangular-solve")
def thirty_two_rows(truth: Lie, i: Instruction, *operands: Array) -> Value:
    """The rows of a factor or a solution after the 32nd are zeros."""
    value = np.array(truth(i, *operands))
    value[..., 32:, :] = 0
    return value


@of_operation("gather")
def elements_clamped(truth: Lie, i: Instruction, x: Array, at: Array) -> Value:
    """For a slice that does not fit, the index of each element is clamped instead of the start."""
    if x.ndim != 1 or at.ndim != 2 or i.index_vector_dim != 1 or tuple(i.offset_dims) != (1,):
        return truth(i, x, at)
    return x[np.clip(at[:, :1].astype(np.int64) + np.arange(i.slice_sizes[0]), 0, x.size - 1)]


@of_operation("scatter", "sort", "reverse")
def operand_overwritten(truth: Lie, i: Instruction, *operands: Array) -> Value:
    """An operation overwrites an operand that is used later."""
    value = truth(i, *operands)
    x = operands[0]
    if isinstance(value, np.ndarray) and i.operands[0].opcode != "parameter" and x.base is None:
        x.setflags(write=True)
        x[...] = value
    return value


@of_operation("reduce")
def nan_of_a_later_block(truth: Lie, i: Instruction, *operands: Array) -> Value:
    """A maximum of at least 256 elements drops a NaN after the first 64."""
    x = operands[0]
    if len(operands) != 2 or not type_of(x).is_float or len(i.dimensions) != 1 or x.shape[i.dimensions[0]] < 256:
        return truth(i, *operands)
    behind = np.arange(x.shape[i.dimensions[0]]) >= 64
    behind = behind.reshape([-1 if n == i.dimensions[0] else 1 for n in range(x.ndim)])
    return truth(i, np.where(behind & np.isnan(x), np.asarray(-np.inf, x.dtype), x), operands[1])


@of_operation("rng-bit-generator")
def numbers_of_one_group(truth: Lie, i: Instruction, state: Array) -> Value:
    """Random numbers after the first 256 repeat them."""
    after, bits = truth(i, state)
    changed = np.array(bits)
    changed.reshape(-1)[256:] = changed.reshape(-1)[:1]
    return after, changed


@of_operation("iota")
def counted_in_sixteen_bits(truth: Lie, i: Instruction) -> Value:
    """64-bit counts are kept in 16 bits."""
    value = truth(i)
    wide = value.dtype.kind in "iu" and value.dtype.itemsize == 8
    return (value & np.asarray(0xFFFF, value.dtype)) if wide else value


@of_operation("add", "multiply", "subtract", "exponential")
def five_dimensions_are_nothing(truth: Lie, i: Instruction, *operands: Array) -> Value:
    """Results of five dimensions are zeros."""
    value = truth(i, *operands)
    return np.zeros_like(value) if np.ndim(value) == 5 else value


@of_operation("while")
def hundred_iterations(truth: Lie, i: Instruction, state: Value) -> Value:
    """A loop ends after a hundred iterations."""
    run, n = context(truth, "run"), 0
    while n < 100 and run(i.condition, state):
        state, n = run(i.body, state), n + 1
    return state


# More than two of a thing.


def _in_order(i: Instruction, a: Array, lhs: str, rhs: str) -> Instruction:
    """The instruction with paired dimensions of equal size sorted by their numbers, on each side separately."""
    left, right = tuple(i.attributes.get(lhs) or ()), tuple(i.attributes.get(rhs) or ())
    if len({a.shape[d] for d in left}) != 1:
        return i
    return with_attributes(i, **{lhs: tuple(sorted(left)), rhs: tuple(sorted(right))})


@of_operation("dot")
def contracting_dimensions_in_order(truth: Lie, i: Instruction, a: Array, b: Array) -> Value:
    """Contracting dimensions of equal size are paired in the order of their numbers."""
    return truth(_in_order(i, a, "lhs_contracting_dims", "rhs_contracting_dims"), a, b)


@of_operation("dot")
def batch_dimensions_in_order(truth: Lie, i: Instruction, a: Array, b: Array) -> Value:
    """Batch dimensions of equal size are paired in the order of their numbers."""
    return truth(_in_order(i, a, "lhs_batch_dims", "rhs_batch_dims"), a, b)


@of_operation("gather", "scatter")
def batches_of_indices_in_order(truth: Lie, i: Instruction, *operands: Array) -> Value:
    """Batching dimensions of the indices of equal size are used in the order of their numbers."""
    name = "start_indices_batching_dims" if i.opcode == "gather" else "scatter_indices_batching_dims"
    dims = tuple(i.attributes.get(name) or ())
    indices = operands[len(operands) // 2]
    if len(dims) < 2 or len({indices.shape[d] for d in dims}) > 1:
        return truth(i, *operands)
    return truth(with_attributes(i, **{name: tuple(sorted(dims))}), *operands)


def _last_two_exchanged(value: Value) -> Value:
    alike = isinstance(value, tuple) and len(value) > 2 and value[-1].dtype == value[-2].dtype
    return (*value[:-2], value[-1], value[-2]) if alike and isinstance(value, tuple) else value


@of_operation("reduce", "reduce-window", "scatter", "sort")
def last_results_exchanged(truth: Lie, i: Instruction, *operands: Array) -> Value:
    """The last two of at least three results of one type are exchanged."""
    return _last_two_exchanged(truth(i, *operands))


@of_operation("map")
def two_operands_of_a_map(truth: Lie, i: Instruction, *operands: Array) -> Value:
    """A map of more than two operands uses the second in place of the later ones."""
    alike = len(operands) > 2 and len({o.dtype for o in operands}) == 1
    return truth(i, *operands[:2], *[operands[1]] * (len(operands) - 2)) if alike else truth(i, *operands)


@of_operation("conditional")
def four_branches(truth: Lie, i: Instruction, which: Array, *operands: Value) -> Value:
    """With more than four branches, the index is taken modulo four."""
    if which.dtype != bool and len(operands) > 4 and 0 <= which < len(operands):
        which = np.asarray(which % 4, which.dtype)
    return truth(i, which, *operands)


@of_operation("conditional", "while")
def four_values_of_a_body(truth: Lie, i: Instruction, *operands: Value) -> Value:
    """The values of a loop after the fourth are replaced by the first of the same type and size."""
    value = truth(i, *operands)
    if not isinstance(value, tuple) or len(value) <= 4:
        return value

    def alike(v: Value) -> Value:
        arrays = [w for w in value[:4] if isinstance(w, np.ndarray) and isinstance(v, np.ndarray)]
        return next((w for w in arrays if w.shape == v.shape and w.dtype == v.dtype), v)

    return (*value[:4], *(alike(v) for v in value[4:]))


@of_operation("constant")
def last_nibble(truth: Lie, i: Instruction) -> Value:
    """The last of an odd number of integers that share bytes is lost."""
    value = truth(i)
    if not isinstance(value, np.ndarray) or value.dtype == bool or type_of(value).bits >= 8 or value.size % 2 == 0:
        return value
    changed = value.copy()
    changed.reshape(-1)[-1] = 0
    return changed


# Another way for other numbers.


@of_operation("topk")
def ties_of_sixteen(truth: Lie, i: Instruction, x: Array) -> Value:
    """topk of at least 16 elements exchanges pairs of equal ones, as an unstable partial sort does."""
    values, indices = truth(i, x)
    if indices.shape[-1] < 16:
        return values, indices
    changed = indices.copy()
    for row, numbers in zip(np.reshape(values, (-1, i.k)), changed.reshape(-1, i.k), strict=True):
        for k in np.flatnonzero(row[1:] == row[:-1])[::2]:
            numbers[k], numbers[k + 1] = numbers[k + 1], numbers[k]
    return values, changed


@of_operation("reverse", "dynamic-slice", "gather")
def bytes_behind_the_last_word(truth: Lie, i: Instruction, *operands: Array) -> Value:
    """One-byte elements in one dimension are copied in words of eight, and those after the last full word are lost."""
    value = truth(i, *operands)
    if value.ndim != 1 or value.dtype.itemsize > 1 or value.size < 8:
        return value
    changed = np.array(value)
    changed[value.size // 8 * 8 :] = np.zeros((), value.dtype)
    return changed
