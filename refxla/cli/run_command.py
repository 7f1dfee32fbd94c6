"""`refxla run`: runs a program on a device, with its results, and whether they satisfy the numeric contract."""

from __future__ import annotations

import argparse
import hashlib
import time
from contextlib import nullcontext
from math import prod
from typing import Any

import numpy as np
from refxla_spec.errors import InputError, plural
from refxla_spec.module import Module
from refxla_spec.verdicts import FALSE_ALARM, Report, Verdict, Verdicts, verdicts
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from ..compiler import ahead_of_time, driver
from ..passes.winograd_convolution import apply_winograd
from ..progress import show_progress
from ..runtime.devices import REFERENCE
from . import feeds, run_on_devices
from .argument_files import from_npz, names, random_arguments, read_npz, write_npz
from .commands import compiler_options
from .console import read_bytes, show, write_bytes
from .results_table import calls_text, duration, results_table


def run(options: argparse.Namespace, module: Module) -> int:
    """The command; 1 if --check finds an element that is suspect or wrong, otherwise 0. Raises Error."""
    if options.repeat < 1:
        raise InputError(f"--repeat {options.repeat}: a program runs at least once")
    if options.random is not None and options.random < 0:
        raise InputError(f"--random {options.random}: a seed is 0 or more")
    if options.no_machine_code and options.saved is None:
        raise InputError(f"--no-machine-code is for executables of `refxla build`, and {options.file} is none")
    if prod(run_on_devices.counts(options, module)) > 1 or feeds.is_fed(module) or options.infeed is not None:
        return run_on_devices.run(options, module)
    if options.inputs is not None:
        arrays = read_npz(read_bytes(options.inputs), "standard input" if options.inputs == "-" else options.inputs)
        arguments: list[Any] | None = from_npz(module, arrays, options.inputs)
    elif options.random is not None:
        arguments = None  # created when it is certain that the program runs
    elif names(module):
        listed = ", ".join(f"{a} ({b}) {s.without_layout()}" for a, b, s in names(module)[:6])
        many = len(names(module))
        more = ", ..." if many > 6 else ""
        raise InputError(
            f"the program takes {plural(many, 'array')}: {listed}{more}; give --inputs FILE or --random SEED"
        )
    else:
        arguments = []

    start = time.perf_counter()
    executable = compiled(options, module)
    took = time.perf_counter() - start
    if arguments is None:
        with show_progress("making arguments at random"):
            arguments = random_arguments(module, options.random)
    with show_progress(f"running {module.name}"):
        invariants = _Left(executable, module, arguments) if options.check else None
        results, times = _timed(executable, arguments, options.repeat)
    if options.output is not None:
        write_bytes(options.output, write_npz(results))

    if options.output != "-":
        show(_header(executable, took, times), "", results_table({f"out{n}": v for n, v in enumerate(results)}))
    if invariants is None:
        return 0
    with show_progress("running the reference, with the errors that the contract allows"):
        tiled = (options.winograd or (options.saved and options.saved.winograd)) and options.device != REFERENCE
        report = check(apply_winograd(module)[0] if tiled else module, arguments, results)
    changed = invariants.changed()
    if options.output != "-":
        show("", *checked(report), *(Text(what, "bold red") for what in changed))
    return 1 if report.broken or changed else 0


def compiled(options: argparse.Namespace, module: Module) -> driver.Compiled | driver.Reference:
    """The same, with a progress line."""
    with (
        nullcontext() if options.tune else show_progress(f"compiling {module.name}")
    ):  # tuning has a progress bar of its own
        return executable_of(options, module)


def executable_of(flags: argparse.Namespace, module: Module) -> driver.Compiled | driver.Reference:
    """The program compiled with the command's options, or the executable in the file."""
    options = compiler_options(flags)
    saved = flags.saved if options.device != REFERENCE else None
    if saved is None:
        return driver.compile_module(module, options)
    conflicts = [name for name in ("tune", "winograd", "linear_algebra", "without") if getattr(options, name)]
    if conflicts:
        flag = conflicts[0].replace("_", "-")
        raise InputError(f"{flags.file} is compiled already: give --{flag} to `refxla build`, which made it")
    where = "standard input" if flags.file == "-" else flags.file
    machine_code = not getattr(flags, "no_machine_code", False)
    return ahead_of_time.executable(saved, where, device=options.device, machine_code=machine_code)


class _Left:
    """What a call must not change: its arguments, and the results of a previous call, which is made here.

    That call has other arguments, so that a result that shares memory with an earlier call's is detected: each array is
    reversed. A program with loops gets its original arguments instead: with others, its loops might not end.
    """

    def __init__(self, executable: Any, module: Module, arguments: list[Any]) -> None:
        self.arguments, self.results = ([] if module.aliases else arguments), []
        if not isinstance(executable, driver.Reference):
            loops = any(i.opcode == "while" for i in module.instructions())
            others = arguments if loops else [None if a is None else np.flip(a).copy() for a in arguments]
            result = executable(*others)
            self.results = list(result) if isinstance(result, tuple) else [result]
        self.digests = [_digest(values) for values in (self.arguments, self.results)]

    def changed(self) -> list[str]:
        """A sentence for each of the two that has changed."""
        sentences = ("A call has changed its arguments.", "A call has changed the results of the call before it.")
        now = (_digest(values) for values in (self.arguments, self.results))
        return [what for what, a, b in zip(sentences, self.digests, now, strict=True) if a != b]


