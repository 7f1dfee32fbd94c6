"""The emitter for each kind of fusion on each kind of device. Nothing else chooses between CPU and GPU emitters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from importlib import import_module

from refxla_spec.errors import UnsupportedError
from refxla_spec.types import leaves

from ..device.description import Target
from ..ir.op_table import HERO, ROWS
from ..ir.plan import Fusion, Kernel

MOST_ITEMS = 1 << 31  # of a launch

# By Capabilities.emitters, then by kind of fusion: (module, function), where function(fusion, target) gives the
# kernels. A kind of fusion that a row lacks is looked up in the one of CPUs.
EMITTERS: dict[str, dict[str, tuple[str, str]]] = {
    "cpu": {
        "loop": ("loops.elementwise", "emit"),
        "update": ("loops.elementwise", "emit_update"),
        **{r.kind: (r.emitter, "emit") for r in ROWS.values() if r.op_class == HERO},
    },
    "gpu": {
        "loop": ("gpu.elementwise", "emit"),
        "update": ("gpu.elementwise", "emit_update"),
        **{r.kind: (r.gpu_emitter, "emit") for r in ROWS.values() if r.gpu_emitter},
    },
}


def emit(fusion: Fusion, target: Target) -> tuple[Kernel, ...]:
    """The kernels of a fusion, to be launched in order. Raises UnsupportedError if there is no emitter."""
    emitter = _emitter(fusion.kind, target.capabilities.emitters)
    if emitter is None:
        name = fusion.hero.name if fusion.hero is not None else fusion.name
        raise UnsupportedError(f"{name}: there is no emitter for {fusion.kind}; express it by other operations")
    _check_types(fusion, target)
    kernels = tuple(_with_origin(k, fusion) for k in emitter(fusion, target))
    most = max((k.items for k in kernels), default=0)
    if most >= MOST_ITEMS:
        raise UnsupportedError(
            f"{fusion.outputs[0].name}: {most} work items are more than a launch has; use smaller arrays"
        )
    return kernels


def _with_origin(kernel: Kernel, fusion: Fusion) -> Kernel:
    """A kernel of a fusion, with its name and the size of its code."""
    assert isinstance(kernel.body, str)  # merged kernels are the scheduler's
    return replace(kernel, fusion=fusion.name, code_size=len(kernel.body))


def _check_types(fusion: Fusion, target: Target) -> None:
    """Raises UnsupportedError for element types that the device does not have."""
    for i in (*fusion.inputs, *fusion.instructions) if not target.fp64 else ():
        wide = [s.element_type.name for s in leaves(i.shape) if s.is_array and s.element_type.name in ("f64", "c128")]
        if wide:
            raise UnsupportedError(f"{i.name}: the device has no {wide[0]}; compute in f32 or c64, or choose another")


def place(kind: str, row: str = "cpu") -> tuple[str, str] | None:
    """(module, function) of the emitter for a kind of fusion, from a row of EMITTERS; None where there is none."""
    return EMITTERS.get(row, {}).get(kind) or EMITTERS["cpu"].get(kind)


@cache
def _emitter(kind: str, row: str) -> Callable[[Fusion, Target], tuple[Kernel, ...]] | None:
    location = place(kind, row)
    return None if location is None else getattr(import_module(f"{__package__}.{location[0]}"), location[1])
