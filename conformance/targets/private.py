"""The private names of jax and jaxlib through which XLA:CPU and StableHLO's interpreter are used.

`python -m refxla_conformance.targets.private` prints those that the installed versions lack: in a separate process,
since JAX starts threads, and a process that only wants to know may fork.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import subprocess
import sys
from functools import cache

DEVICES = 4  # into how many devices the CPU is divided
OLDEST = "0.10"  # release of jaxlib; older ones have the names elsewhere
NAMES = (  # module:attributes
    "jaxlib._hlo:hlo_module_from_text",
    "jaxlib._hlo:HloModule.from_serialized_hlo_module_proto",
    "jaxlib._hlo:XlaComputation",
    "jax._src.lib:_jax.mlir.hlo_to_stablehlo",
    "jax._src.lib:_jax.CompileOptions",
    "jax._src.lib:_jax.DeviceAssignment.create",
    "jax._src.lib:_jax.DeviceList",
    "jax._src.interpreters.mlir:make_ir_context",
    "jaxlib.lapack:_lapack.initialize",
    "jaxlib.mlir.dialects.stablehlo:eval_module",
)


def environment(more: str = "") -> dict[str, str]:
    """The environment of a child with JAX, with `more` flags of XLA; roundings of f16 and bf16 are kept."""
    flags = f"{more} --xla_allow_excess_precision=false --xla_force_host_platform_device_count={DEVICES}"
    return {
        "JAX_PLATFORMS": "cpu",
        "JAX_ENABLE_X64": "1",
        "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} {flags}".strip(),
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }


def version() -> str:
    """The installed version of jaxlib, or "none"."""
    try:
        return importlib.metadata.version("jaxlib")
    except importlib.metadata.PackageNotFoundError:
        return "none"


@cache
def missing() -> str:
    """Why XLA:CPU and StableHLO's interpreter cannot be reached; "" if they can."""
    release = version()
    if release == "none":
        return "XLA:CPU and StableHLO's interpreter are in jaxlib, which is not installed: pip install 'refxla[jax]'"
    if _number(release) < _number(OLDEST):
        return f"jaxlib {release} is older than {OLDEST}, the first in which XLA:CPU is looked for"
    paths = os.pathsep.join(p or os.getcwd() for p in sys.path)
    environment = {**os.environ, "PYTHONPATH": paths, "JAX_PLATFORMS": "cpu"}
    process = subprocess.run([sys.executable, "-m", __name__], env=environment, capture_output=True, text=True)
    if process.returncode:
        return f"jaxlib {release} cannot be loaded: {process.stderr.strip()[-300:]}"
    lacking = process.stdout.split()
    return f"jaxlib {release} lacks {', '.join(lacking)}, through which XLA:CPU is asked here" if lacking else ""


def _number(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".")[:2])


def _is_there(name: str) -> bool:
    module, _, path = name.partition(":")
    try:
        value = importlib.import_module(module)
        for part in path.split("."):
            value = getattr(value, part)
    except (ImportError, AttributeError):
        return False
    return True


if __name__ == "__main__":
    print(*(name for name in NAMES if not _is_there(name)))
