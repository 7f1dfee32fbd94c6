"""What block.hlo is run on."""

import numpy as np

BATCH, TIME, WIDTH, HEADS = 2, 64, 128, 4


def inputs(seed: int = 0) -> list[np.ndarray]:
    """The block's parameters in the order of `block` in make.py, then activations f32[2,64,128] and their cotangent."""
    rng = np.random.default_rng(seed)

    def normal(scale, *shape):
        return (scale * rng.standard_normal(shape)).astype(np.float32)

    return [
        1 + normal(0.1, WIDTH),
        normal(0.1, WIDTH),
        normal(WIDTH**-0.5, WIDTH, 3 * WIDTH),
        normal(WIDTH**-0.5, WIDTH, WIDTH),
        1 + normal(0.1, WIDTH),
        normal(0.1, WIDTH),
        normal(WIDTH**-0.5, WIDTH, 4 * WIDTH),
        normal(0.1, 4 * WIDTH),
        normal((4 * WIDTH) ** -0.5, 4 * WIDTH, WIDTH),
        normal(0.1, WIDTH),
        normal(1, BATCH, TIME, WIDTH),
        normal(1, BATCH, TIME, WIDTH),
    ]
