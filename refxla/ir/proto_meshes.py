"""Meshes of devices and their axes, which replica groups and shardings refer to, converted between messages and the
IR."""

from __future__ import annotations

from typing import Any

from refxla_spec.errors import ParseError, plural
from refxla_spec.groups import Iota, MeshAxis, iota

Axes = tuple[tuple[str, int], ...]  # name and size of each
DeviceIds = Iota | tuple[int, ...] | None  # None: 0, 1, 2, ...


def mesh_from(message: Any) -> tuple[Axes, DeviceIds]:
    """The axes and devices of a MeshProto."""
    axes = tuple((a.name, a.size) for a in message.axes)
    if message.HasField("iota_transform"):
        transform = message.iota_transform
        return axes, iota(tuple(transform.reshape_dims), tuple(transform.transpose_perm))
    return axes, tuple(message.device_ids) or None


def mesh_to(axes: Axes, device_ids: DeviceIds, message: Any) -> None:
    """Fills a MeshProto."""
    for name, size in axes:
        message.axes.add(name=name, size=size)
    if isinstance(device_ids, Iota):
        message.iota_transform.reshape_dims.extend(device_ids.dimensions)
        message.iota_transform.transpose_perm.extend(device_ids.permutation)
    else:
        message.device_ids.extend(device_ids or ())


def axis_from(message: Any, axes: Axes) -> MeshAxis:
    """The axis that an AxisRefProto refers to, or part of one. Raises ParseError if the mesh has no such axis."""
    if not 0 <= message.mesh_axis_index < len(axes):
        raise ParseError(f"a mesh of {plural(len(axes), 'axis', 'axes')} has no axis {message.mesh_axis_index}")
    if not message.HasField("sub_axis_info"):
        return MeshAxis(message.mesh_axis_index)
    return MeshAxis(message.mesh_axis_index, message.sub_axis_info.pre_size, message.sub_axis_info.size)


def axis_to(axis: MeshAxis, message: Any) -> None:
    """Fills an AxisRefProto."""
    message.mesh_axis_index = axis.axis
    if axis.size is not None:
        message.sub_axis_info.pre_size, message.sub_axis_info.size = axis.pre_size, axis.size
