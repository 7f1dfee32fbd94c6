"""Lowers a program to one device: replaces each collective by what one device computes, and the halves of asynchronous
operations by the synchronous operation. Refuses programs that need other devices, or the host while they run."""

from __future__ import annotations

from refxla_spec.devices import device_counts, misfit
from refxla_spec.errors import UnsupportedError
from refxla_spec.groups import devices_text
from refxla_spec.module import Computation, Instruction, Module

from ..ir.builder import Build
from . import collective_lowering, expanders
from .collective_lowering import contexts
from .dce import called_first, sort

_HOST = frozenset("infeed outfeed send send-done recv recv-done".split())
ADVICE = (
    "run it on the reference, which has as many devices as it is written for: `refxla run FILE --device reference` "
    "(with --replicas or --partitions where its header does not count them), or refxla_spec.devices.run_devices"
)


def run(module: Module) -> int:
    """Replaces asynchronous operations by calls, and collectives by what one device computes. Returns the number of
    both.

    Raises UnsupportedError for a program for several devices and for transfers to or from a host or another device.
    """
    replicas, partitions = device_counts(module)
    if replicas * partitions > 1:
        raise UnsupportedError(
            f"{module.name} is a program for {devices_text(replicas, partitions)}, and compiled code runs on one; "
            f"write it for one device, or {ADVICE}"
        )
    for i in module.instructions():
        if i.opcode in _HOST:
            raise UnsupportedError(
                f"{i.name}: {i.opcode} is not compiled: a compiled program takes its arguments and gives its results, "
                "and nothing in between; make a parameter or a result of it, or run the program on the reference "
                "(`refxla run FILE --device reference --infeed NPZ`; refxla_spec.interpreter.run with host=Host(...))"
            )
    problem = misfit(module, 1, 1)
    if problem is not None:
        raise UnsupportedError(f"{problem}, and compiled code runs on one; write it for one device, or {ADVICE}")
    module.computations = called_first(module.entry)
    return sum(_call_at_once(c) for c in module.computations) + expanders.run(module, collective_lowering.EXPANSIONS)


def _call_at_once(computation: Computation) -> int:
    """Replaces async-start by a call and the tuple of its result, async-update and async-done by the values that they
    pass on."""
    replaced: dict[Instruction, Instruction] = {}
    count = 0
    for i in computation.instructions:
        operands = [replaced.get(o, o) for o in i.operands]
        b = Build(i.name)
        if i.opcode == "async-start":
            result = b.make("call", *operands, to_apply=i.calls)
            result.metadata = i.metadata
            replaced[i] = b.tuple(b.make("tuple", *operands), result, *contexts(i, 2))
            count += 1
        elif i.opcode == "async-update":
            replaced[i] = operands[0]
        elif i.opcode == "async-done":
            replaced[i] = b.make("get-tuple-element", operands[0], index=1)
    if replaced:
        computation.replace(replaced)
        sort(computation)
    return count
