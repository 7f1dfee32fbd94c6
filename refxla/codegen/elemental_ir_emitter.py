"""Writes the value of any instruction at symbolic indices as C. This is how producers are fused into their users.

`ElementalIrEmitter.value(instruction, indices, block)` emits the statements that compute one element and returns the C
variable (or literal) that holds it, in the register type of its element type. Each operation has one rule: a generator
that yields (operand, indices) for each element it needs, is sent the variables, and returns its own. The rules run on
an explicit stack, so that a chain of a hundred thousand instructions does not overflow Python's.
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
from ..analysis.index_expression import Atom, Index, linearize
from ..analysis.index_maps import Indices
from ..device.description import Target
from ..ir.merged_body import MOST_PROMOTED_BYTES
from ..ir.op_table import ELEMENTWISE, class_of, flops_of
from ..ir.plan import Fusion
from . import elemental_rules, prelude, scalar
from .c_block import Block
from .element_builder import ElementBuilder, type_name
from .index_printer import c_of

COMPUTED_PER_READ = 8  # operations for each array that a loop reads, from which on it computes much
MOST_SELECTED = 4  # elements of an array, up to which a loop selects one of them instead of gathering them
LANES = 16  # elements from which on vectorizing a loop matters


class ElementalIrEmitter(ElementBuilder):
    """Elements of a fusion's members, computed on demand from arrays in memory.

    `arguments` has the C pointer of each instruction that is read from memory or written to it: those among
    `fusion.outputs` that the fusion computes are written, all others are read. `fast_paths` has the members whose
    function was computed for a whole array (loops/fast_path_math.py).
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
        self._parts_alone: dict[Instruction, str] = {}
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
        """The result of a rule, which is sent the element for each (instruction, indices) that it yields."""
        return run_rule(
            rule,
            lambda instruction, indices: self._rule(instruction, indices, block),
            lambda request: self._recalled_value(request, block),
            block.remember,
        )

    def scalar(self, i: Instruction, args: Sequence[str], block: Block) -> str:
        """The C variable with the result of an elementwise operation on C variables; an operand itself if it is the
        result."""
        form = sign_analysis.form(i, self.members)
        in_doubles = scalar.function_in_doubles(form, [type_name(o) for o in i.operands], type_name(i))
        if in_doubles and self._has_vectors(i):
            return self.assign(type_name(i), f"{in_doubles}({', '.join(args)})", block)
        alone = f"rx_{i.opcode}_alone_{type_name(i)}"
        if alone in prelude.names() and self._is_alone():
            return self.assign(type_name(i), f"{alone}({', '.join(args)})", block)
        return super().scalar(i, args, block)

    def _is_alone(self) -> bool:
        """Whether single numbers are computed, so that branches are predicted and save the work that they skip."""
        if not self.target.capabilities.loop_vectorization:  # functions have only one form
            return False
        if self._single:
            return True
        kind, hero = self.fusion.kind, self.fusion.hero
        if kind == "update" and hero is not None:
            return hero.operands[1].shape.size == 1
        return kind == "loop" and all(o.shape.size == 1 for o in self.fusion.outputs)

    def _has_vectors(self, i: Instruction) -> bool:
        """Whether vectors of doubles are faster than scalars."""
        vectors = self.target.capabilities.loop_vectorization and self.target.fp64
        return vectors and i.shape.size >= LANES and not divides_by_constant(i)

    def bind(self, instruction: Instruction, indices: Sequence[Index], cvar: str | tuple[str, ...]) -> None:
        """Binds an element to the C variable `cvar`, which must be in scope wherever the element is requested.

        A private C lvalue of the register type, such as "row[j]", will do as well.
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
        """Redirects `store` of an output to a private C lvalue, or with None back to memory."""
        if place is None:
            del self._gathered[instruction]
        else:
            self._gathered[instruction] = place

    @contextmanager
    def prefetching(self, lines: int) -> Iterator[None]:
        """Within this context, elements whose address depends on memory are not loaded, but so many lines of each are
        prefetched. Nothing is stored, and computed values are used for nothing else."""
        self.lines_ahead = lines
        try:
            yield
        finally:
            self.lines_ahead = 0

    @contextmanager
    def unwritten(self) -> Iterator[None]:
        """Within this context, elements are computed, but not stored."""
        self._writes = False
        try:
            yield
        finally:
            self._writes = True

    @contextmanager
    def single_numbers(self) -> Iterator[None]:
        """Within this context, each element is computed outside of the loops that use it."""
        self._single = True
        try:
            yield
        finally:
            self._single = False

    def adopt(self, record: Record, pattern: AccessPattern, block: Block) -> Record:
        """The result of an analysis in terms of variables of `block`: its start indices are read here.

        The indices that were given to the analysis must be in scope.
        """
        return record.mapped(lambda index: self.adopt_index(index, pattern, block))

    def adopt_index(self, index: Index, pattern: AccessPattern, block: Block) -> Index:
        """An index from an analysis in terms of variables of `block`; see `adopt`."""
        names, waiting = set(), list(index.variables)
        while waiting:
            name = waiting.pop()
            if name in pattern.starts and name not in names:
                names.add(name)
                waiting += (v for x in pattern.starts[name].indices for v in x.variables)
        values: dict[str, Index] = {}
        for name, start in pattern.starts.items() if names else ():  # each after those on which its indices depend
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
        """Whether an element of that instruction takes more than a load or a literal."""
        return instruction not in self._inputs and instruction.opcode not in ("constant", "iota", "broadcast")

    def address(self, instruction: Instruction, indices: Sequence[Index]) -> str | None:
        """The address of an element, as C; None where it is computed."""
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
        """An element of an empty array, which a gather may request: 0, without a load."""
        return self.literal(type_name(instruction), np.zeros((), instruction.shape.element_type.dtype), block)
        yield  # makes this a generator, as every rule is, though it requests nothing

    def _load(self, instruction: Instruction, indices: Indices, block: Block) -> Rule:
        position = linearize(indices, instruction.shape.dimensions)
        name = type_name(instruction)
        if self.lines_ahead and position.variables & self.starts:
            block.line(
                f"rx_prefetch((ulong)({self._inputs[instruction]} + ({c_of(position)})), 64, {self.lines_ahead});"
            )
            return self.assign(name, scalar.literal(name, 0), block)
        place = f"{self._inputs[instruction]}[{c_of(position, self._computes_much)}]"
        if part := self._part_alone(instruction):
            return self.assign(name, f"rx_load_{part}_{name}(&{place})", block)
        if choices := self._choices(instruction, position):
            chosen = {atom for atom, _ in choices}
            rest = Index(tuple(t for t in position.terms if t[0] not in chosen), position.constant)
            return self._selected(instruction, rest, choices, block)
        loaded = self.assign(name, scalar.load_in_loop(name, place), block)
        return loaded
        yield

    def _choices(self, instruction: Instruction, position: Index) -> list[tuple[Atom, int]]:
        """The quotients and remainders in a position in a small array by which one of a few elements is selected, with
        their factors; none if it is loaded from that position.

        clang would gather the elements of a vector, one by one on most processors. Those that are selected are hoisted
        out of the loop, and the masks are the same for all arrays that are read at such an index.
        """
        size = instruction.shape.size
        if not self.target.capabilities.loop_vectorization or size > MOST_SELECTED:
            return []
        if position.low < 0 or position.high >= size:  # only a test that surrounds the load keeps it in bounds
            return []
        chosen: list[tuple[Atom, int]] = []
        count, inner = 1, frozenset[str]()
        # What changes most often first. Where others have other variables, an outer loop changes them.
        for atom, c in sorted(position.terms, key=lambda term: (term[0].step, abs(term[1]))):
            if not atom.operation or atom.low != 0 or count * (atom.high + 1) > MOST_SELECTED:
                continue
            if not chosen or not inner.isdisjoint(atom.index.variables):
                chosen.append((atom, c))
                count, inner = count * (atom.high + 1), inner | atom.index.variables
        return chosen

    def _selected(
        self, instruction: Instruction, rest: Index, choices: Sequence[tuple[Atom, int]], block: Block
    ) -> str:
        """The C variable with the element at rest + the sum of factor * atom."""
        name = type_name(instruction)
        if not choices:
            return self.assign(name, scalar.load_in_loop(name, f"{self._inputs[instruction]}[{c_of(rest)}]"), block)
        (atom, c), *others = choices
        element = self._selected(instruction, rest, others, block)
        for n in range(1, atom.high + 1):
            other = self._selected(instruction, rest + n * c, others, block)
            condition = f"{c_of(Index(((atom, 1),), 0))} >= {n}"
            element = self.assign(name, scalar.selection(name, condition, other, element), block)
        return element

    def _part_alone(self, instruction: Instruction) -> str:
        """The part, "real" or "imag", that the fusion reads of a complex array in global memory; "" where it reads
        both."""
        if not self.target.capabilities.loop_vectorization or type_name(instruction) != "c64":
            return ""
        if instruction.shape.bytes <= MOST_PROMOTED_BYTES:  # may be in private memory
            return ""
        if instruction not in self._parts_alone:
            opcodes = {i.opcode for i in self.fusion.instructions if instruction in i.operands}
            self._parts_alone[instruction] = opcodes.pop() if opcodes in ({"real"}, {"imag"}) else ""
        return self._parts_alone[instruction]


def _computes_much(fusion: Fusion) -> bool:
    """Whether a loop computes so much for each element that it reads that vectors pay even if their elements are
    gathered."""
    if fusion.kind != "loop":
        return False
    members = [i for i in fusion.instructions if class_of(i) == ELEMENTWISE and i.shape.is_array and i.shape.size > 1]
    return sum(map(flops_of, members)) >= COMPUTED_PER_READ * max(1, len(fusion.inputs))


def divides_by_constant(i: Instruction) -> bool:
    """Whether the second operand of an operation on integers is a constant: the device's compiler turns a division by
    it into a multiplication."""
    if not i.shape.element_type.is_integer:
        return False
    divisor = i.operands[-1]
    while divisor.opcode in ("broadcast", "reshape"):
        divisor = divisor.operands[0]
    return divisor.opcode == "constant"
