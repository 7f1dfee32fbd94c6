"""Threads of PyTorch that wait for its next operation.

After each parallel operation, the threads of PyTorch's OpenMP runtime wait for the next one in a loop, for some
milliseconds (GNU's runtime), and then sleep. A program that is called meanwhile shares its cores with them. OpenMP's
`omp_pause_resource_all` ends the waiting threads of the calling thread; the next parallel operation starts others.
"""

from __future__ import annotations

import ctypes
import os
from functools import cache
from typing import Any

import torch

RELEASE_US = 60  # to end one thread and to start another: 57 measured on an AMD EPYC
_SOFT = 1  # omp_pause_soft: what the threads have stored is kept
# With either of these, the user has decided how threads wait.
_POLICIES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")


def release_waiting_threads(gain_us: float) -> None:
    """Ends PyTorch's waiting threads, if a program that gains `gain_us` microseconds by all cores loses more by them
    than it takes to start others."""
    if gain_us > RELEASE_US * (torch.get_num_threads() - 1) and (pause := _pause()) is not None:
        pause(_SOFT)  # 0, or another number within a parallel region, which keeps its threads


@cache
def _pause() -> Any:
    """OpenMP's function; None if PyTorch has no OpenMP 5.0, or if the environment says how threads wait."""
    if any(name in os.environ for name in _POLICIES):
        return None
    return getattr(ctypes.CDLL(None), "omp_pause_resource_all", None)  # PyTorch's libraries are in the global scope
