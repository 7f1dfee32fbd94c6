"""Writes forward.hlo: ResNet-50's forward pass on one image; every weight is a parameter. Needs jax.

python examples/resnet50/make.py [--side PIXELS] [--output FILE]
"""

import argparse
from pathlib import Path

import jax
import jax.numpy as jnp
from inputs import SIDE, STAGES, inputs


def convolve(x, filters, stride=1):
    """A convolution as PyTorch and Keras pad it: half the window on each side."""
    half = filters.shape[0] // 2
    padding = [(half, half)] * 2
    return jax.lax.conv_general_dilated(x, filters, (stride,) * 2, padding, dimension_numbers=("NHWC", "HWIO", "NHWC"))


def normalize(x, scale, offset, mean, variance):
    return (x - mean) * (jax.lax.rsqrt(variance + 1e-5) * scale) + offset


def forward(*arguments):
    """The probabilities f32[1,1000] of the classes, from inputs.inputs()."""
    *parameters, weights, bias, x = arguments
    layers = iter([parameters[i : i + 5] for i in range(0, len(parameters), 5)])

    def layer(x, stride=1):
        filters, *statistics = next(layers)
        return normalize(convolve(x, filters, stride), *statistics)

    x = jax.nn.relu(layer(x, stride=2))
    x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), ((0, 0), (1, 1), (1, 1), (0, 0)))
    for stage, (blocks, _) in enumerate(STAGES):
        for block in range(blocks):
            stride = 2 if stage > 0 and block == 0 else 1
            y = jax.nn.relu(layer(x))
            y = jax.nn.relu(layer(y, stride))
            y = layer(y)
            x = jax.nn.relu(y + (layer(x, stride) if block == 0 else x))
    return jax.nn.softmax(x.mean(axis=(1, 2)) @ weights + bias)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--side", type=int, default=SIDE)
    parser.add_argument("--output", type=Path, default=Path(__file__).with_name("forward.hlo"))
    options = parser.parse_args()
    lowered = jax.jit(forward).trace(*inputs(side=options.side)).lower(lowering_platforms=("refxla",))
    options.output.write_text(lowered.compiler_ir("hlo").as_hlo_text(True))
    print(f"{options.output}: {options.output.stat().st_size} bytes")
