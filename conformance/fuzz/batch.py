"""Many programs at once: each is first compared without a device, then their kernels are built as one program and
compared."""

from __future__ import annotations

import re
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

from refxla_conformance.targets import Target

from refxla._core.executor import Executor
from refxla.ir.plan import Plan

from . import xla
from .compile_time import TIME, superlinear
from .differ import VARIANTS, Cheap, Divergence, Unsupported, attempt, cheap, named, of_target
from .generate import Sample, generate
from .kinds import KINDS, STATIC
from .program_builder import Skip
from .runs import Arrays, Kernels, call, called_again, different_bits, expected

NAMES = re.compile(r"%?\w[\w.]*\.\d+")  # names of instructions in messages about a program
KERNEL_VARIANT = 6  # one program in so many also has the kernels of a variant compared


@dataclass
class Tally:
    """The results of a range of programs; tallies can be added."""

    programs: int = 0
    compared: int = 0  # programs whose kernels ran and were compared
    variants: int = 0  # programs that also had the kernels of a variant compared
    elements: int = 0  # elements of results compared with the reference
    undecided: int = 0  # those of them that the contract does not decide
    unsupported: Counter[str] = field(default_factory=Counter)
    opcodes: Counter[str] = field(default_factory=Counter)
    rules: Counter[str] = field(default_factory=Counter)
    divergences: list[dict[str, Any]] = field(default_factory=list)
    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))  # by stage, of all processes
    xla: Counter[str] = field(default_factory=Counter)  # programs run on XLA:CPU, by outcome
    reasons: Counter[str] = field(default_factory=Counter)  # why these were excused, unsupported or refused

    def add(self, other: Tally) -> None:
        for name in ("programs", "compared", "variants", "elements", "undecided"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in ("unsupported", "opcodes", "rules", "xla", "reasons"):
            getattr(self, name).update(getattr(other, name))
        for stage, seconds in other.seconds.items():
            self.seconds[stage] += seconds
        self.divergences += other.divergences

    def add_divergence(self, divergence: Divergence) -> None:
        self.divergences.append(asdict(divergence))

    def as_json(self) -> dict[str, Any]:
        return {k: dict(v) if isinstance(v, dict) else v for k, v in vars(self).items()}

    @staticmethod
    def of_json(data: dict[str, Any]) -> Tally:
        tally = Tally(**{k: v for k, v in data.items() if not isinstance(v, dict)})
        for name, counts in data.items():
            if isinstance(counts, dict):
                vars(tally)[name].update(counts)
        return tally


@dataclass
class _Part:
    """A plan whose kernels are built with those of others."""

    sample: Sample
    result: Cheap
    plan: Plan
    without: tuple[str, ...] = ()


def run(
    first: int,
    count: int,
    kernels: Kernels | None,
    every: int = 0,
    kernel_every: int = 1,
    kind: str = STATIC,
    sizes: Sequence[int] | None = None,
) -> Tally:
    """The programs with the seeds from `first` on; without `kernels`, on no device.

    One in `kernel_every` has its kernels built and compared, and one in `every` runs on XLA:CPU (0: none). `kind` is
    one of KINDS. `sizes` are those of dimensions (generate.py), for STATIC.
    """
    tally, parts = Tally(), []
    clock = _Clock(tally)
    for seed in range(first, first + count):
        tally.programs += 1
        try:
            sample = generate(seed, sizes=sizes) if sizes else KINDS[kind].generate(seed)
        except Skip as none:
            tally.unsupported[reason(str(none))] += 1
            continue
        finally:
            clock.lap("generate")
        tally.rules.update(sample.used)
        tally.opcodes.update({i.opcode for i in sample.module.instructions()})
        result = cheap(sample)
        clock.lap("compare plans")
        if result.divergence:
            tally.add_divergence(result.divergence)
            continue
        if result.unsupported:
            tally.unsupported[reason(result.unsupported)] += 1
            continue
        tally.elements += result.wanted.elements
        tally.undecided += result.wanted.undecided
        if KINDS[kind].timed:
            divergence = attempt(seed, TIME, partial(superlinear, sample))
            if divergence:
                tally.add_divergence(divergence)
            clock.lap("compare times")
        if every and seed % every == 0:
            _put_to_xla(sample, result, tally)
            clock.lap("XLA")
        if kernels is not None and seed % kernel_every == 0:
            parts += _planned(sample, result, kernels, tally)
            clock.lap("generate kernels")
    if kernels is not None:
        _built(parts, kernels, tally, clock)
    return tally


def run_on_target(first: int, count: int, target: Target, kind: str = STATIC) -> Tally:
    """The programs with the seeds from `first` on, on a target of the suite."""
    tally = Tally()
    for seed in range(first, first + count):
        tally.programs += 1
        try:
            sample = KINDS[kind].generate(seed)
            reference = expected(sample)
            divergence = of_target(sample, target, reference)
        except (Skip, Unsupported) as none:
            tally.unsupported[reason(str(none))] += 1
            continue
        tally.rules.update(sample.used)
        tally.opcodes.update({i.opcode for i in sample.module.instructions()})
        tally.compared += 1
        tally.elements += reference.elements
        tally.undecided += reference.undecided
        if divergence:
            tally.add_divergence(divergence)
    return tally


def _put_to_xla(sample: Sample, result: Cheap, tally: Tally) -> None:
    answer = xla.check(sample, result.wanted)
    tally.xla[answer.outcome] += 1
    tally.xla["ended its process"] += answer.died
    for why in answer.why:
        tally.reasons[f"{answer.outcome}: {NAMES.sub('*', ' '.join(why.split()))[:100]}"] += 1
    if answer.divergence:
        tally.add_divergence(answer.divergence)


def reason(message: str) -> str:
    """The unsupported feature, without names from the program."""
    _, _, rest = message.partition(": ")
    return NAMES.sub("*", rest.split(";")[0].split("(")[0].strip())[:80] or message[:80]


class _Clock:
    """Adds the time since the last lap to a stage of the tally."""

    def __init__(self, tally: Tally) -> None:
        self.tally, self.last = tally, time.perf_counter()

    def lap(self, stage: str) -> None:
        now = time.perf_counter()
        self.tally.seconds[stage] += now - self.last
        self.last = now


def _planned(sample: Sample, result: Cheap, kernels: Kernels, tally: Tally) -> list[_Part]:
    """The plan of a program, and for some that of a variant."""
    parts: list[_Part] = []

    def plan(without: tuple[str, ...]) -> str:
        parts.append(_Part(sample, result, kernels.plan(sample, without), without))
        return ""

    variants: list[tuple[str, ...]] = [()]
    if sample.seed % KERNEL_VARIANT == 0:
        variants.append(VARIANTS[sample.seed // KERNEL_VARIANT % len(VARIANTS)])
    for without in variants:
        check = f"kernels without {named(without)}" if without else "kernels"
        try:
            divergence = attempt(sample.seed, check, partial(plan, without))
        except Unsupported as problem:
            tally.unsupported[reason(str(problem))] += not without
            break
        if divergence:
            tally.add_divergence(divergence)
            break
    return parts


def _built(parts: Sequence[_Part], kernels: Kernels, tally: Tally, clock: _Clock) -> None:
    """Builds, runs and compares. A build that fails is split in halves, until it is one program's."""
    if not parts:
        return
    try:
        executables = kernels.executables([part.plan for part in parts])
    except Exception as error:
        clock.lap("build")
        if len(parts) > 1:
            middle = len(parts) // 2
            _built(parts[:middle], kernels, tally, clock)
            _built(parts[middle:], kernels, tally, clock)
        else:
            what = f"{type(error).__name__}: {error}"[:2000]
            tally.add_divergence(Divergence(parts[0].sample.seed, "kernels", what, type(error).__name__))
        return
    clock.lap("build")
    results: dict[int, Arrays] = {}
    for part, executable in zip(parts, executables, strict=True):
        seed = part.sample.seed
        if part.without:
            if seed in results:
                tally.variants += 1

                def same_bits(part: _Part = part, executable: Executor = executable) -> str:
                    return different_bits(results[part.sample.seed], call(executable, part.sample))

                divergence = attempt(seed, f"kernels without {named(part.without)}", same_bits)
                if divergence:
                    tally.add_divergence(divergence)
            continue

        def compared(part: _Part = part, executable: Executor = executable) -> str:
            actual = call(executable, part.sample)
            results[part.sample.seed] = actual
            return part.result.wanted.difference(actual)

        def again(part: _Part = part, executable: Executor = executable) -> str:
            return called_again(executable, part.sample, results[part.sample.seed])

        tally.compared += 1
        divergence = attempt(seed, "kernels", compared) or attempt(seed, "kernels again", again)
        if divergence:
            tally.add_divergence(divergence)
            results.pop(seed, None)
    clock.lap("run kernels")
