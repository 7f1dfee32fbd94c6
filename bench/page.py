"""`python -m bench.page`: writes docs/benchmarks.md and its chart from the figures below docs/benchmarks/.

A folder there is a machine; its files were written by the measuring commands with --json, and their names begin with
their kind: speed-1.json, speed-2.json, ... (runs of the suite), programs.json (JAX programs of many kinds), cliffs.json
(sweeps), peers.json (the suite on more frameworks), compile.json, notebook.json, memory.json, gemm.json,
bandwidth.json. `reported.json` has figures whose raw data was not kept. `many-cores.json` belongs to no machine. Only
the text of `page.txt`, which has no figures, is written by hand; a test checks the page.

    python -m bench.page                write the page and the chart
    python -m bench.page --check        exit with 1 if they are not what the figures make
"""

from __future__ import annotations

import argparse
import json
import string
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from .findings import findings
from .report import (
    OURS,
    beside_jax,
    compile_ratios,
    duration,
    left_out,
    lowest_of_runs,
    markdown,
    megabytes,
    picture,
    ratios,
    summary,
    totals,
)

ROOT = Path(__file__).parents[1]
FIGURES = ROOT / "docs" / "benchmarks"
PAGE, CHART = ROOT / "docs" / "benchmarks.md", FIGURES / "suite.svg"
JAX = "jax"
SUMMARY = ("geometric mean", "without the three best", "median", "lowest")

OTHERS = {"without the three best": "without the three best", "median": "in the median", "lowest": "at the lowest"}

Figures = dict[str, Any]  # written by a measuring command


class Machine:
    """The figures of one machine: `kinds[kind]` are the files of a kind, in the order of their names."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kinds: dict[str, list[Figures]] = {}
        for file in sorted(folder.glob("*.json")):
            self.kinds.setdefault(file.stem.split("-")[0], []).append(json.loads(file.read_text()))
        about = [figures["machine"] for files in self.kinds.values() for figures in files]
        self.date = max((a.get("date", "") for a in about), default="")
        self.about = about[0]

    @property
    def title(self) -> str:
        vectors = f", {self.about['vectors']}" if self.about.get("vectors") else ""
        return f"{self.about['processor']}{vectors}, {self.about['cores']} cores"


@cache
def machines() -> list[Machine]:
    """The newest first; on the same day, those whose commit is known."""
    result = [Machine(folder) for folder in sorted(FIGURES.iterdir()) if folder.is_dir()]
    return sorted(result, key=lambda machine: (machine.date, bool(machine.about.get("commit"))), reverse=True)


def newest(kind: str) -> Machine:
    """The newest machine that has figures of a kind."""
    return next(machine for machine in machines() if kind in machine.kinds)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Lines of Markdown: the first column is text, the others are numbers."""
    yield "| " + " | ".join(head) + " |"
    yield "|---" + "|--:" * (len(head) - 1) + "|"
    for row in rows:
        yield "| " + " | ".join(row) + " |"
    yield ""


def source(figures: Figures) -> str:
    """The origin of figures, as a sentence."""
    about = figures["machine"]
    commit = f"commit {about['commit']}" if about.get("commit") else "a commit that was not recorded"
    date = f", {about['date']}" if about.get("date") else ""
    beside = f"JAX {about['packages'][JAX]}; " if JAX in about.get("packages", {}) else ""
    turns = least_turns(figures)
    measured = f"{turns} turns; " if turns else ""
    return f"`{figures['command']}`; {commit}{date}; {beside}{measured}load {about['load'][0]} at the start."


def least_turns(figures: Figures) -> int:
    """The minimum number of turns in which each program was measured; 0 if the figures do not say."""
    cells = [cell for row in figures.get("entries", {}).values() for cell in row["cells"].values()]
    return min((len(cell["turns"]) for cell in cells if cell.get("turns")), default=0)


