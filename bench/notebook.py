"""`python -m bench.notebook`: a notebook's worth of JAX operations without `jit`, on refxla's plugin and on JAX's CPU.

Every operation is a program (notebook_cells.py). Each platform runs them in a process of its own, in turns: first with
an empty cache on disk, then with what that run left there (refxla's cache; JAX's, of every program).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from .child import environment
from .frameworks import limit_threads
from .machine import command, describe

PLATFORMS = {"refxla": "refxla", "jax": "cpu"}  # JAX_PLATFORMS of each
CELLS = Path(__file__).with_name("notebook_cells.py")


def run(platform: str, caches: str, small: bool) -> dict[str, Any]:
    """What the cells print in a process whose caches are in this folder."""
    arguments = [sys.executable, str(CELLS), *(["--small"] if small else [])]
    variables = {**environment(caches), "JAX_PLATFORMS": platform}
    process = subprocess.run(arguments, env=variables, capture_output=True, text=True, check=False)
    if process.returncode:
        raise SystemExit(f"the cells fail on {platform}: {process.stderr.strip()[-2000:]}")
    figures: dict[str, Any] = json.loads(process.stdout.strip().split("\n")[-1])
    assert figures["platform"] == platform
    return figures


def known_device(caches: str) -> None:
    """Probes refxla's device, which happens once on a machine, and is not the notebook's time."""
    code = "import jax.numpy; jax.numpy.ones(3).block_until_ready()"
    subprocess.run([sys.executable, "-c", code], env={**environment(caches), "JAX_PLATFORMS": "refxla"}, check=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.notebook", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--small", action="store_true", help="few operations")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where to write the figures")
    options = parser.parse_args()
    limit_threads(options.threads)
    samples: dict[str, dict[str, list[float]]] = {name: {"cold": [], "cached": []} for name in PLATFORMS}
    head = {"kind": "notebook", "command": command("bench.notebook", None), "machine": describe()}
    figures: dict[str, Any] = {}
    for turn in range(options.turns):
        for name, platform in sorted(PLATFORMS.items(), reverse=bool(turn % 2)):
            with tempfile.TemporaryDirectory() as caches:
                if name == "refxla":
                    known_device(caches)
                for which in ("cold", "cached"):
                    figures = run(platform, caches, options.small)
                    samples[name][which].append(figures["seconds"])
                    print(
                        f"turn {turn + 1} of {options.turns}: {name}, {which}: {figures['seconds']:.2f} s", flush=True
                    )
    medians = {name: {which: statistics.median(s) for which, s in kinds.items()} for name, kinds in samples.items()}
    rows = {
        name: {which: {"samples": s, "median": medians[name][which]} for which, s in kinds.items()}
        for name, kinds in samples.items()
    }
    for which in ("cold", "cached"):
        ours, theirs = medians["refxla"][which], medians["jax"][which]
        print(f"{which}: refxla {ours:.2f} s, JAX {theirs:.2f} s, ratio {theirs / ours:.2f}")
    if options.json:
        counts = {key: figures[key] for key in ("operations", "kinds")}
        options.json.write_text(json.dumps({**head, **counts, "turns": options.turns, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
