"""The links of the built site that lead nowhere: `python docs/_ext/dead_links.py docs/_build/html`; status 1 if any.

Sphinx checks what the sources refer to; this checks pages that it makes by itself, too, and anchors.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote


class Page(HTMLParser):
    """The links of a page, and the anchors that it has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value and name == "href":
                self.links.add(value)
            elif value and (name == "id" or (tag, name) == ("a", "name")):
                self.anchors.add(value)


def dead_links(site: Path) -> Iterator[tuple[Path, str]]:
    """Pages of a folder, each with a link of it to a file or an anchor that is not there."""
    pages = {path.resolve(): Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}
    for path, page in pages.items():
        for link in sorted(page.links):
            if re.match(r"[a-z]+:|//", link):
                continue
            place, _, anchor = link.partition("#")
            place = unquote(place.partition("?")[0])
            target = (path.parent / place).resolve() if place else path
            if not target.exists() or (anchor and target in pages and unquote(anchor) not in pages[target].anchors):
                yield path, link


if __name__ == "__main__":
    dead = [f"{path}: {link} leads nowhere" for path, link in dead_links(Path(sys.argv[1]))]
    print("\n".join(dead) or "all links lead somewhere")
    sys.exit(bool(dead))
