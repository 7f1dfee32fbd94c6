"""Writes block.hlo: one transformer block with causal attention, forward and backward. Needs jax.

python examples/transformer/make.py
"""

from pathlib import Path

import jax
import jax.numpy as jnp
from inputs import HEADS, inputs


def normalize(x, scale, offset):
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred * jax.lax.rsqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5) * scale + offset


def attention(x, into, out):
    batch, time, width = x.shape
    q, k, v = jnp.split((x @ into).reshape(batch, time, 3 * HEADS, width // HEADS), 3, axis=2)
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) * (width // HEADS) ** -0.5
    scores = jnp.where(jnp.tril(jnp.ones((time, time), bool)), scores, -jnp.inf)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v).reshape(x.shape) @ out


def block(scale1, offset1, into, out, scale2, offset2, up, up_bias, down, down_bias, x):
    x = x + attention(normalize(x, scale1, offset1), into, out)
    return x + jax.nn.gelu(normalize(x, scale2, offset2) @ up + up_bias) @ down + down_bias


def forward_and_backward(*arguments):
    """The block's output, and the cotangents of its parameters and its input."""
    *primals, cotangent = arguments
    output, backward = jax.vjp(block, *primals)
    return output, backward(cotangent)


if __name__ == "__main__":
    lowered = jax.jit(forward_and_backward).trace(*inputs()).lower(lowering_platforms=("refxla",))
    path = Path(__file__).with_name("block.hlo")
    path.write_text(lowered.compiler_ir("hlo").as_hlo_text(True))
    print(f"{path}: {path.stat().st_size} bytes")
