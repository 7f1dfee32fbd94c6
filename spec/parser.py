"""From HLO text to a Module: the grammar, rule by rule, in the order in which a text goes.

    module       := "HloModule" name ":"? ("," header attribute)* tables? computation*
    computation  := "ENTRY"? name signature? "{" instruction* "}" ("," name "=" value)*
    signature    := "(" (name ":"? shape),* ")" "->" shape
    instruction  := "ROOT"? name "=" shape? opcode "(" operands ")" ("," name "=" value)*
    operands     := operand,*           of parameter: its number; of constant: a literal
    operand      := shape? name ("#" element)*  |  shape? opcode "(" operands ")"

Names may have a `%` in front. The blank between a name and `=` may be left out; XLA's lexer takes `x=` for the name of
an attribute and asks for it. Where no computation is marked ENTRY, the last one is it. A text without a header is one
computation, several, or the lines of one; in a single line, operands that are given by their shapes are parameters.

A shape that is not written is the one that the operation's own `infer` gives, where that follows from the operands.
An operand may be written where it is used: as an instruction without a name or attributes, or as an element of a tuple
(`x#1` is element 1 of x). What is printed states every shape and has a name for every instruction.
"""

from __future__ import annotations

import re
from typing import Any

from . import asynchronous, grammar
from . import attributes as kinds
from .errors import Error, InvalidProgramError, ParseError, UnsupportedError
from .leniency import DEFAULTS, unknown
from .lexer import INTEGER, NAME, WORD, suggestion
from .literals import parse_value
from .module import (
    Alias,
    Computation,
    Instruction,
    Module,
    StackFrames,
    order_computations,
)
from .operation import operations
from .scope import UNSTATED, Scope, inferred
from .types import ELEMENT_TYPES, Shape
from .values import ARRAY, DEEPEST, Values

# Blanks and comments between words; each can be read in one way only, so that nothing is tried twice.
_BLANKS = r"(?:\s|/\*(?:[^*]|\*(?!/))*\*/|//[^\n]*(?:\n|\Z))*"
_ALIAS_KIND = re.compile("may-alias|must-alias")
_HEAD = re.compile(rf"(ROOT\b{_BLANKS})?%?([\w.\-]+){_BLANKS}=")
_BODY = re.compile(r"\{\s*(?:ROOT\b\s*)?%?[\w.\-]+\s*=")
_HAS_SHAPE = re.compile(r"\(|[a-z]\w*\s*\[|b\(")
_OPERATION = re.compile(r"[a-z][a-z0-9\-]*(?=\s*\()")
_ELEMENT = re.compile(r"#\s*(\d{1,9})")
_OPCODE = re.compile(r"[a-z][a-z0-9\-]*")
_COMPUTATION = re.compile(rf"(ENTRY\b{_BLANKS})?%?([\w.\-]+){_BLANKS}(?=[({{])")
# Operands without shapes, the common case; everything else goes through `_operands`.
_PLAIN_OPERANDS = re.compile(r"\(\s*((?:%?[\w.\-]+\s*,\s*(?:/\*[\w=]*\*/\s*)?)*%?[\w.\-]+)?\s*\)")
_OPERAND_SEPARATOR = re.compile(r"\s*,\s*(?:/\*[\w=]*\*/\s*)?")
_INSTRUCTION = re.compile(r"^\s*(?:ROOT\s+)?%?[\w.\-]+\s*=\s*\(?[a-z]\w*\[[\d,]*\]", re.M)
_ENUM = re.compile(r"[A-Za-z0-9_][\w.\-]*")
_FLOAT = re.compile(r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|inf|nan)")


