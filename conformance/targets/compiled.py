"""The compiler, on one OpenCL device."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from refxla_spec import text, verify
from refxla_spec.module import Module
from refxla_spec.types import Value

import refxla
from refxla.compiler.driver import Request, compile_request
from refxla.compiler.planning import plan_module
from refxla.device.tile_configurations import SPACE, TileConfiguration, signature
from refxla.ir.fingerprint import Source
from refxla.passes.winograd_convolution import apply_winograd
from refxla.runtime import devices

from .base import Target, arrays, leaves
from .merge import can_merge, merge, results


class Compiled(Target):
    """`refxla.compile` for a device of `refxla devices`, or for the default one."""

    def __init__(self, device: str | None = None, without: Sequence[str] = ()) -> None:
        """`without` names passes to leave out, as for `refxla.compile`."""
        self.device, self.without = device, tuple(without)
        self.name = f"compiled:{device}" if device else "compiled"

    def run(self, module: Module, arguments: Sequence[Value]) -> list[np.ndarray]:
        return self.load(module)(arguments)

    def load(self, module: Module) -> Callable[[Sequence[Value]], list[np.ndarray]]:
        executable = refxla.compile(module, device=self.device, without=self.without)
        return lambda arguments: arrays(executable(*leaves(list(arguments))))

    def run_many(self, programs: Sequence[tuple[Module, Sequence[Value]]]) -> list[list[np.ndarray] | Exception]:
        """Compiles everything that can be merged as one program, since most of the time is the startup of OpenCL's
        compiler. If that raises an error, the programs are split in halves until the cause is found.

        GPU code on PoCL's CPU is compiled program by program: there PoCL works on the whole program again for each
        kernel, and many kernels take minutes.
        """
        if isinstance(devices.find(self.device), devices.EmulatedGpu):
            return super().run_many(programs)
        merged = [n for n, (module, _) in enumerate(programs) if can_merge(module)]
        by_number: dict[int, list[np.ndarray] | Exception] = {}
        rest = [n for n in range(len(programs)) if n not in merged]
        for n, result in zip(rest, super().run_many([programs[n] for n in rest]), strict=True):
            by_number[n] = result
        for n, result in zip(merged, self._merged([programs[n] for n in merged]), strict=True):
            by_number[n] = result
        return [by_number[n] for n in range(len(programs))]

    def _merged(self, programs: list[tuple[Module, Sequence[Value]]]) -> list[list[np.ndarray] | Exception]:
        if len(programs) < 2:
            return super().run_many(programs)
        try:
            flat = self.run(merge([module for module, _ in programs]), [a for _, args in programs for a in args])
        except Exception:
            half = len(programs) // 2
            return self._merged(programs[:half]) + self._merged(programs[half:])
        rest = iter(flat)
        return [[next(rest) for _ in results(module)] for module, _ in programs]

    def verify(self, source: str) -> None:
        verify.verify(text.parse(source))

    def versions(self) -> dict[str, str]:
        return {"refxla": refxla.__version__, "device": str(devices.find(self.device))}


class Unfused(Compiled):
    """The same without fusion: a kernel for each operation, with the same bits."""

    def __init__(self) -> None:
        super().__init__(without=("fusion",))
        self.name = "compiled-unfused"


class Expanded(Compiled):
    """The same with linear algebra in kernels (`linear_algebra="expanded"`), as on devices with their own memory."""

    def __init__(self) -> None:
        super().__init__()
        self.name = "compiled-expanded"

    def load(self, module: Module) -> Callable[[Sequence[Value]], list[np.ndarray]]:
        executable = refxla.compile(module, linear_algebra="expanded")
        return lambda arguments: arrays(executable(*leaves(list(arguments))))


class Tuned(Compiled):
    """The same with the fastest blocking of matrix products on this device (`tune=True`): for those that are large
    enough to be measured, which takes ten seconds each."""

    def __init__(self) -> None:
        super().__init__()
        self.name = "compiled-tuned"

    def load(self, module: Module) -> Callable[[Sequence[Value]], list[np.ndarray]]:
        executable = refxla.compile(module, tune=True)
        return lambda arguments: arrays(executable(*leaves(list(arguments))))


class Recut(Compiled):
    """The same with the blocking of each matrix product chosen at random from all that `tune=True` may find."""

    def __init__(self) -> None:
        super().__init__()
        self.name = "compiled-recut"

    def load(self, module: Module) -> Callable[[Sequence[Value]], list[np.ndarray]]:
        device = devices.choose(self.device)[0]
        fusions = plan_module(module, device.target)[1].plan.fusions
        names = [signature(f) for f in fusions if f.kind in ("dot", "convolution")]
        configurations = {name: _drawn(name) for name in names}
        target = replace(device.target, tile_configurations=configurations)
        executable = compile_request(Request(Source.of(module), device, (), target))
        return lambda arguments: arrays(executable(*leaves(list(arguments))))


class Tiled(Compiled):
    """The same with convolutions computed in tiles wherever possible, whether it is faster or not (`winograd=True`)."""

    def __init__(self) -> None:
        super().__init__()
        self.name = "compiled-winograd"

    def meant(self, module: Module) -> Module:
        tiled, decisions = apply_winograd(module, always=True)
        return tiled if any(d.done for d in decisions) else module

    def load(self, module: Module) -> Callable[[Sequence[Value]], list[np.ndarray]]:
        return super().load(self.meant(module))


def _drawn(name: str) -> TileConfiguration:
    """A tile configuration for a product, the same in every run; None leaves a field to the rules."""
    draw = random.Random(name)
    fields: dict[str, Any] = {field: draw.choice((None, *values)) for field, values in SPACE.items()}
    return TileConfiguration(**fields)
