"""The platform "refxla" as JAX knows it: its devices, its compiler, and what JAX keeps for platforms of its own."""

from __future__ import annotations

import os
import threading

import jax
from jax._src import xla_bridge
from jax._src.interpreters import mlir
from jaxlib.mlir.dialects import stablehlo
from refxla_spec.errors import InputError

from .._core import pjrt, pjrt_client, pjrt_executable
from ..frontends import jax_lowerings
from ..frontends.jax_lowerings import PLATFORM
from ..version import RELEASE
from . import compile_service

_PRIORITY = -100  # below the CPU of JAX's own: refxla runs what asks for it (JAX_PLATFORMS, jax.devices("refxla"))

_lock = threading.Lock()
_registered = False


def register() -> None:
    """Register the platform; a second time does nothing. Raises InputError for a REFXLA_DEVICES that is no count."""
    global _registered
    with _lock:
        if _registered:
            return
        _registered = True
        pjrt_client.configure(device_count(), f"refxla {RELEASE}")
        pjrt_executable.set_compiler(compile_service.compile_program, compile_service.load_program)
        if PLATFORM not in mlir._platforms_with_donation:
            mlir._platforms_with_donation.append(PLATFORM)
        _add_cpu()
        jax_lowerings.register()
        table = pjrt.interface({"current": _version(stablehlo.get_current_version())})
        xla_bridge.register_plugin(PLATFORM, priority=_PRIORITY, c_api=table)


def device_count() -> int:
    """How many devices there are: what REFXLA_DEVICES says, or 1."""
    said = os.environ.get("REFXLA_DEVICES", "1")
    if not said.isdecimal() or not 1 <= int(said) <= 1024:
        raise InputError(f"REFXLA_DEVICES is {said!r}: say how many devices JAX is to see, from 1 to 1024")
    return int(said)


def _version(text: str) -> tuple[int, int, int]:
    first, second, third = (int(part) for part in text.split("."))
    return first, second, third


def _add_cpu() -> None:
    """Callbacks run on JAX's CPU: where refxla alone was asked for, that is there, too, but not the default."""
    if jax.config.jax_platforms == PLATFORM:
        jax.config.update("jax_platforms", f"{PLATFORM},cpu")
