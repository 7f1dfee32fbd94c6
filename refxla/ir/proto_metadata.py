"""The origin of an instruction or a sharding, converted between OpMetadata and the IR."""

from __future__ import annotations

import re
from typing import Any

from refxla_spec.errors import UnsupportedError
from refxla_spec.lexer import escape, unescape
from refxla_spec.module import Metadata

_METADATA_NUMBERS = (
    "source_end_line",
    "source_column",
    "source_end_column",
    "stack_frame_id",
    "size_of_generated_code_in_bytes",
    "size_of_memory_working_set_in_bytes",
)
_METADATA_STRINGS = ("deduplicated_name", "scheduling_name")


def metadata_from(m: Any) -> Metadata:
    """The Metadata of an OpMetadata."""
    other = [(name, str(getattr(m, name))) for name in _METADATA_NUMBERS[:3] if getattr(m, name)]
    if m.profile_type:
        other.append(("profile_type", "{" + ",".join(map(str, m.profile_type)) + "}"))
    other += [(name, escape(getattr(m, name))) for name in _METADATA_STRINGS if getattr(m, name)]
    other += [(name, str(getattr(m, name))) for name in _METADATA_NUMBERS[3:] if getattr(m, name)]
    return Metadata(m.op_type, m.op_name, m.source_file, m.source_line, tuple(other))


def metadata_to(metadata: Metadata, m: Any) -> None:
    """Fills an OpMetadata. Raises UnsupportedError for a field that it does not have."""
    m.op_type, m.op_name, m.source_file = metadata.op_type, metadata.op_name, metadata.source_file
    m.source_line = metadata.source_line
    for name, text in metadata.other:
        if name in _METADATA_NUMBERS and text.isdecimal():
            setattr(m, name, int(text))
        elif name in _METADATA_STRINGS and text.startswith('"'):
            setattr(m, name, unescape(text))
        elif name == "profile_type":
            m.profile_type.extend(int(n) for n in re.findall(r"\d+", text))
        else:
            raise UnsupportedError(f"the field {name}={text} of metadata is not implemented in protos")
