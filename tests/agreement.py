"""Whether two implementations computed the same, for whole programs: there the contracts of operations add up."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import ml_dtypes
import numpy as np


def flat(value: Any) -> list[np.ndarray]:
    """A program's results in order, with tuples and lists opened."""
    if isinstance(value, (tuple, list)):
        return [array for element in value for array in flat(element)]
    return [np.asarray(value)]


def assert_agree(got: Any, wanted: Iterable[np.ndarray], eps: float = 32) -> None:
    """Same number of results, types and shapes; integers and booleans equal; NaN and infinities in the same places;
    and each finite difference at most `eps` units of the type's rounding of the largest element of that result.

    The error is taken against the largest element since a long program cancels: one that rounds differently somewhere
    is wrong by that much anywhere in the result.
    """
    got, wanted = flat(got), flat(list(wanted))
    assert [(a.dtype, a.shape) for a in got] == [(b.dtype, b.shape) for b in wanted]
    for place, (a, b) in enumerate(zip(got, wanted, strict=True)):
        if b.dtype.kind in "biu":
            np.testing.assert_array_equal(a, b, err_msg=f"result {place}")
            continue
        unit = float(ml_dtypes.finfo(b.dtype).eps)
        wide = np.complex128 if b.dtype.kind == "c" else np.float64
        a, b = a.astype(wide), b.astype(wide)
        finite = np.isfinite(b)
        np.testing.assert_array_equal(a[~finite], b[~finite], err_msg=f"result {place}, not finite")
        worst = np.abs(a[finite] - b[finite]).max(initial=0)
        largest = np.abs(b[finite]).max(initial=0)
        assert worst <= eps * unit * largest, f"result {place}: off by {worst / unit / largest:.1f} eps of {largest}"
