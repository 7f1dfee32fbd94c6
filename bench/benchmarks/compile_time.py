"""From a program's text to its first result, with nothing cached."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile

from .models import cnn_step
from .peers import PEERS, example, jax_or_skip

COLD = """
import sys, runpy, time
sys.path.insert(0, {folder!r})
from benchmarks.peers import example
hlo, arguments = example("cnn", "step.hlo")
import refxla
begin = time.perf_counter()
refxla.compile(hlo)(*arguments)
print(time.perf_counter() - begin)
"""


class CnnStep:
    """The convolutional network's training step, compiled and run once, in seconds."""

    params = [PEERS]
    param_names = ["peer"]
    timeout = 600
    unit = "s"

    def track_cold(self, peer: str) -> float:
        return self.refxla() if peer == "refxla" else self.jax()

    @staticmethod
    def refxla() -> float:
        """In a process of its own, whose caches (refxla's, and the OpenCL runtime's) are an empty folder."""
        import os
        from pathlib import Path

        folder = tempfile.mkdtemp()
        caches = {name: folder for name in ("XDG_CACHE_HOME", "POCL_CACHE_DIR", "REFXLA_CACHE_DIR")}
        program = COLD.format(folder=str(Path(__file__).parents[1]))
        try:
            shown = subprocess.run(
                [sys.executable, "-c", program],
                env={**os.environ, **caches},
                check=True,
                capture_output=True,
                text=True,
            ).stdout
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return float(shown)

    @staticmethod
    def jax() -> float:
        import time

        jax = jax_or_skip()
        _, arguments = example("cnn", "step.hlo")
        step = cnn_step()
        begin = time.perf_counter()
        jax.block_until_ready(jax.jit(step)(*arguments))
        return time.perf_counter() - begin
