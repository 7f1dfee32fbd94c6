"""`python -m bench.programs`: JAX programs of many kinds, compiled by refxla and by JAX for CPUs, in turns.

    python -m bench.programs                      all of them, about ten minutes
    python -m bench.programs --only "heat stencil" sorting    texts that names hold, or kinds
    python -m bench.programs --json FILE          the figures with machine and versions; FILE is written after each
    python -m bench.programs --json FILE --keep   programs that FILE has and that are not measured now, stay
    python -m bench.programs --json FILE --show   the table of FILE again; nothing is measured

Each compiler runs in a process of its own with the same number of threads and empty caches. The results of JAX are
compared with refxla's; a program whose results differ is not measured. A ratio above 1 says that refxla is faster. The
compile ratio is that of the seconds from the first call to its results, tracing included, in a process that has
compiled before: also above 1 where refxla takes less.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from pathlib import Path
from typing import Any

from ..machine import command, describe
from ..models import ENTRIES, chosen
from ..peers import Processes, speeds
from ..report import BESIDE, OURS, compile_ratios, console_of_tables, duration, ratios, summary, write
from . import PROGRAMS


def show(figures: dict[str, Any], console: Any) -> None:
    """The table, the lowest ratio first, then the totals, and what was not measured and why."""
    from rich.table import Table

    run, compiled = {n: r[BESIDE] for n, r in ratios(figures).items() if BESIDE in r}, compile_ratios(figures)
    machine = figures["machine"]
    table = Table(title=f"{machine['processor']}, {figures['threads']} threads; ratios are JAX's seconds over refxla's")
    table.add_column("program", no_wrap=True)
    table.add_column("kind")
    for name in ("refxla", "JAX", "ratio", "refxla compiles", "JAX compiles", "ratio"):
        table.add_column(name, justify="right")
    for name in sorted(run, key=lambda n: run[n]):
        row = figures["entries"][name]
        cells = [row["cells"][peer] for peer in (OURS, BESIDE)]
        times = [duration(cell["median"]) for cell in cells]
        firsts = [duration(cell["first"]) for cell in cells]
        table.add_row(name, row["group"], *times, f"{run[name]:.2f}", *firsts, f"{compiled[name]:.2f}")
    console.print(table)
    for what, values in (("run", list(run.values())), ("compile", list(compiled.values()))):
        total = summary(values)
        console.print(
            f"{what}: geometric mean {total['geometric mean']:.2f} over {total['entries']}, "
            f"median {total['median']:.2f}, lowest {total['lowest']:.2f}, {total['below 1']} below 1"
        )
    for name, row in figures["entries"].items():
        for peer, cell in row["cells"].items():
            if "absent" in cell:
                console.print(f"[yellow]{name}[/] on {peer}: {cell['absent']}", highlight=False)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.programs", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="kinds, or texts that names hold")
    parser.add_argument("--threads", type=int, default=min(2, os.cpu_count() or 1), help="of each compiler")
    parser.add_argument("--seconds", type=float, default=1.0, help="of calls, for each program")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--small", action="store_true", help="small sizes: to see that everything runs")
    parser.add_argument("--json", type=Path, help="where to write the figures")
    parser.add_argument("--keep", action="store_true", help="other programs that FILE has, stay")
    parser.add_argument("--show", action="store_true", help="only show what FILE has")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds to wait for an answer")
    options = parser.parse_args(arguments)
    if (options.keep or options.show) and not options.json:
        parser.error("--keep and --show need --json FILE")
    console = console_of_tables()
    if options.show:
        show(json.loads(options.json.read_text()), console)
        return
    try:
        programs = chosen(options.only, PROGRAMS)
    except ValueError as problem:
        parser.error(str(problem))
    processes = Processes([OURS, BESIDE], options.threads, options.limit)
    figures: dict[str, Any] = {
        "kind": "programs",
        "command": command("bench.programs", arguments),
        "what": "seconds of a call",
        "machine": describe(),
        "threads": options.threads,
        "small": options.small,
        "entries": {},
    }
    if options.keep and options.json.exists():
        before = json.loads(options.json.read_text())
        if any(before[key] != figures[key] for key in ("kind", "threads", "small")):
            parser.error(f"{options.json} holds other figures: of {before['kind']}, {before['threads']} threads")
        figures["entries"] = before["entries"]
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as caches, console.status("") as status:
        os.environ["REFXLA_CACHE_DIR"] = caches  # of the children: nothing is compiled yet
        try:
            for _ in speeds(processes, ENTRIES[0], Path(folder), 0, 1, True):  # each compiler's first program
                pass
            for number, entry in enumerate(programs):
                load, cells = describe()["load"][0], {}
                steps = speeds(processes, entry, Path(folder), options.seconds, options.turns, options.small)
                for doing, cells in steps:  # noqa: B007
                    status.update(f"{number + 1} of {len(programs)}: {entry.name}: {doing}")
                figures["entries"][entry.name] = {"group": entry.group, "load": load, "cells": cells}
                figures["versions"], figures["absent"] = processes.versions, processes.absent
                for file in Path(folder).iterdir():
                    file.unlink()
                if options.json:
                    write(figures, options.json)
        except KeyboardInterrupt:
            console.print("ended by Ctrl-C; what is done:")
        finally:
            processes.close()
    show(figures, console)


if __name__ == "__main__":
    main()
