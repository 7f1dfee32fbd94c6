"""The kinds of random programs, by the names of the command's options."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .dynamic import generate_dynamic
from .generate import Sample, generate
from .sizes import generate_sized


@dataclass(frozen=True)
class Kind:
    """How a program is generated from its number, and how many of them are compared and built as one."""

    generate: Callable[[int], Sample]
    batch: int = 200
    timed: bool = False  # whether it can be generated in other sizes, so that compile times are compared


STATIC, DYNAMIC, SIZED = "static", "dynamic", "sized"
KINDS = {
    STATIC: Kind(generate),
    DYNAMIC: Kind(generate_dynamic),
    SIZED: Kind(generate_sized, batch=8, timed=True),
}
