"""The steps of chains: each is a function of one array in JAX with integers as parameters (the axis, the amount, ...).
A step that needs a second array, an operand, gives its shape and kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

import jax
import jax.numpy as jnp
from jax import Array, lax

Shape = tuple[int, ...]
Function = Callable[..., Array]
Draw = Callable[[Random, Shape], Sequence[int]]


@dataclass(frozen=True)
class Operand:
    """A second array. With `below`, of s32 from 0 to it; otherwise of the chain's type."""

    shape: Shape
    below: int | None = None


@dataclass(frozen=True)
class Step:
    """`draw(random, shape)` returns parameters for an array of that shape; it raises ValueError if the step has
    none."""

    apply: Function  # (array, *numbers), or (array, operand, *numbers)
    draw: Draw
    operand: Callable[..., Operand] | None  # of (shape, *numbers)
    leaps: bool  # whether it is discontinuous, so that rounding changes its result


STEPS: dict[str, Step] = {}


def step(
    draw: Draw, operand: Callable[..., Operand] | None = None, leaps: bool = False
) -> Callable[[Function], Function]:
    """Adds a function to the table, under its name, and returns it."""

    def add(function: Function) -> Function:
        STEPS[function.__name__] = Step(function, draw, operand, leaps)
        return function

    return add


def no_number(random: Random, shape: Shape) -> Sequence[int]:
    """For a step without parameters."""
    return ()


def axis(random: Random, shape: Shape) -> Sequence[int]:
    """An axis, with more than one element if there is one."""
    return (random.choice([n for n, size in enumerate(shape) if size > 1] or range(len(shape))),)


def axis_of_several(random: Random, shape: Shape) -> Sequence[int]:
    """An axis that can be reduced or removed: there is another one."""
    if len(shape) < 2:
        raise ValueError("only one axis")
    return axis(random, shape)


def axis_and(*choices: int) -> Draw:
    """An axis, and one of these numbers."""
    return lambda random, shape: (*axis(random, shape), random.choice(choices))


def _like(shape: Shape, *_: int) -> Operand:
    return Operand(shape)


def _along(shape: Shape, axis: int, *_: int) -> Operand:
    return Operand((shape[axis],))


# Element by element.


@step(no_number)
def sin(x: Array) -> Array:
    return jnp.sin(x)


@step(no_number)
def exp(x: Array) -> Array:
    return jnp.exp(-jnp.abs(x))


@step(no_number)
def tanh(x: Array) -> Array:
    return jnp.tanh(x)


@step(no_number)
def log(x: Array) -> Array:
    return jnp.log1p(jnp.abs(x))


@step(no_number)
def sqrt(x: Array) -> Array:
    return jnp.sqrt(jnp.abs(x) + 1)


@step(no_number)
def relu(x: Array) -> Array:
    return jnp.maximum(x, 0)


@step(no_number)
def gelu(x: Array) -> Array:
    return jax.nn.gelu(x)


@step(no_number)
def square(x: Array) -> Array:
    return x * x / 2


@step(no_number, leaps=True)
def quantize(x: Array) -> Array:
    return jnp.round(x * 4) / 4


@step(no_number, leaps=True)
def remainder(x: Array) -> Array:
    return jnp.fmod(x, 1.5)


@step(no_number, leaps=True)
def through_integers(x: Array) -> Array:
    return (x * 16).astype(jnp.int32).astype(x.dtype) / 16


@step(no_number, _like)
def times(x: Array, y: Array) -> Array:
    return x * y


@step(no_number, _like)
def larger(x: Array, y: Array) -> Array:
    return jnp.where(x > y, x, y * x)


@step(axis, _along)
def bias(x: Array, y: Array, axis: int) -> Array:
    return x + _spread(y, x.ndim, axis)


@step(axis_and(2, 3))
def every(x: Array, axis: int, by: int) -> Array:
    """Every second or third element is kept, the others are zero."""
    return jnp.where(lax.broadcasted_iota(jnp.int32, x.shape, axis) % by == 0, x, 0)


