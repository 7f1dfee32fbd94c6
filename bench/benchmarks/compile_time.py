"""From a function to its first result, and the peak memory on the way, in a separate process."""

from __future__ import annotations

import tempfile

from bench.child import alone
from bench.models import ENTRIES

PEERS = ["refxla", "jax"]
COLD, CACHED = "cold", "from the cache"
MODELS = [e.name for e in ENTRIES if e.group == "models"]


class Compile:
    """Seconds. XLA:CPU keeps nothing between processes unless told to, as here."""

    params = [PEERS, MODELS, [COLD, CACHED]]
    param_names = ["peer", "entry", "cache"]
    timeout = 900
    unit = "s"

    def track_seconds(self, peer: str, name: str, how: str) -> float:
        with tempfile.TemporaryDirectory() as caches:
            result = alone(peer, name, caches)
            return alone(peer, name, caches)["first"] if how == CACHED else result["first"]


class Memory:
    """Bytes."""

    params = [PEERS, MODELS]
    param_names = ["peer", "entry"]
    timeout = 900
    unit = "bytes"

    def track_peak(self, peer: str, name: str) -> float:
        return alone(peer, name)["peak"]
