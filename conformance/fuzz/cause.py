"""Determines which pass or kernel causes a divergence.

The parts of the pipeline are tested in order, and the first faulty one is named:

    pass NAME       the module after it, interpreted, does not give what the module before it gave: the same bits
                    after an optional pass, the contract's bounds after one that expands
    fusion          the simulated plan is wrong, and right with one kernel for each instruction
    planner         the simulated plan is wrong even so: memory, aliases, loops
    kernel NAME     the kernel's outputs, on the inputs that it has in this program, are not the interpreter's
    runtime         every part is right by itself, and the whole is not
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from refxla_spec.bounds import Bounds, filled
from refxla_spec.errors import UnsupportedError, is_refusal
from refxla_spec.interpreter import Interpreter
from refxla_spec.module import Instruction
from refxla_spec.types import Value

from refxla._core.executor import Executor
from refxla.compiler.planning import plan_module
from refxla.ir import plan as p
from refxla.passes.pipeline import FUSION, OPTIONAL, PASSES, optimize

from .differ import VARIANTS
from .generate import Sample
from .runs import Expected, Kernels, different_bits, expected, interpreted, nested, simulated
from .single import Single

ITERATIONS = 3  # executions of a computation whose kernels are tested


@dataclass(frozen=True)
class Cause:
    """`kind` is "pass", "fusion", "planner", "kernel", "runtime" or "reference"; `name` says which one; `what`
    describes the symptom."""

    kind: str
    name: str = ""
    what: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.name}".strip() + (f": {self.what}" if self.what else "")


def cause(sample: Sample, kernels: Callable[[], Kernels] | None = None) -> Cause | None:
    """The first faulty part; None if there is none. Without `kernels`, no kernel is tested."""
    try:
        reference = expected(sample)
    except Exception as error:
        return Cause("reference", "", _message(error))
    culprit = _of_passes(sample, reference) or _of_plan(sample)
    if culprit is not None or kernels is None:
        return culprit
    for without in ((), *VARIANTS):
        culprit = _of_kernels(sample, kernels(), without)
        if culprit is not None:
            return culprit
    return None


def _tried(action: Callable[[], str]) -> str:
    """The difference, or the exception, as text."""
    try:
        with np.errstate(all="ignore"):
            return action()
    except Exception as error:
        return "" if is_refusal(error) else _message(error)


def _message(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _of_passes(sample: Sample, reference: Expected) -> Cause | None:
    before = reference.values
    for name, _ in PASSES:
        results: list[list[np.ndarray]] = []

        def behind(name: str = name, results: list[list[np.ndarray]] = results) -> str:
            results.append(interpreted(optimize(sample.module, after=name), sample))
            return reference.difference(results[0])

        what = _tried(behind)
        if not what and results and name in OPTIONAL:
            what = different_bits(before, results[0])
        if what:
            return Cause("pass", name, what)
        before = results[0] if results else before
    return None


def _unlike_the_plan(values: list[np.ndarray], sample: Sample, without: tuple[str, ...]) -> str:
    """How the plan without some passes differs from these results."""
    return different_bits(values, simulated(sample, without))


def _of_plan(sample: Sample) -> Cause | None:
    """The plan, and that of each variant, compared with the module that was planned."""
    for without in ((), *VARIANTS):
        passes = tuple(name for name in without if name != FUSION)
        try:
            with np.errstate(all="ignore"):
                values = interpreted(optimize(sample.module, passes), sample)
        except UnsupportedError as error:
            return None if is_refusal(error) else Cause("pass", "", _message(error))
        what = _tried(partial(_unlike_the_plan, values, sample, without))
        if what:
            apart = _tried(partial(_unlike_the_plan, values, sample, (*passes, FUSION)))
            return Cause("planner", "", what) if apart else Cause("fusion", "", what)
    return None


def _of_kernels(sample: Sample, kernels: Kernels, without: tuple[str, ...]) -> Cause | None:
    """The first kernel whose outputs differ from those of its instructions."""
    try:
        optimized, planned = plan_module(sample.module, kernels.device.target, without)
    except UnsupportedError as error:
        return None if is_refusal(error) else Cause("planner", "", _message(error))
    values: dict[Instruction, list[Value]] = {}
    with np.errstate(all="ignore"):
        Interpreter(lambda i, v: values.setdefault(i, []).append(v)).run(
            optimized.entry, *nested(optimized, sample.arguments)
        )
    singles = [Single(fusion, kernels.device.target) for fusion in planned.plan.fusions]
    executors = kernels.executables([single.plan for single in singles])
    for single, executor in zip(singles, executors, strict=True):
        fusion = single.fusion
        for inputs in _executions(fusion, values):
            what = _tried(partial(_kernel_difference, single, executor, inputs))
            if what:
                parts = ", ".join(i.opcode for i in fusion.instructions if i.opcode not in ("constant", "tuple"))
                return Cause("kernel", f"{fusion.kind} of {parts}", f"{fusion.name}: {what}")
    whole = _tried(lambda: expected(sample).difference(kernels.run(sample, without)))
    return Cause("runtime", "", whole) if whole else None


def _executions(fusion: p.Fusion, values: dict[Instruction, list[Value]]) -> Iterator[dict[Instruction, Value]]:
    """A fusion's inputs, each time that its computation runs."""
    if any(i not in values for i in fusion.inputs):
        return  # in a branch that is not taken
    count = min([len(values[i]) for i in fusion.inputs] or [1])
    for turn in range(min(count, ITERATIONS)):
        yield {i: values[i][turn] for i in fusion.inputs}


def _kernel_difference(single: Single, executor: Executor, inputs: dict[Instruction, Value]) -> str:
    machine, fusion = Bounds(), single.fusion
    results = {i: (v, None) for i, v in inputs.items()}
    for i in fusion.instructions:
        operands = [results[o] for o in i.operands]
        results[i] = machine.step(i, [v for v, _ in operands], [e for _, e in operands])
    reference = Expected([results[o][0] for o in fusion.outputs], [filled(*results[o]) for o in fusion.outputs])
    return reference.difference(single(executor, inputs))
