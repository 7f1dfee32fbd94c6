"""Runs a plan on simulated memory: each fusion by the specification's interpreter, each buffer where the plan puts it.

No kernel is generated: only the scheduler and buffer assignment are tested. Memory is set up so that errors show: the
arena and the results begin as garbage, scratch memory is garbage after each launch, and memory that must not be written
is compared at the end. A launch reads the present values of its buffers, so a value that was overwritten too early, or
never written, changes the result.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from refxla_spec import interpreter
from refxla_spec.module import Alias, Instruction, Module
from refxla_spec.types import Shape

from refxla.analysis.in_place_updates import reads_where_it_writes
from refxla.ir import plan as p
from refxla.passes.pipeline import FUSION, optimize
from refxla.scheduling.scheduler import PlanningResult, make_plan
from refxla.scheduling.scheduling_options import SchedulingOptions

GARBAGE = 0xA5
SCRATCH = 64  # bytes of scratch memory that each simulated kernel requests
MAX_TURNS = 10_000  # of a loop


class EndlessLoop(AssertionError):
    """A loop exceeds MAX_TURNS iterations."""


def _check_turns(turns: int) -> None:
    if turns >= MAX_TURNS:
        raise EndlessLoop("the loop does not end")


def emit(fusion: p.Fusion) -> tuple[p.Kernel, ...]:
    """A kernel with the arguments that the real emitters would give it, and no body."""
    updates: dict[Instruction, Instruction] = {}
    hero = fusion.hero
    operands = {o for i in fusion.instructions for o in arrays(i)}
    if hero is not None and fusion.kind == "scatter":
        count = len(hero.operands) // 2
        updates = dict(zip(fusion.outputs, hero.operands[:count], strict=False)) if _whole(fusion, hero) else {}
    elif hero is not None and fusion.kind == "update":
        operand = hero.operands[0]
        if operand not in fusion.instructions and _updates_in_place(fusion, hero, operand):
            updates = {hero: operand}
    ins = [i for i in fusion.inputs if i in operands and i not in updates.values()]
    arguments = [p.Argument("input", "uchar", i) for i in ins]
    arguments += [p.Argument("output", "uchar", o, updates=updates.get(o)) for o in fusion.outputs]
    arguments += [p.Argument("scratch", "uchar", None, SCRATCH, "s"), p.Argument("workspace", "uchar", None, 4)]
    return (p.Kernel(fusion.name, "", tuple(arguments), 1),)


def _whole(fusion: p.Fusion, hero: Instruction) -> bool:
    """Whether every operand of a scatter is written by it, so that each can be updated in place."""
    return len(fusion.outputs) == len(hero.operands) // 2


def arrays(i: Instruction) -> list[Instruction]:
    """The operands of an instruction, with tuples flattened."""
    return [leaf for o in i.operands for leaf in (o.operands if o.opcode == "tuple" else (o,))]


def plan(module: Module, without: tuple[str, ...] = ()) -> PlanningResult:
    """The compiler's plan of a module, with simulated kernels."""
    return make_plan(optimize(module, without), emit, SchedulingOptions(fusion=FUSION not in without))


def with_donations(module: Module) -> Module:
    """A copy of a module with all arguments donated, each for the first result of its shape."""
    copy = module.clone()
    free = dict(enumerate(places(module.entry.root.shape)))
    aliases, donors = [], []
    for n, q in enumerate(module.entry.parameters):
        for index, shape in places(q.shape):
            place = next((k for k, (_, s) in free.items() if s.without_layout() == shape.without_layout()), None)
            if place is None:
                donors.append(f"({n}, {{{','.join(map(str, index))}}})")
            else:
                aliases.append(Alias(free.pop(place)[0], n, index))
    copy.aliases = tuple(aliases)
    copy.attributes["buffer_donor"] = "{ " + ", ".join(donors) + " }"
    return copy


def places(shape: Shape, index: tuple[int, ...] = ()) -> list[tuple[tuple[int, ...], Shape]]:
    """The arrays of a shape, each with its index."""
    if not shape.is_tuple:
        return [(index, shape)]
    return [place for n, s in enumerate(shape.elements) for place in places(s, (*index, n))]


