"""Autotuning: measures the blocking of a program's matrix products; `refxla.compile(..., tune=True)`.

Each dot and each convolution of the plan is extracted as a separate program (with the producers of its operands within
the kernel), and tile configurations (device/tile_configurations.py) are tried on it, one field after the other, each
starting from the best so far. The best one is kept in the cache on disk, by product, device and driver version. The
results of the program have the same bits with any configuration.
"""

from __future__ import annotations

import dataclasses
import json
import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from statistics import median
from typing import Protocol

import numpy as np
from refxla_spec.module import Computation, Instruction, Module
from refxla_spec.types import Value

from ..analysis.cost_analysis import cost_of
from ..codegen.kernel_arguments import hero_of
from ..codegen.opencl_program import program
from ..device.description import Target
from ..device.tile_configurations import SPACE, TileConfiguration, neighbours, product_of, signature
from ..ir.op_table import ROWS
from ..ir.plan import Fusion
from ..runtime import disk_cache as disk
from ..runtime.devices import Device
from ..runtime.executable import Executable
from .planning import plan_module

SECONDS = 0.05  # how long a candidate runs, at least three times
ROUNDS = 7  # of the rules' configuration and the best candidate, at the end
BETTER = 0.98  # of the best time so far: a smaller gain may be noise
LEAST_PRODUCTS = 1 << 16  # multiply-adds from which a product is worth the search


class Timer(Protocol):
    """Measures the programs of one product."""

    def __call__(self, module: Module, target: Target) -> float | None:
        """The seconds that a program takes with the target's configurations, or None if its kernels are those of
        configurations that were already measured."""

    def confirms(self, module: Module, configurations: dict[str, TileConfiguration]) -> bool:
        """Whether these configurations are faster than the rules when both are measured alternately: a search measures
        each once, and the luckiest of forty need not be the best."""


def tune(
    fusions: Iterable[Fusion], device: Device, timer: Callable[[], Timer] | None = None
) -> dict[str, TileConfiguration]:
    """The best configuration for each product among the fusions, by its signature: from the cache on disk, or searched
    now, with a progress bar on the terminal (about ten seconds each).

    `timer` creates the Timer of a product; None runs its candidates on the device. Raises DeviceError if the device
    fails.
    """
    store = disk.cache()
    tiles: dict[str, TileConfiguration] = {}
    missing: dict[str, Fusion] = {}
    for name, fusion in products(fusions).items():
        content = store.get(_entry(name, device))
        if content is None:
            missing[name] = fusion
        else:
            tiles[name] = _decode(content)
    steps = sum(len(values) for values in SPACE.values()) + 1
    with _progress(len(missing) * steps) as advance:
        for name, fusion in missing.items():
            measure = timer() if timer else _OnDevice(device)
            module = program_of(fusion)
            best = search(module, name, device.target, measure, partial(advance, fusion))
            tiles[name] = (
                best if best == TileConfiguration() or measure.confirms(module, {name: best}) else TileConfiguration()
            )
            store.put(_entry(name, device), json.dumps(dataclasses.asdict(tiles[name])).encode())
    return {name: configuration for name, configuration in tiles.items() if configuration != TileConfiguration()}


def products(fusions: Iterable[Fusion]) -> dict[str, Fusion]:
    """The fusions whose products are worth the search, by their signatures, one of each."""
    by_signature: dict[str, Fusion] = {}
    for fusion in fusions:
        if fusion.hero is not None and ROWS[fusion.hero.opcode].tunable and _products(fusion) >= LEAST_PRODUCTS:
            by_signature.setdefault(signature(fusion), fusion)
    return by_signature


def load_configurations(names: Iterable[str], device: Device) -> dict[str, TileConfiguration] | None:
    """The result of `tune` for products of these signatures; None if it would have to search."""
    tiles: dict[str, TileConfiguration] = {}
    for name in names:
        content = disk.cache().get(_entry(name, device))
        if content is None:
            return None
        tiles[name] = _decode(content)
    return {name: configuration for name, configuration in tiles.items() if configuration != TileConfiguration()}


