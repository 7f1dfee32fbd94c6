"""Writes kmeans.hlo: ten rounds of Lloyd's algorithm, as a while loop. Needs jax.

python examples/kmeans/make.py
"""

from pathlib import Path

import jax
import jax.numpy as jnp
from inputs import CLUSTERS, inputs

ROUNDS = 10


def nearest(points, centres):
    """The index of the nearest centre, for each point; |p|^2 is left out, being the same for every centre."""
    distances = (centres**2).sum(axis=1) - 2 * points @ centres.T
    return jnp.argmin(distances, axis=1)


def kmeans(points, centres):
    """(points f32[n,d], centres f32[k,d]) -> (centres f32[k,d], cluster of each point s32[n])."""

    def round(_, centres):
        owner = nearest(points, centres)
        sums = jax.ops.segment_sum(points, owner, CLUSTERS)
        counts = jax.ops.segment_sum(jnp.ones(len(points), points.dtype), owner, CLUSTERS)
        return jnp.where(counts[:, None] > 0, sums / jnp.maximum(counts, 1)[:, None], centres)

    centres = jax.lax.fori_loop(0, ROUNDS, round, centres)
    return centres, nearest(points, centres)


if __name__ == "__main__":
    lowered = jax.jit(kmeans).trace(*inputs()).lower(lowering_platforms=("refxla",))
    path = Path(__file__).with_name("kmeans.hlo")
    path.write_text(lowered.compiler_ir("hlo").as_hlo_text(True))
    print(f"{path}: {path.stat().st_size} bytes")