def _digest(values: list[Any]) -> bytes:
    """A checksum of arrays' bytes."""
    checksum = hashlib.blake2b()
    for value in values:
        if value is not None:
            checksum.update(np.ascontiguousarray(value).reshape(-1).view(np.uint8).data)
    return checksum.digest()


def _timed(executable: Any, arguments: list[Any], repeat: int) -> tuple[list[Any], list[float]]:
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        result = executable(*arguments)
        times.append(time.perf_counter() - start)
    return list(result) if isinstance(result, tuple) else [result], times


def _header(executable: Any, compiled: float, times: list[float]) -> Table:
    table = Table.grid(padding=(0, 2))
    if isinstance(executable, driver.Reference):
        table.add_row("device", executable.device_reason)
    else:
        table.add_row("device", f"{executable.device}")
        table.add_row("", Text(executable.device_reason, "dim"))
        kernels = len(executable.plan.kernels)
        table.add_row("kernels", f"{kernels}; {executable.cost}")
        table.add_row("compiled", f"in {duration(compiled)}")
    table.add_row("ran", calls_text(times))
    if len(times) == 1 and not isinstance(executable, driver.Reference):
        table.add_row("", Text("compilation not counted; later calls are faster: --repeat 10 shows the best", "dim"))
    return table


# The check ---------------------------------------------------------------------------------------------------------


def check(module: Module, arguments: list[Any], results: list[Any]) -> Report:
    """The verdicts on flat results of a program for flat arguments."""
    nested = driver.unflatten_all(arguments, [p.shape for p in module.entry.parameters])
    return verdicts(module, nested, [r for r in results if r is not None])


_STYLE = {"same bits": "green", "within": "green", "undecided": "yellow", "suspect": "bold red", "wrong": "bold red"}


def checked(report: Report) -> list[Any]:
    """The output of --check: how many elements of each result have which verdict, the worst of each, and the
    conclusion."""
    counts = _table("Against the reference", "result", "shape")
    for head in ("within", "undecided", "suspect", "wrong", "finds errors of"):
        counts.add_column(head, justify="right")
    counts.add_column("verdict")
    worst = _table("The worst elements", "result", "at")
    for head in ("value", "reference", "off by", "allowed"):
        worst.add_column(head, justify="right")
    worst.add_column("verdict")
    for n, v in enumerate(report.results):
        word = "same bits" if v.same.all() else v.verdict.name.lower()
        numbers = [f"{v.count(k)}" if v.count(k) else "" for k in Verdict]
        sharp = "" if np.isnan(v.sharpness) else f"{v.sharpness:.2g}"
        counts.add_row(f"out{n}", str(v.shape), *numbers, sharp, Text(word, _STYLE[word]))
        if v.worst is not None and not v.same.all():
            worst.add_row(f"out{n}", *_element(v, v.worst))
    parts: list[Any] = [counts, worst] if worst.row_count else [counts]
    void = [f"{count} of {v.shape} out{n}" for n, v in enumerate(report.results) if (count := _not_finite(v))]
    if void:
        parts.append(Text(f"Not finite in the reference, and not in the result: {', '.join(void)}.", "yellow"))
    if report.unknown and any(v.count(Verdict.UNDECIDED) for v in report.results):
        reasons = "; ".join(f"{reason} ({count})" if count > 1 else reason for reason, count in report.unknown.items())
        parts.append(Text(f"Undecided because: {reasons}.", "yellow"))
    parts += [Text(f"{sentence}.", "bold red") for sentence in report.properties]
    return [*parts, _sentence(report)]


def _not_finite(v: Verdicts) -> int:
    """The number of elements that say little, since they are NaN or infinite, as expected."""
    kind = v.shape.element_type.kind
    return int(np.count_nonzero(~np.isfinite(v.reference) & v.same)) if kind in ("float", "complex") else 0


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(column, style="cyan" if column == "shape" else "")
    return table


def _element(v: Verdicts, at: tuple[int, ...]) -> list[Any]:
    word = Verdict(v.codes[at]).name.lower()
    off, allowed = (f"{a[at]:.2g}" for a in (v.apart, v.allowed))
    if np.isinf(v.allowed[at]) and v.codes[at] != Verdict.UNDECIDED:
        allowed = "by a property"  # of the matrix that it belongs to
    return [str(list(at)), str(v.result[at]), str(v.reference[at]), off, allowed, Text(word, _STYLE[word])]


def _sentence(report: Report) -> Text:
    """The conclusion from the table."""
    counts = {k: sum(v.count(k) for v in report.results) for k in Verdict}
    total = sum(counts.values())
    if report.broken:
        broken = f"{len(report.broken)} of {len(report.results)} results break the numeric contract: "
        text = broken + ", ".join(f"out{n}" for n in report.broken) + "."
        if not counts[Verdict.WRONG]:
            text += f" Nothing is certain: rounding does so in one of {1 / FALSE_ALARM:.0f} runs."
        return Text(text, "bold red")
    undecided = counts[Verdict.UNDECIDED]
    if undecided:
        return Text(
            f"No result breaks the numeric contract. Undecided: {undecided} of {total} elements "
            f"({undecided / total:.2%}), which rounding may change by as much as they are.",
            "yellow" if undecided * 100 > total else "green",
        )
    what = "The result keeps" if len(report.results) == 1 else "All results keep"
    return Text(f"{what} the numeric contract.", "green")
