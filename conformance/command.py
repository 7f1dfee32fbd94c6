"""The command `refxla-conformance`: its options, a run of cases, and the reports."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from refxla_spec.errors import Error, InputError
from rich.console import Console

from refxla.cli.argument_parser import Parser
from refxla.cli.failures import guarded
from refxla.files import make_folder

from . import reproducer, runner
from .arguments import output_file, output_folder, part, positive, whole
from .case_check import Verdict
from .cases import KINDS, Case, collect
from .console import rule, standard_output
from .report import Results, difference, html, junit, terminal

# Subcommands: each is a package with command.py, which has add_arguments(parser) and main(options) -> int.
COMMANDS = {
    "sweep": "elementary functions on all operands of a type",
    "fuzz": "random programs",
    "harnesses": "the programs of JAX's own test harnesses, with the installed JAX",
    "liars": "implementations that are wrong on purpose, which the suite, --check and the fuzzer must catch",
}

DESCRIPTION = (
    "Run the cases of the HLO specification on implementations of HLO, and check the results against the contract."
)
EPILOG = f"""
kinds of cases:
{chr(10).join(f"  {name:15} {meaning}" for name, meaning in KINDS.items())}

targets: reference, compiled, compiled:DEVICE, compiled-unfused, compiled-expanded, compiled-winograd, compiled-tuned,
         compiled-recut, xla-cpu, stablehlo, liar:NAME, package.module:Class

exit status: 0 nothing failed; 1 something failed (with --diff: something that did not fail before);
             2 invalid command; 130 interrupted: the reports have the results so far (--resume continues)

