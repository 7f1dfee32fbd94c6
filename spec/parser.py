"""From HLO text to a Module: the grammar, rule by rule, in the order in which a text goes.

    module       := "HloModule" name ("," header attribute)* tables? computation*
    computation  := "ENTRY"? name signature? "{" instruction* "}" ("," "execution_thread" "=" string)?
    signature    := "(" (name ":" shape),* ")" "->" shape
    instruction  := "ROOT"? name "=" shape opcode "(" operands ")" ("," name "=" value)*
    operands     := (shape? name),*     of parameter: its number; of constant: a literal

Names may have a `%` in front. A text without a header is one computation, or the lines of one.
"""

from __future__ import annotations

import re
from typing import Any

from . import asynchronous, grammar
from . import attributes as kinds
from .errors import Error, InvalidProgramError, ParseError, UnsupportedError
from .groups import GROUPS, ReplicaGroups, parse_groups
from .lexer import NAME, STRING, WORD, Scanner, suggestion
from .literals import parse_value
from .module import (
    Alias,
    Computation,
    ConvolutionDimensions,
    Instruction,
    Metadata,
    Module,
    PaddingDimension,
    SliceDimension,
    StackFrames,
    WindowDimension,
    order_computations,
)
from .operation import operations
from .types import ELEMENT_TYPES, TUPLE, Layout, Shape

_HEAD = re.compile(r"(ROOT\b\s*)?%?([\w.\-]+)\s*=")
_BODY = re.compile(r"\{\s*(?:ROOT\b\s*)?%?[\w.\-]+\s*=")
_HAS_SHAPE = re.compile(r"\(|[a-z]\w*\[")
_OPCODE = re.compile(r"[a-z][a-z0-9\-]*")
_COMPUTATION = re.compile(r"(ENTRY\b\s*)?%?([\w.\-]+)\s*(?=[({])")
# Operands without shapes, the common case; everything else goes through `_operands`.
_PLAIN_OPERANDS = re.compile(r"\(\s*((?:%?[\w.\-]+\s*,\s*(?:/\*[\w=]*\*/\s*)?)*%?[\w.\-]+)?\s*\)")
_OPERAND_SEPARATOR = re.compile(r"\s*,\s*(?:/\*[\w=]*\*/\s*)?")
_ARRAY = re.compile(r"([a-z]\w*)\[([^\[\]{}()]*)\](\{(?=\s*[\d:}])[^{}\"]*(?:\{[^{}]*\}[^{}]*)*\})?")
_DIMENSION = re.compile(r"\s*(<=)?\s*(\d{1,19})\s*")
_LAYOUT = re.compile(r"\{\s*((?:\d+\s*,\s*)*\d+)?\s*(?::(.*))?\}", re.S)
_INTEGERS = re.compile(r"\{\s*((?:-?\d+\s*,\s*)*-?\d+)?\s*,?\s*\}")
_ENUM = re.compile(r"[A-Za-z0-9_][\w.\-]*")
_FLOAT = re.compile(r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|inf|nan)")
_WINDOW_FIELD = re.compile(r"(size|stride|pad|lhs_dilate|rhs_dilate|rhs_reversal)\s*=\s*([-\dx_]+)")
_DIM_LABELS = re.compile(r"([0-9a-z?]+)_([0-9a-z?]+)->([0-9a-z?]+)")
_PADDING = re.compile(r"(?:-?\d+_-?\d+(?:_-?\d+)?)(?:x-?\d+_-?\d+(?:_-?\d+)?)*|(?=\s*(?:,|$|\n|\}))")
_DEEPEST = 100  # levels of nesting of tuples


