"""`python -m bench.peers`: refxla beside every framework that is installed, in turns, as a table, JSON and a chart.

    python -m bench.peers                         the whole suite (bench/models), a quarter of an hour
    python -m bench.peers kernels GPT             groups (kernels, science, models), or texts that names hold
    python -m bench.peers --peers jax torch       beside these only
    python -m bench.peers --json FILE --svg FILE  the figures with machine and versions; a chart of speed-ups over JAX
    python -m bench.peers --compile               seconds to the first result: with empty caches, and from refxla's
    python -m bench.peers --memory                peak resident memory, each in a process of its own

Each framework runs in a separate process with the same number of threads, each turn begins with another one, and each
waits for its turn until the machine is idle. Its first results are compared with refxla's; a framework with other
results is not measured. A ratio above 1 means that refxla is faster. Ctrl-C ends the measuring, and shows and writes
the results so far.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from .child import Absent, Child, alone
from .figures import begun
from .frameworks import FRAMEWORKS
from .machine import describe, settle, summary
from .models import Entry, chosen
from .report import console_of_tables, show, write

LONG_S = 20.0  # a slower call is measured once in a turn, and in fewer turns

Cell = dict[str, Any]  # {"median", "best", ...} or {"absent": why}


class Processes:
    """The children, one for each framework, started on demand and again after they ended."""

    def __init__(self, names: list[str], threads: int, limit: float) -> None:
        self.names, self.threads, self.limit = names, threads, limit
        self.children: dict[str, Child] = {}
        self.absent: dict[str, str] = {}
        self.versions: dict[str, str] = {}

    def child(self, name: str) -> Child:
        """Raises Absent if the framework does not load."""
        if name in self.absent:
            raise Absent(self.absent[name])
        if name not in self.children or not self.children[name].alive:
            try:
                self.children[name] = Child(name, self.threads, self.limit)
            except Absent as problem:
                self.absent[name] = str(problem)
                raise
            self.versions.update(self.children[name].versions)
        return self.children[name]

    def close(self) -> None:
        for child in self.children.values():
            child.close()


def speeds(
    processes: Processes, entry: Entry, folder: Path, seconds: float, turns: int, small: bool
) -> Iterator[tuple[str, Any]]:
    """Yields (present activity, None) repeatedly; finally ("", framework -> Cell)."""
    cells: dict[str, Cell] = {}
    ready: dict[str, Child] = {}
    for name in processes.names:
        yield f"{name}: compile", None
        try:
            child = processes.child(name)
            about = child.prepare(entry.name, folder, small)
        except Absent as problem:
            cells[name] = {"absent": str(problem)}
            continue
        cells[name] = dict(about)
        if about["distance"] > entry.bound:
            reason = f"wrong: differs by {about['distance']:.1e} from what came first, above {entry.bound:.0e}"
            cells[name]["absent"] = reason
            continue
        ready[name] = child
    samples: dict[str, list[float]] = {name: [] for name in ready}
    processor = dict.fromkeys(ready, 0.0)
    share = seconds / (turns * max(1, len(ready)))
    order = deque(ready)
    for turn in range(turns):
        for name in [name for name in order if name in ready]:
            yield f"{name}: turn {turn + 1} of {turns}", None
            settle()
            try:
                times, used = ready[name].measure(share)
                samples[name] += times
                cells[name].setdefault("turns", []).append(median(times))
                processor[name] += used
            except Absent as problem:
                cells[name]["absent"] = str(problem)
                del ready[name]
        order.rotate(-1)
        if any(samples[name] and max(samples[name]) > LONG_S for name in ready):
            break
    for name in ready:
        calls = len(samples[name])
        cells[name] |= summary(samples[name]) | {"processor": processor[name] / calls, "calls": calls}
    yield "", cells


def compile_times(processes: Processes, entry: Entry, turns: int, small: bool) -> Iterator[tuple[str, Any]]:
    """The same for the seconds to the first result: over all turns, each with empty caches, the "median" and the
    "best", and "cached" the median with the caches just filled."""
    cells: dict[str, Cell] = {}
    samples: dict[str, dict[str, list[float]]] = {name: {"cold": [], "cached": []} for name in processes.names}
    for turn in range(turns):
        for name in [n for n in processes.names if n not in cells]:
            yield f"{name}: first result, turn {turn + 1} of {turns}", None
            with tempfile.TemporaryDirectory() as caches:
                try:
                    for kind in samples[name] if FRAMEWORKS[name].keeps else ("cold",):
                        record = alone(name, entry.name, caches, small, processes.threads, processes.limit)
                        samples[name][kind].append(record["first"])
                    processes.versions.update(record["versions"])
                except Absent as problem:
                    cells[name] = {"absent": str(problem)}
        if any(max(s["cold"], default=0.0) > LONG_S for s in samples.values()):
            break
    for name in [n for n in processes.names if n not in cells]:
        cold, cached = samples[name]["cold"], samples[name]["cached"]
        cells[name] = {"median": median(cold), "best": min(cold)} | ({"cached": median(cached)} if cached else {})
    yield "", cells


def memories(processes: Processes, entry: Entry, small: bool) -> Iterator[tuple[str, Any]]:
    """The same for the peak of resident memory in bytes; "loaded": the value before the entry."""
    cells: dict[str, Cell] = {}
    for name in processes.names:
        yield f"{name}: memory", None
        try:
            record = alone(name, entry.name, None, small, processes.threads, processes.limit)
            processes.versions.update(record["versions"])
            cells[name] = {"median": record["peak"], "best": record["peak"], "loaded": record["loaded"]}
        except Absent as problem:
            cells[name] = {"absent": str(problem)}
    yield "", cells


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="groups, or texts that entries' names hold; none: all")
    parser.add_argument("--peers", nargs="+", metavar="PEER", choices=list(FRAMEWORKS), help=", ".join(FRAMEWORKS))
    parser.add_argument("--threads", type=int, default=min(2, os.cpu_count() or 1), help="of each framework")
    parser.add_argument("--seconds", type=float, default=3.0, help="of calls, for each entry")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--small", action="store_true", help="small sizes: to see that everything runs")
    measure = parser.add_mutually_exclusive_group()
    measure.add_argument("--compile", action="store_true", help="seconds to the first result")
    measure.add_argument("--memory", action="store_true", help="peak resident memory")
    parser.add_argument("--json", type=Path, help="where to write the figures")
    parser.add_argument("--svg", type=Path, help="where to draw the speed-ups over JAX")
    parser.add_argument("--keep", action="store_true", help="entries that FILE has and that are not named now, stay")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds after which an answer is no longer awaited")
    options = parser.parse_args(arguments)
    try:
        entries = chosen(options.names)
    except ValueError as problem:
        parser.error(str(problem))
    names = list(dict.fromkeys(["refxla", *(options.peers or FRAMEWORKS)]))
    if options.keep and not options.json:
        parser.error("--keep needs --json FILE")
    processes = Processes(names, options.threads, options.limit)
    kind = "compile" if options.compile else "memory" if options.memory else "speed"
    what = {"speed": "seconds of a call", "compile": "seconds to the first result", "memory": "bytes"}[kind]
    try:
        figures = begun("peers", kind, what, options, arguments)
    except ValueError as problem:
        parser.error(str(problem))
    processes.versions = figures["versions"]

    console = console_of_tables()
    with tempfile.TemporaryDirectory() as folder, console.status("") as status:
        try:
            for number, entry in enumerate(entries):
                if kind == "speed":
                    steps = speeds(processes, entry, Path(folder), options.seconds, options.turns, options.small)
                elif kind == "compile":
                    steps = compile_times(processes, entry, options.turns, options.small)
                else:
                    steps = memories(processes, entry, options.small)
                cells: dict[str, Cell] = {}
                load = describe()["load"][0]
                for doing, cells in steps:  # noqa: B007
                    status.update(f"{number + 1} of {len(entries)}: {entry.name}: {doing}")
                figures["entries"][entry.name] = {
                    "group": entry.group,
                    "load": [load, *describe()["load"][:1]],
                    "cells": cells,
                }
                figures["versions"] = processes.versions
                figures["absent"] = processes.absent
                figures["machine"]["load at the end"] = describe()["load"]
                for file in Path(folder).iterdir():
                    file.unlink()
                if options.json:
                    write(figures, options.json)
                if not console.is_terminal:
                    console.print(f"{number + 1} of {len(entries)}: {entry.name}")
        except KeyboardInterrupt:
            console.print("ended by Ctrl-C; what is done:")
        finally:
            processes.close()
    show(figures, names, console)
    if options.svg:
        from .report import picture

        options.svg.write_text(picture(figures))


if __name__ == "__main__":
    main()
