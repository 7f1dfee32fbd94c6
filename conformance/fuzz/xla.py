"""XLA:CPU compared with the reference.

Each program has one of these outcomes:

    agreed       every element of the results keeps the contract
    excused      some do not, and all that is wrong is explained by known differences (differences/)
    unsupported  XLA says that it does not take the program, or
    refused      it refuses it for another reason
    diverged     the rest, a crash among them

Several kinds of excuses are tried, until nothing wrong is left:

  - XLA runs it again without those parts of it that are known to change results (`Difference.without`). If a result
    then keeps the contract, these parts are the reason.
  - XLA runs each instruction that a wrong result depends on separately (steps.py), as a case of the suite. If that is
    excused, or the sign of a NaN affects it, all results that depend on the instruction are.
  - A crash may be that of a whole program, as a case of the kind "program". A program for which XLA ends its process at
    an integer division runs again in a form in which it does not (prepared.guarded).
  - XLA runs it again with the program's constants as arguments.

XLA promises no accuracy. The actual accuracy of its elementary functions was measured by sweeps (sweep/xla_cpu.json),
and the bounds of a program are widened by the ratio by which the worst of its functions exceeds the contract.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

from refxla_conformance.targets.child import ChildDied, ChildError
from refxla_spec.accuracy import max_ulp
from refxla_spec.compare import compare
from refxla_spec.errors import UnsupportedError
from refxla_spec.module import Instruction, Module

from ..case_check import Outcome
from ..case_check import check as check_case
from ..differences import CONSTANTS, DIFFERENCES, Difference
from ..differences.programs import SIGNS
from ..sweep.table import WORST_FILE, read
from ..targets.sized import ImpossibleSizeError
from .differ import Divergence
from .generate import Sample
from .prepared import divides, guarded, lifted, prepared
from .runs import Arrays, Expected, expected
from .steps import cases, needed, sees_sign, steps, whole

if TYPE_CHECKING:
    from ..targets.xla_cpu import XlaCpu

NAME = "xla-cpu"
QUOTIENTS = "integer quotients of constants"
LIMIT = 60.0  # seconds for one program
ALL = tuple(d for d in DIFFERENCES if d.target == NAME and d.without)
REWRITES = tuple(d for d in ALL if d.without != CONSTANTS)


@dataclass(frozen=True)
class Answer:
    """The outcome of a program: `why` are the names of differences, or XLA's message; `died` says that it ended XLA's
    process; `divergence` is that of a diverging one."""

    outcome: str
    why: tuple[str, ...] = ()
    died: bool = False
    divergence: Divergence | None = None


@cache
def target(without: tuple[str, ...] = ()) -> XlaCpu:
    """XLA:CPU with these flags. Raises ModuleNotFoundError if no usable jaxlib is installed."""
    from refxla_conformance.targets.xla_cpu import XlaCpu

    return XlaCpu(LIMIT, " ".join(without))


def check(sample: Sample, reference: Expected | None = None) -> Answer:
    """Runs a program on XLA:CPU. Raises ModuleNotFoundError if no usable jaxlib is installed."""
    reference = _widened(sample.module, reference or expected(sample))
    sample = prepared(sample)
    names: list[str] = []
    died = False
    actual: Arrays | None
    try:
        try:
            actual = _run(sample)
        except ChildDied as error:
            if not divides(sample.module) or "SIGFPE" not in str(error):
                raise
            sample, names, died = guarded(sample), [QUOTIENTS], True
            actual = _run(sample)
        wrong, what = _wrong(reference, actual)
    except UnsupportedError as error:
        return Answer("unsupported", (str(error),), died)
    except ChildError as error:
        return Answer("refused", (str(error),), died)
    except ImpossibleSizeError as error:
        return Answer("diverged", (), died, Divergence(sample.seed, NAME, str(error)))
    except ChildDied as error:
        actual, wrong, what, died = None, set(range(len(reference.values))), str(error), True
    rest = wrong
    if rest:
        rest, more = _rewritten(sample, reference, rest, REWRITES)
        names += more
    if rest:
        explained, more, unexplained = _stepped(sample, rest, actual is None)
        rest, names = rest - explained, [*names, *more]
        what = "; ".join([what, *unexplained])
    if rest and actual is None:
        more = [d.name for d in DIFFERENCES if d.fails and d.touches(whole(sample), NAME)]
        rest, names = (set(), more) if more else (rest, names)
    if rest:
        rest, more = _rewritten(sample, reference, rest, ALL)
        names += more
    if rest:
        raised = "ChildDied" if actual is None else ""
        return Answer("diverged", (), died, Divergence(sample.seed, NAME, what[:2000], raised))
    return Answer("excused", tuple(dict.fromkeys(names)), died) if names else Answer("agreed")


def _run(sample: Sample, without: tuple[str, ...] = ()) -> Arrays:
    """Flags of one name are joined: XLA only uses the last one."""
    flags: dict[str, list[str]] = {}
    for flag in without:
        name, _, value = flag.partition("=")
        flags.setdefault(name, []).append(value)
    backend = target(tuple(f"{name}={','.join(values)}" for name, values in flags.items()))
    return backend.run(sample.module, list(sample.arguments))


def _wrong(reference: Expected, actual: Arrays) -> tuple[set[int], str]:
    """The leaves of the result that break the contract, and how the first one does."""
    what = reference.difference(actual)
    if not what:
        return set(), ""
    wrong = set()
    for n, (g, value, bound) in enumerate(zip(actual, reference.values, reference.bounds, strict=True)):
        if (g.dtype, g.shape) != (value.dtype, value.shape) or compare(g, value, bound)[0].outside:
            wrong.add(n)
    return wrong, what


def _rewritten(
    sample: Sample, reference: Expected, wrong: set[int], candidates: tuple[Difference, ...]
) -> tuple[set[int], list[str]]:
    """The leaves that stay wrong without XLA's known differences, and the names of those that explain the others."""

    def wrong_without(differences: tuple[Difference, ...]) -> set[int]:
        flags = tuple(d.without for d in differences if d.without != CONSTANTS)
        program = lifted(sample) if len(flags) < len(differences) else sample
        try:
            return _wrong(reference, _run(program, flags))[0] & wrong
        except (UnsupportedError, ChildError, ImpossibleSizeError, ChildDied):
            return wrong

    least = wrong_without(candidates)
    if least == wrong:
        return wrong, []
    for d in reversed(candidates):
        if wrong_without((d,)) == least:
            return least, [d.name]
    return least, [d.name for d in candidates]


