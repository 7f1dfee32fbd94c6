"""Shardings, converted between OpSharding and the text that the IR keeps of them, as XLA writes it.

    {replicated}  {manual}  {unreduced}  {maximal device=1}  {devices=[2,1]<=[2] last_tile_dim_replicate}
    {mesh['x'=2,'y'=2], [{'x'}, {?}], replicated={'y'}}  {single_device[device_id=1]}
    {{replicated}, {devices=[2]0,1}}                        one for each element of a tuple

Any of them may state its origin (`metadata={...}`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from refxla_spec.errors import Error, ParseError, UnsupportedError
from refxla_spec.groups import Iota, MeshAxis, iota
from refxla_spec.module import Metadata
from refxla_spec.printer import format_metadata
from refxla_spec.values import Values

from .hlo_schema import ENUMS
from .proto_meshes import Axes, DeviceIds, axis_from, axis_to, mesh_from, mesh_to
from .proto_metadata import metadata_from, metadata_to

_KINDS = ENUMS["sharding_type"]
_DEEPEST = 100  # nesting levels of tuples


# -- to text


def sharding_from(message: Any, depth: int = 0) -> str:
    """The text of an OpSharding."""
    if depth > _DEEPEST:
        raise ParseError(f"tuples nest more than {_DEEPEST} levels deep")
    if message.HasField("named_sharding"):
        return _named_text(message.named_sharding)
    kind = _kind(message.type)
    if kind == "tuple":
        return _braced((sharding_from(s, depth + 1) for s in message.tuple_shardings), ", ")
    if kind == "maximal":
        words = [f"maximal device={message.tile_assignment_devices[0] if message.tile_assignment_devices else 0}"]
    else:
        words = _tiles_text(message) if kind == "other" else [kind]
    if message.is_shard_group:
        words.append(f"{ENUMS['shard_group_type'][message.shard_group_type & 1]} {message.shard_group_id}")
    if message.metadata:
        entries = [metadata_from(m) for m in message.metadata]
        words.append("metadata=" + (format_metadata(entries[0]) if len(entries) == 1 else _metadata_list(entries)))
    return _braced(words, " ")


def _kind(number: int) -> str:
    if not 0 <= number < len(_KINDS):
        raise ParseError(f"sharding type number {number} is unknown")
    return _KINDS[number]


def _tiles_text(message: Any) -> list[str]:
    text = f"devices=[{_joined(message.tile_assignment_dimensions)}]"
    if message.iota_reshape_dims:
        text += f"<={iota(tuple(message.iota_reshape_dims), tuple(message.iota_transpose_perm))}"
    else:
        text += _joined(message.tile_assignment_devices)
    words = [text]
    if message.replicate_on_last_tile_dim:
        words.append("last_tile_dim_replicate")
    if message.last_tile_dims:
        words.append("last_tile_dims=" + _braced(map(_kind, message.last_tile_dims), ", "))
    return words


def _metadata_list(entries: Iterable[Metadata]) -> str:
    return _braced(map(format_metadata, entries), ", ")


def _named_text(message: Any) -> str:
    axes, ids = mesh_from(message.mesh)
    if not axes and isinstance(ids, tuple) and len(ids) == 1:
        parts = [f"single_device[device_id={ids[0]}]"]
    else:
        parts = ["mesh[" + ",".join(f"'{name}'={size}" for name, size in axes) + "]"]
        if ids is not None:
            parts.append(f"device_ids=({ids if isinstance(ids, Iota) else _joined(ids)})")
        parts += _cuts_text(message, axes)
    if message.metadata:
        parts.append("metadata=" + _metadata_list(map(metadata_from, message.metadata)))
    return _braced(parts, ", ")


def _cuts_text(message: Any, axes: Axes) -> list[str]:
    """The axes along which each dimension is split, and what the other axes do."""
    if not 0 <= message.reduction_op < len(ENUMS["reduction_op"]):
        raise UnsupportedError(f"the reduction number {message.reduction_op} of a sharding is unknown here")
    reduction = f"={ENUMS['reduction_op'][message.reduction_op]}" if message.reduction_op else ""
    others = {
        "replicated": (message.replicated_axes, "="),
        "unreduced": (message.unreduced_axes, reduction or "="),
        "manual": (message.manual_axes, "="),
    }
    dimensions = []
    for d in message.dim_shardings:
        names = [_axis_text(axis_from(a, axes), axes) for a in d.axes]
        dimensions.append(_braced(names if d.is_closed else [*names, "?"], ", "))
    parts = ["[" + ", ".join(dimensions) + "]"]
    for word, (named, sign) in others.items():
        if named:
            parts.append(word + sign + _braced((_axis_text(axis_from(a, axes), axes) for a in named), ", "))
    return parts


def _axis_text(axis: MeshAxis, axes: Axes) -> str:
    part = "" if axis.size is None else f":({axis.pre_size}){axis.size}"
    return f"'{axes[axis.axis][0]}'{part}"


def _joined(values: Iterable[Any]) -> str:
    return ",".join(map(str, values))


def _braced(parts: Iterable[str], separator: str) -> str:
    return "{" + separator.join(parts) + "}"


# -- from text


def sharding_to(text: str, message: Any) -> None:
    """Fills an OpSharding from its text. Raises UnsupportedError for an unknown form."""
    try:
        reader = _TextReader(text)
        reader.sharding(message)
        reader.end()
    except (Error, ValueError) as problem:
        if type(problem) is UnsupportedError:
            raise
        shown = str(problem).split("\n")[0]
        raise UnsupportedError(f"the sharding {text} is not implemented in protos: {shown}") from None


_WORD = re.compile(r"[a-z_]+")
_NUMBER = re.compile(r"\d{1,18}")
_NUMBERS = re.compile(r"\d{1,18}(?:\s*,\s*\d{1,18})*")
_AXIS_NAME = re.compile(r"'([^']*)'")
_DEVICE_IDS = re.compile(r",\s*device_ids\s*=\s*\(")


class _TextReader:
    """Reads one sharding at the position of its scanner."""

    def __init__(self, text: str) -> None:
        self.values = Values(text)
        self.scanner = self.values.scanner

    def end(self) -> None:
        if not self.scanner.at_end:
            raise self.scanner.expected("the end of the sharding")

    def sharding(self, message: Any, depth: int = 0) -> None:
        s = self.scanner
        if depth > _DEEPEST:
            raise s.error(f"tuples nest more than {_DEEPEST} levels deep")
        s.expect("{")
        s.skip()
        if s.text[s.at : s.at + 1] in ("{", "}"):
            message.type = _KINDS.index("tuple")
            while not s.accept("}"):
                if message.tuple_shardings:
                    s.expect(",", "or '}'")
                self.sharding(message.tuple_shardings.add(), depth + 1)
        elif s.text.startswith(("mesh", "single_device", "maximal_mesh"), s.at):
            self.named(message.named_sharding)
        else:
            while not s.accept("}"):
                self.part(message)

    # -- by tiles

    def part(self, message: Any) -> None:
        """One of the words that follow each other in braces."""
        s = self.scanner
        word = s.need(_WORD, "a word of a sharding, or '}'")
        if word == "devices":
            s.expect("=")
            self.tiles(message)
        elif word == "device":
            s.expect("=")
            message.tile_assignment_dimensions.append(1)
            message.tile_assignment_devices.append(s.integer("the number of a device"))  # -1 is allowed, too
        elif word == "last_tile_dim_replicate":
            message.replicate_on_last_tile_dim = True
        elif word == "last_tile_dims":
            s.expect("=")
            message.last_tile_dims.extend(self.kinds())
        elif word in ENUMS["shard_group_type"]:
            message.is_shard_group = True
            message.shard_group_type = ENUMS["shard_group_type"].index(word)
            message.shard_group_id = int(s.need(_NUMBER, "the number of a group"))
        elif word == "metadata":
            s.expect("=")
            self.metadata(message)
        elif word in _KINDS and word not in ("tuple", "other"):
            message.type = _KINDS.index(word)
        else:
            raise s.error(f"{word} is unknown here")

    def tiles(self, message: Any) -> None:
        s = self.scanner
        message.type = _KINDS.index("other")
        message.tile_assignment_dimensions.extend(self.numbers("[", "]"))
        if s.accept("<="):
            source = self.iota()
            message.iota_reshape_dims.extend(source.dimensions)
            message.iota_transpose_perm.extend(source.permutation)
        else:
            message.tile_assignment_devices.extend(_split(s.need(_NUMBERS, "the numbers of devices")))

    def kinds(self) -> list[int]:
        s = self.scanner
        s.expect("{")
        numbers: list[int] = []
        while not s.accept("}"):
            if numbers:
                s.expect(",", "or '}'")
            word = s.need(_WORD, "a kind of sharding")
            if word not in _KINDS:
                raise s.error(f"{word} is unknown here")
            numbers.append(_KINDS.index(word))
        return numbers

    def iota(self) -> Iota:
        dimensions = self.numbers("[", "]")
        return iota(dimensions, self.numbers("(", ")") if self.scanner.accept("T") else ())

    def numbers(self, opening: str, closing: str) -> tuple[int, ...]:
        s = self.scanner
        s.expect(opening)
        numbers = s.match(_NUMBERS)
        s.expect(closing)
        return _split(numbers[0]) if numbers else ()

    def metadata(self, message: Any) -> None:
        """One in braces, or several, each in its own braces."""
        s = self.scanner
        several = re.compile(r"\{\s*(?=\{)").match(s.text, s.at)
        if several:
            s.at = several.end()
        metadata_to(self.values.metadata(), message.metadata.add())
        while several and not s.accept("}"):
            s.expect(",", "or '}'")
            metadata_to(self.values.metadata(), message.metadata.add())

    # -- by axes of a mesh

    def named(self, message: Any) -> None:
        s = self.scanner
        if s.need(_WORD, "a mesh") == "mesh":
            axes = self.axes()
            mesh_to(axes, self.device_ids(), message.mesh)
            self.cuts(message, axes)
        else:
            s.expect("[")
            s.expect("device_id")
            s.expect("=")
            mesh_to((), (int(s.need(_NUMBER, "the number of a device")),), message.mesh)
            s.expect("]")
        message.mesh.SetInParent()
        if s.accept(","):
            s.expect("metadata")
            s.expect("=")
            self.metadata(message)
        s.expect("}")

    def axes(self) -> Axes:
        s = self.scanner
        axes: list[tuple[str, int]] = []
        s.expect("[")
        while not s.accept("]"):
            if axes:
                s.expect(",", "or ']'")
            name = s.need(_AXIS_NAME, "the name of an axis")
            s.expect("=")
            axes.append((name, int(s.need(_NUMBER, "the size of an axis"))))
        return tuple(axes)

    def device_ids(self) -> DeviceIds:
        s = self.scanner
        if not s.match(_DEVICE_IDS):
            return None
        s.skip()
        ids = self.iota() if s.text.startswith("[", s.at) else _split(s.need(_NUMBERS, "the numbers of devices"))
        s.expect(")")
        return ids

    def cuts(self, message: Any, axes: Axes) -> None:
        s = self.scanner
        others = {
            "replicated": message.replicated_axes,
            "unreduced": message.unreduced_axes,
            "manual": message.manual_axes,
        }
        s.accept(",")
        if not s.accept("["):
            self.all_axes(message, axes, others)
            return
        while not s.accept("]"):
            if message.dim_shardings:
                s.expect(",", "or ']'")
            dimension = message.dim_shardings.add()
            dimension.is_closed = not self.axis_list(dimension.axes, axes)
        while word := s.match(re.compile(r",\s*(replicated|unreduced|manual)\s*=")):
            if word[1] == "unreduced":
                self.reduction(message)
            self.axis_list(others[word[1]], axes)

    def all_axes(self, message: Any, axes: Axes, others: dict[str, Any]) -> None:
        """One word for all axes; `replicated` is the default."""
        s = self.scanner
        word = s.need(re.compile("replicated|unreduced|manual"), "'[' or what is with all axes")
        if word == "unreduced" and s.accept("="):
            self.reduction(message)
        for n in range(len(axes) if word != "replicated" else 0):
            axis_to(MeshAxis(n), others[word].add())

    def reduction(self, message: Any) -> None:
        if word := self.scanner.match(_WORD):
            if word[0] not in ENUMS["reduction_op"]:
                raise self.scanner.error(f"{word[0]} is unknown here")
            message.reduction_op = ENUMS["reduction_op"].index(word[0])

    def axis_list(self, messages: Any, axes: Axes) -> bool:
        """Axes in braces; whether `?` follows them."""
        s = self.scanner
        s.expect("{")
        is_open = False
        while not s.accept("}"):
            if messages:
                s.expect(",", "or '}'")
            if s.accept("?"):
                is_open = True
                s.expect("}")
                break
            axis_to(self.axis(axes), messages.add())
        return is_open

    def axis(self, axes: Axes) -> MeshAxis:
        s = self.scanner
        name = s.need(_AXIS_NAME, "the name of an axis")
        names = [n for n, _ in axes]
        if name not in names:
            raise s.error(f"the mesh has no axis {name!r}")
        if not s.accept(":"):
            return MeshAxis(names.index(name))
        s.expect("(")
        before = int(s.need(_NUMBER, "a number"))
        s.expect(")")
        return MeshAxis(names.index(name), before, int(s.need(_NUMBER, "the size of a part of an axis")))


def _split(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(",")))
