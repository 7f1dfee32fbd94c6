"""Tables and paragraphs of texts, as docutils has them: what the directives beside this file make."""

from __future__ import annotations

import re
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
    return nodes.row("", *(nodes.entry("", paragraph(text)) for text in texts))


def paragraph(text: str) -> nodes.paragraph:
    """A paragraph in which what stands in backticks is code."""
    parts = re.split(r"`([^`]+)`", text)
    return nodes.paragraph("", "", *(_PART[n % 2](part, part) for n, part in enumerate(parts) if part))


_PART = (nodes.Text, nodes.literal)
