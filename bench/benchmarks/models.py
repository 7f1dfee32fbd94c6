"""Whole programs: the examples."""

from __future__ import annotations

from .peers import PEERS, compiled_hlo, example

# What it is called here -> (example, file, batch; None: as the file is)
PROGRAMS = {
    "CNN step, batch 8": ("cnn", "step.hlo", None),
    "CNN step, batch 64": ("cnn", "step.hlo", 64),
    "transformer block": ("transformer", "block.hlo", None),
    "MLP step": ("mlp", "step.hlo", None),
    "LSTM": ("lstm", "lstm.hlo", None),
    "ResNet-50 forward": ("resnet50", "forward.hlo", None),
    "k-means": ("kmeans", "kmeans.hlo", None),
    "n-body": ("nbody", "nbody.hlo", None),
    "heat": ("heat", "heat.hlo", None),
}


class Programs:
    """One call of each example, from the same HLO."""

    params = [PEERS, list(PROGRAMS)]
    param_names = ["peer", "program"]
    timeout = 300

    def setup(self, peer: str, program: str) -> None:
        self.call = compiled_hlo(peer, *example(*PROGRAMS[program]))

    def time_call(self, peer: str, program: str) -> None:
        self.call()
