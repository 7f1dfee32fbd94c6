"""jaxlib's library as data: the descriptions of XLA's protos in it, and its words."""

from __future__ import annotations

import importlib.util
import mmap
import re
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.message import DecodeError
from refxla_spec.errors import InputError

PROTOS = ("xla/service/hlo.proto", "xla/xla_data.proto")
LONGEST = 60  # letters of a word that might be one of HLO's
_LAST_FIELDS = (12, 14)  # syntax and edition end a serialized FileDescriptorProto


def path() -> Path:
    """The library. Raises InputError if jaxlib is not installed, or has another form."""
    spec = importlib.util.find_spec("jaxlib")
    folder = Path(spec.origin).parent if spec and spec.origin else None
    libraries = sorted(folder.glob("libjax_common.*")) if folder else []
    if not libraries:
        raise InputError("jaxlib is not installed, or has no libjax_common")
    return libraries[0]


@cache
def messages() -> dict[str, DescriptorProto]:
    """The descriptions of XLA's messages by their full names, such as ".xla.OpSharding"."""
    by_name: dict[str, DescriptorProto] = {}
    with _content() as content:
        for name in PROTOS:
            for message in _file(content, name).message_type:
                _collect(".xla.", message, by_name)
    return by_name


@cache
def words(separator: str) -> frozenset[str]:
    """The library's strings of lower-case letters and digits split by the separator, and all suffixes of them that
    begin with a part: linkers store a string that is a suffix of another one only in that one."""
    part = r"[a-z][a-z0-9]*(?:" + separator + r"[a-z0-9]+){0,9}"
    with _content() as content:
        strings = content[slice(*_read_only(content))]
    whole = {match.decode() for match in re.findall(rf"(?<=\0){part}(?=\0)".encode(), strings)}
    parts = [word.split(separator) for word in whole if len(word) < LONGEST]
    return frozenset(separator.join(p[n:]) for p in parts for n in range(len(p)))


def proto_names() -> set[str]:
    """The names of all fields of XLA's protos: most attributes have the name of their field."""
    return {field.name for message in messages().values() for field in message.field}


def type_of(field: FieldDescriptorProto) -> DescriptorProto | None:
    """The message type of a field; None for numbers and strings."""
    return messages()[field.type_name] if field.type == field.TYPE_MESSAGE else None


@contextmanager
def _content() -> Iterator[mmap.mmap]:
    with path().open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        yield content


def _collect(prefix: str, message: DescriptorProto, by_name: dict[str, DescriptorProto]) -> None:
    by_name[prefix + message.name] = message
    for inner in message.nested_type:
        _collect(f"{prefix}{message.name}.", inner, by_name)


def _read_only(content: mmap.mmap) -> tuple[int, int]:
    """The beginning and end of the section .rodata of an ELF file, which has the strings; for other files, of the whole
    file."""
    if content[:5] != b"\x7fELF\x02":
        return 0, len(content)
    table, (size, count, names) = *struct.unpack_from("<Q", content, 40), struct.unpack_from("<3H", content, 58)
    sections = [struct.unpack_from("<IIQQQQ", content, table + n * size) for n in range(count)]
    for name, _, _, _, at, length in sections:
        start = sections[names][4] + name
        if content[start : start + 8] == b".rodata\0":
            return at, at + length
    return 0, len(content)


def _file(content: mmap.mmap, name: str) -> FileDescriptorProto:
    """The description of one .proto file, whose first field is its name."""
    start = b"\x0a" + bytes([len(name)]) + name.encode()
    at = content.find(start)
    while at >= 0:
        try:
            file = FileDescriptorProto.FromString(content[at : _end(content, at)])
        except DecodeError:
            file = FileDescriptorProto()
        if file.message_type:
            return file
        at = content.find(start, at + 1)
    raise InputError(f"{path().name} has no description of {name}")


def _end(content: mmap.mmap, at: int) -> int:
    """Where the fields end of a serialized FileDescriptorProto that begins there: anything may follow."""
    end = at
    while True:
        tag, at = _varint(content, end)
        number, wire = tag >> 3, tag & 7
        if not 1 <= number <= max(_LAST_FIELDS) or wire not in (0, 2):
            return end
        size, at = _varint(content, at)
        end = at + size if wire == 2 else at
        if number in _LAST_FIELDS:
            return end


def _varint(content: mmap.mmap, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = content[at]
        value, at, shift = value | (byte & 127) << shift, at + 1, shift + 7
        if byte < 128 or shift > 63:
            return value, at
