"""The types of calls.pyx."""

from collections.abc import Callable, Sequence
from typing import Any

from .executor import Executor

class Shortcut:
    @property
    def target(self) -> object: ...
    def __init__(
        self,
        target: object,
        executor: Executor,
        leaves: Sequence[tuple[Any, ...]],
        sources: Sequence[Any],
        settings: Sequence[tuple[Any, Any]] = (),
        flatten: Callable[[tuple[Any, ...]], tuple[Sequence[Any], Any]] | None = None,
        structure: object = None,
        foreign: type | None = None,
        finish: Callable[[list[Any]], Any] | None = None,
    ) -> None: ...

class Caller:
    executable: Any
    def __call__(self, *arguments: Any, **keywords: Any) -> Any: ...
    def remember(self, shortcut: Shortcut) -> None: ...
