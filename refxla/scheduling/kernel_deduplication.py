"""Kernel deduplication: the kernels of a fusion serve every fusion that is equal to it.

The layers of a program repeat, and so do their fusions, apart from the names of the instructions. Emitting the kernels
of a fusion takes a hundred times as long as finding that an equal fusion has been emitted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from refxla_spec.module import Computation, Instruction

from ..analysis.index_maps import STARTED
from ..analysis.index_values import is_followed
from ..ir.partial_sorts import first_of
from ..ir.plan import Argument, Fusion, Kernel
from ..passes.cse import attribute_key, key_of

Emit = Callable[[Fusion], tuple[Kernel, ...]]


class KernelDeduplicator:
    """An emitter that calls another one for each fusion that is not equal to an earlier one. It serves one compilation,
    during which the instructions do not change."""

    def __init__(self, emit: Emit) -> None:
        self.emit = emit
        self._emitted: dict[Any, tuple[Fusion, tuple[Kernel, ...]]] = {}
        self._computations: dict[Computation, Any] = {}

    def __call__(self, fusion: Fusion) -> tuple[Kernel, ...]:
        """The kernels of a fusion, in terms of its own instructions and under its own name."""
        key = self._key(fusion)
        if key is None:
            return self.emit(fusion)
        if key not in self._emitted:
            self._emitted[key] = fusion, self.emit(fusion)
            return self._emitted[key][1]
        first, kernels = self._emitted[key]
        return _KernelRenaming(first, fusion).kernels(kernels)

    def _key(self, fusion: Fusion) -> Any:
        """A key that is equal for fusions that differ in names alone; None for a fusion that must be emitted, since its
        kernels may depend on the values of its inputs."""
        if any(i.opcode == "constant" for i in fusion.inputs):
            return None
        number = {i: n for n, i in enumerate((*fusion.inputs, *fusion.instructions))}
        if any(o not in number for i in fusion.instructions for o in i.operands):
            return None
        members = []
        for i in fusion.instructions:
            for called in i.called:
                self._computations.setdefault(called, key_of(called))
            attributes = tuple(sorted((k, attribute_key(v, self._computations)) for k, v in i.attributes.items()))
            operands = tuple(number[o] for o in i.operands)
            members.append((i.opcode, i.shape.without_layout(), operands, attributes, first_of(i)))
        places = (fusion.outputs, fusion.loop_invariant, () if fusion.hero is None else (fusion.hero,))
        inputs = tuple(i.shape.without_layout() for i in fusion.inputs)
        numbers = tuple(tuple(number[i] for i in p) for p in places)
        # The values of start indices may be known from how an input is computed: only the same input is equal to it.
        has_starts = any(i.opcode in STARTED for i in fusion.instructions)
        starts = tuple(i if has_starts and is_followed(i) else None for i in fusion.inputs)
        return fusion.kind, fusion.trip_count, fusion.in_loop, inputs, starts, tuple(members), numbers


class _KernelRenaming:
    """The kernels of one fusion as those of another that is equal to it."""

    def __init__(self, first: Fusion, other: Fusion) -> None:
        self.first, self.other = first, other
        pairs = zip((*first.inputs, *first.instructions), (*other.inputs, *other.instructions), strict=True)
        self.instructions: dict[Instruction | None, Instruction | None] = {None: None, **dict(pairs)}

    def kernels(self, kernels: tuple[Kernel, ...]) -> tuple[Kernel, ...]:
        return tuple(
            replace(
                k,
                name=self._name(k.name),
                fusion=self.other.name,
                arguments=tuple(map(self._argument, k.arguments)),
            )
            for k in kernels
        )

    def _argument(self, a: Argument) -> Argument:
        # The emitter's own constants depend on nothing but what is equal.
        instruction, updates = self.instructions.get(a.instruction, a.instruction), self.instructions[a.updates]
        return replace(a, instruction=instruction, scratch=self._name(a.scratch), updates=updates)

    def _name(self, name: str) -> str:
        return self.other.name + name.removeprefix(self.first.name) if name.startswith(self.first.name) else name
