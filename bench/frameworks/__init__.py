"""The frameworks on which the suite runs, each loaded on first use."""

from __future__ import annotations

import importlib
import os
from typing import NamedTuple

from .base import Framework


class Source(NamedTuple):
    """Where a framework's class is, and what pip installs for it; whether it caches compiled programs on disk."""

    module: str
    maker: str
    packages: str
    keeps: bool = False


FRAMEWORKS = {
    "refxla": Source("jax", "Refxla", "jax", keeps=True),
    "refxla-unfused": Source("jax", "RefxlaUnfused", "jax", keeps=True),
    "refxla-intel": Source("jax", "RefxlaIntel", "jax intel-opencl-rt intel-cmplr-lib-rt", keeps=True),
    "jax": Source("jax", "Jax", "jax", keeps=True),
    "numpy": Source("numpy", "Numpy", "numpy"),
    "tensorflow": Source("tensorflow", "TensorFlow", "tensorflow-cpu"),
    "tensorflow-xla": Source("tensorflow", "TensorFlowXla", "tensorflow-cpu"),
    "torch": Source("torch", "Torch", "torch"),
    "torch-compile": Source("torch", "TorchCompile", "torch", keeps=True),
    "onnxruntime": Source("onnx", "OnnxRuntime", "onnxruntime onnx"),
    "tinygrad": Source("tinygrad", "Tinygrad", "tinygrad"),
}

# Where they cache, if these variables name a folder.
CACHES = ("REFXLA_CACHE_DIR", "XDG_CACHE_HOME", "TORCHINDUCTOR_CACHE_DIR", "JAX_COMPILATION_CACHE_DIR")

# What JAX caches: by default nothing that was compiled in less than a second.
KEEP_ALL = {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0", "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1"}

# How many threads libraries start: they read it when they are loaded.
THREADS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "POCL_MAX_PTHREAD_COUNT",
    "TF_NUM_INTRAOP_THREADS",
)


def limit_threads(count: int) -> None:
    """Limits this process, and those it starts, to so many cores; call it before any framework is loaded."""
    for name in THREADS:
        os.environ[name] = str(count)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])


def load(name: str) -> Framework:
    """The framework of a name; ImportError says what is not installed, or does not load."""
    source = FRAMEWORKS[name]
    try:
        maker: type[Framework] = getattr(importlib.import_module(f".{source.module}", __package__), source.maker)
        return maker()
    except (ImportError, OSError) as problem:
        raise ImportError(f"{problem} (pip install {source.packages})") from problem
