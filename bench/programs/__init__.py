"""Programs of the kinds that people write in JAX: one table, compared with JAX's own compiler by `python -m
bench.programs`. Importing this imports JAX."""

from . import (  # noqa: F401
    control_flow,
    filters,
    images,
    linear_algebra,
    nets,
    physics,
    samplers,
    scans,
    solvers,
    sorting,
    sparse,
    statistics,
    texts,
)
from .registry import PROGRAMS

__all__ = ["PROGRAMS"]
