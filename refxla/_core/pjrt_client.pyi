"""The types of pjrt_client.pyx."""

from collections.abc import Callable
from typing import Any

MEMORY_KIND_NAMES: tuple[str, ...]

def configure(count: int, version: str) -> None: ...

class GarbageCallback:
    def __init__(self, collect: Callable[[], object]) -> None: ...
    def __call__(self, phase: str, info: dict[str, Any]) -> None: ...
