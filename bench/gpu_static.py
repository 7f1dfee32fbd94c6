"""`python -m bench.gpu_static`: what GPU compilers make of the suite's kernels, and their limits, without a GPU.

    python -m bench.gpu_static                        the suite, for all described GPUs: a table
    python -m bench.gpu_static softmax "GEMM 1024"    entries, by groups or names
    python -m bench.gpu_static --device gpu:nvidia-sm90 --json FILE --keep    some anew, the other figures of FILE stay
    python -m bench.gpu_static --page                 docs/gpu.md and docs/gpu_kernels.md anew, from gpu-static.json

A run with --json that is stopped leaves the kernels it had in FILE.unfinished; the same run with --keep starts there.

Each kernel is compiled for each GPU (gpu_compilers.py): registers, spilled bytes, local memory, the resulting
occupancy, the instructions of the main loop. Its addresses are traced (gpu_transactions.py): the ratio of accessed to
needed sectors of 32 bytes, and how often the bytes of its arguments are requested. From these, the time of a kernel is
estimated, and the fraction that it reaches of the GPU's limit:

    memory       bytes of its arguments * excess sectors / bandwidth
    arithmetic   operations / (peak * multiply-adds in the loop * the part of all rounds of work-groups that is filled)
    estimate     the larger one, over the time of the same bytes and operations at the limits alone

The model has no latencies, caches and launches: it gives an upper bound. The work of a fusion counts for its largest
kernel. Loops count as one iteration.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from refxla_spec.text import parse

from refxla.analysis.cost_analysis import fusion_cost
from refxla.codegen.opencl_program import program
from refxla.compiler.planning import plan_module
from refxla.device.capabilities import CLANG_GPU
from refxla.device.gpu_models import MODELS, GpuModel
from refxla.ir.plan import Fusion, Kernel, Plan
from refxla.passes.pipeline import LAUNCH_MERGING

from .gpu_compilers import MachineCode, Refused, missing, occupancy
from .gpu_results import KernelResults
from .gpu_transactions import Transactions
from .models import ENTRIES, Entry, chosen
from .report import with_table

MEMORY_LIMIT = 1 << 31  # bytes of arrays up to which addresses are traced
ROOT = Path(__file__).parents[1]
PAGE, KERNELS = ROOT / "docs" / "gpu.md", ROOT / "docs" / "gpu_kernels.md"
RAW = ROOT / "docs" / "benchmarks" / "gpu-static.json"


@dataclass(frozen=True)
class Row:
    """A kernel of an entry on a GPU; `refused` is the message of a compiler that rejects it. `bytes` are those of its
    arguments, `operations` those of its fusion if it is the fusion's last kernel. `count` kernels of the entry have
    these figures."""

    entry: str
    kernel: str
    kind: str
    device: str
    group: int
    groups: int
    bytes: int
    operations: int
    code: MachineCode | None = None
    occupancy: float = 0.0
    transactions: Transactions | None = None
    refused: str = ""
    count: int = 1

    @property
    def asked(self) -> float:
        """How often the items request the bytes of the arguments, as far as their accesses were traced."""
        if self.transactions is None or not self.transactions.items:
            return 0.0
        return self.transactions.bytes / self.transactions.items * self.group * self.groups / max(self.bytes, 1)

    @property
    def multiply_adds(self) -> float:
        """Of a product, the fraction of multiply-adds in its main loop; 0 of another kernel."""
        return self.code.multiply_adds if self.code and self.kind in ("dot", "convolution") else 0.0

    def at_limits(self, model: GpuModel) -> tuple[float, float]:
        """The seconds in memory and in arithmetic at the GPU's limits alone."""
        computed = self.operations / (model.tflops * 1e12) if self.multiply_adds else 0.0
        return self.bytes / (model.gigabytes * 1e9), computed

    def estimated(self, model: GpuModel) -> tuple[float, float]:
        """The same as the kernel is written."""
        moved, computed = self.at_limits(model)
        if self.multiply_adds:
            rounds = -(-self.groups // model.target.compute_units)
            computed /= self.multiply_adds * self.groups / (rounds * model.target.compute_units)
        return moved * (self.transactions.excess if self.transactions else 1.0), computed

    def estimate(self, model: GpuModel) -> tuple[str, float]:
        """("memory" or "arithmetic", the fraction that the kernel reaches of that limit)."""
        moved, computed = self.at_limits(model)
        limit = "arithmetic" if computed > moved else "memory"
        return limit, max(moved, computed) / max(*self.estimated(model), 1e-30)


def rows(entry: Entry, model: GpuModel, results: KernelResults) -> list[Row]:
    """The kernels of an entry at the measured sizes."""
    from .kernel_text import traced as hlo

    target = replace(
        model.target, capabilities=CLANG_GPU
    )  # the compilers here are clang, whose builtins need no library
    plan = plan_module(parse(hlo(entry, entry.sizes)), target, (LAUNCH_MERGING,))[1].plan  # each kernel separately
    return joined([row(entry, plan, kernel, model, results) for kernel in plan.kernels if kernel.items])


def joined(results: Sequence[Row]) -> list[Row]:
    """The rows of an entry on a GPU; those that differ only in the kernel's name are merged."""
    first: dict[str, Row] = {}
    for row in results:
        key = repr(replace(row, kernel="", count=1))
        first[key] = replace(first[key], count=first[key].count + row.count) if key in first else row
    return list(first.values())


def row(entry: Entry, plan: Plan, kernel: Kernel, model: GpuModel, results: KernelResults) -> Row:
    """A kernel of an entry's plan."""
    fusion = _fusion(plan, kernel)
    sizes = [a.bytes if a.instruction is None else a.instruction.shape.bytes for a in kernel.arguments]
    group = kernel.work_group or 64
    last = fusion is not None and kernel.name == fusion.name
    operations = fusion_cost(fusion).operations if fusion is not None and last else 0
    kind = fusion.kind if fusion is not None else "merged"
    result = Row(
        entry.name, kernel.name, kind, model.name, kernel.work_group, -(-kernel.items // group), sum(sizes), operations
    )
    opencl = program([kernel], replace(model.target, capabilities=CLANG_GPU))
    try:
        code, transactions = results.code(opencl.source, model), None
        if kernel.work_group and sum(sizes) < MEMORY_LIMIT:
            transactions = results.transactions(opencl, sizes, result.groups // 2, model.target.sub_group)
    except Refused as problem:
        return replace(result, refused=str(problem))
    return replace(result, code=code, occupancy=occupancy(code, model, group), transactions=transactions)


def _fusion(plan: Plan, kernel: Kernel) -> Fusion | None:
    """The fusion that a kernel belongs to: its name begins with the fusion's."""
    fusions = [f for f in plan.fusions if kernel.name == f.name or kernel.name.startswith(f"{f.name}.")]
    return max(fusions, key=lambda f: len(f.name), default=None)


def table(results: Sequence[Row]) -> list[str]:
    """The rows as lines of a table in Markdown."""
    lines = [
        "| entry | kernel | GPU | registers | spilled | local | occupancy | FMA | sectors | asked | limit | estimate |",
        "|---|---|---|--:|--:|--:|--:|--:|--:|--:|---|--:|",
    ]
    for r in results:
        model = MODELS[r.device]
        times = f" and {r.count - 1} more" if r.count > 1 else ""
        start = f"| {r.entry} | {r.kernel}{times} | {model.architecture} |"
        if r.code is None:
            lines.append(f"{start} refused: {' '.join(r.refused.split())[:80]} | | | | | | | | |")
            continue
        dense = f"{r.multiply_adds:.0%}" if r.kind in ("dot", "convolution") else ""
        sectors = f"{r.transactions.excess:.2f}" if r.transactions and r.transactions.accesses else ""
        limit, reached = r.estimate(model)
        estimate, demand = (f"{reached:.0%}", f"{r.asked:.1f}") if sectors else ("", "")
        limit = limit if r.group else "the CPU's loops"
        lines.append(
            f"{start} {r.code.registers} | {r.code.spilled} | {r.code.local} | {r.occupancy:.0%} | {dense} | {sectors} "
            f"| {demand} | {limit} | {estimate} |"
        )
    return lines


def summary(results: Sequence[Row]) -> list[str]:
    """An entry a line, as a table in Markdown: its kernels, those without a schedule for GPUs, and for each GPU the
    fraction that they reach of the limits together."""
    models = [MODELS[name] for name in MODELS if any(r.device == name for r in results)]
    names = " | ".join(model.architecture for model in models)
    lines = [f"| entry | kernels | the CPU's loops | {names} |", f"|---|--:|--:|{'--:|' * len(models)}"]
    for entry in dict.fromkeys(r.entry for r in results):
        per_model = [[r for r in results if r.entry == entry and r.device == model.name] for model in models]
        counted = max(per_model, key=len)
        shares = []
        for model, rows in zip(models, per_model, strict=True):
            best, here = (sum(r.count * max(f(r, model)) for r in rows) for f in (Row.at_limits, Row.estimated))
            shares.append(f"{best / here:.0%}" if here else "")
        loops = sum(r.count for r in counted if not r.group)
        lines.append(f"| {entry} | {sum(r.count for r in counted)} | {loops} | {' | '.join(shares)} |")
    return lines


def pages(results: Sequence[Row]) -> dict[Path, str]:
    """docs/gpu.md with the summary, and docs/gpu_kernels.md with the table of all kernels, between their marks."""
    lines = {PAGE: ("the summary", summary(results)), KERNELS: ("the table", table(results))}
    return {path: with_table(path.read_text("utf-8"), *content) for path, content in lines.items()}


def load(file: Path) -> list[Row]:
    """The rows of a file of raw figures."""
    rows = []
    for values in json.loads(file.read_text("utf-8"))["rows"]:
        code, transactions = values["code"], values["transactions"]
        values |= {"code": code and MachineCode(**code), "transactions": transactions and Transactions(**transactions)}
        rows.append(Row(**values))
    return rows


def save(file: Path, results: Sequence[Row]) -> None:
    """Writes the rows, in the order of the suite, with their commit."""
    git = subprocess.run(["git", "rev-parse", "--short=10", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    names = [e.name for e in ENTRIES]
    ordered = sorted(joined(results), key=lambda r: (list(MODELS).index(r.device), names.index(r.entry)))
    head = json.dumps({"commit": git.stdout.strip(), "date": time.strftime("%Y-%m-%d")})
    lines = ",\n".join(json.dumps(asdict(r)) for r in ordered)  # a line each, so that a change of one shows as one
    file.parent.mkdir(parents=True, exist_ok=True)
    complete = file.with_name(f"{file.name}.new")  # so that a run that is stopped leaves the old file or the new one
    complete.write_text(f'{head[:-1]}, "rows": [\n{lines}\n]}}\n', "utf-8")
    complete.replace(file)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit status."""
    parser = argparse.ArgumentParser(prog="python -m bench.gpu_static", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("entries", nargs="*", help="groups or names of entries of the suite; none: all")
    parser.add_argument("--device", nargs="+", choices=list(MODELS), default=list(MODELS), metavar="NAME")
    parser.add_argument("--json", type=Path, metavar="FILE", help="the raw figures")
    parser.add_argument("--keep", action="store_true", help="the other rows of FILE stay")
    parser.add_argument(
        "--page", action="store_true", help="only write the tables of the documentation, from what is kept there"
    )
    options = parser.parse_args(arguments)
    if options.page:
        for path, text in pages(load(RAW)).items():
            path.write_text(text, "utf-8")
        return 0
    entries = chosen(options.entries)
    for name in options.device:
        lacking = missing(name.removeprefix("gpu:").partition("-")[0])
        if lacking:
            print(f"{name}: {lacking}", file=sys.stderr)
            return 2
    unfinished = options.json and options.json.with_name(f"{options.json.name}.unfinished")
    if unfinished and not options.keep:
        unfinished.unlink(missing_ok=True)
    known = KernelResults(unfinished)
    results: list[Row] = []
    for name in options.device:
        for entry in entries:
            print(f"{name}: {entry.name}", file=sys.stderr, flush=True)
            new = rows(entry, MODELS[name], known)
            results += new
            if options.json:
                old = load(options.json) if options.json.exists() and (options.keep or results != new) else []
                save(options.json, [*(r for r in old if (r.entry, r.device) != (entry.name, name)), *new])
    if unfinished:
        unfinished.unlink(missing_ok=True)
    print("\n".join(table(results)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