def speed(runs: Sequence[Figures]) -> Iterator[str]:
    """The suite compared with JAX, in all runs."""
    yield "### The suite beside JAX"
    yield ""
    for figures in runs:
        yield f"- {source(figures)}"
    yield ""
    lowest = {name: row[JAX] for name, row in lowest_of_runs(runs).items() if JAX in row}
    rows = [(f"run {n}", totals(figures)[JAX]) for n, figures in enumerate(runs, 1)]
    if len(runs) > 1:
        rows.append(("the lowest of the runs, program by program", summary(list(lowest.values()))))
    head = ("time of JAX over that of refxla", *SUMMARY, "below 1")
    yield from table(
        head, [(name, *(f"{t[s]:.2f}" for s in SUMMARY), f"{t['below 1']} of {t['entries']}") for name, t in rows]
    )
    by_run = [ratios(figures) for figures in runs]
    body = []
    for name, row in runs[-1]["entries"].items():
        times = [duration(c["median"]) if "median" in c else "" for c in (row["cells"][OURS], row["cells"][JAX])]
        each = [f"{r[name][JAX]:.2f}" if JAX in r.get(name, {}) else "" for r in by_run]
        body.append((name, *times, *each))
    numbered = (f"run {n}" for n in range(1, len(runs) + 1))
    yield from table(("", f"{OURS}, last run", f"{JAX}, last run", *numbered), body)


def programs(files: Sequence[Figures]) -> Iterator[str]:
    """The list of JAX programs compared with JAX, the lowest ratio first, and what was not measured."""
    for figures, head in sections("JAX programs of many kinds", files):
        run = beside_jax(figures)
        compiled = compile_ratios(figures)
        yield from head
        rows = []
        for what, values in (("a call", run), ("the first call, with compilation", compiled)):
            total = summary(list(values.values()))
            rows.append((what, *(f"{total[s]:.2f}" for s in SUMMARY), f"{total['below 1']} of {total['entries']}"))
        yield from table(("time of JAX over that of refxla", *SUMMARY, "below 1"), rows)
        body = []
        for name in sorted(run, key=lambda program: run[program]):
            row = figures["entries"][name]
            line = [f"{name} ({row['group']})"]
            for which, ratio in (("median", run[name]), ("first", compiled[name])):
                line += [*(duration(row["cells"][peer][which]) for peer in (OURS, JAX)), f"{ratio:.2f}"]
            body.append(line)
        head = (OURS, JAX, "ratio")
        yield from table(("", *head, *(f"first call, {name}" for name in head)), body)
        for name, peer, why in left_out(figures):
            yield from (f"- {name}, not measured, {peer}: {why}", "")


def cliffs(files: Sequence[Figures]) -> Iterator[str]:
    """Where the sweeps found refxla slower than JAX, or suddenly slower."""
    for figures in files:
        total, cases = summary(list(beside_jax(figures).values())), findings(figures)
        yield from ("### Sweeps of operations", "", source(figures), "")
        means = f"geometric mean {total['geometric mean']:.2f}, median {total['median']:.2f}"
        yield f"Of {total['entries']} points over sizes, types, shapes and trip counts, {total['below 1']} are below 1"
        yield from (f"({means}). Those below 0.8, and those where the ratio falls beside a neighbour's:", "")
        body = []
        for each in cases:
            cells = figures["entries"][each.name]["cells"]
            times = (duration(cells[peer]["median"]) for peer in (OURS, JAX))
            body.append((f"{each.sweep}: {each.place}", *times, f"{each.ratio:.2f}", each.neighbour_text))
        yield from table(("", OURS, JAX, "ratio", "beside"), body)
        for name, peer, why in left_out(figures):
            yield from (f"- {name}, not measured, {peer}: {why}", "")


def peers(files: Sequence[Figures]) -> Iterator[str]:
    """The suite compared with other frameworks, and with the fastest of them, program by program."""
    yield "### Beside other frameworks"
    yield ""
    for figures in files:
        yield from (source(figures), "")
        body = [
            (peer, *(f"{t[s]:.2f}" for s in SUMMARY), f"{t['below 1']} of {t['entries']}")
            for peer, t in totals(figures).items()
        ]
        yield from table(("time of a framework over that of refxla", *SUMMARY, "below 1"), body)
        cells = [cell for row in figures["entries"].values() for cell in row["cells"].items()]
        yield markdown(figures, list(dict.fromkeys(p for p, c in cells if "median" in c)))


