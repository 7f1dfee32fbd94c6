"""What kmeans.hlo is run on."""

import numpy as np

POINTS, FEATURES, CLUSTERS = 4096, 8, 16


def inputs(seed: int = 0) -> list[np.ndarray]:
    """Points f32[4096,8] around 16 hidden centres, and the first 16 of them, f32[16,8], as centres to begin with."""
    rng = np.random.default_rng(seed)
    hidden = rng.standard_normal((CLUSTERS, FEATURES)) * 4
    points = hidden[rng.integers(0, CLUSTERS, POINTS)] + rng.standard_normal((POINTS, FEATURES))
    points = points.astype(np.float32)
    return [points, points[:CLUSTERS].copy()]
