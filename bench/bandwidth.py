"""`python -m bench.bandwidth [NAME...]`: what memory-bound programs reach of the bandwidth of a plain copy.

Each program is measured in turns with two copies that move as many bytes, so that all of them find the machine and its
caches in the same state: refxla's own (an elementwise negation), and C's memcpy, with one thread and one piece per core
of the device. The best calls of each count. The bytes of a program are its arguments and its results, once: below 100 %
it moves more than necessary, computes, or waits. Sizes are odd, some dimensions are 1.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import partial
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np

import refxla

from .machine import command, describe

SHAPE, MIDDLE = (4099, 4001), (257, 513, 127)  # more than a cache: 66 MB


def _normal(*sizes: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(sizes, np.float32)


def _layer_norm(x: jax.Array, scale: jax.Array, offset: jax.Array) -> jax.Array:
    centred = x - jnp.mean(x, -1, keepdims=True)
    return centred * jax.lax.rsqrt(jnp.mean(centred * centred, -1, keepdims=True) + 1e-5) * scale + offset


def _batch_norm(x: jax.Array, scale: jax.Array, offset: jax.Array) -> jax.Array:
    mean, square = jnp.mean(x, (0, 1, 2)), jnp.mean(x * x, (0, 1, 2))
    return (x - mean) * jax.lax.rsqrt(square - mean * mean + 1e-5) * scale + offset


def _matrix() -> list[np.ndarray]:
    return [_normal(*SHAPE)]


def _middle() -> list[np.ndarray]:
    return [_normal(*MIDDLE)]


# name -> (function, arguments)
PROGRAMS: dict[str, tuple[Callable[..., jax.Array], Callable[[], list[np.ndarray]]]] = {
    "chain": (lambda x, y, z: x * y + z, lambda: [_normal(6000007, seed=s) for s in range(3)]),
    "chain with dimensions of 1": (lambda x: (x + 1.0) * 2.0, lambda: [_normal(1, 4099, 1, 4001, 1)]),
    "added to rows": (lambda x, y: x + y, lambda: [_normal(*SHAPE), _normal(SHAPE[1])]),
    "added to columns": (lambda x, y: x + y[:, None], lambda: [_normal(*SHAPE), _normal(SHAPE[0])]),
    "sum": (jnp.sum, _matrix),
    "sum of rows": (partial(jnp.sum, axis=1), _matrix),
    "sum of columns": (partial(jnp.sum, axis=0), _matrix),
    "sum of the middle": (partial(jnp.sum, axis=1), _middle),
    "sum of the outer two": (partial(jnp.sum, axis=(0, 2)), _middle),
    "sum of short rows": (partial(jnp.sum, axis=1), lambda: [_normal(1200007, 13)]),
    "sum with dimensions of 1": (partial(jnp.sum, axis=(1, 2)), lambda: [_normal(4099, 1, 4001, 1)]),
    "mean of powers": (lambda x: jnp.mean(x**4, 1), _matrix),
    "maximum of rows": (partial(jnp.max, axis=1), _matrix),
    "argmax of rows": (partial(jnp.argmax, axis=1), _matrix),
    "argmax of columns": (partial(jnp.argmax, axis=0), _matrix),
    "softmax of rows": (partial(jax.nn.softmax, axis=1), _matrix),
    "softmax of columns": (partial(jax.nn.softmax, axis=0), _matrix),
    "softmax of the middle": (partial(jax.nn.softmax, axis=1), _middle),
    "layer-norm": (_layer_norm, lambda: [_normal(16381, 1021), _normal(1021), _normal(1021)]),
    "batch-norm": (_batch_norm, lambda: [_normal(61, 59, 37, 127), _normal(127), _normal(127)]),
    "transpose": (jnp.transpose, _matrix),
    "transpose of the last two": (lambda x: jnp.transpose(x, (0, 2, 1)), _middle),
    "transpose of the first two": (lambda x: jnp.transpose(x, (1, 0, 2)), _middle),
    "rotation of the dimensions": (lambda x: jnp.transpose(x, (2, 0, 1)), _middle),
    "transpose with dimensions of 1": (lambda x: jnp.transpose(x, (3, 1, 2, 0)), lambda: [_normal(4099, 1, 1, 4001)]),
    "transpose of bytes": (jnp.transpose, lambda: [_normal(8209, 8009).astype(np.int8)]),
    "slice": (lambda x: x[7:4091, 5:3999], _matrix),
    "reversed rows": (lambda x: x[:, ::-1], _matrix),
    "every other column": (lambda x: x[:, ::2], _matrix),
    "pad": (lambda x: jnp.pad(x, ((1, 2), (3, 1))), _matrix),
    "concatenate": (lambda x: jnp.concatenate([x, x[:, :1777]], 1), _matrix),
    "gather of rows": (
        lambda x, i: x[i],
        lambda: [_normal(80021, 203), np.random.default_rng(1).integers(0, 80021, 80021).astype(np.int32)],
    ),
    "gather of columns": (
        lambda x, i: x[:, i],
        lambda: [_normal(*SHAPE), np.random.default_rng(1).integers(0, SHAPE[1], SHAPE[1]).astype(np.int32)],
    ),
    "cumulative sum of rows": (partial(jnp.cumsum, axis=1), _matrix),
    "cumulative sum of columns": (partial(jnp.cumsum, axis=0), _matrix),
    "sine": (jnp.sin, _matrix),
    "exponential": (jnp.exp, _matrix),
}


@dataclass(frozen=True)
class Row:
    """A program: bytes moved in its best time, the seconds of both copies of as many bytes, and the fraction of each
    copy's bandwidth that the program reaches."""

    name: str
    kernels: int
    bytes: int
    seconds: float
    copy_seconds: float
    memcpy_seconds: float

    @property
    def share(self) -> float:
        return self.copy_seconds / self.seconds

    @property
    def share_of_memcpy(self) -> float:
        return self.memcpy_seconds / self.seconds


