"""Writes nbody.hlo: ten leapfrog steps of bodies that attract each other, in double precision. Needs jax.

python examples/nbody/make.py
"""

from pathlib import Path

import jax
from inputs import inputs

STEPS, INTERVAL, SOFTENING = 10, 0.01, 1e-3


def acceleration(positions, masses):
    offsets = positions[None, :, :] - positions[:, None, :]
    squares = (offsets**2).sum(axis=2) + SOFTENING
    return (offsets * (masses[None, :] * squares**-1.5)[:, :, None]).sum(axis=1)


def nbody(positions, velocities, masses):
    """(positions f64[n,3], velocities f64[n,3], masses f64[n]) -> (positions, velocities) ten steps later."""

    def step(_, state):
        positions, velocities = state
        velocities = velocities + 0.5 * INTERVAL * acceleration(positions, masses)
        positions = positions + INTERVAL * velocities
        return positions, velocities + 0.5 * INTERVAL * acceleration(positions, masses)

    return jax.lax.fori_loop(0, STEPS, step, (positions, velocities))


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    lowered = jax.jit(nbody).trace(*inputs()).lower(lowering_platforms=("refxla",))
    path = Path(__file__).with_name("nbody.hlo")
    path.write_text(lowered.compiler_ir("hlo").as_hlo_text(True))
    print(f"{path}: {path.stat().st_size} bytes")
