"""One call of each entry of the suite (bench/models), for refxla and JAX; bench.peers has all frameworks."""

from __future__ import annotations

from bench.child import Prepared
from bench.models import ENTRIES

PEERS = ["refxla", "jax"]


class _Group:
    """asv skips what is not installed, for NotImplementedError."""

    param_names = ["peer", "entry"]
    timeout = 600

    def setup(self, peer: str, name: str) -> None:
        try:
            self.call = Prepared(peer, name)
        except ImportError as problem:
            raise NotImplementedError(str(problem)) from problem
        self.call()

    def time_call(self, peer: str, name: str) -> None:
        self.call()


class Kernels(_Group):
    params = [PEERS, [e.name for e in ENTRIES if e.group == "kernels"]]


class Science(_Group):
    params = [PEERS, [e.name for e in ENTRIES if e.group == "science"]]


class Models(_Group):
    params = [PEERS, [e.name for e in ENTRIES if e.group == "models"]]
