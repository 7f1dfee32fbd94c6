"""A run as a self-contained HTML page: the report's JSON inside page.html."""

from __future__ import annotations

import json
from pathlib import Path

from refxla.files import write_whole

from . import Results

PLACE = "/*report*/null"


def page(results: Results) -> str:
    """The page: page.html with the report inserted."""
    template = Path(__file__).with_name("page.html").read_text(encoding="utf-8")
    data = json.dumps(results.to_json(), separators=(",", ":"))
    # In a script, only these could end it or begin a comment; in JSON's strings they may be escaped.
    for character in "<>&\u2028\u2029":
        data = data.replace(character, f"\\u{ord(character):04x}")
    return template.replace(PLACE, data)


def write(results: Results, path: Path) -> None:
    """Writes the page to a file. Raises InputError if it cannot be written."""
    write_whole(path, page(results).encode())
