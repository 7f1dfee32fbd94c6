"""An MLP, a CNN and a GPT, written with each framework in examples/four_ways and trained by refxla, lose alike."""

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from jax_programs import environment

FOLDER = Path(__file__).parents[2] / "examples" / "four_ways"


def losses(framework: str, *arguments: str) -> dict[str, list[float]]:
    """The losses of two epochs of each model."""
    done = subprocess.run(
        [sys.executable, str(FOLDER / f"with_{framework}.py"), "--epochs", "2", *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        env=environment(KERAS_BACKEND="tensorflow"),
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, list[float]] = {}
    for model, loss in re.findall(r"(\w+), epoch \d+: loss ([\d.]+)", done.stdout):
        found.setdefault(model, []).append(float(loss))
    return found


@pytest.fixture(scope="module")
def by_numpy_alone():
    return losses("numpy", "--plain")


def case(framework: str, *packages: str):
    """A framework and the packages that it needs. Where one is missing, the case is skipped before its fixture trains
    the models."""
    missing = [package for package in packages if find_spec(package) is None]
    return pytest.param(
        framework, packages, marks=pytest.mark.skipif(bool(missing), reason=f"{', '.join(missing)} is not installed")
    )


@pytest.mark.parametrize(
    ("framework", "packages"),
    [case("numpy"), case("jax", "jax"), case("keras", "keras", "tensorflow"), case("pytorch", "torch")],
)
def test_they_agree_and_learn(framework, packages, by_numpy_alone):
    found = losses(framework)
    assert sorted(found) == ["cnn", "gpt", "mlp"]
    for model, (first, second) in found.items():
        assert second < 0.6 * first
        assert (first, second) == pytest.approx(by_numpy_alone[model], rel=1e-4, abs=2e-5)
