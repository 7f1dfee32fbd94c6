"""The specification as pages: a Sphinx extension that writes them from the specification itself before each build.

They go to `specification/` beside the pages written by hand, and are written again only where they have changed, so
that Sphinx reads no more than it must.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .hlo_lexer import HloLexer
from .pages import pages

FOLDER = "specification"
# What links of the pages written by hand point at: in the sources the Python of the specification, on the site its
# page.
LINKS = {
    "../spec/types.py": "types", "../spec/accuracy.py": "accuracy", "../spec/grammar.py": "grammar",
    "../spec/left_out.py": "left_out", "../spec/ops/": "operations",
}  # fmt: skip


def write(folder: Path) -> None:
    """Write every page under `folder`, and remove what no longer is one."""
    written = set()
    for name, text in pages():
        path = folder / f"{name}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
        written.add(path)
    for path in folder.rglob("*.md"):
        if path not in written:
            path.unlink()


def linked(text: str) -> str:
    """A page with its links to the specification's sources made links to its pages."""
    for source, page in LINKS.items():
        text = text.replace(f"]({source})", f"]({FOLDER}/{page}.md)")
    return text


def _read(app: Any, name: str, content: list[str]) -> None:
    content[0] = linked(content[0])


def setup(app: Any) -> dict[str, Any]:
    """What Sphinx calls."""
    app.add_lexer("hlo", HloLexer)
    app.connect("source-read", _read)
    app.connect("builder-inited", lambda app: write(Path(app.srcdir) / FOLDER))
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
