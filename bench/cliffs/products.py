"""Matrix products and convolutions of many shapes and types."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from .sweep import NUMBERS, Axis, Point, array, by_shapes_of_all, by_type, sweep

SQUARES = tuple(((n, n), (n, n)) for n in (2, 8, 31, 64, 129, 256, 500, 1024))
SKEWED = (
    ((1, 1000), (1000, 1000)),
    ((1000, 1000), (1000, 1)),
    ((7, 4096), (4096, 64)),
    ((100_000, 16), (16, 16)),
    ((100_000, 3), (3, 3)),
    ((16, 100_000), (100_000, 16)),
    ((2000, 2), (2, 2000)),
    ((1000, 1000), (1000, 7)),
)


@sweep(
    "products",
    by_shapes_of_all(SQUARES),
    by_shapes_of_all(SKEWED, name="uneven shapes"),
    by_type(NUMBERS, (300, 300), 2),
)
def product(a: Array, b: Array) -> Array:
    return a @ b


@sweep("products", by_shapes_of_all(tuple(((m, 100_000), (n, 100_000)) for m, n in ((1, 4), (2, 2), (4, 4), (16, 16)))))
def product_of_long_rows(a: Array, b: Array) -> Array:
    return a @ b.T


@sweep("products", by_type(("bf16", "f32", "f64"), (1000, 1000), 2))
def product_with_vector(a: Array, b: Array) -> Array:
    return a @ b[0]


@sweep("products", by_type(("s8", "bf16", "f16"), (512, 512), 2))
def product_in_wider_type(a: Array, b: Array) -> Array:
    return jnp.matmul(a, b, preferred_element_type=jnp.int32 if a.dtype.kind == "i" else jnp.float32)


@sweep("products", by_shapes_of_all(SQUARES[3:]))
def product_of_transposes(a: Array, b: Array) -> Array:
    return a.T @ b.T


BATCHES = (
    ((100_000, 2, 2), (100_000, 2, 2)),
    ((10_000, 4, 4), (10_000, 4, 4)),
    ((10_000, 3, 3), (10_000, 3, 1)),
    ((1000, 16, 16), (1000, 16, 16)),
    ((64, 128, 64), (64, 64, 128)),
    ((512, 1, 64), (512, 64, 128)),
    ((8, 300, 300), (8, 300, 300)),
)


@sweep("products", by_shapes_of_all(BATCHES))
def batched_product(a: Array, b: Array) -> Array:
    return a @ b


@sweep("products", by_shapes_of_all([((n,), (n,)) for n in (10, 1000, 16_384, 1_000_000)]))
def inner_product(a: Array, b: Array) -> Array:
    return a @ b


@sweep("products", by_shapes_of_all([((n,), (n,)) for n in (10, 100, 1000, 3000)]))
def outer_product(a: Array, b: Array) -> Array:
    return jnp.outer(a, b)


@sweep("products", by_shapes_of_all([((8, 64, 32, 16), (8, 32, 64, 16)), ((64, 8, 128, 8), (64, 128, 8, 8))]))
def contraction(a: Array, b: Array) -> Array:
    return jnp.einsum("abcd,acbe->ade", a, b)


def _convolutions(*cases: tuple[int, int, int, int, int, int]) -> Axis:
    """Points of (batch, side, features in, features out, window, stride)."""
    points = []
    for batch, side, before, after, window, stride in cases:

        def arguments(
            batch: int = batch, side: int = side, before: int = before, after: int = after, window: int = window
        ) -> list[np.ndarray]:
            return [array((batch, side, side, before)), array((window, window, before, after), seed=1)]

        label = f"{batch}x{side}x{side}x{before} to {after}, {window}x{window} / {stride}"
        points.append(Point(label, arguments, "f32", (("stride", stride),)))
    return Axis("shape", tuple(points))


CONVOLUTIONS = _convolutions(
    (1, 224, 3, 64, 7, 2),
    (8, 56, 64, 64, 3, 1),
    (8, 56, 64, 256, 1, 1),
    (8, 28, 128, 128, 3, 2),
    (8, 7, 512, 512, 3, 1),
    (64, 28, 1, 8, 5, 1),
    (1, 64, 4, 4, 11, 1),
)


@sweep("products", CONVOLUTIONS)
def convolution(x: Array, w: Array, stride: int) -> Array:
    return lax.conv_general_dilated(x, w, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


@sweep("products", by_shapes_of_all([((8, 56, 56, c), (3, 3, 1, c)) for c in (3, 16, 64, 256)]))
def convolution_of_each_feature(x: Array, w: Array) -> Array:
    return lax.conv_general_dilated(
        x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=x.shape[-1]
    )


@sweep("products", by_shapes_of_all([((1, 1, n), (1, 1, k)) for n, k in ((1000, 5), (100_000, 31), (100_000, 257))]))
def filtered_signal(x: Array, w: Array) -> Array:
    return lax.conv_general_dilated(x, w, (1,), "SAME")
