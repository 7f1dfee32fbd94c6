"""HloModuleProto in and out: XLA's serialized form of a program.

A proto says all that the text says except for notes to a compiler, which `refxla_spec.left_out` lists: those in the
module's header (replica_count, num_partitions, allow_spmd_sharding_propagation_to_..., and so on), and where
instructions came from (`origin`, which is `original_value` in a proto).
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any

from google.protobuf.message import DecodeError
from refxla_spec import grammar
from refxla_spec.attributes import INT_LISTS, REQUIRED, Attribute
from refxla_spec.errors import Error, InvalidProgramError, ParseError, UnsupportedError, plural
from refxla_spec.leniency import is_lenient, lenient_reading
from refxla_spec.lexer import escape, suggestion, unescape
from refxla_spec.module import Alias, Computation, Instruction, Metadata, Module, StackFrames, order_computations
from refxla_spec.operation import operations
from refxla_spec.parser import Parser
from refxla_spec.types import Shape

from .hlo_schema import ENUMS, HloModuleProto, HloProto
from .proto_attributes import GROUP_FIELDS, SINGLE, SPECIAL, field_of, read, write
from .proto_metadata import metadata_from, metadata_to
from .proto_shardings import sharding_from, sharding_to
from .proto_unknown import check_known
from .proto_values import literal_from, literal_to, shape_from, shape_to

# The attributes with the computations that an operation calls, in the order of called_computation_ids.
_CALLED = {
    "while": ("body", "condition"),
    "select-and-scatter": ("select", "scatter"),
    "fusion": ("calls",),
    "async-start": ("calls",),
    "async-update": ("calls",),
    "async-done": ("calls",),
    "custom-call": ("called_computations",),
}
_READ_OTHERWISE = {
    "name", "opcode", "shape", "metadata", "literal", "id", "operand_ids", "control_predecessor_ids",
    "called_computation_ids", "sharding", "backend_config", "frontend_attributes",
}  # fmt: skip
# Fields that a reader may ignore: notes on the origin, and flags that repeat others.
_LEFT_OUT = {"original_value", "statistics_viz", "constrain_layout"}


def from_proto(data: bytes, lenient: bool = False) -> Module:
    """The Module of a serialized HloModuleProto, or of an HloProto with one.

    Raises ParseError for bytes that are not such a proto or contradict themselves, UnsupportedError for contents that
    the IR cannot represent. The rules of HLO are not checked here: `refxla_spec.verify` does that. An unknown field is
    an UnsupportedError; with `lenient`, it is a warning if it has its default value (`refxla_spec.leniency`).
    """
    with lenient_reading(lenient or is_lenient()):
        message, around = _decode(data)
        check_known(message, around)
        return _read(message)


def _read(message: Any) -> Module:
    try:
        return _Reader(message).module()
    except (IndexError, OverflowError, ValueError) as problem:
        raise ParseError(f"the proto contradicts itself: {problem}") from None


def to_proto(module: Module) -> bytes:
    """A module as a serialized HloModuleProto. Arrays without a layout get the row-major one, and instructions of the
    same name in different computations are renamed: XLA requires both.

    Raises UnsupportedError for contents that a proto cannot represent.
    """
    data: bytes = _Writer(module).module().SerializeToString(deterministic=True)
    return data


_FOREIGN = re.compile(r"[^\w.\-]")


def _name(name: str) -> str:
    """A name that is valid in text: invalid characters become `_`, as XLA does with the names it is given."""
    return _FOREIGN.sub("_", name) or "_"


def _decode(data: bytes) -> tuple[Any, Any]:
    """The HloModuleProto in the bytes, and the HloProto around it or None: whichever has instructions."""
    for kind in (HloModuleProto, HloProto):
        try:
            message = kind.FromString(bytes(data))
        except (DecodeError, RecursionError):
            continue
        module, around = (message.hlo_module, message) if kind is HloProto else (message, None)
        if any(c.instructions for c in module.computations):
            return module, around
    raise ParseError(
        f"these {len(data)} bytes are no HloModuleProto or HloProto with a program in it (truncated, or not a proto?)"
    )


# An attribute to look for: its name, its kind, the path of its field, and whether there is something to read.
_Entry = tuple[str, Attribute, str, bool]


@lru_cache(1024)
def _look_for(opcode: str, present: frozenset[str]) -> tuple[tuple[_Entry, ...], tuple[str, ...]]:
    """The attributes that an instruction with these fields may have, and the fields that none of them reads."""
    entries: list[_Entry] = []
    fields: set[str] = set(_LEFT_OUT)
    for name, attribute in _declared(opcode, present).items():
        path = field_of(opcode, name)
        if path is None:
            continue
        top = path.partition(".")[0]
        fields.add(top)
        if name == "replica_groups":  # in one of several fields
            fields.update(GROUP_FIELDS)
            is_there = True
        else:
            is_there = top in present or not (name in SPECIAL or attribute.default is None)
        if is_there or attribute.default is not None:
            entries.append((name, attribute, path, is_there))
    return tuple(entries), tuple(sorted(present - fields))


def _declared(opcode: str, present: frozenset[str]) -> dict[str, Attribute]:
    """The attributes to look for: those that the operation declares, otherwise any that the fields that are set may
    mean."""
    operation = operations().get(opcode)
    result = dict(operation.attributes) if operation else {}
    for name, kind in grammar.ATTRIBUTE_KINDS.items():
        path = field_of(opcode, name)
        if name in result or path is None or path.partition(".")[0] not in present:
            continue
        if operation and any((field_of(opcode, n) or "").partition(".")[0] == path.partition(".")[0] for n in result):
            continue
        if name in SINGLE:
            continue
        result[name] = Attribute(kind, None, "")
    if opcode == "parameter":
        result.setdefault("number", Attribute("int", REQUIRED, ""))
    return result


class _Reader:
    """Makes a module from an HloModuleProto; what many instructions share is read once."""

    def __init__(self, message: Any) -> None:
        self.message = message
        self.computations: dict[int, Computation] = {}
        # A program has few different shapes, and expands one instruction of the user's into several.
        self.shapes: dict[bytes, Shape] = {}
        self.origins: dict[bytes, Metadata] = {}

    def module(self) -> Module:
        m = self.message
        for c in m.computations:
            if c.id in self.computations:
                raise ParseError(f"two computations have the id {c.id}")
            config = _config_text(c.backend_config) if c.backend_config else None
            self.computations[c.id] = Computation(
                _name(c.name), execution_thread=c.execution_thread or None, backend_config=config
            )
        sequences = {s.key: list(s.value.instruction_ids) for s in m.schedule.sequences}
        for c in m.computations:
            self.fill(self.computations[c.id], c, sequences.get(c.id))
        if m.entry_computation_id not in self.computations:
            raise ParseError(f"the entry computation has the id {m.entry_computation_id}, and no computation has it")
        module = Module(_name(m.name), entry=self.computations[m.entry_computation_id])
        try:
            module.computations = order_computations(list(self.computations.values()))
        except InvalidProgramError as problem:
            raise ParseError(str(problem)) from None
        if m.HasField("host_program_shape"):
            shape = m.host_program_shape
            module.entry_layout = tuple(shape_from(p) for p in shape.parameters), shape_from(shape.result)
        module.aliases = tuple(self.alias(e) for e in m.input_output_alias.entries)
        if m.HasField("schedule"):
            module.attributes["is_scheduled"] = "true"
        if m.buffer_donor.entries:
            donors = (f"({d.parameter_number}, {{{_joined(d.parameter_shape_index)}}})" for d in m.buffer_donor.entries)
            module.attributes["buffer_donor"] = "{ " + ", ".join(donors) + " }"
        if m.frontend_attributes.map:
            pairs = (f"{e.key}={escape(e.value)}" for e in m.frontend_attributes.map)
            module.attributes["frontend_attributes"] = "{" + ",".join(pairs) + "}"
        module.stack_frames = self.stack_frames(m.stack_frame_index)
        return module

    def alias(self, entry: Any) -> Alias:
        if entry.kind not in (1, 2):
            raise ParseError(f"the kind of an input_output_alias is {entry.kind}")
        output, index = tuple(entry.output_shape_index), tuple(entry.parameter_shape_index)
        return Alias(output, entry.parameter_number, index, ENUMS["kind"][entry.kind])

    def stack_frames(self, index: Any) -> StackFrames | None:
        locations = (tuple(getattr(e, f) for f in StackFrames.LOCATION) for e in index.file_locations)
        frames = (tuple(getattr(e, f) for f in StackFrames.FRAME) for e in index.stack_frames)
        tables = StackFrames(tuple(index.file_names), tuple(index.function_names), tuple(locations), tuple(frames))
        return None if tables == StackFrames() else tables

    def fill(self, computation: Computation, message: Any, sequence: list[int] | None) -> None:
        """Reads the instructions of a computation, in the order of its schedule if it has one."""
        by_id = {i.id: i for i in message.instructions}
        if len(by_id) != len(message.instructions):
            raise ParseError(f"two instructions of computation {message.name} have the same id")
        order = list(by_id)
        if sequence is not None:
            if sorted(sequence) != sorted(order):
                raise ParseError(f"the schedule of computation {message.name} does not have each instruction once")
            order = sequence
        instructions: dict[int, Instruction] = {}
        for number in order:
            instructions[number] = self.instruction(by_id[number], instructions)
        if message.root_id not in instructions:
            raise ParseError(f"computation {message.name} has no root: no instruction has the id {message.root_id}")
        computation.instructions = list(instructions.values())
        computation.root = instructions[message.root_id]

    def instruction(self, m: Any, instructions: dict[int, Instruction]) -> Instruction:
        if not grammar.is_opcode(m.opcode):
            raise ParseError(f"{m.name}: HLO has no opcode {m.opcode!r}{suggestion(m.opcode, grammar.OPCODES)}")
        operands, before = list(m.operand_ids), list(m.control_predecessor_ids)
        for number in (*operands, *before):
            if number not in instructions:
                raise ParseError(f"{m.name} depends on the id {number}, and no instruction before it has this id")
        try:
            i = Instruction(_name(m.name), m.opcode, self.shape(m.shape), [instructions[n] for n in operands])
            i.attributes = self.attributes(m, i)
            i.metadata = self.metadata(m.metadata)
            i.sharding = sharding_from(m.sharding) if m.HasField("sharding") else None
        except (ParseError, UnsupportedError) as problem:
            raise type(problem)(f"{m.name}: {problem}") from None
        i.frontend_attributes = tuple((e.key, e.value) for e in m.frontend_attributes.map)
        i.backend_config = _config_text(m.backend_config) if m.backend_config else None
        i.control_predecessors = [instructions[n] for n in before]
        return i

    def shape(self, m: Any) -> Shape:
        """The shape of a message; equal ones share an object."""
        raw = m.SerializeToString()
        if raw not in self.shapes:
            self.shapes[raw] = shape_from(m)
        return self.shapes[raw]

    def metadata(self, m: Any) -> Metadata | None:
        """The same for the origin of an instruction; None if nothing is known."""
        raw = m.SerializeToString()
        if raw and raw not in self.origins:
            self.origins[raw] = metadata_from(m)
        return self.origins.get(raw)

    def attributes(self, m: Any, i: Instruction) -> dict[str, Any]:
        present = frozenset(
            f.name for f, v in m.ListFields() if f.name not in _READ_OTHERWISE and not _says_nothing(f.name, v)
        )
        result = self.called(m, i)
        if i.opcode == "constant":
            result["literal"] = literal_from(m.literal, i.shape)
        elif m.HasField("literal"):
            result["literal"] = literal_from(m.literal, shape_from(m.literal.shape))
        entries, unknown = _look_for(i.opcode, present)
        for name, attribute, path, is_there in entries:
            value = read(m, path, name, attribute.kind) if is_there else None
            if name in SINGLE and value is None:
                continue
            if i.opcode == "compare" and _goes_without_saying(i, m, name, value):
                value = None
            if name == "slice_sizes" and attribute.kind == INT_LISTS and value:
                value = _by(max(1, i.operands[0].shape.rank), value[0])
            if attribute.default is REQUIRED:
                value = () if value is None and name in ("slice", "padding", "window") else value
            elif value in (None, "") or value == attribute.default:
                continue
            if value is not None:
                result[name] = value
        if unknown:
            raise UnsupportedError(f"the field {unknown[0]} of {i.opcode} in a proto is not implemented")
        return result

    def called(self, m: Any, i: Instruction) -> dict[str, Any]:
        """The attributes that hold called computations."""
        called = []
        for number in m.called_computation_ids:
            if number not in self.computations:
                raise ParseError(f"calls the computation of id {number}, and there is none")
            called.append(self.computations[number])
        if not called:
            return {}
        names = _CALLED.get(i.opcode, ("to_apply",))
        if i.opcode == "conditional":
            if i.operands and str(i.operands[0].shape.element_type) == "pred" and len(called) == 2:
                names = ("true_computation", "false_computation")
            else:
                return {"branch_computations": tuple(called)}
        if names == ("called_computations",):
            return {"called_computations": tuple(called)}
        if len(called) != len(names):
            raise ParseError(f"{i.opcode} calls {plural(len(called), 'computation')}; it has {' and '.join(names)}")
        return dict(zip(names, called, strict=True))


def _by(size: int, flat: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """A list of numbers as lists of `size`."""
    return tuple(flat[n : n + size] for n in range(0, len(flat), size))


def _says_nothing(field: str, value: Any) -> bool:
    """Whether a field that is set has the same meaning as one that is not."""
    if field in ("feature_group_count", "batch_group_count"):
        return value in (0, 1)
    if field == "precision_config":
        return not any(value.operand_precision) and not value.algorithm
    if field == "custom_call_api_version":
        return value in (0, 1)
    if field == "window":
        return not value.dimensions
    return hasattr(value, "ByteSize") and not value.ByteSize() and field != "padding_config"


# The order and the type (the older form) of a comparison if the text leaves them out, by the kind of the elements.
_COMPARISONS = {
    "float": ("PARTIAL", "FLOAT"),
    "complex": ("PARTIAL", "FLOAT"),
    "signed": ("TOTAL", "SIGNED"),
}


def _goes_without_saying(i: Instruction, m: Any, name: str, value: Any) -> bool:
    """Whether the text of a comparison omits what its proto says. Raises ParseError for a contradiction."""
    kind = i.operands[0].shape.element_type.kind if i.operands else ""
    order, older = _COMPARISONS.get(kind, ("TOTAL", "UNSIGNED"))
    if name == "type" and m.comparison_order:  # written for readers that do not know the order
        if kind == "float" and value == "TOTALORDER" and m.comparison_order != "TOTAL":
            raise ParseError(f"the order of a comparison is {m.comparison_order}, and its type is {value}")
        return True
    return bool(value == {"order": order, "type": older}.get(name))


def _joined(values: Any) -> str:
    return ",".join(map(str, values))


def _config_text(raw: bytes) -> str:
    """A backend_config in its text form: a JSON object unchanged, anything else quoted."""
    text = raw.decode("utf-8", "surrogateescape")
    try:
        is_object = isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        is_object = False
    return text if is_object else escape(text)


def _config_bytes(text: str) -> bytes:
    return (unescape(text) if text.startswith('"') else text).encode("utf-8", "surrogateescape")


class _Writer:
    """Makes an HloModuleProto from a module, with XLA's numbering of computations and instructions."""

    def __init__(self, source: Module) -> None:
        self.source = source
        self.operations = operations()
        self.names: set[str] = set()
        # XLA's numbering: computations from 0 on, and an instruction's place below its computation's number.
        self.computation_ids = {c: n for n, c in enumerate(source.computations)}
        self.ids = {
            i: number << 32 | n for c, number in self.computation_ids.items() for n, i in enumerate(c.instructions)
        }

    def module(self) -> Any:
        source, m = self.source, HloModuleProto()
        m.name, m.entry_computation_name = source.name, source.entry.name
        m.entry_computation_id = self.computation_ids[source.entry]
        fused = {c for i in source.instructions() if i.opcode == "fusion" for c in i.called}
        for c in source.computations:
            self.computation(c, m.computations.add(), c in fused)
        parameters, result = source.entry_layout or (
            tuple(p.shape for p in source.entry.parameters),
            source.entry.root.shape,
        )
        _program_shape(parameters, result, [p.name for p in source.entry.parameters], m.host_program_shape)
        for a in source.aliases:
            m.input_output_alias.entries.add(
                output_shape_index=a.output_index,
                parameter_number=a.parameter,
                parameter_shape_index=a.parameter_index,
                kind=ENUMS["kind"].index(a.kind),
            )
        if source.attributes.get("is_scheduled") == "true":
            for c in source.computations:
                if c not in fused:
                    sequence = m.schedule.sequences.add(key=self.computation_ids[c])
                    sequence.value.instruction_ids.extend(self.ids[i] for i in c.instructions)
        donors = source.attributes.get("buffer_donor", "")
        for parameter, index in re.findall(r"\(\s*(\d{1,18})\s*,\s*\{([\d,\s]*)\}\s*\)", donors):
            m.buffer_donor.entries.add(
                parameter_number=int(parameter), parameter_shape_index=[int(n) for n in re.findall(r"\d+", index)]
            )
        self.frontend_attributes(_pairs(source.attributes.get("frontend_attributes", "")), m.frontend_attributes)
        if source.stack_frames:
            self.stack_frames(source.stack_frames, m.stack_frame_index)
        return m

    def stack_frames(self, tables: StackFrames, m: Any) -> None:
        m.file_names.extend(tables.files)
        m.function_names.extend(tables.functions)
        for row in tables.locations:
            m.file_locations.add(**dict(zip(tables.LOCATION, row, strict=True)))
        for row in tables.frames:
            m.stack_frames.add(**dict(zip(tables.FRAME, row, strict=True)))

    def computation(self, c: Computation, m: Any, is_fused: bool) -> None:
        m.name, m.id, m.root_id = c.name, self.computation_ids[c], self.ids[c.root]
        m.is_fusion_computation, m.execution_thread = is_fused, c.execution_thread or ""
        m.backend_config = _config_bytes(c.backend_config) if c.backend_config else b""
        parameters = c.parameters
        _program_shape([p.shape for p in parameters], c.root.shape, [p.name for p in parameters], m.program_shape)
        for i in c.instructions:
            try:
                self.instruction(i, m.instructions.add())
            except Error as problem:
                raise type(problem)(f"{i.name}: {problem}") from None
            except (TypeError, ValueError) as problem:
                raise InvalidProgramError(f"{i.name} cannot be written to a proto: {problem}") from None

    def instruction(self, i: Instruction, m: Any) -> None:
        m.name, m.opcode, m.id = self.unique(i.name), i.opcode, self.ids[i]
        shape_to(i.shape, m.shape)
        m.operand_ids.extend(self.ids[o] for o in i.operands)
        m.control_predecessor_ids.extend(self.ids[o] for o in i.control_predecessors)
        m.called_computation_ids.extend(self.computation_ids[c] for c in _called_in_order(i))
        if i.metadata is not None:
            metadata_to(i.metadata, m.metadata)
        if i.sharding is not None:
            sharding_to(i.sharding, m.sharding)
        self.frontend_attributes(i.frontend_attributes, m.frontend_attributes)
        if i.backend_config is not None:
            m.backend_config = _config_bytes(i.backend_config)
        operation = self.operations.get(i.opcode)
        declared = operation.attributes if operation else {}
        # Defaults are written if the proto's own default, zero, would contradict them.
        values = {n: a.default for n, a in declared.items() if a.default is not REQUIRED and a.default}
        values = {n: v for n, v in values.items() if field_of(i.opcode, n) and n not in SINGLE} | i.attributes
        values |= _stated_in_protos(i)
        if i.opcode in _ALWAYS_THERE:
            getattr(m, _ALWAYS_THERE[i.opcode]).SetInParent()
        for name, value in values.items():
            if name == "literal":
                literal_to(value, i.shape if i.opcode == "constant" else _shape_of(value), m.literal)
            elif value is None or value == "" or _holds_computations(value):
                continue
            elif (path := field_of(i.opcode, name)) is not None:
                write(m, path, name, value)
                if name == "order" and i.operands[0].shape.element_type.is_float:  # for readers of JAX 0.11 and before
                    m.comparison_type = {"TOTAL": "TOTALORDER", "PARTIAL": "FLOAT"}.get(value, "")
            elif name not in grammar.ANNOTATIONS:
                raise UnsupportedError(f"the attribute {name} of {i.opcode} is not implemented in protos")

    def unique(self, name: str) -> str:
        """The name, or if another computation already has an instruction of this name, name.1, name.2, ..."""
        result, n = name, 0
        while result in self.names:
            n += 1
            result = f"{name}.{n}"
        self.names.add(result)
        return result

    def frontend_attributes(self, pairs: tuple[tuple[str, str], ...], m: Any) -> None:
        for key, value in pairs:
            m.map.add(key=key, value=value)


