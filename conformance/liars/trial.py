"""Liars run through the tools that have to catch them: the suite, `--check` and the fuzzer.

A liar is caught when one of its results is judged wrong. An exception is no proof: a lie is not meant to raise one, so
such a program is ignored. Programs with the right results, bit by bit, are not counted: the bug does not show in them.
All liars run one program before the next one, so that the reference runs once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from refxla_spec.compare import bits_equal
from refxla_spec.errors import InputError
from refxla_spec.types import Value
from refxla_spec.verdicts import Verdict, verdicts

from ..case_check import CHANGES_ARGUMENTS, CHANGES_RESULTS, Outcome, asked, check, check_many
from ..cases import Case
from ..fuzz import differ, runs
from ..fuzz.dynamic import generate_dynamic
from ..fuzz.generate import Sample, generate
from ..targets import Misconduct, Target
from ..targets.reference import Reference
from .liar import Liar

BATCH = 16  # cases that are run in one go, as the suite's workers do
Trials = dict[str, "Trial"]  # by the names of liars
_Result = TypeVar("_Result")


@dataclass
class Trial:
    """The result of a liar with one tool: in how many programs its lie shows, up to the first in which it is `caught`
    ("" if in none), `why` it is caught there, and the first that shows it and lets it pass."""

    shown: int = 0
    caught: str = ""
    why: str = ""
    passed: str = ""

    def show(self, name: str, why: str) -> None:
        """Counts a program in which the lie shows, with the tool's message ("" for none)."""
        self.shown += 1
        if why and not self.caught:
            self.caught, self.why = name, why
        if not why and not self.passed:
            self.passed = name


def suite(liars: Sequence[Liar], cases: Iterable[Case]) -> Trials:
    """Runs each liar on the cases until one fails; liars that are wrong everywhere run on all of them."""
    targets, trials = {q.name: q.target() for q in liars}, {q.name: Trial() for q in liars}
    for batch in _batches(cases, BATCH):
        if not _left(liars, trials):
            break
        for liar in _left(liars, trials):
            if type(targets[liar.name]).run_many is not Target.run_many:
                _in_company(batch, targets[liar.name], trials[liar.name])
        for case in batch:
            opcodes = set() if case.is_negative else {i.opcode for i in case.module.instructions()}
            right = () if case.is_negative else _quietly(_answer, Reference(), case)
            for liar in _left(liars, trials):
                if liar.verifier and (case.is_negative or case.kind == "example"):
                    _verified(case, targets[liar.name], trials[liar.name])
                elif not liar.verifier and not case.is_negative and liar.touches(opcodes):
                    _one_case(case, targets[liar.name], trials[liar.name], right)
    return trials


def _verified(case: Case, target: Target, trial: Trial) -> None:
    verdict = check(case, target)
    if verdict.outcome is Outcome.FAIL:
        trial.show(case.name, verdict.reason)


def _one_case(case: Case, target: Target, trial: Trial, right: Value) -> None:
    verdict = check(case, target)
    if verdict.outcome is Outcome.FAIL:
        if verdict.got or verdict.reason in (CHANGES_ARGUMENTS, CHANGES_RESULTS):
            trial.show(case.name, verdict.reason)
    elif verdict.outcome is Outcome.PASS:
        actual = _quietly(_answer, target, case)
        if not isinstance(actual, Exception) and not bits_equal(actual, right):
            trial.show(case.name, "")


def _in_company(cases: Sequence[Case], target: Target, trial: Trial) -> None:
    for verdict in check_many([c for c in cases if not c.is_negative], target):
        if verdict.outcome is Outcome.FAIL and not trial.caught:
            trial.show(verdict.case, verdict.reason)


def checked(liars: Sequence[Liar], cases: Iterable[Case]) -> Trials:
    """Checks each liar's results of the cases' programs as `refxla run --check` does: the verdict on each element,
    after a call with other arguments."""
    targets, trials = {q.name: q.target() for q in liars}, {q.name: Trial() for q in liars}
    for case in cases:
        if not _left(liars, trials):
            break
        opcodes = {i.opcode for i in case.module.instructions()}
        again = replace(case, before=(*case.before, flipped(case.inputs)))
        right = _quietly(_answer, Reference(), case)
        for liar in [q for q in _left(liars, trials) if q.touches(opcodes)]:
            actual = _quietly(_answer, targets[liar.name], again)
            if isinstance(actual, Misconduct):
                trials[liar.name].show(case.name, str(actual))
            elif not isinstance(actual, Exception) and not bits_equal(actual, right):
                message = _said_by_check(case, actual)
                if message is not None:
                    trials[liar.name].show(case.name, message)
    return trials


def _said_by_check(case: Case, actual: Sequence[np.ndarray]) -> str | None:
    """The message of --check about results: None if those of their elements that differ from the reference's are
    undecided."""
    try:
        report = verdicts(case.module, case.inputs, actual)
    except InputError as error:  # types or dimensions that are not those of the program
        return str(error)
    if report.broken:
        return "; ".join(f"out{n} is {report.results[n].verdict.name.lower()}" for n in report.broken)
    other = [v for v in report.results if not v.same.all()]
    return None if all((v.codes[~v.same] == Verdict.UNDECIDED).all() for v in other) else ""


def flipped(value: Value) -> Value:
    """Other arguments of the same types and dimensions: each array reversed."""
    if isinstance(value, tuple):
        return tuple(flipped(v) for v in value)
    return None if value is None else np.flip(value).copy()


def fuzzed(liars: Sequence[Liar], seeds: Iterable[int]) -> Trials:
    """Runs each liar on random programs, as `refxla-conformance fuzz --target` does; on one in ten of them also with
    dynamic shapes, as with `--dynamic`."""
    targets, trials = {q.name: q.target() for q in liars}, {q.name: Trial() for q in liars}
    for name, sample in _samples(seeds):
        if not _left(liars, trials):
            break
        opcodes = {i.opcode for i in sample.module.instructions()}
        reference: runs.Expected | Exception | None = None
        for liar in [q for q in _left(liars, trials) if q.touches(opcodes)]:
            reference = _quietly(runs.expected, sample) if reference is None else reference
            if isinstance(reference, Exception):
                break
            divergence = differ.of_target(sample, targets[liar.name], reference)
            if divergence is not None and not divergence.raised:
                trials[liar.name].show(name, divergence.what)
    return trials


def _samples(seeds: Iterable[int]) -> Iterator[tuple[str, Sample]]:
    for seed in seeds:
        generators = {f"seed {seed}": generate} | (
            {f"seed {seed} --dynamic": generate_dynamic} if seed % 10 == 0 else {}
        )
        for name, make in generators.items():
            sample = _quietly(make, seed)
            if isinstance(sample, Sample):
                yield name, sample


def _left(liars: Sequence[Liar], trials: Trials) -> list[Liar]:
    return [q for q in liars if not trials[q.name].caught or q.everywhere]


def _batches(cases: Iterable[Case], size: int) -> Iterator[list[Case]]:
    batch: list[Case] = []
    for case in cases:
        batch.append(case)
        if len(batch) == size:
            yield batch
            batch = []
    yield batch


def _answer(target: Target, case: Case) -> tuple[np.ndarray, ...]:
    return tuple(asked(target, case))


def _quietly(action: Callable[..., _Result], *arguments: Any) -> _Result | Exception:
    """The result of the action for these arguments, or the exception that it raises."""
    try:
        with np.errstate(all="ignore"):
            return action(*arguments)
    except Exception as error:
        return error
