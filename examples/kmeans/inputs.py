"""What kmeans.hlo is run on."""

import numpy as np

POINTS, FEATURES, CLUSTERS = 4096, 8, 16


def inputs(seed: int = 0) -> list[np.ndarray]:
    """Points f32[4096,8] around 16 hidden centres, and centres f32[16,8] to begin with, some way off.

    No point of seed 0 is ever nearly as far from a second centre as from its own (the distances squared differ by 0.007
    or more in each round): a rounding cannot move a point, so all correct implementations find the same clusters.
    """
    rng = np.random.default_rng(seed)
    hidden = rng.standard_normal((CLUSTERS, FEATURES)) * 4
    points = hidden[rng.integers(0, CLUSTERS, POINTS)] + rng.standard_normal((POINTS, FEATURES))
    return [points.astype(np.float32), (hidden + 2 * rng.standard_normal(hidden.shape)).astype(np.float32)]
