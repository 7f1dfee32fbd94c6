"""ResNet-50's parameters, made up: the shapes are the real ones, the numbers are random at He's scale."""

from collections.abc import Iterator

import numpy as np

STAGES = [(3, 64), (4, 128), (6, 256), (3, 512)]  # blocks, and channels inside them; four times as many leave them
SIDE, CLASSES = 224, 1000


def convolutions() -> Iterator[tuple[int, int, int]]:
    """(window's side, channels in, channels out) of each convolution, in the order of the network."""
    yield 7, 3, 64
    entering = 64
    for blocks, inner in STAGES:
        for block in range(blocks):
            yield 1, entering, inner
            yield 3, inner, inner
            yield 1, inner, 4 * inner
            if block == 0:
                yield 1, entering, 4 * inner
            entering = 4 * inner


def inputs(seed: int = 0, side: int = SIDE) -> list[np.ndarray]:
    """The 53 convolutions' filters, each followed by its batch normalisation's scale, offset, mean and variance; the
    last layer's weights f32[2048,1000] and bias f32[1000]; one image f32[1,side,side,3]."""
    rng = np.random.default_rng(seed)
    arrays = []
    for window, entering, leaving in convolutions():
        shape = (window, window, entering, leaving)
        scale = np.float32(np.sqrt(2 / (window * window * entering)))
        arrays.append(rng.standard_normal(shape, dtype=np.float32) * scale)
        arrays.append(rng.uniform(0.5, 1.0, leaving).astype(np.float32))
        arrays.append(rng.normal(0, 0.1, leaving).astype(np.float32))
        arrays.append(rng.normal(0, 0.1, leaving).astype(np.float32))
        arrays.append(rng.uniform(0.8, 1.2, leaving).astype(np.float32))
    arrays.append(rng.standard_normal((2048, CLASSES), dtype=np.float32) * np.float32(2048**-0.5))
    arrays.append(np.zeros(CLASSES, np.float32))
    arrays.append(rng.standard_normal((1, side, side, 3), dtype=np.float32))
    return arrays