class Simulator:
    """The memory of one call."""

    def __init__(self, plan: p.Plan, arguments: list[np.ndarray]) -> None:
        self.plan = plan
        self.arena = np.full(plan.arena_bytes, GARBAGE, np.uint8)
        self.constants = np.full(plan.constant_bytes, GARBAGE, np.uint8)
        self.workspace = np.zeros(plan.workspace_bytes, np.uint8)
        for offset, array in plan.constants:
            raw = _raw(array)
            self.constants[offset : offset + raw.size] = raw
        self.parameters = [_raw(a).copy() for a in arguments]
        within = dict(plan.aliases)
        self.results = [
            self.parameters[within[n]] if n in within else np.full(s.bytes, GARBAGE, np.uint8)
            for n, s in enumerate(plan.results)
        ]
        assert len(plan.fusions) == len(plan.kernels)  # `emit` creates one for each

    def run(self) -> tuple[np.ndarray, ...]:
        """The results of the program."""
        kept_parameters = [a for n, a in enumerate(self.parameters) if n not in self.plan.overwritten]
        before = [self.constants.copy(), *(a.copy() for a in kept_parameters)]
        self.steps(self.plan.steps)
        for original, now in zip(before, [self.constants, *kept_parameters], strict=True):
            np.testing.assert_array_equal(original, now, err_msg="a constant or parameter was written")
        assert not self.workspace.any(), "a workspace was not left zeroed"
        return tuple(_typed(r, s) for r, s in zip(self.results, self.plan.results, strict=True))

    def bytes_of(self, number: int) -> np.ndarray:
        """A view of a buffer's bytes."""
        b = self.plan.buffers[number]
        if b.space == p.PARAMETER:
            memory, offset = self.parameters[b.index], b.offset
        elif b.space == p.RESULT:
            memory, offset = self.results[b.index], b.offset
        else:
            spaces = {p.ARENA: self.arena, p.CONSTANT: self.constants, p.WORKSPACE: self.workspace}
            memory, offset = spaces[b.space], b.offset
        assert 0 <= offset and offset + b.bytes <= memory.size, f"buffer {b} lies outside its space"
        return np.asarray(memory[offset : offset + b.bytes])

    def may_write(self, number: int) -> bool:
        """Whether steps may write a buffer: not a constant, nor a parameter that is not donated."""
        b = self.plan.buffers[number]
        return b.space != p.CONSTANT and (b.space != p.PARAMETER or b.index in self.plan.overwritten)

    def steps(self, steps: tuple[p.Step, ...]) -> None:
        for step in steps:
            match step:
                case p.Launch(kernel, buffers):
                    self.launch(self.plan.kernels[kernel], self.plan.fusions[kernel], buffers)
                case p.Copy(source, target):
                    a, b = self.bytes_of(source), self.bytes_of(target)
                    assert a.size == b.size and not _partly_overlap(a, b)
                    assert self.may_write(target)
                    b[...] = a.copy()
                case p.Loop(condition, predicate, body):
                    self.steps(condition)
                    turns = 0
                    while self.bytes_of(predicate)[0]:
                        turns += 1
                        _check_turns(turns)
                        self.steps(body)
                        self.steps(condition)
                case p.Repeat(turns, body, counter, table):
                    _check_turns(turns)
                    for turn in range(turns):
                        if counter is not None and table is not None:
                            value = self.bytes_of(counter)
                            value[...] = self.bytes_of(table)[turn * value.size : (turn + 1) * value.size]
                        self.steps(body)
                case p.Branch(index, branches):
                    raw = self.bytes_of(index)
                    if raw.size == 1:
                        chosen = 0 if raw[0] else 1
                    else:
                        chosen = int(raw.view(np.int32)[0])
                        chosen = chosen if 0 <= chosen < len(branches) else len(branches) - 1
                    self.steps(branches[chosen])
                case _:
                    raise AssertionError(f"unknown step {step}")

    def launch(self, kernel: p.Kernel, fusion: p.Fusion, buffers: tuple[int, ...]) -> None:
        """Reads the inputs, computes the fusion, writes the outputs."""
        values: dict[Instruction, Any] = {}
        places: dict[Instruction, np.ndarray] = {}
        written: list[tuple[p.Argument, np.ndarray]] = []
        for argument, number in zip(kernel.arguments, buffers, strict=True):
            raw = self.bytes_of(number)
            if argument.role == "input":
                i = _value_of(argument)
                values[i], places[i] = _typed(raw.copy(), i.shape), raw
            else:
                assert self.may_write(number), f"{kernel.name} writes it"
                if argument.updates is not None:
                    values[argument.updates] = _typed(raw.copy(), argument.updates.shape)
                written.append((argument, raw))
        self._check_overlaps(fusion, places, written)
        machine = interpreter.Interpreter()
        for i in fusion.instructions:
            if i.opcode == "get-tuple-element":
                values[i] = values[i.operands[0]][i.index]
                continue
            missing = [o.name for o in arrays(i) if o not in values]
            assert not missing, f"{kernel.name}: {i.name} needs {missing}, neither inside nor an input"
            values[i] = machine.evaluate(i, [values[o] for o in i.operands])
        for argument, raw in written:
            if argument.role == "output":
                raw[...] = _raw(np.ascontiguousarray(values[_value_of(argument)]))
            elif argument.role == "scratch":
                raw[...] = GARBAGE

    def _check_overlaps(
        self, fusion: p.Fusion, places: dict[Instruction, np.ndarray], written: list[tuple[p.Argument, np.ndarray]]
    ) -> None:
        """Outputs and scratch do not overlap; an output overlaps an input only if that is read at no other index."""
        for n, (a, raw) in enumerate(written):
            for b, other in written[:n]:
                assert not _overlap(raw, other), f"{fusion.name} writes {a} over {b}"
            for i, place in places.items():
                if not _overlap(raw, place):
                    continue
                assert a.role == "output" and not _partly_overlap(raw, place), f"{fusion.name}: {i.name} is overwritten"
                if fusion.kind == "update" and fusion.hero and _updates_in_place(fusion, fusion.hero, i):
                    continue
                assert fusion.kind in ("loop", "dot", "convolution"), f"{fusion.name} overwrites {i.name}"
                after = _needs(fusion, _value_of(a), i)  # it is stored after the other was read
                assert after or len(fusion.outputs) == 1, f"{fusion.name} overwrites {i.name}"
                assert _read_in_place(fusion, i), f"{fusion.name} reads {i.name} at other indices than it writes"


