"""What a program and its host exchange while it runs, as arrays of an npz.

`infeed0` is for the first infeed that runs, `infeed1` for the second, and so on, one for each iteration of a loop. The
parts of a tuple are `infeed0.0`, `infeed0.1`, ... The values of outfeeds are called `outfeed0`, `outfeed0.1`, ...
likewise.
"""

from __future__ import annotations

import re
from typing import Any

from refxla_spec.errors import InputError
from refxla_spec.module import Module
from refxla_spec.types import Value

from ..compiler.driver import flatten

_NAME = re.compile(r"infeed(\d{1,9})(?:\.(\d{1,9}))?")
_FED = ("infeed", "outfeed")


def is_fed(module: Module) -> bool:
    """Whether the program has infeeds or outfeeds."""
    return any(i.opcode in _FED for i in module.instructions())


def infeeds(arrays: dict[str, Any], source: str) -> list[Value]:
    """The values for the infeeds, in their order. Raises InputError for other names, and if one is missing."""
    values: dict[int, Any] = {}
    for name, array in arrays.items():
        match = _NAME.fullmatch(name)
        if match is None:
            raise InputError(f"{source} has {name}; values of infeeds are infeed0, infeed1, ..., of a tuple infeed0.0")
        number, part = int(match[1]), match[2]
        if number in values and (part is None or not isinstance(values[number], dict)):
            raise InputError(f"{source} has infeed{number} both whole and in parts; leave one out")
        if part is None:
            values[number] = array
        else:
            values.setdefault(number, {})[int(part)] = array
    sequence = _in_order(values, "infeed", source)
    return [tuple(_in_order(v, f"infeed{n}.", source)) if isinstance(v, dict) else v for n, v in enumerate(sequence)]


def _in_order(values: dict[int, Any], stem: str, source: str) -> list[Any]:
    missing = next((n for n in range(len(values)) if n not in values), None)
    if missing is not None:
        raise InputError(f"{source} has {stem}{max(values)} and no {stem}{missing}")
    return [values[n] for n in range(len(values))]


def outfed(values: list[Value]) -> dict[str, Any]:
    """The values of outfeeds, by name."""
    arrays = {}
    for n, value in enumerate(values):
        parts = flatten(value)
        whole = not isinstance(value, tuple)
        arrays.update({f"outfeed{n}" if whole else f"outfeed{n}.{k}": part for k, part in enumerate(parts)})
    return arrays
