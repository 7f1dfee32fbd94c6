"""refxla-conformance sweep: the command line of a sweep, and what it prints."""

from __future__ import annotations

import argparse
import os
from collections import Counter
from functools import partial

from refxla_spec.errors import Error, InputError, is_refusal
from refxla_spec.operation import operations
from refxla_spec.types import ELEMENT_TYPES
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from refxla.version import commit

from ..arguments import output_file, power_of_two
from ..console import standard_output
from ..machine import processor
from ..targets import Target, loaded, make_target
from . import table
from .functions import Function, functions
from .measure import measure, values_of
from .precise import checker, error_at, suspect


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("opcodes", nargs="*", metavar="OPCODE", help="elementwise operations (default: all)")
    parser.add_argument("--types", default="", help="operand types, such as f32,f16 (default: all)")
    parser.add_argument(
        "--operands", type=int, choices=(1, 2), default=0, help="only functions of this number of operands"
    )
    parser.add_argument("--target", default="compiled", help="the implementation to sweep (default: compiled)")
    parser.add_argument(
        "--sample",
        type=power_of_two,
        default=1,
        metavar="N",
        help="test one in N of 2^32 operands; N is a power of two",
    )
    parser.add_argument("--json", type=output_file, metavar="FILE", help="write the resulting rows into this table")


def main(options: argparse.Namespace) -> int:
    """Sweeps, prints a line for each function; 1 if the contract is broken anywhere or the target fails, otherwise 0.

    Raises InputError for functions that cannot be swept, for a target that is not available, and if mpmath is not
    installed."""
    console = standard_output(highlight=True)
    types = tuple(filter(None, options.types.split(",")))
    unknown = [o for o in options.opcodes if o not in operations()] + [t for t in types if t not in ELEMENT_TYPES]
    if unknown:
        raise InputError(f"{', '.join(unknown)}: no operation or element type of the specification")
    chosen = list(functions(options.opcodes, types, options.operands))
    if not chosen:
        raise InputError("nothing to sweep: one operand may have 32 bits, two 16 each, all of a floating-point type")
    rows = {row.function: row for row in (table.read(options.json) if options.json else [])}
    counts: Counter[str] = Counter()
    if any(function.bound for function in chosen):
        checker()
    target = make_target(options.target)
    try:
        target.versions()
    except Error as problem:
        raise InputError(f"target {options.target} cannot be asked: {problem}") from None
    bar = Progress(
        TextColumn("{task.description:32}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    )
    swept_at = commit()  # before writing the table modifies the checkout
    with bar:
        whole = bar.add_task("all functions", total=len(chosen))
        for function in chosen:
            outcome = _one(function, target, options.sample, swept_at, bar, console)
            if isinstance(outcome, table.Row):
                rows[outcome.function] = outcome
                counts["kept" if outcome.is_kept else "broken"] += 1
                if options.json:
                    table.write(list(rows.values()), options.json)
            else:
                counts[outcome] += 1
            bar.advance(whole)
    target.close()
    console.print(
        ", ".join(f"{counts[what]} {what}" for what in ("kept", "broken", "suspect", "failed", "unsupported"))
    )
    return 1 if counts["broken"] or counts["suspect"] or counts["failed"] else 0


def _one(
    function: Function, target: Target, sample: int, swept_at: str, bar: Progress, console: Console
) -> table.Row | str:
    """The row of one function; or why there is none: "unsupported", "failed", or "suspect" f64 values."""
    task = bar.add_task(str(function), total=function.operands)

    def tick(count: int) -> None:
        bar.advance(task, count)

    def say(text: str, style: str = "") -> None:
        console.print(f"{function!s:34} {text}", style=style, markup=False, highlight=False, soft_wrap=True)

    load = partial(loaded, target)
    try:
        doubt = suspect(function, load, target.flushes_subnormals)
        if doubt:
            say(f"cannot be judged: {doubt}", "red")
            return "suspect"
        worst = measure(function, load, sample, target.flushes_subnormals, tick)
        precise = error_at(function, worst.bits, load) if function.bound else None
    except Exception as error:  # whatever an implementation does, the other functions must still be swept
        line = (str(error).splitlines() or [""])[0]
        if is_refusal(error):
            say(f"unsupported: {line}", "yellow")
            return "unsupported"
        say(f"failed: {type(error).__name__}: {line}", "red")
        return "failed"
    finally:
        bar.remove_task(task)
    row = table.Row(
        function=str(function),
        opcode=function.opcode,
        type=function.operand.name,
        swept=worst.swept,
        worst=None if worst.error == float("inf") else round(worst.error, 5),
        at=_text(function, worst.bits),
        missed=() if worst.missed is None else _text(function, worst.missed),
        precise=None if precise is None else round(precise, 5),
        bound=function.bound,
        seconds=round(worst.seconds, 1),
        target=target.name,
        commit=swept_at,
        machine=f"{processor()}, {os.cpu_count()} cores",
    )
    say(_line(row), "" if row.is_kept else "red")
    return row


def _text(function: Function, bits: int) -> tuple[str, ...]:
    return tuple(repr(float(x)) for x in values_of(function, bits))


def _line(row: table.Row) -> str:
    time = f"{row.seconds:6.1f} s"
    missed = f"  a result that has to be met exactly is missed at {', '.join(row.missed)}" if row.missed else ""
    if not row.bound:
        return f"{'wrong' if missed else 'exact':34} {time}{missed}"
    error = "beyond measure" if row.worst is None else f"{row.worst:7.4f} ULP"
    checked = "" if row.precise is None else f" (mpmath: {row.precise:.4f})"
    return f"{error} of {row.bound} allowed  {time}  at {', '.join(row.at)}{checked}{missed}"
