"""The table of judgements: why the outcome of a text of XLA's need not be agreement.

`judged.json` holds {"judgements": [...]}, each with

    name      a short word
    outcome   which outcome it judges (worker.TO_JUDGE)
    reason    a regular expression that the row's reason matches
    says      the judgement: who is right, and why
    texts     the texts that it was found of: [file, test, hash] each

A row is judged if its text is listed in a judgement of its outcome, or its reason matches one. If XLA:CPU rejects a
program that it has read, that is judged separately from the other outcome, as REFUSED_BY_XLA. The texts are listed so
that each decision can be looked up, and to see when one is no longer needed; new texts of the kind are judged alike.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .worker import PLAIN, REFUSED_BY_XLA

JUDGEMENTS_FILE = Path(__file__).with_name("judged.json")


@dataclass(frozen=True)
class Judgement:
    """One row of the table; see above."""

    name: str
    outcome: str
    reason: str
    says: str
    texts: tuple[tuple[str, str, str], ...] = ()

    def judges(self, row: dict[str, Any]) -> bool:
        """Whether it covers this row: its text is listed, or its reason matches."""
        if row["outcome"] != self.outcome:
            return False
        return _named(row) in self.texts or bool(self.reason and re.search(self.reason, row["reason"]))


def _named(row: dict[str, Any]) -> tuple[str, str, str]:
    return row["file"], row["test"], row["key"]


def read(path: Path = JUDGEMENTS_FILE) -> list[Judgement]:
    """The judgements of a file."""
    data = json.loads(path.read_text(encoding="utf-8"))["judgements"]
    return [Judgement(**{**j, "texts": tuple(tuple(t) for t in j["texts"])}) for j in data]


def judge(rows: Iterable[dict[str, Any]], judgements: Sequence[Judgement]) -> dict[str, list[dict[str, Any]]]:
    """The rows that need a judgement, under the name of the first judgement that covers each, or "" if there is
    none."""
    by_name: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        for part in _to_judge(row):
            name = next((j.name for j in judgements if j.judges(part)), "")
            by_name.setdefault(name, []).append(part)
    return by_name


def _to_judge(row: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The row if it needs a judgement, and the row with XLA:CPU's message if it rejects the program."""
    if row["outcome"] not in PLAIN:
        yield row
    if row["xla"] == "refused":
        yield {**row, "outcome": REFUSED_BY_XLA, "reason": "; ".join(row["excuses"])}


def listed(judgements: Sequence[Judgement], rows: Iterable[dict[str, Any]]) -> list[Judgement]:
    """The judgements with the texts of these rows, each under the one that judges it."""
    by_name = judge(rows, judgements)
    return [replace(j, texts=tuple(sorted({_named(r) for r in by_name.get(j.name, ())}))) for j in judgements]


def write(judgements: Sequence[Judgement], path: Path = JUDGEMENTS_FILE) -> None:
    """Writes judgements, with each text in a separate line."""
    parts = []
    for j in judgements:
        fields = [f"   {json.dumps(n)}: {json.dumps(getattr(j, n))}" for n in ("name", "outcome", "reason", "says")]
        texts = ",\n".join(f"    {json.dumps(t)}" for t in j.texts)
        fields.append('   "texts": [' + (f"\n{texts}\n   ]" if texts else "]"))
        parts.append("  {\n" + ",\n".join(fields) + "\n  }")
    path.write_text('{\n "judgements": [\n' + ",\n".join(parts) + "\n ]\n}\n", encoding="utf-8")
