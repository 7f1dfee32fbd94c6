"""The HLO texts of a checkout of XLA: its `.hlo` files, and the strings of its C++ tests that are HLO.

A test writes a program as a string literal, most often a raw one, or as several consecutive ones. Anything else is
code, and a text with a placeholder that code fills (`$0`, `%s`) is not a program yet: such texts are left out, and
counted.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from refxla_spec.errors import InputError

# The syntax of a C++ file, as far as strings are concerned; a raw string's end repeats its delimiter.
_TOKEN = re.compile(
    r'(?:u8|[uUL])?R"(?P<delimiter>[^()\\\s]{0,16})\((?P<raw>.*?)\)(?P=delimiter)"'
    r'|(?:u8|[uUL])?"(?P<plain>(?:[^"\\\n]|\\.)*)"'
    r"|(?P<skip>//[^\n]*|/\*.*?\*/)"
    r"|(?<![\w])'(?:[^'\\\n]|\\.)+'"
    r"|\b(?:TYPED_)?TEST(?:_[FP])?\s*\(\s*(?P<suite>\w+)\s*,\s*(?P<test>\w+)\s*\)"
    r"|^\s*(?:[\w:<>,&*\s]*?)\b(?P<constant>k[A-Z]\w*)\s*(?:\[\])?\s*=",
    re.S | re.M,
)
_ESCAPE = re.compile(r"\\(?:([0-7]{1,3})|x([0-9a-fA-F]+)|(.))", re.S)
_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "\n": ""}
_PROGRAM = re.compile(
    r"^\s*HloModule\b|^\s*ENTRY\b[^\n]*\{|^\s*(?:ROOT\s+)?%?[\w.\-]+\s*=\s*[a-z]\w*\[[\d,<=]*\](?:\{[^}]*\})?\s+[a-z][a-z\-]*\(",
    re.M,
)
_FOREIGN = re.compile(r"\bfunc\.func\b|\bstablehlo\.|\bmhlo\.|\bHloModuleProto\b|^\s*name: \"", re.M)
_HOLE = re.compile(r"\$\d|\$\{?[a-zA-Z_]|%[sdu](?![\w.\-])|\{\d\}(?=\()|@@|<<\w+>>")


@dataclass(frozen=True)
class Text:
    """One HLO text: the file in the checkout, the test (and which of its texts) or "", and the text itself."""

    file: str
    test: str
    text: str

    @property
    def key(self) -> str:
        """Identifies the text in tables: a hash of it."""
        return hashlib.sha256(self.text.encode("utf-8", "surrogateescape")).hexdigest()[:12]


@dataclass
class Corpus:
    """The texts of a checkout, each once, and how many more there were: `doubled` that occur already, `holes` that code
    completes."""

    texts: list[Text]
    doubled: int = 0
    holes: int = 0


def corpus(checkout: Path) -> Corpus:
    """The corpus of a checkout. Raises InputError for a folder that has no such files."""
    result = Corpus([])
    keys: set[str] = set()
    files = sorted([*checkout.rglob("*_test.cc"), *checkout.rglob("*.hlo")])
    for path in files:
        shown = path.relative_to(checkout).as_posix()
        source = path.read_text(encoding="utf-8", errors="surrogateescape")
        for text in _of_tests(source, shown) if path.suffix == ".cc" else _of_file(source, shown):
            if path.suffix == ".cc" and _HOLE.search(_without_strings(text.text)):
                result.holes += 1
            elif text.key in keys:
                result.doubled += 1
            else:
                keys.add(text.key)
                result.texts.append(text)
    if not result.texts:
        raise InputError(f"{checkout} is no checkout of XLA: it has no *_test.cc or *.hlo with programs")
    return result


def _of_file(source: str, file: str) -> Iterator[Text]:
    """A file is one module, or several with `// -----` between them."""
    pieces = [p for p in re.split(r"^// -----.*$", source, flags=re.M) if re.sub(r"//[^\n]*|\s", "", p)]
    for n, piece in enumerate(pieces):
        yield Text(file, str(n) if len(pieces) > 1 else "", piece)


def _of_tests(source: str, file: str) -> Iterator[Text]:
    test, number = "", 0
    parts: list[str] = []
    end = 0
    for token in _TOKEN.finditer(source):
        kind = token.lastgroup
        if kind == "skip":
            continue
        piece = token["raw"] if token["raw"] is not None else None
        if piece is None and token["plain"] is not None:
            piece = _ESCAPE.sub(_escaped, token["plain"])
        between = re.sub(r"//[^\n]*|/\*.*?\*/|\s", "", source[end : token.start()], flags=re.S)
        if parts and (piece is None or between):
            yield from _text(parts, file, test, number)
            number += 1
            parts = []
        if piece is not None:
            parts.append(piece)
            end = token.end()
        elif token["test"]:
            test, number = f"{token['suite']}.{token['test']}", 0
        elif token["constant"]:
            test, number = token["constant"], 0
    if parts:
        yield from _text(parts, file, test, number)


def _text(parts: list[str], file: str, test: str, number: int) -> Iterator[Text]:
    text = "".join(parts)
    if _PROGRAM.search(text) and not _FOREIGN.search(text):
        yield Text(file, f"{test}/{number}", text)


def _escaped(match: re.Match[str]) -> str:
    octal, hexadecimal, letter = match.groups()
    if octal or hexadecimal:
        return chr(int(octal, 8) if octal else int(hexadecimal, 16) & 255)
    return _LETTERS.get(letter, letter)


def _without_strings(text: str) -> str:
    return re.sub(r'"(?:[^"\\]|\\.)*"', '""', text)
