"""The HLO text: `parse` and `print_module`, and the same for parts of a text.

The lexical level stands in lexer.py, the grammar in parser.py, the other direction in printer.py, values in
literals.py.
"""

from __future__ import annotations

import warnings

from .errors import Error
from .leniency import is_lenient, lenient_reading
from .literals import format_value, parse_value
from .module import Module
from .parser import Parser
from .printer import format_computation, format_instruction, print_module
from .types import Shape, Value

__all__ = [
    "format_computation",
    "format_instruction",
    "format_literal",
    "parse",
    "parse_literal",
    "parse_shape",
    "print_module",
]

MADE_UP = {"zeros": "zeros are taken", "random": "random numbers are taken"}  # for elided values


def parse(text: str, lenient: bool = False, *, elided: str | None = None) -> Module:
    """The Module that an HLO text stands for: a whole module, one computation, or the lines of one.

    An attribute that is not known here is an error; with `lenient` a warning, if its value is a default (leniency.py).

    Dumps shorten large constants to `{...}`: `elided` says what takes their place ("zeros" or "random", the same
    numbers for the same shape at each reading), with a warning at each reading that says how many they are and in which
    lines, or None that such a text is refused.

    Raises ParseError with line, column and a caret for what breaks the grammar, InvalidProgramError or UnsupportedError
    for what the text already shows to break a rule or to be unknown here; InputError for another word as `elided`.
    `verify.verify` checks all other rules.
    """
    with lenient_reading(lenient or is_lenient()):
        parser = Parser(text, elided)
        module = parser.module()
    if elided is not None and parser.made_up:
        lines = sorted({parser.scanner.place(at).line for at in parser.made_up})
        count = "a constant" if len(parser.made_up) == 1 else f"{len(parser.made_up)} constants"
        shown = ", ".join([*map(str, lines[:5]), *(["..."] if len(lines) > 5 else [])])
        message = f"{module.name}: {count}, left out of the text as {{...}} (line {shown}): {MADE_UP[elided]}"
        # Without a registry, so that a second program with the same message is warned of, too.
        warnings.warn_explicit(message, UserWarning, module.name, lines[0], module=__name__)
    return module


def parse_shape(text: str) -> Shape:
    """The shape that a text such as `f32[2,3]{1,0}` or `(f32[], s32[2])` stands for. Raises ParseError."""
    parser = Parser(text)
    shape = parser.shape()
    if not parser.scanner.at_end:
        raise parser.scanner.expected("the end of the shape")
    return shape


def parse_literal(text: str) -> Value:
    """The value of a shape and a literal, `f32[2] {1, 2}`: a NumPy array, or a tuple of values. Raises ParseError.

    (A blank separates the literal from the shape: `f32[2]{0} {1, 2}` has a layout.)
    """
    parser = Parser(text)
    parser.literal_follows = True
    shape = parser.shape()
    scanner = parser.scanner
    scanner.skip()
    try:
        return parse_value(text[scanner.at :].strip(), shape)
    except Error as problem:
        raise scanner.error(str(problem)) from None


def format_literal(value: Value, *, with_shape: bool = True, elide: int | None = None) -> str:
    """The text of a value, `f32[2] {1, 2}`, which `parse_literal` reads back bit for bit (but `{...}`, see `elide`)."""
    body = format_value(value, elide)
    return f"{Shape.of(value)} {body}" if with_shape else body
