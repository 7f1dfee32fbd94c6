"""Values divided among the partitions of a program: the custom calls around the regions in which each has a part.

Outside of such a region (JAX's shard_map) every partition holds the whole value; inside, its own tile. How the value is
cut into tiles, and which partition has which, stands in one of two notations:

    SPMDFullToShardShape, SPMDShardToFullShape                  {devices=[2,1,2]<=[4] last_tile_dim_replicate}
    xla.sdy.GlobalToLocalShape, xla.sdy.LocalToGlobalShape      <@mesh, [{"x"}, {"y", "z"}]>

the `sharding` of the whole value, or frontend attributes and the meshes in the module's header. On one device the value
and its one tile are the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ..devices import Device
from ..errors import ParseError, UnsupportedError
from ..groups import iota
from ..module import Instruction, Module
from ..types import Array, Shape, Value


@dataclass(frozen=True)
class Tiling:
    """Into how many tiles each dimension is cut, and the index of each partition's tile (those outside have none)."""

    counts: tuple[int, ...]
    tiles: dict[int, tuple[int, ...]]


WHOLE = None  # the tiling of a value that every partition has as a whole


def to_tiles(instruction: Instruction, *operands: Array, device: Device) -> Value:
    """Whole values in, this partition's tiles out."""
    shapes = _shapes(instruction, len(operands))
    if device.world.partitions == 1:
        return _unchanged(instruction, operands, shapes)
    if instruction.custom_call_target == "SPMDFullToShardShape":
        given = [tiling(o.sharding, o.shape.rank, instruction) for o in instruction.operands]
    else:
        given = mesh_tilings(instruction, "in_shardings", len(operands), device.world.module)
    parts = []
    for value, shape, t in zip(operands, shapes, given, strict=True):
        _check(instruction, value.shape, shape.dimensions, t)
        parts.append(value if t is WHOLE else value[_slices(t, device.partition, shape.dimensions)])
    return tuple(parts) if instruction.shape.is_tuple else parts[0]


def to_whole(instruction: Instruction, *operands: Array, device: Device) -> Value:
    """This partition's tiles in, the whole values out, put together of the tiles of all partitions."""
    shapes = _shapes(instruction, len(operands))
    if device.world.partitions == 1:
        return _unchanged(instruction, operands, shapes)
    if instruction.custom_call_target == "SPMDShardToFullShape":
        given = [tiling(instruction.sharding, shapes[0].rank, instruction)]
    else:
        given = mesh_tilings(instruction, "out_shardings", len(operands), device.world.module)
    first = device.replica * device.world.partitions
    met = device.meet(instruction, tuple(range(first, first + device.world.partitions)), operands)
    results = []
    for n, (shape, t) in enumerate(zip(shapes, given, strict=True)):
        _check(instruction, shape.dimensions, operands[n].shape, t)
        if t is WHOLE:
            results.append(operands[n])
            continue
        whole = np.zeros(shape.dimensions, operands[n].dtype)
        for partition in t.tiles:
            whole[_slices(t, partition, operands[n].shape)] = met[partition][n]
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


def _unchanged(instruction: Instruction, operands: Sequence[Array], shapes: Sequence[Shape]) -> Value:
    for value, shape in zip(operands, shapes, strict=True):
        if value.shape != shape.dimensions:
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


def _slices(t: Tiling, partition: int, sizes: tuple[int, ...]) -> tuple[slice, ...]:
    if partition not in t.tiles:
        raise UnsupportedError(f"partition {partition} has no tile of a value that {len(t.tiles)} partitions share")
    return tuple(slice(k * n, (k + 1) * n) for k, n in zip(t.tiles[partition], sizes, strict=True))


# -- the notation of `sharding`

_TILES = re.compile(r"\{devices=\[([\d,]+)\](?:<=(\[[\d,]+\](?:T\([\d,]+\))?)|([\d,]+))(last_tile_dim.*)?\}")


def tiling(sharding: str | None, rank: int, instruction: Instruction) -> Tiling | None:
    """The tiling that a text such as {devices=[2,1]<=[2]} stands for. UnsupportedError for others."""
    text = re.sub(r"\s|/\*.*?\*/|metadata=\{.*\}", "", sharding or "{replicated}")
    if text in ("{replicated}", "{manual}"):
        return WHOLE
    found = _TILES.fullmatch(text)
    if found is None:
        raise UnsupportedError(f"{instruction.name}: {sharding} is not implemented")
    counts = tuple(map(int, found[1].split(",")))
    if found[2]:
        sizes, _, order = found[2].partition("T")
        devices = iota(_numbers(sizes), _numbers(order)).numbers
    else:
        devices = list(_numbers(found[3]))
    if len(devices) != np.prod(counts) or len(counts) < rank:
        raise ParseError(f"{instruction.name}: {sharding} names {len(devices)} devices for {list(counts)} tiles")
    places = zip(devices, np.ndindex(counts), strict=True)
    return Tiling(counts[:rank], {device: place[:rank] for device, place in places})


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", text)))


# -- the notation of meshes

_MESH = re.compile(r'([\w.\-"]+) ?= ?#sdy\.mesh<\[([^\]]*)\](?:, ?device_ids=\[([\d, ]*)\])?>')
_SHARDING = re.compile(r'<@([\w.\-"]+), ?\[((?:\{[^{}]*\}(?:p\d+)?(?:, ?)?)*)\](?:, ?replicated=\{[^{}]*\})?>')
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
            f"{instruction.name}: xla.sdy.{attribute}={text} is not implemented for {count} value(s)"
        )
    meshes = _meshes(module)
    return [_mesh_tiling(instruction, meshes.get(name.strip('"')), dims, manual) for name, dims in shardings]


def _meshes(module: Module | None) -> dict[str, tuple[dict[str, int], list[int]]]:
    """By name: the axes' sizes, and the devices in row-major order."""
    text = (module.attributes.get("frontend_attributes", "") if module else "").replace('\\"', '"')
    found = {}
    for name, axes, ids in _MESH.findall(text):
        sizes = {axis: int(size) for axis, size in re.findall(r'"([^"]+)" ?= ?(\d+)', axes)}
        devices = list(_numbers(ids)) if ids else list(range(int(np.prod(list(sizes.values())))))
        found[name.strip('"')] = sizes, devices
    return found


def _mesh_tiling(
    instruction: Instruction, mesh: tuple[dict[str, int], list[int]] | None, dims: str, manual: set[str]
) -> Tiling | None:
    if mesh is None:
        raise UnsupportedError(
            f"{instruction.name}: the module's header has no mesh of the name that its sharding says"
        )
    sizes, devices = mesh
    names = list(sizes)
    along = []  # for each dimension the axes that cut it: number, elements below one step of it, elements
    for dim in re.findall(r"\{([^{}]*)\}", dims):
        parts = [(n, int(pre or 1), int(size or sizes[n])) for n, pre, size in _AXIS.findall(dim) if n in manual]
        along.append([(names.index(n), sizes[n] // (pre * size), size) for n, pre, size in parts])
    tiles = {}
    for device, place in zip(devices, np.ndindex(tuple(sizes.values())), strict=True):
        index = []
        for axes in along:
            k = 0
            for axis, below, size in axes:
                k = k * size + place[axis] // below % size
            index.append(k)
        tiles[device] = tuple(index)
    return Tiling(tuple(int(np.prod([size for *_, size in axes])) for axes in along), tiles)
