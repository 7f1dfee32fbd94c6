"""The ways to run a program that are compared, each returning the flat list of result arrays.

expected    the specification's interpreter, with the bound of the accuracy contract for every element
simulated   the compiler's plan, each fusion by the interpreter: passes, scheduler and memory planner are under test
kernels     the same plan's OpenCL on a device, many programs built as one: code generation and runtime besides
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from refxla_conformance.case_check import CHANGES_ARGUMENTS, CHANGES_RESULTS
from refxla_conformance.targets import forms
from refxla_spec import interpreter
from refxla_spec.bounds import run_with_bounds
from refxla_spec.compare import compare, same_bits
from refxla_spec.errors import UnsupportedError, plural
from refxla_spec.module import Module
from refxla_spec.numerics import type_of
from refxla_spec.types import Shape

from refxla._core.executor import Executor
from refxla.codegen.opencl_program import program
from refxla.compiler.driver import flatten, unflatten_all
from refxla.compiler.planning import plan_module
from refxla.ir.plan import Kernel, Plan
from refxla.runtime.devices import Device, choose
from refxla.runtime.discovery import pocl_directory
from refxla.runtime.opencl_compiler import compile_source
from refxla.runtime.pocl.kernels import compiled

from . import simulator, values
from .dynamic import at_bounds, at_sizes, is_dynamic
from .generate import Sample

Arrays = list[np.ndarray]


@dataclass(frozen=True)
class Expected:
    """The value of a program by the specification, and the maximum error of each element (inf: undecided)."""

    values: Arrays
    bounds: Arrays
    sample: Sample | None = None

    @property
    def elements(self) -> int:
        return sum(v.size for v in self.values)

    @property
    def undecided(self) -> int:
        """Elements that the contract does not decide: comparing them with the reference proves nothing."""
        return sum(int(np.count_nonzero(~np.isfinite(b))) for b in self.bounds)

    def difference(self, actual: Sequence[np.ndarray]) -> str:
        """The violation of the contract, or nothing."""
        if len(actual) != len(self.values):
            return f"{forms(actual)} instead of {forms(self.values)}"
        for n, (g, value, bound) in enumerate(zip(actual, self.values, self.bounds, strict=True)):
            if (g.dtype, g.shape) != (value.dtype, value.shape):
                return f"result {n} is {Shape.of(g)} instead of {Shape.of(value)}"
            (c,) = compare(g, value, bound)
            if c.outside and n not in self._by_signs:
                return (
                    f"result {n}: {c.outside} of {value.size} elements break the contract, at {list(c.at)} {c.got} "
                    f"instead of {c.expected}, which may be off by {c.bound:.3g}"
                )
        return ""

    @cached_property
    def _by_signs(self) -> set[int]:
        """The results that depend on the sign of a NaN, such as a sort in total order: no rule defines the sign of an
        operation's NaN."""
        from .steps import needed, sees_sign, steps

        if self.sample is None:
            return set()
        depends = [needed(self.sample.module, n) for n in range(len(self.values))]
        seeing = {step.entry for step in steps(self.sample) if sees_sign(step)}
        return {n for n, instructions in enumerate(depends) if instructions & seeing}


def nested(module: Module, arguments: Sequence[np.ndarray]) -> list[Any]:
    """Flat arguments as one value for each parameter."""
    return unflatten_all(list(arguments), [p.shape for p in module.entry.parameters])


def other_arguments(sample: Sample) -> Arrays:
    """Other arguments of the same types and dimensions, always the same ones; for every other program their first
    elements are those of its own arguments, so that these do not distinguish them. Its own arguments if a loop would
    not end with others."""
    r = random.Random(f"other {sample.seed}")
    others = [values.array(r, type_of(a), a.shape) for a in sample.arguments]
    if sample.seed % 2:
        for other, own in zip(others, sample.arguments, strict=True):
            if own.size > 1:
                other.reshape(-1)[0] = own.reshape(-1)[0]
    return others if _ends(replace(sample, arguments=tuple(others))) else list(sample.arguments)


def _ends(sample: Sample) -> bool:
    """Whether the loops of a program end."""
    if not any(i.opcode == "while" for i in sample.module.instructions()):
        return True
    try:
        simulated(sample)
    except simulator.EndlessLoop:
        return False
    except UnsupportedError:  # nothing is called then
        return True
    return True


def expected(sample: Sample) -> Expected:
    """By the reference, with bounds."""
    value, bounds = run_with_bounds(sample.module, nested(sample.module, sample.arguments))
    return Expected(flatten([value]), flatten([bounds]), sample)


def interpreted(module: Module, sample: Sample) -> Arrays:
    """By the interpreter alone: the sample's module after some passes, on its arguments."""
    changed = is_dynamic(sample.module) and not is_dynamic(module)  # made static
    arguments = at_bounds(sample) if changed else sample.arguments
    with np.errstate(all="ignore"):
        results = flatten([interpreter.run(module, nested(module, arguments))])
    return at_sizes(sample.module, results) if changed else results


def simulated(sample: Sample, without: Collection[str] = ()) -> Arrays:
    """By the simulated plan. Raises UnsupportedError as the compiler does, AssertionError for an impossible plan."""
    return _at_sizes(sample, simulator.run(sample.module, _at_bounds(sample), tuple(without)))


