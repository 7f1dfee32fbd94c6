"""The platform "refxla" in JAX: its devices, its compiler, and the registrations that JAX has for its own platforms."""

from __future__ import annotations

import gc
import os
import re
import threading
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import jax
from jax._src import compilation_cache, compiler, distributed, lib, xla_bridge
from jax._src.interpreters import mlir, pxla
from jaxlib import _jax
from jaxlib.mlir.dialects import stablehlo
from refxla_spec.errors import InputError

from .._core import pjrt, pjrt_client, pjrt_executable
from ..compiler.compilation_cache import build
from ..frontends import jax_lowerings
from ..frontends.jax_lowerings import PLATFORM
from ..ir.library_calls import LINEAR_ALGEBRA
from ..runtime import disk_cache
from ..version import RELEASE
from . import compile_service, foreign_functions, interoperability

_PRIORITY = -100  # below JAX's own CPU: refxla runs only what asks for it (JAX_PLATFORMS, jax.devices("refxla"))
_COUNTS = range(1, 1025)  # valid numbers of devices
_XLA_DEVICE_COUNT = re.compile(r"--xla_force_host_platform_device_count=(\d+)(?!\S)")

_uses_cache = compilation_cache.is_cache_used
_cost_analysis_of_jax = pxla.MeshComputation.cost_analysis
_lock = threading.Lock()
_registered = False


def register() -> None:
    """Registers the platform; a second call does nothing. If REFXLA_DEVICES is invalid, the registered platform cannot
    be used, and JAX reports the reason to whoever asks for it."""
    global _registered
    with _lock:
        if _registered:
            return
        _registered = True
        try:
            count = device_count()
        except InputError as problem:
            _refuse(problem)
            return
        pjrt_client.configure(count, _platform_version())
        pjrt_executable.set_compiler(compile_service.compile_program, compile_service.load_program)
        if PLATFORM not in mlir._platforms_with_donation:
            mlir._platforms_with_donation.append(PLATFORM)
        _add_cpu()
        jax_lowerings.register()
        compiler.register_xla_runtime_error_handler(_interruption)
        interoperability.register()
        foreign_functions.record()
        _keep_interrupts_of_collections()
        setattr(pxla.MeshComputation, "cost_analysis", _cost_analysis)  # noqa: B010
        compilation_cache.is_cache_used = _is_cache_used
        table = pjrt.interface({"current": _version(stablehlo.get_current_version())})
        xla_bridge.register_plugin(PLATFORM, priority=_PRIORITY, c_api=table)
        registration = xla_bridge._backend_factories[PLATFORM]
        xla_bridge._backend_factories[PLATFORM] = replace(
            registration, factory=lambda: _client(registration.factory), fail_quietly=not _is_explicit()
        )


def _client(factory: Callable[[], Any]) -> Any:
    """JAX's client of the platform. Raises InputError in one of several processes that jax.distributed connects:
    refxla's devices are those of a single process, and each would compute by itself."""
    processes = distributed.global_state.num_processes or 1
    if processes > 1:
        raise InputError(
            f"refxla runs in a single process, and jax.distributed connects {processes}: use JAX_PLATFORMS=cpu, or one "
            "process with REFXLA_DEVICES devices"
        )
    client = factory()
    foreign_functions.register()
    return client


def _platform_version() -> str:
    """What JAX reports as the platform's version. It is part of the keys of JAX's compilation cache, so it changes with
    all that decides what a program is compiled to, except the program, its options and the device."""
    return f"refxla {RELEASE}, {disk_cache.key(build(), os.environ.get(LINEAR_ALGEBRA, ''))[:16]}"


def _is_cache_used(backend: Any) -> bool:
    """Whether JAX keeps executables of a backend in its compilation cache, which it has for a list of platforms: ours
    are kept like those of a CPU. Without a cache, JAX would still compute a key for each program, in a tenth of the
    time of an operation outside of jit."""
    if backend.platform != PLATFORM:
        return bool(_uses_cache(backend))
    if compilation_cache._cache is None and not jax.config.jax_compilation_cache_dir:
        return False
    return bool(_uses_cache(SimpleNamespace(platform="cpu")))


def _cost_analysis(computation: Any) -> Any:
    """The cost of a program that is lowered and not compiled: XLA's count for it, as JAX reports it on a CPU. JAX does
    not ask plugins."""
    platform = computation.compile_args["backend"].platform
    if platform != PLATFORM:
        return _cost_analysis_of_jax(computation)
    return _jax.hlo_module_cost_analysis(xla_bridge.get_backend("cpu"), computation.hlo().as_hlo_module())


def _interruption(problem: Exception) -> BaseException | None:
    """The exception that JAX raises instead of a compilation error: Control-C and other exceptions of signal handlers
    have passed through the plugin's interface as one."""
    text = str(problem)
    if text.startswith(f"CANCELLED: {compile_service.Interruption.__name__}"):
        return compile_service.interruption()
    return KeyboardInterrupt() if text.startswith("CANCELLED: KeyboardInterrupt") else None


def _keep_interrupts_of_collections() -> None:
    """Makes Control-C during a garbage collection an exception of the program. JAX has Python call a function with each
    collection, of which there are many while it traces; an exception in that function is reported, and the program
    goes on."""
    python = getattr(lib, "_xla_gc_callback", None)
    if python in gc.callbacks:
        gc.callbacks[gc.callbacks.index(python)] = pjrt_client.GarbageCallback(_jax.collect_garbage)


def _refuse(problem: InputError) -> None:
    """Makes JAX report why the platform cannot be used: an error if it was requested, otherwise a warning. (If a plugin
    raises an exception, JAX logs it with its traceback, and then has no such platform.)"""
    text = str(problem)

    def refused() -> Any:
        raise InputError(text)

    xla_bridge.register_backend_factory(PLATFORM, refused, priority=_PRIORITY, fail_quietly=not _is_explicit())


def _is_explicit() -> bool:
    """Whether the program requests this platform, and does not only find it installed."""
    return PLATFORM in (jax.config.jax_platforms or "").split(",")


def device_count() -> int:
    """The number of devices: REFXLA_DEVICES, or the number that the program requests of JAX's CPU (its option
    jax_num_cpu_devices, or XLA's flag), or 1. Raises InputError."""
    value = os.environ.get("REFXLA_DEVICES")
    if not value:
        return _cpu_devices_asked_for()
    if not value.isdecimal() or int(value) not in _COUNTS:
        raise InputError(
            f"REFXLA_DEVICES is {value!r}: say how many devices JAX is to see, from {_COUNTS[0]} to {_COUNTS[-1]}"
        )
    return int(value)


def _cpu_devices_asked_for() -> int:
    """The number of devices into which the program has JAX divide its CPU, as programs for several devices do to run on
    one; 1 if it does not. An invalid count is left to JAX's CPU to report."""
    count = jax.config.jax_num_cpu_devices
    if count < 0:  # the option is not set
        counts = _XLA_DEVICE_COUNT.findall(os.environ.get("XLA_FLAGS", ""))
        count = int(counts[-1]) if counts else 1  # XLA uses the last one if a flag is given twice
    return count if count in _COUNTS else 1


def _version(text: str) -> tuple[int, int, int]:
    first, second, third = (int(part) for part in text.split("."))
    return first, second, third


def _add_cpu() -> None:
    """Callbacks run on JAX's CPU: if only refxla was requested, the CPU is there, too, but not as the default."""
    if jax.config.jax_platforms == PLATFORM:
        jax.config.update("jax_platforms", f"{PLATFORM},cpu")