@step(no_number)
def lower_triangle(x: Array) -> Array:
    return jnp.tril(x) if x.ndim > 1 else x * (jnp.arange(x.size) < x.size // 2)


# Movement.


def _order(random: Random, shape: Shape) -> Sequence[int]:
    if len(shape) < 2:
        raise ValueError("nothing to transpose")
    return random.sample(range(len(shape)), len(shape))


@step(_order)
def transpose(x: Array, *order: int) -> Array:
    return x.transpose(order)


@step(axis_of_several)
def merge(x: Array, axis: int) -> Array:
    """Merges an axis with the next one."""
    axis = min(axis, x.ndim - 2)
    return x.reshape(x.shape[:axis] + (-1,) + x.shape[axis + 2 :])


def _axis_and_factor(random: Random, shape: Shape) -> Sequence[int]:
    factors = [(n, f) for n, size in enumerate(shape) for f in (2, 3, 4, 8, 10, 16) if size % f == 0 and size > f]
    if not factors:
        raise ValueError("no axis has such a factor")
    return random.choice(factors)


@step(_axis_and_factor)
def split(x: Array, axis: int, factor: int) -> Array:
    return x.reshape(x.shape[:axis] + (-1, factor) + x.shape[axis + 1 :])


@step(axis_and(1, 1, 2, 3))
def slices(x: Array, axis: int, stride: int) -> Array:
    return lax.slice_in_dim(x, 1, x.shape[axis] - 1, stride, axis)


@step(axis)
def difference(x: Array, axis: int) -> Array:
    return jnp.diff(x, axis=axis)


@step(axis)
def concatenate(x: Array, axis: int) -> Array:
    return jnp.concatenate([x, x * 2], axis)


@step(axis)
def stack(x: Array, axis: int) -> Array:
    return jnp.stack([x, 1 - x], axis)


@step(axis_and(1, 2, 7))
def pad(x: Array, axis: int, by: int) -> Array:
    return jnp.pad(x, [(by, by // 2) if n == axis else (0, 0) for n in range(x.ndim)])


@step(axis_and(1, 3))
def wrap(x: Array, axis: int, by: int) -> Array:
    """Padded by the elements at its other end."""
    return jnp.pad(x, [(by, by) if n == axis else (0, 0) for n in range(x.ndim)], mode="wrap")


@step(axis_and(1, -1, 5))
def roll(x: Array, axis: int, by: int) -> Array:
    return x - jnp.roll(x, by, axis) / 2


@step(axis)
def flip(x: Array, axis: int) -> Array:
    return jnp.flip(x, axis)


@step(axis_and(2, 3))
def repeat(x: Array, axis: int, times: int) -> Array:
    return jnp.repeat(x, times, axis)


@step(axis_and(2, 3))
def tile(x: Array, axis: int, times: int) -> Array:
    return jnp.tile(x, [times if n == axis else 1 for n in range(x.ndim)])


@step(axis_and(2, 100, 1000), lambda shape, axis, count: Operand((count,), shape[axis]))
def take(x: Array, indices: Array, axis: int, count: int) -> Array:
    return jnp.take(x, indices, axis)


@step(axis, lambda shape, axis: Operand(shape, shape[axis]))
def take_along(x: Array, indices: Array, axis: int) -> Array:
    return jnp.take_along_axis(x, indices, axis)


@step(axis, lambda shape, axis: Operand((), shape[axis]))
def row(x: Array, index: Array, axis: int) -> Array:
    """One row, at an index that only the call knows, subtracted from the others."""
    return x - lax.dynamic_slice_in_dim(x, index, 1, axis)


@step(axis, lambda shape, axis: Operand((), shape[axis]))
def update(x: Array, index: Array, axis: int) -> Array:
    return lax.dynamic_update_slice_in_dim(x, lax.slice_in_dim(x, 0, 1, axis=axis) + 1, index, axis)


@step(axis_and(4, 64, 1000), lambda shape, axis, count: Operand((shape[axis],), count))
def segment_sums(x: Array, segments: Array, axis: int, count: int) -> Array:
    return jnp.moveaxis(jax.ops.segment_sum(jnp.moveaxis(x, axis, 0), segments, count), 0, axis)


# Along an axis.


@step(axis_of_several)
def mean(x: Array, axis: int) -> Array:
    return x.mean(axis)


@step(axis_of_several)
def maximum(x: Array, axis: int) -> Array:
    return x.max(axis)


@step(axis_of_several, leaps=True)
def argmax(x: Array, axis: int) -> Array:
    return jnp.argmax(x, axis).astype(x.dtype) / x.shape[axis]


@step(axis_of_several)
def norm(x: Array, axis: int) -> Array:
    return jnp.sqrt((x * x).sum(axis))


@step(axis_of_several)
def logsumexp(x: Array, axis: int) -> Array:
    return jax.nn.logsumexp(x, axis)


@step(axis)
def center(x: Array, axis: int) -> Array:
    return x - x.mean(axis, keepdims=True)


@step(axis)
def normalize(x: Array, axis: int) -> Array:
    return (x - x.mean(axis, keepdims=True)) / jnp.sqrt(x.var(axis, keepdims=True) + 1e-3)


@step(axis)
def softmax(x: Array, axis: int) -> Array:
    return jax.nn.softmax(x, axis)


@step(axis)
def cumulative_sum(x: Array, axis: int) -> Array:
    return jnp.cumsum(x, axis) / x.shape[axis]


@step(axis)
def cumulative_maximum(x: Array, axis: int) -> Array:
    return lax.cummax(x, axis)


@step(axis)
def sort(x: Array, axis: int) -> Array:
    return jnp.sort(x, axis)


@step(axis_and(2, 5))
def moving_average(x: Array, axis: int, width: int) -> Array:
    window = [width if n == axis else 1 for n in range(x.ndim)]
    return lax.reduce_window(x, jnp.zeros((), x.dtype), lax.add, window, [1] * x.ndim, "VALID") / width


@step(axis_and(2, 3))
def pool(x: Array, axis: int, width: int) -> Array:
    window = [width if n == axis else 1 for n in range(x.ndim)]
    return lax.reduce_window(x, jnp.array(-jnp.inf, x.dtype), lax.max, window, window, "VALID")


@step(axis)
def recurrence(x: Array, axis: int) -> Array:
    """A filter of one pole."""

    def iterate(state: Array, now: Array) -> tuple[Array, Array]:
        state = state * 0.9 + now
        return state, state / 10

    rows = jnp.moveaxis(x, axis, 0)
    return jnp.moveaxis(lax.scan(iterate, jnp.zeros_like(rows[0]), rows)[1], 0, axis)


@step(no_number)
def iterate(x: Array) -> Array:
    return lax.fori_loop(0, 5, lambda _, y: y - 0.1 * jnp.sin(y), x)


# Products.


@step(axis_and(1, 8, 33, 64), lambda shape, axis, width: Operand((shape[axis], width)))
def dot(x: Array, y: Array, axis: int, width: int) -> Array:
    return jnp.tensordot(x, y, ((axis,), (0,))) / x.shape[axis] ** 0.5


@step(axis_of_several)
def gram(x: Array, axis: int) -> Array:
    """The products of all pairs of rows of a matrix, for each of the matrices."""
    axis = min(axis, x.ndim - 2)
    return jnp.einsum("...ik,...jk->...ij", jnp.moveaxis(x, axis, -2), jnp.moveaxis(x, axis, -2)) / x.shape[-1]


@step(no_number, lambda shape: Operand(shape[:-1]))
def inner(x: Array, y: Array) -> Array:
    """The last axis weighted by a second array, for each index of the others."""
    return jnp.einsum("...k,...->k", x, y) / y.size**0.5 if y.ndim else x * y


@step(axis_and(3, 8))
def convolve(x: Array, axis: int, width: int) -> Array:
    taps = (jnp.arange(width) + 1).astype(x.dtype) / width
    rows = jnp.moveaxis(x, axis, -1)
    full = lax.conv_general_dilated(rows.reshape(-1, 1, rows.shape[-1]), taps[None, None], (1,), "SAME")
    return jnp.moveaxis(full.reshape(rows.shape), -1, axis) / width


def _spread(y: Array, rank: int, axis: int) -> Array:
    return y.reshape([-1 if n == axis else 1 for n in range(rank)])
