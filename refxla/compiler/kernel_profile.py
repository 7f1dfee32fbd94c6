"""How long each kernel of a program takes in a call, with the cost model's time for comparison.

Small kernels share launches (scheduling/launch_merging.py), and only launches can be timed. So a program has two
executables: one as compiled, and one with a launch for each kernel. Both compute the same bits from the same arguments.
The executor records when each step begins and ends (_core/executor.pyx), and waits for each, unlike in a normal call. A
device with its own memory reports when its kernels begin and end.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from refxla_spec.errors import plural

from .._core.array import Array
from .._core.plan_code import STEPS
from ..analysis.cost_analysis import bytes_text, fusion_cost
from ..ir.plan import Kernel, LibraryCall, Plan, all_steps
from ..runtime.executable import Executable
from .explanation import Explanation

MOST_EVENTS = 1 << 20  # steps of a call that are recorded
LEAST_CALLS = 3


@dataclass(frozen=True)
class StepTime:
    """The launches of a kernel in one call (or the copies, library calls, or calls of host functions).

    `kind` is that of the fusion ("loop", "reduction", "dot", ...), "merged" for a launch of several kernels, or that of
    the step. `count` is how often it ran, `items` the work items of a launch. `seconds` is the least total time of all
    of them in a call; `model` the cost model's for one core, in seconds, None if it has none. `bytes` and `operations`
    are what all of them must move and compute (for a fusion of several kernels, its last one).
    """

    name: str
    kind: str
    count: int
    items: int
    seconds: float
    model: float | None
    bytes: int
    operations: int
    does: str = ""

    @property
    def gigabytes_per_second(self) -> float:
        return self.bytes / self.seconds / 1e9

    @property
    def gigaoperations_per_second(self) -> float:
        return self.operations / self.seconds / 1e9


@dataclass(frozen=True)
class Timeline:
    """The steps of one executable: their times, the longest first; the steps of the fastest call one by one (`events`:
    name, beginning and end in nanoseconds), of which there were `total`; and the seconds of an untraced call."""

    steps: tuple[StepTime, ...]
    events: tuple[tuple[str, int, int], ...]
    total: int
    seconds: float

    @property
    def traced(self) -> float:
        """The seconds of all steps."""
        return sum(step.seconds for step in self.steps)


@dataclass(frozen=True)
class Profile:
    """A program's kernels, each as a launch of its own (`kernels`), and its launches as compiled (`launches`); the same
    if none are merged. Prints as a table; `trace` exports it for Perfetto and Chrome."""

    name: str
    device: str
    launches: Timeline
    kernels: Timeline

    HEAD = ("kernel", "us", "share", "times", "model us", "moves", "GB/s", "Gop/s")

    def rows(self, timeline: Timeline) -> Iterator[tuple[str, ...]]:
        """A line for each step, with the columns of HEAD; unknown values are empty."""
        for s in timeline.steps:
            yield (
                s.name,
                f"{s.seconds * 1e6:,.2f}",
                f"{s.seconds / timeline.traced:.0%}",
                f"{s.count:,}",
                "" if s.model is None else f"{s.model * 1e6:,.2f}",
                bytes_text(s.bytes) if s.bytes else "",
                f"{s.gigabytes_per_second:.1f}" if s.bytes else "",
                f"{s.gigaoperations_per_second:.1f}" if s.operations else "",
            )

    def titles(self) -> tuple[str, str]:
        """A sentence for the launches, and one for the kernels."""
        launches, kernels = self.launches, self.kernels
        ran = f"{launches.total:,} step{'s' * (launches.total != 1)}"
        return (
            f"{self.name}: {launches.seconds * 1e6:,.1f} us a call on {self.device}, {ran}",
            f"each kernel a launch: {kernels.seconds * 1e6:,.1f} us a call, {plural(len(kernels.steps), 'kernel')}",
        )

    @property
    def is_merged(self) -> bool:
        """Whether launches differ from kernels."""
        return self.launches is not self.kernels

    def __str__(self) -> str:
        first, second = self.titles()
        lines = [first, *_columns([self.HEAD, *self.rows(self.launches)])]
        if self.is_merged:
            lines += ["", second, *_columns([self.HEAD, *self.rows(self.kernels)])]
        return "\n".join(lines)

    def trace(self) -> dict[str, object]:
        """The steps of a call in the format of Chrome's trace viewer, which Perfetto (ui.perfetto.dev) opens."""
        events: list[dict[str, Any]] = []
        threads = [("as compiled", self.launches)] + [("each kernel a launch", self.kernels)] * self.is_merged
        for thread, (title, timeline) in enumerate(threads, 1):
            events.append({"name": "thread_name", "ph": "M", "pid": 1, "tid": thread, "args": {"name": title}})
            first = timeline.events[0][1] if timeline.events else 0
            about = {s.name: s for s in timeline.steps}
            for name, begin, end in timeline.events:
                s = about[name]
                details = {"kind": s.kind, "items": s.items, "does": s.does, "bytes": s.bytes // s.count}
                arguments = {k: v for k, v in details.items() if v}
                if s.model is not None:
                    arguments["model_us"] = round(s.model / s.count * 1e6, 3)
                events.append(
                    {"name": name, "cat": s.kind, "ph": "X", "pid": 1, "tid": thread, "ts": (begin - first) / 1e3,
                     "dur": (end - begin) / 1e3, "args": arguments}
                )  # fmt: skip
        process = {"name": "process_name", "ph": "M", "pid": 1, "args": {"name": f"{self.name} on {self.device}"}}
        return {"traceEvents": [process, *events], "displayTimeUnit": "ms"}


def _columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of text: the first column left-aligned, the others right-aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join([row[0].ljust(widths[0]), *(t.rjust(w) for t, w in zip(row[1:], widths[1:], strict=True))]).rstrip()
        for row in rows
    ]


