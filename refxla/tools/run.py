"""`refxla run`: a program on a device, its results, and whether they keep the numeric contract."""

from __future__ import annotations

import argparse
import time
from contextlib import nullcontext
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from refxla_spec.bounds import run_with_bounds
from refxla_spec.compare import Comparison, bits_equal, compare
from refxla_spec.errors import InputError
from refxla_spec.module import Module
from refxla_spec.sampling import typical_errors
from refxla_spec.types import Shape
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from .. import compiler
from ..passes.winograd import rewritten
from ..progress import waiting
from . import feeds, run_devices
from .console import read_bytes, show, write_bytes
from .values import from_npz, names, random_arguments, read_npz, write_npz

BROKEN = ("outside", "suspect")
SUSPECT = 16.0  # a spread (see refxla_spec.compare) beyond which a result is not taken for rounding


def run(options: argparse.Namespace, module: Module) -> int:
    """The command; 1 if --check finds a result outside its bounds, else 0. Raises Error."""
    if options.repeat < 1:
        raise InputError(f"--repeat {options.repeat}: a program runs at least once")
    if options.random is not None and options.random < 0:
        raise InputError(f"--random {options.random}: a seed is 0 or more")
    if prod(run_devices.counts(options, module)) > 1 or feeds.is_fed(module) or options.infeed is not None:
        return run_devices.run(options, module)
    if options.inputs is not None:
        arrays = read_npz(read_bytes(options.inputs), "standard input" if options.inputs == "-" else options.inputs)
        arguments: list[Any] | None = from_npz(module, arrays, options.inputs)
    elif options.random is not None:
        arguments = None  # made when it is sure that the program runs
    elif names(module):
        listed = ", ".join(f"{a} ({b}) {s.without_layout()}" for a, b, s in names(module)[:6])
        more = ", ..." if len(names(module)) > 6 else ""
        raise InputError(
            f"the program takes {len(names(module))} array(s): {listed}{more}; give --inputs FILE or --random SEED"
        )
    else:
        arguments = []

    start = time.perf_counter()
    # Tuning has a progress bar of its own.
    with nullcontext() if options.tune else waiting(f"compiling {module.name}"):
        executable = compiler.compile_module(module, options.device, tune=options.tune, winograd=options.winograd)
    compiled = time.perf_counter() - start
    if arguments is None:
        with waiting("making arguments at random"):
            arguments = random_arguments(module, options.random)
    with waiting(f"running {module.name}"):
        results, times = _timed(executable, arguments, options.repeat)
    if options.output is not None:
        write_bytes(options.output, write_npz(results))

    if options.output != "-":
        show(_header(executable, compiled, times), "", results_table({f"out{n}": v for n, v in enumerate(results)}))
    if not options.check:
        return 0
    with waiting("running the reference, with a bound of each error"):
        tiled = options.winograd and options.device != compiler.REFERENCE
        meant = rewritten(module)[0] if tiled else module
        comparisons = check(meant, arguments, results)
    if options.output != "-":
        show("", checked(comparisons), _sentence(comparisons))
    return 1 if any(c.verdict in BROKEN for c in comparisons) else 0


def _timed(executable: Any, arguments: list[Any], repeat: int) -> tuple[list[Any], list[float]]:
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        result = executable(*arguments)
        times.append(time.perf_counter() - start)
    return list(result) if isinstance(result, tuple) else [result], times


def _header(executable: Any, compiled: float, times: list[float]) -> Table:
    table = Table.grid(padding=(0, 2))
    if isinstance(executable, compiler.Reference):
        table.add_row("device", executable.device_reason)
    else:
        table.add_row("device", f"{executable.device}")
        table.add_row("", Text(executable.device_reason, "dim"))
        kernels = len(executable.plan.kernels)
        table.add_row("kernels", f"{kernels}; {executable.cost}")
        table.add_row("compiled", f"in {duration(compiled)}")
    if len(times) == 1:
        table.add_row("ran", f"in {duration(times[0])}")
    else:
        middle = float(np.median(times))
        table.add_row("ran", f"{len(times)} times: best {duration(min(times))}, median {duration(middle)}")
    return table


def results_table(results: dict[str, Any]) -> Table:
    """A line for each result: its name, its shape, its first and last elements."""
    table = Table("", "", "", show_header=False, box=None, padding=(0, 2, 0, 0))
    for name, value in results.items():
        shape = "token" if value is None else str(Shape.of(np.asarray(value)))
        table.add_row(Text(name, "bold"), Text(shape, "cyan"), Text("" if value is None else abbreviated(value)))
    return table


