"""The console that the commands print on."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.rule import Rule

UNBOUNDED_COLUMNS = 10_000  # of output that is not a terminal: no line is wrapped, and no table truncated
RULE_COLUMNS = 80


def standard_output(highlight: bool = False) -> Console:
    """Standard output: as wide as the terminal, and unbounded if it is not one."""
    terminal = sys.stdout is not None and sys.stdout.isatty()
    return Console(highlight=highlight, width=None if terminal else UNBOUNDED_COLUMNS)


def rule(where: Console, title: str = "") -> None:
    """A line across the page, with a title in it."""
    where.print(Rule(title), width=min(where.width, RULE_COLUMNS))
