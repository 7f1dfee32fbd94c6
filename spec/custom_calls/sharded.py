"""Values divided among the partitions of a program: the custom calls around the regions in which each has a part.

Outside of such a region (JAX's shard_map) every partition holds the whole value; inside, its own tile. How the value is
cut into tiles, and which partition has which, stands in one of two notations:

    SPMDFullToShardShape, SPMDShardToFullShape                  {devices=[2,1,2]<=[4] last_tile_dim_replicate}
    xla.sdy.GlobalToLocalShape, xla.sdy.LocalToGlobalShape      <@mesh, [{"x"}, {"y", "z"}]>

the `sharding` of the whole value, or frontend attributes and the meshes in the module's header. On one device the value
and its one tile are the same. A token is never cut: each partition passes on its own.

Of an *unreduced* value partitions have summands, whose sum is the value ({unreduced}, last_tile_dims={unreduced}, or
<@mesh, [...], unreduced={"x"}>). Which summands is not said: where such a value is divided, the first is all of it and
the others are zeros. A region within another one (another shard_map, over other axes) divides what each partition has,
among those partitions that differ only along its own axes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..accumulate import narrow, wide_type, widen
from ..devices import Device
from ..errors import ParseError, UnsupportedError, plural
from ..groups import iota
from ..module import Instruction, Module
from ..types import BY_DTYPE, Array, Shape, Value


@dataclass(frozen=True)
class Tiling:
    """Into how many tiles each dimension is cut, and the index of each partition's tile (those outside have none).

    `summands` has, of an unreduced value, which summand each partition has. `groups` says of a region of the mesh's
    notation between which partitions it divides values: those of an equal group.
    """

    counts: tuple[int, ...]
    tiles: dict[int, tuple[int, ...]]
    summands: dict[int, int] = field(default_factory=dict)
    groups: dict[int, tuple[int, ...]] = field(default_factory=dict)

    def summand(self, partition: int) -> int:
        """Which summand of its tile a partition has; 0 of a value that is not unreduced."""
        return self.summands.get(partition, 0)

    def owners(self, partition: int) -> dict[tuple[int, ...], list[int]]:
        """By tile, the partitions of a partition's group that have its summands, each of them once, in order."""
        by_tile: dict[tuple[int, ...], dict[int, int]] = {}
        for p in sorted(self.tiles):
            if self.groups.get(p) == self.groups.get(partition):
                by_tile.setdefault(self.tiles[p], {}).setdefault(self.summand(p), p)
        return {tile: [parts[k] for k in sorted(parts)] for tile, parts in by_tile.items()}


WHOLE = None  # the tiling of a value that every partition has as a whole


def to_tiles(instruction: Instruction, *operands: Array | None, device: Device) -> Value:
    """Whole values in, this partition's tiles out."""
    shapes = _shapes(instruction, len(operands))
    if device.world.partitions == 1:
        return _unchanged(instruction, operands, shapes)
    if instruction.custom_call_target == "SPMDFullToShardShape":
        tilings = [tiling(o.sharding, o.shape.rank, instruction, device.world.partitions) for o in instruction.operands]
    else:
        tilings = mesh_tilings(instruction, "in_shardings", len(operands), device.world.module)
    parts: list[Array | None] = []
    for value, shape, t in zip(operands, shapes, tilings, strict=True):
        if value is None:
            parts.append(None)
            continue
        _check(instruction, value.shape, shape.dimensions, t)
        part = value if t is WHOLE else value[_slices(t, device.partition, shape.dimensions)]
        parts.append(part if t is WHOLE or t.summand(device.partition) == 0 else np.zeros_like(part))
    return tuple(parts) if instruction.shape.is_tuple else parts[0]


def to_whole(instruction: Instruction, *operands: Array | None, device: Device) -> Value:
    """This partition's tiles in, the whole values out, put together of the tiles of all partitions."""
    shapes = _shapes(instruction, len(operands))
    if device.world.partitions == 1:
        return _unchanged(instruction, operands, shapes)
    if instruction.custom_call_target == "SPMDShardToFullShape":
        tilings = [tiling(instruction.sharding, shapes[0].rank, instruction, device.world.partitions)]
    else:
        tilings = mesh_tilings(instruction, "out_shardings", len(operands), device.world.module)
    first = device.replica * device.world.partitions
    met = device.meet(instruction, tuple(range(first, first + device.world.partitions)), operands)
    results: list[Array | None] = []
    for n, (own, shape, t) in enumerate(zip(operands, shapes, tilings, strict=True)):
        if own is None:
            results.append(None)
            continue
        _check(instruction, shape.dimensions, own.shape, t)
        if t is WHOLE:
            results.append(own)
            continue
        whole = np.zeros(shape.dimensions, own.dtype)
        for partitions in t.owners(device.partition).values():
            tile = _total([met[p][n] for p in partitions])
            whole[_slices(t, partitions[0], own.shape)] = tile
        results.append(whole)
    return tuple(results) if instruction.shape.is_tuple else results[0]