def sections(title: str, files: Sequence[Figures]) -> Iterator[tuple[Figures, tuple[str, ...]]]:
    """Each file of a kind with the heading of its section; several ones are numbered."""
    for n, figures in enumerate(files, 1):
        yield figures, (f"### {title}" + (f", run {n}" if len(files) > 1 else ""), "", source(figures), "")


def first_results(files: Sequence[Figures]) -> Iterator[str]:
    """Seconds to the first result."""
    for figures, head in sections("To the first result", files):
        yield from head
        yield "In a new process, after the import of JAX. refxla's part begins with the import of its compiler."
        yield ""
        rows = []
        for name, row in figures["entries"].items():
            ours, theirs = row["cells"][OURS], row["cells"].get(JAX, {"absent": ""})
            if "absent" in ours or "absent" in theirs:
                continue
            line = [name]
            for which in ("median", "cached"):
                line += [duration(ours[which]), duration(theirs[which]), f"{theirs[which] / ours[which]:.2f}"]
            rows.append(line)
        names = (f"{OURS}", f"{JAX}", "ratio")
        head = ("", *(f"{n}, cold" for n in names), *(f"{n}, from disk" for n in names))
        yield from table(head, rows)


def notebook(files: Sequence[Figures]) -> Iterator[str]:
    """Seconds of operations that are compiled one by one."""
    for figures, head in sections("A notebook of operations without `jit`", files):
        yield from head
        yield f"{figures['operations']} operations of {figures['kinds']} kinds, each of which is compiled by itself"
        yield f"(`bench/notebook_cells.py`), on refxla's plugin and on JAX's CPU platform; {figures['turns']} turns."
        yield ""
        rows = []
        for which, caches in (("cold", "empty caches"), ("cached", "from disk")):
            ours, theirs = (figures["rows"][name][which]["median"] for name in (OURS, JAX))
            rows.append((caches, duration(ours), duration(theirs), f"{theirs / ours:.2f}"))
        yield from table(("", OURS, JAX, "ratio"), rows)


def memory(files: Sequence[Figures]) -> Iterator[str]:
    """Peaks of resident memory."""
    for figures, head in sections("Peak memory of the process", files):
        yield from head
        rows = []
        for name, row in figures["entries"].items():
            ours, theirs = row["cells"][OURS], row["cells"].get(JAX, {"absent": ""})
            if "absent" not in ours and "absent" not in theirs:
                both = (ours["median"], theirs["median"])
                rows.append((name, *map(megabytes, both), f"{both[1] / both[0]:.2f}"))
        yield from table(("", OURS, JAX, "ratio"), rows)


def of_type(files: Sequence[Figures], kind: str) -> list[Figures]:
    """The files about an element type."""
    return [figures for figures in files if figures["type"] == kind]


def products(files: Sequence[Figures]) -> Iterator[str]:
    """Matrix products compared with OpenBLAS."""
    kinds = dict.fromkeys(figures["type"] for figures in files)
    each = (f for kind in kinds for f in sections(f"Matrix products of {kind} beside OpenBLAS", of_type(files, kind)))
    for figures, head in each:
        yield from head
        rows = []
        for row in figures["rows"]:
            rates = (f"{row['operations'] / row[name] / 1e9:.0f}" for name in (OURS, "numpy"))
            rows.append((row["case"]["name"], *rates, f"{row['ratio']:.2f}"))
        yield from table(("", f"{OURS}, GFLOP/s", "OpenBLAS, GFLOP/s", "ratio"), rows)


def bandwidth(files: Sequence[Figures]) -> Iterator[str]:
    """Memory-bound programs compared with copies."""
    for figures, head in sections("Memory-bound programs beside a copy", files):
        yield from head
        rows = []
        for row in figures["rows"]:
            copy = row["memcpy_seconds"] / row["copy_seconds"]
            rate = f"{row['bytes'] / row['seconds'] / 1e9:.1f}"
            rows.append((row["name"], rate, f"{row['share']:.0%}", f"{row['share_of_memcpy']:.0%}", f"{copy:.0%}"))
        yield from table(("", "GB/s", "of refxla's copy", "of memcpy", "refxla's copy of memcpy"), rows)


