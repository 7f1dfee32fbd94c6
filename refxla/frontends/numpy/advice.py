"""Replacements for functions of NumPy that have no compiled form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from refxla_spec.errors import UnsupportedError

from .location import called_library

_SIZE_IS_A_VALUE = "the size of its result depends on values"
# A function's name, as it is written after `np.`, and why it has no compiled form, or its replacement.
ADVICE = {
    "nonzero": f"{_SIZE_IS_A_VALUE}: np.where(mask, x, 0) keeps the shape, refxla.nonzero(x, size=n) has a size",
    "flatnonzero": f"{_SIZE_IS_A_VALUE}: refxla.nonzero(x.ravel(), size=n)[0] has a size",
    "argwhere": f"{_SIZE_IS_A_VALUE}: np.stack(refxla.nonzero(x, size=n), axis=1) has a size",
    "unique": f"{_SIZE_IS_A_VALUE}: refxla.unique(x, size=n) has a size, np.sort(x) keeps them all",
    "unique_values": f"{_SIZE_IS_A_VALUE}: refxla.unique(x, size=n) has a size",
    "union1d": f"{_SIZE_IS_A_VALUE}: refxla.unique(np.concatenate([x, y]), size=n) has a size",
    "intersect1d": f"{_SIZE_IS_A_VALUE}: np.isin(x, y) is a mask of x's shape",
    "setdiff1d": f"{_SIZE_IS_A_VALUE}: ~np.isin(x, y) is a mask of x's shape",
    "setxor1d": f"{_SIZE_IS_A_VALUE}: np.isin(x, y) is a mask of x's shape",
    "extract": f"{_SIZE_IS_A_VALUE}: np.where(condition, x, 0) keeps the shape",
    "compress": f"{_SIZE_IS_A_VALUE}: np.where(condition, x, 0) keeps the shape",
    "trim_zeros": f"{_SIZE_IS_A_VALUE}: a slice with bounds that are Python numbers has a size",
    "linalg.eig": "whether its result is real depends on values: np.linalg.eigh has one for symmetric matrices",
    "linalg.eigvals": "whether its result is real depends on values: np.linalg.eigvalsh has one for symmetric matrices",
    "roots": "its size and type depend on values: find the roots outside; np.polyval evaluates a polynomial",
    "vectorize": "it calls a Python function for each element: refxla.vmap(f) does so for all at once",
    "apply_along_axis": "it calls a Python function for each row: refxla.vmap(f) does so for all at once",
    "fromfunction": "call the function with np.indices(shape)",
    "piecewise": "np.select(conditions, values) has one",
    "save": "return the array, and save it outside",
    "savetxt": "return the array, and save it outside",
    "savez": "return the array, and save it outside",
    "array2string": "return the array, and print it outside; repr(x) is its type and shape",
    "array_repr": "return the array, and print it outside",
    "array_str": "return the array, and print it outside",
    "shares_memory": "whether arrays share memory is not known in a compiled function",
    "may_share_memory": "whether arrays share memory is not known in a compiled function",
    "as_strided": "np.lib.stride_tricks.sliding_window_view(x, size)[::step] has the windows of an array",
    "delete": "with places that are not known: np.where keeps the shape",
    "lexsort": "sort by one key after the other, the last one first: i = np.argsort(b, kind='stable'); a[i]",
    "histogram_bin_edges": "np.histogram with a number of bins has one",
    "poly": "np.convolve multiplies polynomials",
    "spacing": "np.nextafter has one",
    "arange": f"{_SIZE_IS_A_VALUE}: a size must be known, as shapes and numbers in static_argnames are; where values "
    "decide about it, let i = np.arange(largest) have the largest one, and i < n be a mask",
    "nditer": "functions and operators of NumPy take all elements at once, and refxla.fori_loop is a loop",
    "ndenumerate": "functions and operators of NumPy take all elements at once, and refxla.fori_loop is a loop",
    "ma.array": "keep the mask as an array of its own: np.where(mask, y, x), np.mean(x, where=~mask)",
    "ma.masked_array": "keep the mask as an array of its own: np.where(mask, y, x), np.mean(x, where=~mask)",
    "ma.masked_where": "keep the mask as an array of its own: np.where(mask, y, x), np.mean(x, where=~mask)",
    "poly1d": "np.polyval evaluates a polynomial, np.polyadd, np.convolve and np.polyder compute with coefficients",
    "polynomial.polynomial.polyfit": "np.polyfit has one, which gives the coefficients the other way round: [::-1]",
    "permutation": "refxla.random.permutation(key, x) has one",
    "partition": "np.sort has one, and gives such an order",
}


def advice_for(called: str) -> str:
    """The replacement for a call, by its name in the user's code; "" if none is known."""
    name = called.removeprefix("np.").removeprefix("numpy.")
    last = name.rpartition(".")[-1]
    kind = getattr(np, last, None)
    if isinstance(kind, type) and issubclass(kind, np.generic):
        return f"x.astype({called}) converts"
    return ADVICE.get(name) or ADVICE.get(last, "")


def name_of(function: Callable[..., Any]) -> str:
    """A function's name as a user of NumPy writes it after `np.`."""
    module = (getattr(function, "__module__", None) or "").removeprefix("numpy").lstrip(".")
    inner = "" if not module or module.startswith("_") else f"{module}."
    return f"{inner}{getattr(function, '__name__', function)}"


def unsupported(function: Callable[..., Any], detail: str = "") -> UnsupportedError:
    """The error for a function of NumPy that has no compiled form, or for an option of one (`detail`)."""
    name = name_of(function)
    prefix = "np." if not isinstance(function, np.ufunc) or hasattr(np, name) else ""  # other packages have ufuncs, too
    kind = " (its arguments are arrays of the compiled function)" if not hasattr(np, name.partition(".")[0]) else ""
    if isinstance(function, np.ufunc) and not hasattr(np, name):
        what = (
            "it calls a Python function for each element: refxla.vmap(f) does so for all at once"
            if name.endswith("(vectorized)") else
            "it is not a function of NumPy: jax.scipy has many of SciPy's, for functions that jax.jit compiles"
        )  # fmt: skip
        return UnsupportedError(f"{name} has no compiled form{kind}: {what}")
    caller = called_library()  # the library that calls it
    subject = f"{caller} calls {prefix}{name}{detail}, which" if caller else f"{prefix}{name}{detail}"
    advice = (
        advice_for(caller)
        or ADVICE.get(name)
        or ("docs/numpy.md lists those that have; jax.numpy may have it, too: compile jax.jit(f), written with it")
    )
    return UnsupportedError(f"{subject} has no compiled form{kind}: {advice}")
