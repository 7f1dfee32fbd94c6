"""Prints the results of a program for commands."""

from __future__ import annotations

from typing import Any

import numpy as np
from refxla_spec.types import BY_DTYPE, Shape
from rich.table import Table
from rich.text import Text


def results_table(results: dict[str, Any]) -> Table:
    """A line for each result: its name, its shape, its first and last elements."""
    table = Table("", "", "", show_header=False, box=None, padding=(0, 2, 0, 0))
    for name, value in results.items():
        shape = "token" if value is None else str(Shape.of(np.asarray(value)))
        table.add_row(Text(name, "bold"), Text(shape, "cyan"), Text("" if value is None else abbreviated(value)))
    return table


def abbreviated(value: Any) -> str:
    """An array in one line: its first and last elements."""
    value = np.asarray(value)
    flat = value.reshape(-1)
    if not BY_DTYPE[value.dtype].in_numpy:
        flat = flat.astype(np.float32 if value.dtype.kind not in "iu" else np.int32)
    with np.printoptions(threshold=6, edgeitems=3, linewidth=1000, precision=6):
        return str(flat[0]) if value.ndim == 0 else np.array2string(flat).replace("\n", "")


def calls_text(times: list[float]) -> str:
    """How long calls took, in words, from the seconds of each."""
    if len(times) == 1:
        return f"once, in {duration(times[0])}"
    return f"{len(times)} times: best {duration(min(times))}, median {duration(float(np.median(times)))}"


def duration(seconds: float) -> str:
    """A time with three digits and its unit."""
    for factor, unit in ((1, "s"), (1e3, "ms"), (1e6, "us")):
        if seconds * factor >= 1 or unit == "us":
            return f"{seconds * factor:.3g} {unit}"
    raise AssertionError
