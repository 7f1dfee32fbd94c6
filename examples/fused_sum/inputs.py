"""What fused.hlo is run on."""

import numpy as np

SIZE = 1 << 20


def inputs(seed: int = 0, size: int = SIZE) -> list[np.ndarray]:
    """x, y and z: f32[size] each, standard normal."""
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(size, dtype=np.float32) for _ in range(3)]
