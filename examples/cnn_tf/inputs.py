"""What step.hlo is run on: the arguments, then the variables in the order in which TensorFlow captured them."""

import numpy as np

BATCH, SIDE, CLASSES = 8, 64, 10
SHAPES = [(3, 3, 3, 16), (16,), (3, 3, 16, 32), (32,), (14 * 14 * 32, 64), (64,), (64, CLASSES), (CLASSES,)]


def inputs(seed: int = 0, batch: int = BATCH) -> list[np.ndarray]:
    """Arguments of step.hlo, 28 in all: images f32[batch,64,64,3] in [0, 1), labels s32[batch] in [0, 10), the model's
    8 variables at Glorot's initial scale, the learning rate f32[], the number of steps done s64[], and for each of the
    8 variables Adam's mean and mean square of its gradient, as they stand after some steps."""
    rng = np.random.default_rng(seed)
    variables, averages = [], []
    for shape in SHAPES:
        around, ends = int(np.prod(shape[:-2])), sum(shape[-2:])
        limit = np.sqrt(6 / (around * ends)) if len(shape) > 1 else 0.01
        variables.append(rng.uniform(-limit, limit, shape).astype(np.float32))
        averages.append(rng.normal(0, 1e-2, shape).astype(np.float32))
        averages.append(rng.uniform(1e-5, 1e-3, shape).astype(np.float32))
    images = rng.random((batch, SIDE, SIDE, 3), dtype=np.float32)
    labels = rng.integers(0, CLASSES, batch).astype(np.int32)
    return [images, labels, *variables, np.float32(1e-3), np.int64(5), *averages]
