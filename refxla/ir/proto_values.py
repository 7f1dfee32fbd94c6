"""Shapes, layouts, literals and shardings between a proto's messages and the IR, in both directions.

Whatever a proto says that the IR has no place for raises UnsupportedError; nothing is dropped but physical defaults.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from refxla_spec.errors import ParseError, UnsupportedError, plural
from refxla_spec.types import BY_NUMBER, TUPLE, Layout, Shape, Value

from .hlo_schema import CLASSES, ENUMS

_ANY_SIZE = -(1 << 63)  # of a tile's dimension: written `*`
_DEEPEST = 100  # levels of nesting of tuples


# -- shapes


def shape_from(message: Any, depth: int = 0) -> Shape:
    """The Shape of a ShapeProto. Raises ParseError for an unknown element type or inconsistent fields."""
    element_type = BY_NUMBER.get(message.element_type)
    if element_type is None:
        raise ParseError(f"element type number {message.element_type} of a shape is unknown")
    if depth > _DEEPEST:
        raise ParseError(f"tuples nest more than {_DEEPEST} levels deep")
    if element_type is TUPLE:
        return Shape(TUPLE, elements=tuple(shape_from(e, depth + 1) for e in message.tuple_shapes))
    dimensions = tuple(message.dimensions)
    dynamic = tuple(message.is_dynamic_dimension)
    if any(d < 0 for d in dimensions):
        raise UnsupportedError(f"dimensions without a bound are not implemented here: {list(dimensions)}")
    if (dimensions and not element_type.is_array) or (dynamic and len(dynamic) != len(dimensions)):
        raise ParseError(
            f"a shape of {element_type} has dimensions {list(dimensions)} and dynamic marks {list(dynamic)}"
        )
    layout = _layout_from(message.layout, len(dimensions)) if message.HasField("layout") else None
    if layout == Layout(()):
        layout = None  # a scalar's, which text leaves out too
    return Shape(element_type, dimensions, layout, dynamic if any(dynamic) else ())


def shape_to(shape: Shape, message: Any) -> None:
    """Fill a ShapeProto. An array without a layout gets the row-major one: XLA wants one."""
    message.element_type = shape.element_type.number
    if shape.is_tuple:
        for element in shape.elements:
            shape_to(element, message.tuple_shapes.add())
        return
    if not shape.is_array:
        return
    message.dimensions.extend(shape.dimensions)
    message.is_dynamic_dimension.extend(shape.dynamic or (False,) * shape.rank)
    _layout_to(shape.layout or Layout(tuple(reversed(range(shape.rank)))), message.layout)


def _layout_from(message: Any, rank: int) -> Layout:
    order = tuple(message.minor_to_major)
    if sorted(order) != list(range(rank)):
        raise ParseError(f"a layout of {plural(rank, 'dimension')} is {list(order)}")
    for name in ("physical_shape", "index_primitive_type", "pointer_primitive_type", "split_configs", "dim_unique"):
        if getattr(message, name) and name in {field.name for field, _ in message.ListFields()}:
            raise UnsupportedError(f"a layout with {name} is not implemented")
    if any(message.dim_level_types) or message.dynamic_shape_metadata_prefix_bytes:
        raise UnsupportedError("layouts of sparse arrays and with metadata prefixes are not implemented")
    rest = ""
    if message.tiles:
        sizes = (",".join("*" if d == _ANY_SIZE else str(d) for d in tile.dimensions) for tile in message.tiles)
        rest += "T" + "".join(f"({s})" for s in sizes)
    if message.tail_padding_alignment_in_elements not in (0, 1):
        rest += f"L({message.tail_padding_alignment_in_elements})"
    if message.element_size_in_bits:
        rest += f"E({message.element_size_in_bits})"
    if message.memory_space:
        rest += f"S({message.memory_space})"
    return Layout(order, rest)


_LAYOUT_REST = re.compile(
    r"(?:T((?:\((?:\d+|\*)?(?:,(?:\d+|\*))*\))+))?(?:L\((\d{1,18})\))?(?:E\((\d{1,18})\))?(?:S\((\d{1,18})\))?"
)


def _layout_to(layout: Layout, message: Any) -> None:
    message.minor_to_major.extend(layout.minor_to_major)
    match = _LAYOUT_REST.fullmatch(layout.rest.replace(" ", ""))
    if match is None:
        raise UnsupportedError(f"the layout {layout} is not implemented in protos")
    tiles, tail, bits, space = match.groups()
    for tile in re.findall(r"\(([^()]*)\)", tiles or ""):
        sizes = (_ANY_SIZE if d == "*" else int(d) for d in tile.split(",") if d)
        message.tiles.add().dimensions.extend(sizes)
    message.tail_padding_alignment_in_elements = int(tail or 1)
    message.element_size_in_bits = int(bits or 0)
    message.memory_space = int(space or 0)


# -- literals

# How the elements of each type lie in a LiteralProto: raw little-endian bytes in the field `<type>s`, or as here.
_VARINTS = ("s32", "s64", "u32", "u64")


def literal_from(message: Any, shape: Shape) -> Value:
    """The value of a LiteralProto, of the shape that the instruction states. Raises ParseError if it is another."""
    if shape.is_tuple:
        if len(message.tuple_literals) != len(shape.elements):
            raise ParseError(f"a literal of {plural(len(message.tuple_literals), 'element')} for the shape {shape}")
        return tuple(literal_from(m, s) for m, s in zip(message.tuple_literals, shape.elements, strict=True))
    if not shape.is_array:
        raise ParseError(f"a literal cannot have the shape {shape}")
    stated = shape_from(message.shape)
    if not stated.compatible(shape):
        raise ParseError(f"a literal of shape {stated} for the shape {shape}")
    if message.dynamic_sizes and tuple(message.dynamic_sizes) != shape.dimensions:
        raise UnsupportedError(
            f"a literal of the sizes {list(message.dynamic_sizes)} for the shape {shape} is not implemented"
        )
    if stated.layout is not None and not stated.layout.is_row_major:
        order = _slowest_first(stated.layout)
        flat = _elements_from(message, shape)
        stored = flat.reshape([shape.dimensions[d] for d in order])
        return np.ascontiguousarray(stored.transpose(np.argsort(order)))
    return _elements_from(message, shape).reshape(shape.dimensions)


def _slowest_first(layout: Layout) -> tuple[int, ...]:
    """The dimensions of an array, from the one that varies slowest in memory on."""
    return tuple(reversed(layout.minor_to_major))


def _elements_from(message: Any, shape: Shape) -> np.ndarray:
    name, dtype, bits = shape.element_type.name, shape.element_type.array_dtype, shape.element_type.bits
    _check_field(shape)
    data = getattr(message, f"{name}s")
    if name in _VARINTS:
        flat = np.array(data, dtype)
    elif bits < 8:
        flat = _narrow(data, shape)
    elif len(data) % dtype.itemsize:
        raise ParseError(f"{len(data)} bytes are no whole number of {name}")
    else:
        flat = np.frombuffer(data, dtype.newbyteorder("<") if dtype.kind in "iufc" else dtype).astype(dtype)
    if shape.size and not flat.size:
        raise ParseError("the proto was saved without the values of its constants; save it with them")
    if flat.size != shape.size:
        raise ParseError(f"a literal of {plural(flat.size, 'element')} for the shape {shape}")
    return flat


def _narrow(data: bytes, shape: Shape) -> np.ndarray:
    """Elements narrower than a byte, each in the low bits of one."""
    codes = np.frombuffer(data, np.uint8) & (1 << shape.element_type.bits) - 1
    if shape.element_type.kind == "signed":
        sign = 1 << shape.element_type.bits - 1
        codes = ((codes.astype(np.int8) ^ sign) - sign).astype(np.int8)
    elif shape.element_type.is_float:
        return codes.view(shape.element_type.array_dtype)
    return codes.astype(shape.element_type.dtype)


def _check_field(shape: Shape) -> None:
    if shape.element_type.bits == 6:
        raise UnsupportedError(
            f"no XLA writes constants of {shape.element_type} to protos yet; convert a constant of another type"
        )


def literal_to(value: Value, shape: Shape, message: Any) -> None:
    """Fill a LiteralProto. Its elements stand in the order of the shape's layout, row-major without one: XLA wants the
    layout of the instruction."""
    shape_to(shape, message.shape)
    _clear_element_sizes(message.shape)
    if shape.is_tuple:
        for v, s in zip(value, shape.elements, strict=True):
            literal_to(v, s, message.tuple_literals.add())
        return
    _check_field(shape)
    if shape.dynamic:
        message.dynamic_sizes.extend(shape.dimensions)
    array = np.asarray(value, shape.element_type.dtype)
    if shape.layout is not None:
        array = array.transpose(_slowest_first(shape.layout))
    array = np.ascontiguousarray(array)
    name, bits = shape.element_type.name, shape.element_type.bits
    if name in _VARINTS:
        getattr(message, f"{name}s").extend(array.reshape(-1).tolist())
    elif bits < 8:
        codes = (array.astype(np.int8) if shape.element_type.is_integer else array).view(np.uint8)
        setattr(message, f"{name}s", (codes & (1 << bits) - 1).tobytes())
    else:
        setattr(message, f"{name}s", array.tobytes())


def _clear_element_sizes(message: Any) -> None:
    """Literals are never packed: XLA refuses one whose layout states the size of an element."""
    if message.HasField("layout"):
        message.layout.element_size_in_bits = 0
    for element in message.tuple_shapes:
        _clear_element_sizes(element)


# -- shardings


def sharding_from(message: Any) -> str:
    """The text of an OpSharding, as XLA writes it: `{devices=[2,1]<=[2]}`."""
    if message.named_sharding:
        raise UnsupportedError("shardings by mesh axes are not implemented")
    kinds = ENUMS["sharding_type"]
    if not 0 <= message.type < len(kinds):
        raise ParseError(f"sharding type number {message.type} is unknown")
    kind = kinds[message.type]
    if kind == "tuple":
        return "{" + ", ".join(sharding_from(s) for s in message.tuple_shardings) + "}"
    group = ""
    if message.is_shard_group:
        group = f" {ENUMS['shard_group_type'][message.shard_group_type & 1]} {message.shard_group_id}"
    if kind == "maximal":
        device = message.tile_assignment_devices[0] if message.tile_assignment_devices else 0
        return f"{{maximal device={device}{group}}}"
    if kind != "other":
        return f"{{{kind}{group}}}"
    text = f"devices=[{_numbers(message.tile_assignment_dimensions)}]"
    if message.iota_reshape_dims:
        text += f"<=[{_numbers(message.iota_reshape_dims)}]"
        if list(message.iota_transpose_perm) != sorted(message.iota_transpose_perm):
            text += f"T({_numbers(message.iota_transpose_perm)})"
    else:
        text += _numbers(message.tile_assignment_devices)
    if message.replicate_on_last_tile_dim:
        text += " last_tile_dim_replicate"
    if message.last_tile_dims:
        if not all(0 <= k < len(kinds) for k in message.last_tile_dims):
            raise ParseError("a sharding type is unknown")
        text += " last_tile_dims={" + ", ".join(kinds[k] for k in message.last_tile_dims) + "}"
    return f"{{{text}{group}}}"


def _numbers(values: Any) -> str:
    return ",".join(map(str, values))


_DEVICES = re.compile(
    r"devices=\[(?P<dims>[\d,]+)\](?:(?P<list>\d[\d,]*)|<=\[(?P<iota>[\d,]+)\](?:T\((?P<perm>[\d,]+)\))?)"
    r"(?P<replicate>\s+last_tile_dim_replicate)?(?:\s+last_tile_dims=\{(?P<kinds>[\w\s,]*)\})?"
)
_GROUP = re.compile(r"\s+(shard_as|shard_like)\s+(\d{1,18})$")


def sharding_to(text: str, message: Any) -> None:
    """Fill an OpSharding from its text. Raises UnsupportedError for a form that is not known here."""
    kinds = ENUMS["sharding_type"]
    body = re.sub(r"/\*.*?\*/", "", text).strip()[1:-1].strip()
    if body.startswith("{") or not body:
        message.type = kinds.index("tuple")
        for part in re.findall(r"\{(?:[^{}]|\{[^{}]*\})*\}", body):
            sharding_to(part, message.tuple_shardings.add())
        return
    if group := _GROUP.search(body):
        message.is_shard_group = True
        message.shard_group_type = ENUMS["shard_group_type"].index(group[1])
        message.shard_group_id = int(group[2])
        body = body[: group.start()]
    if body in kinds and body not in ("maximal", "tuple", "other"):
        message.type = kinds.index(body)
    elif match := re.fullmatch(r"maximal device=(\d{1,18})", body):
        message.type = kinds.index("maximal")
        message.tile_assignment_dimensions.append(1)
        message.tile_assignment_devices.append(int(match[1]))
    elif match := _DEVICES.fullmatch(body):
        message.type = kinds.index("other")
        message.tile_assignment_dimensions.extend(_split(match["dims"]))
        message.tile_assignment_devices.extend(_split(match["list"]))
        message.iota_reshape_dims.extend(_split(match["iota"]))
        perm = _split(match["perm"]) or range(len(message.iota_reshape_dims))
        message.iota_transpose_perm.extend(perm)
        message.replicate_on_last_tile_dim = bool(match["replicate"])
        words = [w.strip() for w in (match["kinds"] or "").split(",") if w.strip()]
        if not set(words) <= set(kinds):
            raise UnsupportedError(f"the sharding {text} is not implemented in protos")
        message.last_tile_dims.extend(kinds.index(w) for w in words)
    else:
        raise UnsupportedError(f"the sharding {text} is not implemented in protos")


def _split(text: str | None) -> list[int]:
    return [int(t) for t in (text or "").split(",") if t]


__all__ = ["CLASSES", "literal_from", "literal_to", "shape_from", "shape_to", "sharding_from", "sharding_to"]