class Parser(Values):
    """Parses one text. `module()` is the start; the other public methods parse a part of the grammar on its own."""

    def __init__(self, text: str, elided: str | None = None) -> None:
        """`elided` says what takes the place of a constant `{...}` (`literals.filled`); None refuses it."""
        super().__init__(text, elided)
        self.computations: dict[str, Computation] = {}
        # Computations may be called before they are written: (instruction, attribute, names, offset of the first)
        self.calls: list[tuple[Instruction, str, list[str], int]] = []
        self.operations = operations()
        self.defining = ""  # the name of the instruction in which the scanner stands
        self.nesting = 0  # levels of computations and operands inside of which the scanner stands

    # -- module

    def module(self) -> Module:
        """The whole text."""
        s = self.scanner
        module = Module("module", source=s.text)
        entry: Computation | None = None
        header = s.match(re.compile(r"HloModule\b"))
        if header:
            module.name = s.need(NAME, "the module's name")
            s.accept(":")
            while s.accept(","):
                self._header_attribute(module)
            module.stack_frames = self._stack_frames()
        if s.at_end:
            raise s.error("expected a computation, found the end of the text")
        while not s.at_end:
            start = s.at
            match = s.match(_COMPUTATION)
            if match:
                computation = self._computation(match[2], start)
                if match[1] and entry is not None:
                    raise s.error(f"a second ENTRY; the first is {entry.name}", start)
                entry = computation if match[1] else entry
            elif not self.computations:
                entry = computation = self._bare_instructions(start)
            else:
                raise s.expected("a computation, such as ENTRY main {")
        module.entry = entry or computation
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
        s.expect("=", f"after {name}")
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
            value = s.verbatim()
            if name in grammar.HEADER_ATTRIBUTES:
                if name in grammar.HEADER_FLAGS and value not in ("true", "false"):
                    raise s.error(f"{name} is true or false, not {value[:40]}", start)
                if name in grammar.HEADER_COUNTS and not grammar.COUNT.fullmatch(value):
                    message = f"{name} is a number from 1 to 999999999, not {value[:40]}"
                    raise s.error(message, start, InvalidProgramError if INTEGER.fullmatch(value) else ParseError)
                module.attributes[name] = value
            else:
                hint = suggestion(name, grammar.HEADER_ATTRIBUTES)
                unknown(s.error(f"the header of a module has no attribute {name!r}{hint}", start), value in DEFAULTS)

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
            parameter = s.integer("a parameter's number")
            index = self._integers() if s.accept(",") else ()
            kind = s.need(_ALIAS_KIND, "may-alias or must-alias") if s.accept(",") else "may-alias"
            s.expect(")")
            result.append(Alias(output, parameter, index, kind))
        return tuple(result)

    def _stack_frames(self) -> StackFrames | None:
        """The tables that metadata's stack_frame_id refers to; a row is its number, from 1 on, and its content."""
        s = self.scanner
        tables: dict[str, list[Any]] = {}
        while match := s.match(re.compile(r"(FileNames|FunctionNames|FileLocations|StackFrames)\b(?!\s*[({=])")):
            rows = tables.setdefault(match[1], [])
            while s.match(re.compile(r"\d+(?=\s*[\"{])")):
                s.skip()
                if s.text[s.at] == '"':
                    rows.append(s.string())
                else:
                    fields = dict(re.findall(r"(\w+)=(\d{1,9})(?!\d)", s.balanced()))
                    names = StackFrames.LOCATION if match[1] == "FileLocations" else StackFrames.FRAME
                    row = tuple(int(fields.get(name, 0)) for name in names)
                    rows.append(row if match[1] == "FileLocations" else (row[0], max(0, row[1] - 1)))
        if not tables:
            return None
        columns = [tuple(tables.get(t, ())) for t in ("FileNames", "FunctionNames", "FileLocations", "StackFrames")]
        for column, kind in zip(columns, (str, str, tuple, tuple), strict=True):
            if not all(isinstance(row, kind) for row in column):
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
        def error(message: str, call: Instruction) -> Error:
            at = self.scanner.offset(call.position) if call.position else 0
            return self.scanner.error(message, at, InvalidProgramError)

        return order_computations(list(self.computations.values()), error)

    # -- computations

    def _computation(self, name: str, start: int) -> Computation:
        s = self.scanner
        if name in self.computations:
            raise s.error(f"a second computation is called {name}", start)
        signature = None
        if s.accept("("):
            parameters: list[Shape] = []
            while not s.accept(")"):
                if parameters:
                    s.expect(",", "or ')'")
                s.need(NAME, "a parameter's name")
                s.accept(":")
                parameters.append(self.shape())
            s.expect("->")
            signature = (parameters, self.shape())
        s.expect("{", "and the instructions of the computation")
        computation = Computation(name, position=s.place(start))
        self._instructions(computation, "}")
        if signature:
            self._check_signature(computation, *signature, start)
        while s.accept(","):
            s.skip()
            at = s.at
            attribute = s.need(WORD, "execution_thread or backend_config")
            s.expect("=", f"after {attribute}")
            if attribute == "execution_thread":
                computation.execution_thread = s.string()
            elif attribute == "backend_config":
                computation.backend_config = s.verbatim()
            else:
                says_nothing = s.verbatim() in DEFAULTS
                unknown(s.error(f"the computation {name} has no attribute {attribute!r}", at), says_nothing)
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
        scope = Scope(computation, single=end is None)
        names = scope.names
        while not (s.at_end if end is None else s.accept(end)):
            head = s.match(_HEAD)
            if not head:
                what = "an instruction, such as %name = f32[] negate(%x)"
                if scope.single and not names:
                    what = f"HLO, which begins with HloModule NAME, or with {what}"
                if end and s.at_end:
                    place = f" of line {computation.position.line}" if computation.position else ""
                    raise s.error(f"the text ends within the computation {computation.name}{place}: {end!r} is missing")
                raise s.expected(what + (f", or {end!r}" if end else ""))
            if scope.missing is not None:  # what one line may leave out, several may not
                raise scope.missing
            if head[2] in names:
                first = names[head[2]].position
                raise s.error(
                    f"{head[2]} is defined twice; it is first in line {first.line if first else '?'} "
                    "(a text printed without ids does not say which one is meant: print it with ids)",
                    head.start(2),
                )
            instruction = self._instruction(head[2], head.start(2), scope)
            names[instruction.name] = instruction
            computation.instructions.append(instruction)
            scope.single = False
            if head[1]:
                if computation.root is not None:
                    raise s.error(f"a second ROOT; the first is {computation.root.name}", head.start())
                computation.root = instruction
        if not computation.instructions:
            raise s.error(f"computation {computation.name} has no instructions")
        computation.root = computation.root or computation.instructions[-1]
        scope.name_the_rest()

    # -- instructions

    def _instruction(self, name: str, at: int, scope: Scope) -> Instruction:
        """What stands after the name of an instruction and its `=`."""
        s = self.scanner
        self.defining = name
        first_call = len(self.calls)
        instruction, suffix, opcode_at = self._operation(name, at, scope)
        while s.accept(","):
            self._attribute(instruction, scope.names)
        return self._completed(instruction, suffix, opcode_at, first_call)

    def _operation(self, name: str, at: int, scope: Scope) -> tuple[Instruction, str, int]:
        """Shape, opcode and operands; with them the suffix of a short asynchronous form, and where the opcode is. An
        instruction whose shape is not written has UNSTATED."""
        s = self.scanner
        s.skip()
        shape = self.shape() if _HAS_SHAPE.match(s.text, s.at) else None
        s.skip()
        opcode_at = s.at
        if shape and s.text.startswith("{", s.at):
            raise s.error("expected an opcode, or a layout such as {1,0}: what begins here is none")
        opcode = s.need(_OPCODE, "an opcode" if shape else "a shape and an opcode")
        if not grammar.is_opcode(opcode):
            raise s.error(f"HLO has no opcode {opcode!r}{suggestion(opcode, grammar.OPCODES)}", opcode_at)
        wrapped, suffix = asynchronous.split(opcode)
        if shape is None and (wrapped or opcode in grammar.STATED):
            raise s.error(
                "expected the shape of the result in front of the opcode: it does not follow from the operands of "
                f"{opcode}",
                opcode_at,
            )
        instruction = Instruction(name, wrapped or opcode, shape or UNSTATED, position=s.place(at))
        s.skip()
        if opcode == "parameter":
            s.expect("(")
            number_at = s.at
            instruction.attributes["number"] = s.integer("the number of the parameter")
            if not -(1 << 31) <= instruction.attributes["number"] < 1 << 31:
                raise s.error("a parameter's number is a signed integer of 32 bits", number_at)
            s.expect(")")
        elif opcode == "constant":
            instruction.attributes["literal"] = self._literal(instruction.shape)
        else:
            instruction.operands = self._operands(scope)
        return instruction, suffix, opcode_at

    def _completed(self, instruction: Instruction, suffix: str, at: int, first_call: int) -> Instruction:
        """An instruction that has been read, with what its text leaves to be worked out."""
        if instruction.shape is UNSTATED:
            self._infer(instruction, at, self.calls[first_call:])
        return self._asynchronous(instruction, suffix, at) if suffix else instruction

    def _infer(self, i: Instruction, at: int, calls: list[tuple[Instruction, str, list[str], int]]) -> None:
        """Give an instruction the shape that its operation infers from its operands."""
        for instruction, attribute, names, place in calls:
            computations = [self.computations.get(name) for name in names]
            if any(c is None or c.root is None for c in computations):
                raise self.scanner.error(
                    f"the shape of {i.name} follows from {names[0]}, which is not written before it: "
                    "write it first, or the shape in front of the opcode",
                    place,
                )
            single = self._kind(instruction.opcode, attribute) == kinds.COMPUTATION
            instruction.attributes[attribute] = computations[0] if single else tuple(computations)
        try:
            i.shape = inferred(i)
        except InvalidProgramError as problem:
            raise InvalidProgramError(str(self.scanner.error(str(problem), at)), problem.constraint) from None

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
        again = ARRAY.match(text.lstrip())  # older texts repeat the shape inside
        if again and again[1] in ELEMENT_TYPES:
            text = text.lstrip()[again.end() :]
        try:
            value = parse_value(text, shape, self.elided)
        except ParseError as problem:
            raise s.error(str(problem), start + 1) from None
        except InvalidProgramError as problem:
            raise InvalidProgramError(str(s.error(str(problem), start + 1)), problem.constraint) from None
        self._note_elided(text, start)
        return value

    def _operands(self, scope: Scope) -> list[Instruction]:
        s, names = self.scanner, scope.names
        plain = s.match(_PLAIN_OPERANDS)
        if plain:
            if not plain[1]:
                return []
            words = _OPERAND_SEPARATOR.split(plain[1])
            try:
                return [names[n[1:] if n[0] == "%" else n] for n in words]
            except KeyError:
                at = plain.start(1)
                for n in words:
                    at = s.text.index(n, at)
                    if n.lstrip("%") not in names:
                        raise self._undefined(n.lstrip("%"), at, names) from None
                    at += len(n)
        s.expect("(", "and the operands")
        result: list[Instruction] = []
        while not s.accept(")"):
            if result:
                s.expect(",", "or ')'")
            result.append(self._operand(scope))
        return result

    def _operand(self, scope: Scope) -> Instruction:
        """One operand: the name of an instruction, an element of it, or an instruction that is written in place."""
        s, names = self.scanner, scope.names
        s.skip()
        start = s.at
        shape = self.shape() if _HAS_SHAPE.match(s.text, s.at) else None
        s.skip()
        at = s.at
        if _OPERATION.match(s.text, at):
            s.at = start
            return self._written_in_place(scope)
        match = s.match(NAME)
        name = match[1] if match else ""
        if name not in names:
            if shape is None or not scope.single:
                raise self._undefined(name, at, names) if match else s.expected("the name of an operand")
            scope.missing = scope.missing or (
                self._undefined(name, at, names) if match else s.error("expected the name of an operand", at)
            )
            return scope.parameter(name, shape, s.place(at))
        operand = names[name]
        while element := s.match(_ELEMENT):
            n = int(element[1])
            if n >= len(operand.shape.elements):
                raise s.error(f"{operand.name} of shape {operand.shape.without_layout()} has no element {n}", at)
            operand = scope.element(operand, n, s.place(at))
        if shape is not None and not shape.compatible(operand.shape):
            raise s.error(
                f"{name} is {operand.shape.without_layout()}, and here {shape.without_layout()}",
                start,
                InvalidProgramError,
            )
        return operand

    def _written_in_place(self, scope: Scope) -> Instruction:
        """An operand that is an instruction itself; it has no attributes, for a comma would be the next operand's."""
        s = self.scanner
        self.nesting += 1
        if self.nesting > DEEPEST:
            raise s.error(f"operands nest more than {DEEPEST} levels deep")
        first_call = len(self.calls)
        instruction, suffix, opcode_at = self._operation("", s.at, scope)
        instruction.name = f"{instruction.opcode}.anon"
        scope.add(self._completed(instruction, suffix, opcode_at, first_call))
        self.nesting -= 1
        return scope.computation.instructions[-1]

    def _undefined(self, name: str, at: int, names: dict[str, Instruction]) -> Error:
        s = self.scanner
        rest = s.text[at : s.text.find("\n}", at) if "\n}" in s.text[at:] else len(s.text)]
        if name == self.defining:
            return s.error(f"{name} depends on itself; no value can", at)
        later = re.search(rf"(?:^|[\s%]){re.escape(name)}\s*=", rest)
        if later:
            line = s.place(at + later.start() + 1).line
            return s.error(
                f"{name} is used before it is defined (in line {line}); an instruction stands after its operands, "
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
        s.expect("=", f"after {name}")
        if name == "metadata":
            i.metadata = self.metadata()
        elif name == "sharding":
            i.sharding = s.balanced(without=_INSTRUCTION)
        elif name == "backend_config":
            i.backend_config = s.verbatim()
        elif name == "frontend_attributes":
            i.frontend_attributes = self.frontend_attributes()
        elif name == "control-predecessors":
            s.expect("{")
            while not s.accept("}"):
                if i.control_predecessors:
                    s.expect(",", "or '}'")
                name_at = s.at
                name = s.need(NAME, "the name of an instruction")
                if name not in names:
                    raise self._undefined(name, name_at, names)
                i.control_predecessors.append(names[name])
        elif name in i.attributes:
            raise s.error(f"{i.name} has the attribute {name} twice", start)
        elif name in grammar.LEFT_OUT:
            raise s.error(f"{i.name}: {name} of {i.opcode}: {grammar.LEFT_OUT[name]}", start, UnsupportedError)
        else:
            kind = self._kind(i.opcode, name)
            if kind is None or name == "number" or (name == "literal" and i.opcode == "constant"):
                self._unknown(i, name, start)
                return
            i.attributes[name] = None  # keeps its place among the others until computations are linked
            i.attributes[name] = self._value(kind, i, name)

    def _unknown(self, i: Instruction, name: str, start: int) -> None:
        """An attribute that is not known here: an error, or where it says nothing a warning; see leniency.py."""
        s = self.scanner
        attributes = self.operations[i.opcode].attributes if i.opcode in self.operations else grammar.ATTRIBUTE_KINDS
        hint = suggestion(name, [*attributes, *grammar.COMMON])
        says_nothing = s.verbatim() in DEFAULTS
        unknown(s.error(f"{i.name}: {i.opcode} has no attribute {name!r}{hint}", start), says_nothing)

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
            return self._word(i, name)
        if kind == kinds.ENUMS:
            s.expect("{")
            words: list[str] = []
            while not s.accept("}"):
                if words:
                    s.expect(",", "or '}'")
                words.append(self._word(i, name))
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
        if kind == kinds.LITERAL:
            return self._shaped_literal()
        return s.verbatim()

    def _word(self, i: Instruction, name: str) -> str:
        """A word, in small letters where XLA takes it in any."""
        word = self.scanner.need(_ENUM, "a word")
        return word.lower() if name in grammar.ANY_CASE and i.opcode != "rng-bit-generator" else word

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
        if self.nesting > DEEPEST:
            raise s.error(f"computations nest more than {DEEPEST} levels deep")
        computation = Computation(name, position=s.place(s.at))
        s.expect("{")
        self._instructions(computation, "}")
        self.nesting -= 1
        return name
