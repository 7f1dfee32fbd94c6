"""Elementwise operations: one at a time, by type and by size, and chains with broadcasts and conversions."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array, lax

from .sweep import NUMBERS, REALS, SIZES, TYPES, Function, by_shapes_of_all, by_size, by_type, sweep


@sweep("elementwise", by_size(arrays=2), by_type(arrays=2))
def sum_of_two(x: Array, y: Array) -> Array:
    return x + y


@sweep("elementwise", by_type(arrays=3))
def product_and_sum(x: Array, y: Array, z: Array) -> Array:
    return x * y + z


@sweep("elementwise", by_type(("s8", "u8", "s32", "u32", "s64"), arrays=2))
def quotient_and_remainder(x: Array, y: Array) -> tuple[Array, Array]:
    return x // y, x % y


@sweep("elementwise", by_type(arrays=2), by_size((16, 4097, 1_000_003), 2))
def quotient(x: Array, y: Array) -> Array:
    return x / y


@sweep("elementwise", by_type(REALS, arrays=2), by_size((16, 4097, 1_000_003), 2))
def remainder(x: Array, y: Array) -> Array:
    return 30 * x % y


@sweep("elementwise", by_size((10, 100, 1000)))
def second_derivatives(x: Array) -> Array:
    return jax.hessian(lambda x: jnp.sum(jnp.sin(x) ** 2 * x[::-1]))(x)


@sweep("elementwise", by_type(("pred", "s8", "s32", *REALS), arrays=2))
def choice(x: Array, y: Array) -> Array:
    return jnp.where(x > y, x, -y if x.dtype != bool else ~y)


def _unary(name: str, function: Function) -> None:
    def of_one(x: Array) -> Array:
        return function(x)

    of_one.__name__ = name
    sweep("elementwise", by_type(REALS), by_size(SIZES[::2]))(of_one)


for _name, _function in {
    "exponential": jnp.exp,
    "logarithm": jnp.log,
    "sine": jnp.sin,
    "tangent": jnp.tan,
    "hyperbolic tangent": jnp.tanh,
    "square root": jnp.sqrt,
    "error function": jax.scipy.special.erf,
    "inverse sine": lambda x: jnp.arcsin(x * 0.5),
    "logistic": jax.nn.sigmoid,
    "gelu": jax.nn.gelu,
    "log gamma": jax.scipy.special.gammaln,
    "cube root": jnp.cbrt,
    "rounded": jnp.round,
}.items():
    _unary(_name, _function)


@sweep("elementwise", by_type(REALS, arrays=2))
def power(x: Array, y: Array) -> Array:
    return x**y


@sweep("elementwise", by_type(REALS, arrays=2))
def angle(x: Array, y: Array) -> Array:
    return jnp.arctan2(x, y)


def _converted(target: str) -> None:
    def to(x: Array) -> Array:
        return x.astype(TYPES[target][0])

    to.__name__ = f"converted to {target}"
    sweep("elementwise", by_type(("pred", "s8", "s32", "s64", *REALS)), result=target)(to)


for _target in ("s8", "s32", "bf16", "f16", "f32", "f64"):
    _converted(_target)


@sweep("elementwise", by_type(("u8", "s32", "u32", "s64"), arrays=2))
def bits(x: Array, y: Array) -> Array:
    return (x & y) ^ (x << 3) | lax.population_count(y)


@sweep(
    "elementwise",
    by_shapes_of_all([((1000, 1000), s) for s in ((1,), (1000,), (1000, 1), (1000, 1000))]),
    by_shapes_of_all(
        [((64, 32, 512), s) for s in ((512,), (32, 1), (64, 1, 1), (64, 1, 512))], name="shapes of rank 3"
    ),
)
def broadcast_sum(x: Array, y: Array) -> Array:
    return x + y


@sweep("elementwise", by_type(NUMBERS))
def polynomial(x: Array) -> Array:
    y = x
    for _ in range(12):
        y = y * x + x
    return y
