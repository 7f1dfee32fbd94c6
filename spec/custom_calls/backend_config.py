"""The options of a custom call, as its backend_config holds them: `{mode = 86 : ui8, uplo = 76 : ui8}`."""

from __future__ import annotations

import re

from ..module import Instruction

_OPTION = re.compile(r'"?(\w+)"?\s*[=:]\s*(true|false|-?\d+(?:\.\d*)?(?:e[-+]?\d+)?)', re.IGNORECASE)


def options(instruction: Instruction, **defaults: float) -> dict[str, float]:
    """The numbers among the options, by name; truth is 1 or 0. Those that are left out have the defaults."""
    numbers = {name: _number(value) for name, value in _OPTION.findall(instruction.backend_config or "")}
    return {**defaults, **numbers}


def letter(instruction: Instruction, name: str, default: str) -> str:
    """An option that is a letter, which LAPACK's calls write as the number of its character."""
    return chr(int(options(instruction, **{name: ord(default)})[name]))


def of_letters(**letters: str) -> str:
    """The backend_config of options that are letters, as `letter` reads them."""
    return "{" + ", ".join(f"{name} = {ord(value)} : ui8" for name, value in letters.items()) + "}"


def _number(text: str) -> float:
    if text.lower() in ("true", "false"):
        return float(text.lower() == "true")
    return float(text)
