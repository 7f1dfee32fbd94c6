"""Operations and common idioms over sizes, types, shapes and trip counts, compared with JAX by `python -m bench.cliffs`
to find where refxla is slower, or suddenly slower. Importing this imports JAX."""

from . import elementwise, linear_algebra, loops, movement, products, reductions, selection, windows  # noqa: F401
from .sweep import POINTS

__all__ = ["POINTS"]
