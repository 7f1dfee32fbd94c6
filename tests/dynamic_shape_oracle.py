"""Programs with dynamic shapes on XLA:CPU, for tests."""

from __future__ import annotations

import numpy as np
import pytest
from refxla_spec.text import parse
from refxla_spec.types import Value

_targets = []


def xla_sized(hlo: str, *inputs: np.ndarray) -> list[np.ndarray]:
    """What XLA:CPU computes for a program with dynamic parameters, at the sizes that the results have."""
    oracle = pytest.importorskip("refxla_conformance.targets.xla_cpu")
    if not _targets:
        _targets.append(oracle.XlaCpu())
    return _targets[0].run(parse(hlo), inputs)


def listed(value: Value) -> list[np.ndarray]:
    """A program's results as a list."""
    return list(value) if isinstance(value, tuple) else [value]