TARGETS: dict[str, Callable[..., Value]] = {
    "SPMDFullToShardShape": to_tiles,
    "SPMDShardToFullShape": to_whole,
    "xla.sdy.GlobalToLocalShape": to_tiles,
    "xla.sdy.LocalToGlobalShape": to_whole,
}


def _shapes(instruction: Instruction, count: int) -> tuple[Shape, ...]:
    """The shapes of the results."""
    shapes = instruction.shape.elements if instruction.shape.is_tuple else (instruction.shape,)
    if len(shapes) != count:
        raise UnsupportedError(
            f"{instruction.name}: {instruction.custom_call_target} of {count} operands gives {shapes}"
        )
    return shapes


def _unchanged(instruction: Instruction, operands: Sequence[Array | None], shapes: Sequence[Shape]) -> Value:
    for value, shape in zip(operands, shapes, strict=True):
        if value is not None and value.shape != shape.dimensions:
            raise UnsupportedError(
                f"{instruction.name}: {instruction.custom_call_target} makes {shape} of {Shape.of(value)}: a program "
                "for several devices; compile it for one, or run it on as many with refxla_spec.devices.run_devices"
            )
    return tuple(operands) if instruction.shape.is_tuple else operands[0]


def _check(instruction: Instruction, whole: tuple[int, ...], tile: tuple[int, ...], t: Tiling | None) -> None:
    counts = (1,) * len(whole) if t is WHOLE else t.counts
    if len(tile) != len(whole) or any(n != m * c for n, m, c in zip(whole, tile, counts, strict=True)):
        raise UnsupportedError(
            f"{instruction.name}: {instruction.custom_call_target} cuts {list(whole)} into {list(counts)} tiles of "
            f"{list(tile)}; only tiles of one size are implemented"
        )


def _total(summands: Sequence[Array]) -> Array:
    """Their sum, in order, in a wider type and rounded once."""
    if len(summands) == 1:
        return summands[0]
    element_type = BY_DTYPE[summands[0].dtype]
    first, *others = (widen(s, wide_type(element_type)) for s in summands)
    with np.errstate(all="ignore"):
        return narrow(sum(others, first), element_type)


def _slices(t: Tiling, partition: int, sizes: tuple[int, ...]) -> tuple[slice, ...]:
    if partition not in t.tiles:
        raise UnsupportedError(f"partition {partition} has no tile of a value that {len(t.tiles)} partitions share")
    return tuple(slice(k * n, (k + 1) * n) for k, n in zip(t.tiles[partition], sizes, strict=True))


# -- the notation of `sharding`

_TILES = re.compile(
    r"\{devices=\[([\d,]+)\](?:<=(\[[\d,]+\](?:T\([\d,]+\))?)|([\d,]+))(?:last_tile_dim_replicate|last_tile_dims=\{([\w,]*)\})?\}"
)


def tiling(sharding: str | None, rank: int, instruction: Instruction, partitions: int) -> Tiling | None:
    """The tiling that a text such as {devices=[2,1]<=[2]} stands for. UnsupportedError for others."""
    text = re.sub(r"\s|/\*.*?\*/|metadata=\{.*\}(?=\}\s*$)", "", sharding or "{replicated}", flags=re.S)
    if text in ("{replicated}", "{manual}") or re.fullmatch(
        r"\{maximaldevice=\d+\}", text
    ):  # which says where, not how
        return WHOLE
    if "unreduced" in text:
        check_summed(instruction, sharding or "")
    if text == "{unreduced}":
        everybody = range(partitions)
        return Tiling((1,) * rank, dict.fromkeys(everybody, (0,) * rank), {p: p for p in everybody})
    match = _TILES.fullmatch(text)
    if match is None:
        raise UnsupportedError(f"{instruction.name}: {sharding} is not implemented")
    counts = tuple(map(int, match[1].split(",")))
    if match[2]:
        sizes, _, order = match[2].partition("T")
        devices = iota(_numbers(sizes), _numbers(order)).numbers
    else:
        devices = list(_numbers(match[3]))
    if len(devices) != np.prod(counts) or len(counts) < rank:
        raise ParseError(
            f"{instruction.name}: {sharding} names {plural(len(devices), 'device')} for {list(counts)} tiles"
        )
    places = dict(zip(devices, np.ndindex(counts), strict=True))
    along = [rank + n for n, kind in enumerate((match[4] or "").split(",")) if kind == "unreduced"]
    summands = {d: _index([(place[n], counts[n]) for n in along]) for d, place in places.items()} if along else {}
    return Tiling(counts[:rank], {device: place[:rank] for device, place in places.items()}, summands)


