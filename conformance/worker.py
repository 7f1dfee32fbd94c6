"""The process that runs cases on targets; the runner starts as many as requested (see runner.py)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from refxla_spec.errors import InputError

from .case_check import Verdict, check, check_many, died
from .cases import Case
from .targets import Target, make_target
from .targets.child import restart_clock, serve

_targets: dict[str, Target] = {}
_last: dict[str, Case] = {}


def ask(cases: Sequence[Case], name: str) -> list[Verdict]:
    """The verdicts of cases on the target of that name. The same cases on several targets are parsed only once."""
    global _last
    if [case.name for case in cases] != list(_last):
        _last = {case.name: case for case in cases}
    target, cases = _target(name), list(_last.values())
    restart_clock()  # the time to create a target does not count for a case
    start = time.perf_counter()
    if len(cases) > 1:
        try:
            verdicts = check_many(cases, target)
        except Exception:  # an error of the suite: for example, the reference failed; one by one, the case is found
            verdicts = [_alone(case, target) for case in cases]
    else:
        verdicts = [_alone(case, target) for case in cases]
    seconds = (time.perf_counter() - start) / max(1, len(cases))
    return [replace(verdict, target=name, seconds=seconds) for verdict in verdicts]


def _alone(case: Case, target: Target) -> Verdict:
    try:
        return check(case, target)
    except Exception as error:
        return died(case, target.name, f"the case could not be checked: {type(error).__name__}: {error}")


def _target(name: str) -> Target:
    if name not in _targets:
        target = make_target(name)
        target.versions()  # opens what it needs, such as a device
        _targets[name] = target
    return _targets[name]


def versions(name: str) -> dict[str, str]:
    """The versions that a target reports. Raises InputError for an unknown target."""
    found = _target(name).versions()
    if not isinstance(found, dict):
        raise InputError(
            f'target {name}: versions() gave {found!r:.80}; it has to give a dictionary, such as {{"library": "1.0"}}'
        )
    return found


if __name__ == "__main__":
    serve({"ask": ask, "versions": versions})
