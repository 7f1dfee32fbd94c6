"""Types of command line arguments: each has its valid values, and rejects others in one line."""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Callable
from pathlib import Path


def whole(least: int) -> Callable[[str], int]:
    """The argparse type of integers of at least a minimum."""

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


def part(text: str) -> tuple[int, int]:
    """The argparse type of one part of several: "2/4" is (2, 4), the second of four."""
    number, slash, count = text.partition("/")
    if not slash:
        raise argparse.ArgumentTypeError(f"{text!r} names no part; the second of four is 2/4")
    parts = whole(1)(count)
    value = whole(1)(number)
    if value > parts:
        raise argparse.ArgumentTypeError(f"{text}: there is no part {value} of {parts}")
    return value, parts


def output_file(text: str) -> Path:
    """The argparse type of a file to write; as much as possible is checked before the work whose result it is."""
    path = Path(text)
    if path.is_dir():
        raise argparse.ArgumentTypeError(f"{text} is a folder; name a file in it")
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"there is no folder {path.parent}; make it first, or name another one")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise argparse.ArgumentTypeError(f"{text} cannot be written: permission denied")
    return path


def output_folder(text: str) -> Path:
    """The argparse type of a folder to write files to; it is created when the first one is written."""
    path = Path(text)
    if path.exists() and not path.is_dir():
        raise argparse.ArgumentTypeError(f"{text} is a file, and should be a folder")
    return path
