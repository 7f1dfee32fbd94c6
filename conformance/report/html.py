"""A run as one HTML page that stands alone: the report's JSON inside page.html."""

from __future__ import annotations

import json
from pathlib import Path

from refxla.files import write_whole

from . import Results

PLACE = "/*report*/null"


def page(results: Results) -> str:
    """The page: page.html with the report in its place."""
    template = Path(__file__).with_name("page.html").read_text(encoding="utf-8")
    data = json.dumps(results.to_json(), separators=(",", ":"))
    # In a script only these could end it or begin a comment; in JSON's strings they may be written so.
    for character in "<>&\u2028\u2029":
        data = data.replace(character, f"\\u{ord(character):04x}")
    return template.replace(PLACE, data)


def write(results: Results, path: Path) -> None:
    """The page as a file. Raises InputError where it cannot be written."""
    write_whole(path, page(results).encode())
