"""`python -m bench.gpu`: what a real GPU makes of the suite's kernels, beside JAX on the same GPU.

    python -m bench.gpu                            the suite, and its kernels at sizes that fill a large GPU
    python -m bench.gpu softmax models             entries, by groups ("large" is one) or texts that names hold
    python -m bench.gpu --device gpu:0 --peers     the device; no peers
    python -m bench.gpu --json FILE                the raw figures, after those that FILE has
    python -m bench.gpu --page                     docs/gpu.md anew, from docs/benchmarks/gpu-h200.json

Arrays are on the device. For each entry: the seconds of the first call; the device's own time of each kernel, the
minimum of several calls; a call including the wait for its results, the minimum of many. JAX runs the same function in
its full f32 (`jax_default_matmul_precision` "highest": otherwise, it multiplies in TF32 on NVIDIA's GPUs), and again
with its defaults. Results are compared: those that differ by more than the entry allows are reported, and not timed.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import refxla
from refxla.compiler.kernel_profile import wait_for
from refxla.device.gpu_models import MODELS, GpuModel
from refxla.runtime.devices import Device

from .child import distance
from .frameworks.base import Array, Framework, Function
from .machine import describe
from .models import ENTRIES, Entry, chosen, kernels
from .models.convolutional import batch_norm, batch_norm_arguments
from .report import with_table

_M = 1 << 20
SECONDS = 0.25  # of calls, at least


def tiled(*shape: int, seed: int = 0) -> np.ndarray:
    """Random values of a large shape: a million of them, repeated."""
    count = int(np.prod(shape))
    some = np.random.default_rng(seed).normal(size=min(count, _M)).astype(np.float32)
    return np.resize(some, shape)


def convolve(xp: Framework, x: Array, filters: Array) -> Array:
    return xp.convolve(x, filters, 1, 1)


def _large(name: str, function: Function, arguments: Callable[[], list[Any]], bound: float = 1e-3) -> Entry:
    return Entry(name, "large", function, arguments, {}, {}, False, bound)


LARGE = [
    _large("x + 1, 256M", kernels.increment, lambda: [tiled(256 * _M)]),
    _large("sum(x + y*z) 256M", kernels.sum_of_products, lambda: [tiled(256 * _M, seed=n) for n in range(3)]),
    _large("tanh chain 256M", kernels.tanh_chain, lambda: [tiled(256 * _M, seed=n) for n in range(3)]),
    _large("transpose 16384", kernels.transpose, lambda: [tiled(16384, 16384)]),
    _large("column mean 262144 x 1024", kernels.column_mean, lambda: [tiled(262144, 1024)]),
    _large("softmax 262144 x 1024", kernels.softmax, lambda: [tiled(262144, 1024)]),
    _large("layer-norm 262144 x 1024", kernels.layer_norm, lambda: [tiled(262144, 1024), tiled(1024), tiled(1024)]),
    _large("batch-norm b256", batch_norm, lambda: batch_norm_arguments(batch=256, side=56, features=64)),
    _large("GEMM 4096", kernels.matmul, lambda: [tiled(4096, 4096), tiled(4096, 4096, seed=1)]),
    _large("GEMM 8192", kernels.matmul, lambda: [tiled(8192, 8192), tiled(8192, 8192, seed=1)]),
    _large("convolution 3x3 b64", convolve, lambda: [tiled(64, 56, 56, 128), tiled(3, 3, 128, 128, seed=1)]),
    _large("sort 16M", kernels.sort, lambda: [np.random.default_rng(0).normal(size=(1, 16 * _M)).astype(np.float32)]),
    _large("cumulative sum 65536 x 4096", kernels.cumulative_sum, lambda: [tiled(65536, 4096)]),
    _large(
        "scatter-add 1M", kernels.scatter_add, lambda: kernels.table_and_updates(rows=_M, columns=64, updates=_M)
    ),
]  # fmt: skip


@dataclass(frozen=True)
class KernelTime:
    """A kernel of an entry: the device's time for all its launches in a call, in seconds; the bytes that its fusion
    moves and the operations that it computes, if it is the fusion's last kernel."""

    name: str
    kind: str
    count: int
    seconds: float
    bytes: int
    operations: int

    def reached(self, model: GpuModel) -> float:
        """The fraction that it reaches of the GPU's limit of memory or arithmetic, whichever applies."""
        moved, computed = self.bytes / (model.gigabytes * 1e9), self.operations / (model.tflops * 1e12)
        return max(moved, computed if self.kind in ("dot", "convolution") else 0.0) / self.seconds


