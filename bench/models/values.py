"""Arguments of models: the same at every call and on every machine."""

from __future__ import annotations

import math

import numpy as np


def normal(*shape: int, seed: int = 0, scale: float = 1.0) -> np.ndarray:
    """Normal numbers, f32[shape]."""
    numbers = np.random.default_rng((seed, *shape)).standard_normal(shape, dtype=np.float32)
    return np.asarray(numbers * np.float32(scale))


def weights(*shape: int, seed: int = 0, gain: float = 1.0) -> np.ndarray:
    """Initial weights: normal numbers with variance gain over the inputs of an output, all axes but the last."""
    return normal(*shape, seed=seed, scale=math.sqrt(gain / math.prod(shape[:-1])))


def integers(low: int, high: int, *shape: int, seed: int = 0) -> np.ndarray:
    """Integers of [low, high), s32[shape]."""
    return np.random.default_rng((seed, *shape)).integers(low, high, shape).astype(np.int32)


def zeros(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)
