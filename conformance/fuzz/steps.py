"""A program in single steps: each executed instruction, on its operands there, as a case of its own.

The error of a program's result may come from one instruction, or from how a compiler combines several. Each instruction
runs on a target like the cases of the suite, and the known differences of the target (differences/) excuse it as there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

import numpy as np
from refxla_spec.compare import bits_equal
from refxla_spec.interpreter import Interpreter
from refxla_spec.module import Computation, Instruction, Module, order_computations, post_order
from refxla_spec.numerics import type_of
from refxla_spec.operation import make
from refxla_spec.types import Shape, Value, leaves

from ..cases import Case
from .generate import Sample
from .runs import nested

STEPPED = frozenset("while conditional call fusion".split())  # their computations are split into steps
WHOLE = frozenset("parameter constant tuple get-tuple-element".split()) | STEPPED  # these compute nothing
# Operations that only move numbers, so that a NaN is unchanged.
MOVES = frozenset(
    "bitcast broadcast concatenate constant copy dynamic-slice dynamic-update-slice gather get-tuple-element "
    "opt-barrier pad parameter reshape reverse select slice transpose tuple".split()
)
ITERATIONS = 3  # executions of an instruction that are examined


@dataclass(frozen=True)
class Step:
    """One execution of an instruction; `entry` is the instruction itself, or that of the entry computation in which it
    runs."""

    instruction: Instruction
    entry: Instruction
    operands: tuple[Value, ...]


def steps(sample: Sample) -> Iterator[Step]:
    """The executions of the instructions that compute something, in order, and a copy of each result."""
    module = sample.module
    owner: dict[Instruction, Instruction] = {}
    for i in module.entry.instructions:
        for inner in _inside(i):
            owner.setdefault(inner, i)
    latest: dict[Instruction, Value] = {}
    count: Counter[Instruction] = Counter()
    records: list[Step] = []

    def trace(i: Instruction, value: Value) -> None:
        latest[i] = value
        if i not in owner or i.opcode in WHOLE or count[i] == ITERATIONS:
            return
        count[i] += 1
        records.append(Step(i, owner[i], tuple(latest[o] for o in i.operands)))

    with np.errstate(all="ignore"):
        Interpreter(trace).run(module.entry, *nested(module, sample.arguments))
    yield from records
    for o in module.entry.root.operands if module.entry.root.opcode == "tuple" else [module.entry.root]:
        if o.shape.is_array:  # it may be an unchanged parameter
            result = replace(make("copy", o, name="result"), shape=_actual(o.shape, latest[o]))
            yield Step(result, o, (latest[o],))


def _inside(i: Instruction) -> Iterator[Instruction]:
    yield i
    if i.opcode in STEPPED:
        for computation in i.called:
            for inner in computation.instructions:
                yield from _inside(inner)


def needed(module: Module, leaf: int) -> set[Instruction]:
    """The instructions of the entry computation on which a leaf of its result depends."""
    root = module.entry.root
    if root.opcode == "tuple":
        root = [o for o in root.operands for _ in leaves(o.shape)][leaf]
    return set(post_order(root))


def cases(step: Step) -> Iterator[Case]:
    """The instruction with its operands as parameters; and, if some of them are known at compile time, with those as
    constants."""
    operands = list(dict.fromkeys(step.instruction.operands))
    values = [step.operands[step.instruction.operands.index(o)] for o in operands]
    yield _case(step.instruction, operands, values, ())
    constants = {o for o in operands if o.shape.is_array and _is_constant(o)}
    if constants:
        yield _case(step.instruction, operands, values, constants)


def sees_sign(step: Step) -> bool:
    """Whether the instruction's result changes if NaNs of computed operands, or every second one, change sign. The NaNs
    of arguments and constants keep theirs while they are only moved."""
    computed = [step.instruction is not step.entry or not _moved(o) for o in step.instruction.operands]
    if not any(c and _nans(v).any() for c, v in zip(computed, step.operands, strict=True)):
        return False
    with np.errstate(all="ignore"):
        original = Interpreter().evaluate(step.instruction, list(step.operands))
        changed = [
            Interpreter().evaluate(
                step.instruction,
                [_negated(v, each) if c else v for c, v in zip(computed, step.operands, strict=True)],
            )
            for each in (1, 2)
        ]
    return not all(bits_equal(original, c) for c in changed)


def _moved(i: Instruction) -> bool:
    """Whether an instruction of the entry computation returns arguments and constants unchanged."""
    return all(j.opcode in MOVES for j in post_order(i))


def _nans(value: Value) -> np.ndarray:
    if isinstance(value, tuple) or value is None or not type_of(value).is_float:
        return np.zeros((), bool)
    return np.asarray(np.isnan(value))


def _negated(value: Value, each: int) -> Value:
    """A value with the sign of its first NaN changed, and of every n-th one after it."""
    nans = _nans(value)
    if not nans.any():
        return value
    chosen = nans & ((np.cumsum(nans).reshape(nans.shape) - 1) % each == 0)
    return np.where(chosen, np.negative(value), value)


def whole(sample: Sample) -> Case:
    """The program as one case; it is about no operation in particular."""
    return Case(f"program/{sample.seed}", "program", "", str(sample.module), sample.arguments)


def _is_constant(i: Instruction) -> bool:
    return all(j.opcode != "parameter" and j.opcode not in STEPPED for j in post_order(i))


def _case(i: Instruction, operands: list[Instruction], values: list[Value], constants: Collection[Instruction]) -> Case:
    copies: dict[Instruction, Instruction] = {}
    inputs: list[Value] = []
    for n, (o, value) in enumerate(zip(operands, values, strict=True)):
        shape, name = _actual(o.shape.without_layout(), value), f"operand.{n}"
        if o in constants:  # at its actual size: a literal has no other
            copies[o] = Instruction(name, "constant", Shape.of(value), [], {"literal": value})
        else:
            copies[o] = Instruction(name, "parameter", shape, [], {"number": len(inputs)})
            inputs.append(value)
    body = [Instruction("result", i.opcode, i.shape.without_layout(), [copies[o] for o in i.operands], i.attributes)]
    if i.opcode == "rng-get-and-update-state":  # its result depends on how often it has run
        body = [replace(body[0], name="before", attributes={"delta": 1}), *body]
        body.append(make("tuple", *body, name="results"))
    root = body[-1]
    entry = Computation("main", [*copies.values(), *body], root)
    called = order_computations([*dict.fromkeys(_called(i)), entry])
    return Case(f"step/{i.opcode}", "step", i.opcode, str(Module("step", called, entry)), tuple(inputs))


def _actual(shape: Shape, value: Value) -> Shape:
    """A stated shape with the dynamic marks of a smaller value: a program may omit the mark of a size from
    set-dimension-size."""
    if shape.is_tuple:
        return Shape.tuple_of(*map(_actual, shape.elements, value))
    if not shape.is_array:
        return shape
    smaller = [n < d for n, d in zip(np.shape(value), shape.dimensions, strict=True)]
    marks = tuple(a or b for a, b in zip(shape.marks, smaller, strict=True))
    return replace(shape, dynamic=marks if any(marks) else ())


def _called(i: Instruction) -> Iterator[Computation]:
    for computation in i.called:
        for inner in computation.instructions:
            yield from _called(inner)
        yield computation
