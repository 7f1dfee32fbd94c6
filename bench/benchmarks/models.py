"""Whole programs."""

from __future__ import annotations

from collections.abc import Callable

from .peers import PEERS, compiled, example


def cnn_step() -> Callable:
    """The function that examples/cnn/step.hlo was made from, with its arguments flat."""
    import sys

    from .peers import EXAMPLES

    sys.path.insert(0, str(EXAMPLES / "cnn"))
    try:
        from make import step
    finally:
        sys.path.pop(0)
    return lambda *flat: step(list(flat[:8]), list(flat[8:16]), list(flat[16:24]), *flat[24:])


class CnnStep:
    """A training step of the convolutional network: batch 8 of 64 x 64 images, Adam."""

    params = [PEERS]
    param_names = ["peer"]
    timeout = 300

    def setup(self, peer: str) -> None:
        hlo, arguments = example("cnn", "step.hlo")
        self.call = compiled(peer, hlo, cnn_step, arguments)

    def time_call(self, peer: str) -> None:
        self.call()
