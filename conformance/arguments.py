"""Numbers on the command line: each has the values that it may have, and another one is refused with a line."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable


def whole(least: int) -> Callable[[str], int]:
    """The argparse type of integers of at least that much."""

    def number(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is no whole number") from None
        if value < least:
            raise argparse.ArgumentTypeError(f"{text} is less than {least}")
        return value

    return number


def positive(text: str) -> float:
    """The argparse type of seconds, minutes and the like: a number above 0; inf for no limit."""
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no number") from None
    if math.isnan(value) or value <= 0:
        raise argparse.ArgumentTypeError(f"{text} is not above 0")
    return value


def power_of_two(text: str) -> int:
    """The argparse type of 1, 2, 4, ..."""
    value = whole(1)(text)
    if value & (value - 1):
        raise argparse.ArgumentTypeError(f"{text} is not a power of two")
    return value
