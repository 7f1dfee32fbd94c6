"""Values of the compiler's own classes as bytes, and back: the format of the cache on disk and of executable files.

A value consists of None, numbers, strings, bytes, arrays, tuples, dicts and the frozen dataclasses that the compiler
passes to the runtime. Reading one calls only the constructors of these, so a file from elsewhere is data. (Pickles,
which would do the same, execute code from the file.)

    8 bytes    the length of the JSON, little-endian
    JSON       {"classes": [[name, fields]], "objects": [[class, field, ...]],
                "arrays": [[type, dimensions, place, bytes]], "bytes": [[place, bytes]], "value": ...}
    blobs      arrays, dense and row-major, and strings of bytes, at their places after the JSON

In the JSON, a list is a tuple. {"o": n} is object n, which comes after those that it refers to, so that shared objects
stay shared; {"a": n} an array, {"b": n} bytes, {"e": name} an element type, {"c": [re, im]} a complex number, {"d":
[[key, value], ...]} a dict.
"""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np
from refxla_spec import types
from refxla_spec.types import BY_DTYPE, ELEMENT_TYPES, ElementType

from ..analysis import cost_analysis
from ..codegen import opencl_program, program_part
from ..ir import calling_convention, merged_body, plan

_MODULES = (types, calling_convention, merged_body, plan, cost_analysis, opencl_program, program_part)
_HEAD = 8


class UnreadableError(ValueError):
    """Bytes that are not a value of this version's classes; the message says what is wrong."""


def register(kind: type) -> type:
    """Registers a frozen dataclass whose instances may be values. Returns the class."""
    _CLASSES[kind.__name__] = kind
    _FIELDS[kind] = tuple(f.name for f in dataclasses.fields(kind))
    return kind


_CLASSES: dict[str, type] = {}
_FIELDS: dict[type, tuple[str, ...]] = {}
for _module in _MODULES:
    for _kind in vars(_module).values():
        if dataclasses.is_dataclass(_kind) and isinstance(_kind, type) and _kind.__module__ == _module.__name__:
            register(_kind)


def dumps(value: Any) -> bytes:
    """The bytes of a value. Raises TypeError for one that cannot be serialized."""
    return _Writer().written(value)


def loads(data: bytes | memoryview) -> Any:
    """The value of such bytes; its arrays are read-only views of them. Raises UnreadableError."""
    view = memoryview(data)
    try:
        size = int.from_bytes(view[:_HEAD], "little")
        content = json.loads(bytes(view[_HEAD : _HEAD + size]))
        return _Reader(content, view[_HEAD + size :]).value(content["value"])
    except UnreadableError:
        raise
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError) as problem:
        raise UnreadableError(f"it is not whole ({type(problem).__name__}: {problem})") from None


class _Writer:
    """Collects what a value refers to, each object once: instances of dataclasses, arrays, strings of bytes."""

    def __init__(self) -> None:
        self.classes: dict[type, int] = {}
        self.objects: list[list[Any]] = []
        self.numbers: dict[int, tuple[int, Any]] = {}  # by the address of an object, which is kept alive
        self.arrays: list[list[Any]] = []
        self.strings: list[list[int]] = []
        self.blobs: list[bytes] = []
        self.place = 0

    def written(self, value: Any) -> bytes:
        root = self.value(value)
        content = {
            "classes": [[kind.__name__, _FIELDS[kind]] for kind in self.classes],
            "objects": self.objects,
            "arrays": self.arrays,
            "bytes": self.strings,
            "value": root,
        }
        head = json.dumps(content, separators=(",", ":"), check_circular=False).encode()
        return b"".join([len(head).to_bytes(_HEAD, "little"), head, *self.blobs])

    def value(self, value: Any) -> Any:
        kind = type(value)
        if value is None or kind in (bool, int, float, str):
            return value
        if kind is tuple:
            return [self.value(v) for v in value]
        if kind is dict:
            return {"d": [[self.value(k), self.value(v)] for k, v in value.items()]}
        if kind is ElementType:
            return {"e": value.name}
        if kind in _FIELDS:
            return {"o": self.object(value, kind)}
        if kind is bytes:
            self.strings.append(self.blob(value))
            return {"b": len(self.strings) - 1}
        if kind is complex:
            return {"c": [value.real, value.imag]}
        if isinstance(value, (np.ndarray, np.generic)) and value.dtype in BY_DTYPE:
            array = np.asarray(value)
            place = self.blob(np.ascontiguousarray(array).tobytes())
            self.arrays.append([BY_DTYPE[array.dtype].name, list(array.shape), *place])
            return {"a": len(self.arrays) - 1}
        raise TypeError(f"a value of type {kind.__name__} has no form in a file")

    def object(self, value: Any, kind: type) -> int:
        if id(value) not in self.numbers:
            fields = [self.value(getattr(value, name)) for name in _FIELDS[kind]]
            number = self.classes.setdefault(kind, len(self.classes))
            self.objects.append([number, *fields])
            self.numbers[id(value)] = len(self.objects) - 1, value
        return self.numbers[id(value)][0]

    def blob(self, content: bytes) -> list[int]:
        """[place, bytes] of a new blob."""
        location = [self.place, len(content)]
        self.blobs.append(content)
        self.place += len(content)
        return location


class _Reader:
    """Makes the objects again, in the order in which they were written: each after those that it refers to."""

    def __init__(self, content: dict[str, Any], blobs: memoryview) -> None:
        self.content, self.blobs = content, blobs
        kinds = []
        for name, fields in content["classes"]:
            kind = _CLASSES.get(name)
            if kind is None or list(_FIELDS[kind]) != fields:
                raise UnreadableError(f"it holds a {name} of another version")
            kinds.append(kind)
        self.objects: list[Any] = []
        for number, *values in content["objects"]:
            kind = kinds[number]
            instance = object.__new__(kind)
            instance.__dict__.update(zip(_FIELDS[kind], map(self.value, values), strict=True))
            self.objects.append(instance)

    def value(self, item: Any) -> Any:
        kind = type(item)
        if kind is list:
            return tuple(map(self.value, item))
        if kind is not dict:
            return item
        ((tag, inner),) = item.items()
        if tag == "o":
            return self.objects[inner]
        if tag == "a":
            name, dimensions, place, size = self.content["arrays"][inner]
            dtype = ELEMENT_TYPES[name].dtype
            return np.ndarray(tuple(dimensions), dtype, self.blob(place, size)) if size else np.empty(dimensions, dtype)
        if tag == "b":
            return bytes(self.blob(*self.content["bytes"][inner]))
        if tag == "e":
            return ELEMENT_TYPES[inner]
        if tag == "c":
            return complex(*inner)
        if tag == "d":
            return {self.value(k): self.value(v) for k, v in inner}
        raise UnreadableError(f"it holds something called {tag!r}")

    def blob(self, place: int, size: int) -> memoryview:
        if place < 0 or size < 0 or place + size > len(self.blobs):
            raise UnreadableError("its arrays are not whole")
        return self.blobs[place : place + size]
