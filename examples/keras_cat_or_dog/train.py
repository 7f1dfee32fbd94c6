"""Trains a convolutional network of Keras on TensorFlow to tell cats from dogs, with one line for refxla.

The pictures are drawn here: heads from the front, cats with pointed ears, dogs with hanging ones, of all colours, sizes
and places.

pip install './[tensorflow]'
python examples/keras_cat_or_dog/train.py            # --tensorflow leaves the line out
"""

import argparse
import time

import keras
import numpy as np
from keras import layers

import refxla.tensorflow


def pictures(count: int, size: int, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Images[count, size, size, 3] between 0 and 1, and labels[count]: 1 for a dog."""
    rows, columns = np.mgrid[:size, :size] / size
    images = generator.uniform(0, 0.35, (count, 1, 1, 3)) + generator.normal(0, 0.04, (count, size, size, 3))
    labels = generator.integers(0, 2, count)
    for image, is_dog in zip(images, labels, strict=True):
        radius = generator.uniform(0.2, 0.27)
        y, x = generator.uniform(0.45, 0.6), generator.uniform(0.4, 0.6)
        color = generator.uniform(0.45, 1, 3)
        head = (rows - y) ** 2 + (columns - x) ** 2 < radius**2
        aside = np.abs(columns - x)
        if is_dog:  # ellipses that hang at the sides
            ears = ((rows - y) / 1.1) ** 2 + ((aside - radius) * 2.2) ** 2 < (0.8 * radius) ** 2
        else:  # triangles on top
            ears = (
                (rows > y - 1.6 * radius) & (rows < y) & (np.abs(aside - 0.7 * radius) < (rows - y + 1.6 * radius) / 2)
            )
        image[ears] = color * 0.7
        image[head] = color
        for side in (-0.4, 0.4):
            image[(rows - y + 0.2 * radius) ** 2 + (columns - x - side * radius) ** 2 < (0.15 * radius) ** 2] = 0.05
        image[(rows - y - 0.35 * radius) ** 2 + (columns - x) ** 2 < (0.18 * radius) ** 2] = 0.15
    return images.clip(0, 1).astype(np.float32), labels.astype(np.float32)


def network(size: int) -> keras.Model:
    """The probability [batch, 1] that images[batch, size, size, 3] show dogs."""
    return keras.Sequential(
        [
            layers.Input((size, size, 3)),
            layers.Conv2D(32, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.Conv2D(64, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.Conv2D(64, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(64, activation="relu"),
            layers.Dense(1, activation="sigmoid"),
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tensorflow", action="store_true", help="without refxla")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--images", type=int, default=1000)
    parser.add_argument("--size", type=int, default=64, help="pixels in each direction")
    options = parser.parse_args()
    keras.utils.set_random_seed(0)
    images, labels = pictures(options.images, options.size, np.random.default_rng(0))

    model = network(options.size)
    model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
    if not options.tensorflow:
        refxla.tensorflow.accelerate(model)  # the line

    start = time.perf_counter()
    history = model.fit(images, labels, epochs=options.epochs, validation_split=0.2, verbose=0).history
    print(f"{options.epochs} epochs in {time.perf_counter() - start:.2f} s, of which the first compiles")
    for epoch, (loss, validation) in enumerate(zip(history["loss"], history["val_loss"], strict=True)):
        print(f"epoch {epoch + 1}: loss {loss:.4f}, of the validation {validation:.4f}")
    images, labels = pictures(200, options.size, np.random.default_rng(1))
    _, accuracy = model.evaluate(images, labels, verbose=0)
    print(f"accuracy {accuracy:.3f} on {len(images)} pictures that it was not shown")
    if not options.tensorflow:
        print(refxla.tensorflow.report(model))


if __name__ == "__main__":
    main()
