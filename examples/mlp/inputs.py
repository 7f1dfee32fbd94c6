"""What the multi-layer perceptron is fed: parameters to begin with, and scikit-learn's handwritten digits."""

import sys

import numpy as np

BATCH, PIXELS, HIDDEN, CLASSES = 128, 64, 128, 10


def parameters(seed: int = 0) -> list[np.ndarray]:
    """Weights f32[64,128], bias f32[128], weights f32[128,10], bias f32[10]; He's initial scale."""
    rng = np.random.default_rng(seed)
    shapes = [(PIXELS, HIDDEN), (HIDDEN, CLASSES)]
    arrays = []
    for rows, columns in shapes:
        arrays.append((rng.standard_normal((rows, columns)) * np.sqrt(2 / rows)).astype(np.float32))
        arrays.append(np.zeros(columns, np.float32))
    return arrays


def momenta() -> list[np.ndarray]:
    """One zero for each parameter."""
    return [np.zeros_like(p) for p in parameters()]


def inputs(seed: int = 0) -> list[np.ndarray]:
    """Arguments of step.hlo: 4 parameters, 4 momenta, images f32[128,64] in [0, 1], labels s32[128] in [0, 10)."""
    rng = np.random.default_rng(seed)
    images = rng.random((BATCH, PIXELS), dtype=np.float32)
    labels = rng.integers(0, CLASSES, BATCH).astype(np.int32)
    return [*parameters(seed), *momenta(), images, labels]


def digits() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """scikit-learn's digits: 1,500 images and labels to train on, 297 to test on, in a fixed shuffled order. Ends the
    script with a message if scikit-learn is not installed."""
    try:
        from sklearn.datasets import load_digits
    except ModuleNotFoundError as problem:
        sys.exit(f"the digits to train on are part of scikit-learn ({problem}): pip install scikit-learn")

    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(images))
    images, labels = (images[order] / 16).astype(np.float32), labels[order].astype(np.int32)
    return images[:1500], labels[:1500], images[1500:], labels[1500:]
