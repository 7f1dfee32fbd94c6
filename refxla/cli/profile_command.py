"""`refxla profile`: how long each kernel of a program takes, with the cost model's time for comparison."""

from __future__ import annotations

import argparse
import json

from refxla_spec.errors import InputError, plural
from refxla_spec.module import Module
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from ..compiler.driver import Compiled
from ..compiler.kernel_profile import Profile, Timeline
from ..progress import show_progress
from ..runtime.devices import REFERENCE
from .argument_files import from_npz, names, random_arguments, read_npz
from .console import read_bytes, show, write_bytes
from .run_command import compiled

NOTE = (
    '"model us" is for one core, and decides about fusion and merging; "us" is measured, on all cores that take part.'
)


def profile(options: argparse.Namespace, module: Module) -> int:
    """The command. Raises Error."""
    if options.device == REFERENCE:
        raise InputError("the reference has no kernels; name an OpenCL device")
    if not options.seconds > 0:
        raise InputError(f"--seconds {options.seconds:g}: seconds to measure has to be above 0")
    if options.top < 1:
        raise InputError(f"--top {options.top}: at least one kernel has to be shown")
    executable = compiled(options, module)
    assert isinstance(executable, Compiled)
    if options.inputs is not None:
        source = "standard input" if options.inputs == "-" else options.inputs
        arguments = from_npz(module, read_npz(read_bytes(options.inputs), source), source)
    else:
        arguments = random_arguments(module, options.random or 0) if names(module) else []
    with show_progress(f"measuring {module.name}"):
        report = executable.profile(*arguments, seconds=options.seconds)
    if options.trace is not None:
        write_bytes(options.trace, json.dumps(report.trace()).encode())
    if options.trace != "-":
        shown(report, options.top)
    return 0


def shown(report: Profile, top: int) -> None:
    """Prints a profile as tables of at most `top` lines."""
    first, second = report.titles()
    show(Text(first, "bold"), _table(report, report.launches, top))
    if report.is_merged:
        show(Text(second, "bold"), _table(report, report.kernels, top))
    cut = [t for t in (report.launches, report.kernels) if t.total > len(t.events)]
    if cut:
        show(f"Of {cut[0].total:,} steps in a call the first {len(cut[0].events):,} were measured.")
    show(NOTE)


def _table(report: Profile, timeline: Timeline, top: int) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for n, head in enumerate(report.HEAD):
        table.add_column(head, justify="right" if n else "left", overflow="fold", style="" if n else "cyan")
    rows = list(report.rows(timeline))
    for row in rows[:top]:
        table.add_row(*row)
    if len(rows) > top:
        rest = sum(step.seconds for step in timeline.steps[top:])
        more = f"{rest * 1e6:,.1f}", f"{rest / timeline.traced:.0%}"
        table.add_row(f"{plural(len(rows) - top, 'other')}", *more, *[""] * (len(report.HEAD) - 3))
    return table
