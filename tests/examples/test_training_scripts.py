"""Programs of JAX's libraries, and of Keras on its JAX backend, run on refxla unmodified, as on JAX's CPU.

Flax, Optax, NumPyro and Diffrax are installed by `tox -e libraries` alone.
"""

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from jax_programs import environment

pytest.importorskip("jax")

EXAMPLES = Path(__file__).parents[2] / "examples"


def require(*packages: str) -> None:
    for package in packages:
        if find_spec(package) is None:
            pytest.skip(f"{package} is not installed")


def printed(script: str, platform: str, *arguments: str) -> str:
    """What an example prints on a platform of JAX's."""
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / script), *arguments],
        capture_output=True, text=True, timeout=300, env=environment(JAX_PLATFORMS=platform, KERAS_BACKEND="jax"),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert ("on refxla:0" in done.stdout) == (platform == "refxla")
    return done.stdout


def losses(text: str) -> list[float]:
    return [float(x) for x in re.findall(r"loss ([\d.]+)", text)]


def accuracy(text: str) -> float:
    return float(re.search(r"accuracy ([\d.]+)", text)[1])


@pytest.mark.parametrize(("folder", "packages"), [("flax_digits", ("flax", "optax")), ("keras_digits", ("keras",))])
def test_a_network_learns_digits(folder, packages):
    require("sklearn", *packages)
    got, wanted = (printed(f"{folder}/train.py", platform, "--epochs", "3") for platform in ("refxla", "cpu"))
    assert len(losses(got)) == 3 and min(accuracy(got), accuracy(wanted)) > 0.9
    assert losses(got) == pytest.approx(losses(wanted), abs=2e-3)


def test_a_gpt_learns_to_sort():
    require("optax")
    got, wanted = (printed("optax_gpt/train.py", platform) for platform in ("refxla", "cpu"))
    assert len(losses(got)) == 6 and min(accuracy(got), accuracy(wanted)) > 0.97
    assert losses(got)[0] == pytest.approx(losses(wanted)[0], abs=2e-3)  # from there on rounding has grown


def test_rates_of_a_differential_equation_are_found():
    require("diffrax", "optax")
    got, wanted = (printed("diffrax_predators/fit.py", platform) for platform in ("refxla", "cpu"))
    assert losses(got) == pytest.approx(losses(wanted), abs=1e-4)
    rates = [float(x) for x in re.search(r"rates: (.*)", got)[1].split()]
    assert rates == pytest.approx([1.1, 0.4, 0.4, 0.1], rel=0.02)


def test_a_sampler_draws_from_the_posterior():
    """Which draws, rounding decides; their means are known to within a tenth (from 100,000 draws on JAX's CPU)."""
    require("numpyro")
    found = re.findall(
        r"^(\w+): mean ([\d.]+), deviation ([\d.]+)", printed("numpyro_schools/sample.py", "refxla"), re.M
    )
    means = {name: (float(mean), float(deviation)) for name, mean, deviation in found}
    assert means["mu"] == pytest.approx((4.4, 3.3), abs=0.3) and means["tau"] == pytest.approx((3.6, 3.2), abs=0.4)
