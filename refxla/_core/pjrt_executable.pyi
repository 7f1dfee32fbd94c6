"""The types of pjrt_executable.pyx."""

from collections.abc import Callable

def set_compiler(compile: Callable[[bytes, bytes, bytes], object], load: Callable[[bytes, bytes], object]) -> None: ...
