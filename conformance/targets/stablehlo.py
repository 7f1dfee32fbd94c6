"""StableHLO's own interpreter, through JAX's wheel: HLO is converted to StableHLO there, and evaluated.

It runs in a child process, since it ends its process on anything unknown. Importing this module raises
ModuleNotFoundError as xla_cpu.py does. Programs for several devices are not supported.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from refxla_spec.errors import UnsupportedError
from refxla_spec.module import Module
from refxla_spec.types import Value

from .base import Target, leaves
from .child import Child, ChildDied
from .private import environment, version
from .xla_cpu import LIMIT, written

# The interpreter's messages, as it ends its process, about features that it does not have.
_NOT_THERE = (
    "Unsupported op",
    "unsupported at the moment",
    "not supported",
    "only supported when",
    "Unsupported element type",
)


class StableHlo(Target):
    """StableHLO's reference interpreter."""

    name = "stablehlo"

    def __init__(self, limit: float = LIMIT) -> None:
        self._child, self._limit = Child("refxla_conformance.targets.stablehlo_child", environment()), limit

    def run(self, module: Module, arguments: Sequence[Value]) -> list[np.ndarray]:
        flat = [np.asarray(leaf) for leaf in leaves(list(arguments)) if leaf is not None]
        try:
            results: list[np.ndarray] = self._child.ask("run", written(module), flat, limit=self._limit)
        except ChildDied as error:
            if any(words in str(error) for words in _NOT_THERE):
                raise UnsupportedError(f"the interpreter ended: {error}") from None
            raise
        return results

    def versions(self) -> dict[str, str]:
        return {"jaxlib": version()}

    def close(self) -> None:
        self._child.close()
