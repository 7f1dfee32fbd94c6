"""Properties of the literal of a constant."""

from __future__ import annotations

from typing import Any

import numpy as np


def is_splat(array: Any) -> bool:
    """Whether all elements of an array have the same bits (so that it is a broadcast scalar)."""
    if not isinstance(array, np.ndarray) or array.size == 0:
        return False
    flat = np.ascontiguousarray(array).reshape(-1)
    raw = flat.view(np.uint8).reshape(flat.size, -1)
    return bool((raw == raw[0]).all())
