"""The process that puts cases to targets; the runner starts as many as it is told to (see runner.py)."""

from __future__ import annotations

import time
from dataclasses import replace

from .cases import Case
from .check import Verdict, check
from .targets import Target, make_target
from .targets.child import serve

_targets: dict[str, Target] = {}
_last: Case | None = None


def ask(case: Case, name: str) -> Verdict:
    """The verdict of a case on the target of that name. The same case put to several targets is parsed only once."""
    global _last
    if _last is None or _last.name != case.name:
        _last = case
    if name not in _targets:
        _targets[name] = make_target(name)
    start = time.perf_counter()
    found = check(_last, _targets[name])
    return replace(found, target=name, seconds=time.perf_counter() - start)


def versions(name: str) -> dict[str, str]:
    """The versions that a target reports. Raises InputError for a target that there is not."""
    if name not in _targets:
        _targets[name] = make_target(name)
    return _targets[name].versions()


if __name__ == "__main__":
    serve({"ask": ask, "versions": versions})
