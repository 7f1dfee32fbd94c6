"""The types of lapack.pyx."""

from collections.abc import Sequence

class Routine:
    def __init__(
        self, name: str, sizes: tuple[int, int, int], flags: str, bytes: Sequence[int], in_memory: Sequence[bool]
    ) -> None: ...
