"""The specification's own interpreter."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from refxla_spec import interpreter, text, verify
from refxla_spec.module import Module
from refxla_spec.types import Value

from .base import Target, arrays


class Reference(Target):
    """What HLO means, by definition: it passes every case."""

    name = "reference"

    def run(self, module: Module, arguments: Sequence[Value]) -> list[np.ndarray]:
        return arrays(interpreter.run(module, arguments))

    def verify(self, source: str) -> None:
        verify.verify(text.parse(source))
