"""Turns a program for several devices into one for a single device, which computes what all of them do.

A partitioned program describes a computation on global values. Its parameters and results are cut into tiles, one for
each device, as their shardings say. Only within manual regions (JAX's shard_map) does each device have a value of its
own. So global values are computed once, and per-device values once for each device; a collective becomes what it does
to these. A region within another one divides each device's value. Unreduced values are computed as the sums that they
stand for, and divided into summands of which all but one are zeros. Parameters and results of the new program are those
of all devices, one device after another.

This does not make use of several machines or GPUs. It lets one device stand for many, as XLA's host platform does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from refxla_spec.custom_calls import TARGETS as MEANINGS
from refxla_spec.custom_calls import identity
from refxla_spec.custom_calls.sharded import WHOLE, check_summed, tiling
from refxla_spec.errors import UnsupportedError
from refxla_spec.module import Computation, Instruction, Module
from refxla_spec.names import make_unique
from refxla_spec.types import U32

from ...ir.builder import Build
from ..dce import called_first
from .collectives import COLLECTIVES
from .control_flow import ControlFlow
from .one_device_builder import OneDeviceBuilder, PerDevice, Value
from .result_shardings import result_shardings
from .tiles import TO_TILES, TO_WHOLE, joined_tiles, tile_of, to_tiles, to_whole

__all__ = ["on_one_device", "result_shardings"]

REGION = "xla.sdy.manual_computation_body"  # a prefix of the names of computations that are manual regions
RESULT = "xla.sdy.FuncResultSharding"


def on_one_device(module: Module, count: int) -> Module:
    """A new module that computes on one device what `module` computes on `count` partitions.

    Raises UnsupportedError for collectives that have no equivalent on one device, and for shardings that are not
    tilings into equal parts.
    """
    return _ProgramRewriter(module, count).module()


class _ProgramRewriter:
    """Walks through the program `source`, and writes the new one with `builder`. `special` are the computations in
    which devices meet or differ."""

    def __init__(self, module: Module, count: int) -> None:
        self.source, self.count = module, count
        self.builder = OneDeviceBuilder(count)
        self.special = _callers(module, _is_special)
        self.control_flow = ControlFlow(self.builder, self.walk, _callers(module, _is_meeting))
        self.depth = 0  # of the current manual region

    def module(self) -> Module:
        """The new program."""
        entry = self.source.entry
        parameters = [self._parameter(n, p, len(entry.parameters)) for n, p in enumerate(entry.parameters)]
        root = self.walk(entry, parameters)
        shapes = entry.root.shape.elements if entry.root.shape.is_tuple else (entry.root.shape,)
        shardings = result_shardings(self.source)
        b = Build("result")
        results = []
        for d in range(self.count):
            for n, (shape, sharding) in enumerate(zip(shapes, shardings, strict=True)):
                value = self.builder.part(root, d)
                if entry.root.shape.is_tuple:
                    value = (
                        value.operands[n] if value.opcode == "tuple" else b.make("get-tuple-element", value, index=n)
                    )
                cut = WHOLE if isinstance(root, PerDevice) else tiling(sharding, shape.rank, entry.root, self.count)
                results.append(tile_of(b, value, cut, d))
        whole = self.builder.add(b.make("tuple", *results))
        computation = Computation(entry.name, list(self.builder.order), whole)
        module = Module(self.source.name, [computation], computation, {})
        module.computations = called_first(computation)
        make_unique(module)
        return module

    def _parameter(self, number: int, p: Instruction, parameters: int) -> Value:
        """The global value of a parameter, assembled from the devices' tiles."""
        cut = tiling(p.sharding, p.shape.rank, p, self.count)
        plain = p.shape.without_layout()
        counts = (1,) * plain.rank if cut is WHOLE else cut.counts
        if any(size % n for size, n in zip(plain.dimensions, counts, strict=True)):
            raise UnsupportedError(f"{p.name}: {plain} is not cut into {list(counts)} equal tiles")
        part = plain.with_dimensions(tuple(size // n for size, n in zip(plain.dimensions, counts, strict=True)))
        parts = [
            self.builder.add(Instruction(f"{p.name}.{d}", "parameter", part, [], {"number": d * parameters + number}))
            for d in range(self.count)
        ]
        return joined_tiles(self.builder, Build(p.name), parts, cut)

    def walk(self, computation: Computation, arguments: Sequence[Value]) -> Value:
        """The value of a computation, whose instructions are added to the new one."""
        values: dict[Instruction, Value] = dict(zip(computation.parameters, arguments, strict=True))
        for i in computation.instructions:
            if i.opcode != "parameter":
                values[i] = self.value(i, [values[o] for o in i.operands])
        return values[computation.root]

    def value(self, i: Instruction, operands: list[Value]) -> Value:
        """The value of an instruction, given those of its operands."""
        target = i.attributes.get("custom_call_target")
        if target in TO_TILES:
            return to_tiles(self.builder, i, operands, self.source)
        if target in TO_WHOLE:
            return to_whole(self.builder, i, operands, self.source, self.depth > 0)
        if target == RESULT:
            check_summed(i)
        if target in MEANINGS and MEANINGS[target] is identity:
            return operands[0]
        if i.opcode == "call":
            region = i.to_apply.name.startswith(REGION)
            self.depth += region
            result = self.walk(i.to_apply, operands)
            self.depth -= region
            return result
        if i.opcode in ("partition-id", "replica-id"):
            numbers = range(self.count) if i.opcode == "partition-id" else [0] * self.count
            return self.builder.each(lambda d: Build(i.name).scalar(numbers[d], U32))
        if i.opcode in COLLECTIVES:
            data = [[self.builder.part(o, d) for o in operands] for d in range(self.count)]
            return self.builder.each(COLLECTIVES[i.opcode](self.builder, i, data).__getitem__)
        if i.opcode in ("while", "conditional") and any(c in self.special for c in i.called):
            return self.control_flow.write(i, operands)
        whole = [o for o in operands if isinstance(o, Instruction)]
        if len(whole) == len(operands):
            return self.builder.add(self.builder.copy(i, whole))
        return self.builder.each(lambda d: self.builder.copy(i, [self.builder.part(o, d) for o in operands]))


def _is_meeting(i: Instruction) -> bool:
    """Whether devices exchange values in it."""
    return i.opcode in COLLECTIVES or i.attributes.get("custom_call_target") in TO_TILES + TO_WHOLE


def _is_special(i: Instruction) -> bool:
    """Whether devices meet or differ in it."""
    return _is_meeting(i) or i.opcode in ("partition-id", "replica-id")


def _callers(module: Module, test: Callable[[Instruction], bool]) -> set[Computation]:
    """The computations of such instructions, and those that call one of them, callees first."""
    computations: set[Computation] = set()
    for c in called_first(module.entry):
        if any(test(i) or any(called in computations for called in i.called) for i in c.instructions):
            computations.add(c)
    return computations
