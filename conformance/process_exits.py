"""How short JAX programs on refxla end: `python -m refxla_conformance.process_exits [KIND ...]`.

Each run is a Python process of its own with JAX_PLATFORMS=refxla: one of the programs below, every second one in
Python's development mode. Every third run gets Control-C at a random time, wherever it then is: while it imports,
compiles, computes, calls back, or ends. A run is wrong if it ends by a signal, with another status than its program's,
with a message of Python's or of the C++ runtime about its end, or not at all. The numbers of `--seed` decide the kind,
the mode and the time of each run.

Left out is what crashes on JAX's CPU backend, too: daemon threads that call JAX while Python ends, and forked processes
that end as Python does, and not by os._exit.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from refxla_spec.errors import InputError

from refxla.cli.argument_parser import Parser
from refxla.cli.failures import guarded

from .arguments import positive, whole

_LATEST_SIGNAL_S = 4.0
_HEAD = "import jax, jax.numpy as jnp, numpy as np, os, sys, threading\n"
_INTERRUPTED = (-signal.SIGINT, 130)
# What no program's standard error has when it ends well, whatever it raised.
_SIGNS = ("Fatal Python error", "Segmentation fault", "terminate called", "double free", "corrupted", "ResourceWarning")


class Kind(NamedTuple):
    """A kind of program: its code, and the status with which it ends by itself."""

    code: str
    status: int = 0


KINDS = {
    "pending calls": Kind("""
        x = jnp.ones((500, 500))
        for _ in range(20):
            x = jnp.tanh(x @ x)
        """),
    "pending compilation": Kind("""
        jax.jit(lambda x: jnp.sort(x * NUMBER).cumsum() + jnp.exp(x))(jnp.ones(77))
        """),
    "threads": Kind("""
        f = jax.jit(lambda x: jnp.cos(x).sum())
        for k in range(3):
            threading.Thread(target=lambda: [f(jnp.ones(n + 9)) for n in range(2)]).start()
        """),
    "thread pool": Kind("""
        from concurrent.futures import ThreadPoolExecutor
        pool = ThreadPoolExecutor(3)
        for n in range(6):
            pool.submit(lambda n: jnp.ones(n + 2) * NUMBER, n)
        """),
    "exit with a status": Kind("jnp.ones(3) + 1\nraise SystemExit(3)", 3),
    "exception": Kind("x = jnp.ones(3) + 1\nx.reshape(7)", 1),
    "fork": Kind("""
        x = jnp.ones(3) + 1
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
        """),
    "spawn": Kind("""
        import multiprocessing
        if __name__ == "__main__":
            x = jnp.ones(3) + 1
            child = multiprocessing.get_context("spawn").Process(target=abs, args=(1,))
            child.start()
            child.join()
        """),
    "callback": Kind("jax.jit(lambda x: (jax.debug.print('{x}', x=x), x + 1)[1])(NUMBER)"),
    "pending ordered callbacks": Kind("""
        from jax.experimental import io_callback
        def slowly(x):
            return np.asarray(x)
        f = jax.jit(lambda x: jax.lax.fori_loop(0, 20, lambda _, y: io_callback(slowly, y, y, ordered=True) + 1, x))
        f(jnp.float32(NUMBER))
        """),
    "exception in a callback": Kind(
        """
        def fail(x):
            raise ValueError("from a callback")
        jax.pure_callback(fail, jax.ShapeDtypeStruct((3,), jnp.float32), jnp.ones(3)).block_until_ready()
        """,
        1,
    ),
    "exit in a callback": Kind(
        """
        jax.pure_callback(lambda x: sys.exit(4), jax.ShapeDtypeStruct((3,), jnp.float32), jnp.ones(3))
        jnp.ones(3) + 1
        """,
        4,
    ),
    "callback in place": Kind("""
        from jax.experimental.buffer_callback import buffer_callback
        def fill(context, out, x):
            np.asarray(out)[...] = 1
        jax.jit(buffer_callback(fill, jax.ShapeDtypeStruct((3,), jnp.float32)))(jnp.ones(3))
        """),
    "at exit": Kind("import atexit\natexit.register(lambda: (jnp.ones(4) * 3).block_until_ready())\njnp.ones(2)"),
    "garbage": Kind("""
        import gc
        xs = [jnp.ones(k) * 2 for k in range(1, 6)]
        del xs
        gc.collect()
        """),
    "donation": Kind("""
        f = jax.jit(lambda x: x * 2 + 1, donate_argnums=0)
        x = jnp.ones(1000)
        for _ in range(50):
            x = f(x)
        """),
    "several devices": Kind("""
        from jax.sharding import Mesh, NamedSharding, PartitionSpec
        where = NamedSharding(Mesh(np.array(jax.devices()), "i"), PartitionSpec("i"))
        jax.jit(lambda x: jnp.sin(x).sum())(jax.device_put(np.arange(64.0, dtype="f"), where))
        """),
    "gone backend": Kind("jnp.ones(3) + 1\njax.clear_caches()\nimport jax.extend\njax.extend.backend.clear_backends()"),
    "view that outlives Python's modules": Kind("sys.view = np.asarray(jnp.ones(9) * NUMBER)"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns 1 if a run was wrong, 2 for a wrong argument."""
    return guarded(lambda: _command(arguments), "refxla-conformance")


