"""Writes step.hlo: a Keras model's training step on 64 x 64 images, with Adam, as TensorFlow sees it. Needs tensorflow.

python examples/cnn_tf/make.py [--batch N] [--output FILE]
"""

import argparse
import os
import re
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import keras  # noqa: E402
import tensorflow as tf  # noqa: E402


def model() -> keras.Model:
    layers = keras.layers
    return keras.Sequential(
        [
            layers.Input((64, 64, 3)),
            layers.Conv2D(16, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.Conv2D(32, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(64, activation="relu"),
            layers.Dense(10),
        ]
    )


def training_step():
    """step(images f32[n,64,64,3], labels s32[n]) -> loss f32[], updating the variables of a model and of Adam."""
    network, optimizer = model(), keras.optimizers.Adam()
    cross_entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer.build(network.trainable_variables)

    @tf.function(jit_compile=True)
    def step(images, labels):
        with tf.GradientTape() as tape:
            loss = cross_entropy(labels, network(images, training=True))
        gradients = tape.gradient(loss, network.trainable_variables)
        optimizer.apply_gradients(zip(gradients, network.trainable_variables, strict=True))
        return loss

    return step


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--output", type=Path, default=Path(__file__).with_name("step.hlo"))
    options = parser.parse_args()
    step = training_step()
    arguments = tf.zeros((options.batch, 64, 64, 3)), tf.zeros(options.batch, tf.int32)
    text = step.experimental_get_compiler_ir(*arguments)(stage="hlo")
    # The metadata names source files; where they were installed is nobody's business.
    options.output.write_text(re.sub(r'source_file="[^"]*/site-packages/', 'source_file="', text))
    print(f"{options.output}: {options.output.stat().st_size} bytes")
