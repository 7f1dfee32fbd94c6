"""refxla-conformance liars: run implementations that are wrong on purpose through the suite, --check and the fuzzer."""

from __future__ import annotations

import argparse
import json
import subprocess
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from refxla.files import write_whole

from ..arguments import output_file, whole
from ..cases import collect
from ..console import standard_output
from ..machine import machine
from . import find, table
from .liar import LIARS, TOOLS
from .trial import Trials, checked, fuzzed, suite

PROGRAMS = 4000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("names", nargs="*", metavar="NAME", help="liars (default: all)")
    parser.add_argument("--list", action="store_true", help="describe each liar, and run nothing")
    parser.add_argument("--tool", action="append", choices=TOOLS, help="run only this tool on them")
    parser.add_argument("--count", type=whole(1), default=PROGRAMS, help="random programs (default: %(default)s)")
    parser.add_argument("--seed", type=whole(0), default=0, help="the number of the first random program (default: 0)")
    parser.add_argument("--json", type=output_file, metavar="FILE", help="write the results")


def main(options: argparse.Namespace) -> int:
    """Runs the command; 0 if each liar is caught by each tool that can meet it, 1 if not, 2 for wrong arguments."""
    console = standard_output()
    liars = [find(name) for name in options.names] or list(LIARS.values())
    if options.list:
        for liar in liars:
            console.print(f"{liar.name}: {liar.what}", markup=False, soft_wrap=True)
        return 0
    names, seeds = [q.name for q in liars], range(options.seed, options.seed + options.count)
    rows = table.rows(_put_to_all(options.tool or TOOLS, names, seeds, console))
    if options.json:
        data = {**_origin(), "cases": len(collect()), "programs": options.count, "liars": rows}
        write_whole(options.json, (json.dumps(data, indent=1) + "\n").encode())
    shown = Table("liar", *(options.tool or TOOLS), box=None)
    for name, _, *tools in table.lines(rows):
        shown.add_row(
            name, *(entry for tool, entry in zip(TOOLS, tools, strict=True) if tool in (options.tool or TOOLS))
        )
    console.print(shown)
    passed = [f"{name} passes {row[t]['passed']} ({t})" for name, row in rows.items() for t in TOOLS
              if t in row and row[t]["passed"] and LIARS[name].everywhere]  # fmt: skip
    missed = table.missed(rows)
    for text in (*passed, *(f"not caught: {m}" for m in missed)):
        console.print(text, markup=False)
    return 1 if missed or passed else 0


def _put_to_all(tools: Sequence[str], names: Sequence[str], seeds: range, console: Console) -> dict[str, Trials]:
    """The liars run through each tool, in a process for each, as none needs what another finds."""
    start, trials = time.monotonic(), {}
    with (
        console.status(f"{len(names)} liars are put to {', '.join(tools)}"),
        ProcessPoolExecutor(len(tools), get_context("spawn")) as pool,
    ):
        pending = {pool.submit(_put, tool, names, seeds): tool for tool in tools}
        for future in as_completed(pending):
            tool, found = pending[future], future.result()
            trials[tool] = found
            console.print(f"{tool}: {sum(bool(t.caught) for t in found.values())} of {len(found)} liars are caught, "
                          f"in {time.monotonic() - start:.0f} s")  # fmt: skip
    return trials


def _put(tool: str, names: Sequence[str], seeds: range) -> Trials:
    """Those of the liars that the tool can meet, run through it."""
    liars = [q for q in map(find, names) if tool in q.tools]
    if tool == "fuzz":
        return fuzzed(liars, seeds)
    cases = collect()
    if tool == "suite":
        return suite(liars, cases)
    return checked(liars, [c for c in cases if not c.is_negative and c.devices == 1 and c.infeed is None])


def _origin() -> dict[str, Any]:
    """The commit and the machine."""
    here = Path(__file__).resolve().parent
    process = subprocess.run(["git", "rev-parse", "HEAD"], cwd=here, capture_output=True, text=True, check=False)
    return {"commit": process.stdout.strip(), "machine": machine()}
