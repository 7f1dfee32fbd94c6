"""The order of computation in a fusion around reduces: the levels of its reduces, and the pass that computes each
output.

Reduces of one fusion have operands of the same dimensions and reduce the same ones. A reduce may depend on another one
(the sum of a softmax depends on its maximum), so the operand is read once for each *level* of reduces, and once more
for outputs as large as the operand that depend on a reduce.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from refxla_spec.errors import CompilerError
from refxla_spec.module import Instruction

from ...ir.op_table import ELEMENTWISE, ROWS
from ...ir.plan import Fusion

EXPENSIVE_FLOPS = 6  # of an element, from which on an operation counts as expensive
LANES_FLOPS = 20  # of an element with such an operation, up to which all lanes are computed together
VECTORS_FLOPS = 200  # up to which several vectors of lanes are
_ELEMENTWISE = frozenset(o for o, row in ROWS.items() if row.op_class == ELEMENTWISE)
_EXPENSIVE = frozenset(o for o in _ELEMENTWISE if ROWS[o].flops >= EXPENSIVE_FLOPS)
_EXPENSIVE |= {o for o, row in ROWS.items() if row.costly}


@dataclass(frozen=True)
class Dataflow:
    """The reduces of a fusion by level, and its outputs by what they depend on.

    `dimensions` are those of the reduces' operands, `reduced` and `kept_dimensions` the numbers of those that are
    reduced and not. `levels` has the length of the longest chain of reduces before each member; `reduces[n]` are those
    of level n + 1. Outputs on the operand's space need no reduce (`elementwise_outputs`) or some (`epilogue_outputs`);
    `results` are outputs with one element for each result of a reduce.
    """

    fusion: Fusion
    dimensions: tuple[int, ...]
    reduced: tuple[int, ...]
    kept_dimensions: tuple[int, ...]
    levels: Mapping[Instruction, int]
    reduces: tuple[tuple[Instruction, ...], ...]
    elementwise_outputs: tuple[Instruction, ...]
    epilogue_outputs: tuple[Instruction, ...]
    results: tuple[Instruction, ...]

    @property
    def kept_sizes(self) -> tuple[int, ...]:
        """The dimensions of a reduce's result."""
        return tuple(self.dimensions[d] for d in self.kept_dimensions)

    @property
    def size(self) -> int:
        """The number of elements of a reduce's operand."""
        return prod(self.dimensions)

    @property
    def reads_operand_again(self) -> bool:
        """Whether the operand is read more than once."""
        return len(self.reduces) > 1 or bool(self.epilogue_outputs)

    @property
    def has_expensive_members(self) -> bool:
        """Whether computing any member takes more than a few operations."""
        return any(i.opcode in _EXPENSIVE for i in self.fusion.instructions)

    def is_expensive(self, i: Instruction) -> bool:
        """Whether computing an element of the instruction takes more than a few operations."""
        return any(m.opcode in _EXPENSIVE for m in self._computed_by(i))

    def fits_registers(self, i: Instruction) -> bool:
        """Whether an element takes so few operations that all lanes can be computed in registers at once."""
        return not self.is_expensive(i) or self._flops_of_functions(i) <= LANES_FLOPS

    def is_function(self, i: Instruction) -> bool:
        """Whether an element takes so few elementwise operations that several vectors can be interleaved."""
        return self._flops_of_functions(i) <= VECTORS_FLOPS

    def _flops_of_functions(self, i: Instruction) -> float:
        """The flops of an element; infinite if it takes expensive operations that are not elementwise."""
        members = self._computed_by(i)
        if not {m.opcode for m in members} & _EXPENSIVE <= _ELEMENTWISE:
            return math.inf
        return sum(ROWS[m.opcode].flops for m in members if m.opcode in _ELEMENTWISE)

    def _computed_by(self, i: Instruction) -> set[Instruction]:
        """The members on the operand's index space on which one element of the instruction depends."""
        members, visited, waiting = set(self.fusion.instructions), set(), [i]
        while waiting:
            m = waiting.pop()
            if m in visited or m not in members or m.opcode == "reduce" or m.shape.size < self.size:
                continue
            visited.add(m)
            waiting += m.operands
        return visited


def inputs_and_initial_values(reduce: Instruction) -> tuple[tuple[Instruction, ...], tuple[Instruction, ...]]:
    """The operands of a reduce: the arrays that it reduces, and their initial values."""
    half = len(reduce.operands) // 2
    return tuple(reduce.operands[:half]), tuple(reduce.operands[half:])


def dataflow(fusion: Fusion) -> Dataflow:
    """The dataflow of a fusion. Raises CompilerError where its reduces or outputs do not belong together."""
    reduces = [i for i in fusion.instructions if i.opcode == "reduce"]
    first = reduces[0]
    dimensions, reduced = first.operands[0].shape.dimensions, _reduced(first)
    for r in reduces:
        if (r.operands[0].shape.dimensions, _reduced(r)) != (dimensions, reduced):
            raise CompilerError(f"{r.name} and {first.name} reduce different dimensions; part them")
    kept_dims = tuple(d for d in range(len(dimensions)) if d not in reduced)
    levels = _levels(fusion)
    by_level = tuple(tuple(r for r in reduces if levels[r] == n) for n in range(1, 1 + max(levels[r] for r in reduces)))
    size, kept_size = prod(dimensions), prod(dimensions[d] for d in kept_dims)
    elementwise: list[Instruction] = []
    epilogue: list[Instruction] = []
    results: list[Instruction] = []
    for o in fusion.outputs:
        if o.shape.size == kept_size and (levels[o] > 0 or kept_size != size):
            results.append(o)
        elif o.shape.size == size:
            (epilogue if levels[o] else elementwise).append(o)
        else:
            raise CompilerError(f"{o.name} {o.shape} is neither as large as the reduce's operand nor its result")
    return Dataflow(
        fusion, dimensions, reduced, kept_dims, levels, by_level, tuple(elementwise), tuple(epilogue), tuple(results)
    )


def _reduced(reduce: Instruction) -> tuple[int, ...]:
    return tuple(sorted(reduce.attributes["dimensions"]))


def _levels(fusion: Fusion) -> dict[Instruction, int]:
    levels: dict[Instruction, int] = {}
    for i in fusion.instructions:
        before = max((levels.get(o, 0) for o in i.operands), default=0)
        levels[i] = before + (i.opcode == "reduce")
    return levels