def search(module: Module, name: str, target: Target, timer: Timer, advance: Callable[[], None]) -> TileConfiguration:
    """The fastest configuration for the product of that signature, searched one field after the other."""
    best = TileConfiguration()
    by_rules = timer(module, target)
    least = math.inf if by_rules is None else by_rules
    advance()
    for field in SPACE:
        start = best
        for candidate in neighbours(start, field):
            seconds = timer(module, replace(target, tile_configurations={name: candidate}))
            advance()
            if seconds is not None and seconds < BETTER * least:
                best, least = candidate, seconds
    return best


def program_of(fusion: Fusion) -> Module:
    """A program of only the fusion's product: its inputs are the parameters, the hero is the result."""
    inputs, members = product_of(fusion)
    copies: dict[Instruction, Instruction] = {}
    for n, i in enumerate(inputs):
        copies[i] = Instruction(f"p{n}", "parameter", i.shape, [], {"number": n})
    for i in members:
        copies[i] = Instruction(i.name, i.opcode, i.shape, [copies[o] for o in i.operands], dict(i.attributes))
    hero = hero_of(fusion)
    entry = Computation("main", list(copies.values()), copies[hero])
    return Module(f"tune.{hero.name}", [entry], entry)


class _OnDevice:
    """The Timer that runs programs on a device, with random numbers."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.seen: set[str] = set()
        self.arguments: list[Value] | None = None

    def __call__(self, module: Module, target: Target) -> float | None:
        text, make = self.program(module, target)
        if text in self.seen:
            return None
        self.seen.add(text)
        return self.seconds(module, make())

    def confirms(self, module: Module, configurations: dict[str, TileConfiguration]) -> bool:
        targets = (self.device.target, replace(self.device.target, tile_configurations=configurations))
        rules, best = (self.program(module, target)[1]() for target in targets)
        rounds = [(self.seconds(module, rules), self.seconds(module, best)) for _ in range(ROUNDS)]
        return median(b for _, b in rounds) < BETTER * median(r for r, _ in rounds)

    def program(self, module: Module, target: Target) -> tuple[str, Callable[[], Executable]]:
        """The kernels of a program as text, and a function that builds its executable."""

        plan = plan_module(module, target)[1].plan
        opencl = program(plan.kernels, target)
        text = opencl.source + str([k.items for k in plan.kernels])
        return text, lambda: Executable(plan, opencl, self.device, cost_of(plan).operations)

    def seconds(self, module: Module, executable: Executable) -> float:
        """The least time of several calls."""
        if self.arguments is None:
            random = np.random.default_rng(0)
            shapes = [p.shape for p in module.entry.parameters]
            self.arguments = [random.integers(0, 2, s.dimensions).astype(s.element_type.dtype) for s in shapes]
        executable(*self.arguments)
        times: list[float] = []
        end = time.perf_counter() + SECONDS
        while len(times) < 3 or time.perf_counter() < end:
            start = time.perf_counter()
            executable(*self.arguments)
            times.append(time.perf_counter() - start)
        return min(times)


def _products(fusion: Fusion) -> int:
    """An upper bound on the multiply-adds of a dot or convolution."""
    hero = hero_of(fusion)
    return ROWS[hero.opcode].work(hero) // 2


def _entry(name: str, device: Device) -> str:
    """The key of a product on a device in the cache: another search space gives another key."""
    return disk.key("tuning", repr((SPACE, ROUNDS)), name, device.platform, device.name, device.label, device.driver,
                    str(device.compute_units), repr(device.target))  # fmt: skip


def _decode(content: bytes) -> TileConfiguration:
    values = json.loads(content)
    tile = values.pop("tile")
    return TileConfiguration(tile=None if tile is None else tuple(tile), **values)


@contextmanager
def _progress(steps: int) -> Iterator[Callable[[Fusion], None]]:
    """Counts the measured candidates, in a bar on standard error if that is a terminal."""
    if not steps or sys.stderr is None or not sys.stderr.isatty():
        yield lambda fusion: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("tuning {task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=steps)
        yield lambda fusion: bar.update(task, advance=1, description=hero_of(fusion).name)
