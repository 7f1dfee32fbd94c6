"""What nbody.hlo is run on."""

import numpy as np

BODIES = 256


def inputs(seed: int = 0) -> list[np.ndarray]:
    """Positions f64[256,3], velocities f64[256,3] and masses f64[256] of a small cloud."""
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((BODIES, 3)), 0.1 * rng.standard_normal((BODIES, 3)), rng.random(BODIES) / BODIES]
