"""Loops of numerical work."""

from __future__ import annotations

from typing import Any

from ..frameworks.base import Array, Framework
from .values import normal

ROUNDS, STEPS, INTERVAL, SOFTENING, RATE = 10, 10, 0.01, 1e-3, 0.2


def kmeans(xp: Framework, points: Array, centres: Array) -> Array:
    """Lloyd's algorithm: points [n, d], centres [k, d] -> centres."""
    one = points[:, :1] * 0.0 + 1.0

    def round(centres: Array) -> Array:
        distances = xp.sum(centres * centres, 1) - 2.0 * (points @ xp.transpose(centres, (1, 0)))
        owner = xp.argmin(distances, 1)
        sums = xp.scatter_add(centres * 0.0, owner, points)
        counts = xp.scatter_add(centres[:, :1] * 0.0, owner, one)
        return xp.where(counts > 0, sums / xp.maximum(counts, 1.0), centres)

    return xp.loop(ROUNDS, round, centres)


def kmeans_arguments(points: int, features: int, clusters: int) -> list[Any]:
    return [normal(points, features), normal(clusters, features, seed=1)]


def nbody(xp: Framework, positions: Array, velocities: Array, masses: Array) -> tuple[Array, Array]:
    """Leapfrog steps of gravitating bodies: [n, 3], [n, 3], [n]."""

    def acceleration(positions: Array) -> Array:
        offsets = positions[None, :, :] - positions[:, None, :]
        squares = xp.sum(offsets * offsets, 2) + SOFTENING
        pulls = masses[None, :] / (squares * xp.sqrt(squares))
        return xp.sum(offsets * pulls[:, :, None], 1)

    def step(state: tuple[Array, Array]) -> tuple[Array, Array]:
        positions, velocities = state
        velocities = velocities + 0.5 * INTERVAL * acceleration(positions)
        positions = positions + INTERVAL * velocities
        return positions, velocities + 0.5 * INTERVAL * acceleration(positions)

    results: tuple[Array, Array] = xp.loop(STEPS, step, (positions, velocities))
    return results


def nbody_arguments(bodies: int) -> list[Any]:
    return [normal(bodies, 3), normal(bodies, 3, seed=1) / 10, abs(normal(bodies)) / bodies]


def heat(xp: Framework, plate: Array) -> Array:
    """Explicit steps of the heat equation on a plate with a fixed edge."""

    def step(t: Array) -> Array:
        inner = t[1:-1, 1:-1]
        flow = t[:-2, 1:-1] + t[2:, 1:-1] + t[1:-1, :-2] + t[1:-1, 2:] - 4 * inner
        return t + RATE * xp.pad(flow, ((1, 1), (1, 1)))

    return xp.loop(5 * STEPS, step, plate)


def heat_arguments(side: int) -> list[Any]:
    return [abs(normal(side, side))]
