"""The errors of refxla: one small family, typed by what went wrong.

Every message says what is wrong, where (instruction, line of the HLO text), and what to do about it.
"""

from __future__ import annotations

import copy


class Error(Exception):
    """The root of the family: catch this to catch whatever refxla raises on purpose."""


def plural(count: int, noun: str, many: str = "") -> str:
    """A number of things in words: "1 operand", "2 operands"; `many` is a plural that is not made by an s."""
    return f"{count} {noun}" if count == 1 else f"{count} {many or noun + 's'}"


def indefinite(noun: str) -> str:
    """A noun with its article: "an axis", "a uint8"."""
    return f"{'an' if noun[:1].lower() in 'aeio' or noun == 'ndarray' else 'a'} {noun}"


def a_type(value: object) -> str:
    """The name of a value's type with its article: "an int", "a list"."""
    return indefinite(type(value).__name__)


def in_file(problem: Error, file: str | None) -> Error:
    """The same error, its message with the name of the file that it is about in front (None: it is about none)."""
    if file is None:
        return problem
    error = copy.copy(problem)
    error.args = (f"{file}: {problem}",)
    return error


class ParseError(Error):
    """A text or a proto does not follow the grammar.

    `line` and `column` count from 1, or are None where the source is not text.
    """

    def __init__(self, message: str, line: int | None = None, column: int | None = None) -> None:
        super().__init__(message)
        self.line = line
        self.column = column


class InvalidProgramError(Error):
    """A program follows the grammar and breaks a rule of HLO.

    `constraint` is the label of the rule, such as "add_c1", where a labelled one was broken.
    """

    def __init__(self, message: str, constraint: str | None = None) -> None:
        super().__init__(message)
        self.constraint = constraint


class UnsupportedError(Error):
    """A valid program asks for something that is not implemented here; the message names it."""


class CompilerError(UnsupportedError):
    """The compiler does not find its way through a program that it should compile: an error of its own."""


def is_refusal(error: BaseException) -> bool:
    """Whether an error says that a program asks for what is not implemented, and is not one of the compiler's own."""
    return isinstance(error, UnsupportedError) and not isinstance(error, CompilerError)


class InputError(Error):
    """The values given to a program do not fit its parameters, or a file of values cannot be read."""


class DeviceError(Error):
    """No OpenCL device fits, or one failed; the message says how to get one."""


class EvaluationError(Error):
    """A valid program met a value that it may not meet while running (an infeed that is empty, say)."""
