"""A table of texts, as docutils has it: what the directives beside this file make."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from docutils import nodes


def table(head: Sequence[str], rows: Iterable[Sequence[str]], widths: Sequence[int]) -> nodes.table:
    """A table with a line of heads; `widths` are the columns' shares."""
    group = nodes.tgroup(cols=len(widths))
    group += [nodes.colspec(colwidth=width) for width in widths]
    group += nodes.thead("", _row(head))
    group += nodes.tbody("", *map(_row, rows))
    return nodes.table("", group, classes=["colwidths-given"])


def _row(texts: Sequence[str]) -> nodes.row:
    return nodes.row("", *(nodes.entry("", nodes.paragraph(text=text)) for text in texts))
