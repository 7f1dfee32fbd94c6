"""Donation: parameters whose memory the caller gives up, so that results can be stored there.

A module declares it in its header: input_output_alias pairs a result with a parameter of the same shape, buffer_donor
names parameters whose memory any result may take. Both are permissions: where a program reads a parameter after the
result is written, the result has memory of its own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from refxla_spec.module import Alias, Module
from refxla_spec.types import Shape, leaves

DONORS = "buffer_donor"  # the attribute of a header
_DONOR = re.compile(r"\(\s*(\d+)\s*,\s*\{([\d,\s]*)\}[^()]*\)")


def flatten_donations(module: Module) -> None:
    """Rewrites the header's entries in terms of the leaves of tuples: parameter n and result n become the n-th arrays.

    This is called before the entry's tuples are flattened. Entries that name a whole tuple, or a place that does not
    exist, are dropped.
    """
    shapes = [p.shape for p in module.entry.parameters]
    root = module.entry.root.shape
    aliases = []
    for a in module.aliases:
        result, parameter = _leaf([root], (0, *a.output_index)), _leaf(shapes, (a.parameter, *a.parameter_index))
        if result is not None and parameter is not None:
            aliases.append(Alias((result,) if root.is_tuple else (), parameter, (), a.kind))
    module.aliases = tuple(aliases)
    if DONORS in module.attributes:
        places = (_leaf(shapes, place) for place in _donors(module.attributes[DONORS]))
        module.attributes[DONORS] = "{ " + ", ".join(f"({n}, {{}})" for n in places if n is not None) + " }"


def donate(module: Module, parameters: Sequence[int]) -> None:
    """Donates parameters that are arrays: each to the first result of its shape that has none yet."""
    root = module.entry.root.shape
    free = dict(enumerate(root.elements if root.is_tuple else (root,)))
    donors = []
    for n in parameters:
        shape = module.entry.parameters[n].shape.without_layout()
        result = next((k for k, s in free.items() if s.is_array and s.without_layout() == shape), None)
        if result is None:
            donors.append(f"({n}, {{}})")
        else:
            del free[result]
            module.aliases = (*module.aliases, Alias((result,) if root.is_tuple else (), n))
    if donors:
        module.attributes[DONORS] = "{ " + ", ".join(donors) + " }"


def donated_parameters(module: Module) -> dict[int, int | None]:
    """The numbers of a module's donated parameters, none of which is a tuple, each with the number of the result that
    is to be stored in its memory, or None."""
    results: dict[int, int | None] = {place[0]: None for place in _donors(module.attributes.get(DONORS, ""))}
    for a in module.aliases:
        results[a.parameter] = a.output_index[0] if a.output_index else 0
    return results


def _donors(text: str) -> list[tuple[int, ...]]:
    """For each entry of buffer_donor, the number of the parameter, followed by the index into it."""
    return [(int(n), *(int(k) for k in index.split(",") if k.strip())) for n, index in _DONOR.findall(text)]


def _leaf(shapes: Sequence[Shape], place: tuple[int, ...]) -> int | None:
    """The number of the leaf at a place, or None if there is no array."""
    before = 0
    for n in place:
        if n >= len(shapes):
            return None
        before += sum(len(leaves(s)) for s in shapes[:n])
        shape = shapes[n]
        shapes = shape.elements if shape.is_tuple else ()
    return before if shape.is_array else None
