"""What lstm.hlo is run on."""

import numpy as np

TIME, BATCH, FEATURES, HIDDEN = 24, 16, 32, 64


def inputs(seed: int = 0) -> list[np.ndarray]:
    """Weights f32[32,256], recurrent weights f32[64,256], bias f32[256], read-out f32[64], a sequence f32[24,16,32] and
    a target f32[24,16] for each moment."""
    rng = np.random.default_rng(seed)

    def normal(scale, *shape):
        return (scale * rng.standard_normal(shape)).astype(np.float32)

    sequence = normal(1, TIME, BATCH, FEATURES)
    return [
        normal(FEATURES**-0.5, FEATURES, 4 * HIDDEN),
        normal(HIDDEN**-0.5, HIDDEN, 4 * HIDDEN),
        normal(0.1, 4 * HIDDEN),
        normal(HIDDEN**-0.5, HIDDEN),
        sequence,
        sequence.cumsum(axis=0)[:, :, 0] / 4,
    ]
