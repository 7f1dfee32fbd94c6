"""What heat.hlo is run on."""

import numpy as np

ROWS, COLUMNS = 96, 128


def inputs(seed: int = 0) -> list[np.ndarray]:
    """A plate's temperatures, f32[96,128], in [0, 1)."""
    return [np.random.default_rng(seed).random((ROWS, COLUMNS), dtype=np.float32)]
