"""Where each attribute of an operation is in HloInstructionProto, and how it is read and written there.

FIELDS gives the path of the field of each attribute; its contents follow from the kind of the attribute
(`refxla_spec.attributes`). Attributes whose fields have a special form have a pair of functions in SPECIAL.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np
from refxla_spec import attributes as kinds
from refxla_spec.errors import ParseError, UnsupportedError
from refxla_spec.groups import (
    GroupList,
    IotaGroups,
    MeshGroups,
    ReplicaGroups,
    iota_groups,
    mesh_groups,
)
from refxla_spec.module import ConvolutionDimensions, PaddingDimension, SliceDimension, WindowDimension

from .hlo_schema import ENUMS
from .proto_meshes import axis_from, axis_to, mesh_from, mesh_to
from .proto_values import shape_from, shape_to

_GATHER = ("offset_dims", "collapsed_slice_dims", "start_index_map", "operand_batching_dims")
_SCATTER = ("update_window_dims", "inserted_window_dims", "scatter_dims_to_operand_dims", "input_batching_dims")
_DOT = ("lhs_contracting", "rhs_contracting", "lhs_batch", "rhs_batch")

# Collectives whose constrain_layout is an attribute; in other operations, it says that there are
# operand_layout_constraints.
_GROUPED = ("all-gather", "all-gather-start", "all-reduce", "all-reduce-start", "all-to-all", "reduce-scatter")

FIELDS: dict[str, str] = {
    **{name: name for name in ("dimensions", "dynamic_slice_sizes", "exponent_bits", "mantissa_bits", "distribution")},
    **{name: name for name in ("epsilon", "feature_index", "channel_id", "infeed_config", "outfeed_config")},
    **{name: name for name in ("custom_call_target", "outfeed_shape", "fft_type", "fft_length", "all_reduce_id")},
    **{name: name for name in ("is_host_transfer", "feature_group_count", "batch_group_count", "is_stable", "delta")},
    **{name: name for name in ("custom_call_has_side_effect", "indices_are_sorted", "unique_indices", "padding_type")},
    **{name: name for name in ("use_global_device_ids", "is_cross_program_prefetch", "async_execution_thread")},
    **{
        name: name
        for name in ("k", "largest", "is_composite", "num_carries", "is_reverse", "is_associative", "has_dynamic_root")
    },
    **{f"{name}_dims": f"ragged_dot_dimension_numbers.{name}_dimensions" for name in ("lhs_ragged", "rhs_group")},
    **{f"{name}_dims": f"dot_dimension_numbers.{name}_dimensions" for name in _DOT},
    **{name: f"gather_dimension_numbers.{name}" for name in (*_GATHER, "start_indices_batching_dims")},
    **{name: f"scatter_dimension_numbers.{name}" for name in (*_SCATTER, "scatter_indices_batching_dims")},
    **{name: f"triangular_solve_options.{name}" for name in ("left_side", "lower", "unit_diagonal", "transpose_a")},
    "shifts": "shuffle_mode.rotate.shifts",
    "convolution_kind": "conv_kind",
    "number": "parameter_number",
    "index": "tuple_index",
    "kind": "fusion_kind",
    "direction": "comparison_direction",
    "order": "comparison_order",
    "type": "comparison_type",
    "slice_sizes": "gather_slice_sizes",
    "operand_precision": "precision_config.operand_precision",
    "algorithm": "precision_config.algorithm",
    "schedule": "custom_call_schedule",
    "api_version": "custom_call_api_version",
    "iota_dimension": "dimensions",
    "inferred_dimension": "dimensions",
    # of a special form:
    "window": "window",
    "dim_labels": "convolution_dimension_numbers",
    "slice": "slice_dimensions",
    "padding": "padding_config",
    "operand_layout_constraints": "operand_shapes_with_layout",
    "output_to_operand_aliasing": "output_operand_aliasing",
    "parameter_replication": "parameter_replication",
    "result_accuracy": "result_accuracy",
    "source_target_pairs": "source_target_pairs",
    "replica_groups": "collective_device_list",
}

# Names that refer to another field in one operation.
_EXCEPTIONS = {
    ("gather", "index_vector_dim"): "gather_dimension_numbers.index_vector_dim",
    ("scatter", "index_vector_dim"): "scatter_dimension_numbers.index_vector_dim",
    ("rng-bit-generator", "algorithm"): "rng_algorithm",
    ("cholesky", "lower"): "cholesky_options.lower",
    ("shuffle", "mode"): "shuffle_mode",
    **{(f"collective-permute{s}", "slice_sizes"): "dynamic_slice_sizes" for s in ("", "-start")},
    **{(op, "constrain_layout"): "constrain_layout" for op in _GROUPED},
    **{("copy-start", name): name for name in ("cross_program_prefetch_index",)},
    **{
        ("ragged-dot", f"{name}_dims"): f"ragged_dot_dimension_numbers.dot_dimension_numbers.{name}_dimensions"
        for name in _DOT
    },
}


# Single numbers that are in a repeated field.
SINGLE = ("iota_dimension", "inferred_dimension")


_ASSOCIATIVE = {True: 1, False: 2}  # 0: unknown, which HLO's text does not distinguish from false


def field_of(opcode: str, name: str) -> str | None:
    """The path of the field of an attribute, or None if protos have none for it."""
    return _EXCEPTIONS.get((opcode, name)) or FIELDS.get(name)


def _window_from(message: Any) -> tuple[WindowDimension, ...]:
    return tuple(
        WindowDimension(
            d.size, d.stride, d.padding_low, d.padding_high, d.base_dilation, d.window_dilation, d.window_reversal
        )
        for d in message.dimensions
    )


def _window_to(window: tuple[WindowDimension, ...], message: Any) -> None:
    for d in window:
        message.dimensions.add(
            size=d.size,
            stride=d.stride,
            padding_low=d.padding_low,
            padding_high=d.padding_high,
            base_dilation=d.base_dilation,
            window_dilation=d.window_dilation,
            window_reversal=d.reversal,
        )


def _convolution_field(name: str) -> str:
    """The field of the proto for a field of ConvolutionDimensions: input_batch -> input_batch_dimension."""
    return f"{name}_dimension{'s' * name.endswith('spatial')}"


_MOST_DIMENSIONS = 64  # of an array of a convolution; most have 4


def _convolution_from(message: Any) -> ConvolutionDimensions:
    def value(name: str) -> Any:
        field = getattr(message, _convolution_field(name))
        return tuple(field) if name.endswith("spatial") else field

    dims = ConvolutionDimensions(**{f.name: value(f.name) for f in fields(ConvolutionDimensions)})
    for first, second, spatial in (
        (dims.input_batch, dims.input_feature, dims.input_spatial),
        (dims.kernel_input_feature, dims.kernel_output_feature, dims.kernel_spatial),
        (dims.output_batch, dims.output_feature, dims.output_spatial),
    ):
        labelled = {first, second, *spatial}  # in a custom call, others may be without a label: b01f?
        rank = len(dims.input_spatial) + 2
        if len(spatial) + 2 != rank or len(labelled) != rank or min(labelled) < 0 or max(labelled) >= _MOST_DIMENSIONS:
            raise ParseError(f"the dimension numbers of a convolution are contradictory: {dims}")
    return dims


def _convolution_to(dims: ConvolutionDimensions, message: Any) -> None:
    for f in fields(ConvolutionDimensions):
        if f.name.endswith("spatial"):
            getattr(message, _convolution_field(f.name)).extend(getattr(dims, f.name))
        else:
            setattr(message, _convolution_field(f.name), getattr(dims, f.name))
    message.SetInParent()


def _slices_from(message: Any) -> tuple[SliceDimension, ...]:
    return tuple(SliceDimension(d.start, d.limit, d.stride) for d in message)


def _slices_to(slices: tuple[SliceDimension, ...], message: Any) -> None:
    for s in slices:
        message.add(start=s.start, limit=s.limit, stride=s.stride)


def _padding_from(message: Any) -> tuple[PaddingDimension, ...]:
    return tuple(
        PaddingDimension(d.edge_padding_low, d.edge_padding_high, d.interior_padding) for d in message.dimensions
    )


def _padding_to(padding: tuple[PaddingDimension, ...], message: Any) -> None:
    for d in padding:
        message.dimensions.add(edge_padding_low=d.low, edge_padding_high=d.high, interior_padding=d.interior)
    message.SetInParent()


def _braced(values: Any) -> str:
    return "{" + ",".join(map(str, values)) + "}"


def _integers(text: str) -> list[int]:
    return [int(t) for t in re.findall(r"\d{1,18}", text)]


def _aliasing_from(message: Any) -> str:
    entries = (
        f"{_braced(a.output_shape_index)}: ({a.operand_index}, {_braced(a.operand_shape_index)})" for a in message
    )
    return "{" + ", ".join(entries) + "}"


def _aliasing_to(text: str, message: Any) -> None:
    for output, operand, index in re.findall(r"\{([\d,\s]*)\}\s*:\s*\(\s*(\d+)\s*,\s*\{([\d,\s]*)\}\s*\)", text):
        message.add(
            output_shape_index=_integers(output), operand_index=int(operand), operand_shape_index=_integers(index)
        )


def _replication_from(message: Any) -> str:
    return "{" + ",".join("true" if b else "false" for b in message.replicated_at_leaf_buffers) + "}"


def _replication_to(text: str, message: Any) -> None:
    message.replicated_at_leaf_buffers.extend(w == "true" for w in re.findall("true|false", text))


_ACCURACY = ("default", "highest")


def _accuracy_from(message: Any) -> str:
    if message.HasField("tolerance"):
        t = message.tolerance
        return f"{{tolerance={{atol={t.atol:g}, rtol={t.rtol:g}, ulps={t.ulps}}}}}"
    return f"{{mode={_ACCURACY[message.mode & 1]}}}"


def _accuracy_to(text: str, message: Any) -> None:
    if match := re.search(r"mode\s*=\s*(default|highest)", text):
        message.mode = _ACCURACY.index(match[1])
    elif numbers := re.findall(r"(atol|rtol|ulps)\s*=\s*([-+.\deE]+)", text):
        for name, number in numbers:
            setattr(message.tolerance, name, int(number) if name == "ulps" else float(number))
    else:
        raise UnsupportedError(f"result_accuracy={text} is not implemented in protos")


def _pairs_from(message: Any) -> tuple[tuple[int, int], ...]:
    return tuple((p.source, p.target) for p in message)


def _pairs_to(pairs: tuple[tuple[int, int], ...], message: Any) -> None:
    for source, target in pairs:
        message.add(source=source, target=target)


# The possible fields of the groups of a collective: each form has its field, and older writers used others.
GROUP_FIELDS = (
    "replica_groups",
    "collective_device_list",
    "iota_collective_device_list",
    "mesh_axes_replica_group_list",
)


def _groups_from(message: Any) -> ReplicaGroups:
    listed = message.collective_device_list
    if message.HasField("iota_collective_device_list") or listed.HasField("iota_replica_group_list"):
        newer = message.HasField("iota_collective_device_list")
        m = message.iota_collective_device_list if newer else listed.iota_replica_group_list
        dimensions, permutation = tuple(m.iota_reshape_dims), tuple(m.iota_transpose_perm)
        return iota_groups(m.num_replica_groups, m.num_devices_per_group, dimensions, permutation)
    if message.HasField("mesh_axes_replica_group_list"):
        mesh_list = message.mesh_axes_replica_group_list
        axes, ids = mesh_from(mesh_list.mesh)
        along = [axis_from(a, axes) for a in mesh_list.axes]
        return mesh_groups(axes, tuple(along), ids)
    return GroupList(tuple(tuple(g.replica_ids) for g in listed.replica_groups or message.replica_groups))


def _groups_to(groups: ReplicaGroups, message: Any) -> None:
    if isinstance(groups, IotaGroups):
        m = message.iota_collective_device_list
        m.num_replica_groups, m.num_devices_per_group = groups.count, groups.size
        m.iota_reshape_dims.extend(groups.source.dimensions)
        m.iota_transpose_perm.extend(groups.source.permutation)
    elif isinstance(groups, MeshGroups):
        mesh_list = message.mesh_axes_replica_group_list
        mesh_to(groups.axes, groups.device_ids, mesh_list.mesh)
        for a in groups.along:
            axis_to(a, mesh_list.axes.add())
    else:
        for group in groups.lists:
            message.collective_device_list.replica_groups.add(replica_ids=group)
        message.collective_device_list.SetInParent()


def _mode_from(message: Any) -> str:
    if not message.HasField("rotate"):
        raise UnsupportedError("a shuffle of another mode than rotate is not implemented")
    return "rotate"


def _mode_to(mode: str, message: Any) -> None:
    if mode != "rotate":
        raise UnsupportedError(f"a shuffle of mode {mode} is not implemented")
    message.rotate.SetInParent()


def _layouts_from(message: Any) -> tuple[Any, ...]:
    return tuple(shape_from(s) for s in message)


def _layouts_to(shapes: tuple[Any, ...], message: Any) -> None:
    for s in shapes:
        shape_to(s, message.add())


SPECIAL: dict[str, tuple[Callable[[Any], Any], Callable[[Any, Any], None]]] = {
    "window": (_window_from, _window_to),
    "dim_labels": (_convolution_from, _convolution_to),
    "slice": (_slices_from, _slices_to),
    "padding": (_padding_from, _padding_to),
    "operand_layout_constraints": (_layouts_from, _layouts_to),
    "output_to_operand_aliasing": (_aliasing_from, _aliasing_to),
    "parameter_replication": (_replication_from, _replication_to),
    "result_accuracy": (_accuracy_from, _accuracy_to),
    "source_target_pairs": (_pairs_from, _pairs_to),
    "outfeed_shape": (shape_from, shape_to),
    "mode": (_mode_from, _mode_to),
}


def _owner(message: Any, path: str) -> tuple[Any, str]:
    """The message that holds the last field of a path, and this field's name."""
    *outer, last = path.split(".")
    for name in outer:
        message = getattr(message, name)
    return message, last


