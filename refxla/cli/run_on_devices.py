"""`refxla run` on the reference for a program for several devices, or with infeeds or outfeeds: each device has its own
arguments, infeeds and results.

In an npz, `dev0.arg0` is the first argument of device 0; `arg0` is that of every device without one of its own. Results
are called `dev0.out0`, and so on; for a program for one device `out0`. Infeeds and outfeeds are named likewise:
`infeed0`, `dev1.infeed0`, `dev1.outfeed0` (see feeds.py). Device replica * partitions + partition is that partition of
that replica.
"""

from __future__ import annotations

import argparse
import re
import time
from typing import Any

import numpy as np
from refxla_spec.devices import Host, device_counts, run_devices
from refxla_spec.errors import InputError, plural
from refxla_spec.groups import devices_text
from refxla_spec.module import Module
from refxla_spec.verify import verify
from rich.table import Table

from ..compiler.driver import flatten, unflatten_all
from ..progress import show_progress
from ..runtime.devices import REFERENCE
from . import feeds
from .argument_files import from_npz, names, random_arguments, read_npz, write_npz
from .console import read_bytes, show, write_bytes
from .results_table import calls_text, results_table

_OF_DEVICE = re.compile(r"dev(\d+)\.(.+)")


def counts(options: argparse.Namespace, module: Module) -> tuple[int, int]:
    """Replicas, and partitions of each: from the options, otherwise from the program. Raises InputError."""
    stated = device_counts(module)
    for name in ("replicas", "partitions"):
        if getattr(options, name) is not None and getattr(options, name) < 1:
            raise InputError(f"--{name} {getattr(options, name)}: there is at least one")
    return options.replicas or stated[0], options.partitions or stated[1]


def run(options: argparse.Namespace, module: Module) -> int:
    """The command for several devices, or with infeeds or outfeeds; 0. Raises Error."""
    replicas, partitions = counts(options, module)
    many, count = devices_text(replicas, partitions), replicas * partitions
    what = f"a program for {many}" if count > 1 else "a program with infeeds or outfeeds"
    if options.device != REFERENCE:
        raise InputError(f"{what} runs on the reference: add --device {REFERENCE}")
    if options.check:
        raise InputError(f"--check compares with the reference, and {what} runs on nothing else")
    verify(module)
    arguments, infeeds = _arguments(options, module, count), _infeeds(options, count)
    shapes = [p.shape for p in module.entry.parameters]
    nested = [unflatten_all(a, shapes) for a in arguments]
    times = []
    with show_progress(f"running {module.name} on {many}"):
        for _ in range(options.repeat):
            start = time.perf_counter()
            hosts = [Host(infeed) for infeed in infeeds]
            values = run_devices(module, nested, replicas=replicas, partitions=partitions, hosts=hosts)
            times.append(time.perf_counter() - start)
    results: dict[str, Any] = {}
    for n, (value, host) in enumerate(zip(values, hosts, strict=True)):
        arrays = {f"out{k}": leaf for k, leaf in enumerate(flatten(value))} | feeds.outfed(host.outfed)
        results |= {f"dev{n}.{name}" if count > 1 else name: leaf for name, leaf in arrays.items()}
    if options.output is not None:
        write_bytes(options.output, write_npz(list(results.values()), list(results)))
    if options.output != "-":
        head = Table.grid(padding=(0, 2))
        head.add_row("devices", f"{many}, on the reference interpreter")
        head.add_row("ran", calls_text(times))
        show(head, "", results_table(results))
    return 0


def _arguments(options: argparse.Namespace, module: Module, count: int) -> list[list[np.ndarray]]:
    """The arguments of each device."""
    if options.inputs is not None:
        source = "standard input" if options.inputs == "-" else options.inputs
        arrays = by_device(module, read_npz(read_bytes(options.inputs), source), count)
        return [from_npz(module, a, source) for a in arrays]
    if options.random is not None:
        return [random_arguments(module, options.random + n) for n in range(count)]
    if names(module):
        listed = ", ".join(f"dev0.{a} ({b}) {s.without_layout()}" for a, b, s in names(module)[:6])
        raise InputError(
            f"each of {count} devices takes {plural(len(names(module)), 'array')}: {listed}; give --inputs FILE "
            "(where arg0 is for every device that has no devN.arg0) or --random SEED (device n gets what the seed "
            "SEED + n gives)"
        )
    return [[] for _ in range(count)]


def _infeeds(options: argparse.Namespace, count: int) -> list[list[Any]]:
    """The values for the infeeds of each device: its own if it has any, otherwise those for all devices."""
    if options.infeed is None:
        return [[] for _ in range(count)]
    source = "standard input" if options.infeed == "-" else options.infeed
    own, shared = _own(read_npz(read_bytes(options.infeed), source), count)
    return [feeds.infeeds(mine or shared, source) for mine in own]


def by_device(module: Module, arrays: dict[str, Any], count: int) -> list[dict[str, Any]]:
    """The arrays of each device by their names without `devN.`; those without it are for every device that has no other
    for the same parameter. Raises InputError for a device that does not exist."""
    other = {k: v for number, name, _ in names(module) for k, v in ((number, name), (name, number))}
    own, shared = _own(arrays, count)
    return [
        {**{k: v for k, v in shared.items() if k not in mine and other.get(k, k) not in mine}, **mine} for mine in own
    ]


def _own(arrays: dict[str, Any], count: int) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The arrays of each device, and those for all devices, by their names without `devN.`."""
    own: list[dict[str, Any]] = [{} for _ in range(count)]
    shared = {}
    for name, array in arrays.items():
        match = _OF_DEVICE.fullmatch(name)
        if match is None:
            shared[name] = array
        elif int(match[1]) >= count:
            raise InputError(f"{name} is for device {match[1]}, and the devices are 0 to {count - 1}")
        else:
            own[int(match[1])][match[2]] = array
    return own, shared
