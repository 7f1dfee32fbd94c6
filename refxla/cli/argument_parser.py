"""How every command line of the project reads its options."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, NoReturn

from refxla_spec.errors import InputError
from refxla_spec.lexer import suggestion


class Parser(argparse.ArgumentParser):
    """Takes options by their whole names only: what argparse makes of an abbreviation (`cache --clea` as `--clear`) may
    be something else than was meant. An option that there is not is refused with the nearest that there is, and every
    error is one line."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.allow_abbrev = False

    def error(self, message: str) -> NoReturn:
        """A line in the style of all errors (see `guarded`), and where to read more; argparse's own has the usage."""
        raise InputError(f"{message}; see {self.prog} --help")

    def parse_known_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        """As argparse's, but unknown options are an error here already, where those that there are are known: the
        parser of all commands, which argparse leaves it to, does not know the options of one."""
        result, rest = super().parse_known_args(args, namespace)
        unknown = next((word for word in rest if word.startswith("-") and word not in ("-", "--")), None)
        if unknown is not None:
            name = unknown.partition("=")[0]
            near = suggestion(name, [n for n in self._option_string_actions if n.startswith("--")])
            self.error(f"unrecognized arguments: {' '.join(rest)}{near}")
        return result, rest