SECTIONS = {
    "speed": speed,
    "programs": programs,
    "cliffs": cliffs,
    "peers": peers,
    "compile": first_results,
    "notebook": notebook,
    "memory": memory,
    "gemm": products,
    "bandwidth": bandwidth,
}


def many_cores() -> Iterator[str]:
    """The losses of the plans for many cores."""
    losses = json.loads((FIGURES / "many-cores.json").read_text())
    cores = list(next(iter(losses.values())))
    rows = [(name, *(f"{loss[n]:.0%}" for n in cores)) for name, loss in losses.items()]
    yield from table(("", *(f"{n} cores" for n in cores)), rows)


def reported() -> Iterator[str]:
    """Measurements on machines whose raw data was not kept."""
    yield from table(
        ("what", "figure", "machine"),
        [(row["what"], row["figure"], row["machine"]) for row in json.loads((FIGURES / "reported.json").read_text())],
    )


def headline(machine: Machine) -> str:
    """The sentence that is also in README.md: for the run with the lowest geometric mean."""
    total = min((totals(figures)[JAX] for figures in machine.kinds["speed"]), key=lambda t: t["geometric mean"])
    return f"{total['geometric mean']:.2f} times as fast as JAX on the geometric mean ({others(total)})"


PEERS = {
    "torch": "PyTorch",
    "torch-compile": "`torch.compile`",
    "tensorflow-xla": "TensorFlow with XLA",
    "onnxruntime": "ONNX Runtime",
}


def headline_of_peers(machine: Machine) -> str:
    """The part of a sentence that is also in README.md: for the last run beside other frameworks."""
    total = totals(machine.kinds["peers"][-1])
    times = [f"{total[peer]['geometric mean']:.1f} times as fast as {title}" for peer, title in PEERS.items()]
    best = total["best"]
    return (
        f"{', '.join(times)}, and {best['geometric mean']:.1f} times as fast as the fastest of all of them on each "
        f"program ({best['lowest']:.2f} at the lowest, {best['below 1']} of {best['entries']} below 1)"
    )


def others(total: dict[str, float]) -> str:
    """The rest of a summary after its geometric mean."""
    return ", ".join(f"{total[name]:.2f} {where}" for name, where in OTHERS.items())


def headline_of_programs(machine: Machine) -> str:
    """The sentence that is also in README.md: for the last run of the list of JAX programs, and for their first
    calls."""
    figures = machine.kinds["programs"][-1]
    run = summary(list(beside_jax(figures).values()))
    compiled = summary(list(compile_ratios(figures).values()))
    return (
        f"{run['geometric mean']:.2f} times as fast on the geometric mean of {run['entries']} ({others(run)}, "
        f"{run['below 1']} below 1); the first call, with compilation, takes "
        f"{1 / compiled['geometric mean']:.1f} times as long"
    )


def page() -> str:
    """The page as Markdown."""
    computers = machines()
    parts: list[str] = []
    for machine in computers:
        parts += [f"## {machine.title}", ""]
        for kind, section in SECTIONS.items():
            if kind in machine.kinds:
                parts += section(machine.kinds[kind])
    text = string.Template((FIGURES / "page.txt").read_text())
    filled = text.substitute(
        headline=headline(newest("speed")),
        headline_of_peers=headline_of_peers(newest("peers")),
        headline_of_programs=headline_of_programs(newest("programs")),
        machines="\n".join(parts),
        many_cores="\n".join(many_cores()),
        reported="\n".join(reported()),
    )
    return "\n".join(line.rstrip() for line in filled.splitlines()).rstrip() + "\n"


def chart() -> str:
    """The chart of the newest machine's run with the lowest geometric mean, as SVG."""
    return picture(min(newest("speed").kinds["speed"], key=lambda figures: totals(figures)[JAX]["geometric mean"]))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.page", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; 1 if the page is not up to date")
    options = parser.parse_args(arguments)
    for path, text in ((PAGE, page()), (CHART, chart())):
        if not options.check:
            path.write_text(text)
        elif path.read_text() != text:
            print(f"{path.relative_to(ROOT)} is not what the figures make: run python -m bench.page", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
