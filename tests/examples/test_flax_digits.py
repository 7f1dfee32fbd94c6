"""examples/flax_digits trains on refxla as on JAX's CPU."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from jax_programs import environment

for package in ("jax", "flax", "optax", "sklearn"):
    pytest.importorskip(package)

TRAIN = Path(__file__).parents[2] / "examples" / "flax_digits" / "train.py"


def test_it_learns():
    losses = {}
    for platform in ("refxla", "cpu"):
        done = subprocess.run(
            [sys.executable, str(TRAIN), "--epochs", "3"],
            capture_output=True,
            text=True,
            timeout=300,
            env=environment(JAX_PLATFORMS=platform),
        )
        assert done.returncode == 0, done.stderr[-3000:]
        assert ("on refxla:0" in done.stdout) == (platform == "refxla")
        losses[platform] = [float(x) for x in re.findall(r"loss ([\d.]+)", done.stdout)]
        assert float(re.search(r"accuracy ([\d.]+)", done.stdout)[1]) > 0.9
    assert losses["refxla"] == pytest.approx(losses["cpu"], abs=2e-3)
