"""The results of bench.peers: as a table, as JSON, as a chart.

python -m bench.report FILE.json             the table again
python -m bench.report FILE.json --markdown  the same for a page
python -m bench.report FILE.json --svg FILE  the chart
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from .chart import svg

OURS, BESIDE = "refxla", "jax"
BEST_LEFT_OUT = 3  # ratios: a mean dominated by them says little about the others
WIDE = 200  # characters: a table of all frameworks


def duration(seconds: float) -> str:
    """A duration in its unit."""
    for scale, unit in ((1, "s"), (1e3, "ms")):
        if seconds * scale >= 1:
            return f"{seconds * scale:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"


def megabytes(count: float) -> str:
    return f"{count / 1e6:,.0f} MB"


def ratios(figures: dict[str, Any], statistic: str = "median") -> dict[str, dict[str, float]]:
    """entry -> {framework: its figure over refxla's}, for every framework that has one beside refxla's."""
    by_entry = {}
    for name, row in figures["entries"].items():
        cells = {peer: cell[statistic] for peer, cell in row["cells"].items() if "absent" not in cell}
        if OURS in cells:
            by_entry[name] = {peer: value / cells[OURS] for peer, value in cells.items() if peer != OURS}
    return by_entry


def beside_jax(figures: dict[str, Any], statistic: str = "median") -> dict[str, float]:
    """entry -> JAX's figure over refxla's, for every entry that has both."""
    return {name: row[BESIDE] for name, row in ratios(figures, statistic).items() if BESIDE in row}


def title_beside_jax(figures: dict[str, Any]) -> str:
    """The heading of a table of such ratios."""
    machine = figures["machine"]["processor"]
    return f"{machine}, {figures['threads']} threads; ratios are JAX's seconds over refxla's"


def line_of(what: str, values: Sequence[float]) -> str:
    """A line about a set of ratios."""
    total = summary(values)
    return (
        f"{what}: geometric mean {total['geometric mean']:.2f} over {total['entries']}, "
        f"median {total['median']:.2f}, lowest {total['lowest']:.2f}, {total['below 1']} below 1"
    )


def best(row: dict[str, float]) -> float | None:
    """The lowest ratio of all frameworks other than refxla in another setting."""
    return min((value for peer, value in row.items() if not peer.startswith(OURS)), default=None)


def geometric_mean(values: Iterable[float]) -> float:
    """nan if there are no values."""
    logarithms = [math.log(v) for v in values]
    return math.exp(sum(logarithms) / len(logarithms)) if logarithms else math.nan


def summary(values: Sequence[float]) -> dict[str, float]:
    """The distribution of a set of ratios: its geometric mean, which a few large ones can dominate, the same without
    the BEST_LEFT_OUT largest, the median, the minimum, the count, and how many are below 1. nan if there are no
    values."""
    ordered = sorted(values)
    return {
        "geometric mean": geometric_mean(ordered),
        "without the three best": geometric_mean(ordered[:-BEST_LEFT_OUT]),
        "median": statistics.median(ordered) if ordered else math.nan,
        "lowest": ordered[0] if ordered else math.nan,
        "entries": len(ordered),
        "below 1": sum(v < 1 for v in ordered),
    }


def compile_ratios(figures: dict[str, Any]) -> dict[str, float]:
    """program -> JAX's seconds to the first result over refxla's, if both have one."""
    by_program = {}
    for name, row in figures["entries"].items():
        first = [row["cells"].get(peer, {}).get("first") for peer in (BESIDE, OURS)]
        if None not in first:
            by_program[name] = first[0] / first[1]
    return by_program


def left_out(figures: dict[str, Any]) -> list[tuple[str, str, str]]:
    """(program, framework, why) for each that was not measured."""
    return [
        (name, peer, cell["absent"])
        for name, row in figures["entries"].items()
        for peer, cell in row["cells"].items()
        if "absent" in cell
    ]


def lowest_of_runs(runs: Sequence[dict[str, Any]], statistic: str = "median") -> dict[str, dict[str, float]]:
    """entry -> {framework: its lowest ratio in all runs that have one}."""
    by_entry: dict[str, dict[str, float]] = {}
    for figures in runs:
        for name, row in ratios(figures, statistic).items():
            least = by_entry.setdefault(name, {})
            for peer, value in row.items():
                least[peer] = min(value, least.get(peer, math.inf))
    return by_entry


def totals(figures: dict[str, Any], statistic: str = "median") -> dict[str, dict[str, float]]:
    """The `summary` of each framework's ratios, and of "best" (the fastest of all others)."""
    columns: dict[str, list[float]] = {}
    for row in ratios(figures, statistic).values():
        for peer, value in row.items():
            columns.setdefault(peer, []).append(value)
        least = best(row)
        if least is not None:
            columns.setdefault("best", []).append(least)
    return {peer: summary(values) for peer, values in columns.items()}


def write(figures: dict[str, Any], path: Path) -> None:
    """The figures as JSON, with the ratios' totals."""
    path.write_text(json.dumps({**figures, "totals": totals(figures)}, indent=1) + "\n")


def show(figures: dict[str, Any], names: list[str], console: Any, statistic: str = "median") -> None:
    """A table: figures, then ratios to JAX and to the best of all others; below it what is absent, and why."""
    from rich.table import Table

    machine = figures["machine"]
    unit = megabytes if figures["what"] == "bytes" else duration
    rows = figures["entries"]
    shown = [n for n in names if any("absent" not in row["cells"].get(n, {"absent": ""}) for row in rows.values())]
    load = f"load {machine['load'][0]} to {machine.get('load at the end', machine['load'])[0]}"
    title = f"{figures['what']} ({statistic}): {machine['processor']}, {figures['threads']} threads, {load}"
    table = Table(title=title + (", small sizes" if figures["small"] else ""))
    table.add_column("")
    for name in shown:
        table.add_column(name, justify="right", overflow="fold")
    table.add_column(f"/ {BESIDE}", justify="right")
    table.add_column("/ best", justify="right")
    by_entry = ratios(figures, statistic)
    for name, row in rows.items():
        cells = []
        for peer in shown:
            cell = row["cells"].get(peer, {"absent": ""})
            text = "-" if "absent" in cell else unit(cell[statistic])
            cells.append(text + (f" ({unit(cell['cached'])})" if "cached" in cell and "absent" not in cell else ""))
        beside = by_entry.get(name, {})
        table.add_row(name, *cells, _ratio(beside.get(BESIDE)), _ratio(best(beside)))
    console.print(table)
    for peer, total in totals(figures, statistic).items():
        console.print(
            f"beside {peer}: geometric mean {total['geometric mean']:.2f}x over {total['entries']}, without the three "
            f"best {total['without the three best']:.2f}, median {total['median']:.2f}, lowest {total['lowest']:.2f}, "
            f"{total['below 1']} below 1.0x"
        )
    for peer, reason in figures.get("absent", {}).items():
        console.print(f"[yellow]{peer}[/] is absent: {reason}", highlight=False)
    for name, row in rows.items():
        for peer, cell in row["cells"].items():
            reason = cell.get("absent", "")
            if reason and peer not in figures.get("absent", {}) and not reason.startswith("NotImplementedError"):
                console.print(f"[yellow]{name}[/] on {peer}: {reason}", highlight=False)


def console_of_tables() -> Any:
    """A console as wide as the terminal or COLUMNS; wide enough for every framework if the output is a file."""
    from rich.console import Console

    console = Console()
    return console if console.is_terminal or "COLUMNS" in os.environ else Console(width=WIDE)


def _ratio(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.2f}" if value >= 1 else f"[red]{value:.2f}[/]"


def picture(figures: dict[str, Any], statistic: str = "median") -> str:
    """A bar chart of the ratios to JAX, as SVG."""
    by_entry = ratios(figures, statistic)
    beside = {name: row[BESIDE] for name, row in by_entry.items() if BESIDE in row}
    others = {name: value for name, row in by_entry.items() if len(row) > 1 and name in beside and (value := best(row))}
    total = geometric_mean(beside.values())
    below = sum(value < 1 for value in beside.values())
    title = f"refxla beside JAX: {total:.2f}x (geometric mean of {len(beside)}, {below} below 1)"
    machine = figures["machine"]
    subtitle = f"{figures['what']}; {machine['processor']}, {figures['threads']} threads"
    return svg(beside, others, title, subtitle)


def markdown(figures: dict[str, Any], names: list[str], statistic: str = "median") -> str:
    """The table of `show` for a page, without absent ones."""
    unit = megabytes if figures["what"] == "bytes" else duration
    lines = ["| | " + " | ".join(names) + f" | / {BESIDE} | / best |", "|---" + "|--:" * (len(names) + 2) + "|"]
    by_entry = ratios(figures, statistic)
    for name, row in figures["entries"].items():
        cells = []
        for peer in names:
            cell = row["cells"].get(peer, {"absent": ""})
            text = "" if "absent" in cell else unit(cell[statistic])
            cells.append(text + (f" ({unit(cell['cached'])})" if "cached" in cell and "absent" not in cell else ""))
        beside = by_entry.get(name, {})
        both = (beside.get(BESIDE), best(beside))
        cells += ["" if value is None else f"{value:.2f}" for value in both]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def with_table(text: str, name: str, lines: Sequence[str]) -> str:
    """A page of Markdown with these lines between its marks, `<!-- begin of NAME -->` and `<!-- end of NAME -->`."""
    begin, end = f"<!-- begin of {name} -->", f"<!-- end of {name} -->"
    before, _, rest = text.partition(begin)
    return "\n".join([before + begin, *lines, end + rest.partition(end)[2]])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.report", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("file", type=Path, help="what bench.peers --json wrote")
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--svg", type=Path)
    parser.add_argument("--statistic", choices=["median", "best", "processor"], default="median")
    options = parser.parse_args()
    figures = json.loads(options.file.read_text())
    cells = [cell for row in figures["entries"].values() for cell in row["cells"].items()]
    names = list(dict.fromkeys(peer for peer, cell in cells if "absent" not in cell))
    if options.svg:
        options.svg.write_text(picture(figures, options.statistic))
    if options.markdown:
        print(markdown(figures, names, options.statistic), end="")
    else:
        show(figures, names, console_of_tables(), options.statistic)


if __name__ == "__main__":
    main()
