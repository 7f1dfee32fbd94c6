"""Source links to the Cython core: Sphinx's viewcode reads Python files alone, and is given the core's here."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

CORE = "refxla._core."
ROOT = Path(__file__).parents[2]
_DEFINITION = re.compile(r"^( *)(?:cdef |cpdef )?(def|class) +(\w+)", re.MULTILINE)


def definitions(code: str) -> dict[str, tuple[str, int, int]]:
    """By the dotted names of functions, classes and methods: "def" or "class", the first and the last line."""
    lines = code.split("\n")
    found: dict[str, tuple[str, int, int]] = {}
    around: list[tuple[int, str]] = []  # indents and names of the classes that a line is in
    for match in _DEFINITION.finditer(code):
        indent, first = len(match[1]), code.count("\n", 0, match.start()) + 1
        around = [(i, name) for i, name in around if i < indent]
        name = ".".join([*(name for _, name in around), match[3]])
        found[name] = (match[2], first, _last(lines, first, indent))
        if match[2] == "class":
            around.append((indent, match[3]))
    return found


def _last(lines: list[str], first: int, indent: int) -> int:
    """The last line of a definition that begins with line number `first`; a parenthesis may close its head."""
    for n in range(first, len(lines)):
        text = lines[n].strip()
        if text and not text.startswith(")") and len(lines[n]) - len(lines[n].lstrip()) <= indent:
            return n
    return len(lines)


def source(app: Any, module: str) -> tuple[str, dict[str, tuple[str, int, int]]] | None:
    """The code of a module of the core, and where what stands in it; None for any other module."""
    path = ROOT / (module.replace(".", "/") + ".pyx")
    if not module.startswith(CORE) or not path.exists():
        return None
    code = path.read_text(encoding="utf-8")
    return code, definitions(code)


def setup(app: Any) -> dict[str, Any]:
    app.connect("viewcode-find-source", source)
    return {"version": "1", "parallel_read_safe": True}
