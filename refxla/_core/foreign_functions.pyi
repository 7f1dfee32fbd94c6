"""The types of foreign_functions.pyx."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

class ForeignFunction:
    def __init__(self, name: str, handlers: Mapping[str, Any], attributes: Mapping[str, Any]) -> None: ...
    def call(self, operands: Sequence[np.ndarray], results: Sequence[np.ndarray], types: Sequence[int]) -> None: ...