@dataclass
class Result:
    """An entry on the GPU; `peers` has for each the seconds of a call and of the first one, or the reason why there are
    none."""

    entry: str
    first: float = 0.0
    call: float = 0.0
    kernels: list[KernelTime] = field(default_factory=list)
    peers: dict[str, dict[str, Any]] = field(default_factory=dict)
    problem: str = ""

    @property
    def device(self) -> float:
        """The seconds of all kernels."""
        return sum(k.seconds for k in self.kernels)


def least(call: Callable[[], object]) -> float:
    """The minimum of the seconds of a call, over as many as fit in SECONDS, at least five."""
    best, end = float("inf"), time.perf_counter() + SECONDS
    calls = 0
    while calls < 5 or time.perf_counter() < end:
        begin = time.perf_counter()
        call()
        best, calls = min(best, time.perf_counter() - begin), calls + 1
    return best


def measured(entry: Entry, device: Device, peers: Sequence[str]) -> Result:
    """The figures of an entry."""
    import jax

    from .frameworks import load

    framework = load("jax")
    framework.wide_types(entry.x64)
    arguments = entry.arguments(**entry.sizes)
    function = partial(entry.function, framework)
    jitted = jax.jit(function, keep_unused=True)
    result = Result(entry.name)
    flat = [np.asarray(leaf) for leaf in jax.tree.leaves(arguments)]
    placed: list[refxla.Array] = []
    try:
        text = jitted.trace(*arguments).lower(lowering_platforms=("cpu",)).compiler_ir("hlo")
        hlo = text.as_hlo_text(print_large_constants=True)
        begin = time.perf_counter()
        program = refxla.compile(hlo, device=device)
        placed += [refxla.device_put(x, device) for x in flat]
        on_device = wait_for(program(*placed))
        result.first = time.perf_counter() - begin
        result.call = least(lambda: wait_for(program(*placed)))
        profile = program.profile(*placed, seconds=SECONDS)
        result.kernels = [
            KernelTime(s.name, s.kind, s.count, s.seconds, s.bytes, s.operations) for s in profile.launches.steps
        ]
        mine = [np.asarray(x) for x in on_device]
    except refxla.Error as problem:
        result.problem = " ".join(str(problem).split())[:300]
        return result
    finally:
        placed.clear()  # the peers need the memory
    for peer in peers:
        result.peers[peer] = compare(peer, function, arguments, mine, entry.bound)
    return result


def compare(peer: str, function: Function, arguments: Any, mine: list[Any], bound: float) -> dict[str, Any]:
    """JAX's figures on its GPU, in full f32 ("jax") or with its defaults ("jax-tf32")."""
    import jax

    try:
        gpu = jax.devices("gpu")[0]
    except RuntimeError as problem:
        return {"absent": str(problem)[:200]}
    with jax.default_matmul_precision("highest" if peer == "jax" else "default"), jax.default_device(gpu):
        jitted = jax.jit(function)
        try:
            placed = jax.device_put(arguments, gpu)
            begin = time.perf_counter()
            theirs = jax.block_until_ready(jitted(*placed))
            first = time.perf_counter() - begin
            far = distance([np.asarray(x) for x in jax.tree.leaves(theirs)], mine)
            answer = {"first": first, "distance": float(far)}
            if peer == "jax" and far > bound:
                return {**answer, "absent": f"differs by {far:.1e}"}
            return {**answer, "call": least(lambda: jax.block_until_ready(jitted(*placed)))}
        except Exception as problem:  # whatever fails for a peer is reported
            return {"absent": f"{type(problem).__name__}: {problem}"[:200]}


# The page ------------------------------------------------------------------------------------------------------------

