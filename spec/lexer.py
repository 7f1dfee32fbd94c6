"""The lexical level of HLO text: a scanner over the text, and how a place in a text is shown to a person.

The scanner holds a position and matches regular expressions there; blanks and comments (`/* */` and `//`) may stand
before each match. There is no list of tokens: what a token is depends on where it stands (`2x3` is a window's size,
`b01f` a label, `{...}` a layout, a literal, a set of attributes), so each rule of the grammar has its own expression.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from difflib import get_close_matches
from functools import cached_property

from .errors import Error, ParseError
from .module import Position

SKIP = re.compile(r"(?:\s+|/\*.*?\*/|//[^\n]*)*", re.S)
STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.S)
NAME = re.compile(r"%?([\w.\-]+)")
WORD = re.compile(r"[A-Za-z_][\w.\-]*")
_SHOWN = re.compile(r"[\w.\-%]+|.", re.S)  # what an error says stands there
INTEGER = re.compile(r"-?\d+(?![\w.])")
# What matters when looking for a closing brace; strings and comments are stepped over as wholes.
_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*"|/\*.*?\*/|[(){}\[\]]', re.S)
_CLOSING = {"(": ")", "{": "}", "[": "]"}
_WIDTH = 120  # columns of a line shown in an error


def excerpt(text: str, position: Position) -> str:
    """The line of `text` at `position` with a caret under the column; of a long line, the part around it."""
    lines = text.split("\n", position.line)
    line = lines[position.line - 1].rstrip("\r") if position.line <= len(lines) else ""
    start = max(0, position.column - 1 - _WIDTH // 2) if len(line) > _WIDTH else 0
    shown = line[start : start + _WIDTH]
    before, after = "..." if start else "", "..." if start + _WIDTH < len(line) else ""
    lead = re.sub(r"[^\t]", " ", shown[: position.column - 1 - start])
    return f"    {before}{shown}{after}\n    {' ' * len(before)}{lead}^"


def suggestion(word: str, words: Iterable[str]) -> str:
    """'; did you mean ...?' for the known words that begin so, if there are one or two, or else for the nearest; or
    nothing."""
    known = list(words)
    near = [w for w in known if len(word) > 1 and w.startswith(word)]
    if not 1 <= len(near) <= 2:
        near = get_close_matches(word, known, n=1, cutoff=0.6)
    return f"; did you mean {' or '.join(map(repr, near))}?" if near else ""


class Scanner:
    """A text and a position in it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    @cached_property
    def _line_starts(self) -> list[int]:
        return [0, *(m.end() for m in re.finditer("\n", self.text))]

    def place(self, at: int) -> Position:
        """Line and column of an offset into the text."""
        line = bisect_right(self._line_starts, at)
        return Position(line, at - self._line_starts[line - 1] + 1)

    def offset(self, place: Position) -> int:
        """The offset into the text of a line and column."""
        return self._line_starts[place.line - 1] + place.column - 1

    def error(self, message: str, at: int | None = None, kind: type[Error] = ParseError) -> Error:
        """An error at an offset (by default where the next token starts), to be raised by the caller."""
        if at is None:
            self.skip()
            at = self.at
        where = self.place(min(at, len(self.text.rstrip())))  # at the end of the text, behind what stands last
        full = f"line {where.line}, column {where.column}: {message}\n{excerpt(self.text, where)}"
        return ParseError(full, where.line, where.column) if kind is ParseError else kind(full)

    def expected(self, what: str) -> Error:
        """The error that something else stands here than `what`."""
        self.skip()
        match = _SHOWN.match(self.text, self.at)
        shown = repr(match[0][:40]) if match else "the end of the text"
        return self.error(f"expected {what}, found {shown}")

    def skip(self) -> None:
        """Step over blanks and comments."""
        if blanks := SKIP.match(self.text, self.at):  # as it always does
            self.at = blanks.end()

    @property
    def at_end(self) -> bool:
        self.skip()
        return self.at == len(self.text)

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Match a pattern after blanks and comments, and step over it; None (and no step over it) if it does not."""
        self.skip()
        match = pattern.match(self.text, self.at)
        if match:
            self.at = match.end()
        return match

    def accept(self, literal: str) -> bool:
        """Step over `literal` if it stands here."""
        self.skip()
        if self.text.startswith(literal, self.at):
            self.at += len(literal)
            return True
        return False

    def expect(self, literal: str, context: str = "") -> None:
        """Step over `literal`, or raise ParseError."""
        if not self.accept(literal):
            raise self.expected(repr(literal) + (f" {context}" if context else ""))

    def need(self, pattern: re.Pattern[str], what: str) -> str:
        """The text that `pattern` matches here (its first group if it has one), or ParseError that expects `what`."""
        match = self.match(pattern)
        if not match:
            raise self.expected(what)
        return match.group(match.lastindex or 0)

    def integer(self, what: str = "an integer") -> int:
        digits = self.need(INTEGER, what)
        if len(digits) > 20:
            raise self.error(f"{digits[:20]}... is beyond 64 bits", self.at - len(digits))
        return int(digits)

    def string(self) -> str:
        """A quoted string, without its quotes and with its escapes resolved."""
        self.skip()
        if self.text.startswith('"', self.at) and not STRING.match(self.text, self.at):
            raise self.error("the string that begins here has no closing quote")
        return unescape(self.need(STRING, 'a string in "quotes"'))

    def balanced(self, without: re.Pattern[str] | None = None) -> str:
        """A text in brackets of any kind, brackets included, verbatim. What `without` matches cannot be in it: where it
        is, a bracket was forgotten before."""
        self.skip()
        start = self.at
        if self.text[start : start + 1] not in _CLOSING or start == len(self.text):
            raise self.expected("'{'")
        waiting: list[tuple[str, int]] = []
        for match in _BRACKETS.finditer(self.text, start):
            bracket = match.group()
            if bracket in _CLOSING:
                waiting.append((_CLOSING[bracket], match.start()))
            elif len(bracket) == 1:
                due, opened = waiting.pop()
                if bracket != due:
                    place = self.place(opened)
                    where = f"of line {place.line}, column {place.column}"
                    what = f"expected {due!r}, to close {self.text[opened]!r} {where}, found {bracket!r}"
                    raise self.error(what, match.start())
                if not waiting:
                    if without and without.search(self.text, start, match.end()):
                        break
                    self.at = match.end()
                    return self.text[start : self.at]
        raise self.error(f"{self.text[start]!r} is never closed", start)

    _BARE = re.compile(r"[^\s,(){}\[\]\"]+")

    def verbatim(self) -> str:
        """A value of an unknown kind: words, strings and bracketed texts that follow each other without blanks.

        (One form has a blank inside: `mesh['x'=2] {'x'}`.)
        """
        self.skip()
        start = self.at
        while self.at < len(self.text):
            if self.text[self.at] in _CLOSING:
                self.balanced()
            elif match := STRING.match(self.text, self.at) or self._BARE.match(self.text, self.at):
                self.at = match.end()
            elif self.text.startswith("mesh[", start) and self.text.startswith(" {", self.at):
                self.balanced()
            else:
                break
        if self.at == start:
            raise self.expected("a value")
        return self.text[start : self.at]


_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_ESCAPE = re.compile(rb"\\(?:([0-7]{1,3})|[xX]([0-9a-fA-F]{1,2})|(.))", re.S)


def unescape(quoted: str) -> str:
    """The string that a quoted text with C's escapes stands for (escapes denote the bytes of UTF-8)."""
    inner = quoted[1:-1]
    if "\\" not in inner:
        return inner

    def byte(match: re.Match[bytes]) -> bytes:
        octal, hexadecimal, letter = match.groups()
        if octal:
            return bytes([int(octal, 8) & 255])
        if hexadecimal:
            return bytes([int(hexadecimal, 16)])
        return _ESCAPES.get(letter.decode("latin-1"), letter.decode("latin-1")).encode("latin-1")

    return _ESCAPE.sub(byte, inner.encode("utf-8", "surrogateescape")).decode("utf-8", "surrogateescape")


def escape(string: str) -> str:
    """A string as quoted text with C's escapes; what is not printable ASCII is written as octal bytes."""
    escapes = {10: "\\n", 13: "\\r", 9: "\\t", 34: '\\"', 39: "\\'", 92: "\\\\"}
    if string.isascii() and string.isprintable() and not any(c in string for c in "\"'\\"):
        return f'"{string}"'
    return (
        '"'
        + "".join(
            escapes.get(b) or (chr(b) if 32 <= b < 127 else f"\\{b:03o}")
            for b in string.encode("utf-8", "surrogateescape")
        )
        + '"'
    )