# The messages that XLA requires even if they are empty, as for a dot without dimensions.
_ALWAYS_THERE = {"dot": "dot_dimension_numbers", "convolution": "window"}


def _stated_in_protos(i: Instruction) -> dict[str, Any]:
    """Attributes that are optional in text but required in a proto."""
    if i.opcode == "custom-call":
        return {"api_version": i.api_version or "API_VERSION_ORIGINAL"}
    if i.opcode == "outfeed" and i.operands:
        return {"outfeed_shape": i.outfeed_shape or i.operands[0].shape}
    return {}


def _shape_of(value: Any) -> Shape:
    """The shape of a literal that states it itself."""
    if isinstance(value, tuple):
        return Shape.tuple_of(*map(_shape_of, value))
    return Shape.of(value)


def _holds_computations(value: Any) -> bool:
    return isinstance(value, Computation) or (
        isinstance(value, tuple) and bool(value) and isinstance(value[0], Computation)
    )


def _called_in_order(i: Instruction) -> list[Computation]:
    names = _CALLED.get(i.opcode, ())
    if i.opcode == "conditional":
        names = ("true_computation", "false_computation", "branch_computations")
    if len(names) < 2:
        return i.called
    values = [i.attributes[n] for n in names if i.attributes.get(n)]
    return [c for v in values for c in (v if isinstance(v, tuple) else (v,))]


def _pairs(text: str) -> tuple[tuple[str, str], ...]:
    """The pairs of a header's frontend_attributes."""
    return Parser(text).frontend_attributes() if text else ()


def _program_shape(parameters: Any, result: Shape, names: list[str], m: Any) -> None:
    for p in parameters:
        shape_to(p, m.parameters.add())
    shape_to(result, m.result)
    m.parameter_names.extend(names)
