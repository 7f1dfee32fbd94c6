"""A program while it grows: computations to which rules add instructions, each checked by its operation's own `infer`.

A rule (see growth/) takes a ProgramBuilder, the computation that grows, picks operands with `any` and `of`, and adds
instructions with `put`. One that breaks a constraint is not added: `Violation` ends the rule.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
from refxla_spec.errors import Error
from refxla_spec.module import Computation, Instruction, Module
from refxla_spec.operation import make, operation
from refxla_spec.types import ELEMENT_TYPES, ElementType, Shape, Value, leaves

from . import values

LARGEST = 300  # elements of a value
LARGER = 10_000  # of one in a program with LONGER_SIZES
WIDEST = 1 << 12  # of one created by wide rules
SIZES = (0, 1, 1, 2, 2, 3, 4, 5, 8, 17)  # of the dimensions of new values
LONGER_SIZES = (1, 2, 3, 33, 40, 65, 70, 128)  # in some programs: loops over so many elements take other paths
Dims = tuple[int, ...]


class Skip(Error):
    """A rule that cannot add anything here."""


@dataclass(frozen=True)
class Rule:
    """A way to grow: its name, how often it is taken, whether it creates other computations, and whether its results
    may be wide."""

    name: str
    weight: float
    grow: Callable[[ProgramBuilder], None]
    control: bool = False
    wide: bool = False


RULES: list[Rule] = []


def rule(
    weight: float = 1, control: bool = False, wide: bool = False
) -> Callable[[Callable[[ProgramBuilder], None]], Callable[[ProgramBuilder], None]]:
    """Enters a function into RULES."""

    def enter(grow: Callable[[ProgramBuilder], None]) -> Callable[[ProgramBuilder], None]:
        RULES.append(Rule(grow.__name__.strip("_"), weight, grow, control, wide))
        return grow

    return enter


@dataclass
class Program:
    """The state that the frames of one program share."""

    r: random.Random
    types: tuple[ElementType, ...]  # those that new values have
    closed: bool = False  # whether there must be no values of any other type
    weights: dict[str, float] = field(default_factory=dict)  # of rules, multiplied by their own
    sizes: Dims = SIZES
    largest: int = LARGEST  # elements of a value, except those of wide rules
    computations: list[Computation] = field(default_factory=list)
    reducers: dict[tuple[str, ...], Computation] = field(default_factory=dict)
    # of entry parameters, with tuples flattened
    arguments: dict[Instruction, list[np.ndarray]] = field(default_factory=dict)
    used: Counter[str] = field(default_factory=Counter)  # how often each rule added something
    count: int = 0
    work: int = 0  # multiply-adds of wide products

    def name(self, prefix: str = "v") -> str:
        self.count += 1
        return f"{prefix}.{self.count}"

    def reducer(self, opcode: str, element_type: ElementType, flipped: bool = False) -> Computation:
        """opcode(a, b), or opcode(b, a), on scalars; a comparison of them if the opcode is a direction."""
        key = (opcode, element_type.name, str(flipped))
        if key not in self.reducers:
            name = self.name(f"{opcode}.{element_type}")
            a, b = (_parameter(f"{name}.{n}", Shape(element_type), k) for k, n in enumerate("ab"))
            operands = (b, a) if flipped else (a, b)
            if len(opcode) == 2:
                root = make("compare", *operands, name=f"{name}.c", direction=opcode)
            else:
                root = make(opcode, *operands, name=f"{name}.c")
            self.reducers[key] = self.keep(Computation(name, [a, b, root], root))
        return self.reducers[key]

    def keep(self, computation: Computation) -> Computation:
        self.computations.append(computation)
        return computation


class ProgramBuilder:
    """One computation that grows. `depth` is how deep other computations may still be nested in it."""

    def __init__(self, program: Program, depth: int = 0, entry: bool = False, scalar: bool = False) -> None:
        self.program, self.r, self.depth, self.entry, self.scalar = program, program.r, depth, entry, scalar
        self.instructions: list[Instruction] = []
        self.pool: list[Instruction] = []  # the arrays among them that rules may use
        self.wide: list[Instruction] = []  # those with more elements than others, which only wide rules may use
        self.limit = program.largest
        self.parameters: list[Instruction] = []

    # -- adding -------------------------------------------------------------------------------------------------------

    def put(self, opcode: str, *operands: Instruction, shape: Shape | None = None, **attributes: Any) -> Instruction:
        """Creates an instruction and adds it. Raises Violation if that is invalid, Skip if it is too large."""
        instruction = make(opcode, *operands, name=self.program.name(), shape=shape, **attributes)
        if shape is not None:
            operation(opcode).infer(instruction, *(o.shape for o in operands))  # this checks the given shape
        if instruction.shape.is_array and prod(instruction.shape.dimensions) > self.limit:
            raise Skip(f"{instruction.shape} is too large")
        return self._add(instruction)

    def _add(self, instruction: Instruction) -> Instruction:
        self.instructions.append(instruction)
        if instruction.shape.is_array:
            (self.pool if prod(instruction.shape.dimensions) <= self.program.largest else self.wide).append(instruction)
        return instruction

    def elements(self, instruction: Instruction) -> list[Instruction]:
        """The elements of a tuple, each by a get-tuple-element."""
        return [self.put("get-tuple-element", instruction, index=n) for n in range(len(instruction.shape.elements))]

    def parameter(self, shape: Shape, value: Value = None) -> Instruction:
        """A new parameter; for the entry, with its argument (by default a random one)."""
        parameter = _parameter(self.program.name("p"), shape, len(self.parameters))
        self._add(parameter)
        self.parameters.append(parameter)
        if self.entry:
            drawn = [values.array(self.r, s.element_type, s.dimensions) for s in leaves(shape)]
            self.program.arguments[parameter] = drawn if value is None else flatten(value)
        return parameter

    def constant(self, value: np.ndarray) -> Instruction:
        return self.put("constant", shape=Shape.of(value), literal=value)

    def number(self, element_type: ElementType, number: float) -> Instruction:
        """A scalar constant."""
        return self.constant(np.asarray(number).astype(element_type.dtype))

    def full(self, shape: Shape, scalar: Instruction) -> Instruction:
        """A scalar broadcast to dimensions."""
        wide = Shape(scalar.shape.element_type, shape.dimensions)
        return self.put("broadcast", scalar, shape=wide, dimensions=()) if shape.rank else scalar

    # -- choosing ---------------------------------------------------------------------------------------------------

    def flip(self, chance: float = 0.5) -> bool:
        return self.r.random() < chance

    def some(self, numbers: range) -> tuple[int, ...]:
        """A random subset, in order."""
        return tuple(n for n in numbers if self.flip())

    def type(self, *kinds: str) -> ElementType:
        """One of the program's types, of these kinds if any are named and it has such a type. Raises Skip if not."""
        types = [t for t in self.program.types if not kinds or t.kind in kinds]
        if not types:
            raise Skip(f"no type of kind {kinds}")
        return self.r.choice(types)

    def any_type(self, *names: str) -> ElementType:
        """One of the program's types, or as often one of these, unless it is closed to others."""
        return self.type() if self.program.closed or self.flip() else ELEMENT_TYPES[self.r.choice(names)]

    def other_types(self) -> None:
        """Raises Skip if the program must only have values of its own types."""
        if self.program.closed:
            raise Skip("closed to other types")

    def size(self) -> int:
        """A random size of a dimension."""
        return self.r.choice(self.program.sizes)

    def dims(self) -> Dims:
        """Random dimensions of a new value."""
        if self.scalar:
            return ()
        if self.flip(0.1):  # equally large along each dimension, so that any can take the place of another
            return (self.r.choice((2, 3)),) * self.r.choice((2, 3))
        dims = tuple(self.size() for _ in range(self.r.choice((0, 1, 1, 2, 2, 2, 3, 4))))
        return dims if prod(dims) <= self.program.largest else dims[:1]

    def any(self, *kinds: str, least: int = 0, empty: bool = True) -> Instruction:
        """A value: of one of these kinds, with at least `least` dimensions, and without elements only if `empty`.

        Later values are taken more often, so that programs grow deep. Raises Skip if there is no such value.
        """
        candidates = [v for v in self.pool if (not kinds or v.shape.element_type.kind in kinds)
                 and v.shape.rank >= least and (empty or v.shape.size)]  # fmt: skip
        if not candidates or self.flip(0.05):
            dims = self.dims()
            while len(dims) < least:
                dims = (*dims, self.r.choice((1, 2, 3, 5)))
            if not empty:
                dims = tuple(n or 2 for n in dims)
            if prod(dims) > self.program.largest or (self.scalar and least):
                raise Skip("too large")
            return self.of(self.type(*kinds), dims)
        return candidates[max(self.r.randrange(len(candidates)), self.r.randrange(len(candidates)))]

    def of(self, element_type: ElementType, dims: Dims, fresh: float = 0.2) -> Instruction:
        """A value of that type and dimensions: an existing one, or with probability `fresh` a new one."""
        shape = Shape(element_type, tuple(dims))
        candidates = [v for v in self.pool if v.shape.without_layout() == shape]
        if candidates and not self.flip(fresh):
            return self.r.choice(candidates)
        if prod(dims) > self.program.largest:
            raise Skip(f"{shape} is too large")
        choice = self.r.randrange(8)
        if choice == 0 and dims and element_type.kind != "pred":
            return self.put("iota", shape=shape, iota_dimension=self.r.randrange(len(dims)))
        if choice <= 2 and shape.size <= 40:
            return self.constant(values.array(self.r, element_type, tuple(dims)))
        if self.entry and choice != 3:
            return self.parameter(shape)
        mode = self.r.choice(("small", "special"))
        return self.full(shape, self.constant(values.array(self.r, element_type, (), mode)))

    def like(self, a: Instruction) -> Instruction:
        """A value of the type and dimensions of another."""
        return self.of(a.shape.element_type, a.shape.dimensions)

    def index(self) -> Instruction:
        """A scalar index: of s32 or another integer type, often out of range."""
        integers = [t for t in self.program.types if t.is_integer and t.bits >= 8]
        element_type = self.r.choice(integers) if integers and self.flip(0.3) else ELEMENT_TYPES["s32"]
        if self.flip(0.5):
            return self.of(element_type, ())
        low = 0 if element_type.kind == "unsigned" else -2
        return self.number(element_type, self.r.randrange(low, 7))

    def indices(self, dims: Dims, below: int) -> Instruction:
        """An array of indices, mostly in range."""
        s32 = ELEMENT_TYPES["s32"]
        if self.flip(0.3) or prod(dims) > self.program.largest:
            return self.of(s32, dims)
        low, high = (0, max(1, below)) if self.flip(0.7) else (-3, below + 3)
        drawn = np.array([self.r.randrange(low, high) for _ in range(prod(dims))], np.int32).reshape(dims)
        return self.parameter(Shape.of(drawn), drawn) if self.entry and self.flip() else self.constant(drawn)

    # -- growing ------------------------------------------------------------------------------------------------------

    def grow(self, steps: int) -> None:
        """Applies `steps` random rules; those that find nothing to do count, too."""
        rules = [q for q in RULES if self.depth or not q.control]
        chances = [q.weight * self.program.weights.get(q.name, 1) for q in rules]
        for chosen in self.r.choices(rules, chances, k=steps):
            before = len(self.instructions)
            self.limit = max(WIDEST, self.program.largest) if chosen.wide else self.program.largest
            try:
                chosen.grow(self)
            except Error:
                continue  # Skip, or Violation: instructions that were added before it stay, and are valid
            self.program.used[chosen.name] += len(self.instructions) > before

    def finish(self, name: str, roots: list[Instruction], as_tuple: bool) -> Computation:
        """The computation that returns these values, kept in the program."""
        if len(roots) == 1 and not as_tuple:
            root = roots[0] if roots[0].opcode != "parameter" else self.put("copy", roots[0])
        else:
            root = self.put("tuple", *roots)
        return self.program.keep(Computation(self.program.name(name), self.instructions, root))

    def inner(self, shapes: list[Shape], steps: int, scalar: bool = False) -> ProgramBuilder:
        """A builder of a computation with parameters of these shapes, grown."""
        builder = ProgramBuilder(self.program, self.depth - 1, scalar=scalar or self.scalar)
        for shape in shapes:
            p = builder.parameter(shape)
            if shape.is_tuple:
                builder.elements(p)
        builder.grow(steps)
        return builder


def flatten(value: Value) -> list[np.ndarray]:
    """The arrays of a value, with tuples flattened."""
    return [a for v in value for a in flatten(v)] if isinstance(value, tuple) else [value]


def _parameter(name: str, shape: Shape, number: int) -> Instruction:
    return Instruction(name, "parameter", shape, [], {"number": number})


def module_of(program: Program, entry: Computation) -> Module:
    """The module with only those computations that are called."""
    called: set[Computation] = {entry}
    for c in reversed(program.computations):
        if c in called:
            called.update(d for i in c.instructions for d in i.called)
    return Module("fuzz", [c for c in program.computations if c in called], entry)
