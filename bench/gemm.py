"""`python -m bench.gemm`: matrix products beside NumPy's (OpenBLAS), in turns, in GFLOP/s.

    python -m bench.gemm                    # all cases
    python -m bench.gemm 1024 tall          # those whose name contains one of the words
    python -m bench.gemm --type f64

A case is a shape, and which side is stored transposed; one with an epilogue adds a bias and takes the maximum with 0,
which NumPy does in place after the product. Inputs are random, results go to existing memory, and the median of all
samples counts. Each turn begins with a pause, since NumPy's threads spin for a while after a product.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

import refxla

from .machine import command, describe, in_turns

PAUSE_S = 0.2  # NumPy's threads spin for half of that
DTYPES = {"f32": np.float32, "f64": np.float64}


@dataclass(frozen=True)
class Case:
    """A product of [batch, m, k] and [batch, k, n], without a batch if that is 0; `lhs` and `rhs` say how each side is
    stored: "n" unchanged, "t" transposed."""

    name: str
    m: int
    k: int
    n: int
    batch: int = 0
    lhs: str = "n"
    rhs: str = "n"
    epilogue: bool = False

    @property
    def operations(self) -> int:
        return 2 * max(1, self.batch) * self.m * self.n * self.k

    def shapes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The sizes of both sides in memory."""
        batch = (self.batch,) if self.batch else ()
        left = (self.k, self.m) if self.lhs == "t" else (self.m, self.k)
        right = (self.n, self.k) if self.rhs == "t" else (self.k, self.n)
        return (*batch, *left), (*batch, *right)

    def module(self, name: str) -> str:
        """The HLO of the case with elements of type `name`."""

        def shape(*sizes: int) -> str:
            return f"{name}[{','.join(map(str, sizes))}]"

        b = 1 if self.batch else 0
        batch = "lhs_batch_dims={0}, rhs_batch_dims={0}, " if b else ""
        contracting = b + (self.lhs == "n"), b + (self.rhs == "t")
        left, right = self.shapes()
        out = (*left[:b], self.m, self.n)
        lines = [f"a = {shape(*left)} parameter(0)", f"b = {shape(*right)} parameter(1)"]
        dims = f"lhs_contracting_dims={{{contracting[0]}}}, rhs_contracting_dims={{{contracting[1]}}}"
        lines.append(f"product = {shape(*out)} dot(a, b), {batch}{dims}")
        if self.epilogue:
            lines += [
                f"bias = {shape(self.n)} parameter(2)",
                f"wide = {shape(*out)} broadcast(bias), dimensions={{{len(out) - 1}}}",
                f"sum = {shape(*out)} add(product, wide)",
                f"zero = {name}[] constant(0)",
                f"zeros = {shape(*out)} broadcast(zero), dimensions={{}}",
                f"relu = {shape(*out)} maximum(sum, zeros)",
            ]
        lines[-1] = "ROOT " + lines[-1]
        return "HloModule gemm\nENTRY main {\n  " + "\n  ".join(lines) + "\n}\n"


CASES = (
    *(Case(f"{n}", n, n, n) for n in (256, 384, 512, 768, 1024, 2048, 4096)),
    Case("odd 257", 257, 257, 257),
    Case("odd 1000 x 999 x 1001", 1000, 999, 1001),
    Case("1024 transposed lhs", 1024, 1024, 1024, lhs="t"),
    Case("1024 transposed rhs", 1024, 1024, 1024, rhs="t"),
    Case("1024 both transposed", 1024, 1024, 1024, lhs="t", rhs="t"),
    Case("tall 8192 x 256 x 128", 8192, 256, 128),
    Case("tall 20000 x 512 x 64", 20000, 512, 64),
    Case("wide 128 x 256 x 8192", 128, 256, 8192),
    Case("wide 64 x 512 x 20000", 64, 512, 20000),
    Case("deep 128 x 16384 x 128", 128, 16384, 128),
    Case("deep 512 x 8192 x 512, transposed lhs", 512, 8192, 512, lhs="t"),
    Case("batch 64 of 128", 128, 128, 128, batch=64),
    Case("batch 48 of 197 x 64 x 197, transposed rhs", 197, 64, 197, batch=48, rhs="t"),
    Case("batch 8 of 512", 512, 512, 512, batch=8),
    Case("512 with epilogue", 512, 512, 512, epilogue=True),
    Case("1024 with epilogue", 1024, 1024, 1024, epilogue=True),
    Case("2048 with epilogue", 2048, 2048, 2048, epilogue=True),
)


@dataclass(frozen=True)
class Row:
    """A case measured: median seconds of each."""

    case: Case
    refxla: float
    numpy: float

    @property
    def ratio(self) -> float:
        return self.numpy / self.refxla


def measure(case: Case, name: str, seconds: float, turns: int) -> Row:
    """Measures both in turns, for about `seconds`; their results are compared first."""
    random = np.random.default_rng(0)
    dtype = DTYPES[name]
    arguments = [(random.random(shape) - 0.5).astype(dtype) for shape in case.shapes()]
    a, b = (
        x.swapaxes(-1, -2) if stored == "t" else x for x, stored in zip(arguments, (case.lhs, case.rhs), strict=True)
    )
    if case.epilogue:
        arguments.append(random.random(case.n).astype(dtype))
    program = refxla.compile(case.module(name))
    out = np.empty((*a.shape[:-1], case.n), dtype)

    def numpy_call() -> None:
        np.matmul(a, b, out=out)
        if case.epilogue:
            np.add(out, arguments[2], out=out)
            np.maximum(out, 0, out=out)

    numpy_call()
    actual = np.asarray(program(*arguments)).reshape(out.shape)
    if not np.allclose(actual, out, rtol=1e-3, atol=1e-3):
        raise AssertionError(f"{case.name}: the results differ by {np.max(np.abs(actual - out))}")
    calls: dict[str, Callable[[], object]] = {"refxla": lambda: program(*arguments), "numpy": numpy_call}
    samples = in_turns(calls, seconds, turns, PAUSE_S)
    return Row(case, *(statistics.median(samples[key]) for key in calls))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.gemm", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("words", nargs="*", help="cases whose names contain one of them")
    parser.add_argument("--type", default="f32", choices=sorted(DTYPES))
    parser.add_argument("--seconds", type=float, default=0.6, help="for each case")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--json", type=Path, metavar="FILE", help="where to write the figures")
    options = parser.parse_args()
    chosen = [c for c in CASES if not options.words or any(word in c.name for word in options.words)]
    rows = []
    for case in chosen:
        rows.append(row := measure(case, options.type, options.seconds, options.turns))
        speeds = (case.operations / s / 1e9 for s in (row.refxla, row.numpy))
        print(f"{case.name:45}" + "".join(f"{s:8.1f}" for s in speeds) + f"{row.ratio:8.2f}", flush=True)
    if options.json:
        records = [{**asdict(row), "operations": row.case.operations, "ratio": row.ratio} for row in rows]
        head = {"kind": "gemm", "command": command("bench.gemm", None), "type": options.type, "machine": describe()}
        options.json.write_text(json.dumps({**head, "rows": records}, indent=1) + "\n")


if __name__ == "__main__":
    main()