def timeline(executable: Executable, explanation: Explanation, arguments: Sequence[Any], seconds: float) -> Timeline:
    """The steps of an executable's calls with these flattened arguments, for about so many seconds; `explanation` is
    that of its plan. Raises InputError for arguments that do not fit."""
    _, _, total = executable.traced(arguments, 0)
    room = min(total, MOST_EVENTS)
    best: dict[tuple[int, int], int] = {}
    counts: dict[tuple[int, int], int] = {}
    shortest: np.ndarray | None = None
    begin, calls = time.perf_counter(), 0
    while calls < LEAST_CALLS or time.perf_counter() - begin < seconds / 2:
        _, events, total = executable.traced(arguments, room)
        calls += 1
        for key, spent, count in _sums(events):
            best[key], counts[key] = min(spent, best.get(key, spent)), count
        if shortest is None or (len(events) and _length(events) < _length(shortest)):
            shortest = events
    assert shortest is not None  # there was a call
    begin, plain = time.perf_counter(), float("inf")
    while plain == float("inf") or time.perf_counter() - begin < seconds / 2:
        before = time.perf_counter()
        wait_for(Executable.__call__(executable, *arguments))
        plain = min(plain, time.perf_counter() - before)
    by_key = {key: _step(key, best[key] / 1e9, counts[key], executable.plan, explanation) for key in best}
    steps = sorted(by_key.values(), key=lambda step: -step.seconds)
    rows = [(by_key[kind, number].name, start, end) for kind, number, start, end in shortest.tolist()]
    return Timeline(tuple(steps), tuple(rows), total, plain)


def wait_for(results: Any) -> tuple[Any, ...]:
    """The results of a call, when they are ready: a call with Arrays returns earlier."""
    arrays: tuple[Any, ...] = results if isinstance(results, tuple) else (results,)
    for array in arrays:
        if isinstance(array, Array):
            array.block_until_ready()
    return arrays


def _length(events: np.ndarray) -> int:
    return int(events[-1, 3] - events[0, 2]) if len(events) else 0


def _sums(events: np.ndarray) -> Iterator[tuple[tuple[int, int], int, int]]:
    """For each kind and number of step: the total nanoseconds, and the count."""
    if len(events):
        keys, places = np.unique(events[:, :2], axis=0, return_inverse=True)
        spent = np.bincount(places.reshape(-1), events[:, 3] - events[:, 2])
        counts = np.bincount(places.reshape(-1))
        for (kind, number), ns, count in zip(keys.tolist(), spent, counts, strict=True):
            yield (kind, number), int(ns), int(count)


def _step(key: tuple[int, int], seconds: float, count: int, plan: Plan, explanation: Explanation) -> StepTime:
    kind, number = STEPS[key[0]], key[1]
    seconds = max(seconds, 1e-9)  # a clock may not have advanced
    if kind == "kernel":
        return _kernel(plan.kernels[number], seconds, count, explanation)
    if kind == "copy":
        moved = 2 * plan.buffers[number].bytes * count
        return StepTime(f"copy to {plan.buffers[number].name}", kind, count, 0, seconds, None, moved, 0)
    if kind == "library":
        call = [s for s in all_steps(plan.steps) if isinstance(s, LibraryCall) and s.items > 0][number]
        model = call.us * call.items * count / 1e6
        return StepTime(f"{call.function} (call {number})", kind, count, call.items, seconds, model, 0, 0)
    return StepTime(f"host function {number}", kind, count, 0, seconds, None, 0, 0)


def _kernel(kernel: Kernel, seconds: float, count: int, explanation: Explanation) -> StepTime:
    model = kernel.us * count / 1e6 if kernel.us else None
    if kernel.calls:
        parts = list(dict.fromkeys(part.name for part in kernel.parts()))
        return StepTime(kernel.name, "merged", count, kernel.items, seconds, model, 0, 0, ", ".join(parts))
    fusion = explanation.fusion_of(kernel)
    if fusion is None:
        return StepTime(kernel.name, "copy", count, kernel.items, seconds, model, 0, 0)
    moved = operations = 0
    if explanation.kernels_of(fusion)[-1].name == kernel.name:
        cost = fusion_cost(fusion)
        moved, operations = (cost.bytes_read + cost.bytes_written) * count, cost.operations * count
    does = explanation.operations(fusion)
    return StepTime(kernel.name, fusion.kind, count, kernel.items, seconds, model, moved, operations, does)
