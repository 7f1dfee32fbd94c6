"""The modules that say what functions of NumPy become: importing them fills the tables of dispatch.py."""

from . import (
    einsum,
    fft,
    functions,
    indexing,
    linalg,
    reduction_functions,
    sequence_functions,
    shape_functions,
    statistics,
    ufuncs,
)

__all__ = [
    "einsum", "fft", "functions", "indexing", "linalg", "reduction_functions", "sequence_functions", "shape_functions",
    "statistics", "ufuncs",
]  # fmt: skip
