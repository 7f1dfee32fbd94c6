"""What step.hlo is run on."""

import numpy as np

BATCH, SIDE, CLASSES = 8, 64, 10
SHAPES = [(3, 3, 3, 16), (16,), (3, 3, 16, 32), (32,), (14 * 14 * 32, 64), (64,), (64, CLASSES), (CLASSES,)]


def parameters(seed: int = 0) -> list[np.ndarray]:
    """Two convolutions' filters and biases, then two dense layers' weights and biases; Glorot's initial scale."""
    rng = np.random.default_rng(seed)
    arrays = []
    for shape in SHAPES:
        if len(shape) == 1:
            arrays.append(np.zeros(shape, np.float32))
            continue
        around = int(np.prod(shape[:-2]))
        limit = np.sqrt(6 / (around * (shape[-2] + shape[-1])))
        arrays.append(rng.uniform(-limit, limit, shape).astype(np.float32))
    return arrays


def inputs(seed: int = 0, batch: int = BATCH) -> list[np.ndarray]:
    """Arguments of step.hlo, 27 in all: 8 parameters; Adam's means and mean squares of their gradients, as they stand
    after some steps; the number of steps done s32[]; images f32[batch,64,64,3] in [0, 1); labels s32[batch] in [0, 10).
    """
    rng = np.random.default_rng((seed, 1))
    means = [rng.normal(0, 1e-2, s).astype(np.float32) for s in SHAPES]
    squares = [rng.uniform(1e-5, 1e-3, s).astype(np.float32) for s in SHAPES]
    images = rng.random((batch, SIDE, SIDE, 3), dtype=np.float32)
    labels = rng.integers(0, CLASSES, batch).astype(np.int32)
    return [*parameters(seed), *means, *squares, np.int32(5), images, labels]
