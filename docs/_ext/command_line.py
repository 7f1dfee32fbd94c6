"""The directive `command-line`: the reference of a command, made from its parser."""

from __future__ import annotations

import argparse
from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive
from tables import paragraph, table

from refxla.cli.main import parser


def _commands() -> list[argparse.ArgumentParser]:
    top = parser()
    (group,) = (a for a in top._actions if isinstance(a, argparse._SubParsersAction))
    return list(group.choices.values())


def _arguments(command: argparse.ArgumentParser) -> list[tuple[str, str]]:
    """Each argument as it is written, and what it means."""
    rows = []
    for action in command._actions:
        if isinstance(action, argparse._HelpAction):
            continue
        value = action.metavar or ("|".join(action.choices) if action.choices else "")
        name = " ".join([", ".join(action.option_strings), str(value)]).strip()
        rows.append((f"`{name}`", action.help or ""))
    return rows


class CommandLine(Directive):
    """A section for each command: how it is called, what it does, what it takes."""

    def run(self) -> list[nodes.Node]:
        sections: list[nodes.Node] = []
        for command in _commands():
            section = nodes.section(ids=[nodes.make_id(command.prog)])
            section += nodes.title(text=command.prog)
            usage = command.format_usage().removeprefix("usage: ").rstrip()
            section += paragraph(command.description or "")
            section += nodes.literal_block(usage, usage, language="text")
            if rows := _arguments(command):
                section += table(("Argument", "Meaning"), rows, (34, 66))
            sections.append(section)
        return sections


def setup(app: Any) -> dict[str, bool]:
    """What Sphinx calls."""
    app.add_directive("command-line", CommandLine)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
