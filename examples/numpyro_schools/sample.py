"""Draws from the posterior of a hierarchical model by the No-U-Turn sampler of NumPyro, without a word of refxla.

The data are those of the eight schools (Rubin 1981): the effects of coaching on the results of a test, and their
standard errors.

pip install './[jax]' numpyro
JAX_PLATFORMS=refxla python examples/numpyro_schools/sample.py
"""

import argparse
import time

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.diagnostics import summary
from numpyro.infer import MCMC, NUTS
from numpyro.infer.reparam import LocScaleReparam

EFFECTS = np.array([28, 8, -3, 7, -1, 1, 18, 12], np.float32)
ERRORS = np.array([15, 10, 16, 11, 9, 11, 10, 18], np.float32)


@numpyro.handlers.reparam(config={"theta": LocScaleReparam(0)})  # without which the sampler does not reach small tau
def schools(errors: np.ndarray, effects: np.ndarray | None = None) -> None:
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfCauchy(5))
    with numpyro.plate("schools", len(errors)):
        theta = numpyro.sample("theta", dist.Normal(mu, tau))
        numpyro.sample("effects", dist.Normal(theta, errors), obs=effects)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--draws", type=int, default=2000)
    parser.add_argument("--chains", type=int, default=4)
    options = parser.parse_args()

    print(f"on {jax.devices()[0]}")
    start = time.perf_counter()
    sampler = MCMC(
        NUTS(schools, target_accept_prob=0.9), num_warmup=500, num_samples=options.draws, num_chains=options.chains,
        chain_method="vectorized", progress_bar=False,
    )  # fmt: skip
    sampler.run(jax.random.key(0), ERRORS, EFFECTS)
    draws = sampler.get_samples(group_by_chain=True)
    divergent = int(sampler.get_extra_fields()["diverging"].sum())
    print(f"{options.chains} x {options.draws} draws in {time.perf_counter() - start:.2f} s, {divergent} divergent")
    for name, row in summary({name: draws[name] for name in ("mu", "tau")}).items():
        print(f"{name}: mean {row['mean']:.3f}, deviation {row['std']:.3f}, {row['n_eff']:.0f} effective draws")
    print("schools: " + " ".join(f"{mean:.2f}" for mean in np.asarray(draws["theta"]).mean((0, 1))))


if __name__ == "__main__":
    main()
