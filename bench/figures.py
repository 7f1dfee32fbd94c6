"""The header of a file of figures, and how an existing file is continued."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import Any

from .machine import command, describe

ALIKE = ("kind", "what", "threads", "small")  # must be equal for all figures of one file


def begun(
    module: str, kind: str, what: str, options: argparse.Namespace, arguments: Sequence[str] | None
) -> dict[str, Any]:
    """Figures without entries, {"kind", "command", "what", "machine", "threads", "small", "entries", "versions"}; with
    --keep, they have the entries, versions and commits of the file.

    Raises ValueError if the file has figures that cannot be combined with these.
    """
    figures: dict[str, Any] = {
        "kind": kind,
        "command": command(f"bench.{module}", arguments),
        "what": what,
        "machine": describe(),
        "threads": options.threads,
        "small": options.small,
        "entries": {},
        "versions": {},
    }
    if options.keep and options.json.exists():
        before = json.loads(options.json.read_text())
        if any(before.get(key) != figures[key] for key in ALIKE):
            raise ValueError(
                f"{options.json} holds other figures: {before['what']} ({before['kind']}), {before['threads']} threads"
            )
        commits = {before["machine"].get("commit", "?"), figures["machine"]["commit"]}
        figures["machine"]["commit"] = ", ".join(sorted(commits))
        figures["entries"], figures["versions"] = before["entries"], before.get("versions", {})
    return figures
