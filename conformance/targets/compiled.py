"""The compiler, on one OpenCL device."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from refxla_spec import text, verify
from refxla_spec.module import Module
from refxla_spec.types import Value

import refxla
from refxla.runtime import devices

from .base import Target, arrays, leaves


class Compiled(Target):
    """`refxla.compile` for a device of `refxla devices`, or for the default one."""

    def __init__(self, device: str | None = None, without: Sequence[str] = ()) -> None:
        """`without` names passes to leave out, as `refxla.compile` takes them."""
        self.device, self.without = device, tuple(without)
        self.name = f"compiled:{device}" if device else "compiled"

    def run(self, module: Module, arguments: Sequence[Value]) -> list[np.ndarray]:
        return self.load(module)(arguments)

    def load(self, module: Module) -> Callable[[Sequence[Value]], list[np.ndarray]]:
        executable = refxla.compile(module, device=self.device, without=self.without)
        return lambda arguments: arrays(executable(*leaves(list(arguments))))

    def verify(self, source: str) -> None:
        verify.verify(text.parse(source))

    def versions(self) -> dict[str, str]:
        return {"refxla": refxla.__version__, "device": str(devices.find(self.device))}
