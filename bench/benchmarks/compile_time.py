"""From a program's HLO text to its first result, in a process of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from .models import PROGRAMS
from .peers import PEERS, jax_or_skip

COLD, CACHED = "cold", "from the cache"
_CACHES = ("XDG_CACHE_HOME", "REFXLA_CACHE_DIR")

# What a device can do was found out before; what is measured is a program's way, not an installation's first minute.
_PROGRAM = """
import json, os, sys, time
sys.path.insert(0, {folder!r})
from benchmarks import peers
hlo, arguments = peers.example(*{which!r})
if {peer!r} == "refxla":
    import refxla
    refxla.devices()[0].target
    make = peers.refxla_call
else:
    peers.jax_or_skip().devices()
    make = peers.xla_call
wall, cpu = time.perf_counter(), time.process_time()
make(hlo, arguments)()
print(json.dumps({{"seconds": time.perf_counter() - wall, "processor": time.process_time() - cpu}}))
"""


def measure(peer: str, program: str, caches: Path) -> dict[str, float]:
    """{"seconds", "processor" (seconds of all cores)} from HLO text to the first result; `caches` is a folder."""
    code = _PROGRAM.format(folder=str(Path(__file__).parents[1]), peer=peer, which=PROGRAMS[program])
    environment = {**os.environ, **{name: str(caches) for name in _CACHES}}
    environment.pop("POCL_CACHE_DIR", None)  # refxla's cache is the one that is measured
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{peer} does not compile {program}: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


class Caches:
    """A folder for caches, in which only the device's properties are known."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp())

    def __enter__(self) -> Path:
        code = "import refxla; refxla.devices()[0].target"
        environment = {**os.environ, "REFXLA_CACHE_DIR": str(self.folder)}
        subprocess.run([sys.executable, "-c", code], env=environment, check=True)
        return self.folder

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


def compile_seconds(peer: str, program: str, how: str) -> dict[str, float]:
    """One measurement: `how` is COLD or CACHED."""
    with Caches() as folder:
        if how == CACHED:
            measure(peer, program, folder)
        return measure(peer, program, folder)


class CompileTime:
    """Compile and run once. XLA:CPU keeps nothing between processes unless it is told to, so it has no second row."""

    params = [PEERS, ["CNN step, batch 8", "transformer block"], [COLD, CACHED]]
    param_names = ["peer", "program", "cache"]
    timeout = 600
    unit = "s"

    def setup(self, peer: str, program: str, how: str) -> None:
        if peer == "jax":
            jax_or_skip()
            if how == CACHED:
                raise NotImplementedError

    def track_seconds(self, peer: str, program: str, how: str) -> float:
        return compile_seconds(peer, program, how)["seconds"]
