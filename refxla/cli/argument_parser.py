"""The option parser of all command lines of the project."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, NoReturn

from refxla_spec.errors import InputError
from refxla_spec.lexer import suggestion


class Parser(argparse.ArgumentParser):
    """Accepts only full option names: argparse's expansion of an abbreviation (`cache --clea` as `--clear`) may not be
    what was meant. An unknown option is an error that names the nearest known one, and every error is one line."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.allow_abbrev = False

    def error(self, message: str) -> NoReturn:
        """A line in the style of all errors (see `guarded`), with where to read more; argparse's own message has the
        usage."""
        raise InputError(f"{message}; see {self.prog} --help")

    def parse_known_args(  # type: ignore[override]  # argparse's is overloaded by the type of the namespace
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> Any:
        """Like argparse's, but unknown options are an error already here, where the known ones are available: argparse
        leaves it to the parser of all commands, which does not know the options of one."""
        result, rest = super().parse_known_args(args, namespace)
        unknown = next((word for word in rest if word.startswith("-") and word not in ("-", "--")), None)
        if unknown is not None:
            name = unknown.partition("=")[0]
            near = suggestion(name, [n for n in self._option_string_actions if n.startswith("--")])
            self.error(f"unrecognized arguments: {' '.join(rest)}{near}")
        return result, rest
