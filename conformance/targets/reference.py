"""The specification's own interpreter."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from refxla_spec import text, verify
from refxla_spec.devices import Host, device_counts, run_devices
from refxla_spec.module import Module
from refxla_spec.types import Value

from .base import Target, arrays


class Reference(Target):
    """What HLO means, by definition: it passes every case."""

    name = "reference"
    devices = 1024  # they are simulated

    def run(self, module: Module, arguments: Sequence[Value]) -> list[np.ndarray]:
        return arrays(run_devices(module, divided(module, arguments)))

    def run_fed(self, module: Module, arguments: Sequence[Value], infeed: Sequence[Value]) -> list[np.ndarray]:
        host = Host(infeed)
        result = run_devices(module, divided(module, arguments), hosts=[host] * prod(device_counts(module)))
        return [*arrays(result), *arrays(host.outfed)]

    def verify(self, source: str) -> None:
        verify.verify(text.parse(source))


def divided(module: Module, arguments: Sequence[Value]) -> list[Sequence[Value]]:
    """The arguments of each device, from arguments given device by device."""
    each = len(module.entry.parameters)
    return [arguments[n * each : (n + 1) * each] for n in range(prod(device_counts(module)))]
