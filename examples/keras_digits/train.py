"""Trains a convolutional network on handwritten digits, with Keras on its JAX backend, without a word of refxla.

pip install './[jax]' keras scikit-learn
KERAS_BACKEND=jax JAX_PLATFORMS=refxla python examples/keras_digits/train.py
"""

import argparse
import tempfile
import time
from pathlib import Path

import jax
import keras
import numpy as np
from keras import layers
from sklearn.datasets import load_digits


def network() -> keras.Model:
    """Logits[batch, 10] of images[batch, 8, 8, 1]."""
    return keras.Sequential(
        [
            layers.Input((8, 8, 1)),
            layers.Conv2D(16, 3, padding="same", activation="relu"),
            layers.BatchNormalization(momentum=0.8),
            layers.MaxPooling2D(),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.Flatten(),
            layers.Dropout(0.2),
            layers.Dense(64, activation="relu"),
            layers.Dense(10),
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--epochs", type=int, default=8)
    epochs = parser.parse_args().epochs
    keras.utils.set_random_seed(0)

    digits = load_digits()
    images = (digits.images / 16).astype(np.float32)[..., None]
    labels = digits.target.astype(np.int32)
    order = np.random.default_rng(0).permutation(len(images))
    train, test = order[:1500], order[1500:]  # the last batch of an epoch is a partial one

    print(f"on {jax.devices()[0]}, Keras' backend is {keras.backend.backend()}")
    model = network()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, metrics=["accuracy"])
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as directory:
        best = Path(directory, "best.keras")
        history = model.fit(
            images[train],
            labels[train],
            batch_size=64,
            epochs=epochs,
            validation_split=0.1,
            callbacks=[keras.callbacks.ModelCheckpoint(best, monitor="val_loss", save_best_only=True)],
            verbose=0,
        ).history
        print(f"{epochs} epochs in {time.perf_counter() - start:.2f} s")
        for epoch, (value, validation) in enumerate(zip(history["loss"], history["val_loss"], strict=True)):
            print(f"epoch {epoch + 1}: loss {value:.4f}, of the validation {validation:.4f}")
        _, accuracy = keras.models.load_model(best).evaluate(images[test], labels[test], verbose=0)
    print(f"accuracy {accuracy:.3f} on {len(test)} images that it was not shown")


if __name__ == "__main__":
    main()