class Memcpy:
    """memcpy of half of so many bytes to the other half, a piece in each thread; ctypes releases the GIL."""

    def __init__(self, moved: int, threads: int) -> None:
        self.source, self.target = (np.ones(max(threads, moved // 2), np.uint8) for _ in range(2))
        ends = [len(self.source) * n // threads for n in range(threads + 1)]
        self.pieces = [
            (self.target.ctypes.data + begin, self.source.ctypes.data + begin, end - begin)
            for begin, end in pairwise(ends)
        ]
        self.pool = ThreadPoolExecutor(threads)

    def __call__(self) -> None:
        for piece in [self.pool.submit(ctypes.memmove, *piece) for piece in self.pieces]:
            piece.result()

    def close(self) -> None:
        self.pool.shutdown()


def measure(name: str, seconds: float, turns: int = 5) -> Row:
    """Measures a program of PROGRAMS in turns with copies of as many bytes, for so many seconds and at least `turns`
    turns."""
    function, make = PROGRAMS[name]
    arguments = make()
    program = refxla.compile(jax.jit(function), *arguments)
    moved = sum(np.asarray(v).nbytes for v in (*arguments, program(*arguments)))
    source = np.ones(max(1, moved // 8), np.float32)
    copy = refxla.compile(jax.jit(jnp.negative), source)
    best = [float("inf")] * 3
    end = time.perf_counter() + seconds
    with closing(Memcpy(moved, refxla.devices()[0].compute_units)) as memcpy:
        while turns > 0 or time.perf_counter() < end:
            turns -= 1
            calls: list[Callable[[], object]] = [partial(program, *arguments), partial(copy, source), memcpy]
            for n, call in enumerate(calls):
                for _ in range(3):
                    begin = time.perf_counter()
                    call()
                    best[n] = min(best[n], time.perf_counter() - begin)
    kernels = program.executable.program.plan.kernels
    return Row(name, sum(len(k.parts()) for k in kernels), moved, *best)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.bandwidth", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("names", nargs="*", help="programs whose names hold one of these texts; all, if none is given")
    parser.add_argument("--seconds", type=float, default=0.5, help="for each program and the copy beside it")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args(arguments)
    chosen = [n for n in PROGRAMS if not options.names or any(text in n for text in options.names)]
    if not chosen:
        parser.error("no program is called so; there are: " + ", ".join(PROGRAMS))
    rows = []
    print(f"{'':32} kernels    MB       us   GB/s  of a copy  of memcpy")
    for name in chosen:
        rows.append(row := measure(name, options.seconds))
        print(
            f"{name:32} {row.kernels:7} {row.bytes / 1e6:5.0f} {row.seconds * 1e6:8.0f}"
            f" {row.bytes / row.seconds / 1e9:6.1f} {row.share:9.0%} {row.share_of_memcpy:10.0%}",
            flush=True,
        )
    if options.json:
        with open(options.json, "w") as file:
            records = [{**asdict(r), "share": r.share, "share_of_memcpy": r.share_of_memcpy} for r in rows]
            line = command("bench.bandwidth", arguments)
            json.dump({"kind": "bandwidth", "command": line, "machine": describe(), "rows": records}, file, indent=1)


if __name__ == "__main__":
    main()
