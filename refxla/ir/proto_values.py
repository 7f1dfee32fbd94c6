"""Shapes, layouts and literals, converted between a proto's messages and the IR.

Proto contents that the IR cannot represent raise UnsupportedError; only physical defaults are dropped.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from refxla_spec.errors import ParseError, UnsupportedError, plural
from refxla_spec.left_out import reason
from refxla_spec.types import BY_NUMBER, TUPLE, Layout, Shape, Value

_ANY_SIZE = -(1 << 63)  # for a tile's dimension: written `*`
_BUFFER = 34  # the number of an element type that is not supported
_DEEPEST = 100  # nesting levels of tuples


# -- shapes


def shape_from(message: Any, depth: int = 0) -> Shape:
    """The Shape of a ShapeProto. Raises ParseError for an unknown element type or inconsistent fields."""
    element_type = BY_NUMBER.get(message.element_type)
    if message.element_type == _BUFFER:
        raise UnsupportedError(f"buffers are not specified here: {reason('buffer')}")
    if element_type is None:
        raise ParseError(f"element type number {message.element_type} of a shape is unknown")
    if depth > _DEEPEST:
        raise ParseError(f"tuples nest more than {_DEEPEST} levels deep")
    if element_type is TUPLE:
        return Shape(TUPLE, elements=tuple(shape_from(e, depth + 1) for e in message.tuple_shapes))
    dimensions = tuple(message.dimensions)
    dynamic = tuple(message.is_dynamic_dimension)
    if any(d < 0 for d in dimensions):
        sizes = ",".join("?" if d < 0 else str(d) for d in dimensions)
        raise UnsupportedError(
            f"{element_type}[{sizes}]: dimensions without a bound are not implemented here; state the size, or a bound "
            f"(f32[<=16] in HLO, #stablehlo.bounds<16> in StableHLO)"
        )
    if (dimensions and not element_type.is_array) or (dynamic and len(dynamic) != len(dimensions)):
        raise ParseError(
            f"a shape of {element_type} has dimensions {list(dimensions)} and dynamic marks {list(dynamic)}"
        )
    layout = _layout_from(message.layout, len(dimensions)) if message.HasField("layout") else None
    if layout == Layout(()):
        layout = None  # a scalar's, which text omits, too
    return Shape(element_type, dimensions, layout, dynamic if any(dynamic) else ())


def shape_to(shape: Shape, message: Any) -> None:
    """Fills a ShapeProto. An array without a layout gets the row-major one: XLA requires one."""
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

# How the elements of each type are stored in a LiteralProto: raw little-endian bytes in the field `<type>s`, or as
# here.
_VARINTS = ("s32", "s64", "u32", "u64")


def literal_from(message: Any, shape: Shape) -> Value:
    """The value of a LiteralProto, of the shape that the instruction states. Raises ParseError if it has another."""
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
    """The dimensions of an array, from major to minor."""
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
    """Fills a LiteralProto. Its elements are in the order of the shape's layout, row-major without one: XLA requires
    the layout of the instruction."""
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
    """Literals are never packed: XLA rejects one whose layout states the size of an element."""
    if message.HasField("layout"):
        message.layout.element_size_in_bits = 0
    for element in message.tuple_shapes:
        _clear_element_sizes(element)
