"""The results of the liars: a JSON file, and its rows for the documentation.

{"commit": ..., "machine": {...}, "cases": 3039, "programs": 4000, "liars": {
    "sevens": {"what": ..., "suite": {"shown": 1, "caught": "edge/abs/s1_u1", "why": ..., "passed": ""},
               "check": {...}, "fuzz": {...}}, ...}}

`cases` of the suite are run by the suite and by --check, `programs` are random ones. A tool that runs no programs which
could show a lie is left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from refxla_spec.errors import InputError

from .liar import LIARS, TOOLS
from .trial import Trials

TRIALS_FILE = Path(__file__).parent / "caught.json"


def rows(trials: Mapping[str, Trials]) -> dict[str, dict[str, Any]]:
    """The rows of liars, in the order of the registry, of the trials by tool."""
    by_name: dict[str, dict[str, Any]] = {}
    for name, liar in LIARS.items():
        results = {tool: asdict(trials[tool][name]) for tool in TOOLS if name in trials.get(tool, {})}
        if results:
            by_name[name] = {"what": liar.what, **results}
    return by_name


def read(path: Path = TRIALS_FILE) -> dict[str, Any]:
    """A file that the command wrote. Raises InputError if it is another kind of file, or missing."""
    try:
        data = json.loads(path.read_text())
        return {**data, "liars": dict(data["liars"])}
    except (OSError, KeyError, TypeError, json.JSONDecodeError) as error:
        raise InputError(f"{path} is no table of liars: {error}") from None


def missed(results: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The liars that a tool did not catch, as "name (tool)"."""
    return [f"{name} ({t})" for name, row in results.items() for t in TOOLS if t in row and not row[t]["caught"]]


def lines(results: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, ...]]:
    """A line for each liar: its name, what it represents, and by what each tool catches it."""
    for name, row in results.items():
        yield (name, row["what"], *(_said(row.get(tool)) for tool in TOOLS))


def _said(trial: Mapping[str, Any] | None) -> str:
    if trial is None:
        return "-"
    if not trial["caught"]:
        return f"not caught, shown {trial['shown']} times" if trial["shown"] else "not met"
    count = f" (of {trial['shown']})" if trial["shown"] > 1 else ""
    return f"{trial['caught']}{count}"