class Parser:
    """Parses one text. `module()` is the start; the other public methods parse a part of the grammar on its own."""

    def __init__(self, text: str) -> None:
        self.scanner = Scanner(text)
        self.shapes: dict[str, Shape] = {}  # array shapes already read, by their text
        self.computations: dict[str, Computation] = {}
        # Computations may be called before they are written: (instruction, attribute, names, offset of the first)
        self.calls: list[tuple[Instruction, str, list[str], int]] = []
        self.operations = operations()
        self.defining = ""  # the name of the instruction in which the scanner stands
        self.nesting = 0  # levels of computations inside of which the scanner stands

    # -- module

    def module(self) -> Module:
        """The whole text."""
        s = self.scanner
        module = Module("module", source=s.text)
        entry: Computation | None = None
        header = s.match(re.compile(r"HloModule\b"))
        if header:
            module.name = s.need(NAME, "the module's name")
            while s.accept(","):
                self._header_attribute(module)
            module.stack_frames = self._stack_frames()
        if s.at_end:
            raise s.error("expected a computation, found the end of the text")
        while not s.at_end:
            start = s.at
            found = s.match(_COMPUTATION)
            if found:
                computation = self._computation(found[2], start)
                if found[1] and entry is not None:
                    raise s.error(f"a second ENTRY; the first is {entry.name}", start)
                entry = computation if found[1] else entry
            elif not self.computations:
                entry = self._bare_instructions(start)
            else:
                raise s.expected("a computation, such as ENTRY main {")
        if entry is None and (header or len(self.computations) > 1):
            names = ", ".join(list(self.computations)[:5])
            raise s.error(f"no computation is marked ENTRY; write ENTRY in front of one of: {names}", 0)
        module.entry = entry or next(iter(self.computations.values()))
        if not header:
            module.name = module.entry.name
        self._link()
        module.computations = self._ordered()
        return module

    def _header_attribute(self, module: Module) -> None:
        s = self.scanner
        s.skip()
        start = s.at
        name = s.need(WORD, "the name of a header attribute")
        s.expect("=", f"behind {name}")
        if name in module.attributes or (name == "input_output_alias" and module.aliases):
            raise s.error(f"the header says {name} twice", start)
        if name == "input_output_alias":
            module.aliases = self._aliases()
        elif name == "entry_computation_layout":
            s.expect("{")
            parameters = self._shape_list("(", ")")
            s.expect("->")
            module.entry_layout = (parameters, self.shape())
            s.expect("}")
        else:
            module.attributes[name] = s.verbatim()

    def _aliases(self) -> tuple[Alias, ...]:
        s = self.scanner
        result: list[Alias] = []
        s.expect("{")
        while not s.accept("}"):
            if result:
                s.expect(",", "or '}'")
            output = self._integers()
            s.expect(":")
            s.expect("(")
            parameter, index, kind = s.integer("a parameter's number"), (), "may-alias"
            if s.accept(","):
                index = self._integers()
            if s.accept(","):
                kind = s.need(re.compile("may-alias|must-alias"), "may-alias or must-alias")
            s.expect(")")
            result.append(Alias(output, parameter, index, kind))
        return tuple(result)

    def _stack_frames(self) -> StackFrames | None:
        """The tables that metadata's stack_frame_id refers to; a row is its number, from 1 on, and its content."""
        s = self.scanner
        tables: dict[str, list[Any]] = {}
        while found := s.match(re.compile(r"(FileNames|FunctionNames|FileLocations|StackFrames)\b(?!\s*[({=])")):
            rows = tables.setdefault(found[1], [])
            while s.match(re.compile(r"\d+(?=\s*[\"{])")):
                s.skip()
                if s.text[s.at] == '"':
                    rows.append(s.string())
                else:
                    fields = dict(re.findall(r"(\w+)=(\d{1,9})(?!\d)", s.balanced()))
                    names = StackFrames.LOCATION if found[1] == "FileLocations" else StackFrames.FRAME
                    rows.append(tuple(int(fields.get(name, 0)) for name in names))
        if not tables:
            return None
        columns = [tuple(tables.get(t, ())) for t in ("FileNames", "FunctionNames", "FileLocations", "StackFrames")]
        for rows, kind in zip(columns, (str, str, tuple, tuple), strict=True):
            if not all(isinstance(row, kind) for row in rows):
                raise s.error("a row of the tables of stack frames is not of its table's form")
        return StackFrames(*columns)

    def _link(self) -> None:
        """Put computations in the place of their names."""
        for instruction, attribute, names, at in self.calls:
            for name in names:
                if name not in self.computations:
                    raise self.scanner.error(
                        f"{attribute} of {instruction.name} calls {name!r}, and no computation has this name"
                        + suggestion(name, self.computations),
                        at,
                    )
            called = tuple(self.computations[n] for n in names)
            single = self._kind(instruction.opcode, attribute) == kinds.COMPUTATION
            instruction.attributes[attribute] = called[0] if single else called

    def _ordered(self) -> list[Computation]:
        try:
            return order_computations(list(self.computations.values()))
        except InvalidProgramError as problem:
            raise self.scanner.error(str(problem), 0, InvalidProgramError) from None

    # -- computations

    def _computation(self, name: str, start: int) -> Computation:
        s = self.scanner
        if name in self.computations:
            raise s.error(f"a second computation is called {name}", start)
        signature = None
        if s.accept("("):
            parameters = []
            while not s.accept(")"):
                if parameters:
                    s.expect(",", "or ')'")
                s.need(NAME, "a parameter's name")
                s.expect(":")
                parameters.append(self.shape())
            s.expect("->")
            signature = (parameters, self.shape())
        s.expect("{", "and the instructions of the computation")
        computation = Computation(name, position=s.place(start))
        self._instructions(computation, "}")
        if signature:
            self._check_signature(computation, *signature, start)
        if s.accept(","):
            s.expect("execution_thread")
            s.expect("=")
            computation.execution_thread = s.string()
        return computation

    def _bare_instructions(self, start: int) -> Computation:
        computation = Computation("main", position=self.scanner.place(start))
        self._instructions(computation, None)
        return computation

    def _check_signature(self, computation: Computation, parameters: list[Shape], result: Shape, start: int) -> None:
        stated = [str(p.without_layout()) for p in parameters]
        actual = [str(p.shape.without_layout()) for p in computation.parameters]
        if stated != actual or not result.compatible(computation.root.shape):
            raise self.scanner.error(
                f"{computation.name} says ({', '.join(stated)}) -> {result.without_layout()}, and its instructions "
                f"({', '.join(actual)}) -> {computation.root.shape.without_layout()}",
                start,
                InvalidProgramError,
            )

    def _instructions(self, computation: Computation, end: str | None) -> None:
        s = self.scanner
        self.computations[computation.name] = computation
        names: dict[str, Instruction] = {}
        while not (s.at_end if end is None else s.accept(end)):
            head = s.match(_HEAD)
            if not head:
                what = "an instruction, such as %name = f32[] negate(%x)"
                raise s.expected(what + (f", or {end!r}" if end else ""))
            if head[2] in names:
                raise s.error(
                    f"{head[2]} is defined twice; it is first in line {names[head[2]].position.line} "
                    "(a text printed without ids does not say which one is meant: print it with ids)",
                    head.start(2),
                )
            instruction = self._instruction(head[2], head.start(2), names)
            names[instruction.name] = instruction
            computation.instructions.append(instruction)
            if head[1]:
                if computation.root is not None:
                    raise s.error(f"a second ROOT; the first is {computation.root.name}", head.start())
                computation.root = instruction
        if not computation.instructions:
            raise s.error(f"computation {computation.name} has no instructions")
        computation.root = computation.root or computation.instructions[-1]

    # -- instructions

    def _instruction(self, name: str, at: int, names: dict[str, Instruction]) -> Instruction:
        s = self.scanner
        self.defining = name
        s.skip()
        shape = self.shape() if _HAS_SHAPE.match(s.text, s.at) else None
        s.skip()
        opcode_at = s.at
        opcode = s.need(_OPCODE, "an opcode" if shape else "a shape and an opcode")
        if not grammar.is_opcode(opcode):
            raise s.error(f"HLO has no opcode {opcode!r}{suggestion(opcode, grammar.OPCODES)}", opcode_at)
        if shape is None:
            raise s.error("expected the shape of the result in front of the opcode", opcode_at)
        wrapped, suffix = asynchronous.split(opcode)
        instruction = Instruction(name, wrapped or opcode, shape, position=s.place(at))
        s.skip()
        if opcode == "parameter":
            s.expect("(")
            number_at = s.at
            instruction.attributes["number"] = s.integer("the number of the parameter")
            if not -(1 << 31) <= instruction.attributes["number"] < 1 << 31:
                raise s.error("a parameter's number has 32 bits", number_at)
            s.expect(")")
        elif opcode == "constant":
            instruction.attributes["literal"] = self._literal(shape)
        else:
            instruction.operands = self._operands(names)
        while s.accept(","):
            self._attribute(instruction, names)
        return self._asynchronous(instruction, suffix, opcode_at) if wrapped else instruction

    def _asynchronous(self, written: Instruction, suffix: str, at: int) -> Instruction:
        """What the short form of an asynchronous operation stands for."""
        try:
            return asynchronous.lengthen(written, suffix, self.computations)
        except InvalidProgramError as problem:
            raise self.scanner.error(str(problem), at, InvalidProgramError) from None

    def _literal(self, shape: Shape) -> Any:
        s = self.scanner
        s.skip()
        start = s.at
        text = s.balanced()[1:-1]
        again = _ARRAY.match(text.lstrip())  # older texts repeat the shape inside
        if again and again[1] in ELEMENT_TYPES:
            text = text.lstrip()[again.end() :]
        try:
            return parse_value(text, shape)
        except ParseError as problem:
            raise s.error(str(problem), start + 1) from None
        except InvalidProgramError as problem:
            raise InvalidProgramError(str(s.error(str(problem), start + 1)), problem.constraint) from None

    def _operands(self, names: dict[str, Instruction]) -> list[Instruction]:
        s = self.scanner
        plain = s.match(_PLAIN_OPERANDS)
        if plain:
            if not plain[1]:
                return []
            found = _OPERAND_SEPARATOR.split(plain[1])
            try:
                return [names[n[1:] if n[0] == "%" else n] for n in found]
            except KeyError:
                at = plain.start(1)
                for n in found:
                    at = s.text.index(n, at)
                    if n.lstrip("%") not in names:
                        raise self._undefined(n.lstrip("%"), at, names) from None
                    at += len(n)
        s.expect("(", "and the operands")
        result: list[Instruction] = []
        while not s.accept(")"):
            if result:
                s.expect(",", "or ')'")
            result.append(self._operand(names))
        return result

    def _operand(self, names: dict[str, Instruction]) -> Instruction:
        s = self.scanner
        s.skip()
        start = s.at
        shape = self.shape() if _HAS_SHAPE.match(s.text, s.at) else None
        s.skip()
        at = s.at
        name = s.need(NAME, "the name of an operand")
        if name not in names:
            raise self._undefined(name, at, names)
        operand = names[name]
        if shape is not None and not shape.compatible(operand.shape):
            raise s.error(
                f"{name} is {operand.shape.without_layout()}, and here {shape.without_layout()}",
                start,
                InvalidProgramError,
            )
        return operand

    def _undefined(self, name: str, at: int, names: dict[str, Instruction]) -> Error:
        s = self.scanner
        rest = s.text[at : s.text.find("\n}", at) if "\n}" in s.text[at:] else len(s.text)]
        if name == self.defining:
            return s.error(f"{name} depends on itself; no value can", at)
        later = re.search(rf"(?:^|[\s%]){re.escape(name)}\s*=", rest)
        if later:
            line = s.place(at + later.start() + 1).line
            return s.error(
                f"{name} is used before it is defined (in line {line}); an instruction stands behind its operands, "
                "and no value can depend on itself",
                at,
            )
        return s.error(f"no instruction of this computation is called {name!r}{suggestion(name, names)}", at)

    # -- attributes

    def _kind(self, opcode: str, name: str) -> str | None:
        declared = self.operations[opcode].attributes.get(name) if opcode in self.operations else None
        return declared.kind if declared else grammar.ATTRIBUTE_KINDS.get(name)

    def _attribute(self, i: Instruction, names: dict[str, Instruction]) -> None:
        s = self.scanner
        s.skip()
        start = s.at
        name = s.need(WORD, "the name of an attribute")
        s.expect("=", f"behind {name}")
        if name == "metadata":
            i.metadata = self._metadata()
        elif name == "sharding":
            i.sharding = s.balanced(in_line=True)
        elif name == "backend_config":
            i.backend_config = s.verbatim()
        elif name == "frontend_attributes":
            i.frontend_attributes = self.frontend_attributes()
        elif name == "control-predecessors":
            s.expect("{")
            while not s.accept("}"):
                if i.control_predecessors:
                    s.expect(",", "or '}'")
                i.control_predecessors.append(self._operand(names))
        elif name in i.attributes:
            raise s.error(f"{i.name} has the attribute {name} twice", start)
        else:
            kind = self._kind(i.opcode, name)
            if kind is None or name in ("literal", "number"):
                known = self.operations[i.opcode].attributes if i.opcode in self.operations else grammar.ATTRIBUTE_KINDS
                raise s.error(
                    f"{i.opcode} has no attribute {name!r}" + suggestion(name, [*known, *grammar.COMMON]), start
                )
            i.attributes[name] = None  # keeps its place among the others until computations are linked
            i.attributes[name] = self._value(kind, i, name)

    def _value(self, kind: str, i: Instruction, name: str) -> Any:
        """A value of a kind of `attributes.py`."""
        s = self.scanner
        if kind == kinds.INT:
            return s.integer()
        if kind == kinds.INTS:
            return self._integers()
        if kind == kinds.BOOL:
            return s.need(re.compile(r"(?:true|false)\b"), "true or false") == "true"
        if kind == kinds.FLOAT:
            return float(s.need(_FLOAT, "a number"))
        if kind == kinds.ENUM:
            return s.need(_ENUM, "a word")
        if kind == kinds.ENUMS:
            s.expect("{")
            words = []
            while not s.accept("}"):
                if words:
                    s.expect(",", "or '}'")
                words.append(s.need(_ENUM, "a word"))
            return tuple(words)
        if kind == kinds.STRING:
            return s.string()
        if kind == kinds.INT_LISTS:
            return self._integer_lists()
        if kind == kinds.GROUPS:
            return self._groups()
        if kind == kinds.SHAPE:
            return self.shape()
        if kind == kinds.SHAPES:
            return self._shape_list("{", "}")
        if kind in (kinds.COMPUTATION, kinds.COMPUTATIONS):
            return self._called(kind, i, name)
        if kind == kinds.WINDOW:
            return self._window()
        if kind == kinds.CONVOLUTION:
            return self._dim_labels()
        if kind == kinds.SLICES:
            return self._slices()
        if kind == kinds.PADDING:
            return self._padding()
        return s.verbatim()

    def _called(self, kind: str, i: Instruction, name: str) -> None:
        s = self.scanner
        s.skip()
        at, called = s.at, []
        if _BODY.match(s.text, s.at):
            called.append(self._nested(f"{i.name}.{name}"))
        elif s.accept("{"):  # (a single one may stand in braces, too)
            while not s.accept("}"):
                if called:
                    s.expect(",", "or '}'")
                s.skip()
                if _BODY.match(s.text, s.at):
                    called.append(self._nested(f"{i.name}.{name}.{len(called)}"))
                else:
                    called.append(s.need(NAME, "the name of a computation"))
        else:
            called.append(s.need(NAME, "the name of a computation"))
        if kind == kinds.COMPUTATION and len(called) != 1:
            raise s.error(f"{name} is one computation, and here are {len(called)}", at)
        self.calls.append((i, name, called, at))

    def _nested(self, name: str) -> str:
        """A computation written where it is called, in braces and without a name; gives the name it gets."""
        s = self.scanner
        while name in self.computations:
            name += ".1"
        self.nesting += 1
        if self.nesting > _DEEPEST:
            raise s.error(f"computations nest more than {_DEEPEST} levels deep")
        computation = Computation(name, position=s.place(s.at))
        s.expect("{")
        self._instructions(computation, "}")
        self.nesting -= 1
        return name

    def _integers(self) -> tuple[int, ...]:
        s = self.scanner
        found = s.match(_INTEGERS)
        if found is None:
            s.expect("{")
            result = []
            while not s.accept("}"):
                if result:
                    s.expect(",", "or '}'")
                result.append(s.integer())
            return tuple(result)
        if len(found[0]) > 20 and any(len(d.strip()) > 20 for d in found[1].split(",")):
            raise s.error("a number beyond 64 bits", found.start())
        return tuple(map(int, found[1].split(","))) if found[1] else ()

    def _integer_lists(self) -> tuple[tuple[int, ...], ...]:
        s = self.scanner
        s.expect("{")
        result: list[tuple[int, ...]] = []
        while not s.accept("}"):
            if result:
                s.expect(",", "or '}'")
            result.append(self._integers())
        return tuple(result)

    def _groups(self) -> ReplicaGroups:
        text = self.scanner.need(GROUPS, "replica groups such as {{0,1},{2,3}} or [2,2]<=[4]")
        try:
            return parse_groups(text)
        except ParseError as problem:
            raise self.scanner.error(str(problem), self.scanner.at - len(text)) from None

    def _window(self) -> tuple[WindowDimension, ...]:
        s = self.scanner
        s.skip()
        start = s.at
        s.expect("{")
        fields: dict[str, list[str]] = {}
        while not s.accept("}"):
            found = s.match(_WINDOW_FIELD)
            if not found:
                raise s.expected("size, stride, pad, lhs_dilate, rhs_dilate, rhs_reversal or '}'")
            fields[found[1]] = found[2].split("x")
        rank = len(fields.get("size", ()))
        try:
            if any(len(v) != rank for v in fields.values()):
                raise ValueError("not all fields of the window have as many dimensions as its size")
            columns = {
                "size": [int(v) for v in fields.get("size", ())],
                "stride": [int(v) for v in fields.get("stride", ["1"] * rank)],
                "pad": [tuple(map(int, v.split("_"))) for v in fields.get("pad", ["0_0"] * rank)],
                "lhs": [int(v) for v in fields.get("lhs_dilate", ["1"] * rank)],
                "rhs": [int(v) for v in fields.get("rhs_dilate", ["1"] * rank)],
                "reversal": [bool(int(v)) for v in fields.get("rhs_reversal", ["0"] * rank)],
            }
            return tuple(
                WindowDimension(size, stride, low, high, lhs, rhs, reversal)
                for size, stride, (low, high), lhs, rhs, reversal in zip(*columns.values(), strict=True)
            )
        except ValueError as problem:
            text = (
                str(problem) if "window" in str(problem) else "a field of the window is not of the form 3x3 or 1_1x0_2"
            )
            raise s.error(text, start) from None

    def _dim_labels(self) -> ConvolutionDimensions:
        s = self.scanner
        s.skip()
        start = s.at
        found = s.match(_DIM_LABELS)
        if not found:
            raise s.expected("dimension labels such as b01f_01io->b01f")
        rank = len(found[1]) - 2

        def find(labels: str, first: str, second: str) -> tuple[int, int, tuple[int, ...]]:
            wanted = sorted(first + second + "".join(map(str, range(rank))))
            if rank < 0 or rank > 10 or sorted(labels) != wanted:
                raise s.error(
                    f"{labels} does not have each of {first}, {second} and the {rank} spatial ones once", start
                )
            return labels.index(first), labels.index(second), tuple(labels.index(str(d)) for d in range(rank))

        return ConvolutionDimensions(*find(found[1], "b", "f"), *find(found[2], "i", "o"), *find(found[3], "b", "f"))

    def _slices(self) -> tuple[SliceDimension, ...]:
        s = self.scanner
        s.expect("{")
        result: list[SliceDimension] = []
        while not s.accept("}"):
            if result:
                s.expect(",", "or '}'")
            s.expect("[")
            start = s.integer()
            s.expect(":")
            limit = s.integer()
            result.append(SliceDimension(start, limit, s.integer() if s.accept(":") else 1))
            s.expect("]")
        return tuple(result)

    def _padding(self) -> tuple[PaddingDimension, ...]:
        s = self.scanner
        text = s.need(_PADDING, "padding such as 0_1x2_0_1")
        if max(map(len, re.findall(r"\d+", text)), default=0) > 19:
            raise s.error("a number beyond 64 bits", s.at - len(text))
        return tuple(PaddingDimension(*map(int, d.split("_"))) for d in text.split("x")) if text else ()

    def _metadata(self) -> Metadata:
        s = self.scanner
        named: dict[str, Any] = {}
        other: list[tuple[str, str]] = []
        s.expect("{")
        while not s.accept("}"):
            s.accept(",")
            name = s.need(WORD, "a field of metadata, or '}'")
            s.expect("=", f"behind {name}")
            if name in ("op_type", "op_name", "source_file"):
                named[name] = s.string()
            elif name == "source_line":
                named[name] = s.integer()
            else:
                other.append((name, s.verbatim()))
        return Metadata(**named, other=tuple(other))

    def frontend_attributes(self) -> tuple[tuple[str, str], ...]:
        """`{name="value",name={json}}`, as pairs."""
        s = self.scanner
        result: list[tuple[str, str]] = []
        s.expect("{")
        while not s.accept("}"):
            if result:
                s.expect(",", "or '}'")
            s.skip()
            quoted = s.text.startswith('"', s.at)
            name = s.string() if quoted else s.need(WORD, "the name of a frontend attribute")
            s.expect("=", f"behind {name}")
            s.skip()
            value = s.string() if STRING.match(s.text, s.at) else s.verbatim()
            result.append((name, value))
        return tuple(result)

    # -- shapes

    def _shape_list(self, opening: str, closing: str) -> tuple[Shape, ...]:
        s = self.scanner
        s.expect(opening)
        shapes: list[Shape] = []
        while not s.accept(closing):
            if shapes:
                s.expect(",", f"or {closing!r}")
            shapes.append(self.shape())
        return tuple(shapes)

    def shape(self, depth: int = 0) -> Shape:
        """A shape: `f32[2,<=3]{1,0}`, or shapes in parentheses, separated by commas."""
        s = self.scanner
        if depth > _DEEPEST:
            raise s.error(f"tuples nest more than {_DEEPEST} levels deep")
        if s.accept("("):
            elements: list[Shape] = []
            while not s.accept(")"):
                if elements:
                    s.expect(",", "or ')'")
                elements.append(self.shape(depth + 1))
            return Shape(TUPLE, elements=tuple(elements))
        found = s.match(_ARRAY)
        if not found:
            raise s.expected("a shape, such as f32[2,3]")
        known = self.shapes.get(found[0])
        if known is None:
            known = self.shapes[found[0]] = self._array_shape(found)
        return known

    def _array_shape(self, found: re.Match[str]) -> Shape:
        s = self.scanner
        at = found.start()
        element_type = ELEMENT_TYPES.get(found[1])
        if element_type is None or element_type is TUPLE:
            raise s.error(f"{found[1]!r} is no element type{suggestion(found[1], ELEMENT_TYPES)}", at)
        dimensions: list[int] = []
        dynamic: list[bool] = []
        for part in found[2].split(",") if found[2].strip() else ():
            number = _DIMENSION.fullmatch(part)
            if number is None:
                if part.strip() in ("?", "<=?"):
                    raise s.error("dimensions without a bound are not implemented here", at, UnsupportedError)
                raise s.error(f"{part.strip()[:30]!r} is no size of a dimension", at)
            dimensions.append(int(number[2]))
            dynamic.append(bool(number[1]))
        if dimensions and not element_type.is_array:
            raise s.error(f"{element_type} has no dimensions", at)
        layout = self._layout(found[3], len(dimensions), found.start(3)) if found[3] else None
        return Shape(element_type, tuple(dimensions), layout, tuple(dynamic) if any(dynamic) else ())

    def _layout(self, text: str, rank: int, at: int) -> Layout:
        found = _LAYOUT.fullmatch(text)
        order = tuple(map(int, found[1].split(","))) if found and found[1] else ()
        if found is None or sorted(order) != list(range(rank)):
            example = "{" + ",".join(map(str, reversed(range(rank)))) + "}"
            raise self.scanner.error(f"{text[:40]} is no layout of {rank} dimensions, such as {example}", at)
        return Layout(order, (found[2] or "").strip())


def parse_module(text: str) -> Module:
    """The Module that an HLO text stands for. Raises ParseError, and InvalidProgramError or UnsupportedError where the
    text already shows it; `verify.verify` checks the rest."""
    return Parser(text).module()
