"""How many cores a program may use."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from refxla_spec.errors import InputError

VARIABLE = "REFXLA_THREADS"
_GROUPS = Path("/sys/fs/cgroup")
_MEMBERSHIP = Path("/proc/self/cgroup")


@dataclass(frozen=True)
class Cores:
    """`count`, at least one, and `limit`: the reason why that is less than the machine's cores, or ""."""

    count: int
    limit: str = ""


def cores() -> Cores:
    """The cores that this process may use: those of its affinity, at most its control groups' quota (rounded down,
    since busy-waiting threads use it up), and at most REFXLA_THREADS.

    Raises InputError if REFXLA_THREADS is not a positive number.
    """
    result = Cores(os.cpu_count() or 1)
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else result.count
    quota = _quota()
    limits = [(allowed, "affinity")]
    if quota is not None:
        limits.append((max(1, int(quota)), f"a control group's quota of {quota:g} cores"))
    if (threads := _asked()) is not None:
        limits.append((threads, VARIABLE))
    for count, limit in limits:
        if count < result.count:
            result = Cores(count, limit)
    return result


def _asked() -> int | None:
    text = os.environ.get(VARIABLE, "")
    if not text:
        return None
    if not text.isdecimal() or int(text) < 1:
        raise InputError(f"{VARIABLE} is {text!r}: give the most threads that may share a program's work, 1 or more")
    return int(text)


@cache  # read once: OpenCL also fixes its number of threads when the first device is opened
def _quota() -> float | None:
    """The cores that the control groups of this process allow, both its own and the enclosing ones; None if there is no
    limit."""
    try:
        memberships = [line.split(":", 2) for line in _MEMBERSHIP.read_text().splitlines()]
    except OSError:  # not Linux
        return None
    limits: list[float | None] = []
    for number, controllers, path in memberships:
        if number == "0":
            limits += [_quota_v2(place) for place in _chain(_GROUPS, path)]
        elif "cpu" in controllers.split(","):
            for root in (_GROUPS / controllers, _GROUPS / "cpu"):
                limits += [_quota_v1(place) for place in _chain(root, path)]
    return min((n for n in limits if n is not None), default=None)


def _chain(root: Path, path: str) -> list[Path]:
    """The folders of a group and of the enclosing ones; inside a container, its own is the root."""
    own = root / path.lstrip("/")
    return [own, *(p for p in own.parents if p.is_relative_to(root))]


def _quota_v2(folder: Path) -> float | None:
    try:
        quota, period = (folder / "cpu.max").read_text().split()
        return None if quota == "max" else int(quota) / int(period)
    except (OSError, ValueError, ZeroDivisionError):
        return None


def _quota_v1(folder: Path) -> float | None:
    try:
        quota = int((folder / "cpu.cfs_quota_us").read_text())
        return quota / int((folder / "cpu.cfs_period_us").read_text()) if quota > 0 else None
    except (OSError, ValueError, ZeroDivisionError):
        return None
