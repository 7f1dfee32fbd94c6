"""Programs of JAX and of Keras on its JAX backend train on refxla, unmodified, as on JAX's CPU."""

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from jax_programs import environment

pytest.importorskip("jax")
pytest.importorskip("sklearn")

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize(("folder", "packages"), [("flax_digits", ("flax", "optax")), ("keras_digits", ("keras",))])
def test_it_learns(folder, packages):
    missing = [package for package in packages if find_spec(package) is None]
    if missing:
        pytest.skip(f"{missing[0]} is not installed")
    losses = {}
    for platform in ("refxla", "cpu"):
        done = subprocess.run(
            [sys.executable, str(EXAMPLES / folder / "train.py"), "--epochs", "3"],
            capture_output=True,
            text=True,
            timeout=300,
            env=environment(JAX_PLATFORMS=platform, KERAS_BACKEND="jax"),
        )
        assert done.returncode == 0, done.stderr[-3000:]
        assert ("on refxla:0" in done.stdout) == (platform == "refxla")
        losses[platform] = [float(x) for x in re.findall(r"loss ([\d.]+)", done.stdout)]
        assert len(losses[platform]) == 3 and float(re.search(r"accuracy ([\d.]+)", done.stdout)[1]) > 0.9
    assert losses["refxla"] == pytest.approx(losses["cpu"], abs=2e-3)