def _value_of(argument: p.Argument) -> Instruction:
    """The instruction that an input or output is the value of."""
    assert argument.instruction is not None
    return argument.instruction


def _updates_in_place(fusion: p.Fusion, hero: Instruction, value: Instruction) -> bool:
    """Whether an update of a slice reads a value only where it writes."""
    return reads_where_it_writes(hero, set(fusion.instructions), lambda i: i is value)


def _needs(fusion: p.Fusion, result: Instruction, value: Instruction) -> bool:
    """Whether a result is computed from a value."""
    needed = {result}
    for i in reversed(fusion.instructions):
        if i in needed:
            needed.update(arrays(i))
    return value in needed


def _read_in_place(fusion: p.Fusion, value: Instruction) -> bool:
    """Whether all paths from a value to the output of a loop go through elementwise operations of its dimensions."""
    from refxla.ir.op_table import ELEMENTWISE, ROWS

    here = {value}
    for i in fusion.instructions:
        if any(o in here for o in i.operands):
            elementwise = ROWS[i.opcode].op_class == ELEMENTWISE and i.shape.dimensions == value.shape.dimensions
            if not elementwise:
                return False
            here.add(i)
    return True


def _overlap(a: np.ndarray, b: np.ndarray) -> bool:
    return bool(a.size and b.size and np.shares_memory(a, b))


def _partly_overlap(a: np.ndarray, b: np.ndarray) -> bool:
    same = a.size == b.size and a.__array_interface__["data"] == b.__array_interface__["data"]
    return _overlap(a, b) and not same


def _raw(array: Any) -> np.ndarray:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _typed(raw: np.ndarray, shape: Any) -> np.ndarray:
    return np.asarray(raw.view(shape.element_type.dtype).reshape(shape.dimensions))


def run(module: Module, arguments: list[np.ndarray], without: tuple[str, ...] = ()) -> tuple[np.ndarray, ...]:
    """Plans a module and runs the plan on flat arguments; returns the flat results."""
    with np.errstate(all="ignore"):
        return Simulator(plan(module, without).plan, list(arguments)).run()


__all__ = ["EndlessLoop", "Simulator", "arrays", "emit", "plan", "run", "with_donations"]
