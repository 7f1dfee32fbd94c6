"""One fusion's kernels, run separately on given inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from refxla_spec.module import Instruction
from refxla_spec.types import U8, Shape

from refxla.compiler.diagnostics import emit
from refxla.compiler.driver import flatten
from refxla.device.description import Target
from refxla.ir import plan as p

from .runs import Arrays


class Single:
    """A plan of one fusion: its inputs are the parameters, its outputs the results."""

    def __init__(self, fusion: p.Fusion, target: Target) -> None:
        self.fusion = fusion
        kernels = emit(fusion, target)
        self.inputs = list(fusion.inputs)
        buffers: list[p.Buffer] = []
        steps: list[p.Step] = []
        where: dict[object, int] = {}
        sizes = {p.ARENA: 0, p.WORKSPACE: 0, p.CONSTANT: 0}
        constants: list[tuple[int, np.ndarray]] = []

        def buffer(key: object, name: str, shape: Shape, space: str, bytes: int, index: int = 0) -> int:
            if key not in where:
                offset = 0
                if space in sizes:
                    offset = sizes[space]
                    sizes[space] += (bytes + 63) // 64 * 64
                where[key] = len(buffers)
                buffers.append(p.Buffer(name, shape, bytes, space, index, offset))
            return where[key]

        for n, i in enumerate(self.inputs):
            buffer(("in", i), i.name, i.shape, p.PARAMETER, i.shape.bytes, n)
        for n, i in enumerate(fusion.outputs):
            buffer(("out", i), i.name, i.shape, p.RESULT, i.shape.bytes, n)
        for k, kernel in enumerate(kernels):
            for a in kernel.arguments:
                if a.updates is not None:
                    steps.append(p.Copy(where["in", a.updates], where["out", a.instruction]))
            numbers = []
            for n, a in enumerate(kernel.arguments):
                if a.role == "scratch":
                    numbers.append(buffer(("s", a.scratch), a.scratch, Shape.array(U8, (a.bytes,)), p.ARENA, a.bytes))
                elif a.role == "workspace":
                    numbers.append(buffer(("w", k, n), "workspace", Shape.array(U8, (a.bytes,)), p.WORKSPACE, a.bytes))
                elif a.role == "input" and (own := a.instruction) and ("in", own) not in where:
                    constants.append((sizes[p.CONSTANT], own.literal))  # the emitter has created it from constants
                    numbers.append(buffer(("in", own), own.name, own.shape, p.CONSTANT, own.shape.bytes))
                else:
                    numbers.append(where["out" if a.role == "output" else "in", a.instruction])
            steps.append(p.Launch(k, tuple(numbers)))
        self.plan = p.Plan(
            fusion.name, kernels, tuple(buffers), tuple(steps), tuple(i.shape for i in self.inputs),
            tuple(o.shape for o in fusion.outputs), tuple(constants),
            sizes[p.CONSTANT], sizes[p.ARENA], sizes[p.WORKSPACE],
        )  # fmt: skip

    def __call__(self, executor: Callable[..., Any], inputs: Mapping[Instruction, np.ndarray]) -> Arrays:
        """The outputs for these inputs, by the plan's executor."""
        return flatten([executor(*(np.asarray(inputs[i], order="C") for i in self.inputs))])
