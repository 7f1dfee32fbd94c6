"""Operations and common idioms over sizes, types, shapes and trip counts, measured beside JAX by `python -m
bench.cliffs` to find where refxla falls behind, or suddenly behind. Importing this imports JAX."""

from . import elementwise, linear_algebra, loops, movement, products, reductions, selection, windows  # noqa: F401
from .sweep import POINTS

__all__ = ["POINTS"]
