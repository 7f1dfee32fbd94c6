"""The process in which XLA runs; see xla_cpu.py."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import jax
import jaxlib._hlo as hlo
import numpy as np
from jax._src.lib import _jax
from jaxlib import lapack
from refxla_spec.errors import UnsupportedError

from .child import serve

# The custom calls of linear algebra are JAX's, which loads LAPACK for them when it traces one; an earlier call crashes.
lapack._lapack.initialize()


def run(text: str, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """The results on XLA:CPU; for several devices, inputs and results are given device by device."""
    executable = _executable(text)
    devices = executable.local_devices()
    count = len(inputs) // len(devices)
    placed = [jax.device_put(x, devices[n // count]) for n, x in enumerate(inputs)]
    if len(devices) > 1:
        placed = [_joined(placed[k::count], devices) for k in range(count)]
    try:
        results = executable.execute_sharded(placed).disassemble_into_single_device_arrays()
    except Exception as error:
        raise _said(error) from None
    return [np.asarray(result[d]) for d in range(len(devices)) for result in results]


@lru_cache(maxsize=1)
def _executable(text: str) -> Any:
    """The compiled program; the last one is kept, since a sweep requests it repeatedly."""
    return _compiled(_module(text).as_serialized_hlo_module_proto(), *_header(text))


def _joined(parts: list[Any], devices: list[Any]) -> Any:
    """One argument of a program for several devices: JAX is told that the parts are copies, and does not check."""
    mesh = jax.sharding.Mesh(np.array(devices), ("device",))
    everywhere = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    return jax.make_array_from_single_device_arrays(parts[0].shape, everywhere, parts)


def _module(text: str) -> Any:
    return hlo.hlo_module_from_text(text if "ENTRY" in text else f"HloModule m\n\nENTRY e {{\n{text}\n}}\n")


def _header(text: str) -> tuple[int, int]:
    """The replicas and partitions in the module's header."""
    header = text.lstrip().partition("\n")[0]
    matches = (re.search(rf"\b{name}=(\d+)", header) for name in ("replica_count", "num_partitions"))
    replicas, partitions = (int(match[1]) if match else 1 for match in matches)
    return replicas, partitions


def _compiled(proto: bytes, replicas: int, partitions: int) -> Any:
    if partitions > 1:
        raise UnsupportedError("XLA divides a program among partitions itself, and does not take one that is divided")
    devices = jax.devices("cpu")[: replicas * partitions]
    if len(devices) < replicas * partitions:
        raise UnsupportedError(f"{replicas * partitions} devices; the CPU is divided into {len(devices)} here")
    options = _jax.CompileOptions()
    options.num_replicas, options.num_partitions = replicas, partitions
    places = np.arange(replicas * partitions, dtype=np.int32).reshape(replicas, partitions)
    options.device_assignment = _jax.DeviceAssignment.create(places)
    options.env_option_overrides = [("xla_allow_excess_precision", "False")]
    try:
        stablehlo = _jax.mlir.hlo_to_stablehlo(proto)
    except Exception as error:
        raise UnsupportedError(
            f"JAX's wheel gives programs to XLA as StableHLO, and this one has none: {error}"
        ) from None
    try:
        return devices[0].client.compile_and_load(stablehlo, _jax.DeviceList(tuple(devices)), options)
    except Exception as error:
        raise _said(error) from None


# XLA's messages about unsupported features: operations, and custom calls without an implementation on the CPU.
_NOT_THERE = ("UNIMPLEMENTED", "found in dialect ('mhlo')", "No registered implementation")


def _said(error: Exception) -> Exception:
    """The error, or UnsupportedError if it says that XLA:CPU does not support a feature of the program."""
    return UnsupportedError(str(error)) if any(words in str(error) for words in _NOT_THERE) else error


def verify(text: str) -> None:
    """Raises whatever XLA raises."""
    _compiled(_module(text).as_serialized_hlo_module_proto(), *_header(text))


def parse(text: str) -> None:
    """Raises whatever XLA's parser raises."""
    hlo.hlo_module_from_text(text)


def _as_text(module: Any) -> str:
    text: str = hlo.XlaComputation(module.as_serialized_hlo_module_proto()).as_hlo_text(True)
    return text


if __name__ == "__main__":
    serve(
        {
            "run": run,
            "verify": verify,
            "parse": parse,
            "print": lambda text: _as_text(hlo.hlo_module_from_text(text)),
            "proto": lambda text: hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto(),
            "text": lambda proto: _as_text(hlo.HloModule.from_serialized_hlo_module_proto(proto)),
        }
    )
