"""Texts without their names: two that differ only by a one-to-one renaming have the same canonical form.

`opencl(text)` is for OpenCL C: comments and white space are removed, and every name that the text itself declares is
replaced by the number of its first occurrence, among all names of the file or, if a function declares it, of that
function. Keywords, types, built-in functions and anything else that the text does not declare are kept. `plan(text)` is
for the plan of a program, in which every word is a name and numbers are kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import zip_longest

_OPENCL = re.compile(
    r"""(?P<space>(?:\s|\\\n|//[^\n]*|/\*.*?\*/)+)
      | (?P<directive>\#\s*\w+)
      | (?P<name>[A-Za-z_]\w*)
      | (?P<number>\.?\d(?:[eEpP][+-]|[\w.])*)
      | (?P<string>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')
      | (?P<sign><<=|>>=|->|\+\+|--|&&|\|\||\#\#|[-+*/%&|^<>=!]=|<<|>>|.)""",
    re.VERBOSE | re.DOTALL,
)
_PLAN = re.compile(r"(?P<space>\s+)|(?P<name>[A-Za-z_][\w.]*)|(?P<number>\d+)|(?P<sign>.)", re.DOTALL)

_TYPE = re.compile(
    r"(?:(?:char|uchar|short|ushort|int|uint|long|ulong|half|float|double)(?:2|3|4|8|16)?"
    r"|void|bool|size_t|ptrdiff_t|intptr_t|uintptr_t|signed|unsigned|struct|union|enum)"
)
_QUALIFIERS = frozenset(
    "const volatile restrict static inline extern register typedef "
    "global local constant private kernel __global __local __constant __private __kernel".split()
)
_KEYWORDS = frozenset(
    "break case continue default do else for goto if return sizeof switch while defined __attribute__".split()
)
_KEY_TOKENS = 12  # of a change that identify its kind, at most
_DIRECTIVE_END = "\n"  # a separate token, since the end of a line ends a directive


@dataclass(frozen=True)
class Token:
    """A piece of text, its kind (the name of a group of the patterns above), its line, counted from 1, and its
    column."""

    text: str
    kind: str
    line: int
    column: int = 0


@dataclass(frozen=True)
class Canonical:
    """The tokens of a text unchanged, and their canonical forms, one for each."""

    tokens: tuple[Token, ...]
    forms: tuple[str, ...]

    def first_difference(self, other: Canonical) -> tuple[Token, Token] | None:
        """The first tokens in which this and the other differ; None if they do not. If one of them ends before the
        other, its token is the last one."""
        forms = enumerate(zip_longest(self.forms, other.forms))
        n = next((n for n, (mine, theirs) in forms if mine != theirs), None)
        if n is None:
            return None
        mine, theirs = ((*c.tokens[n : n + 1], *c.tokens[-1:], Token("", "sign", 1))[0] for c in (self, other))
        return mine, theirs


@dataclass(frozen=True)
class Change:
    """Consecutive lines that differ in two texts: their tokens in each (some lines, or none)."""

    before: tuple[Token, ...]
    after: tuple[Token, ...]

    @property
    def key(self) -> tuple[str, str]:
        """What changes of one kind have in common: the words that differ, ignoring names and numbers."""
        old, new = ([_general(t) for t in side] for side in (self.before, self.after))
        while old and new and old[0] == new[0]:
            old, new = old[1:], new[1:]
        while old and new and old[-1] == new[-1]:
            old, new = old[:-1], new[:-1]
        return " ".join(old[:_KEY_TOKENS]), " ".join(new[:_KEY_TOKENS])


def changes(before: Canonical, after: Canonical) -> list[Change]:
    """All changes between two OpenCL C programs whose canonical forms differ. Directives, functions and declarations
    are compared separately, and their lines ignoring names, so that a new one does not make those after it differ."""
    sides = [
        [Canonical(c.tokens[i:j], _renumbered(c.forms[i:j])) for i, j in _chunks(c.tokens)] for c in (before, after)
    ]
    nothing, result = Canonical((), ()), []
    for mine, theirs in _differing(*([c.forms for c in side] for side in sides)):
        for n in range(max(len(mine), len(theirs))):
            old = sides[0][mine[n]] if n < len(mine) else nothing
            new = sides[1][theirs[n]] if n < len(theirs) else nothing
            result += _changed_lines(old, new)
    return result


def _changed_lines(old: Canonical, new: Canonical) -> list[Change]:
    """The changes of two parts that differ: lines, or a name that is replaced in one of them."""
    lines = [_lines(part) for part in (old, new)]
    result = []
    for mine, theirs in _differing(*([forms for forms, _ in side] for side in lines)):
        blocks = (
            tuple(t for n in block for t in side[n][1]) for side, block in zip(lines, (mine, theirs), strict=True)
        )
        result.append(Change(*blocks))
    if not result and (tokens := old.first_difference(new)) is not None:
        result.append(Change(tokens[:1], tokens[1:]))
    return result


def _differing(before: list[tuple[str, ...]], after: list[tuple[str, ...]]) -> Iterator[tuple[range, range]]:
    """The ranges in which two lists differ, in pairs."""
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    for tag, i, j, k, n in matcher.get_opcodes():
        if tag != "equal":
            yield range(i, j), range(k, n)


def _renumbered(forms: tuple[str, ...], scopes: tuple[str, ...] = ("global ",)) -> tuple[str, ...]:
    """The forms of a part of a text, with its names of these scopes numbered from its beginning."""
    names: dict[str, str] = {}
    return tuple(names.setdefault(f, f"{scopes[0]}{len(names)}") if f.startswith(scopes) else f for f in forms)


def _lines(part: Canonical) -> list[tuple[tuple[str, ...], tuple[Token, ...]]]:
    """The lines of a part, each with its forms, whose names are numbered from the line's beginning, and its tokens."""
    lines: dict[int, list[int]] = {}
    for n, token in enumerate(part.tokens):
        lines.setdefault(token.line, []).append(n)
    return [
        (_renumbered(tuple(part.forms[n] for n in line), ("global ", "local ")), tuple(part.tokens[n] for n in line))
        for line in lines.values()
    ]


def _general(token: Token) -> str:
    """A token in a form shared by all changes of one kind: without the number at the end of a name, and without
    numbers."""
    if token.kind == "number":
        return "0"
    return re.sub(r"\d+$", "0", token.text) if token.kind == "name" else token.text


def opencl(text: str) -> Canonical:
    """The canonical form of OpenCL C."""
    tokens = tuple(_tokens(text, _OPENCL))
    chunks = list(_chunks(tokens))
    outer: set[str] = set()
    inner = [_declared(tokens[begin:end], outer) for begin, end in chunks]
    shared: dict[str, str] = {}
    forms: list[str] = []
    for (begin, end), own in zip(chunks, inner, strict=True):
        local: dict[str, str] = {}
        for n in range(begin, end):
            token = tokens[n]
            if token.kind != "name" or (n and tokens[n - 1].text in (".", "->")):
                forms.append(token.text)
            elif token.text in own:
                forms.append(local.setdefault(token.text, f"local {len(local)}"))
            elif token.text in outer:
                forms.append(shared.setdefault(token.text, f"global {len(shared)}"))
            else:
                forms.append(token.text)
    return Canonical(tokens, tuple(forms))


def plan(text: str) -> Canonical:
    """The canonical form of a plan, where every word is a name."""
    tokens = tuple(_tokens(text, _PLAN))
    names: dict[str, str] = {}
    forms = (names.setdefault(t.text, f"name {len(names)}") if t.kind == "name" else t.text for t in tokens)
    return Canonical(tokens, tuple(forms))


def kernels(canonical: Canonical) -> int:
    """How many kernels a program of OpenCL C dispatches: the cases of its __kernel functions; one without cases, as for
    GPUs, is one kernel."""
    parts = (canonical.tokens[begin:end] for begin, end in _chunks(canonical.tokens))
    return sum(max(1, sum(t.text == "case" for t in part)) for part in parts if part[0].text == "__kernel")


def _tokens(text: str, pattern: re.Pattern[str]) -> Iterator[Token]:
    line, begin, directive = 1, 0, False  # the line, where it begins, and whether it is a directive
    for match in pattern.finditer(text):
        kind, piece = match.lastgroup or "", match[0]
        if kind == "space":
            ends = re.sub(r"\\\n|/\*.*?\*/", "", piece, flags=re.DOTALL).count("\n")
            if directive and ends:
                yield Token(_DIRECTIVE_END, "sign", line, match.start() - begin)
                directive = False
        else:
            directive = directive or kind == "directive"
            token = re.sub(r"\s", "", piece) if kind == "directive" else piece
            yield Token(token, kind, line, match.start() - begin)
        if "\n" in piece:
            line += piece.count("\n")
            begin = match.start() + piece.rindex("\n") + 1


def _chunks(tokens: tuple[Token, ...]) -> Iterator[tuple[int, int]]:
    """The beginning and end of each directive, function or declaration of the file."""
    begin = depth = 0
    for n, token in enumerate(tokens):
        if token.text in "([{":
            depth += 1
        elif token.text in ")]}":
            depth -= 1
        directive = tokens[begin].kind == "directive"
        following = tokens[n + 1].text if n + 1 < len(tokens) else ""
        closes = token.text == ";" or (token.text == "}" and following != ";")
        if token.text == _DIRECTIVE_END if directive else depth == 0 and closes:
            yield begin, n + 1
            begin, depth = n + 1, 0
    if begin < len(tokens):
        yield begin, len(tokens)


def _declared(tokens: tuple[Token, ...], outer: set[str]) -> set[str]:
    """The names that a chunk declares locally. Those that it declares for the file are added to `outer`."""
    if tokens[0].text == "#define" and len(tokens) > 1:
        outer.add(tokens[1].text)
        parameters = len(tokens) > 2 and tokens[2].text == "("
        last = next(n for n, t in enumerate(tokens) if t.text == ")") if parameters else 0
        return {t.text for t in tokens[2:last] if t.kind == "name"}
    if tokens[0].kind == "directive":
        return set()
    own: set[str] = set()
    depth = 0
    declaring: int | None = None  # the depth of a statement that begins with a type: names after a comma are declared
    for n, token in enumerate(tokens):
        before = tokens[n - 1] if n else None
        if token.text in "([{":
            depth += 1
        elif token.text in ")]}":
            depth -= 1
        if before is None or before.text in ";{}" or (before.text == "(" and n > 1 and tokens[n - 2].text == "for"):
            declaring = depth if _is_type(token) or token.text in _QUALIFIERS else None
        if token.kind == "name" and not _is_reserved(token) and _is_declarator(tokens, n, declaring == depth):
            (own if depth else outer).add(token.text)
    return own


def _is_declarator(tokens: tuple[Token, ...], n: int, declaring: bool) -> bool:
    """Whether the name at `n` is declared there: it follows a type or another name, or, in a declaration, a comma. (It
    may follow `*` only if that follows a type, since it may be a product.)"""
    k = n - 1
    while k >= 0 and (tokens[k].text == "*" or tokens[k].text in _QUALIFIERS):
        k -= 1
    if k < 0:
        return False
    if tokens[k].text == ",":
        return declaring
    if tokens[k].kind != "name" or tokens[k].text in _KEYWORDS:
        return False
    return k == n - 1 or _is_type(tokens[k]) or all(t.text != "*" for t in tokens[k + 1 : n])


def _is_type(token: Token) -> bool:
    return token.kind == "name" and _TYPE.fullmatch(token.text) is not None


def _is_reserved(token: Token) -> bool:
    return token.text in _KEYWORDS or token.text in _QUALIFIERS or _is_type(token)
