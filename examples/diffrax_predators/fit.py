"""Finds the rates of a differential equation from what was observed of it, with Diffrax and Optax, without a word of
refxla: those of Lotka and Volterra's predators and their prey, by gradients through the solver.

pip install './[jax]' diffrax optax
JAX_PLATFORMS=refxla python examples/diffrax_predators/fit.py
"""

import argparse
import time

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import optax

RATES = np.array([1.1, 0.4, 0.4, 0.1], np.float32)  # births of prey, deaths of prey, deaths and births of predators
GUESS = np.array([0.8, 0.3, 0.6, 0.15], np.float32)
FIRST = np.array([10.0, 5.0], np.float32)
TIMES = np.linspace(0, 10, 41, dtype=np.float32)


def change(time: jax.Array, animals: jax.Array, rates: jax.Array) -> jax.Array:
    prey, predators = animals
    eaten = prey * predators
    return jnp.stack([rates[0] * prey - rates[1] * eaten, rates[3] * eaten - rates[2] * predators])


def solution(rates: jax.Array) -> jax.Array:
    """Prey and predators at each of TIMES."""
    solved = diffrax.diffeqsolve(
        diffrax.ODETerm(change), diffrax.Tsit5(), TIMES[0], TIMES[-1], 0.05, FIRST, rates,
        saveat=diffrax.SaveAt(ts=TIMES), stepsize_controller=diffrax.PIDController(rtol=1e-4, atol=1e-4),
        max_steps=512,
    )  # fmt: skip
    return solved.ys


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=300)
    steps = parser.parse_args().steps

    noise = np.random.default_rng(0).normal(1, 0.02, (len(TIMES), 2)).astype(np.float32)
    observed = np.log(jax.jit(solution)(RATES) * noise)
    optimizer = optax.adam(0.02)

    @jax.jit
    def step(logarithms, state):
        def loss(logarithms):  # of the rates, which are positive
            return jnp.mean((jnp.log(solution(jnp.exp(logarithms))) - observed) ** 2)

        value, gradient = jax.value_and_grad(loss)(logarithms)
        updates, state = optimizer.update(gradient, state)
        return optax.apply_updates(logarithms, updates), state, value

    print(f"on {jax.devices()[0]}")
    logarithms = jnp.log(GUESS)
    state = optimizer.init(logarithms)
    start = time.perf_counter()
    for n in range(steps):
        logarithms, state, value = step(logarithms, state)
        if n % 50 == 0 or n == steps - 1:
            print(f"step {n}: loss {value:.5f}")
    print(f"{steps} steps in {time.perf_counter() - start:.2f} s")
    print("rates: " + " ".join(f"{rate:.3f}" for rate in np.exp(logarithms)))


if __name__ == "__main__":
    main()
