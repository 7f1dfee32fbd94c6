"""A fusion around reduces of several levels as several fusions: one for each level, one for the outputs that depend on
them.

The results of a level's reduces are in scratch memory, where the next ones read them. All outputs are written by the
last fusions, so that an output may be in the memory of an input.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from refxla_spec.module import Instruction

from ...ir.plan import Argument, Fusion, Kernel
from ..reductions.dataflow import Dataflow

Emit = Callable[[Fusion], tuple[Kernel, ...]]


def by_levels(flow: Dataflow, emit_reduces: Emit, emit_loop: Emit) -> tuple[Kernel, ...]:
    """The kernels of a fusion: those of its levels and of its outputs."""
    fusion = flow.fusion
    results: list[Instruction] = []  # what earlier fusions have computed
    kernels: list[Kernel] = []
    for number, reduces in enumerate(flow.reduces):
        values = [v for r in reduces for v in _arrays(fusion, r)]
        part = _part(fusion, f"{fusion.name}.level{number}", "reduction", values, results, reduces[0])
        kernels += emit_reduces(part)
        results += values
    for suffix, outputs in (
        (".elements", (*flow.elementwise_outputs, *flow.epilogue_outputs)),
        (".results", flow.results),
    ):
        rest = [o for o in outputs if o not in results]
        if rest:
            kernels += emit_loop(_part(fusion, fusion.name + suffix, "loop", rest, results))
    return tuple(replace(k, arguments=tuple(_argument(fusion, results, a) for a in k.arguments)) for k in kernels)


def _arrays(fusion: Fusion, reduce: Instruction) -> list[Instruction]:
    """The results of a reduce that are used."""
    if reduce.shape.is_array:
        return [reduce]
    return [i for i in fusion.instructions if i.opcode == "get-tuple-element" and i.operands[0] is reduce]


def _part(
    fusion: Fusion, name: str, kind: str, outputs: Sequence[Instruction], results: Sequence[Instruction],
    hero: Instruction | None = None,
) -> Fusion:  # fmt: skip
    """The fusion that computes these members, given the values of others."""
    inputs = (*fusion.inputs, *results)
    needed, waiting = set(inputs), list(outputs)
    while waiting:
        i = waiting.pop()
        if i not in needed:
            needed.add(i)
            waiting += i.operands
    members = tuple(i for i in fusion.instructions if i in needed and i not in inputs)
    return Fusion(name, kind, members, inputs, tuple(outputs), hero)


def _argument(fusion: Fusion, results: Iterable[Instruction], a: Argument) -> Argument:
    """The argument of a part as one of the whole fusion: values that pass from part to part are in scratch memory, or
    are outputs."""
    i = a.instruction
    if i is None or i not in results:
        return a
    if i in fusion.outputs:
        return replace(a, role="output")
    return Argument("scratch", a.ctype, bytes=i.shape.bytes, scratch=f"{fusion.name}.{i.name}")
