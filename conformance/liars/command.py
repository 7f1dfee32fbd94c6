"""refxla-conformance liars: run implementations that are wrong on purpose through the suite, --check and the fuzzer."""

from __future__ import annotations

import argparse
import json
import subprocess
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from refxla.files import write_whole

from ..arguments import output_file, whole
from ..cases import Case, collect
from ..console import standard_output
from ..machine import machine
from . import find, table
from .liar import LIARS, TOOLS, Liar
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
    cases = collect()
    rows = table.rows({tool: _put(tool, liars, cases, options, console) for tool in options.tool or TOOLS})
    if options.json:
        data = {**_origin(), "cases": len(cases), "programs": options.count, "liars": rows}
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


def _put(tool: str, liars: list[Liar], cases: list[Case], options: argparse.Namespace, console: Console) -> Trials:
    """The liars that the tool can meet, run through it."""
    chosen, start = [q for q in liars if tool in q.tools], time.monotonic()
    with console.status(f"{len(chosen)} liars are put to {tool}"):
        if tool == "suite":
            trials = suite(chosen, cases)
        elif tool == "check":
            trials = checked(chosen, [c for c in cases if not c.is_negative and c.devices == 1 and c.infeed is None])
        else:
            trials = fuzzed(chosen, range(options.seed, options.seed + options.count))
    console.print(f"{tool}: {sum(bool(t.caught) for t in trials.values())} of {len(chosen)} liars are caught, "
                  f"in {time.monotonic() - start:.0f} s")  # fmt: skip
    return trials


def _origin() -> dict[str, Any]:
    """The commit and the machine."""
    here = Path(__file__).resolve().parent
    process = subprocess.run(["git", "rev-parse", "HEAD"], cwd=here, capture_output=True, text=True, check=False)
    return {"commit": process.stdout.strip(), "machine": machine()}
