"""The parts of a text that say something by themselves: shapes, and the values of attributes."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from .errors import Error, InputError, ParseError, UnsupportedError, plural
from .grammar import ELISIONS
from .groups import GROUPS, ReplicaGroups, parse_groups
from .left_out import reason
from .lexer import STRING, WORD, Scanner, suggestion
from .literals import parse_value
from .module import ConvolutionDimensions, Metadata, PaddingDimension, SliceDimension, WindowDimension
from .types import ELEMENT_TYPES, TUPLE, Layout, Shape

_SCALAR = re.compile(r"[-+\w.]+")
_BUFFER = re.compile(r"b\(")
ARRAY = re.compile(r"([a-z]\w*)\s*\[([^\[\]{}()]*)\](\{(?=(?:\s|/\*.*?\*/)*[\d:}])[^{}\"]*(?:\{[^{}]*\}[^{}]*)*\})?")
_UNCLOSED = re.compile(r"[a-z]\w*\s*\[")  # where ARRAY does not match
_DIMENSION = re.compile(r"\s*(<=)?\s*(\d{1,19})\s*")
_LAYOUT = re.compile(r"\{\s*((?:\d+\s*,\s*)*\d+)?\s*(?::(.*))?\}", re.S)
_LAYOUT_APART = re.compile(r"\{(?=(?:\s|/\*.*?\*/)*\d)[^{}\"=]*\}")  # after blanks
_COMMENT = re.compile(r"/\*.*?\*/", re.S)
_INTEGERS = re.compile(r"\{\s*((?:-?\d+\s*,\s*)*-?\d+)?\s*,?\s*\}")
_WINDOW_FIELD = re.compile(r"(size|stride|pad|lhs_dilate|rhs_dilate|rhs_reversal)\s*=\s*([-\dx_]+)")
_DIM_LABELS = re.compile(r"([0-9a-z?]+)_([0-9a-z?]+)->([0-9a-z?]+)")
_PADDING = re.compile(r"(?:-?\d+_-?\d+(?:_-?\d+)?)(?:x-?\d+_-?\d+(?:_-?\d+)?)*|(?=,|\Z|\}|(?:ROOT\s+)?%?[\w.\-]+\s*=)")
DEEPEST = 100  # levels of nesting of tuples


class Values:
    """Reads them from one text, each method from where the scanner stands."""

    def __init__(self, text: str, elided: str | None = None) -> None:
        """`elided` says what takes the place of a constant `{...}` (one of `grammar.ELISIONS`); None refuses it."""
        if elided is not None and elided not in ELISIONS:
            raise InputError(f"elided={elided!r} is not known: elided values become {' or '.join(map(repr, ELISIONS))}")
        self.scanner = Scanner(text)
        self.elided = elided
        self.made_up: list[int] = []  # the offsets of values that stand in the place of elided ones
        self.shapes: dict[str, Shape] = {}  # array shapes already read, by their text
        self.literal_follows = False  # whether braces after a shape are its value, and no layout

    def _integers(self) -> tuple[int, ...]:
        s = self.scanner
        match = s.match(_INTEGERS)
        if match is None:
            s.expect("{")
            result: list[int] = []
            while not s.accept("}"):
                if result:
                    s.expect(",", "or '}'")
                result.append(s.integer())
            return tuple(result)
        if len(match[0]) > 20 and any(len(d.strip()) > 20 for d in match[1].split(",")):
            raise s.error("a number beyond 64 bits", match.start())
        return tuple(map(int, match[1].split(","))) if match[1] else ()

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
            match = s.match(_WINDOW_FIELD)
            if not match:
                raise s.expected("size, stride, pad, lhs_dilate, rhs_dilate, rhs_reversal or '}'")
            fields[match[1]] = match[2].split("x")
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
        match = s.match(_DIM_LABELS)
        if not match:
            raise s.expected("dimension labels such as b01f_01io->b01f")
        rank = len(match[1].replace("?", "")) - 2

        def find(labels: str, first: str, second: str) -> tuple[int, int, tuple[int, ...]]:
            letters = sorted(first + second + "".join(map(str, range(rank))))
            if rank < 0 or rank > 10 or sorted(labels.replace("?", "")) != letters:
                raise s.error(
                    f"{labels} does not have each of {first}, {second} and the {rank} spatial ones once", start
                )
            return labels.index(first), labels.index(second), tuple(labels.index(str(d)) for d in range(rank))

        return ConvolutionDimensions(*find(match[1], "b", "f"), *find(match[2], "i", "o"), *find(match[3], "b", "f"))

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

    def metadata(self) -> Metadata:
        """`{op_name="..." source_line=3}`; its fields are separated by blanks or commas."""
        s = self.scanner
        fields: dict[str, Any] = {}
        other: list[tuple[str, str]] = []
        s.expect("{")
        while not s.accept("}"):
            s.accept(",")
            name = s.need(WORD, "a field of metadata, or '}'")
            s.expect("=", f"after {name}")
            if name in ("op_type", "op_name", "source_file"):
                fields[name] = s.string()
            elif name == "source_line":
                fields[name] = s.integer()
            else:
                other.append((name, s.verbatim()))
        return Metadata(**fields, other=tuple(other))

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
            s.expect("=", f"after {name}")
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
        if depth > DEEPEST:
            raise s.error(f"tuples nest more than {DEEPEST} levels deep")
        if s.accept("("):
            elements: list[Shape] = []
            while not s.accept(")"):
                if elements:
                    s.expect(",", "or ')'")
                elements.append(self.shape(depth + 1))
            return Shape(TUPLE, elements=tuple(elements))
        match = s.match(ARRAY)
        if not match:
            if s.match(_BUFFER):
                raise s.error(f"buffers are not specified here: {reason('buffer')}", kind=UnsupportedError)
            if opened := _UNCLOSED.match(s.text, s.at):
                raise s.error("']' is missing after the dimensions that begin here", opened.end() - 1)
            raise s.expected("a shape, such as f32[2,3]")
        shape = self.shapes.get(match[0])
        if shape is None:
            shape = self.shapes[match[0]] = self._array_shape(match)
        if not match[3] and not self.literal_follows and (apart := s.match(_LAYOUT_APART)):
            return replace(shape, layout=self._layout(apart[0], shape.rank, apart.start()))
        return shape

    def _array_shape(self, match: re.Match[str]) -> Shape:
        s = self.scanner
        at = match.start()
        element_type = ELEMENT_TYPES.get(match[1])
        if element_type is None or element_type is TUPLE:
            raise s.error(f"{match[1]!r} is no element type{suggestion(match[1], ELEMENT_TYPES)}", at)
        dimensions: list[int] = []
        dynamic: list[bool] = []
        sizes = _COMMENT.sub("", match[2])
        for part in sizes.split(",") if sizes.strip() else ():
            number = _DIMENSION.fullmatch(part)
            if number is None:
                if part.strip() in ("?", "<=?"):
                    message = "dimensions without a bound are not implemented here; state the size, or a bound (<=16)"
                    raise s.error(message, at, UnsupportedError)
                raise s.error(f"{part.strip()[:30]!r} is no size of a dimension", at)
            dimensions.append(int(number[2]))
            dynamic.append(bool(number[1]))
        if dimensions and not element_type.is_array:
            raise s.error(f"{element_type} has no dimensions", at)
        layout = self._layout(match[3], len(dimensions), match.start(3)) if match[3] else None
        return Shape(element_type, tuple(dimensions), layout, tuple(dynamic) if any(dynamic) else ())

    def _layout(self, text: str, rank: int, at: int) -> Layout | None:
        """A layout in braces; None for a scalar's that says nothing, which XLA neither prints nor reads."""
        match = _LAYOUT.fullmatch(_COMMENT.sub("", text))
        order = tuple(map(int, match[1].split(","))) if match and match[1] else ()
        if match is None or sorted(order) != list(range(rank)):
            example = "{" + ",".join(map(str, reversed(range(rank)))) + "}"
            shown = text.split("\n")[0][:40]
            raise self.scanner.error(f"{shown} is no layout of {plural(rank, 'dimension')}, such as {example}", at)
        rest = (match[2] or "").strip()
        return Layout(order, rest) if rank or rest else None

    def _shaped_literal(self) -> Any:
        """A literal after its shape, `s32[2]{0} {1, 2}`; of a tuple, one for each element in parentheses."""
        s = self.scanner
        if s.accept("("):
            elements: list[Any] = []
            while not s.accept(")"):
                if elements:
                    s.expect(",", "or ')'")
                elements.append(self._shaped_literal())
            return tuple(elements)
        self.literal_follows = True
        shape = self.shape()
        self.literal_follows = False
        s.skip()
        start = s.at
        text = s.balanced() if s.text.startswith(("{", "("), start) else s.need(_SCALAR, "a value")
        try:
            value = parse_value(text, shape, self.elided)
        except Error as problem:
            raise s.error(str(problem), start, type(problem)) from None
        self._note_elided(text, start)
        return value

    def _note_elided(self, text: str, at: int) -> None:
        """Note that a value was made up for a literal at this offset, if its text has dots."""
        if self.elided is not None and "..." in text:
            self.made_up.append(at)
