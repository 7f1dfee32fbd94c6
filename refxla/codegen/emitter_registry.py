"""From a fusion to its kernels: the emitter for each kind."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.util import find_spec

from refxla_spec.errors import UnsupportedError

from ..device.description import Target
from ..ir.plan import Fusion, Kernel

# kind -> (module, function); each function is (fusion, target) -> tuple[Kernel, ...]
EMITTERS = {
    "loop": ("loops.elementwise", "emit"),
    "update": ("loops.elementwise", "emit_update"),
    "reduction": ("reductions.reduction", "emit"),
    "dot": ("products.dot", "emit"),
    "convolution": ("products.convolution", "emit"),
    "reduce-window": ("windows.reduce_window", "emit"),
    "select-and-scatter": ("windows.select_and_scatter", "emit"),
    "scatter": ("scatter", "emit"),
    "sort": ("sort", "emit"),
}
# Kinds whose elements a loop can compute one by one.
ELEMENTAL = {"dot", "convolution", "reduce-window", "select-and-scatter"}


def emit(fusion: Fusion, target: Target) -> tuple[Kernel, ...]:
    """The kernels of a fusion, to be launched in order. Raises UnsupportedError for what has no emitter."""
    return _emitter(fusion)(fusion, target)


def _emitter(fusion: Fusion) -> Callable[[Fusion, Target], tuple[Kernel, ...]]:
    found = _of_kind(fusion.kind)
    if found is None:
        name = fusion.hero.name if fusion.hero is not None else fusion.name
        raise UnsupportedError(f"{name}: there is no emitter for {fusion.kind}; express it by other operations")
    return found


@cache
def _of_kind(kind: str) -> Callable[[Fusion, Target], tuple[Kernel, ...]] | None:
    module, function = EMITTERS.get(kind, (None, None))
    if module is None or find_spec(f"{__package__}.{module}") is None:
        if kind not in ELEMENTAL:
            return None
        module, function = EMITTERS["loop"]
    return getattr(import_module(f"{__package__}.{module}"), function)
