"""Writes fused_sum.hlo: sum(x + y * z), the example that everyone knows. Needs jax.

python examples/fused_sum/make.py [SIZE]
"""

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
from inputs import SIZE, inputs


def fused_sum(x, y, z):
    return jnp.sum(x + y * z)


if __name__ == "__main__":
    size = int(sys.argv[1]) if len(sys.argv) > 1 else SIZE
    lowered = jax.jit(fused_sum).trace(*inputs(size=size)).lower(lowering_platforms=("refxla",))
    path = Path(__file__).with_name("fused_sum.hlo")
    path.write_text(lowered.compiler_ir("hlo").as_hlo_text(True))
    print(f"{path}: {path.stat().st_size} bytes")
