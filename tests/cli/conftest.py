"""The fixtures of tests/command_line.py."""

from command_line import cache_of_its_own, child, program, refxla

__all__ = ["cache_of_its_own", "child", "program", "refxla"]
