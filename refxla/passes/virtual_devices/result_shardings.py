"""How the results of a program for several devices are cut, as the program itself says."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
from refxla_spec.custom_calls.sharded import WHOLE, Tiling, tiling
from refxla_spec.module import Instruction, Module
from refxla_spec.types import Shape


def result_shardings(module: Module) -> list[str | None]:
    """How each result of a program is cut, according to the program; None if it is global. Along dimensions that are
    not cut into equal parts a result is whole, as in Shardy; JAX refuses such shardings of arguments and of declared
    results."""
    root = module.entry.root
    if not root.shape.is_tuple:
        return [_even(root.sharding, root.shape, root)]
    shapes = root.shape.elements
    stated = _split(root.sharding, len(shapes)) if root.sharding else [None] * len(shapes)
    return [_even(s, shape, root) for s, shape in zip(stated, shapes, strict=True)]


def _even(sharding: str | None, shape: Shape, root: Instruction) -> str | None:
    """A result's sharding without the cuts into unequal parts."""
    cut = WHOLE if shape.element_type.kind == "token" else tiling(sharding, shape.rank, root, 1)
    if cut is WHOLE:
        return None
    if not any(size % n for size, n in zip(shape.dimensions, cut.counts, strict=True)):
        return sharding
    counts = tuple(1 if size % n else n for size, n in zip(shape.dimensions, cut.counts, strict=True))
    tiles = {d: tuple(k if n > 1 else 0 for k, n in zip(tile, counts, strict=True)) for d, tile in cut.tiles.items()}
    return _text(replace(cut, counts=counts, tiles=tiles))


def _text(cut: Tiling | None) -> str | None:
    """A tiling in the notation of `sharding`."""
    if cut is WHOLE:
        return None
    devices = sorted(cut.tiles, key=lambda d: (cut.tiles[d], cut.summand(d), d))
    summands = len({cut.summand(d) for d in devices})
    each = len(devices) // max(1, int(np.prod(cut.counts)) * summands)
    last = {"unreduced": summands, "replicated": each}
    kinds = [kind for kind, size in last.items() if size > 1]
    if summands == len(devices) > 1:
        return "{unreduced}"
    names = (",".join(map(str, numbers)) for numbers in ((*cut.counts, *(last[k] for k in kinds)), devices))
    end = f" last_tile_dims={{{', '.join(kinds)}}}" if summands > 1 else " last_tile_dim_replicate" if kinds else ""
    return "{{devices=[{}]{}{}}}".format(*names, end)


def _split(sharding: str | None, count: int) -> list[str | None]:
    """The shardings of a tuple's elements, from {{...}, {...}}; one for all if it is not such a list."""
    if sharding is None or not re.match(r"\{\s*(/\*.*?\*/)?\s*\{", sharding):
        return [sharding] * count
    shardings: list[str | None] = []
    depth = start = 0
    for match in re.finditer(r'[{}]|"(?:[^"\\]|\\.)*"', sharding):  # strings: of metadata
        depth += {"{": 1, "}": -1}.get(match[0], 0)
        if match[0] == "{" and depth == 2:
            start = match.start()
        if match[0] == "}" and depth == 1:
            shardings.append(sharding[start : match.end()])
    return shardings
