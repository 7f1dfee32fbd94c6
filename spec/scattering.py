"""Values combined into an array at given places, several of which may be the same."""

from __future__ import annotations

import numpy as np

from .accumulate import narrow, wide_type, widen
from .module import Computation
from .numerics import type_of
from .types import Array
from .vectorize import Run, binary_opcode, components, run_vectorized


def combine_at(
    computation: Computation,
    targets: tuple[Array, ...],
    places: Array,
    updates: tuple[Array, ...],
    run: Run,
) -> tuple[Array, ...]:
    """Flat arrays with `target[p] = computation(target[p], update)` done for each place p and update, in order.

    `targets` are N flat arrays of equal size, `updates` N flat arrays as long as `places`. The computation takes N old
    values and N updates. Floating-point sums and products are computed in a wider type and rounded once, also where the
    computation combines each of several pairs with an operation of its own.
    """
    if not len(places):
        return targets
    if (parts := components(computation)) is not None:
        apart = zip(parts, targets, updates, strict=True)
        return tuple(combine_at(part, (t,), places, (u,), run)[0] for part, t, u in apart)
    opcode, parameters = binary_opcode(computation), computation.parameters
    if opcode in ("add", "multiply") and targets[0].dtype != np.bool_:
        element_type = type_of(targets[0])
        wide = wide_type(element_type)
        result = widen(targets[0], wide)
        with np.errstate(all="ignore"):
            (np.add if opcode == "add" else np.multiply).at(result, places, widen(updates[0], wide))
            changed = np.unique(places)  # what is not touched keeps its bits
            out = targets[0].copy()
            out[changed] = narrow(result[changed], element_type)
        return (out,)
    if len(parameters) == 2 and computation.root is parameters[1]:  # the last one wins, as in NumPy
        out = targets[0].copy()
        out[places] = updates[0]
        return (out,)

    # Round r applies the r-th update of each place: all the places of one round differ.
    order = np.argsort(places, kind="stable")
    ordered = places[order]
    first = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    lengths = np.diff(np.append(first, len(ordered)))
    results = tuple(t.copy() for t in targets)
    for r in range(int(lengths.max())):
        chosen = order[first[lengths > r] + r]
        at = places[chosen]
        new = run_vectorized(computation, *(t[at] for t in results), *(u[chosen] for u in updates), run=run)
        for target, value in zip(results, new if isinstance(new, tuple) else (new,), strict=True):
            target[at] = value
    return results
