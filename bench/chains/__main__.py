"""`python -m bench.chains`: random chains of operations beside JAX, to find where refxla falls behind.

    python -m bench.chains                        a hundred, about five minutes
    python -m bench.chains --seeds 100:300        others
    python -m bench.chains --shrink               those behind JAX without the steps that are not to blame, too
    python -m bench.chains --chain "f32[64,1000] transpose(1,0) sin mean(1)"    this one
    python -m bench.chains --json FILE [--keep] [--show]    as in bench.programs

A chain of a number is always the same. It is reported if JAX is ahead by more than a quarter, if it fails, or if the
two results differ by more than its type explains.
"""

from __future__ import annotations

import argparse
from typing import Any

from ..beside_jax import Figures, Measure, run_command
from ..findings import BEHIND
from ..models import Entry
from ..report import BESIDE, OURS, beside_jax, duration, left_out, line_of, title_beside_jax
from . import Chain, drawn, entry_of, parsed


def show(figures: Figures, console: Any) -> None:
    """Those that are slower, the lowest ratio first, then the totals, and what was not measured and why."""
    from rich.table import Table

    run = beside_jax(figures)
    table = Table(title=title_beside_jax(figures))
    table.add_column("chain")
    for name in ("refxla", "JAX", "ratio"):
        table.add_column(name, justify="right")
    for name in sorted((n for n in run if run[n] < BEHIND), key=lambda n: run[n]):
        times = [duration(figures["entries"][name]["cells"][peer]["median"]) for peer in (OURS, BESIDE)]
        table.add_row(name, *times, f"{run[name]:.2f}")
    console.print(table)
    console.print(line_of("run", list(run.values())))
    for name, peer, why in left_out(figures):
        console.print(f"[yellow]{name}[/] on {peer}: {why}", highlight=False)


def _shrink(figures: Figures, options: argparse.Namespace, measure: Measure) -> None:
    """If requested, measures each slow chain without one of its steps; of those that are still slow, the slowest, and
    so on."""
    for name, ratio in beside_jax(figures).items() if options.shrink else ():
        chain = parsed(name)
        while ratio < BEHIND and (within := _without_one(chain)):
            measure(within)
            run = beside_jax(figures)
            ratio, slowest = min(((run[e.name], e.name) for e in within if e.name in run), default=(BEHIND, ""))
            chain = parsed(slowest) if slowest else chain


def _without_one(chain: Chain) -> list[Entry]:
    found = {}
    for number in range(len(chain.steps)):
        try:
            less = parsed(str(chain.without(number)))
        except ValueError:
            continue  # later steps need it
        found[str(less)] = entry_of(less)
    return list(found.values()) if len(chain.steps) > 1 else []


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seeds", default="0:100", metavar="FIRST:END", help="numbers of chains (%(default)s)")
    parser.add_argument("--chain", nargs="+", default=[], metavar="TEXT", help="these chains instead")
    parser.add_argument("--shrink", action="store_true", help="measure those behind without their steps, one by one")


def _chains(options: argparse.Namespace) -> list[Entry]:
    if options.chain:
        return [entry_of(parsed(text)) for text in options.chain]
    first, _, end = options.seeds.partition(":")
    return [entry_of(drawn(seed)) for seed in range(int(first), int(end))]


def main(arguments: list[str] | None = None) -> None:
    run_command(
        "chains", __doc__ or "", _chains, show, arguments, seconds=0.1, turns=3, add_options=_add_options, then=_shrink
    )


if __name__ == "__main__":
    main()