def different_bits(a: Sequence[np.ndarray], b: Sequence[np.ndarray]) -> str:
    """Where the bits of two lists of results differ (all NaNs are equal), or nothing."""
    if len(a) != len(b):
        return f"{plural(len(a), 'result')} and {len(b)}"
    for n, (x, y) in enumerate(zip(a, b, strict=True)):
        if (x.dtype, x.shape) != (y.dtype, y.shape):
            return f"result {n} is {Shape.of(x)} and {Shape.of(y)}"
        apart = ~same_bits(x, y)
        if apart.any():
            at = tuple(int(k[0]) for k in np.nonzero(apart)) if x.ndim else ()
            return f"result {n}: {np.count_nonzero(apart)} of {x.size} elements, at {list(at)} {x[at]} and {y[at]}"
    return ""


class Kernels:
    """Plans of many programs, built as one OpenCL program: a build costs 100 ms, and 4 to 10 ms for each kernel."""

    def __init__(self, device: str | None = None) -> None:
        self.device: Device = choose(device)[0]
        self.raw = self.device.small or self.device.raw

    def plan(self, sample: Sample, without: Collection[str] = ()) -> Plan:
        """The plan for this device, with its kernels' source. Raises UnsupportedError."""
        return plan_module(sample.module, self.device.target, tuple(without))[1].plan

    def executables(self, plans: Sequence[Plan]) -> list[Executor]:
        """The plans, ready to be called. Raises DeviceError if the OpenCL compiler rejects their source."""
        functions, entries = self.build([k for plan in plans for k in plan.kernels])
        executors = []
        local = 0 if self.device.kind == "gpu" else 1
        at = 0
        for plan in plans:
            mine = entries[at : at + len(plan.kernels)]
            at += len(plan.kernels)
            queue = self.device.queue(self.raw)
            executors.append(Executor(plan, queue, self.device.context, self.device.access, local))
            executors[-1].assemble(mine, functions)
        return executors

    def build(self, kernels: Sequence[Kernel]) -> tuple[dict[str, Any], tuple[tuple[str, int], ...]]:
        """All kernels in one built program, under their functions' names, and where each is; nothing is cached on
        disk."""
        if not kernels:
            return {}, ()
        source = program(kernels, self.device.target)
        directory = pocl_directory()
        before = _programs(directory)
        (part,) = source.parts
        if self.device.platform == "Portable Computing Language":
            binary = compiled(self.device, self.raw, part)
        else:
            binary = compile_source(self.device.context, self.raw, part.source, self.device.build_options)
        for path in _programs(directory) - before:
            shutil.rmtree(path, ignore_errors=True)
        return dict.fromkeys(part.functions, binary), source.entries

    def run(self, sample: Sample, without: Collection[str] = ()) -> Arrays:
        """One program, built alone."""
        (executable,) = self.executables([self.plan(sample, without)])
        return call(executable, sample)


def _programs(directory: Path | None) -> set[Path]:
    """PoCL's directories of one program each."""
    return set() if directory is None else {path for path in directory.glob("??/*") if path.is_dir()}


def call(executable: Executor, sample: Sample) -> Arrays:
    """The results of a program on its arguments, which are surrounded by garbage: out-of-bounds reads show.

    Raises AssertionError for a program that writes out of bounds, or to its arguments.
    """
    arguments = _at_bounds(sample)
    buffers = [amid_garbage(a) for a in arguments]
    before = [b.tobytes() for b, _ in buffers]
    results = [np.array(r) for r in flatten([executable(*(view for _, view in buffers))])]
    for n, ((buffer, _), was) in enumerate(zip(buffers, before, strict=True)):
        assert buffer.tobytes() == was, f"argument {n}, or what lies beside it, is written"
    return _at_sizes(sample, results)


GARBAGE = 4096  # bytes of it on both sides of an argument: a page, so that arguments are aligned


def amid_garbage(array: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Memory that is full of garbage, and a copy of the array in the middle of it."""
    memory = np.full(array.nbytes + 3 * GARBAGE, 0xA5, np.uint8)
    begin = GARBAGE - memory.ctypes.data % GARBAGE + GARBAGE
    view = memory[begin : begin + array.nbytes].view(array.dtype).reshape(array.shape)
    view[...] = array
    return memory, view


def called_again(executable: Executor, sample: Sample, first: Sequence[np.ndarray]) -> str:
    """The error if a program that returned `first` is called with other arguments, and then with its own again."""
    snapshot, arguments = [r.copy() for r in first], [a.copy() for a in sample.arguments]
    call(executable, replace(sample, arguments=tuple(other_arguments(sample))))
    if different_bits(first, snapshot):
        return CHANGES_RESULTS
    again = call(executable, sample)
    return CHANGES_ARGUMENTS if different_bits(sample.arguments, arguments) else different_bits(snapshot, again)


def _at_bounds(sample: Sample) -> Arrays:
    """The arguments in the plan's form; for dynamic shapes padded, with their sizes."""
    return at_bounds(sample) if is_dynamic(sample.module) else list(sample.arguments)


def _at_sizes(sample: Sample, results: Sequence[np.ndarray]) -> Arrays:
    return at_sizes(sample.module, results) if is_dynamic(sample.module) else list(results)
