"""Writes lstm.hlo: a long short-term memory over time, forward and backward, as two while loops. Needs jax.

python examples/lstm/make.py
"""

from pathlib import Path

import jax
import jax.numpy as jnp
from inputs import HIDDEN, inputs


def loss(weights, recurrent, bias, readout, sequence, target):
    def cell(state, x):
        hidden, memory = state
        gates = x @ weights + hidden @ recurrent + bias
        i, f, g, o = jnp.split(gates, 4, axis=-1)
        memory = jax.nn.sigmoid(f + 1) * memory + jax.nn.sigmoid(i) * jnp.tanh(g)
        hidden = jax.nn.sigmoid(o) * jnp.tanh(memory)
        return (hidden, memory), hidden @ readout

    start = jnp.zeros((sequence.shape[1], HIDDEN), sequence.dtype)
    _, outputs = jax.lax.scan(cell, (start, start), sequence)
    return jnp.mean((outputs - target) ** 2)


def lstm(*arguments):
    """The loss, and its gradients by weights, recurrent weights, bias and read-out."""
    return jax.value_and_grad(loss, argnums=(0, 1, 2, 3))(*arguments)


if __name__ == "__main__":
    lowered = jax.jit(lstm).trace(*inputs()).lower(lowering_platforms=("refxla",))
    path = Path(__file__).with_name("lstm.hlo")
    path.write_text(lowered.compiler_ir("hlo").as_hlo_text(True))
    print(f"{path}: {path.stat().st_size} bytes")
