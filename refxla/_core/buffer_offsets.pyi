"""The types of buffer_offsets.pyx."""

import numpy as np

def assign(start: np.ndarray, end: np.ndarray, size: np.ndarray, alignment: int = 64) -> tuple[np.ndarray, int]: ...
