"""Blocks of C text: indented statements, scopes that remember the values computed in them, and fresh names."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Any


class Names:
    """Fresh C identifiers v0, v1, ..., in deterministic order, so that equal work has equal text."""

    def __init__(self) -> None:
        self._count = 0

    def fresh(self, prefix: str = "v") -> str:
        """An identifier that has not been used."""
        self._count += 1
        return f"{prefix}{self._count - 1}"


class Block:
    """C statements. A value remembered in a scope is known until the end of that scope, nested scopes included."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._scopes: list[dict[Hashable, Any]] = [{}]

    def line(self, text: str) -> None:
        """Adds one statement, indented by the scopes around it."""
        self._lines.append("    " * len(self._scopes) + text)

    @contextmanager
    def scope(self, head: str = "") -> Iterator[None]:
        """Statements inside braces after `head`, such as "for (int i = 0; i < 4; ++i)", "if (x)" or "else"."""
        self.line(f"{head} {{".lstrip())
        self._scopes.append({})
        try:
            yield
        finally:
            self._scopes.pop()
            self.line("}")

    def remember(self, key: Hashable, value: Any) -> None:
        """Keeps a value for the rest of the current scope."""
        self._scopes[-1][key] = value

    def recall(self, key: Hashable) -> Any:
        """The value remembered under `key` in this scope or an enclosing one, or None."""
        for scope in reversed(self._scopes):
            if key in scope:
                return scope[key]
        return None

    def text(self) -> str:
        """All statements, a newline after each."""
        return "".join(line + "\n" for line in self._lines)
