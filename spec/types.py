"""Element types, layouts and shapes: what a value of an HLO program looks like.

Values themselves are NumPy arrays of the element type's dtype (a scalar has shape ()), tuples of values for tuple
shapes, and None for a token.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np

from .errors import InputError

Array: TypeAlias = np.ndarray
# An Array, a tuple of Values, or None. Which of them is what the shape says, and no type can: hence Any.
Value: TypeAlias = Any


@dataclass(frozen=True, eq=False)
class ElementType:
    """One of HLO's element types. There is one object of each.

    `name` is HLO's spelling, `number` the value of XLA's PrimitiveType in a proto, `kind` one of pred, signed,
    unsigned, float, complex, tuple, token, opaque; `bits` is the width of one element; `dtype` the NumPy type that
    holds it, None if there are no arrays of the type.
    """

    name: str
    number: int
    kind: str
    bits: int
    dtype: np.dtype | None = None

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Any, ...]:  # copied and pickled or not
        return _named, (self.name,)

    @property
    def bytes(self) -> int:
        """Bytes of one element in an array in memory (sub-byte types take one byte each)."""
        return max(1, self.bits // 8)

    @property
    def is_integer(self) -> bool:
        return self.kind in ("signed", "unsigned")

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_complex(self) -> bool:
        return self.kind == "complex"

    @property
    def has_nan(self) -> bool:
        """Whether the type has NaNs: a floating-point or complex one, save those of 4 and 6 bits."""
        return self.is_complex or (self.is_float and self.bits >= 8)

    @property
    def is_array(self) -> bool:
        """Whether arrays of this type exist (it is not tuple, token or opaque)."""
        return self.dtype is not None

    @property
    def in_numpy(self) -> bool:
        """Whether NumPy has the type without ml_dtypes, and so do its files. (`dtype.isbuiltin` does not say: it is 0
        of every array that was pickled.)"""
        return self.dtype is not None and self.dtype.type.__module__ == "numpy"

    @property
    def array_dtype(self) -> np.dtype:
        """`dtype`, of a type that has arrays; TypeError for any other."""
        if self.dtype is None:
            raise TypeError(f"there are no arrays of type {self}")
        return self.dtype


def _element_types() -> dict[str, ElementType]:
    m = ml_dtypes
    # name, number in xla_data.proto, kind, bits, NumPy type
    rows = (
        ("pred", 1, "pred", 8, np.bool_),
        ("s1", 30, "signed", 1, getattr(m, "int1", None)),
        ("s2", 26, "signed", 2, m.int2),
        ("s4", 21, "signed", 4, m.int4),
        ("s8", 2, "signed", 8, np.int8),
        ("s16", 3, "signed", 16, np.int16),
        ("s32", 4, "signed", 32, np.int32),
        ("s64", 5, "signed", 64, np.int64),
        ("u1", 31, "unsigned", 1, getattr(m, "uint1", None)),
        ("u2", 27, "unsigned", 2, m.uint2),
        ("u4", 22, "unsigned", 4, m.uint4),
        ("u8", 6, "unsigned", 8, np.uint8),
        ("u16", 7, "unsigned", 16, np.uint16),
        ("u32", 8, "unsigned", 32, np.uint32),
        ("u64", 9, "unsigned", 64, np.uint64),
        ("f16", 10, "float", 16, np.float16),
        ("bf16", 16, "float", 16, m.bfloat16),
        ("f32", 11, "float", 32, np.float32),
        ("f64", 12, "float", 64, np.float64),
        ("f8e5m2", 19, "float", 8, m.float8_e5m2),
        ("f8e4m3fn", 20, "float", 8, m.float8_e4m3fn),
        ("f8e4m3b11fnuz", 23, "float", 8, m.float8_e4m3b11fnuz),
        ("f8e5m2fnuz", 24, "float", 8, m.float8_e5m2fnuz),
        ("f8e4m3fnuz", 25, "float", 8, m.float8_e4m3fnuz),
        ("f8e4m3", 28, "float", 8, m.float8_e4m3),
        ("f8e3m4", 29, "float", 8, m.float8_e3m4),
        ("f8e8m0fnu", 33, "float", 8, m.float8_e8m0fnu),
        ("f6e2m3fn", 36, "float", 6, m.float6_e2m3fn),
        ("f6e3m2fn", 35, "float", 6, m.float6_e3m2fn),
        ("f4e2m1fn", 32, "float", 4, m.float4_e2m1fn),
        ("c64", 15, "complex", 64, np.complex64),
        ("c128", 18, "complex", 128, np.complex128),
        ("tuple", 13, "tuple", 0, None),
        ("opaque", 14, "opaque", 0, None),
        ("token", 17, "token", 0, None),
    )
    return {
        name: ElementType(name, number, kind, bits, None if dtype is None else np.dtype(dtype))
        for name, number, kind, bits, dtype in rows
    }


def _named(name: str) -> ElementType:
    return ELEMENT_TYPES[name]


ELEMENT_TYPES: dict[str, ElementType] = _element_types()
BY_NUMBER: dict[int, ElementType] = {t.number: t for t in ELEMENT_TYPES.values()}
BY_DTYPE: dict[np.dtype, ElementType] = {t.dtype: t for t in ELEMENT_TYPES.values() if t.dtype is not None}

_TEXT = "np.unique(x, return_inverse=True)[1] gives each text a number"
_TIME = "x.astype(np.int64) counts its units"
_CONVERSIONS = {
    "U": _TEXT, "S": _TEXT, "T": _TEXT, "M": _TIME, "m": _TIME,
    "O": "x.astype(np.float64) converts it, if its elements are numbers",
    "V": "pass its fields, which are arrays",
    "f": "x.astype(np.float64) converts it", "c": "x.astype(np.complex128) converts it",
}  # fmt: skip


def conversion(dtype: np.dtype) -> str:
    """How an array of a NumPy type that HLO does not have becomes one of a type that it has."""
    if dtype.newbyteorder("=") in BY_DTYPE:
        return "x.astype(x.dtype.newbyteorder('=')) converts it"
    return _CONVERSIONS.get(dtype.kind, "convert it first")


PRED, S32, S64, U8, U32, U64, F32, F64, C64, C128, TUPLE, TOKEN, OPAQUE = (
    ELEMENT_TYPES[name]
    for name in ("pred", "s32", "s64", "u8", "u32", "u64", "f32", "f64", "c64", "c128", "tuple", "token", "opaque")
)


@dataclass(frozen=True)
class Layout:
    """How an array lies in memory: `minor_to_major` names the dimensions from the fastest-varying one on.

    `rest` keeps what else the text says inside the braces (tiles, memory space, ...), verbatim and after the colon.
    """

    minor_to_major: tuple[int, ...]
    rest: str = ""

    def __str__(self) -> str:
        inner = ",".join(map(str, self.minor_to_major)) + (":" + self.rest if self.rest else "")
        return "{" + inner + "}"

    @property
    def is_row_major(self) -> bool:
        return self.minor_to_major == tuple(reversed(range(len(self.minor_to_major))))


@dataclass(frozen=True)
class Shape:
    """An element type with dimensions, or a tuple of shapes.

    Two shapes are equal when all of them is, layout and dynamic marks included; `compatible` asks for less.
    `dynamic[d]` says that dimension d is a bound (`f32[<=16]`); it is () where no dimension is.
    `elements` are the shapes of a tuple.
    """

    element_type: ElementType
    dimensions: tuple[int, ...] = ()
    layout: Layout | None = None
    dynamic: tuple[bool, ...] = ()
    elements: tuple[Shape, ...] = ()

    def __reduce__(self) -> tuple[Any, ...]:  # what is cached stays here
        return Shape, self._fields

    def __hash__(self) -> int:
        return self._hash

    @property
    def _fields(self) -> tuple[Any, ...]:
        return self.element_type, self.dimensions, self.layout, self.dynamic, self.elements

    @cached_property  # each get-tuple-element of a tuple of many elements hashes all of it
    def _hash(self) -> int:
        return hash(self._fields)

    @staticmethod
    def array(element_type: ElementType | str, dimensions: tuple[int, ...] | list[int] = ()) -> Shape:
        """A dense array shape; the element type may be given by its HLO name."""
        if isinstance(element_type, str):
            element_type = ELEMENT_TYPES[element_type]
        return Shape(element_type, tuple(dimensions))

    @staticmethod
    def tuple_of(*elements: Shape) -> Shape:
        """The shape of a tuple of the given shapes."""
        return Shape(TUPLE, elements=tuple(elements))

    @staticmethod
    def of(value: Value) -> Shape:
        """The shape of a value: an array, a NumPy scalar, a tuple or list of values, or None (a token).

        Raises InputError for an array whose dtype is none of HLO's.
        """
        if value is None:
            return Shape(TOKEN)
        if isinstance(value, (tuple, list)):
            return Shape.tuple_of(*(Shape.of(v) for v in value))
        array = np.asarray(value)
        if array.dtype not in BY_DTYPE:
            raise InputError(f"an array of NumPy type {array.dtype} has no HLO element type: {conversion(array.dtype)}")
        return Shape(BY_DTYPE[array.dtype], array.shape)

    @property
    def is_tuple(self) -> bool:
        return self.element_type is TUPLE

    @property
    def is_array(self) -> bool:
        return self.element_type.is_array

    @property
    def is_scalar(self) -> bool:
        return self.is_array and not self.dimensions

    @cached_property  # of a tuple, it is asked once for each of its elements
    def is_dynamic(self) -> bool:
        return any(self.dynamic) or any(e.is_dynamic for e in self.elements)

    @property
    def rank(self) -> int:
        return len(self.dimensions)

    @property
    def size(self) -> int:
        """The number of elements of an array."""
        return prod(self.dimensions)

    @cached_property
    def bytes(self) -> int:
        """Bytes in memory, dense; of a tuple, the sum over its elements."""
        if self.is_tuple:
            return sum(e.bytes for e in self.elements)
        return self.size * self.element_type.bytes if self.is_array else 0

    @property
    def marks(self) -> tuple[bool, ...]:
        """For each dimension whether its size is a bound."""
        return self.dynamic or (False,) * len(self.dimensions)

    def compatible(self, other: Shape) -> bool:
        """Whether the two agree in all but layout and dynamic marks: what XLA calls compatible."""
        if self is other:
            return True
        if self.element_type is not other.element_type or self.dimensions != other.dimensions:
            return False
        if len(self.elements) != len(other.elements):
            return False
        return all(a.compatible(b) for a, b in zip(self.elements, other.elements, strict=True))

    def without_layout(self) -> Shape:
        """The same shape with no layout anywhere and no `dynamic` marks that are all False."""
        return self._without_layout

    @cached_property
    def _without_layout(self) -> Shape:
        if self.is_tuple:
            return Shape.tuple_of(*(e.without_layout() for e in self.elements))
        dynamic = self.dynamic if any(self.dynamic) else ()
        if self.layout is None and dynamic == self.dynamic:
            return self
        return Shape(self.element_type, self.dimensions, None, dynamic)

    def with_element_type(self, element_type: ElementType) -> Shape:
        """The same dimensions with another element type, without a layout."""
        return replace(self, element_type=element_type, layout=None)

    def with_dimensions(self, dimensions: tuple[int, ...]) -> Shape:
        """The same element type with other dimensions, without a layout or dynamic marks."""
        return Shape(self.element_type, tuple(dimensions))

    def static(self) -> Shape:
        """The shape at its bounds: without dynamic marks (or a layout)."""
        if self.is_tuple:
            return Shape.tuple_of(*(e.static() for e in self.elements))
        return Shape(self.element_type, self.dimensions)

    def __str__(self) -> str:
        return self._text

    @cached_property
    def _text(self) -> str:
        if self.is_tuple:
            return "(" + ", ".join(map(str, self.elements)) + ")"
        if not self.is_array:
            return f"{self.element_type}[]"
        dynamic = self.dynamic or (False,) * self.rank
        dims = ",".join(f"<={d}" if dyn else str(d) for d, dyn in zip(self.dimensions, dynamic, strict=True))
        return f"{self.element_type}[{dims}]" + (str(self.layout) if self.layout is not None else "")


def leaves(shape: Shape) -> list[Shape]:
    """The array (and token) shapes of a shape, in order, tuples opened."""
    return [leaf for e in shape.elements for leaf in leaves(e)] if shape.is_tuple else [shape]
