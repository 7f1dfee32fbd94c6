"""The types of lapack.pyx."""

from collections.abc import Sequence

class Routine:
    def __init__(
        self, name: str, sizes: tuple[int, int, int], flags: str, bytes: Sequence[int], read: Sequence[bool]
    ) -> None: ...
