"""Global values cut into the devices' tiles, and put together from them, at the borders of the program and of its
manual regions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from refxla_spec.custom_calls.sharded import WHOLE, Tiling, mesh_tilings, tiling
from refxla_spec.errors import UnsupportedError
from refxla_spec.module import Instruction, Module

from ...ir.builder import Build
from .collectives import combined_in_order
from .one_device_builder import OneDeviceBuilder, PerDevice, Value

TO_TILES = ("SPMDFullToShardShape", "xla.sdy.GlobalToLocalShape")
TO_WHOLE = ("SPMDShardToFullShape", "xla.sdy.LocalToGlobalShape")


def tile_of(b: Build, value: Instruction, cut: Tiling | None, device: int) -> Instruction:
    """The tile of a value that a device has."""
    if cut is WHOLE or value.shape.element_type.kind == "token":
        return value
    if device not in cut.tiles:
        raise UnsupportedError(f"{value.name}: device {device} has no tile of it")
    if any(size % n for size, n in zip(value.shape.dimensions, cut.counts, strict=True)):
        raise UnsupportedError(f"{value.name}: {value.shape} is not cut into {list(cut.counts)} equal tiles")
    sizes = [size // n for size, n in zip(value.shape.dimensions, cut.counts, strict=True)]
    if cut.summand(device):
        tile = value.shape.without_layout().with_dimensions(tuple(sizes))
        return b.full(tile.element_type.array_dtype.type(0), tile)
    start = tuple(k * size for k, size in zip(cut.tiles[device], sizes, strict=True))
    return b.slice(value, start, tuple(s + size for s, size in zip(start, sizes, strict=True)))


def joined_tiles(
    builder: OneDeviceBuilder, b: Build, parts: Sequence[Instruction], cut: Tiling | None, device: int = 0
) -> Instruction:
    """The value that the devices' parts make up: the global one or, within another region, that of a device of that
    region."""
    if cut is WHOLE or parts[device].shape.element_type.kind == "token":
        return parts[device]
    grid = np.empty(cut.counts, object)
    for place, owners in cut.owners(device).items():
        grid[place] = combined_in_order(b, "add", [parts[d] for d in owners])
    for d in range(len(cut.counts) - 1, -1, -1):
        joined = np.empty(grid.shape[:-1], object)
        for place in np.ndindex(joined.shape):
            row = list(grid[place])
            joined[place] = row[0] if len(row) == 1 else b.make("concatenate", *row, dimensions=(d,))
        grid = joined
    whole: Instruction = grid.item()
    return builder.add(whole)


def to_tiles(builder: OneDeviceBuilder, i: Instruction, operands: list[Value], source: Module) -> Value:
    """Each device's tiles of the operands of `i`, at which a manual region of `source` begins."""
    if i.custom_call_target == TO_TILES[0]:
        if any(isinstance(o, PerDevice) for o in operands):
            raise UnsupportedError(f"{i.name}: a manual region within another one, in the notation of GSPMD")
        cuts = [tiling(o.sharding, o.shape.rank, i, builder.count) for o in i.operands]
    else:
        cuts = mesh_tilings(i, "in_shardings", len(operands), source)
    b = Build(i.name)
    tiles = [
        [tile_of(b, builder.part(o, d), c, d) for o, c in zip(operands, cuts, strict=True)]
        for d in range(builder.count)
    ]
    return builder.each(lambda d: b.make("tuple", *tiles[d]) if i.shape.is_tuple else tiles[d][0])


def to_whole(builder: OneDeviceBuilder, i: Instruction, operands: list[Value], source: Module, nested: bool) -> Value:
    """The values of which the operands of `i` are the tiles, where a manual region of `source` ends; each device of the
    outer region has one if it is `nested`."""
    if i.custom_call_target == TO_WHOLE[0]:
        cuts = [tiling(i.sharding, i.shape.rank, i, builder.count)]
    else:
        cuts = mesh_tilings(i, "out_shardings", len(operands), source)
    b = Build(i.name)

    def whole(device: int) -> Instruction:
        wholes = [
            joined_tiles(builder, b, [builder.part(o, d) for d in range(builder.count)], c, device)
            for o, c in zip(operands, cuts, strict=True)
        ]
        return builder.add(b.make("tuple", *wholes)) if i.shape.is_tuple else wholes[0]

    return builder.each(whole) if nested else whole(0)
