"""`python -m bench.peers`: refxla beside JAX (XLA:CPU), in turns, as a table of ratios.

    python -m bench.peers                     everything, a few minutes
    python -m bench.peers kernels dispatch    some groups: kernels, dispatch, models, compile
    python -m bench.peers --match CNN         the rows whose names hold a text
    python -m bench.peers --json FILE         the samples' medians and bests too, with the machine

A ratio is the peer's median over refxla's: above 1, refxla is faster.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from .benchmarks import compile_time, dispatch, kernels, models
from .benchmarks.peers import PEERS, compiled, compiled_hlo, example
from .machine import describe, in_turns, summary

GROUPS = ("dispatch", "kernels", "models", "compile")
Makers = dict[str, Callable[[], Callable[[], Any]]]  # peer -> what makes its warm call


def rows(group: str) -> Iterator[tuple[str, Makers]]:
    """Each row of a group: its name, and how the calls to be measured are made."""

    def from_function(hlo: str, function: Callable, arguments: list[Any]) -> Makers:
        return {peer: lambda peer=peer: compiled(peer, hlo, function, arguments) for peer in PEERS}

    def from_hlo(which: tuple) -> Makers:
        return {peer: lambda peer=peer: compiled_hlo(peer, *example(*which)) for peer in PEERS}

    if group == "dispatch":
        yield "x + 1 on 8 numbers", from_function(dispatch.HLO, dispatch.function, dispatch.arguments())
    if group == "kernels":
        for case in (kernels.FusedSum, kernels.ElementwiseChain, kernels.Gemm):
            for n in case.params[1]:
                yield case.title(n), from_function(case.HLO.format(n=n), case.function, case.arguments(n))
    if group == "models":
        for name, which in models.PROGRAMS.items():
            yield name, from_hlo(which)


def measure(makers: Makers, seconds: float, turns: int) -> dict[str, dict[str, float]]:
    """peer -> {"median", "best"} in seconds; without those that are not installed."""
    calls = {}
    for peer, make in makers.items():
        try:
            calls[peer] = make()
        except NotImplementedError:
            continue
    return {peer: summary(samples) for peer, samples in in_turns(calls, seconds, turns).items()}


def compile_rows(match: str, turns: int) -> Iterator[tuple[str, dict[str, dict[str, float]]]]:
    """The same for compile times, in processes of their own."""
    for program in compile_time.CompileTime.params[1]:
        for how in (compile_time.COLD, compile_time.CACHED):
            name = f"compile {program}, {how}"
            if match not in name:
                continue
            samples: dict[str, list[float]] = {}
            for _ in range(turns):
                for peer in PEERS:
                    try:  # a peer that keeps nothing has its cold time beside refxla's from the cache
                        compile_time.CompileTime().setup(peer, program, compile_time.COLD)
                    except NotImplementedError:
                        continue
                    kept = how if peer == "refxla" else compile_time.COLD
                    found = compile_time.compile_seconds(peer, program, kept)["seconds"]
                    samples.setdefault(peer, []).append(found)
            yield name, {peer: summary(s) for peer, s in samples.items()}


def text(seconds: float) -> str:
    """A duration in its unit."""
    for scale, unit in ((1, "s"), (1e3, "ms"), (1e6, "us")):
        if seconds * scale >= 1 or unit == "us":
            return f"{seconds * scale:.3g} {unit}"
    raise AssertionError


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=f"{', '.join(GROUPS)}; none: all of them")
    parser.add_argument("--match", default="", help="only rows whose names hold this text")
    parser.add_argument("--seconds", type=float, default=2.0, help="time for each row")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--json", type=Path, help="where to write the figures")
    options = parser.parse_args()
    if unknown := set(options.groups) - set(GROUPS):
        parser.error(f"no group is called {', '.join(sorted(unknown))}; there are: {', '.join(GROUPS)}")

    from rich.console import Console
    from rich.table import Table

    console = Console()
    machine = describe()
    found: dict[str, dict[str, dict[str, float]]] = {}
    with console.status("") as status:
        for group in options.groups or GROUPS:
            for name, makers in rows(group):
                if options.match in name:
                    status.update(name)
                    found[name] = measure(makers, options.seconds, options.turns)
            if group == "compile":
                for name, result in compile_rows(options.match, min(3, options.turns)):
                    status.update(name)
                    found[name] = result
    machine["load at the end"] = describe()["load"]
    table = Table(title=f"{machine['processor']}, {machine['cores']} cores, load {machine['load']}")
    table.add_column("")
    for peer in PEERS:
        table.add_column(peer, justify="right")
    table.add_column("ratio", justify="right")
    table.add_column("of the best runs", justify="right")
    ratios = []
    for name, result in found.items():
        cells = [text(result[peer]["median"]) if peer in result else "-" for peer in PEERS]
        for statistic in ("median", "best"):
            known = len(result) == len(PEERS)
            ratio = result[PEERS[1]][statistic] / result[PEERS[0]][statistic] if known else math.nan
            cells.append(f"{ratio:.2f}" if known else "-")
            if known and statistic == "median":
                ratios.append(ratio)
        table.add_row(name, *cells)
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        table.add_section()
        table.add_row("geometric mean", "", "", f"{mean:.2f}", "")
    console.print(table)
    if options.json:
        options.json.write_text(json.dumps({"machine": machine, "seconds": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