def _stepped(sample: Sample, wrong: set[int], died: bool) -> tuple[set[int], list[str], list[str]]:
    """Which of these leaves depend on an instruction that is excused by itself; the names of the differences that
    excuse it; and the errors of instructions that are not excused. If a program has no result, the reason is an
    instruction without one, and vice versa."""
    depends = {n: needed(sample.module, n) for n in wrong}
    explained: set[int] = set()
    names: list[str] = []
    unexplained: list[str] = []
    for step in steps(sample):
        if not died and not any(step.entry in depends[n] for n in wrong - explained):
            continue
        if not died and sees_sign(step):
            explained |= {n for n in wrong if step.entry in depends[n]}
            names.append(SIGNS)
            continue
        for case in cases(step):
            verdict = check_case(case, target())
            if verdict.outcome is Outcome.EXCUSED and bool(verdict.got) != died:
                explained |= wrong if died else {n for n in wrong if step.entry in depends[n]}
                names += verdict.differences
                break
            if verdict.outcome is Outcome.FAIL:
                unexplained.append(f"{step.instruction.name} alone: {verdict.reason}")
    return explained, names, unexplained


def _widened(module: Module, reference: Expected) -> Expected:
    by = max((_beyond(i) for i in module.instructions()), default=1.0)
    return replace(reference, bounds=[b * by for b in reference.bounds])


def _beyond(i: Instruction) -> float:
    """By what factor an XLA:CPU function may exceed its bound in the contract, as observed by sweeps; at least 1."""
    element_type = i.operands[0].shape.element_type.name if i.operands else ""
    bound = max_ulp(i.opcode, element_type)
    worst = _worst().get((i.opcode, element_type)) if bound else None
    return 1.0 if worst is None else max(1.0, worst / bound)


@cache
def _worst() -> dict[tuple[str, str], float | None]:
    """The largest errors found by sweeps of XLA:CPU, in ULP."""
    return {(row.opcode, row.type): row.worst for row in read(WORST_FILE.with_name("xla_cpu.json"))}