def read(message: Any, path: str, name: str, kind: str) -> Any:
    """The value of an attribute in an instruction's proto. None for a default value."""
    if name == "replica_groups":
        return _groups_from(message)
    owner, last = _owner(message, path)
    value = getattr(owner, last)
    if name in SPECIAL:
        return SPECIAL[name][0](value)
    if name in SINGLE:
        return value[0] if len(value) == 1 else None
    if name == "is_associative":
        return value == _ASSOCIATIVE[True]
    if kind == kinds.INTS:
        return tuple(value)
    if kind == kinds.INT_LISTS:
        return (tuple(value),) if value else ()  # one list for all
    if kind == kinds.ENUMS:
        return tuple(_word(last, v) for v in value) if any(value) else None
    if kind == kinds.ENUM and isinstance(value, int):
        word = _word(last, value)
        return None if word in ("unset", "API_VERSION_ORIGINAL", "API_VERSION_UNSPECIFIED") else word
    if kind == kinds.FLOAT:
        return float(str(np.float32(value)))
    if name in ("feature_group_count", "batch_group_count"):
        return value or 1  # older writers left 0 there
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value


def write(message: Any, path: str, name: str, value: Any) -> None:
    """Writes the value of an attribute into an instruction's proto."""
    owner, last = _owner(message, path)
    if name == "replica_groups":
        _groups_to(value, message)
    elif name in SPECIAL:
        SPECIAL[name][1](value, getattr(owner, last))
        if name == "operand_layout_constraints":
            message.constrain_layout = True
    elif name in SINGLE:
        owner.dimensions.append(value)
    elif name == "operand_precision":
        getattr(owner, last).extend(_number(last, word) for word in value)
    elif name == "is_associative":
        setattr(owner, last, _ASSOCIATIVE[value])
    elif isinstance(value, tuple):
        flat = (n for part in value for n in (part if isinstance(part, tuple) else (part,)))
        getattr(owner, last).extend(flat)
    elif last in ENUMS and isinstance(value, str):
        setattr(owner, last, _number(last, value))
    elif isinstance(getattr(owner, last), bytes):
        setattr(owner, last, value.encode("utf-8", "surrogateescape"))
    else:
        setattr(owner, last, value)
    if owner is not message:
        owner.SetInParent()  # a message whose fields all have their defaults is present, too


def _word(field: str, number: int) -> str:
    words = ENUMS[field]
    if not 0 <= number < len(words):
        raise UnsupportedError(f"value {number} of the enumeration {field} is unknown here")
    return words[number]


def _number(field: str, word: str) -> int:
    if word not in ENUMS[field]:
        raise UnsupportedError(f"{word!r} of the enumeration {field} is unknown here; known: {', '.join(ENUMS[field])}")
    return ENUMS[field].index(word)
