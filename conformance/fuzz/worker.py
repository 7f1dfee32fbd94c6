"""The process that runs batches: a bug in a generated kernel may end it, without affecting other processes."""

from __future__ import annotations

from functools import cache
from typing import Any

from refxla_conformance.targets import Target, make_target
from refxla_conformance.targets.child import serve

from refxla._core import buffer_pool

from . import batch, invalid, xla
from .differ import Divergence
from .kinds import DYNAMIC, KINDS, STATIC
from .record import investigate
from .runs import Kernels


@cache
def kernels(device: str | None) -> Kernels:
    """The device, opened once."""
    return Kernels(device)


def ready(settings: dict[str, Any]) -> None:
    """Creates what programs run on, once: a target, a device, XLA. Raises an error if it is not available."""
    if settings["invalid"]:
        return
    if settings["target"]:
        target(settings["target"]).versions()
        return
    if settings["kernels"]:
        kernels(settings["device"])
    if settings["xla"] and settings["kind"] != DYNAMIC:
        xla.target().versions()


@cache
def target(name: str) -> Target:
    """A target of the suite, created once."""
    return make_target(name)


def run(first: int, count: int, settings: dict[str, Any]) -> dict[str, Any]:
    """A batch; the tally as JSON data."""
    if settings["invalid"]:
        return invalid.run(first, count).as_json()
    kind = settings["kind"]
    if settings["target"]:
        return batch.run_on_target(first, count, target(settings["target"]), kind).as_json()
    device = kernels(settings["device"]) if settings["kernels"] else None
    every = 0 if kind == DYNAMIC else settings["xla"]
    tally = batch.run(first, count, device, every, settings["kernels"], kind)
    buffer_pool.trim()  # so that the blocks of this batch are checked (command.CHECKED_MALLOC)
    return tally.as_json()


def explain(fields: dict[str, Any], device: str | None, seconds: float, kind: str = STATIC) -> str:
    """The text of the record of a divergence."""
    divergence = Divergence(**fields)
    if divergence.check.startswith("invalid"):
        return invalid.record(divergence)
    sample = KINDS[kind].generate(divergence.seed)
    return investigate(sample, divergence, lambda: kernels(device), seconds)


if __name__ == "__main__":
    serve({"ready": ready, "run": run, "explain": explain})
