"""The value of any instruction at symbolic indices, as C: how producers are fused into whatever reads them.

`ElementalIrEmitter.value(instruction, indices, block)` emits the statements that compute one element and returns the C
variable (or literal) that holds it, in the register type of its element type. Each operation has one rule: a generator
that yields (operand, indices) for each element it needs, is sent the variables, and returns its own. The rules run on a
stack of their own, so that a chain of a hundred thousand instructions is no problem.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from refxla_spec.module import Instruction

from ..analysis import sign_analysis
from ..analysis.access_patterns import AccessPattern, Record
from ..analysis.element_rules import Rule, run_rule
from ..analysis.index_expression import Index, linearize
from ..analysis.index_maps import Indices
from ..device.description import Target
from ..ir.op_table import ELEMENTWISE, class_of, flops_of
from ..ir.plan import Fusion
from . import elemental_rules, prelude, scalar
from .c_block import Block
from .element_builder import ElementBuilder, type_name
from .index_printer import c_of

COMPUTED_PER_READ = 8  # operations of a loop for each array that it reads, from which on they are many
LANES = 16  # elements from which on it matters that a loop becomes a vector's


class ElementalIrEmitter(ElementBuilder):
    """Elements of the members of a fusion, computed on demand from what is in memory.

    `arguments` gives the C pointer of each instruction that is read from memory or written to it; an instruction among
    `fusion.outputs` that the fusion itself computes is written, all others are read. `fast_paths` are the members whose
    function of a whole array was called (loops/fast_path_math.py).
    """

    def __init__(self, fusion: Fusion, target: Target, arguments: dict[Instruction, str]) -> None:
        super().__init__(fusion)
        self.target = target
        written = self.members & set(fusion.outputs)
        self._outputs = {i: p for i, p in arguments.items() if i in written}
        self._inputs = {i: p for i, p in arguments.items() if i not in written}
        self._bound: dict[tuple[Instruction, Indices], str | tuple[str, ...]] = {}
        self.fast_paths: set[Instruction] = set()
        self._gathered: dict[Instruction, str] = {}
        self.lines_ahead = 0
        self._writes = True
        self._single = False
        self._computes_much = target.capabilities.loop_vectorization and _computes_much(fusion)

    def value(self, instruction: Instruction, indices: Sequence[Index], block: Block) -> str:
        """The C variable or literal with that element (a tuple of them for an instruction with several results).

        `indices` has one index for each dimension and must lie inside. Raises UnsupportedError for an operation that
        has no elementwise form.
        """

        def request() -> Rule:
            return (yield instruction, tuple(indices))

        element: str = self.run(request(), block)
        return element

    def run(self, rule: Rule, block: Block) -> Any:
        """What a rule returns: it is sent the element for each (instruction, indices) that it yields."""
        return run_rule(
            rule,
            lambda instruction, indices: self._rule(instruction, indices, block),
            lambda request: self._recalled_value(request, block),
            block.remember,
        )

    def scalar(self, i: Instruction, args: Sequence[str], block: Block) -> str:
        """The C variable that holds an elementwise operation on C variables; one of them, if it is that."""
        form = sign_analysis.form(i, self.members)
        in_doubles = scalar.function_in_doubles(form, [type_name(o) for o in i.operands], type_name(i))
        if in_doubles and self._has_vectors(i):
            return self.assign(type_name(i), f"{in_doubles}({', '.join(args)})", block)
        alone = f"rx_{i.opcode}_alone_{type_name(i)}"
        if alone in prelude.names() and self._is_alone():
            return self.assign(type_name(i), f"{alone}({', '.join(args)})", block)
        return super().scalar(i, args, block)

    def _is_alone(self) -> bool:
        """Whether single numbers are computed: what branches are then predicted, and spare what they skip."""
        if not self.target.capabilities.loop_vectorization:  # functions have one form alone
            return False
        if self._single:
            return True
        kind, hero = self.fusion.kind, self.fusion.hero
        if kind == "update" and hero is not None:
            return hero.operands[1].shape.size == 1
        return kind == "loop" and all(o.shape.size == 1 for o in self.fusion.outputs)

    def _has_vectors(self, i: Instruction) -> bool:
        """Whether vectors of doubles are quicker than numbers one by one."""
        vectors = self.target.capabilities.loop_vectorization and self.target.fp64
        return vectors and i.shape.size >= LANES and not divides_by_constant(i)

    def bind(self, instruction: Instruction, indices: Sequence[Index], cvar: str | tuple[str, ...]) -> None:
        """From now on that element is the C variable `cvar`, which must be in scope wherever it is asked for.

        A private C lvalue in register type, such as "row[j]", serves as well.
        """
        self._bound[instruction, tuple(indices)] = cvar

    def store(self, instruction: Instruction, indices: Sequence[Index], block: Block) -> None:
        """Writes that element to the instruction's output."""
        value = self.value(instruction, indices, block)
        if self.lines_ahead:
            return
        if not self._writes:
            return
        position = linearize(indices, instruction.shape.dimensions)
        place = self._gathered.get(instruction) or f"{self._outputs[instruction]}[{c_of(position)}]"
        block.line(scalar.store_in_loop(type_name(instruction), place, value, instruction.opcode))

    def gather(self, instruction: Instruction, place: str | None) -> None:
        """From now on `store` writes that output to a private C lvalue, None: to memory."""
        if place is None:
            del self._gathered[instruction]
        else:
            self._gathered[instruction] = place

    @contextmanager
    def prefetching(self, lines: int) -> Iterator[None]:
        """Inside, what lies at places that come from memory is not loaded, but so many lines of it are fetched ahead;
        nothing is stored, and what is computed is good for nothing else."""
        self.lines_ahead = lines
        try:
            yield
        finally:
            self.lines_ahead = 0

    @contextmanager
    def unwritten(self) -> Iterator[None]:
        """Inside, elements are computed, but not stored."""
        self._writes = False
        try:
            yield
        finally:
            self._writes = True

    @contextmanager
    def single_numbers(self) -> Iterator[None]:
        """Inside, each element is computed outside of the loops that use it."""
        self._single = True
        try:
            yield
        finally:
            self._single = False

    def adopt(self, record: Record, pattern: AccessPattern, block: Block) -> Record:
        """What an analysis has found, in terms of variables of `block`: the start indices in it are read here.

        The indices that the analysis was given must be in scope.
        """
        return record.mapped(lambda index: self.adopt_index(index, pattern, block))

    def adopt_index(self, index: Index, pattern: AccessPattern, block: Block) -> Index:
        """An index that an analysis has come by, in terms of variables of `block`; see `adopt`."""
        names, waiting = set(), list(index.variables)
        while waiting:
            name = waiting.pop()
            if name in pattern.starts and name not in names:
                names.add(name)
                waiting += (v for x in pattern.starts[name].indices for v in x.variables)
        values: dict[str, Index] = {}
        for name, start in pattern.starts.items() if names else ():  # each after those that its indices are made of
            if name in names:
                indices = tuple(x.substitute(values) for x in start.indices)
                values[name] = self.run(self.start(replace(start, indices=indices), block), block)
        return index.substitute(values)

    def output(self, instruction: Instruction) -> str:
        """The C pointer to that output."""
        return self._outputs[instruction]

    def input(self, instruction: Instruction) -> str:
        """The C pointer to that input."""
        return self._inputs[instruction]

    def is_computed(self, instruction: Instruction) -> bool:
        """Whether elements of that instruction take more than a load or a literal."""
        return instruction not in self._inputs and instruction.opcode not in ("constant", "iota", "broadcast")

    def address(self, instruction: Instruction, indices: Sequence[Index]) -> str | None:
        """Where in memory that element is, as C; None where it is computed."""
        if instruction not in self._inputs:
            return None
        return f"{self._inputs[instruction]} + ({c_of(linearize(indices, instruction.shape.dimensions))})"

    def _recalled_value(self, request: tuple[Instruction, Indices], block: Block) -> str | tuple[str, ...] | None:
        bound = self._bound.get(request)
        return bound if bound is not None else block.recall(request)

    def _rule(self, instruction: Instruction, indices: Indices, block: Block) -> Rule:
        if instruction.shape.is_array and not instruction.shape.size:
            return self._absent(instruction, block)
        if instruction in self._inputs:
            return self._load(instruction, indices, block)
        return elemental_rules.rule(self, instruction, indices, block)

    def _absent(self, instruction: Instruction, block: Block) -> Rule:
        """An element of an array that has none: 0, and no memory is read. A gather may ask for it."""
        return self.literal(type_name(instruction), np.zeros((), instruction.shape.element_type.dtype), block)
        yield  # a rule that asks for nothing is a generator, too

    def _load(self, instruction: Instruction, indices: Indices, block: Block) -> Rule:
        position = linearize(indices, instruction.shape.dimensions)
        name = type_name(instruction)
        if self.lines_ahead and position.variables & self.starts:
            block.line(
                f"rx_prefetch((ulong)({self._inputs[instruction]} + ({c_of(position)})), 64, {self.lines_ahead});"
            )
            return self.assign(name, scalar.literal(name, 0), block)
        place = f"{self._inputs[instruction]}[{c_of(position, self._computes_much)}]"
        loaded = self.assign(name, scalar.load_in_loop(name, place), block)
        return loaded
        yield


def _computes_much(fusion: Fusion) -> bool:
    """Whether a loop computes so much of what it reads that vectors pay whose elements are read from many places."""
    if fusion.kind != "loop":
        return False
    members = [i for i in fusion.instructions if class_of(i) == ELEMENTWISE and i.shape.is_array and i.shape.size > 1]
    return sum(map(flops_of, members)) >= COMPUTED_PER_READ * max(1, len(fusion.inputs))


def divides_by_constant(i: Instruction) -> bool:
    """Whether the second operand of an operation on integers is one number that is known: the device's compiler divides
    by such a number by multiplying."""
    if not i.shape.element_type.is_integer:
        return False
    divisor = i.operands[-1]
    while divisor.opcode in ("broadcast", "reshape"):
        divisor = divisor.operands[0]
    return divisor.opcode == "constant"
