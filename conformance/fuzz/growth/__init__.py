"""The rules by which random programs grow, by the kinds of operations that they add. Importing this registers them."""

from . import algebra, control, elementwise, examples, functions, idioms, movement, structured, wide

__all__ = ["algebra", "control", "elementwise", "examples", "functions", "idioms", "movement", "structured", "wide"]
