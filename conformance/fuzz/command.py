"""refxla-conformance fuzz: random programs, compared in every way, until the count or the time is reached."""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import re
import selectors
import time
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import Any

from refxla_conformance.targets.child import Child, ChildDied, ChildError, ChildTimedOut
from refxla_spec.errors import Error, InputError
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from refxla.files import make_folder

from ..arguments import output_file, output_folder, positive, whole
from ..console import standard_output
from .batch import Tally
from .differ import PROCESS, Divergence
from .kinds import DYNAMIC, KINDS, SIZED, STATIC
from .record import record

LIMIT = 600.0  # seconds for a batch
CHECKED_MALLOC = "libc_malloc_debug.so.0"  # of glibc from 2.34 on; it slows programs down by a twentieth
EXPLAIN = 60.0  # seconds to reduce a divergence


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("--count", type=whole(0), help="programs to run (default 1000, or no limit with --time)")
    parser.add_argument("--time", type=positive, metavar="MINUTES", help="time limit in minutes")
    parser.add_argument("--seed", type=whole(0), help="the number of the first program (default: from the clock)")
    parser.add_argument("-j", type=whole(0), default=0, metavar="N", help="processes (default: one for each core)")
    parser.add_argument("--device", help="the compiler's device (default: the default one)")
    parser.add_argument(
        "--kernels", type=whole(1), default=2, metavar="N", help="build the kernels of every N-th program (default: 2)"
    )
    parser.add_argument("--no-kernels", action="store_true", help="compare only plans: build nothing for a device")
    parser.add_argument("--xla", type=whole(0), default=0, metavar="N", help="also run every N-th program on XLA:CPU")
    parser.add_argument(
        "--target", metavar="T", help="run the programs on a target of the suite instead, such as xla-cpu"
    )
    parser.add_argument("--invalid", action="store_true", help="invalid programs instead: nothing may crash")
    parser.add_argument("--dynamic", action="store_true", help="programs with dynamic shapes (f32[<=4]) instead")
    parser.add_argument(
        "--sized",
        action="store_true",
        help="programs of unusual size and form instead: hundreds of parameters, results, loops, branches, ...",
    )
    parser.add_argument(
        "--planted", action="store_true", help="find the bugs of known_bugs.py instead, one after another"
    )
    parser.add_argument(
        "--keep", type=whole(0), default=10, metavar="N", help="number of divergences to reduce (default: 10)"
    )
    parser.add_argument(
        "--out",
        type=output_folder,
        default=Path("fuzz"),
        metavar="DIR",
        help="directory for divergences (default: fuzz/)",
    )
    parser.add_argument("--results", type=output_file, metavar="FILE", help="write the results as JSON, continuously")
    parser.add_argument("--resume", action="store_true", help="continue after the results in FILE")
    parser.add_argument(
        "--replay",
        type=Path,
        metavar="FILE",
        help="run a recorded divergence again, as recorded or on --target or --device",
    )


def main(options: argparse.Namespace) -> int:
    """Runs the command; 0 if no program diverged, 1 if one did. Raises Error for invalid arguments."""
    console = standard_output(highlight=True)
    if options.replay:
        return _replay(options, console)
    if options.planted:
        from .known_bugs import report

        return report(console)
    return Session(options, console).run()


def _replay(options: argparse.Namespace, console: Console) -> int:
    from .differ import Unsupported
    from .record import replay
    from .worker import kernels

    try:
        now, why = replay(options.replay, lambda: kernels(options.device), options.target)
    except Unsupported as problem:
        console.print(f"{options.replay}: is not taken any more: {problem}", markup=False, soft_wrap=True)
        return 0
    if now is None:
        console.print(f"{options.replay}: does not differ any more", markup=False)
        return 0
    console.print(f"{options.replay}: {now.check}: {now.what}\ncause: {why}", markup=False, highlight=False)
    return 1


