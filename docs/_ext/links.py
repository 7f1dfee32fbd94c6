"""Every link of the built site leads somewhere: a build with a dead link or a missing anchor fails."""

from __future__ import annotations

from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from sphinx.errors import ExtensionError


class _Page(HTMLParser):
    """What a page links to, and the anchors that it has."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value and name in ("id", "name"):
                self.anchors.add(value)
            elif value and name in ("href", "src"):
                self.links.add(value)


def dead_links(site: Path) -> Iterator[str]:
    """Each link within a site that has no file or no anchor: "page: link". Links to other sites are not followed."""
    site = site.resolve()
    pages = {path: _Page(path) for path in sorted(site.rglob("*.html"))}
    for path, page in pages.items():
        for link in sorted(page.links):
            url = urlsplit(link)
            if url.scheme or url.netloc:
                continue
            target = (path.parent / unquote(url.path)).resolve() if url.path else path
            there = target.exists()
            if there and url.fragment and target in pages:
                there = unquote(url.fragment) in pages[target].anchors
            if not there:
                yield f"{path.relative_to(site)}: {link}"


def _check(app: Any, failure: Exception | None) -> None:
    if failure is None and app.builder.name == "html" and (dead := list(dead_links(Path(app.outdir)))):
        raise ExtensionError("dead links (if their page is gone, remove the built site first):\n" + "\n".join(dead))


def setup(app: Any) -> dict[str, bool]:
    """What Sphinx calls."""
    app.connect("build-finished", _check)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
