"""Writes heat.hlo: fifty explicit steps of the heat equation on a plate whose edge is held. Needs jax.

python examples/heat/make.py
"""

from pathlib import Path

import jax
from inputs import inputs

STEPS, RATE = 50, 0.2


def heat(plate):
    """Temperatures f32[rows,columns] -> the same fifty steps later."""

    def step(_, t):
        inner = t[1:-1, 1:-1]
        flow = t[:-2, 1:-1] + t[2:, 1:-1] + t[1:-1, :-2] + t[1:-1, 2:] - 4 * inner
        return t.at[1:-1, 1:-1].set(inner + RATE * flow)

    return jax.lax.fori_loop(0, STEPS, step, plate)


if __name__ == "__main__":
    lowered = jax.jit(heat).trace(*inputs()).lower(lowering_platforms=("refxla",))
    path = Path(__file__).with_name("heat.hlo")
    path.write_text(lowered.compiler_ir("hlo").as_hlo_text(True))
    print(f"{path}: {path.stat().st_size} bytes")