ROOT = Path(__file__).parents[1]
PAGE, RAW = ROOT / "docs" / "gpu.md", ROOT / "docs" / "benchmarks" / "gpu-h200.json"
HEAD = (
    "| entry | first call, s | call, us | kernels, us | limit reached | JAX, us | in TF32, us | beside JAX |",
    "|---|--:|--:|--:|--:|--:|--:|--:|",
)


def line(result: Result, peers: dict[str, dict[str, Any]], model: GpuModel | None) -> str:
    """A row of the table in Markdown."""
    if result.problem:
        return f"| {result.entry} | {result.problem} |" + " |" * (HEAD[0].count("|") - 3)
    largest = max(result.kernels, key=lambda k: k.seconds)
    reached = largest.reached(model) if model and largest.bytes else 0.0
    calls = {name: peers.get(name, {}).get("call") for name in ("jax", "jax-tf32")}
    shown = {
        name: f"{call * 1e6:,.0f}" if call else peers.get(name, {}).get("absent", "") for name, call in calls.items()
    }
    ratio = f"{calls['jax'] / result.call:.2f}" if calls["jax"] else ""
    return (
        f"| {result.entry} | {result.first:.2f} | {result.call * 1e6:,.0f} | {result.device * 1e6:,.0f} "
        f"| {f'{reached:.0%}' if reached >= 0.005 else ''} | {shown['jax']} | {shown['jax-tf32']} | {ratio} |"
    )


def load_runs(file: Path) -> list[dict[str, Any]]:
    """The runs of a file, the earliest first; none if there is no file."""
    runs: list[dict[str, Any]] = json.loads(file.read_text("utf-8"))["runs"] if file.exists() else []
    return runs


def table(runs: Sequence[dict[str, Any]]) -> list[str]:
    """The lines of the table: for each entry the latest run that has it, and the latest that has peers."""
    latest: dict[str, Result] = {}
    peers: dict[str, dict[str, Any]] = {}
    for run in runs:
        for values in run["results"]:
            result = Result(**{**values, "kernels": [KernelTime(**k) for k in values["kernels"]]})
            latest[result.entry] = result
            peers[result.entry] = result.peers or peers.get(result.entry, {})
    order = [e.name for e in (*LARGE, *ENTRIES)]
    model = _model(runs[-1]["device"]) if runs else None
    return [*HEAD, *(line(latest[n], peers[n], model) for n in sorted(latest, key=order.index))]


def _model(device: str) -> GpuModel | None:
    return next((m for m in MODELS.values() if m.label in device), None)


def page(runs: Sequence[dict[str, Any]]) -> str:
    """docs/gpu.md with the table between its two marks."""
    return with_table(PAGE.read_text("utf-8"), "the measured table", table(runs))


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit status."""
    parser = argparse.ArgumentParser(prog="python -m bench.gpu", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("entries", nargs="*", help="groups or names of entries; none: all")
    parser.add_argument("--device", default="gpu", help="as `refxla devices` names them")
    parser.add_argument("--peers", nargs="*", default=["jax", "jax-tf32"], metavar="NAME")
    parser.add_argument("--json", type=Path, metavar="FILE", help="the raw figures")
    parser.add_argument("--page", action="store_true", help="only write docs/gpu.md, from what is kept there")
    options = parser.parse_args(arguments)
    if options.page:
        PAGE.write_text(page(load_runs(RAW)), "utf-8")
        return 0
    import jax

    from .frameworks import load

    load("jax")  # this only requests JAX's CPU
    jax.config.update("jax_platforms", None if options.peers else "cpu")
    device = refxla.runtime.devices.find(options.device)
    results: list[Result] = []
    former = load_runs(options.json) if options.json else []
    print("\n".join(HEAD), flush=True)
    for entry in chosen(options.entries, [*LARGE, *ENTRIES]):
        results.append(measured(entry, device, options.peers))
        print(line(results[-1], results[-1].peers, _model(str(device))), flush=True)
        if options.json:
            run = {"device": str(device), "machine": describe(), "results": [asdict(r) for r in results]}
            options.json.write_text(json.dumps({"runs": [*former, run]}, indent=1) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
