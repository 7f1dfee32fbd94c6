"""What XLA knows and is not known here."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from google.protobuf.descriptor_pb2 import DescriptorProto
from refxla_spec import grammar
from refxla_spec.operation import operations
from refxla_spec.text import parse, print_module

from refxla.ir.hlo_schema import CLASSES

from ..targets.child import Child, ChildDied
from . import library

LIMIT = 300.0  # seconds for one question
#: Fields that older releases write, and the newest no longer has: still read.
OLDER = {("CollectiveDeviceListProto", "iota_replica_group_list")}
#: Attributes that XLA's parser reads without effect: it drops them, or they repeat what async-start says.
DROPPED = {
    ("all-reduce", "mode"),
    ("all-reduce-start", "mode"),
    ("reduce-scatter", "mode"),
    ("ragged-all-to-all", "dimensions"),
    ("async-update", "output_to_operand_aliasing"),
    ("async-done", "output_to_operand_aliasing"),
}


def fields() -> list[str]:
    """The fields that only the library's messages or only those of the schema here have, in a sentence each."""
    differences: list[str] = []
    visited: set[str] = set()
    waiting: list[tuple[Any, DescriptorProto]] = [(CLASSES["HloProto"].DESCRIPTOR, library.messages()[".xla.HloProto"])]
    while waiting:
        ours, theirs = waiting.pop()
        if ours.name in visited:
            continue
        visited.add(ours.name)
        by_number = {f.number: f for f in ours.fields}
        for field in theirs.field:
            same = by_number.pop(field.number, None)
            if same is None or same.name != field.name:
                differences.append(f"{ours.name}: field {field.number} is {field.name}, here {same and same.name}")
            elif same.message_type is not None:
                inner = library.type_of(field)
                if inner is not None:
                    waiting.append((same.message_type, inner))
        differences += [
            f"{ours.name}: field {f.number}, {f.name}, is not XLA's"
            for f in by_number.values()
            if (ours.name, f.name) not in OLDER
        ]
    return differences


def opcodes(child: Child) -> list[str]:
    """The opcodes that XLA's parser knows and the grammar here does not."""
    words = (w for w in library.words("-") if not grammar.is_opcode(w))
    return list(child.ask("opcodes", sorted(words), limit=LIMIT))


def attributes(child: Child, opcode: str) -> list[str]:
    """The attributes that XLA's parser accepts for an opcode and the specification does not."""
    words = library.words("_") | library.proto_names() | set(grammar.ATTRIBUTE_KINDS)
    words -= set(operations()[opcode].attributes) | set(grammar.ANNOTATIONS) | _COMMON | set(grammar.LEFT_OUT)
    words -= {name for o, name in DROPPED if o == opcode}
    for text in _programs(opcode):
        try:
            return list(child.ask("attributes", text, sorted(words), limit=LIMIT))
        except ChildDied:  # a word that is one ended it, or the program did: try the next program
            continue
    return []


_COMMON = {"metadata", "sharding", "backend_config", "frontend_attributes"}  # of every instruction


def _programs(opcode: str) -> Iterator[str]:
    """Programs with one instruction of the opcode, in which the attributes are @."""
    operation = re.compile(rf"^(.* = .*? {re.escape(opcode)}\((?:[^()]|\([^()]*\))*\)).*$", re.M)
    for example in operations()[opcode].examples:
        text = print_module(parse(example.hlo))
        if operation.search(text):
            yield operation.sub(r"\1, @=0", text, count=1)