@dataclass
class Session:
    """One run of the command: its work, its processes, and its results."""

    options: argparse.Namespace
    console: Console
    tally: Tally = field(default_factory=Tally)
    next: int = 0  # the next program's number
    first: int = 0
    last: int | None = None  # where to stop
    waiting: list[tuple[int, int]] = field(default_factory=list)  # (first, count) of batches to repeat
    busy: dict[Child, tuple[int, int]] = field(default_factory=dict)  # the batches in progress
    crashes: dict[tuple[int, int], str] = field(default_factory=dict)  # how a process ended on a batch of several
    records: list[str] = field(default_factory=list)

    @property
    def kind(self) -> str:
        """The kind of the programs."""
        return SIZED if self.options.sized else DYNAMIC if self.options.dynamic else STATIC

    def run(self) -> int:
        """Runs all batches, then explains the divergences; the exit status."""
        o = self.options
        if o.resume and o.results is None:
            raise InputError("--resume goes on where a file ends: name it with --results FILE")
        if o.out.exists():
            make_folder(o.out)  # this rejects a file, before there is anything to write
        self.first = o.seed if o.seed is not None else int(time.time()) % 10**9 * 1000
        self.next = self.first
        if o.resume and o.results.exists():
            self._load()
        count = o.count if o.count is not None else (None if o.time else 1000)
        self.last = None if count is None else self.first + count
        self.console.print(f"seed {self.first}")
        started = time.monotonic()
        until = started + o.time * 60 if o.time else float("inf")
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
                   TimeRemainingColumn())  # fmt: skip
        with Progress(*columns, console=self.console, transient=True) as progress:
            task = progress.add_task("programs", total=count, completed=self.tally.programs)

            def shown() -> None:
                note = f", {len(self.tally.divergences)} diverge" if self.tally.divergences else ""
                progress.update(task, completed=self.tally.programs, description=f"programs{note}")
                self._save()

            self._batches(until, shown)
        self._explain()
        self._save()
        self._report(time.monotonic() - started)
        return 1 if self.tally.divergences else 0

    def _batches(self, until: float, shown: Any) -> None:
        """Keeps every process busy until the end; a batch whose process dies is repeated in halves."""
        jobs = self.options.j or os.cpu_count() or 1
        idle = [_child() for _ in range(jobs)]
        busy = self.busy
        try:
            self._make_ready(idle[-1])
            while busy or self._more(until):
                while idle and self._more(until):
                    child, work = idle.pop(), self._take()
                    child.send("run", *work, self._settings(), limit=LIMIT)
                    busy[child] = work
                for child in _ready(list(busy)):
                    work = busy.pop(child)
                    self._receive(child, work)
                    idle.append(child)
                    shown()
        finally:
            for child in (*idle, *busy):
                child.close()
        self._crashes_in_company()

    def _make_ready(self, child: Child) -> None:
        """Raises InputError if a target of the programs is not available: no program is to blame for that."""
        try:
            child.ask("ready", self._settings(), limit=LIMIT)
        except InputError:
            raise
        except (Error, ChildDied, ChildError) as problem:
            o = self.options
            what = f"target {o.target}" if o.target else "XLA:CPU or the device" if o.xla else "the device"
            raise InputError(f"{what} cannot be asked: {problem}") from None

    def _settings(self) -> dict[str, Any]:
        o = self.options
        return {
            "device": o.device,
            "kernels": 0 if o.no_kernels else o.kernels,
            "invalid": o.invalid,
            "kind": self.kind,
            "xla": o.xla,
            "target": o.target,
        }

    def _more(self, until: float) -> bool:
        return bool(self.waiting) or (time.monotonic() < until and (self.last is None or self.next < self.last))

    def _take(self) -> tuple[int, int]:
        if self.waiting:
            return self.waiting.pop()
        batch = KINDS[self.kind].batch
        count = batch if self.last is None else min(batch, self.last - self.next)
        self.next += count
        return self.next - count, count

    def _receive(self, child: Child, work: tuple[int, int]) -> None:
        first, count = work
        try:
            self.tally.add(Tally.of_json(child.receive()))
        except (ChildDied, ChildError, Error) as problem:
            if count > 1:
                self.waiting += [(first, count // 2), (first + count // 2, count - count // 2)]
                if not isinstance(problem, ChildTimedOut):
                    self.crashes[work] = str(problem)
                return
            self.tally.programs += 1
            self.tally.add_divergence(Divergence(first, PROCESS, str(problem)[:2000], type(problem).__name__))

    def _crashes_in_company(self) -> None:
        """A divergence for each batch whose process ended, but neither on a half of it nor on a single program."""
        ended = {d["seed"] for d in self.tally.divergences if d["check"] == PROCESS}
        for (first, count), problem in self.crashes.items():
            within = range(first, first + count)
            smaller = (f in within and n < count for f, n in self.crashes)
            if not any(seed in within for seed in ended) and not any(smaller):
                which = f"programs {first} to {first + count - 1} one after the other"
                what = f"{problem} on {which}, and on no half of them"
                self.tally.add_divergence(Divergence(first, PROCESS, what[:2000], ChildDied.__name__))

    def _explain(self) -> None:
        """Reduces the first divergences of each check, and saves them."""
        o = self.options
        chosen = _various(self.tally.divergences, o.keep)
        if not chosen:
            return
        make_folder(o.out)
        child = _child()
        for divergence in chosen:
            path = o.out / f"{divergence['seed']}-{_as_file_name(divergence['check'])}.hlo"
            with self.console.status(f"reducing {divergence['seed']}"):
                try:
                    text = child.ask("explain", divergence, o.device, EXPLAIN, self.kind, limit=LIMIT)
                except (ChildDied, ChildError, Error) as problem:
                    text = self._unexplained(Divergence(**divergence), str(problem))
            path.write_text(text)
            self.records.append(str(path))
            heads = [line for line in text.splitlines() if line.startswith(("// differs", "// cause"))]
            self.console.print("\n".join([f"{path}", *(h[:300] for h in heads)]), markup=False, highlight=False)
        child.close()

    def _unexplained(self, divergence: Divergence, why: str) -> str:
        """The record of a divergence whose program ends its process again: all of the program."""
        if self.options.invalid:
            return f"// seed: {divergence.seed}\n// check: {divergence.check}\n// {why}\n"
        sample = KINDS[self.kind].generate(divergence.seed)
        return record(sample, divergence, why)

    def _save(self) -> None:
        if self.options.results is not None:
            pending = [*self.waiting, *self.busy.values()]
            data = {"seed": self.first, "next": self.next, "waiting": pending, "tally": self.tally.as_json(),
                    "records": self.records}  # fmt: skip
            partial = self.options.results.with_suffix(".part")
            partial.write_text(json.dumps(data, indent=1))
            partial.replace(self.options.results)

    def _load(self) -> None:
        path = self.options.results
        try:
            data = json.loads(path.read_text())
            self.tally = Tally.of_json(data["tally"])
            self.first, self.next = data["seed"], data["next"]
            self.waiting = [(first, count) for first, count in data["waiting"]]  # the batches in progress are repeated
        except OSError as problem:
            raise InputError(f"cannot read {path}: {problem.strerror}") from None
        except (ValueError, LookupError, TypeError):
            raise InputError(f"{path} is no file of results; name one that --results has written") from None

    def _report(self, seconds: float) -> None:
        t = self.tally
        rows = {
            "programs": f"{t.programs}, {t.programs / max(seconds, 1e-9):.0f} a second",
            "diverge": len(t.divergences),
            "compared on the device": f"{t.compared}, of these with passes left out {t.variants}",
            "elements compared": f"{t.elements}, of these undecided {t.undecided}",
            "unsupported": f"{sum(t.unsupported.values())}: "
            + ", ".join(f"{n} {what}" for what, n in t.unsupported.most_common(5)),
            "operations met": len(t.opcodes),
            "XLA:CPU": ", ".join(f"{n} {what}" for what, n in t.xla.most_common()) or "not asked",
            **{f"  {why}": n for why, n in t.reasons.most_common(20)},
            "seconds by stage": ", ".join(
                f"{k} {v:.0f}" for k, v in sorted(t.seconds.items(), key=itemgetter(1), reverse=True)
            ),
        }
        table = Table(box=None, show_header=False)
        for name, value in rows.items():
            table.add_row(name, str(value))
        self.console.print(table)
        if t.unsupported.total() == t.programs > 0:
            self.console.print("Nothing was compared: all programs are unsupported, for the reasons above")
        for d in t.divergences[:50]:
            self.console.print(f"{d['seed']} {d['check']}: {d['what'][:200]}", markup=False, highlight=False)


def _as_file_name(check: str) -> str:
    return re.sub(r"[^\w.:-]", "", check.replace(" ", "-"))


def _child() -> Child:
    """A process for programs. If glibc supports it, every freed block of memory is checked for writes beyond it, which
    end the process: kernels write through pointers."""
    checked = {"LD_PRELOAD": CHECKED_MALLOC, "MALLOC_CHECK_": "3"}
    try:
        ctypes.CDLL(CHECKED_MALLOC)
    except OSError:
        checked = {}
    return Child("refxla_conformance.fuzz.worker", checked)


def _ready(children: list[Child]) -> list[Child]:
    """Those that have answered, or are overdue; waits for at least one."""
    with selectors.DefaultSelector() as selector:
        for child in children:
            selector.register(child.fileno(), selectors.EVENT_READ, child)
        while True:
            ready = [key.data for key, _ in selector.select(timeout=1.0)]
            ready += [child for child in children if child not in ready and child.overdue]
            if ready:
                return ready


def _various(divergences: list[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    """A few divergences, of as many kinds as there are."""
    kinds: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for d in divergences:
        kinds.setdefault((d["check"], d["raised"] or d["what"][:20]), []).append(d)
    chosen: list[dict[str, Any]] = []
    while len(chosen) < count and any(kinds.values()):
        for group in kinds.values():
            if group and len(chosen) < count:
                chosen.append(group.pop(0))
    return chosen
