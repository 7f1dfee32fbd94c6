"""What many cores would lose on the suite's plans, without having them: to shares that are unequal, or too few.

    python -m bench.many_cores                       the suite, on 2, 8, 32 and 96 cores
    python -m bench.many_cores softmax models        entries, by groups or texts that names hold
    python -m bench.many_cores CNN --cores 96 -v     with the kernels that lose most
    python -m bench.many_cores --json FILE           the raw figures

Each entry is planned for an AVX-512 processor with so many cores. With the cost model's times, each free core takes the
next item of a launch, or of a phase of a persistent kernel; the makespan is the time until the last one is done. The
loss is its excess over equal shares, summed over all launches. Losses that no plan can avoid do not count: that a
launch takes GRAIN_US, below which sharing costs more than it saves, and the launches and barriers themselves. The model
does not include memory, whose bandwidth many cores share.
"""

from __future__ import annotations

import argparse
import heapq
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path

from refxla_spec.text import parse

from refxla.compiler.planning import plan_module
from refxla.device.description import DEFAULT_CPU, Target
from refxla.ir import merged_body as m
from refxla.ir.plan import Branch, Kernel, Launch, LibraryCall, Loop, Plan, Repeat, Step

CORES = (2, 8, 32, 96)
GRAIN_US = 20.0  # the minimum work that emitters give an item, if there is enough
_BY_ONE = 4096  # items that are distributed one by one
_SHOWN = 5  # kernels of an entry


def described(cores: int) -> Target:
    """A processor of so many cores, with AVX-512."""
    features = "avx512f,avx512vl,avx512dq,avx512bw"
    return replace(DEFAULT_CPU, compute_units=cores, bare=True, persistent=True, features=features)


@dataclass(frozen=True)
class Work:
    """Items that may run at the same time: (count, microseconds of each) for each kind, in the order in which they are
    taken; everything `times` times in sequence."""

    kernel: str
    items: tuple[tuple[int, float], ...]
    times: int = 1

    def makespan(self, cores: int) -> float:
        """The microseconds until all items are done, over all repetitions."""
        free = [0.0] * cores
        for count, us in self.items:
            rounds = max(0, (count - _BY_ONE) // cores)  # in each of which every core takes one
            free = [t + rounds * us for t in free]
            for _ in range(count - rounds * cores):
                heapq.heapreplace(free, free[0] + us)
        return self.times * max(free)

    def equal_shares(self, cores: int) -> float:
        """The microseconds if all cores finished together, but at least GRAIN_US unless that is all."""
        us = sum(count * us for count, us in self.items)
        return self.times * max(us / cores, min(us, GRAIN_US))

    def lost(self, cores: int) -> float:
        """The excess of the makespan over equal shares, in microseconds."""
        return max(0.0, self.makespan(cores) - self.equal_shares(cores))


def loss(works: Sequence[Work], cores: int) -> float:
    """The loss relative to the time of equal shares: 0.15 is 15 %."""
    whole = sum(w.equal_shares(cores) for w in works)
    return sum(w.lost(cores) for w in works) / whole if whole else 0.0


def work_of(plan: Plan) -> Iterator[Work]:
    """All work of a call of the plan, in order. A loop of unknown trip count counts as one iteration, a conditional as
    its first branch. A kernel without an estimate is left out."""
    return _work(plan.steps, plan, 1)


def _work(steps: Iterable[Step], plan: Plan, times: int) -> Iterator[Work]:
    for step in steps:
        match step:
            case Launch(number):
                yield from _of_kernel(plan.kernels[number], times)
            case LibraryCall():
                yield Work(step.function, ((step.items, step.us),), times)
            case Loop(condition, _, body):
                yield from _work((*condition, *body), plan, times)
            case Repeat(trip_count, body):
                yield from _work(body, plan, times * trip_count)
            case Branch(_, branches):
                yield from _work(branches[0], plan, times)


def _of_kernel(kernel: Kernel, times: int) -> Iterator[Work]:
    match kernel.body:
        case m.PersistentBody(phases, trip_count):
            for phase in phases:
                yield from _of_phase(phase, kernel, times * trip_count)
        case m.MergedBody(sections, trip_count):
            yield _of_sections(sections, kernel, times * trip_count)
        case _ if kernel.items and kernel.us:
            yield Work(kernel.name, ((kernel.items, kernel.us / kernel.items),), times)


def _of_phase(phase: m.Phase, kernel: Kernel, times: int) -> Iterator[Work]:
    match phase:
        case m.SharedPhase(sections):
            yield _of_sections(sections, kernel, times)
        case m.NestedPhases(call):
            yield from _of_kernel(kernel.calls[call.kernel], times)
        case m.TiledPhase(axes, _, each):
            names = ", ".join(kernel.calls[call.kernel].name for call in each)
            us = sum(kernel.calls[call.kernel].us for call in each)
            yield Work(names, ((prod(axis.count for axis in axes), us),), times)


def _of_sections(sections: Sequence[m.SectionBody], kernel: Kernel, times: int) -> Work:
    called = [[kernel.calls[call.kernel] for call in s.calls] for s in sections]
    names = ", ".join(k.name for kernels in called for k in kernels)
    us = [sum(k.us for k in kernels) for kernels in called]
    return Work(names, tuple((s.units, u / s.units) for s, u in zip(sections, us, strict=True) if s.units), times)


def planned(text: str, cores: int) -> list[Work]:
    """The work of a program, HLO text, planned for so many cores."""
    return list(work_of(plan_module(parse(text), described(cores))[1].plan))


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit status."""
    from .kernel_text import traced
    from .models import chosen

    parser = argparse.ArgumentParser(prog="python -m bench.many_cores", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("names", nargs="*", help="groups, or texts that entries' names hold; none: all")
    parser.add_argument("--cores", nargs="+", type=int, default=CORES, metavar="N", help="2 8 32 96 if not given")
    parser.add_argument("-v", "--verbose", action="store_true", help="show the kernels that lose most")
    parser.add_argument("--json", type=Path, metavar="FILE", help="the raw figures")
    options = parser.parse_args(arguments)
    losses: dict[str, dict[int, float]] = {}
    print(f"{'loss on':24}" + "".join(f"{cores:>5} cores" for cores in options.cores))
    for entry in chosen(options.names):
        text = traced(entry, entry.sizes)
        works = {cores: planned(text, cores) for cores in options.cores}
        losses[entry.name] = {cores: loss(works[cores], cores) for cores in options.cores}
        print(f"{entry.name:24}" + "".join(f"{value:11.0%}" for value in losses[entry.name].values()), flush=True)
        if options.verbose:
            for cores in options.cores:
                for work in sorted(works[cores], key=lambda w: -w.lost(cores))[:_SHOWN]:
                    if work.lost(cores):
                        items = ", ".join(f"{n} of {us:.1f} us" for n, us in work.items)
                        print(f"    {cores} cores lose {work.lost(cores):.0f} us in {work.kernel}: {items}")
    if options.json:
        options.json.write_text(json.dumps(losses, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
