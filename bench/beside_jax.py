"""Many small programs of JAX, each compiled by refxla and by JAX and called in turns: the shared part of
`bench.programs`, `bench.cliffs` and `bench.chains`. The file of figures is written after each program, and can be
continued."""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .figures import begun
from .machine import describe
from .models import ENTRIES, Entry, chosen
from .peers import Cell, Processes, speeds
from .report import BESIDE, OURS, console_of_tables, write

Measure = Callable[[list[Entry]], None]
Figures = dict[str, Any]  # as `write` stores them: {"kind", "machine", "entries": {name: {"group", "cells"}}, ...}


def run_command(
    kind: str,
    description: str,
    table: Callable[[argparse.Namespace], list[Entry]],
    show: Callable[[Figures, Any], None],
    arguments: Sequence[str] | None,
    seconds: float,
    turns: int,
    add_options: Callable[[argparse.ArgumentParser], None] = lambda parser: None,
    then: Callable[[Figures, argparse.Namespace, Measure], None] = lambda figures, options, measure: None,
) -> None:
    """The command `python -m bench.KIND`: measures the selected programs of the table, and shows the figures; `seconds`
    and `turns` are its defaults. `table` and `then`, which may measure more depending on the figures, get the options
    that `add_options` has added to those of all such commands. Ends the process with 2 for wrong arguments."""
    parser = argparse.ArgumentParser(prog=f"python -m bench.{kind}", description=description.split("\n")[0])
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="kinds, or texts that names hold")
    parser.add_argument("--threads", type=int, default=min(2, os.cpu_count() or 1), help="of each compiler")
    parser.add_argument("--seconds", type=float, default=seconds, help="of calls, for each program (%(default)s)")
    parser.add_argument("--turns", type=int, default=turns, help="(%(default)s)")
    parser.add_argument("--small", action="store_true", help="small sizes: to see that everything runs")
    parser.add_argument("--json", type=Path, help="where to write the figures")
    parser.add_argument("--keep", action="store_true", help="other programs that FILE has, stay")
    parser.add_argument("--show", action="store_true", help="only show what FILE has")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds to wait for an answer (%(default)s)")
    add_options(parser)
    options = parser.parse_args(arguments)
    if (options.keep or options.show) and not options.json:
        parser.error("--keep and --show need --json FILE")
    console = console_of_tables()
    if options.show:
        show(json.loads(options.json.read_text()), console)
        return
    try:
        entries = table(options)
        programs = chosen(options.only, entries)
        figures = begun(kind, kind, "seconds of a call", options, arguments)
    except ValueError as problem:
        parser.error(str(problem))
    places = {entry.name: n for n, entry in enumerate(entries)}
    try:
        measure(figures, programs, places, options, console)
        then(figures, options, lambda more: measure(figures, more, places, options, console))
    except KeyboardInterrupt:
        console.print("ended by Ctrl-C; what is done:")
    show(figures, console)


def measure(
    figures: Figures, programs: list[Entry], places: dict[str, int], options: argparse.Namespace, console: Any
) -> None:
    """Measures programs and adds them to the figures, ordered by place, before those without one. The options' file is
    written after each."""
    processes = Processes([OURS, BESIDE], options.threads, options.limit)
    processes.versions = figures["versions"]
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as caches, console.status("") as status:
        os.environ["REFXLA_CACHE_DIR"] = caches  # of the children: nothing is compiled yet
        try:
            for _ in speeds(processes, ENTRIES[0], Path(folder), 0, 1, True):  # each compiler's first program
                pass
            for number, entry in enumerate(programs):
                cells: dict[str, Cell] = {}
                load = describe()["load"][0]
                steps = speeds(processes, entry, Path(folder), options.seconds, options.turns, options.small)
                for doing, cells in steps:  # noqa: B007
                    status.update(f"{number + 1} of {len(programs)}: {entry.name}: {doing}")
                entries = {**figures["entries"], entry.name: {"group": entry.group, "load": load, "cells": cells}}
                figures["entries"] = dict(sorted(entries.items(), key=lambda item: places.get(item[0], len(places))))
                figures["versions"], figures["absent"] = processes.versions, processes.absent
                for file in Path(folder).iterdir():
                    file.unlink()
                if options.json:
                    write(figures, options.json)
        finally:
            processes.close()
