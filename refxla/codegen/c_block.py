"""Blocks of C text: statements with indentation, scopes that remember what was computed in them, fresh names."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Any


class Names:
    """Fresh C identifiers: v0, v1, ..., in the same order for equal work, so that equal work is equal text."""

    def __init__(self) -> None:
        self._count = 0

    def fresh(self, prefix: str = "v") -> str:
        """An identifier that was not given out before."""
        self._count += 1
        return f"{prefix}{self._count - 1}"


class Block:
    """C statements. What is remembered in a scope is known in it and in those inside it, and forgotten at its end."""

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
        """What was remembered under `key` in this scope or one around it, or None."""
        for scope in reversed(self._scopes):
            if key in scope:
                return scope[key]
        return None

    def text(self) -> str:
        """All statements, a newline after each."""
        return "".join(line + "\n" for line in self._lines)