def _command(arguments: Sequence[str] | None) -> int:
    parser = Parser(prog="python -m refxla_conformance.process_exits", description=__doc__.split("\n")[0])
    parser.add_argument("kinds", nargs="*", default=[], metavar="KIND", help=f"of programs ({', '.join(KINDS)})")
    parser.add_argument("--runs", type=whole(1), default=500, help="how many (500)")
    parser.add_argument("--seed", type=whole(0), default=0, help="of the random numbers (0)")
    parser.add_argument("--limit", type=positive, default=180, help="seconds until a run hangs (180)")
    parser.add_argument("--minutes", type=positive, default=float("inf"), help="begin no run after so many minutes")
    options = parser.parse_args(arguments)
    unknown = [kind for kind in options.kinds if kind not in KINDS]
    if unknown:
        raise InputError(f"there is no kind {unknown[0]!r}; the kinds are {', '.join(KINDS)}")
    kinds = options.kinds or list(KINDS)
    end = time.monotonic() + 60 * options.minutes
    counts: Counter[str] = Counter()
    wrong = 0
    for n in range(options.runs):
        if time.monotonic() >= end:
            print(f"The {options.minutes:g} minutes are over after {n} runs.")
            break
        kind = kinds[n % len(kinds)]
        ending, problem = run(kind, random.Random(f"{options.seed} {n}"), options.limit)
        counts[ending] += 1
        if problem:
            wrong += 1
            print(f"run {n}, {kind}: {ending}: {problem}", flush=True)
    print("; ".join(f"{count} {ending}" for ending, count in counts.most_common()) + f"; {wrong} wrong")
    return 1 if wrong else 0


def run(kind: str, numbers: random.Random, limit: float) -> tuple[str, str]:
    """How one run of a kind ends, in words, and what is wrong with that, "" if nothing is. It hangs if it takes longer
    than `limit` seconds."""
    code = _HEAD + textwrap.dedent(KINDS[kind].code).replace("NUMBER", str(numbers.random()))
    mode = numbers.choice(([], ["-X", "dev"]))
    interrupted_after = numbers.uniform(0.1, _LATEST_SIGNAL_S) if not numbers.randrange(3) else None
    environment = {**os.environ, "JAX_PLATFORMS": "refxla"}
    if kind == "several devices":
        environment["REFXLA_DEVICES"] = "4"
    command = [sys.executable, *mode, "-c", code]
    # a group of its own: Control-C reaches a program's children, too, as from a terminal, and a hang is ended with them
    process = subprocess.Popen(
        command,
        env=environment,
        text=True,
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    was_interrupted = False
    try:
        if interrupted_after is not None:
            try:
                process.wait(interrupted_after)
            except subprocess.TimeoutExpired:
                was_interrupted = True
                os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return "hung", f"no end after {limit:g} s"
    ending = "interrupted" if was_interrupted else "ended by itself"
    return ending, _problem(KINDS[kind].status, was_interrupted, process.returncode, errors)


def _problem(expected: int, was_interrupted: bool, status: int, errors: str) -> str:
    """What is wrong with a run that ended with a status and this standard error; "" if nothing is."""
    last = errors.strip()[-1000:]
    sign = next((sign for sign in _SIGNS if sign in errors), None)
    if sign is not None:
        return f"its standard error has {sign!r}: {last}"
    if status == expected:
        return ""
    if was_interrupted and (status in _INTERRUPTED or (status > 0 and "KeyboardInterrupt" in errors)):
        return ""
    return f"status {status}: {last}"


if __name__ == "__main__":
    sys.exit(main())
