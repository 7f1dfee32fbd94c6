"""Whether the compiler's own time grows linearly with the size of a program."""

from __future__ import annotations

import time
from collections.abc import Callable

from refxla_spec.module import Module

from refxla.compiler.planning import plan_module
from refxla.device.description import DEFAULT_CPU

from .generate import Sample
from .sizes import generate_sized

TIME = "time"  # the check
PART = 0.25  # of its size, of the program that it is compared with
LEAST = 0.25  # seconds of a program whose time is looked at: shorter ones prove nothing
TOLERATED = 2.0  # times the time for an instruction of the smaller program
ATTEMPTS = 3  # of which the fastest counts: the machine does other work, too


def superlinear(sample: Sample, generate: Callable[[int, float], Sample] = generate_sized) -> str:
    """How much longer an instruction takes than in a program of the same form with a quarter of the size, if that is
    more than TOLERATED times as long; else nothing. Without OpenCL's compiler, which is another program."""
    if _seconds(sample.module) < LEAST:
        return ""
    small = generate(sample.seed, PART).module
    times = [min(_seconds(module) for _ in range(ATTEMPTS)) for module in (small, sample.module)]
    counts = [len(list(module.instructions())) for module in (small, sample.module)]
    if times[1] < TOLERATED * times[0] / counts[0] * counts[1]:
        return ""
    return f"{counts[0]} instructions compile in {times[0]:.2f} s, {counts[1]} in {times[1]:.2f} s"


def _seconds(module: Module) -> float:
    """Processor time from the module to OpenCL C."""
    before = time.process_time()
    plan_module(module, DEFAULT_CPU)
    return time.process_time() - before