def check_summed(instruction: Instruction, sharding: str = "") -> None:
    """UnsupportedError where an unreduced value is not the sum of what partitions have but, say, the largest of it."""
    stated = re.search(r"unreduced=(\w+)\{", dict(instruction.frontend_attributes).get("xla.sdy.sharding", ""))
    noted = re.search(r'op_type="sdy::reduction_op"\s+op_name="(?!SUM")(\w+)"', sharding)
    if match := stated or noted:
        raise UnsupportedError(f"{instruction.name}: values that are unreduced for {match[1]} are not implemented")


def _index(digits: Sequence[tuple[int, int]]) -> int:
    """The number that is written with digits (digit, base), the first one the most significant."""
    number = 0
    for digit, base in digits:
        number = number * base + digit
    return number


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", text)))


# -- the notation of meshes

_MESH = re.compile(r'([\w.\-"]+) ?= ?#sdy\.mesh<\[([^\]]*)\](?:, ?device_ids=\[([\d, ]*)\])?>')
_SHARDING = re.compile(
    r'<@([\w.\-"]+), ?\[((?:\{[^{}]*\}(?:p\d+)?(?:, ?)?)*)\]'  # the mesh, and how each dimension is cut
    r"(?:, ?replicated=\{[^{}]*\})?(?:, ?unreduced=\{([^{}]*)\})?>"
)
_AXIS = re.compile(r'"([^"]+)"(?::\((\d+)\)(\d+))?')


def mesh_tilings(instruction: Instruction, attribute: str, count: int, module: Module | None) -> list[Tiling | None]:
    """The tilings of a frontend attribute such as xla.sdy.in_shardings, one for each value."""
    notes = dict(instruction.frontend_attributes)
    text, manual = (
        notes.get(f"xla.sdy.{attribute}", ""),
        set(re.findall(r'"([^"]+)"', notes.get("xla.sdy.manual_axes", ""))),
    )
    shardings = _SHARDING.findall(text)
    if len(shardings) != count:
        raise UnsupportedError(
            f"{instruction.name}: xla.sdy.{attribute}={text} is not implemented for {plural(count, 'value')}"
        )
    meshes = _meshes(module)
    return [
        _mesh_tiling(instruction, meshes.get(name.strip('"')), dims, unreduced, manual)
        for name, dims, unreduced in shardings
    ]


def _meshes(module: Module | None) -> dict[str, tuple[dict[str, int], list[int]]]:
    """By name: the axes' sizes, and the devices in row-major order."""
    text = (module.attributes.get("frontend_attributes", "") if module else "").replace('\\"', '"')
    meshes = {}
    for name, axes, ids in _MESH.findall(text):
        sizes = {axis: int(size) for axis, size in re.findall(r'"([^"]+)" ?= ?(\d+)', axes)}
        devices = list(_numbers(ids)) if ids else list(range(int(np.prod(list(sizes.values())))))
        meshes[name.strip('"')] = sizes, devices
    return meshes


def _mesh_tiling(
    instruction: Instruction,
    mesh: tuple[dict[str, int], list[int]] | None,
    dims: str,
    unreduced: str,
    manual: set[str],
) -> Tiling | None:
    if mesh is None:
        raise UnsupportedError(
            f"{instruction.name}: the module's header has no mesh of the name that its sharding says"
        )
    sizes, devices = mesh
    names = list(sizes)

    def axes(text: str) -> list[tuple[int, int, int]]:
        """Of each manual axis: its number, elements below one step of it, elements."""
        parts = [(n, int(pre or 1), int(size or sizes[n])) for n, pre, size in _AXIS.findall(text) if n in manual]
        return [(names.index(n), sizes[n] // (pre * size), size) for n, pre, size in parts]

    along = [axes(dim) for dim in re.findall(r"\{([^{}]*)\}", dims)]
    summed = axes(unreduced)
    tiles, summands, groups = {}, {}, {}
    for device, place in zip(devices, np.ndindex(tuple(sizes.values())), strict=True):

        def index(parts: list[tuple[int, int, int]], place: tuple[int, ...] = place) -> int:
            return _index([(place[axis] // below % size, size) for axis, below, size in parts])

        tiles[device] = tuple(map(index, along))
        groups[device] = tuple(k for name, k in zip(names, place, strict=True) if name not in manual)
        if summed:
            summands[device] = index(summed)
    counts = tuple(int(np.prod([size for *_, size in parts])) for parts in along)
    return Tiling(counts, tiles, summands, groups)
