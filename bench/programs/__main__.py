"""`python -m bench.programs`: JAX programs of many kinds, compiled by refxla and by JAX for CPUs, in turns.

    python -m bench.programs                      all of them, about ten minutes
    python -m bench.programs --only "heat stencil" sorting    texts that names hold, or kinds
    python -m bench.programs --json FILE          the figures with machine and versions; FILE is written after each
    python -m bench.programs --json FILE --keep   programs that FILE has and that are not measured now, stay
    python -m bench.programs --json FILE --show   the table of FILE again; nothing is measured

Each compiler runs in a process of its own with the same number of threads and empty caches. The results of JAX are
compared with refxla's; a program whose results differ is not measured. A ratio above 1 says that refxla is faster. The
compile ratio is that of the seconds from the first call to its results, tracing included, in a process that has
compiled before: also above 1 where refxla takes less.
"""

from __future__ import annotations

from typing import Any

from ..beside_jax import Figures, run_command
from ..report import BESIDE, OURS, beside_jax, compile_ratios, duration, left_out, line_of, title_beside_jax
from . import PROGRAMS


def show(figures: Figures, console: Any) -> None:
    """The table, the lowest ratio first, then the totals, and what was not measured and why."""
    from rich.table import Table

    run, compiled = beside_jax(figures), compile_ratios(figures)
    table = Table(title=title_beside_jax(figures))
    table.add_column("program", no_wrap=True)
    table.add_column("kind")
    for name in ("refxla", "JAX", "ratio", "refxla compiles", "JAX compiles", "ratio"):
        table.add_column(name, justify="right")
    for name in sorted(run, key=lambda n: run[n]):
        row = figures["entries"][name]
        cells = [row["cells"][peer] for peer in (OURS, BESIDE)]
        times = [duration(cell["median"]) for cell in cells]
        firsts = [duration(cell["first"]) for cell in cells]
        table.add_row(name, row["group"], *times, f"{run[name]:.2f}", *firsts, f"{compiled[name]:.2f}")
    console.print(table)
    for what, values in (("run", list(run.values())), ("compile", list(compiled.values()))):
        console.print(line_of(what, values))
    for name, peer, why in left_out(figures):
        console.print(f"[yellow]{name}[/] on {peer}: {why}", highlight=False)


def main(arguments: list[str] | None = None) -> None:
    run_command("programs", __doc__ or "", lambda options: PROGRAMS, show, arguments, seconds=1.0, turns=5)


if __name__ == "__main__":
    main()