further commands (each has its own --help):
{chr(10).join(f"  refxla-conformance {name:9} {meaning}" for name, meaning in COMMANDS.items())}
"""
HINT = "--reproducers DIR writes a script for each fail; --name {name}, for one case, prints its script"
SHOWN_FAILS = 10  # fails that are shown on the terminal
KEPT_EVERY = 60.0  # seconds between two times that a report is written during the run


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit status (see `--help`)."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    return guarded(lambda: _command(given), "refxla-conformance")


def _command(arguments: list[str]) -> int:
    if arguments and arguments[0] in COMMANDS:
        command = importlib.import_module(f"{__package__}.{arguments[0]}.command")
        parser = Parser(prog=f"refxla-conformance {arguments[0]}", description=command.__doc__)
        command.add_arguments(parser)
        status: int = command.main(parser.parse_args(arguments[1:]))
        return status
    options = _parser().parse_args(arguments)
    console = standard_output()
    if options.diff:
        return difference.show(console, *options.diff)
    cases = collect(options.opcodes, options.kind, options.name, options.thorough)
    cases = _part(cases, *options.part)
    if options.list:
        for case in cases:
            console.print(case.name, markup=False, soft_wrap=True)
        return 0
    if not cases:
        raise InputError("no case fits; --list shows those there are")
    if options.resume and options.json is None:
        raise InputError("--resume goes on with the run of a report: name it with --json FILE")
    if options.reproducers:
        make_folder(options.reproducers)
    return _run(options, cases, console)


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="refxla-conformance",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("opcodes", nargs="*", metavar="OPCODE", help="operations to check (default: all)")
    add(
        "--target",
        action="append",
        metavar="T",
        help="the implementation to check; may be repeated (default: compiled)",
    )
    add("--kind", action="append", default=[], metavar="KIND", help="kinds of cases (default: all)")
    add("--name", action="append", default=[], metavar="PATTERN", help="names of cases, such as 'edge/add/*'")
    add(
        "--part",
        type=part,
        default=(1, 1),
        metavar="K/N",
        help="only the K-th of N parts of the cases, in the order of --list: for slow targets, or several machines",
    )
    add("--thorough", action="store_true", help="also run the long set of cases")
    add("--list", action="store_true", help="print the names of the cases, and run nothing")
    add(
        "-j",
        "--jobs",
        type=whole(0),
        metavar="N",
        help="worker processes (default: one per core; 0: none, for debuggers)",
    )
    add("--limit", type=positive, default=runner.LIMIT, metavar="S", help="seconds for one case (default: %(default)g)")
    add("--json", type=output_file, metavar="FILE", help="write the report as JSON")
    add("--html", type=output_file, metavar="FILE", help="write the report as a page")
    add("--junit", type=output_file, metavar="FILE", help="write the report as JUnit's XML, which CI systems read")
    add("--resume", action="store_true", help="continue the run whose report is in the FILE of --json")
    add("--reproducers", type=output_folder, metavar="DIR", help="write a script for each failure that reproduces it")
    add("-v", "--verbose", action="store_true", help="a row for every operation, and every failure in full")
    add("--diff", nargs=2, metavar=("A", "B"), help="show what changed from one JSON report to another")
    return parser


def _part(cases: list[Case], number: int, parts: int) -> list[Case]:
    """The part with that number, from 1, of consecutive parts of (nearly) equally many cases."""
    return cases[len(cases) * (number - 1) // parts : len(cases) * number // parts]


def _run(options: argparse.Namespace, cases: list[Case], console: Console) -> int:
    targets = list(dict.fromkeys(options.target or ["compiled"]))
    results = Results.begin(runner.versions(targets))
    by_name = {case.name: case for case in cases}
    if options.resume and options.json.exists():
        results.resume(options.json)
        cases = [case for case in cases if not results.has(case.name)]
        console.print(f"{len(by_name) - len(cases)} of {len(by_name)} cases stand in {options.json}", markup=False)
    start = kept = time.monotonic()
    before = results.seconds
    verdicts = runner.run(cases, targets, options.jobs, options.limit)
    try:
        with _terminated_as_interrupted(), contextlib.closing(verdicts):
            for verdict in terminal.track(verdicts, len(cases) * len(targets), console):
                results.add(by_name[verdict.case], verdict)
                results.seconds = round(before + time.monotonic() - start, 3)
                if options.json and time.monotonic() - kept > KEPT_EVERY:
                    results.write(options.json)
                    kept = time.monotonic()
        results.complete = True
    except KeyboardInterrupt:
        pass
    results.sort(by_name)
    _report(options, results, by_name, console)
    if not results.complete:
        return 130
    return 1 if results.failures() else 0


@contextlib.contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """A run that is ended from outside writes its reports, like one that is interrupted."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _report(options: argparse.Namespace, results: Results, cases: dict[str, Case], console: Console) -> None:
    if options.json:
        results.write(options.json)
    if options.html:
        html.write(results, options.html)
    if options.junit:
        junit.write(results, options.junit)
    failures = results.failures()
    told = failures if options.verbose else failures[:SHOWN_FAILS]
    for verdict in told:
        terminal.show_failure(console, verdict, options.verbose)
    if len(failures) > len(told):
        console.print(f"... and {len(failures) - len(told)} more fails (-v tells them all)")
    _reproduce(failures, cases, options.reproducers, console)
    terminal.show(console, results, options.verbose)


def _reproduce(failures: list[Verdict], cases: dict[str, Case], folder: Path | None, console: Console) -> None:
    """Writes a script for each fail to the folder. Without a folder, a run of one case prints the script; for another
    run, a line says how to get one."""
    if failures and not folder and len(cases) > 1:
        console.print(HINT.format(name=failures[0].case), markup=False, soft_wrap=True)
        return
    written = 0
    for verdict in failures:
        case = cases[verdict.case]
        try:
            if folder:
                reproducer.write(case, verdict, folder)
                written += 1
                continue
            script = reproducer.script(case, verdict)
        except InputError:
            raise
        except Error as error:  # the reference itself fails on the case, and the verdict says so, too
            console.print(f"no script for {case.name}: {error}", markup=False)
            continue
        rule(console, f"a script that shows {case.name} (--reproducers DIR writes it)")
        console.print(script, markup=False, soft_wrap=True)
        rule(console)
        return
    if written:
        console.print(f"{written} reproducers are in {folder}", soft_wrap=True)