def abbreviated(value: Any) -> str:
    """An array in one line: its first and last elements."""
    value = np.asarray(value)
    flat = value.reshape(-1)
    if value.dtype.isbuiltin != 1:
        flat = flat.astype(np.float32 if value.dtype.kind not in "iu" else np.int32)
    with np.printoptions(threshold=6, edgeitems=3, linewidth=1000, precision=6):
        return str(flat[0]) if value.ndim == 0 else np.array2string(flat).replace("\n", "")


def duration(seconds: float) -> str:
    """A time with three digits and its unit."""
    for factor, unit in ((1, "s"), (1e3, "ms"), (1e6, "us")):
        if seconds * factor >= 1 or unit == "us":
            return f"{seconds * factor:.3g} {unit}"
    raise AssertionError


# The check ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Checked:
    """How result number `n` stands: `same` says that it has the reference's bits, `against` all else."""

    n: int
    same: bool
    against: Comparison

    @property
    def verdict(self) -> str:
        """One word: "same bits", "within" (its bounds), "undecided" (the bounds say nothing of any element, and errors
        are as is typical), "suspect" (errors are far beyond what is typical) or "outside"."""
        if self.same:
            return "same bits"
        if self.against.outside:
            return "outside"
        if self.against.spread > SUSPECT:
            return "suspect"
        return "undecided" if self.against.undecided == self.against.shape.size else "within"


def check(module: Module, arguments: list[Any], results: list[Any]) -> list[Checked]:
    """Each array of the results against the reference's value, its certain bounds, and errors as they typically are."""
    nested = compiler.unflatten_all(arguments, [p.shape for p in module.entry.parameters])
    value, bounds = run_with_bounds(module, nested)
    values, limits, typical = (compiler.flatten(v) for v in (value, bounds, typical_errors(module, nested, value)))
    made = []
    for n, (result, *against) in enumerate(zip(results, values, limits, typical, strict=True)):
        made += [Checked(n, bits_equal(result, against[0]), c) for c in compare(result, *against)]
    return made


_STYLE = {"same bits": "green", "within": "green", "undecided": "yellow", "suspect": "bold red", "outside": "bold red"}


def checked(results: list[Checked]) -> Table:
    """The table that --check prints."""
    title = "Against the reference"
    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("result")
    table.add_column("shape", style="cyan")
    for head in ("error", "its bound", "of bound", "ulp", "of typical", "undecided"):
        table.add_column(head, justify="right")
    table.add_column("verdict")
    for result in results:
        c, verdict = result.against, result.verdict
        decided = c.undecided < c.shape.size or result.same
        error = c.worst * c.bound if c.bound else _apart(c)
        table.add_row(
            f"out{result.n}",
            str(c.shape),
            f"{error:.2g}" if decided else "",
            f"{c.bound:.2g}" if decided else "",
            _share(c.worst) if decided else "",
            f"{c.max_ulp:.6g}" if decided else "",
            "" if np.isnan(c.spread) else f"{c.spread:.2g}",
            f"{c.undecided}" if c.undecided and not result.same else "",
            Text(verdict, _STYLE[verdict]),
        )
        if c.outside:
            table.add_row("", f"{c.outside} outside", style="red")
            table.add_row("", f"at {list(c.at)}:", style="red")
            table.add_row("", f"got {c.got}", style="red")
            table.add_row("", f"not {c.expected}", style="red")
    return table


def _apart(c: Comparison) -> float:
    return (
        0.0 if not c.worst else float(abs(np.asarray(c.got, np.clongdouble) - np.asarray(c.expected, np.clongdouble)))
    )


def _share(share: float) -> str:
    if share in (0, np.inf):
        return "0" if not share else "inf"
    return f"{share:.1%}" if share >= 0.001 else "< 0.1%"


def _sentence(results: list[Checked]) -> Text:
    """What the table comes to."""
    broken = [f"out{r.n}" for r in results if r.verdict in BROKEN]
    if broken:
        return Text(
            f"{len(broken)} of {len(results)} results break the numeric contract: {', '.join(broken)}.", "bold red"
        )
    undecided = sum(r.verdict == "undecided" for r in results)
    if not undecided:
        return Text(
            "All results keep the numeric contract." if len(results) != 1 else "It keeps the contract.", "green"
        )
    return Text(
        f"No result breaks the numeric contract. It leaves {undecided} of {len(results)} undecided, where no bound is "
        "certain; their errors are no larger than rounding typically makes them.",
        "yellow",
    )
