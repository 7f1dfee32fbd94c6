"""Operations that only move elements: transposes, slices, joins, gathers and scatters."""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jax import Array

from .sweep import PLANES, Axis, Point, array, by_number, by_shape, by_type, sweep

STORED = ("pred", "s8", "s16", "f32", "f64", "c64")


@sweep("movement", by_shape(), by_type(STORED))
def transpose(x: Array) -> Array:
    return x.T + 0 if x.dtype != bool else ~x.T


@sweep("movement", by_shape([(100, 100, 100), (1000, 10, 100), (10, 1000, 100), (10_000, 10, 10)]))
def transpose_of_the_first_two(x: Array) -> Array:
    return x.transpose(1, 0, 2) + 1


@sweep("movement", by_shape([(100, 100, 100), (1000, 10, 100), (10, 1000, 100), (10_000, 10, 10)]))
def transpose_of_the_last_two(x: Array) -> Array:
    return x.transpose(0, 2, 1) + 1


@sweep("movement", by_shape([(32, 3, 64, 64), (32, 64, 28, 28), (8, 512, 7, 7)]))
def features_to_the_end(x: Array) -> Array:
    return x.transpose(0, 2, 3, 1) + 1


@sweep("movement", by_number("stride", (1, 2, 3, 8, 64)))
def slice_of_rows_and_columns(x: Array, stride: int) -> Array:
    return x[::stride, ::stride] * 2


@sweep("movement", by_number("stride", (1, 2, 3, 8, 64), (1_000_000,)))
def slice_of_a_vector(x: Array, stride: int) -> Array:
    return x[::stride] * 2


@sweep("movement", by_shape(), by_type(STORED))
def reverse(x: Array) -> Array:
    return x[:, ::-1]


@sweep("movement", by_shape(arrays=2), by_type(STORED, arrays=2))
def joined_rows(x: Array, y: Array) -> Array:
    return jnp.concatenate([x, y], 1)


@sweep("movement", by_shape(arrays=2))
def stacked_last(x: Array, y: Array) -> Array:
    return jnp.stack([x, y], -1)


@sweep("movement", by_number("width", (1, 3, 16, 100)))
def padded(x: Array, width: int) -> Array:
    return jnp.pad(x, width) * 2


@sweep("movement", by_number("by", (1, 17, 500)))
def rolled(x: Array, by: int) -> Array:
    return jnp.roll(x, by, 1) + x


@sweep("movement", by_number("times", (2, 3, 16), (100_000,)))
def repeated(x: Array, times: int) -> Array:
    return jnp.repeat(x, times)


@sweep("movement", by_number("times", (2, 3, 16), (100_000,)))
def tiled(x: Array, times: int) -> Array:
    return jnp.tile(x, times) * 2


def _indexed(tables: Sequence[tuple[int, int, int]], types: Sequence[str] = ("f32",)) -> Axis:
    """Points of a table, indices of its rows and updates for these: (rows, columns or 0 for a vector, indices)."""
    points = []
    for rows, columns, count in tables:
        for name in types:

            def arguments(
                rows: int = rows, columns: int = columns, count: int = count, name: str = name
            ) -> list[np.ndarray]:
                indices = np.random.default_rng(count).integers(0, rows, count).astype(np.int32)
                table, updates = ((n, columns) if columns else (n,) for n in (rows, count))
                return [array(table, name), indices, array(updates, name, 1)]

            label = name if len(types) > 1 else f"{count} of {rows}x{columns or 1}"
            points.append(Point(label, arguments, name))
    return Axis("type" if len(types) > 1 else "shape", tuple(points))


TABLES = (
    (1000, 0, 1_000_000),
    (1_000_000, 0, 1_000_000),
    (1_000_000, 0, 100),
    (100_000, 4, 100_000),
    (10_000, 64, 20_000),
    (1000, 1000, 1000),
    (30, 100_000, 20),
)
EMBEDDING = ((10_000, 64, 20_000),)


@sweep("movement", _indexed(TABLES), _indexed(EMBEDDING, ("s8", "bf16", "f32", "f64")))
def rows_taken(table: Array, indices: Array, updates: Array) -> Array:
    return table[indices]


@sweep("movement", _indexed(TABLES), _indexed(EMBEDDING, ("s32", "bf16", "f32", "f64")))
def rows_added(table: Array, indices: Array, updates: Array) -> Array:
    return table.at[indices].add(updates)


@sweep("movement", _indexed(TABLES))
def rows_set(table: Array, indices: Array, updates: Array) -> Array:
    return table.at[indices].set(updates)


@sweep("movement", _indexed([t for t in TABLES if t[0] < 1_000_000]))
def largest_by_key(table: Array, indices: Array, updates: Array) -> Array:
    return table.at[indices].max(updates)


@sweep("movement", by_shape(PLANES[2:6]))
def taken_along_rows(x: Array) -> Array:
    order = (jnp.arange(x.shape[1]) * 7919) % x.shape[1]
    return jnp.take_along_axis(x, jnp.broadcast_to(order, x.shape), 1)


@sweep("movement", by_type(("s8", "f32", "f64", "bf16"), (1000, 64, 16)))
def columns_to_rows(x: Array) -> Array:
    return x.reshape(1000 * 64, 16).T.reshape(16, 64, 1000) + x.dtype.type(1)
