"""Autotuning: the blocks of a program's matrix products, found by measuring; `refxla.compile(..., tune=True)`.

Each dot and each convolution of the plan is taken out as a program of its own (what computes its operands within the
kernel included), and tile configurations (device/tile_configurations.py) are tried on it, one field after the other,
each from the best so far. What was found is kept in the cache on disk, by product, device and version of its driver.
The results of the program keep their bits whatever is found.
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

SECONDS = 0.05  # for which a candidate runs, at least three times
ROUNDS = 7  # of the rules and of the best candidate, at the end
BETTER = 0.98  # of the best time so far: what is not clearly quicker may be noise
LEAST_PRODUCTS = 1 << 16  # multiply-adds from which a product is worth the search


class Timer(Protocol):
    """What measures the programs of one product."""

    def __call__(self, module: Module, target: Target) -> float | None:
        """The seconds that a program takes with the target's configurations, or None where the kernels are those of
        configurations that were measured before."""

    def confirms(self, module: Module, configurations: dict[str, TileConfiguration]) -> bool:
        """Whether these configurations are faster than the rules when both are measured alternately: a search measures
        each once, and the luckiest of forty need not be the best."""


def tune(
    fusions: Iterable[Fusion], device: Device, timer: Callable[[], Timer] | None = None
) -> dict[str, TileConfiguration]:
    """The best configuration for each product among the fusions, by its signature: from the cache on disk, or searched
    now, with a progress bar on the terminal (about ten seconds each).

    `timer` makes what measures one product's candidates; None runs them on the device. Raises DeviceError when the
    device fails.
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
    """By their signatures the fusions whose products are worth the search, one of each."""
    by_signature: dict[str, Fusion] = {}
    for fusion in fusions:
        if fusion.hero is not None and ROWS[fusion.hero.opcode].tunable and _products(fusion) >= LEAST_PRODUCTS:
            by_signature.setdefault(signature(fusion), fusion)
    return by_signature


def load_configurations(names: Iterable[str], device: Device) -> dict[str, TileConfiguration] | None:
    """What `tune` gives for products of these signatures; None where it would have to search."""
    tiles: dict[str, TileConfiguration] = {}
    for name in names:
        content = disk.cache().get(_entry(name, device))
        if content is None:
            return None
        tiles[name] = _decode(content)
    return {name: configuration for name, configuration in tiles.items() if configuration != TileConfiguration()}


def search(module: Module, name: str, target: Target, timer: Timer, advance: Callable[[], None]) -> TileConfiguration:
    """The quickest configuration for the product of that signature, one field after the other."""
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
    """A program of the fusion's product alone: its inputs are the parameters, the hero is the result."""
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
    """The Timer that runs programs on a device, on numbers at random."""

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
        """The kernels of a program as text, and what makes it an executable."""

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
    """The multiply-adds of a dot or convolution, at most."""
    hero = hero_of(fusion)
    return ROWS[hero.opcode].work(hero) // 2


def _entry(name: str, device: Device) -> str:
    """The key in the cache of a product on a device: another search is another key."""
    return disk.key("tuning", repr((SPACE, ROUNDS)), name, device.platform, device.name, device.label, device.driver,
                    str(device.compute_units), repr(device.target))  # fmt: skip


def _decode(content: bytes) -> TileConfiguration:
    values = json.loads(content)
    tile = values.pop("tile")
    return TileConfiguration(tile=None if tile is None else tuple(tile), **values)


@contextmanager
def _progress(steps: int) -> Iterator[Callable[[Fusion], None]]:
    """Counts the candidates that were measured, in a bar on standard error if that is a terminal."""
    if not steps or sys.stderr is None or not sys.stderr.isatty():
        yield lambda fusion: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("tuning {task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=steps)
        yield lambda fusion: bar.update(task, advance=1, description=hero_of(fusion).name)
