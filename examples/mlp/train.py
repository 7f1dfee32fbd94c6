"""Trains the classifier by calling the compiled step in a loop; ends with the accuracy on images it has not seen.

pip install scikit-learn        (for its images of digits)
python examples/mlp/train.py [--device NAME] [--epochs N]
"""

import argparse
from pathlib import Path

import numpy as np
from inputs import BATCH, digits, momenta, parameters
from rich.progress import track

import refxla

HERE = Path(__file__).parent


def train(epochs: int = 40, device: str | None = None) -> float:
    """The accuracy, from 0 to 1, on the 297 test images after `epochs` passes over the 1,500 training images."""
    images, labels, test_images, test_labels = digits()
    step = refxla.compile(HERE / "step.hlo", device=device)
    predict = refxla.compile(HERE / "predict.hlo", device=device)
    state = parameters() + momenta()
    rng = np.random.default_rng(1)
    for _ in track(range(epochs), description="training"):
        order = rng.permutation(len(images))
        for start in range(0, len(images) - BATCH + 1, BATCH):
            batch = order[start : start + BATCH]
            *state, loss = step(*state, images[batch], labels[batch])
    print(f"loss of the last batch: {float(loss):.4f}")
    return float(np.mean(predict(*state[:4], test_images) == test_labels))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device")
    parser.add_argument("--epochs", type=int, default=40)
    options = parser.parse_args()
    print(f"accuracy on 297 unseen images: {train(options.epochs, options.device):.2%}")
