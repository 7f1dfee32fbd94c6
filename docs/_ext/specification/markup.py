"""The few forms of Markdown that the generated pages are made of."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from . import formulas

_SPECIAL = re.compile(r"([\\*_\[\]<>#|$`{}])")


def escaped(text: str) -> str:
    """Plain text, with what Markdown would read as markup made plain."""
    return _SPECIAL.sub(r"\\\1", text)


def code(text: str) -> str:
    """Inline code."""
    return f"``{text}``" if "`" in text else f"`{text}`"


def fence(text: str, language: str, caption: str = "") -> str:
    """A block of code; its language is a name of Pygments', or `hlo`."""
    option = f":caption: {caption}\n" if caption else ""
    return f"````{{code-block}} {language}\n{option}\n{text.rstrip()}\n````\n"


def html(text: str) -> str:
    """HTML as it is; Markdown may stand between two of these."""
    return f"```{{raw}} html\n{text}\n```\n"


def details(summary: str, content: str) -> str:
    """What is shown only when its summary is clicked."""
    return html(f"<details><summary>{summary}</summary>") + "\n" + content + "\n" + html("</details>")


def table(head: Sequence[str], rows: Iterable[Sequence[str]], css: str = "") -> str:
    """A table; cells are Markdown. An empty `head` is none."""
    option = f":class: {css}\n" if css else ""
    lines = [f"```{{list-table}}\n:header-rows: {int(bool(head))}\n{option}"]
    for cells in ([head] if head else []) + list(rows):
        lines += [f"{'* -' if n == 0 else '  -'} {cell}" for n, cell in enumerate(cells)]
    return "\n".join([*lines, "```\n"])


def link(opcode: str, base: str = "") -> str:
    """A link to an operation's page."""
    return f"[`{opcode}`]({base}{opcode}.md)"


def prose(
    text: str, names: Iterable[str] = (), opcodes: Iterable[str] = (), base: str = "", blocks: str = "formula"
) -> str:
    """The text of a docstring: paragraphs, and indented blocks: formulas, or code in the language `blocks`, or a list.

    What stands in backticks is code, and a link where it is an opcode; so are opcodes of several words without them.
    Names with `_` that are among `names` are code.
    """
    parts = []
    for block in _blocks(text):
        if block[0].startswith("    ") and blocks == "list":
            parts.append(table((), _definitions(block), css="definitions"))
        elif block[0].startswith("    ") and blocks != "formula":
            parts.append(fence("\n".join(line[4:] for line in block), blocks))
        elif block[0].startswith("    "):
            parts.append(html(formulas.to_html([line[4:] for line in block])))
        else:
            parts.append(inline(" ".join(block), names, opcodes, base) + "\n")
    return "\n".join(parts)


def _definitions(block: list[str]) -> list[list[str]]:
    """Terms and what they mean, which stands after two blanks and may go on in lines that are indented as far."""
    rows: list[list[str]] = []
    for line in block:
        term, _, meaning = line.strip().partition("  ")
        if rows and line.startswith(" " * 8):
            rows[-1][1] += " " + inline(line.strip())
        else:
            rows.append([f"**{escaped(term)}**", inline(meaning.strip())])
    return rows


def _blocks(text: str) -> list[list[str]]:
    """Consecutive lines that are all indented, or all not."""
    blocks: list[list[str]] = [[]]
    for line in text.splitlines():
        starts = not blocks[-1] or blocks[-1][0].startswith("    ") == line.startswith("    ")
        if not line.strip() or not starts:
            blocks.append([])
        if line.strip():
            blocks[-1].append(line)
    return [b for b in blocks if b]


def inline(text: str, names: Iterable[str] = (), opcodes: Iterable[str] = (), base: str = "") -> str:
    """One paragraph; see `prose`."""
    identifiers = {n.lstrip("*") for n in names if "_" in n}
    longest_first = "|".join(sorted(map(re.escape, identifiers), key=len, reverse=True))
    words = re.compile(rf"\b({longest_first})\b") if identifiers else None
    pieces = []
    for n, part in enumerate(text.split("`")):
        if n % 2:
            pieces.append(link(part, base) if part in opcodes else code(part))
        else:
            for piece in words.split(part) if words else [part]:
                linked = _COMPOUND.sub(lambda m: _opcode(m, opcodes, base), escaped(piece))
                pieces.append(code(piece) if piece in identifiers else linked)
    return "".join(pieces)


_COMPOUND = re.compile(r"\b[a-z0-9]+(?:-[a-z0-9]+)+\b")


def _opcode(match: re.Match, opcodes: Iterable[str], base: str) -> str:
    """A word with a `-` that is an opcode, as a link; another as it is."""
    return link(match.group(), base) if match.group() in opcodes else match.group()
