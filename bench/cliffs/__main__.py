"""`python -m bench.cliffs`: finds where refxla falls behind JAX: operations and idioms over sizes, types and shapes.

    python -m bench.cliffs                        all sweeps, about a quarter of an hour
    python -m bench.cliffs --only reductions sort    kinds, or texts that names hold
    python -m bench.cliffs --json FILE            the figures with machine and versions; written after each point
    python -m bench.cliffs --json FILE --keep     points that FILE has and that are not measured now, stay
    python -m bench.cliffs --json FILE --show     the findings of FILE again; nothing is measured

Each sweep is a function of JAX at some points of an axis (sizes, types, shapes, trip counts, ...). refxla and JAX take
turns at each point, as in `bench.programs`. A point is reported if JAX is ahead by more than a quarter there, or if the
ratio falls to less than two fifths of that of a neighbouring point.
"""

from __future__ import annotations

from typing import Any

from ..beside_jax import Figures, run_command
from ..findings import findings
from ..report import BESIDE, OURS, beside_jax, duration, left_out, line_of, title_beside_jax
from . import POINTS


def show(figures: Figures, console: Any) -> None:
    """The findings, then the totals of each kind, and what was not measured and why."""
    from rich.table import Table

    run, entries = beside_jax(figures), figures["entries"]
    table = Table(title=title_beside_jax(figures))
    for name in ("sweep", "point", "what"):
        table.add_column(name)
    for name in ("refxla", "JAX", "ratio", "beside"):
        table.add_column(name, justify="right")
    for finding in findings(figures):
        times = [duration(entries[finding.name]["cells"][peer]["median"]) for peer in (OURS, BESIDE)]
        table.add_row(
            finding.sweep, finding.place, finding.what, *times, f"{finding.ratio:.2f}", finding.neighbour_text
        )
    console.print(table)
    for kind in dict.fromkeys(row["group"] for row in entries.values()):
        console.print(line_of(kind, [value for name, value in run.items() if entries[name]["group"] == kind]))
    for name, peer, why in left_out(figures):
        console.print(f"[yellow]{name}[/] on {peer}: {why}", highlight=False)


def main(arguments: list[str] | None = None) -> None:
    run_command("cliffs", __doc__ or "", lambda options: POINTS, show, arguments, seconds=0.2, turns=5)


if __name__ == "__main__":
    main()
